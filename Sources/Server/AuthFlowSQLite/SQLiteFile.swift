import AuthFlow
import AuthFlowDatabase
import AuthFlowSystem

/// A database file that only its owner can read.
struct SQLiteFile: Sendable {
    let path: String

    /// Opens the database, and creates it if it is missing.
    func open() throws(DatabaseFailure) -> SQLiteConnection {
        do throws(AuthError) {
            try prepare()
        } catch {
            throw DatabaseFailure(.unusable, error.message)
        }
        let connection = try SQLiteConnection(path: resolvedPath)
        try SQLiteSchema.prepare(connection)
        return connection
    }

    /// The path with the symbolic links of its directory resolved, because SQLite is configured not to follow symbolic
    /// links.
    private var resolvedPath: String {
        let name = path.suffix(from: path.lastIndex(of: "/") ?? path.startIndex)
        guard let resolved = FilePath.resolved(directory) else { return path }
        return (resolved == "/" ? "" : resolved) + name
    }

    private var directory: String { FilePath.directory(of: path) }

    private func prepare() throws(AuthError) {
        let file = PrivateFile(path)
        try PrivateFile.createDirectory(directory)
        if !file.exists {
            // SQLite would replay an existing log into the new database. Another process may have created both files in
            // the meantime.
            guard !PrivateFile("\(path)-wal").exists || file.exists else {
                throw AuthError(
                    .storageFailed,
                    "\(path) does not exist, but its file \(path)-wal does. Restore the database, or remove \(path)-wal and \(path)-shm."
                )
            }
            // SQLite creates the -wal and -shm files with the mode of this file.
            if !file.exists { _ = try file.create(with: []) }
        }
        try file.requirePrivate()
    }

    /// The identity of the file at the path; nil if there is no file. If the file is replaced, the new file has a
    /// different identity.
    var identity: FileIdentity? { PrivateFile(path).identity }

    /// The identity of the file's write-ahead log; nil if there is no log.
    var logIdentity: FileIdentity? { PrivateFile("\(path)-wal").identity }

    /// Renames a damaged database and its associated files, so that the next use starts with an empty database.
    /// - Parameter suffix: The suffix of the new names.
    /// - Returns: The new path of the database.
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed` if the database is missing, is not damaged, or cannot be
    ///   renamed.
    func setAside(_ suffix: String) throws(AuthError) -> String {
        guard PrivateFile(path).exists else {
            throw AuthError(.storageFailed, "\(path) is missing: there is nothing to reset.")
        }
        try requireDamage()
        // The log is renamed first: a database without its log merely lacks the latest changes, but a log next to a
        // different database would corrupt that database.
        for end in ["-wal", "-shm", ""] where end.isEmpty || PrivateFile(path + end).exists {
            guard unsafe rename(path + end, path + suffix + end) == 0 else {
                let reason = unsafe String(cString: strerror(errno))
                throw AuthError(.storageFailed, "\(path + end) could not be renamed: \(reason).")
            }
        }
        return path + suffix
    }

    /// Requires that the database fails SQLite's quick check.
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed` if it does not, or if another error prevents the check: the database may be busy,
    ///   belong to another program, or have the wrong permissions.
    private func requireDamage() throws(AuthError) {
        do throws(DatabaseFailure) {
            let connection = try open()
            guard try connection.run("PRAGMA quick_check").first?.first?.bytes == Array("ok".utf8) else { return }
        } catch {
            guard error.kind != .damaged else { return }
            throw AuthError(
                .storageFailed,
                "The database at \(path) could not be examined, and was left unchanged: \(error.message)",
                underlyingError: error
            )
        }
        throw AuthError(.storageFailed, "The database at \(path) is not damaged, and was left unchanged.")
    }
}
