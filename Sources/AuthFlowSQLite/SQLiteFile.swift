import AuthFlow
import AuthFlowDatabase

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
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
        let connection = try SQLiteConnection(path: path)
        try SQLiteSchema.prepare(connection)
        return connection
    }

    private func prepare() throws(AuthError) {
        let file = PrivateFile(path)
        let directory = path.prefix(upTo: path.lastIndex(of: "/") ?? path.startIndex)
        try PrivateFile.createDirectory(directory.isEmpty ? "/" : String(directory))
        if !file.exists {
            // SQLite would put what is in it into the new database.
            guard !PrivateFile("\(path)-wal").exists else {
                throw AuthError(
                    .storageFailed,
                    "\(path) is not there, and the files \(path)-wal and \(path)-shm, which belong to it, are. Bring it back, or remove them."
                )
            }
            // SQLite gives the files beside it the mode of this one.
            _ = try file.create(with: [])
        }
        try file.requirePrivate()
    }

    /// A mark of the file that is at the path; nil when there is none. A file that was put in its place has another one.
    var identity: FileIdentity? { PrivateFile(path).identity }
}
