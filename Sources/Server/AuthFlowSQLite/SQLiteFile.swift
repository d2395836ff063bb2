import AuthFlow
import AuthFlowDatabase
import AuthFlowEssentials
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
        guard let resolved = unsafe realpath(directory, nil) else { return path }
        defer { unsafe free(resolved) }
        let text = unsafe String(cString: resolved)
        return (text == "/" ? "" : text) + name
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
        guard !isReadable else {
            throw AuthError(.storageFailed, "The database at \(path) is not damaged, and was left unchanged.")
        }
        // The log is renamed first: a database without its log merely lacks the latest changes, but a log next to a
        // different database would corrupt that database.
        for end in ["-wal", "-shm", ""] where PrivateFile(path + end).exists {
            guard unsafe rename(path + end, path + suffix + end) == 0 else {
                throw AuthError(.storageFailed, "\(path + end) could not be renamed (error \(errno)).")
            }
        }
        return path + suffix
    }

    /// Whether the database passes SQLite's quick check, or is not known to be damaged.
    private var isReadable: Bool {
        do throws(DatabaseFailure) {
            let connection = try open()
            return try connection.run("PRAGMA quick_check").first?.first?.bytes == Array("ok".utf8)
        } catch {
            // Other errors do not indicate damage: the database may be busy, or belong to another program.
            return error.kind != .damaged
        }
    }
}
