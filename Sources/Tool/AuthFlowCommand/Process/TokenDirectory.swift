import AuthFlow
import AuthFlowEssentials
import AuthFlowSystem

/// A private directory for a token file. Its lock is held by this process and by the program that reads the file, so that a later run can remove the
/// directory if this process was killed.
struct TokenDirectory {
    private static let prefix = "authflow-exec-"

    let path: String
    /// The lock; nil if the directory cannot be locked. A later run then does not remove the directory.
    let lock: FileLock?

    /// The token file.
    var file: PrivateFile { PrivateFile("\(path)/token") }

    /// Creates a directory, and removes those of killed processes.
    /// - Parameter parent: A directory in which no other user can replace files of this user.
    /// - Throws: ``AuthFlow/AuthError`` with `storage_failed`.
    static func create(in parent: String) throws(AuthError) -> TokenDirectory {
        removeLeftovers(in: parent)
        let name = "\(prefix)\(UUID().uuidString)"
        // The name is hidden until the directory is locked, because another process could otherwise remove it.
        let new = "\(parent)/.\(name)"
        try PrivateFile.createDirectory(new)
        guard let lock = try? PrivateFile.lockDirectory(new) else { return TokenDirectory(path: new, lock: nil) }
        lock.passToPrograms()
        let path = "\(parent)/\(name)"
        let isRenamed = unsafe rename(new, path) == 0
        return TokenDirectory(path: isRenamed ? path : new, lock: lock)
    }

    /// Removes the directory with the token file and its temporary files.
    func remove() {
        Self.remove(path)
        lock?.release()
    }

    /// The minimum age of a hidden directory that is removed, in seconds. A newer directory may not be locked yet.
    private static let minimumHiddenAge: TimeInterval = 3600

    private static func removeLeftovers(in parent: String) {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: parent)) ?? []
        where name.hasPrefix(prefix) || name.hasPrefix(".\(prefix)") {
            let path = "\(parent)/\(name)"
            var status = stat()
            guard unsafe lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(),
                name.hasPrefix(prefix) || isOld(path), let lock = try? PrivateFile.lockDirectory(path)
            else { continue }
            remove(path)
            lock.release()
        }
    }

    private static func isOld(_ path: String) -> Bool {
        let changed = try? FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date
        return changed.map { Date().timeIntervalSince($0) > minimumHiddenAge } ?? false
    }

    private static func remove(_ path: String) {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? [] where name.hasPrefix("token") {
            unsafe unlink("\(path)/\(name)")
        }
        unsafe rmdir(path)
    }
}
