import AuthFlowDatabase

/// The tables, and the migrations from every earlier version.
enum SQLiteSchema {
    /// The application ID ("AFls"), which is checked because a configuration can specify any file.
    private static let applicationID: Int64 = 0x4146_6C73

    /// The migrations, in order. A released migration is never changed. `has_written` is the number of the lease holder's last write, or 0.
    private static let steps = [
        [
            """
            CREATE TABLE records (
                id BLOB NOT NULL PRIMARY KEY,
                record BLOB NOT NULL,
                sealed BLOB,
                fence INTEGER NOT NULL,
                lease_owner BLOB,
                lease_until INTEGER,
                lease_boot BLOB,
                is_awaited INTEGER NOT NULL DEFAULT 0,
                is_after_unfinished INTEGER NOT NULL DEFAULT 0,
                has_written INTEGER NOT NULL DEFAULT 0,
                used_at INTEGER NOT NULL,
                idle_time INTEGER,
                idle_until INTEGER,
                expires_at INTEGER,
                tag_1 BLOB,
                tag_2 BLOB
            )
            """,
            "CREATE INDEX records_tag_1 ON records (tag_1) WHERE tag_1 IS NOT NULL",
            "CREATE INDEX records_tag_2 ON records (tag_2) WHERE tag_2 IS NOT NULL",
            "CREATE INDEX records_expires_at ON records (expires_at) WHERE expires_at IS NOT NULL",
            "CREATE INDEX records_idle_until ON records (idle_until) WHERE idle_until IS NOT NULL",
            "CREATE INDEX records_empty ON records (id) WHERE sealed IS NULL",
            // The messages between processes. A message ID is never reused, so that each process can store the last ID
            // that it has read.
            "CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, text BLOB NOT NULL)",
        ]
    ]

    private static var version: Int64 { Int64(steps.count) }

    /// The minimum version of a program that can use the current tables: a purely additive migration leaves it
    /// unchanged, so that older programs continue to work alongside newer programs. `user_version` contains this number
    /// in its upper 16 bits and the version in its lower 16 bits, and is set in the transaction of the migration.
    private static let needs: Int64 = 1

    private static var userVersion: Int64 { needs << 16 | version }

    /// Prepares a connection, and creates the tables if they are missing. Several processes may run it concurrently.
    static func prepare(_ connection: SQLiteConnection) throws(DatabaseFailure) {
        try connection.run("PRAGMA cell_size_check = ON")
        // The version is checked before anything is changed.
        let found = try version(of: connection)
        // In WAL mode, readers and a writer do not block each other.
        guard try connection.run("PRAGMA journal_mode = WAL").first?.first?.bytes == Array("wal".utf8) else {
            throw DatabaseFailure(
                .unusable,
                "The file system of the database does not support shared memory, which SQLite needs to share a file safely."
            )
        }
        // Removed data is overwritten. On Apple platforms, a sync flushes the disk's cache as well.
        try connection.run("PRAGMA secure_delete = ON")
        try connection.run("PRAGMA fullfsync = ON")
        guard found < version else { return }
        try connection.transaction { () throws(DatabaseFailure) in
            let found = try version(of: connection)
            guard found < version else { return }
            for step in steps.dropFirst(Int(found)) { for statement in step { try connection.run(statement) } }
            try connection.run("PRAGMA application_id = \(applicationID)")
            try connection.run("PRAGMA user_version = \(userVersion)")
        }
    }

    /// The version of the tables; zero for a new file.
    /// - Throws: ``DatabaseFailure`` when the file belongs to another program, or requires a later version of this program.
    private static func version(of connection: SQLiteConnection) throws(DatabaseFailure) -> Int64 {
        func number(_ pragma: String) throws(DatabaseFailure) -> Int64 {
            try connection.run("PRAGMA \(pragma)").first?.first?.integer ?? 0
        }
        let found = try number("user_version")
        let isEmpty = try connection.run("SELECT 1 FROM sqlite_master LIMIT 1").isEmpty
        let isOurs = try number("application_id") == applicationID
        guard isOurs || isEmpty && found == 0 else {
            throw DatabaseFailure(.unusable, "The file is another program's database, and was left unchanged.")
        }
        let made = found & 0xFFFF
        let needed = found > 0xFFFF ? found >> 16 : found
        guard found >= 0, needed <= version else {
            throw DatabaseFailure(
                .unusable,
                "The database requires schema version \(needed), but this program supports schema versions up to \(version). Upgrade the program."
            )
        }
        return made
    }
}
