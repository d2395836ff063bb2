import AuthFlow
import AuthFlowDatabase

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif
#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The file of a database, which its owner alone can read.
struct SQLiteFile: Sendable {
    let path: String

    /// Opens the database, and creates it where it is missing.
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

    /// The path without links above the file: SQLite is told to follow none.
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
            // SQLite would put what is in it into the new database.
            // Another process may have created both in between.
            guard !PrivateFile("\(path)-wal").exists || file.exists else {
                throw AuthError(
                    .storageFailed,
                    "\(path) is not there, and the files \(path)-wal and \(path)-shm, which belong to it, are. Bring it back, or remove them."
                )
            }
            // SQLite gives the files beside it the mode of this one.
            if !file.exists { _ = try file.create(with: []) }
        }
        try file.requirePrivate()
    }

    /// A mark of the file that is at the path; nil when there is none. A file that was put in its place has another one.
    var identity: FileIdentity? { PrivateFile(path).identity }

    /// As ``identity``, of the log beside the file.
    var logIdentity: FileIdentity? { PrivateFile("\(path)-wal").identity }
}
