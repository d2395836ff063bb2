import AuthFlow
import AuthFlowDatabase
import AuthFlowPostgreSQL
import AuthFlowRedis
import AuthFlowSQLite
import AuthFlowSimulation
import SimulatedHistories
import Testing

/// Compares the statements of each database with the rules of the simulated table: the same random calls must have
/// the same results.
///
/// No time passes during the calls: a lease is valid for an hour, or expires immediately.
@Suite(.enabled(if: Database.areRunning)) struct StatementTests {
    @Test(arguments: Database.allCases, [UInt64](1...8))
    func databaseStatementsBehaveLikeTheSimulatedTable(_ database: Database, _ seed: UInt64) async throws {
        var comparison = Comparison(table: try await database.table(), seed: seed)
        for number in 1...300 { try await comparison.call(number) }
    }
}

extension Database {
    fileprivate func table() async throws -> any RecordTable {
        switch try await store() {
        case let store as PostgreSQLTokenStore: store.table
        case let store as RedisTokenStore: store.table
        case let store as SQLiteTokenStore: store.table
        default: preconditionFailure("A store has no table.")
        }
    }
}

private struct Comparison {
    private let table: any RecordTable
    private let model = SimulatedRecords(world: World(simulation: Simulation(seed: 0), faults: Faults()))
    private var random: SeededGenerator
    /// The leases that were acquired in the database and in the model. Most of them have been lost.
    private var leases: [(table: HeldLease, model: HeldLease)] = []

    private static let keys = (0..<3).map {
        RecordKey(name: "record \($0)", issuer: "https://id.example.com", clientID: "client")
    }
    private static let owners: [[UInt8]] = (1...3).map { Array(repeating: $0, count: 16) }
    private static let tags = (0..<2).map { RecordTag(["tag", "\($0)"], key: nil) }

    init(table: any RecordTable, seed: UInt64) {
        self.table = table
        self.random = SeededGenerator(seed: seed)
    }

    private mutating func choose<Value>(_ values: [Value]) throws -> Value {
        try #require(values.randomElement(using: &random))
    }

    private static func text(_ records: [TaggedRecord]) -> [String] {
        records.map { "\($0.key.name): \($0.bytes)" }.sorted()
    }

    mutating func call(_ number: Int) async throws {
        let key = try choose(Self.keys)
        switch random.next() % 12 {
        case 0..<3: try await take(key, number)
        case 3:
            let found = try await table.bytes(of: key.digest)
            #expect(found == model.bytes(of: key.digest), "call \(number): read")
        case 4:
            let found = Self.text(try await table.records(tagged: Self.tags[0].bytes))
            #expect(found == Self.text(model.records(tagged: Self.tags[0].bytes)), "call \(number): find")
        case 5:
            let found = try await table.touch(key.digest)
            #expect(found == model.touch(key.digest), "call \(number): touch")
        case 6 where random.happens(0.4):
            let digests = [key.digest, try choose(Self.keys).digest]
            let removed = Self.text(try await table.remove(digests))
            #expect(removed == Self.text(model.remove(digests)), "call \(number): remove")
        case 7 where random.happens(0.3):
            let claim = RecordKey(name: key.name, issuer: key.issuer, clientID: key.clientID, kind: .claim)
            let isFirst = try await table.claim(claim, for: .seconds(3600))
            #expect(isFirst == model.claim(claim, for: .seconds(3600)), "call \(number): claim")
        default: try await useLease(number)
        }
    }

    private mutating func take(_ key: RecordKey, _ number: Int) async throws {
        let owner = try choose(Self.owners)
        // A duration shorter than another holder's lease would look as if the clock had been set back.
        let isFree = model.holder(of: key.digest).map { $0 == owner } ?? true
        let duration: Duration = isFree && random.happens(0.4) ? .zero : .seconds(3600)
        let (taken, expected) = (
            try await table.take(key, by: owner, for: duration), model.take(key, by: owner, for: duration)
        )
        switch (taken, expected) {
        case (.busy, .busy): break
        case (.taken(let fence, let isAfterAbandonedLease), .taken(let modelFence, let modelIsAfterAbandonedLease)):
            #expect(
                isAfterAbandonedLease == modelIsAfterAbandonedLease,
                "call \(number): take after an abandoned lease"
            )
            let new = (
                table: HeldLease(digest: key.digest, owner: owner, fence: fence),
                model: HeldLease(digest: key.digest, owner: owner, fence: modelFence)
            )
            // The same holder gets the same fence; another holder gets a higher fence.
            for earlier in leases where earlier.table.digest == key.digest {
                #expect((earlier.table.fence == fence) == (earlier.model.fence == modelFence), "call \(number): fence")
                #expect(earlier.table.fence <= fence, "call \(number): fence")
            }
            leases.append(new)
        default: Issue.record("call \(number): take: \(taken), not \(expected)")
        }
    }

    private mutating func useLease(_ number: Int) async throws {
        // Mostly one of the most recent leases, which may still be held.
        guard !leases.isEmpty else { return }
        let lease = try choose(random.happens(0.7) ? leases.suffix(4) : leases)
        switch random.next() % 4 {
        case 0:
            let isRenewed = try await table.renew(lease.table, for: .seconds(3600))
            #expect(isRenewed == model.renew(lease.model, for: .seconds(3600)), "call \(number): renew")
        case 1:
            var found: [UInt8]??
            do {
                found = .some(try await table.bytes(under: lease.table))
            } catch let error as AuthError where error.code == .leaseLost {
                found = nil
            }
            #expect(found == model.bytes(under: lease.model), "call \(number): read under a lease")
        case 2:
            try await table.release(lease.table)
            model.release(lease.model)
        default:
            let bytes: [UInt8]? = random.happens(0.2) ? nil : [UInt8(truncatingIfNeeded: number)]
            let tags = random.happens(0.5) ? Self.tags : [Self.tags[1]]
            let new = RecordAttributes(lifetime: .seconds(3600), idleTime: .seconds(1800), tags: tags)
            let attributes = random.happens(0.5) ? new : nil
            // Some writes are executed after a later write of the same holder. The first number is 1.
            let write = Int64(max(1, number - (random.happens(0.3) ? 20 : 0)))
            let isWritten = try await table.write(bytes, attributes, number: write, under: lease.table)
            let expected = model.write(bytes, attributes, number: write, under: lease.model)
            #expect(isWritten == expected, "call \(number): write")
        }
    }
}
