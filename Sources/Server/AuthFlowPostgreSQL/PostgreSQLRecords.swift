import AuthFlow
import AuthFlowDatabase
import AuthFlowEssentials

/// The SQL statements for the records. Each statement runs in a separate transaction, and times are from the database's
/// clock.
struct PostgreSQLRecords: RecordTable {
    private let database: Database<PostgreSQLLink>
    /// The schema-qualified name of the table, because a pooler may run each statement on a connection with a
    /// different search path.
    private let table: String
    /// The notification channel, as an SQL literal. It is named after the schema, so that stores in other
    /// schemas are not woken.
    private let channel: String

    init(
        _ settings: PostgreSQLSettings,
        connections: Int,
        onMessage: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        self.database = Database(
            connections: connections,
            open: { (use: DatabaseLinkUse) throws(DatabaseFailure) in
                let link = try PostgreSQLLink(settings)
                // A pooler may accept connections although its database does not respond.
                let cancelTimer = ContinuousClock().call({ link.interrupt() }, after: .seconds(5))
                defer { cancelTimer() }
                try link.run(settings.sessionStatements)
                try PostgreSQLSchema.check(link, schema: settings.schema)
                if use == .messages { try link.run("LISTEN \(PostgreSQLSettings.quoted(settings.schema))") }
                return link
            },
            onMessage: onMessage
        )
        self.table = "\(PostgreSQLSettings.quoted(settings.schema)).records"
        self.channel = "'\(settings.schema.replacing(scalar: "'", with: "''"))'"
    }

    private func rows(_ statement: String, _ parameters: PostgreSQLValue...) async throws -> PostgreSQLRows {
        try await database.response(to: PostgreSQLRequest(statement: statement, parameters: parameters))
    }

    /// The SQL condition for a row that has not expired.
    private static let isAlive = """
        (r.expires_at IS NULL OR r.expires_at > clock_timestamp()) \
        AND (r.idle_until IS NULL OR r.idle_until > clock_timestamp())
        """

    private static let interval = "::bigint * interval '1 millisecond'"

    var pushesMessages: Bool { true }

    var removesAtomically: Bool { true }

    var pending: Int { database.pending }

    func listen() { database.listen() }

    func bytes(of digest: [UInt8]) async throws -> [UInt8]? {
        try await rows("SELECT sealed FROM \(table) AS r WHERE id = $1::bytea AND \(Self.isAlive)", .bytes(digest))
            .first?.first ?? nil
    }

    func take(_ key: RecordKey, by owner: [UInt8], for duration: Duration) async throws -> TakenLease {
        let digest = key.digest
        // A fence is a timestamp, so that it is greater than every earlier fence of the key, even the fences of a
        // removed row. If the same owner retries after a lost or late response, its lease remains valid.
        let now = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        let taken = try await rows(
            """
            INSERT INTO \(table) AS r (id, record, fence, lease_owner, lease_until) \
            VALUES ($1::bytea, $2::bytea, \(now), $3::bytea, clock_timestamp() + $4\(Self.interval)) \
            ON CONFLICT (id) DO UPDATE SET \
            fence = CASE WHEN r.lease_owner = excluded.lease_owner THEN r.fence ELSE greatest(r.fence + 1, \(now)) END, \
            lease_owner = excluded.lease_owner, lease_until = excluded.lease_until, \
            is_awaited = r.is_awaited AND coalesce(r.lease_owner = excluded.lease_owner, false), \
            is_after_unfinished = r.is_after_unfinished \
            OR coalesce(r.lease_owner <> excluded.lease_owner, false) AND NOT r.has_written, \
            has_written = r.has_written AND coalesce(r.lease_owner = excluded.lease_owner, false), \
            version = CASE WHEN r.lease_owner = excluded.lease_owner THEN r.version ELSE 0 END, \
            sealed = CASE WHEN \(Self.isAlive) THEN r.sealed END, \
            tags = CASE WHEN \(Self.isAlive) THEN r.tags ELSE '{}' END, \
            idle_time = CASE WHEN \(Self.isAlive) THEN r.idle_time END, \
            idle_until = CASE WHEN \(Self.isAlive) THEN r.idle_until END, \
            expires_at = CASE WHEN \(Self.isAlive) THEN r.expires_at END \
            WHERE r.lease_until IS NULL OR r.lease_until <= clock_timestamp() OR r.lease_owner = excluded.lease_owner \
            RETURNING r.fence, r.is_after_unfinished
            """,
            .bytes(digest),
            .bytes(Array(key.uniqueName.utf8)),
            .bytes(owner),
            .integer(duration.milliseconds)
        )
        if let row = taken.first, let fence = PostgreSQLValue.integer(row[0]) {
            guard let fence = UInt64(exactly: fence) else {
                throw DatabaseFailure(.refused, "The table contains a negative fence, which AuthFlow never writes.")
            }
            return .taken(fence: fence, isAfterAbandonedLease: PostgreSQLValue.flag(row[1]))
        }
        // The holder sends a notification only if a process is waiting, because NOTIFY acquires a lock that serializes the
        // commits of all notifying transactions. If the remaining lifetime of a lease exceeds its duration, the clock
        // was set back, so the lifetime is reduced; a live holder renews its lease in time.
        let busy = try await rows(
            """
            UPDATE \(table) SET is_awaited = true, \
            lease_until = least(lease_until, clock_timestamp() + $2\(Self.interval)) \
            WHERE id = $1::bytea AND lease_until > clock_timestamp() \
            RETURNING (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint
            """,
            .bytes(digest),
            .integer(duration.milliseconds)
        )
        return .busy(.milliseconds(busy.first.flatMap { PostgreSQLValue.integer($0[0]) } ?? 0))
    }

