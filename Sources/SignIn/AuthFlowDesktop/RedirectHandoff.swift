public import AuthFlow
import AuthFlowEssentials
import AuthFlowSystem
import Crypto
import Dispatch

/// Passes a redirect to the process that is waiting for it. The sender is another local process, which the system
/// has started to open the redirect.
///
/// The waiting process listens on a Unix domain socket that only its user can connect to, in a directory that only its user
/// can access. The socket's name is a hash of the sign-in's state, so the other process can derive it from the
/// redirect, and the redirect need not contain the socket's path. An encrypted response (JARM) is
/// offered to every waiting process of the user.
public struct RedirectHandoff: Sendable {
    /// The maximum size of a message, in bytes, and the timeout for reading it, in milliseconds.
    private static let maximumSize = 64 * 1024
    private static let waitTimeout: Int32 = 2000

    private let directory: String

    /// Creates a handoff that uses a directory, which is created if it does not exist.
    /// - Parameter directory: The path of the directory. It must be short, because the path of a Unix domain socket is limited to about a hundred characters.
    public init(directory: String) { self.directory = directory }

    /// Creates a handoff in the user's runtime directory: `$XDG_RUNTIME_DIR/authflow`.
    /// - Throws: ``/AuthFlow/AuthError`` with `user_agent_failed` when there is no runtime directory.
    public init(environment: [String: String] = HostServices.system.environment) throws(AuthError) {
        let given = environment["XDG_RUNTIME_DIR"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        let usual = "/run/user/\(geteuid())"
        guard let runtimeDirectory = given ?? (FileManager.default.fileExists(atPath: usual) ? usual : nil) else {
            throw AuthError(
                .userAgentFailed,
                "XDG_RUNTIME_DIR is not set to an absolute path, so no redirect can be passed to this program. Set it to a private directory."
            )
        }
        self.init(directory: "\(runtimeDirectory)/authflow")
    }

    /// The outcome of a handoff.
    public enum Outcome: String, Sendable {
        /// The process that was waiting for this redirect accepted it.
        case taken
        /// A process is waiting, but not for this redirect.
        case refused
        /// No process is waiting.
        case noListener
    }

    /// Passes a redirect to the process that waits for it.
    /// - Throws: ``/AuthFlow/AuthError`` when the directory cannot be trusted.
    public func deliver(_ url: String) throws(AuthError) -> Outcome {
        guard FileManager.default.fileExists(atPath: directory) else { return .noListener }
        try PrivateFile.createDirectory(directory)
        removeLeftovers()
        // The parameters are in the query or in the fragment, depending on the response mode, which only the waiting process
        // knows.
        let encoded = url.unicodeScalars.split { $0 == "?" || $0 == "#" }.dropFirst().map { Substring($0) }
        let parameters = encoded.compactMap { RedirectResponse.parameters(in: $0) }
        let state = parameters.lazy.compactMap { $0["state"] }.first.map { Secret($0) }
        if let state = state ?? Self.signedState(in: encoded) { return offer(url, at: path(for: state)) }
        // Only the process that sent the request may be able to decrypt the response.
        guard parameters.contains(where: { $0["response"] != nil }) else { return .noListener }
        var outcome = Outcome.noListener
        for path in sockets {
            switch offer(url, at: path) {
            case .taken: return .taken
            case .refused: outcome = .refused
            case .noListener: continue
            }
        }
        return outcome
    }

    /// The state in a signed response (JARM); nil when there is none, or the response is encrypted.
    private static func signedState(in encoded: [Substring]) -> Secret? {
        encoded.lazy.compactMap { try? RedirectResponse(encoded: $0, at: "", decrypt: { $0 })?.state }.first
    }

    /// Passes a redirect to the process that listens on a socket.
    private func offer(_ url: String, at path: String) -> Outcome {
        guard let descriptor = LocalSocket.connect(to: path) else { return .noListener }
        defer { close(descriptor) }
        LocalSocket.write(Array("\(url)\n".utf8), to: descriptor)
        let response = LocalSocket.readLine(from: descriptor, maximumSize: 32, waitTimeout: Self.waitTimeout)
        return response.flatMap(Outcome.init(rawValue:)) ?? .noListener
    }

    /// Waits for a redirect while `body` runs.
    /// - Parameters:
    ///   - state: The `state` parameter of the authorization request.
    ///   - isAnswer: Returns whether a URL is the expected redirect.
    ///   - body: Receives the expected redirect through a stream, which has at most one element.
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed` or `user_agent_failed` when redirects cannot be received; any error of `body`.
    func listen<Return: Sendable>(
        for state: Secret,
        isAnswer: @escaping @Sendable (_ url: String) -> Bool,
        _ body: (AsyncStream<String>) async throws -> Return
    ) async throws -> Return {
        try PrivateFile.createDirectory(directory)
        removeLeftovers()
        let path = path(for: state)
        let (redirects, redirect) = AsyncStream<String>.makeStream(bufferingPolicy: .bufferingOldest(1))
        let descriptor = try LocalSocket.listen(at: path)
        let queue = DispatchQueue(label: "redirect handoff")
        let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        source.setEventHandler {
            let peer = accept(descriptor, nil, nil)
            guard peer >= 0 else { return }
            defer { close(peer) }
            let url = LocalSocket.readLine(from: peer, maximumSize: Self.maximumSize, waitTimeout: Self.waitTimeout)
            guard let url, isAnswer(url), case .enqueued = redirect.yield(url) else {
                return LocalSocket.write(Array("\(Outcome.refused.rawValue)\n".utf8), to: peer)
            }
            LocalSocket.write(Array("\(Outcome.taken.rawValue)\n".utf8), to: peer)
        }
        // The source owns the descriptor until its cancel handler runs; the socket file is removed when this function returns.
        source.setCancelHandler { close(descriptor) }
        source.resume()
        defer {
            unsafe unlink(path)
            source.cancel()
        }
        return try await body(redirects)
    }

    private func path(for state: Secret) -> String {
        let hash = SHA256.hash(data: Array(state.exposed.utf8)).prefix(16)
        return "\(directory)/\(hash.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()).sock"
    }

    /// The paths of the sockets in the directory.
    private var sockets: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []).filter { $0.hasSuffix(".sock") }
            .map { "\(directory)/\($0)" }
    }

    /// Removes the sockets that killed processes have left behind.
    private func removeLeftovers() {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        where name.hasSuffix(".new") {
            guard let process = Int32(name.prefix { $0 != "-" }), process > 0, kill(process, 0) != 0, errno == ESRCH
            else { continue }
            unsafe unlink("\(directory)/\(name)")
        }
        for path in sockets {
            if let descriptor = LocalSocket.connect(to: path) {
                close(descriptor)
            } else if errno == ECONNREFUSED {
                unsafe unlink(path)
            }
        }
    }
}
