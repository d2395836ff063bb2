import AuthFlowHTTP
import AuthFlowSystem

/// A new private file under a temporary name, next to the file that it will replace. The file is removed when this object is deallocated,
/// unless the file has been renamed.
final class TemporaryFile: Sendable {
    let path: String
    private let target: PrivateFile
    private let descriptor: Int32

    /// Creates an empty file. The file name contains the process ID, so that the file can be removed if the process is killed.
    /// - Throws: ``AuthError`` with `storage_failed`, like every method of this type.
    init(for target: PrivateFile) throws(AuthError) {
        self.path = "\(target.path).\(getpid()).\(Base64URL.encode(HostServices.systemRandomBytes(9))).tmp"
        self.target = target
        self.descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw target.failure("cannot be written") }
        // With some umask values, the owner could not read the file. Errors are ignored, because some file systems do not support modes.
        _ = fchmod(descriptor, 0o600)
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
        unsafe unlink(path)
    }

    /// Copies the group and permissions of the file to replace, except write permissions of the group and others. If the group cannot be set, its
    /// permissions would apply to another group, so the file remains private.
    func adoptAccess() {
        var status = stat()
        guard unsafe stat(target.path, &status) == 0, fchown(descriptor, uid_t.max, status.st_gid) == 0 else { return }
        _ = fchmod(descriptor, status.st_mode & 0o755)
    }

    /// Reserves space for later content by writing zeros, because posix_fallocate(3) is not available on every platform.
    func reserve(_ size: Int) throws(AuthError) {
        guard SystemCall.write([UInt8](repeating: 0, count: size), to: descriptor) else {
            throw target.failure("cannot be written")
        }
    }

    /// Replaces the content, durably.
    func write(_ bytes: [UInt8]) throws(AuthError) {
        guard lseek(descriptor, 0, SEEK_SET) == 0, SystemCall.write(bytes, to: descriptor),
            ftruncate(descriptor, off_t(bytes.count)) == 0
        else { throw target.failure("cannot be written") }
        guard SystemCall.synchronize(descriptor) else { throw target.failure("cannot be synced to disk") }
    }
}
