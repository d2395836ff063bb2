import AuthFlowSystem
import Synchronization

/// The socket of a connection, which other threads may shut down while a client library uses it. It uses a duplicate descriptor,
/// because the library closes the original descriptor whenever the connection fails, and the number may then be reused.
package final class DatabaseSocket: Sendable {
    private let descriptor: Mutex<Int32?>

    /// - Parameter original: The library's descriptor.
    /// - Throws: ``DatabaseFailure`` when the process has no file descriptors left.
    package init(_ original: Int32) throws(DatabaseFailure) {
        let copy = fcntl(original, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw DatabaseFailure(.unreachable, "The process has too many open files.") }
        descriptor = Mutex(copy)
        _ = fcntl(original, F_SETFD, FD_CLOEXEC)
    }

    deinit { close() }

    /// Whether the connection is open and has no data to read.
    package var isIdle: Bool {
        descriptor.withLock { descriptor in
            guard let descriptor else { return false }
            var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            return unsafe poll(&entry, 1, 0) == 0
        }
    }

    /// Enables TCP keepalive, so that an idle connection that a firewall has silently dropped fails within about a minute. With the kernel's
    /// default settings, keepalive detects this after more than two hours.
    package func keepAlive() {
        #if canImport(Darwin)
        let idleTime = TCP_KEEPALIVE
        #else
        let idleTime = TCP_KEEPIDLE
        #endif
        let tcp = Int32(IPPROTO_TCP)
        // The options fail for a Unix-domain socket, which does not need them.
        set(SO_KEEPALIVE, to: 1, at: SOL_SOCKET)
        set(idleTime, to: 30, at: tcp)
        set(TCP_KEEPINTVL, to: 10, at: tcp)
        set(TCP_KEEPCNT, to: 3, at: tcp)
    }

    private func set(_ option: Int32, to value: Int32, at level: Int32) {
        var value = value
        descriptor.withLock { descriptor in
            guard let descriptor else { return }
            _ = unsafe setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
        }
    }

    /// Makes the blocked calls of other threads fail.
    package func shutDown() {
        descriptor.withLock { descriptor in
            if let descriptor { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
    }

    package func close() {
        descriptor.withLock { descriptor in
            if let number = descriptor { _ = AuthFlowSystem.close(number) }
            descriptor = nil
        }
    }
}
