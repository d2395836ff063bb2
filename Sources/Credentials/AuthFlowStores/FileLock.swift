import AuthFlowEssentials
package import AuthFlowHTTP
import AuthFlowSystem
import Synchronization

/// A kernel lock on a file (flock(2)). The kernel releases it when the process exits for any reason.
package final class FileLock: Sendable {
    /// The maximum size, in bytes, of a lock file, which contains a process ID.
    static let maximumContentSize = 16

    /// The descriptor is closed only once and not used afterward, because its number may have been reused for another
    /// file.
    private let descriptor: Mutex<Int32?>
    private let path: String

    init(descriptor: Int32, path: String) {
        self.descriptor = Mutex(descriptor)
        self.path = path
    }

    deinit { release() }

    /// The outcome of an attempt to acquire the lock.
    enum Attempt {
        /// The lock was acquired.
        case taken
        /// The lock is already held.
        case busy
        /// The file was removed, so there may be a new lock file, which must be opened.
        case outdated
    }

    /// Acquires the lock unless another holder has it.
    func acquire() throws(AuthError) -> Attempt {
        let (result, code) = withDescriptor { (flock($0, LOCK_EX | LOCK_NB), errno) } ?? (-1, EBADF)
        guard result == 0 else {
            errno = code
            guard code == EWOULDBLOCK || code == EINTR else { throw PrivateFile(path).failure("cannot be locked") }
            return isNamed ? .busy : .outdated
        }
        guard isNamed else { return .outdated }
        // The process ID is for the error message of a process whose wait times out. It is only informational: the
        // kernel manages the lock.
        let note = Array("\(getpid())\n".utf8)
        withDescriptor { descriptor in
            ftruncate(descriptor, 0)
            _ = unsafe note.withUnsafeBytes { unsafe pwrite(descriptor, $0.baseAddress, $0.count, 0) }
        }
        return .taken
    }

    /// Whether the file is still at its path. If not, it was removed, and locking it has no effect.
    var isNamed: Bool {
        var named = stat()
        guard let own = status, unsafe lstat(path, &named) == 0 else { return false }
        return own.st_ino == named.st_ino && own.st_dev == named.st_dev
    }

    /// Renews the lease by updating the timestamps of the file.
    func renew() { withDescriptor { _ = futimens($0, nil) } }

    /// The timestamp of the last renewal: a changed value means that the lease was renewed.
    var renewedAt: Int64 {
        guard let status else { return 0 }
        #if canImport(Darwin)
        let time = status.st_mtimespec
        #else
        let time = status.st_mtim
        #endif
        // Overflows for timestamps after 2262, which is harmless, because only a change of the value matters.
        return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }

    /// Removes the file. A process that has the file open detects its removal with ``isNamed``.
    func remove() {
        unsafe unlink(path)
    }

    /// The ID of the process that holds the lock, as recorded by that process; nil when none is recorded.
    var holder: Int32? {
        var buffer = [UInt8](repeating: 0, count: 16)
        let count = withDescriptor { descriptor in
            unsafe buffer.withUnsafeMutableBytes { unsafe pread(descriptor, $0.baseAddress, $0.count, 0) }
        }
        guard let count, count > 0 else { return nil }
        return Int32(String(decoding: buffer[..<count].prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
    }

    private var status: stat? {
        var status = stat()
        return withDescriptor { unsafe fstat($0, &status) } == 0 ? status : nil
    }

    @discardableResult
    private func withDescriptor<Return: Sendable>(_ body: (Int32) -> Return) -> Return? {
        descriptor.withLock { descriptor in
            guard let descriptor else { return nil }
            return body(descriptor)
        }
    }

    /// Lets the programs that this process starts inherit the lock, which then remains held until all of them have exited.
    package func passToPrograms() { withDescriptor { _ = fcntl($0, F_SETFD, 0) } }

    /// Releases the lock.
    package func release() {
        descriptor.withLock { descriptor in
            if let open = descriptor {
                // A child process that has not executed its program yet has a copy of the descriptor, which would otherwise keep the lock.
                flock(open, LOCK_UN)
                close(open)
            }
            descriptor = nil
        }
    }
}

extension PrivateFile {
    /// Opens the file as a lock, and creates it if it does not exist.
    /// - Throws: ``AuthError`` with `storage_failed`, including when the existing file is not a lock file of this user.
    func openLock() throws(AuthError) -> FileLock {
        for _ in 0..<8 {
            let new = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
            if new >= 0 {
                _ = fchmod(new, 0o600)
                return FileLock(descriptor: new, path: path)
            }
            guard errno == EEXIST else { throw failure("cannot be opened") }
            let descriptor = unsafe open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
            guard descriptor >= 0 else {
                // The holder has just removed the file.
                if errno == ENOENT { continue }
                throw failure("cannot be opened")
            }
            var status = stat()
            guard unsafe fstat(descriptor, &status) == 0 else {
                let error = failure("cannot be examined")
                close(descriptor)
                throw error
            }
            guard status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(), status.st_nlink <= 1,
                status.st_size <= FileLock.maximumContentSize
            else {
                close(descriptor)
                throw AuthError(.storageFailed, "\(path) is not a lock file of this user, so it is left unchanged.")
            }
            return FileLock(descriptor: descriptor, path: path)
        }
        throw AuthError(.storageFailed, "\(path) cannot be opened: it is repeatedly created and removed.")
    }

    /// Locks a directory, without waiting.
    /// - Returns: The lock; nil when another process or task holds it.
    package static func lockDirectory(_ path: String) throws(AuthError) -> FileLock? {
        let descriptor = unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw PrivateFile(path).failure("cannot be locked") }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            close(descriptor)
            errno = code
            guard code == EWOULDBLOCK || code == EINTR else { throw PrivateFile(path).failure("cannot be locked") }
            return nil
        }
        return FileLock(descriptor: descriptor, path: path)
    }
}
