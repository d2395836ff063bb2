import AuthFlow
import AuthFlowDatabase
import AuthFlowEssentials

/// The operations on records, which are hashes on a Redis server. Each change to a record runs as one script.
struct RedisRecords: RecordTable {
    private let database: Database<RedisLink>
    private let prefix: String

    init(
        _ settings: RedisSettings,
        connections: Int,
        onMessage: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        let channel = "\(settings.prefix):released"
        self.database = Database(
            connections: connections,
            open: { (use: DatabaseLinkUse) throws(DatabaseFailure) in
                let link = try RedisLink(settings)
                switch (settings.username, settings.password) {
                case (let name?, let password): try link.run("AUTH", name, password?.exposed ?? "")
                case (nil, let password?): try link.run("AUTH", password.exposed)
                case (nil, nil): break
                }
                if settings.database != 0 { try link.run("SELECT", "\(settings.database)") }
                try Self.requireNoEviction(link)
                if use == .messages { try link.run("SUBSCRIBE", channel) }
                // The subscriber connection has no timeout, because messages may be rare. On the other connections, the pool's request timeout, which is shorter, expires first.
                try link.setTimeout(use == .messages ? 0 : 10_000)
                return link
            },
            onMessage: onMessage
        )
        self.prefix = settings.prefix
    }

    /// Rejects a server that evicts records when its memory is full. A server that does not disclose its policy is
    /// accepted.
    static func requireNoEviction(_ link: RedisLink) throws(DatabaseFailure) {
        let values: RedisValue
        do throws(DatabaseFailure) {
            values = try link.run("CONFIG", "GET", "maxmemory-policy")
        } catch {
            if error.isTemporary { throw error }
            return
        }
        guard let policy = values.list?.last?.text, policy != "noeviction" else { return }
        throw DatabaseFailure(
            .unusable,
            "The Redis server evicts sessions when its memory is full (maxmemory-policy \(DisplayText.sanitized(policy, limit: 40))). Set it to noeviction."
        )
    }

    private func key(_ digest: [UInt8]) -> [UInt8] { Array("\(prefix):{\(RecordMessage.hex(digest))}".utf8) }

    private var channel: [UInt8] { Array("\(prefix):released".utf8) }

    private static func argument(_ number: some FixedWidthInteger) -> [UInt8] { Array("\(number)".utf8) }

    /// Runs a script with EVALSHA, or with EVAL if the server has not loaded it.
    private func run(_ script: RedisScript, on key: [UInt8], _ arguments: [[UInt8]] = []) async throws -> RedisValue {
        let rest = [Array("1".utf8), key] + arguments
        do {
            return try await database.response(to: [Array("EVALSHA".utf8), Array(script.digest.utf8)] + rest)
        } catch let failure as DatabaseFailure where failure.message == RedisLink.noScript {
            return try await database.response(to: [Array("EVAL".utf8), Array(script.text.utf8)] + rest)
        }
    }

    var pushesMessages: Bool { true }

    var removesAtomically: Bool { false }

    var pending: Int { database.pending }

    func listen() { database.listen() }

    func bytes(of digest: [UInt8]) async throws -> [UInt8]? { try await run(.read, on: key(digest)).bytes }

    func take(_ record: RecordKey, by owner: [UInt8], for duration: Duration) async throws -> TakenLease {
        let arguments = [owner, Self.argument(duration.milliseconds), Array(record.uniqueName.utf8)]
        guard let parts = try await run(.take, on: key(record.digest), arguments).list, parts.count >= 2,
            let number = parts[1].text.flatMap({ UInt64($0) })
        else { throw Self.unexpected }
        guard parts[0].integer == 1 else { return .busy(.milliseconds(Int64(clamping: number))) }
        return .taken(fence: number, isAfterAbandonedLease: parts.count > 2 && parts[2].integer == 1)
    }

    private static var unexpected: DatabaseFailure {
        DatabaseFailure(.refused, "Redis sent an unexpected reply.")
    }

    func bytes(under lease: HeldLease) async throws -> [UInt8]? {
        let found = try await run(.readUnderLease, on: key(lease.digest), Self.held(lease))
        guard found.integer != 0 else { throw Lease.lost }
        return found.bytes
    }

    func renew(_ lease: HeldLease, for duration: Duration) async throws -> Bool {
        let arguments = Self.held(lease) + [Self.argument(duration.milliseconds)]
        return try await run(.renew, on: key(lease.digest), arguments).integer == 1
    }

    private static func held(_ lease: HeldLease) -> [[UInt8]] { [argument(lease.fence), lease.owner] }

