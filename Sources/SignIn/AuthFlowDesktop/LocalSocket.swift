package import AuthFlow
import AuthFlowEssentials
import AuthFlowSystem

/// The POSIX calls for Unix domain sockets, for which Foundation has no API.
package enum LocalSocket {
    package static func listen(at path: String) throws(AuthError) -> Int32 {
        // The temporary name may be shorter: `bind` and `rename` would succeed, but no process could connect to the final name.
        guard fits(path) else {
            errno = ENAMETOOLONG
            throw failure()
        }
        let descriptor = socket(AF_UNIX, stream, 0)
        guard descriptor >= 0 else { throw failure() }
        // The socket is renamed to its final name only once it is listening, because other commands remove sockets on
        // which no process listens. Its temporary name contains the ID of the process that creates it.
        let unfinished =
            "\(FilePath.directory(of: path))/\(getpid())-\(Base64URL.encode(HostServices.systemRandomBytes(6))).new"
        // On Linux, `bind` creates the socket file with the mode of the descriptor. On other systems, the permissions
        // of the directory exclude other users until `chmod` sets the mode.
        guard fchmod(descriptor, 0o600) == 0 || errno == EINVAL,
            unsafe with(unfinished, { unsafe bind(descriptor, $0, $1) }) == 0,
            unsafe chmod(unfinished, 0o600) == 0, SystemCall.listen(descriptor, 4) == 0,
            unsafe rename(unfinished, path) == 0
        else {
            let error = failure()
            unsafe unlink(unfinished)
            close(descriptor)
            throw error
        }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        return descriptor
    }

    /// A connection; nil on failure, with the reason in `errno`: `EAGAIN` when a process listens but its backlog is full, for
    /// example because the process is stopped.
    package static func connect(to path: String) -> Int32? {
        let descriptor = socket(AF_UNIX, stream, 0)
        guard descriptor >= 0 else { return nil }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        // Otherwise, `connect` would block for as long as that process is stopped. Reads wait with `poll`.
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        guard unsafe with(path, { unsafe SystemCall.connect(descriptor, $0, $1) }) == 0 else {
            let number = errno
            close(descriptor)
            errno = number
            return nil
        }
        return descriptor
    }

    /// Writes all bytes, unless the peer closes the connection or stops reading for two seconds.
    static func write(_ bytes: [UInt8], to descriptor: Int32) {
        #if os(Linux)
        let flags = Int32(MSG_NOSIGNAL)
        #else
        let flags: Int32 = 0
        var isOn: Int32 = 1
        // setsockopt fails if the peer has closed the connection.
        guard unsafe setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &isOn, socklen_t(MemoryLayout<Int32>.size)) == 0
        else { return }
        #endif
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe send(descriptor, $0.baseAddress, $0.count, flags) }
            if count >= 0 {
                rest = rest.dropFirst(count)
                continue
            }
            guard errno == EAGAIN || errno == EINTR else { return }
            var ready = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            guard unsafe poll(&ready, 1, 2000) > 0 else { return }
        }
    }

    /// Reads up to a newline; nil when no newline arrives before the timeout or within the maximum size, or the line is not UTF-8.
    static func readLine(from descriptor: Int32, maximumSize: Int, waitTimeout: Int32) -> String? {
        let start = ContinuousClock.now
        var line: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while line.count <= maximumSize {
            // The elapsed time is clamped, because after weeks of system sleep it might not fit into an `Int32`.
            let left = waitTimeout - Int32(min(start.duration(to: .now) / .milliseconds(1), Double(waitTimeout)))
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
        guard fits(path) else {
            errno = ENAMETOOLONG
            return -1
        }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8) + [0]
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
        return unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }

    /// Whether a path fits into the address of a socket, with the NUL byte at its end.
    private static func fits(_ path: String) -> Bool {
        path.utf8.count < MemoryLayout.size(ofValue: sockaddr_un().sun_path)
    }

    private static func failure() -> AuthError {
        let reason = unsafe String(cString: strerror(errno))
        return AuthError(.userAgentFailed, "No socket could be opened to receive the redirect: \(reason).")
    }

    private static var stream: Int32 {
        #if os(Linux)
        Int32(SOCK_STREAM.rawValue)
        #else
        SOCK_STREAM
        #endif
    }
}