    func bytes(under lease: HeldLease) async throws -> [UInt8]? {
        let found = try await rows(
            "SELECT CASE WHEN \(Self.isAlive) THEN sealed END FROM \(table) AS r WHERE \(Self.isHeld)",
            .bytes(lease.digest),
            .integer(Int64(lease.fence)),
            .bytes(lease.owner)
        )
        guard let found = found.first else { throw Lease.lost }
        return found[0]
    }

    func renew(_ lease: HeldLease, for duration: Duration) async throws -> Bool {
        try await !rows(
            "UPDATE \(table) SET lease_until = clock_timestamp() + $4\(Self.interval) WHERE \(Self.isHeld) RETURNING 1",
            .bytes(lease.digest),
            .integer(Int64(lease.fence)),
            .bytes(lease.owner),
            .integer(duration.milliseconds)
        ).isEmpty
    }

    /// The SQL condition for a held lease, which the first three parameters identify. An expired lease counts as held until
    /// another holder acquires the lease.
    private static let isHeld = "id = $1::bytea AND fence = $2::bigint AND lease_owner = $3::bytea"

    func write(
        _ bytes: [UInt8]?,
        _ attributes: RecordAttributes?,
        number: Int64,
        under lease: HeldLease
    ) async throws -> Bool {
        let held: [PostgreSQLValue] = [.bytes(lease.digest), .integer(Int64(lease.fence)), .bytes(lease.owner)]
        let ends = """
            , used_at = clock_timestamp(), expires_at = clock_timestamp() + $6\(Self.interval), \
            idle_time = $7\(Self.interval), idle_until = clock_timestamp() + $7\(Self.interval), tags = $8::bytea[]
            """
        let values: [PostgreSQLValue] =
            attributes.map {
                [
                    .integer($0.lifetime?.milliseconds), .integer($0.idleTime?.milliseconds),
                    .list($0.tags.map(\.bytes)),
                ]
            } ?? []
        let written = try await database.response(
            to: PostgreSQLRequest(
                statement: """
                    UPDATE \(table) SET sealed = $4::bytea, is_after_unfinished = false, has_written = true, version = $5::bigint\(attributes == nil ? "" : ends) \
                    WHERE \(Self.isHeld) AND version <= $5::bigint RETURNING 1
                    """,
                parameters: held + [.bytes(bytes), .integer(number)] + values
            )
        )
        return !written.isEmpty
    }

    func release(_ lease: HeldLease) async throws {
        _ = try await rows(
            """
            WITH kept AS (UPDATE \(table) SET lease_owner = NULL, lease_until = NULL \
            WHERE \(Self.isHeld) AND sealed IS NOT NULL RETURNING is_awaited), \
            gone AS (DELETE FROM \(table) WHERE \(Self.isHeld) AND sealed IS NULL RETURNING is_awaited) \
            SELECT pg_notify(\(channel), 'r ' || encode($1::bytea, 'hex')) \
            FROM (SELECT * FROM kept UNION ALL SELECT * FROM gone) AS released WHERE is_awaited
            """,
            .bytes(lease.digest),
            .integer(Int64(lease.fence)),
            .bytes(lease.owner)
        )
    }

