import AuthFlow
import AuthFlowEssentials
import AuthFlowSystem

/// A private directory for a token file. Its lock is held by this process and by the program that reads the file, so that a later run can remove the
/// directory if this process was killed.
struct TokenDirectory {
    private static let prefix = "authflow-exec-"

    let path: String
    /// Nil if the file system does not support locks; a later run then does not remove the directory.
    let lock: FileLock?

    /// The token file.
    var file: PrivateFile { PrivateFile("\(path)/token") }

    /// Creates a directory, and removes those of killed processes.
    /// - Parameter parent: A directory in which no other user can replace files of this user.
    /// - Throws: ``AuthFlow/AuthError`` with `storage_failed`.
    static func create(in parent: String) throws(AuthError) -> TokenDirectory {
        removeLeftovers(in: parent)
        // Another process may find the new directory before it is locked, and remove it.
        for _ in 0..<10 {
            let path = "\(parent)/\(prefix)\(UUID().uuidString)"
            try PrivateFile.createDirectory(path)
            let lock: FileLock?
            do throws(AuthError) {
                guard let acquired = try PrivateFile.lockDirectory(path) else { continue }
                lock = acquired
            } catch {
                lock = nil
            }
            guard FileManager.default.fileExists(atPath: path) else { continue }
            lock?.passToPrograms()
            return TokenDirectory(path: path, lock: lock)
        }
        throw AuthError(.storageFailed, "No directory for the token file could be created in \(parent).")
    }

    /// Removes the directory with the token file and its temporary files.
    func remove() {
        Self.remove(path)
        lock?.release()
    }

    private static func removeLeftovers(in parent: String) {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: parent)) ?? [] where name.hasPrefix(prefix) {
            let path = "\(parent)/\(name)"
            var status = stat()
            guard unsafe lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(),
                let lock = try? PrivateFile.lockDirectory(path)
            else { continue }
            remove(path)
            lock.release()
        }
    }

    private static func remove(_ path: String) {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? [] where name.hasPrefix("token") {
            unsafe unlink("\(path)/\(name)")
        }
        unsafe rmdir(path)
    }
}
