public import AuthFlow
// Declares the methods of the store.
@_exported public import AuthFlowDatabase

/// Stores credentials in PostgreSQL, for any number of processes and machines.
///
/// Every record is a row. A lease is stored in that row, expires according to the database's clock, and is renewed
/// while it is held; it does not occupy a connection or transaction. A holder that has lost its lease can no longer
/// change the row.
///
/// Create the tables with ``migrate()`` before the first use.
public struct PostgreSQLTokenStore: Sendable {
    private let settings: PostgreSQLSettings
    private let records: LeasedRecords<PostgreSQLRecords>

    /// The operations on the table, without renewals, retries or waits.
    package var table: any RecordTable { records.table }

    /// Creates a store. The store does not connect until its first use.
    /// - Parameters:
    ///   - url: The database as a connection URI, such as `postgresql://user@host/database`, or as a keyword/value
    ///     string (PostgreSQL manual, section 34.1.1). Over a network, TLS with a verified certificate is required.
    ///   - password: The password; default: the password in the URL, or in the password file.
    ///   - schema: The schema of the tables; default: `authflow`.
    ///   - connections: The maximum number of connections, in addition to the notification connection; default: 4.
    ///   - lease: The duration of a lease that its holder does not renew; default: 15 seconds. It must be the same in
    ///     every process: a process whose lease duration is less than a third of another process's would take over
    ///     that process's leases.
    ///   - waitTimeout: The maximum time to wait for a lease that another process holds; default: 30 seconds.
    ///   - allowsUnverifiedServer: Whether the URL may specify TLS without a verified certificate, or no TLS, over a
    ///     network. An attacker who can impersonate the database can then read every session. Default: no.
    ///   - host: The clock and random number generator; default: the system's.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration`; `unsupported` when libpq is not installed.
    public init(
        url: Secret,
        password: Secret? = nil,
        schema: String = "authflow",
        connections: Int = 4,
        lease: Duration = .seconds(15),
        waitTimeout: Duration = .seconds(30),
        allowsUnverifiedServer: Bool = false,
        host: HostServices = .system
    ) throws {
        let settings = try PostgreSQLSettings(
            url: url,
            password: password,
            schema: schema,
            allowsUnverifiedServer: allowsUnverifiedServer
        )
        self.settings = settings
        self.records = LeasedRecords(times: .init(lease: lease, waitTimeout: waitTimeout), host: host) { onMessage in
            PostgreSQLRecords(settings, connections: max(connections, 1), onMessage: onMessage)
        }
    }

    /// Creates the tables, or migrates tables from an earlier version. You can call this method repeatedly, and in
    /// several processes concurrently.
    /// - Returns: The version of the tables before the migration (zero if there were no tables), and after it.
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed`.
    @discardableResult
    public func migrate() async throws -> (before: Int, now: Int) {
        let settings = self.settings
        return try await BlockingCall.run {
            do {
                let link = try PostgreSQLLink(settings)
                defer { link.close() }
                let before = try PostgreSQLSchema.migrate(link, schema: settings.schema)
                return (before, max(before, PostgreSQLSchema.version))
            } catch let failure as DatabaseFailure {
                throw failure.error
            }
        }
    }
}

extension PostgreSQLTokenStore: DatabaseStore {
    public var base: any SessionTokenStore & GaugeSource { records }
}

extension PostgreSQLTokenStore: NonReflectable {}
