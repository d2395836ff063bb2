import AuthFlow
import AuthFlowDatabase
import AuthFlowEssentials

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

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

    /// The path with the symbolic links of its directory resolved: SQLite is configured to follow none.
    private var resolvedPath: String {
        let name = path.suffix(from: path.lastIndex(of: "/") ?? path.startIndex)
        guard let resolved = unsafe realpath(directory, nil) else { return path }
        defer { unsafe free(resolved) }
        let text = unsafe String(cString: resolved)
        return (text == "/" ? "" : text) + name
    }

    private var directory: String {
        let directory = path.prefix(upTo: path.lastIndex(of: "/") ?? path.startIndex)
        return directory.isEmpty ? "/" : String(directory)
    }

    private func prepare() throws(AuthError) {
        let file = PrivateFile(path)
        try PrivateFile.createDirectory(directory)
        if !file.exists {
            // SQLite would replay the log into the new database.
            // Another process may have created both in between.
            guard !PrivateFile("\(path)-wal").exists || file.exists else {
                throw AuthError(
                    .storageFailed,
                    "\(path) does not exist, but its files \(path)-wal and \(path)-shm do. Restore the database, or remove them."
                )
            }
            // SQLite gives the -wal and -shm files the mode of this one.
            if !file.exists { _ = try file.create(with: []) }
        }
        try file.requirePrivate()
    }

    /// The identity of the file at the path; nil when there is none. A file that replaces it has a different identity.
    var identity: FileIdentity? { PrivateFile(path).identity }

    /// Like ``identity``, for the write-ahead log of the file.
    var logIdentity: FileIdentity? { PrivateFile("\(path)-wal").identity }

    /// Renames a damaged database and the files that belong to it, so that the next use begins with an empty one.
    /// - Parameter suffix: The suffix of the new names.
    /// - Returns: The new path of the database.
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed` when the database can be read, or cannot be renamed.
    func setAside(_ suffix: String) throws(AuthError) -> String {
        guard PrivateFile(path).exists else {
            throw AuthError(.storageFailed, "\(path) is missing: there is nothing to reset.")
        }
        guard !isReadable else {
            throw AuthError(.storageFailed, "The database at \(path) is not damaged, and was left unchanged.")
        }
        // The log first: a database without its log is only older, but a log next to a different database would corrupt it.
        for end in ["-wal", "-shm", ""] where PrivateFile(path + end).exists {
            guard unsafe rename(path + end, path + suffix + end) == 0 else {
                throw AuthError(.storageFailed, "\(path + end) could not be renamed (error \(errno)).")
            }
        }
        return path + suffix
    }

    /// Whether SQLite finds nothing wrong with the database.
    private var isReadable: Bool {
        do throws(DatabaseFailure) {
            let connection = try open()
            return try connection.run("PRAGMA quick_check").first?.first?.bytes == Array("ok".utf8)
        } catch {
            // Busy, or another program's database: not known to be damaged.
            return error.kind != .damaged
        }
    }
}
