import AuthFlow
import AuthFlowDatabase
import AuthFlowEssentials
import Synchronization

/// The SQL statements. All times are in milliseconds. Lease times are measured with ``LeaseClock``, and all other times
/// with the system clock.
final class SQLiteRecords: RecordTable {
    private let executor: SQLiteExecutor
    private let host: HostServices
    private let leases: LeaseClock
    private let onMessage: @Sendable (DatabaseMessage) -> Void
    private let listening = Mutex<Task<Void, Never>?>(nil)

    init(
        file: SQLiteFile,
        host: HostServices,
        leases: LeaseClock,
        onMessage: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        self.executor = SQLiteExecutor(file: file)
        self.host = host
        self.leases = leases
        self.onMessage = onMessage
    }

    deinit { listening.withLock { $0?.cancel() } }

    private var now: SQLiteValue { .integer(Self.milliseconds(host.now())) }

    private static func milliseconds(_ date: Date) -> Int64 {
        Int64((date.timeIntervalSince1970 * 1000).rounded(.down))
    }

    /// The SQL condition for a record that has not expired at the time in the first parameter.
    private static let isAlive = "(expires_at IS NULL OR expires_at > ?1) AND (idle_until IS NULL OR idle_until > ?1)"

    func bytes(of digest: [UInt8]) async throws -> [UInt8]? {
        try await executor.run { [self] connection throws(DatabaseFailure) in
            try connection.run("SELECT sealed FROM records WHERE id = ?2 AND \(Self.isAlive)", now, .bytes(digest))
                .first?[0].bytes
        }
    }

    // MARK: Leases

    func take(_ key: RecordKey, by owner: [UInt8], for duration: Duration) async throws -> TakenLease {
        let digest = key.digest
        return try await executor.run { [self] connection throws(DatabaseFailure) in
            try connection.setDurable(false)
            // The clocks are read here, because the call may have waited for other calls. If the same owner retries
            // after a lost or late response, its lease remains valid.
            let (now, time) = (now, SQLiteValue.integer(leases.now()))
            let fence = connection.nextFence(at: Int64(host.now().timeIntervalSince1970 * 1_000_000))
            let taken = try connection.run(
                """
                INSERT INTO records (id, record, fence, lease_owner, lease_until, lease_boot, used_at) \
                VALUES (?2, ?3, ?6, ?4, ?7 + ?5, ?8, ?1) \
                ON CONFLICT (id) DO UPDATE SET \
                fence = CASE WHEN lease_owner IS excluded.lease_owner THEN fence ELSE max(fence + 1, excluded.fence) END, \
                lease_owner = excluded.lease_owner, lease_until = excluded.lease_until, \
                lease_boot = excluded.lease_boot, \
                is_awaited = is_awaited AND lease_owner IS excluded.lease_owner, \
                is_after_unfinished = is_after_unfinished \
                OR lease_owner IS NOT NULL AND lease_owner <> excluded.lease_owner AND NOT has_written, \
                has_written = CASE WHEN lease_owner IS excluded.lease_owner THEN has_written ELSE 0 END, \
                sealed = CASE WHEN \(Self.isAlive) THEN sealed END, \
                tag_1 = CASE WHEN \(Self.isAlive) THEN tag_1 END, tag_2 = CASE WHEN \(Self.isAlive) THEN tag_2 END, \
                idle_time = CASE WHEN \(Self.isAlive) THEN idle_time END, \
                idle_until = CASE WHEN \(Self.isAlive) THEN idle_until END, \
                expires_at = CASE WHEN \(Self.isAlive) THEN expires_at END \
                WHERE lease_until IS NULL OR lease_until <= ?7 OR lease_boot <> ?8 OR lease_owner = excluded.lease_owner \
                RETURNING fence, is_after_unfinished
                """,
                now,
                .bytes(digest),
                .bytes(Array(key.uniqueName.utf8)),
                .bytes(owner),
                .integer(duration.milliseconds),
                .integer(fence),
                time,
                .bytes(leases.boot)
            )
            if let row = taken.first, let fence = row[0].integer.flatMap({ UInt64(exactly: $0) }) {
                return .taken(fence: fence, isAfterAbandonedLease: row[1].flag)
            }
            // This flag makes the holder notify the waiting processes when it releases the lease. If the remaining lifetime of a lease exceeds its
            // duration, the machine has been restarted and its boot ID cannot be read, or the holder is in another time namespace, so the lifetime
            // is reduced; a live holder renews its lease in time. The clock is read again under the write lock: while the statement above waited for
            // the lock, the holder may have renewed its lease, which must not become shorter than the holder assumes.
            let busy = try connection.transaction { () throws(DatabaseFailure) -> [[SQLiteValue]] in
                try connection.run(
                    """
                    UPDATE records SET is_awaited = 1, lease_until = min(lease_until, ?1 + ?3) \
                    WHERE id = ?2 AND lease_until > ?1 RETURNING lease_until - ?1
                    """,
                    .integer(leases.now()),
                    .bytes(digest),
                    .integer(duration.milliseconds)
                )
            }
            return .busy(.milliseconds(busy.first?[0].integer ?? 0))
        }
    }

