import Crypto
import Dispatch
public import Foundation

/// Hands a redirect from the process that the system opens it with to the process that waits for it, on the same machine.
///
/// The one that waits listens at a socket that only its user can reach, in a folder that only its user can enter. Its name
/// is a hash of the sign-in's state, so that the other one finds it by the redirect alone, and the redirect names no path.
public struct RedirectHandOver: Sendable {
    /// The most that is read from a connection, in bytes, and how long that may take, in milliseconds.
    private static let maximumSize = 64 * 1024
    private static let patience: Int32 = 2000

    private let directory: String

    /// Creates a hand-over through a folder. It is made when it is needed.
    /// - Parameter directory: Its path; short, because the name of a socket may have about a hundred characters.
    public init(directory: String) {
        self.directory = directory
    }

    /// The hand-over in the folder that this system has for such things: `$XDG_RUNTIME_DIR/authflow`.
    /// - Throws: ``AuthError`` with `user_agent_failed` when there is none.
    public init(environment: [String: String] = ProcessInfo.processInfo.environment) throws(AuthError) {
        let given = environment["XDG_RUNTIME_DIR"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        let usual = "/run/user/\(geteuid())"
        guard let folder = given ?? (FileManager.default.fileExists(atPath: usual) ? usual : nil) else {
            throw AuthError(
                .userAgentFailed,
                "XDG_RUNTIME_DIR is not set, so no other program can hand a redirect over. Set it to a folder of your own."
            )
        }
        self.init(directory: "\(folder)/authflow")
    }

    /// What became of a redirect that was handed over.
    public enum Outcome: String, Sendable {
        /// It was what somebody waited for.
        case taken
        /// Somebody waits, and this is not what they wait for.
        case refused
        /// Nobody waits.
        case nobody
    }

    /// Hands a redirect to the process that waits for it.
    /// - Throws: ``AuthError`` when the folder cannot be trusted.
    public func deliver(_ url: String) throws(AuthError) -> Outcome {
        guard FileManager.default.fileExists(atPath: directory) else { return .nobody }
        try PrivateFile.createDirectory(directory)
        removeLeftovers()
        let answer = url.split(whereSeparator: { $0 == "?" || $0 == "#" }).dropFirst().last ?? ""
        let state = FormURLEncoding.decode(answer)?["state"]
        // After a sign-out whatever arrives is the answer.
        for name in [state, ""] {
            guard let name, let descriptor = LocalSocket.connect(to: path(for: name)) else { continue }
            defer { close(descriptor) }
            LocalSocket.write(Array("\(url)\n".utf8), to: descriptor)
            let reply = LocalSocket.readLine(from: descriptor, maximumSize: 32, patience: Self.patience)
            return reply.flatMap(Outcome.init(rawValue:)) ?? .nobody
        }
        return .nobody
    }

    /// Waits for a redirect while `body` runs.
    /// - Parameters:
    ///   - state: The state of the sign-in; nil when whatever arrives is the answer.
    ///   - isAnswer: Whether a redirect is the one.
    ///   - body: Given the redirects that are, one at the most.
    /// - Throws: ``AuthError`` with `user_agent_failed` when nobody could hand anything over; what `body` throws.
    func listen<Return: Sendable>(
        for state: String?,
        isAnswer: @escaping @Sendable (_ url: String) -> Bool,
        _ body: (AsyncStream<String>) async throws -> Return
    ) async throws -> Return {
        try PrivateFile.createDirectory(directory)
        removeLeftovers()
        let path = path(for: state ?? "")
        let (redirects, redirect) = AsyncStream<String>.makeStream(bufferingPolicy: .bufferingOldest(1))
        let descriptor = try LocalSocket.listen(at: path)
        let queue = DispatchQueue(label: "redirect hand-over")
        let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        source.setEventHandler {
            let peer = accept(descriptor, nil, nil)
            guard peer >= 0 else { return }
            defer { close(peer) }
            let url = LocalSocket.readLine(from: peer, maximumSize: Self.maximumSize, patience: Self.patience)
            guard let url, isAnswer(url), case .enqueued = redirect.yield(url) else {
                return LocalSocket.write(Array("\(Outcome.refused.rawValue)\n".utf8), to: peer)
            }
            LocalSocket.write(Array("\(Outcome.taken.rawValue)\n".utf8), to: peer)
        }
        source.setCancelHandler {
            close(descriptor)
            unsafe unlink(path)
        }
        source.resume()
        defer {
            source.cancel()
            // The name is gone when this returns.
            queue.sync {}
        }
        return try await body(redirects)
    }

    private func path(for state: String) -> String {
        let hash = SHA256.hash(data: Array(state.utf8)).prefix(16)
        return "\(directory)/\(hash.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()).sock"
    }

    /// Removes the sockets of processes that were killed: nobody listens there any more.
    private func removeLeftovers() {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        where name.hasSuffix(".sock") {
            let path = "\(directory)/\(name)"
            if let descriptor = LocalSocket.connect(to: path) {
                close(descriptor)
            } else if errno == ECONNREFUSED {
                unsafe unlink(path)
            }
        }
    }
}

/// The calls of POSIX that a socket in the file system takes; Foundation has none.
private enum LocalSocket {
    static func listen(at path: String) throws(AuthError) -> Int32 {
        let descriptor = socket(AF_UNIX, stream, 0)
        guard descriptor >= 0 else { throw failure() }
        // On Linux the mode of a socket's name is that of its descriptor; nobody else can enter the folder meanwhile.
        guard fchmod(descriptor, 0o600) == 0 || errno == EINVAL,
            unsafe with(path, { unsafe bind(descriptor, $0, $1) }) == 0,
            unsafe chmod(path, 0o600) == 0, Foundation.listen(descriptor, 4) == 0
        else {
            let error = failure()
            close(descriptor)
            throw error
        }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        return descriptor
    }

