public import AuthFlow
// AuthFlowDatabase declares the methods of the store.
@_exported public import AuthFlowDatabase
import AuthFlowEssentials

/// Stores credentials and sessions in one file that the processes on a machine share: an SQLite database, which
/// survives a crash at any moment.
///
/// A lease is stored in the file, expires according to the time since boot, and is renewed while it is held. A holder
/// that has lost its lease can no longer change the record. The file is created on first use, and only its owner can
/// read it. It must not be on a network file system (SQLite's documentation, "Write-Ahead Logging").
///
/// To restore a backup, stop every process that uses the file, replace it, and remove its `-wal` and `-shm` files.
///
/// The credentials are in plaintext in this file and in its `-wal` file, unless the store is encrypted
/// (``/AuthFlow/EncryptedSessionStore``).
public struct SQLiteTokenStore: Sendable {
    private let records: LeasedRecords<SQLiteRecords>

    /// The operations on the table, without renewals, retries or waits.
    package var table: any RecordTable { records.table }
    private let file: SQLiteFile
    private let host: HostServices

    /// Creates a store. The file is opened on first use.
    /// - Parameters:
    ///   - path: The absolute path of the file. If its directory does not exist, it is created with mode 0700.
    ///   - lease: The duration of a lease that its holder does not renew; default: 15 seconds. It must be the same in
    ///     every process: a process whose lease duration is less than a third of another process's would take over
    ///     that process's leases.
    ///   - waitTimeout: The maximum time to wait for a lease that another process holds; default: 30 seconds.
    ///   - host: The clock and random number generator; default: the system's.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration` when the path is not absolute or not valid.
    public init(
        path: String,
        lease: Duration = .seconds(15),
        waitTimeout: Duration = .seconds(30),
        host: HostServices = .system
    ) throws(AuthError) {
        try self.init(path: path, lease: lease, waitTimeout: waitTimeout, host: host, leases: .system)
    }

    /// - Parameter leases: The clock that determines the expiry of leases.
    package init(
        path: String,
        lease: Duration = .seconds(15),
        waitTimeout: Duration = .seconds(30),
        host: HostServices,
        leases: LeaseClock
    ) throws(AuthError) {
        guard path.hasPrefix("/"), !path.hasSuffix("/"), !path.utf8.contains(0) else {
            throw AuthError(
                .invalidConfiguration,
                "The path of the SQLite database must be absolute, and must not end with a slash or contain a NUL: see the key \"path\" of the store."
            )
        }
        self.file = SQLiteFile(path: path)
        self.host = host
        self.records = LeasedRecords(times: .init(lease: lease, waitTimeout: waitTimeout), host: host) { onMessage in
            SQLiteRecords(file: SQLiteFile(path: path), host: host, leases: leases, onMessage: onMessage)
        }
    }
}

extension SQLiteTokenStore {
    /// Renames a damaged database, so that the next use starts with an empty database. All users must then sign in
    /// again.
    /// - Returns: The new path of the damaged database.
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed` if the database is missing, is not damaged, or cannot be
    ///   renamed.
    public func setDamagedDatabaseAside() async throws -> String {
        // The random part keeps a database that was renamed within the same second.
        let suffix = ".damaged-\(Int64(host.now().timeIntervalSince1970))-\(Base64URL.encode(host.randomBytes(6)))"
        return try await BlockingCall.run { [file] in
            try file.setAside(suffix)
        }
    }
}

extension SQLiteTokenStore: DatabaseStore {
    public var base: any SessionTokenStore & GaugeSource { records }
}