    /// The SQL condition for a held lease, which the second to fourth parameters identify. An expired lease counts as held until
    /// another holder acquires it.
    private static let isHeld = "id = ?2 AND fence = ?3 AND lease_owner = ?4"

    /// The parameters of a statement with this condition.
    private static func values(_ now: SQLiteValue, _ lease: HeldLease, _ others: SQLiteValue...) -> [SQLiteValue] {
        [now, .bytes(lease.digest), .integer(Int64(lease.fence)), .bytes(lease.owner)] + others
    }

    func bytes(under lease: HeldLease) async throws -> [UInt8]? {
        let found = try await executor.run { [self] connection throws(DatabaseFailure) in
            try connection.run(
                "SELECT CASE WHEN \(Self.isAlive) THEN sealed END FROM records WHERE \(Self.isHeld)",
                Self.values(now, lease)
            )
            .first
        }
        guard let found else { throw Lease.lost }
        return found[0].bytes
    }

    func renew(_ lease: HeldLease, for duration: Duration) async throws -> Bool {
        try await executor.run(isEssential: true) { [self] connection throws(DatabaseFailure) in
            try connection.setDurable(false)
            return try !connection.run(
                "UPDATE records SET lease_until = ?1 + ?5 WHERE \(Self.isHeld) RETURNING 1",
                Self.values(.integer(leases.now()), lease, .integer(duration.milliseconds))
            ).isEmpty
        }
    }

    func release(_ lease: HeldLease) async throws {
        let message = RecordMessage.released(lease.digest)
        let isAwaited = try await executor.run(isEssential: true) { [self] connection throws(DatabaseFailure) in
            let now = now
            try connection.setDurable(false)
            return try connection.transaction { () throws(DatabaseFailure) in
                func run(_ change: String) throws(DatabaseFailure) -> [[SQLiteValue]] {
                    try connection.run("\(change) RETURNING is_awaited", Self.values(now, lease))
                }
                let kept = try run(
                    "UPDATE records SET lease_owner = NULL, lease_until = NULL WHERE \(Self.isHeld) AND sealed IS NOT NULL"
                )
                let gone = try run("DELETE FROM records WHERE \(Self.isHeld) AND sealed IS NULL")
                guard (kept + gone).first?[0].flag == true else { return false }
                try Self.postMessage(message, at: now, connection)
                return true
            }
        }
        if isAwaited { report(message) }
    }

    // MARK: Records

    func write(
        _ bytes: [UInt8]?,
        _ attributes: RecordAttributes?,
        number: Int64,
        under lease: HeldLease
    ) async throws -> Bool {
        try await executor.run(isEssential: true) { [self] connection throws(DatabaseFailure) in
            var values = Self.values(now, lease, .bytes(bytes), .integer(number))
            try connection.setDurable(true)
            var change = "UPDATE records SET sealed = ?5, is_after_unfinished = 0, has_written = ?6"
            if let attributes {
                change +=
                    ", used_at = ?1, expires_at = ?1 + ?7, idle_time = ?8, idle_until = ?1 + ?8, tag_1 = ?9, tag_2 = ?10"
                values += [
                    .integer(attributes.lifetime?.milliseconds), .integer(attributes.idleTime?.milliseconds),
                    .bytes(attributes.tags.first?.bytes), .bytes(attributes.tags.dropFirst().first?.bytes),
                ]
            }
            return try !connection.run("\(change) WHERE \(Self.isHeld) AND has_written <= ?6 RETURNING 1", values)
                .isEmpty
        }
    }