    func touch(_ digest: [UInt8]) async throws -> Bool {
        // The row is written at most once a minute, or once per tenth of an idle timeout shorter than ten minutes. A time in the future is from
        // before the clock was set back. Without a new time, the idle timeout would not apply until the clock has caught up.
        let touched = try await rows(
            """
            WITH touched AS (UPDATE \(table) AS r SET idle_until = clock_timestamp() + idle_time, used_at = clock_timestamp() \
            WHERE id = $1::bytea AND \(Self.isAlive) AND (used_at > clock_timestamp() \
            OR used_at < clock_timestamp() - least(idle_time / 10, interval '1 minute'))) \
            SELECT 1 FROM \(table) AS r WHERE id = $1::bytea AND sealed IS NOT NULL AND \(Self.isAlive)
            """,
            .bytes(digest)
        )
        return !touched.isEmpty
    }

    private static let found = "record, sealed, (extract(epoch FROM used_at) * 1000)::bigint"

    private func records(in rows: PostgreSQLRows) -> [TaggedRecord] {
        rows.compactMap { row in
            guard let name = row[0], let key = RecordKey(uniqueName: name), let bytes = row[1] else { return nil }
            let milliseconds = PostgreSQLValue.integer(row[2]) ?? 0
            return TaggedRecord(
                key: key,
                bytes: bytes,
                lastUse: Date(secondsSince1970: Double(milliseconds) / 1000)
            )
        }
    }

    func records(tagged tag: [UInt8]) async throws -> [TaggedRecord] {
        records(
            in: try await rows(
                "SELECT \(Self.found) FROM \(table) AS r WHERE tags @> $1::bytea[] AND sealed IS NOT NULL AND \(Self.isAlive)",
                .list([tag])
            )
        )
    }

    func remove(_ digests: [[UInt8]]) async throws -> [TaggedRecord] {
        records(
            in: try await rows(
                """
                WITH gone AS (DELETE FROM \(table) AS r WHERE id = ANY($1::bytea[]) \
                RETURNING record, CASE WHEN \(Self.isAlive) THEN sealed END AS sealed, used_at, id) \
                SELECT \(Self.found), pg_notify(\(channel), 'g ' || encode(id, 'hex')) FROM gone
                """,
                .list(digests)
            )
        )
    }

    func claim(_ key: RecordKey, for lifetime: Duration) async throws -> Bool {
        try await !rows(
            """
            INSERT INTO \(table) AS r (id, record, fence, sealed, expires_at) \
            VALUES ($1::bytea, $2::bytea, 0, '', clock_timestamp() + $3\(Self.interval)) \
            ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at WHERE r.expires_at <= clock_timestamp() \
            RETURNING 1
            """,
            .bytes(key.digest),
            .bytes(Array(key.uniqueName.utf8)),
            .integer(lifetime.milliseconds)
        ).isEmpty
    }

    func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey] {
        try await rows(
            "SELECT record FROM \(table) WHERE sealed IS NOT NULL AND id > $1::bytea ORDER BY id LIMIT $2::bigint",
            .bytes(digest ?? []),
            .integer(Int64(limit))
        ).compactMap { $0[0].flatMap { RecordKey(uniqueName: $0) } }
    }

    func removeEnded() async throws -> Int {
        // A row without bytes remains if a holder was killed before it released its lease.
        let rows = try await rows(
            """
            WITH gone AS (DELETE FROM \(table) AS r WHERE id IN ( \
            (SELECT id FROM \(table) WHERE expires_at <= statement_timestamp() LIMIT 500) UNION ALL \
            (SELECT id FROM \(table) WHERE idle_until <= statement_timestamp() LIMIT 500) UNION ALL \
            (SELECT id FROM \(table) WHERE sealed IS NULL AND lease_until <= statement_timestamp() LIMIT 500)) \
            AND (NOT (\(Self.isAlive)) OR sealed IS NULL) AND (lease_until IS NULL OR lease_until <= clock_timestamp()) \
            RETURNING 1) SELECT count(*) FROM gone
            """
        )
        return Int(rows.first.flatMap { PostgreSQLValue.integer($0[0]) } ?? 0)
    }
}