    /// A connection; nil when nobody listens, and then `errno` says why.
    static func connect(to path: String) -> Int32? {
        let descriptor = socket(AF_UNIX, stream, 0)
        guard descriptor >= 0 else { return nil }
        guard unsafe with(path, { unsafe Foundation.connect(descriptor, $0, $1) }) == 0 else {
            let number = errno
            close(descriptor)
            errno = number
            return nil
        }
        return descriptor
    }

    static func write(_ bytes: [UInt8], to descriptor: Int32) {
        #if os(Linux)
        let flags = Int32(MSG_NOSIGNAL)
        #else
        let flags: Int32 = 0
        #endif
        _ = unsafe bytes.withUnsafeBytes { unsafe send(descriptor, $0.baseAddress, $0.count, flags) }
    }

    /// Reads up to a line break; nil when none comes in time or within bounds.
    static func readLine(from descriptor: Int32, maximumSize: Int, patience: Int32) -> String? {
        let start = ContinuousClock.now
        var line: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while line.count <= maximumSize {
            let left = patience - Int32(start.duration(to: .now) / .milliseconds(1))
            var ready = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard left > 0, unsafe poll(&ready, 1, left) > 0 else { return nil }
            let count = unsafe buffer.withUnsafeMutableBytes { unsafe recv(descriptor, $0.baseAddress, $0.count, 0) }
            guard count > 0 else { return nil }
            line += buffer[..<count]
            if let end = line.firstIndex(of: UInt8(ascii: "\n")) {
                return String(validating: line[..<end], as: UTF8.self)
            }
        }
        return nil
    }

    private static func with(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8) + [0]
        guard bytes.count <= MemoryLayout.size(ofValue: address.sun_path) else {
            errno = ENAMETOOLONG
            return -1
        }
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
        return unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }

    private static func failure() -> AuthError {
        let reason = unsafe String(cString: strerror(errno))
        return AuthError(
            .userAgentFailed,
            "No socket could be opened for the redirect to be handed over at: \(reason)."
        )
    }

    private static var stream: Int32 {
        #if os(Linux)
        Int32(SOCK_STREAM.rawValue)
        #else
        SOCK_STREAM
        #endif
    }
}