    func touch(_ digest: [UInt8]) async throws -> Bool {
        try await executor.run { [self] connection throws(DatabaseFailure) in
            let now = now
            let found = try connection.run(
                "SELECT idle_time, used_at FROM records WHERE id = ?2 AND sealed IS NOT NULL AND \(Self.isAlive)",
                now,
                .bytes(digest)
            )
            guard let row = found.first else { return false }
            // The row is written at most once a minute, or once per tenth of the idle timeout if that is shorter.
            let pause = min((row[0].integer ?? 600_000) / 10, 60_000)
            // A damaged row can contain any number.
            let age = (now.integer ?? 0) &- (row[1].integer ?? 0)
            // A time in the future is from before the clock was set back. Without a new time, the idle timeout would not apply until the clock has
            // caught up.
            guard age > pause || age < 0 else { return true }
            try connection.setDurable(false)
            return try !connection.run(
                "UPDATE records SET idle_until = ?1 + idle_time, used_at = ?1 WHERE id = ?2 AND \(Self.isAlive) RETURNING 1",
                now,
                .bytes(digest)
            ).isEmpty
        }
    }

    private static let found = "record, sealed, used_at"

    private static func records(in rows: [[SQLiteValue]]) -> [TaggedRecord] {
        rows.compactMap { row in
            guard let name = row[0].bytes, let key = RecordKey(uniqueName: name), let bytes = row[1].bytes else {
                return nil
            }
            let used = Double(row[2].integer ?? 0) / 1000
            return TaggedRecord(key: key, bytes: bytes, lastUse: Date(secondsSince1970: used))
        }
    }

    func records(tagged tag: [UInt8]) async throws -> [TaggedRecord] {
        try await executor.run { [self] connection throws(DatabaseFailure) in
            Self.records(
                in: try connection.run(
                    "SELECT \(Self.found) FROM records WHERE (tag_1 = ?2 OR tag_2 = ?2) AND sealed IS NOT NULL AND \(Self.isAlive)",
                    now,
                    .bytes(tag)
                )
            )
        }
    }

    func remove(_ digests: [[UInt8]]) async throws -> [TaggedRecord] {
        let (removed, gone) = try await executor.run { [self] connection throws(DatabaseFailure) in
            let now = now
            try connection.setDurable(true)
            return try connection.transaction { () throws(DatabaseFailure) -> ([TaggedRecord], [RecordMessage]) in
                var (removed, gone): ([TaggedRecord], [RecordMessage]) = ([], [])
                for digest in digests {
                    let rows = try connection.run(
                        "SELECT \(Self.found) FROM records WHERE id = ?2 AND sealed IS NOT NULL AND \(Self.isAlive)",
                        now,
                        .bytes(digest)
                    )
                    let isThere = try !connection.run("DELETE FROM records WHERE id = ?1 RETURNING 1", .bytes(digest))
                        .isEmpty
                    guard isThere else { continue }
                    removed += Self.records(in: rows)
                    gone.append(.removed(digest))
                    try Self.postMessage(.removed(digest), at: now, connection)
                }
                return (removed, gone)
            }
        }
        for message in gone { report(message) }
        return removed
    }

    func claim(_ key: RecordKey, for lifetime: Duration) async throws -> Bool {
        try await executor.run { [self] connection throws(DatabaseFailure) in
            try connection.setDurable(true)
            return try !connection.run(
                """
                INSERT INTO records (id, record, fence, sealed, used_at, expires_at) VALUES (?2, ?3, 0, x'', ?1, ?1 + ?4) \
                ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at WHERE expires_at <= ?1 RETURNING 1
                """,
                now,
                .bytes(key.digest),
                .bytes(Array(key.uniqueName.utf8)),
                .integer(lifetime.milliseconds)
            ).isEmpty
        }
    }

