public import AuthFlow
// Declares the methods of the store.
@_exported public import AuthFlowDatabase

/// Stores credentials in Redis, for any number of processes and machines.
///
/// Every record is a hash, and each change runs as one script. A lease is stored in that hash, expires according to the
/// server's clock, and is renewed while it is held. A holder that has lost its lease can no longer change the record.
///
/// Redis acknowledges a write before it is replicated, and by default before it is written to disk. A failover loses
/// the writes that were not yet replicated. A power failure loses about the last second of writes with
/// `appendfsync everysec`, or, without an append-only file, all writes since the last snapshot. If that is not
/// acceptable, use PostgreSQL.
public struct RedisTokenStore: Sendable {
    private let records: LeasedRecords<RedisRecords>

    /// The operations on the records, without renewals, retries or waits.
    package var table: any RecordTable { records.table }

    /// Creates a store. The store does not connect until its first use.
    /// - Parameters:
    ///   - url: `redis://username:password@host:port/database`, or `unix:/path/to/the/socket`.
    ///   - password: The password; default: the password in the URL.
    ///   - prefix: The prefix of all keys; default: `authflow`.
    ///   - connections: The maximum number of connections, in addition to the subscriber connection; default: 4.
    ///   - lease: The duration of a lease that its holder does not renew; default: 15 seconds. It must be the same in
    ///     every process: a process whose lease duration is less than a third of another process's would take over
    ///     that process's leases.
    ///   - waitTimeout: The maximum time to wait for a lease that another process holds; default: 30 seconds.
    ///   - allowsPlainText: Whether a remote server is allowed. The connection does not use TLS, so an
    ///     attacker on the network path can read every session. Default: no.
    ///   - host: The clock and random number generator; default: the system's.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration`; `unsupported` for TLS, which hiredis 0.14 does
    ///   not support.
    public init(
        url: Secret,
        password: Secret? = nil,
        prefix: String = "authflow",
        connections: Int = 4,
        lease: Duration = .seconds(15),
        waitTimeout: Duration = .seconds(30),
        allowsPlainText: Bool = false,
        host: HostServices = .system
    ) throws {
        let settings = try RedisSettings(
            url: url,
            password: password,
            prefix: prefix,
            allowsPlainText: allowsPlainText
        )
        self.records = LeasedRecords(times: .init(lease: lease, waitTimeout: waitTimeout), host: host) { onMessage in
            RedisRecords(settings, connections: max(connections, 1), onMessage: onMessage)
        }
    }
}

extension RedisTokenStore: DatabaseStore {
    public var base: any SessionTokenStore & GaugeSource { records }
}

extension RedisTokenStore: NonReflectable {}
