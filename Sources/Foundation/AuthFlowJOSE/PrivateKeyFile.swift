import AuthFlowEssentials
package import AuthFlowHTTP
import AuthFlowSystem
import Synchronization

/// A file with a private key, and the key that was last read from it.
package final class PrivateKeyFile<Key: Sendable>: Sendable {
    private let path: String
    private let parse: @Sendable (Secret) throws(AuthError) -> Key
    private let last = Mutex<(version: FileVersion, key: Key)?>(nil)

    package init(path: String, parse: @escaping @Sendable (Secret) throws(AuthError) -> Key) {
        self.path = path
        self.parse = parse
    }

    package func key() throws(AuthError) -> Key {
        let maximumSize = 64 * 1024
        // Kubernetes replaces a mounted secret by replacing a symbolic link, so symbolic links are followed.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw failure("read") }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw failure("examined") }
        guard status.st_mode & S_IFMT == S_IFREG else { throw rejection("it is not a regular file") }
        guard KeyFileAccess.isOwnerTrusted(status) else { throw rejection("it belongs to another user") }
        guard KeyFileAccess.isPrivate(status) else {
            throw rejection("other users can access it. \(KeyFileAccess.advice(status, path))")
        }
        let version = FileVersion(status)
        if let last = last.withLock({ $0 }), last.version == version { return last.key }
        guard let bytes = BoundedFile.contents(of: descriptor, maximumSize: maximumSize) else {
            throw rejection("it cannot be read, or is larger than \(maximumSize) bytes")
        }
        let key = try parse(Secret(String(decoding: bytes, as: UTF8.self)))
        last.withLock { $0 = (version, key) }
        return key
    }

    /// The error after a system call for the file has failed.
    private func failure(_ action: String) -> AuthError {
        guard errno != ENOENT else { return rejection("it does not exist") }
        return rejection("it cannot be \(action) (\(unsafe String(cString: strerror(errno))))")
    }

    private func rejection(_ reason: String) -> AuthError {
        AuthError(.invalidConfiguration, "The key file \(DisplayText.sanitized(path)) cannot be used: \(reason).")
    }
}

/// The attributes that distinguish one version of a file from the next.
private struct FileVersion: Equatable {
    private let device: UInt64
    private let inode: UInt64
    private let size: Int64
    private let seconds: Int
    private let nanoseconds: Int

    init(_ status: stat) {
        self.device = UInt64(truncatingIfNeeded: status.st_dev)
        self.inode = UInt64(truncatingIfNeeded: status.st_ino)
        self.size = Int64(status.st_size)
        #if canImport(Darwin)
        self.seconds = status.st_mtimespec.tv_sec
        self.nanoseconds = status.st_mtimespec.tv_nsec
        #else
        self.seconds = status.st_mtim.tv_sec
        self.nanoseconds = status.st_mtim.tv_nsec
        #endif
    }
}