    func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey] {
        try await executor.run { connection throws(DatabaseFailure) in
            try connection.run(
                "SELECT record FROM records WHERE sealed IS NOT NULL AND id > ?1 ORDER BY id LIMIT ?2",
                .bytes(digest ?? []),
                .integer(Int64(limit))
            ).compactMap { $0[0].bytes.flatMap { RecordKey(uniqueName: $0) } }
        }
    }

    /// The SQL condition for a record on which no lease of the current boot (the third parameter) is held at the current time (the second parameter).
    /// A lease that would last for another day is from an earlier boot, whose ID could not be read.
    private static let hasNoLease =
        "(lease_until IS NULL OR lease_until <= ?2 OR lease_until > ?2 + 86400000 OR lease_boot <> ?3)"

    func removeEnded() async throws -> Int {
        try await executor.run { [self] connection throws(DatabaseFailure) in
            let now = now
            try connection.setDurable(false)
            try connection.run("DELETE FROM messages WHERE at < ?1 - ?2", now, .integer(Self.retention))
            // A record without bytes was left by a holder that did not release its lease.
            return try connection.run(
                """
                DELETE FROM records WHERE id IN ( \
                SELECT id FROM (SELECT id FROM records WHERE expires_at <= ?1 LIMIT 500) UNION \
                SELECT id FROM (SELECT id FROM records WHERE idle_until <= ?1 LIMIT 500) UNION \
                SELECT id FROM (SELECT id FROM records WHERE sealed IS NULL AND \(Self.hasNoLease) LIMIT 500)) \
                AND \(Self.hasNoLease) RETURNING 1
                """,
                now,
                .integer(leases.now()),
                .bytes(leases.boot)
            ).count
        }
    }

    // MARK: Messages

    /// Stores a message for other processes, and removes all but the last 10,000 messages.
    private static func postMessage(
        _ message: RecordMessage,
        at now: SQLiteValue,
        _ connection: SQLiteConnection
    ) throws(DatabaseFailure) {
        try connection.run("INSERT INTO messages (at, text) VALUES (?1, ?2)", now, .bytes(message.text))
        try connection.run("DELETE FROM messages WHERE id <= (SELECT max(id) FROM messages) - 10000")
    }

    private func report(_ message: RecordMessage) { onMessage(.message(String(decoding: message.text, as: UTF8.self))) }

    /// The polling interval for messages.
    private static var interval: Duration { .milliseconds(100) }

    var pushesMessages: Bool { false }

    var removesAtomically: Bool { true }

    var pending: Int { executor.pending }

    func listen() {
        listening.withLock { listening in
            guard listening == nil else { return }
            listening = Task { [executor, host, onMessage] in
                var last: Position?
                while !Task.isCancelled {
                    let (position, now) = (last, Self.milliseconds(host.now()))
                    // After a failed read, the next one continues at the same position.
                    if let read = try? await executor.run({ connection throws(DatabaseFailure) in
                        try Self.messages(after: position, at: now, connection)
                    }) {
                        // Messages may have been missed, so all waiting tasks and cached records are checked again.
                        if !read.isComplete { onMessage(.connected) }
                        for message in read.messages { onMessage(.message(message)) }
                        last = read.position
                    }
                    try? await host.clock.sleep(for: Self.interval)
                }
            }
        }
    }

    /// The time for which a message is stored, in milliseconds.
    private static var retention: Int64 { 60_000 }

    /// - Parameter position: The position that the last call returned; nil to start at the current position.
    /// - Returns: The messages after that position, and the new position; no messages and a new position if messages
    ///   may have been missed.
    private static func messages(
        after position: Position?,
        at now: Int64,
        _ connection: SQLiteConnection
    ) throws(DatabaseFailure) -> (messages: [String], position: Position, isComplete: Bool) {
        // This number changes whenever another connection commits a write. Reading it does not access the disk.
        let version = try connection.run("PRAGMA data_version").first?[0].integer ?? 0
        var next = Position(connection: connection.number, version: version, last: 0, at: now)
        guard let position, position.connection == next.connection, abs(now - position.at) < retention / 2 else {
            next.last = try connection.run("SELECT max(id) FROM messages").first?[0].integer ?? 0
            return ([], next, false)
        }
        next.last = position.last
        guard version != position.version else { return ([], next, true) }
        let rows = try connection.run(
            "SELECT id, text FROM messages WHERE id > ?1 ORDER BY id",
            .integer(position.last)
        )
        next.last = rows.last?[0].integer ?? position.last
        // The oldest messages of a large removal may have been deleted.
        guard rows.first.map({ $0[0].integer == position.last + 1 }) ?? true else { return ([], next, false) }
        return (rows.compactMap { $0[1].bytes.map { String(decoding: $0, as: UTF8.self) } }, next, true)
    }

    /// The position up to which messages were read, and the time at which they were read.
    private struct Position: Sendable {
        var connection: UInt64
        var version: Int64
        var last: Int64
        var at: Int64
    }
}