    func write(
        _ bytes: [UInt8]?,
        _ attributes: RecordAttributes?,
        number: Int64,
        under lease: HeldLease
    ) async throws -> Bool {
        var arguments =
            Self.held(lease) + [Array(bytes == nil ? "0".utf8 : "1".utf8), bytes ?? [], Self.argument(number)]
        if let attributes {
            let lifetime = attributes.lifetime.map { Self.argument($0.milliseconds) } ?? []
            arguments += [lifetime, attributes.idleTime.map { Self.argument($0.milliseconds) } ?? []]
            arguments.append(Array(attributes.tags.map { RecordMessage.hex($0.bytes) }.joined(separator: " ").utf8))
            // The tags are updated before the record and not atomically with it, because in a cluster, a tag's set
            // may be on another node. Readers skip a digest whose record does not have the tag.
            for tag in attributes.tags {
                _ = try await run(.tag, on: tagKey(tag.bytes), [lease.digest, lifetime])
            }
        }
        return try await run(.write, on: key(lease.digest), arguments).integer == 1
    }

    private func tagKey(_ tag: [UInt8]) -> [UInt8] { Array("\(prefix):tag:{\(RecordMessage.hex(tag))}".utf8) }

    func release(_ lease: HeldLease) async throws {
        let arguments = Self.held(lease) + [channel, RecordMessage.released(lease.digest).text]
        _ = try await run(.release, on: key(lease.digest), arguments)
    }

    func touch(_ digest: [UInt8]) async throws -> Bool { try await run(.touch, on: key(digest)).integer == 1 }

    func records(tagged tag: [UInt8]) async throws -> [TaggedRecord] {
        let range = ["0", "-1", "WITHSCORES"].map { Array($0.utf8) }
        let values = try await database.response(to: [Array("ZRANGE".utf8), tagKey(tag)] + range).list ?? []
        let wanted = RecordMessage.hex(tag)
        var found: [TaggedRecord] = []
        // The members and their scores alternate.
        for index in stride(from: 0, to: values.count - 1, by: 2) {
            guard let member = values[index].bytes, let score = values[index + 1].bytes else { continue }
            let shown = try await run(.show, on: key(member))
            let tags = shown.list?.last?.text?.split(separator: " ") ?? []
            if let record = Self.record(shown), tags.contains(Substring(wanted)) {
                found.append(record)
            } else if try await database.response(to: [Array("EXISTS".utf8), key(member)]).integer == 0 {
                _ = try await run(.untag, on: tagKey(tag), [member, score])
            }
        }
        return found
    }

    private static func record(_ shown: RedisValue) -> TaggedRecord? {
        guard let parts = shown.list, parts.count == 4, let name = parts[0].bytes,
            let key = RecordKey(uniqueName: name),
            let bytes = parts[1].bytes, let used = parts[2].text.flatMap(Double.init)
        else { return nil }
        return TaggedRecord(key: key, bytes: bytes, lastUse: Date(secondsSince1970: used / 1000))
    }

    func remove(_ digests: [[UInt8]]) async throws -> [TaggedRecord] {
        var removed: [TaggedRecord] = []
        for digest in digests {
            let shown = try await run(.remove, on: key(digest), [channel, RecordMessage.removed(digest).text])
            if let record = Self.record(shown) { removed.append(record) }
        }
        return removed
    }

    func claim(_ record: RecordKey, for lifetime: Duration) async throws -> Bool {
        let arguments = [Self.argument(lifetime.milliseconds), Array(record.uniqueName.utf8)]
        return try await run(.claim, on: key(record.digest), arguments).integer == 1
    }

    /// Redis keys have no order, so every call scans all of them. Use this method only for infrequent operations.
    func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey] {
        let start = Array("\(prefix):{".utf8)
        var (digests, cursor): (Set<[UInt8]>, [UInt8]) = ([], Array("0".utf8))
        repeat {
            let pattern = Array("\(prefix):{*}".utf8)
            let page = try await database.response(
                to: [Array("SCAN".utf8), cursor, Array("MATCH".utf8), pattern, Array("COUNT".utf8), Array("1000".utf8)]
            )
            guard let parts = page.list, parts.count == 2, let next = parts[0].bytes else { throw Self.unexpected }
            cursor = next
            for name in parts[1].list?.compactMap(\.bytes) ?? [] where name.starts(with: start) {
                if let found = RecordMessage.digest(ofHex: name.dropFirst(start.count).dropLast()) {
                    digests.insert(found)
                }
            }
        } while cursor != Array("0".utf8)
        let later = digest.map { last in digests.filter { last.lexicographicallyPrecedes($0) } } ?? digests
        var keys: [RecordKey] = []
        for digest in later.sorted(by: { $0.lexicographicallyPrecedes($1) }) where keys.count < limit {
            if let record = Self.record(try await run(.show, on: key(digest))) { keys.append(record.key) }
        }
        return keys
    }

    /// Does nothing, because the server removes expired records.
    func removeEnded() async throws -> Int { 0 }
}
