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
