import AuthFlow
import AuthFlowTesting
import Expectations
import Synchronization
import Testing

@testable import AuthFlowDatabase
@testable import AuthFlowSQLite

/// Leases whose messages are lost, delayed or duplicated.
@Suite struct LeaseFaultTests {
    @Test func onlySixtyFourLowercaseHexadecimalDigitsAreADigest() {
        let text = String(repeating: "0f", count: 32)
        #expect(RecordMessage.digest(ofHex: text.utf8) == [UInt8](repeating: 15, count: 32))
        for invalid in [
            "\(text)0", "\(text.dropLast())", "\(text.dropLast())g", "0-\(text.dropFirst(2))", text.uppercased(),
        ] {
            #expect(RecordMessage.digest(ofHex: invalid.utf8) == nil, "\(invalid)")
        }
    }

    private let folder: SQLiteTokenStoreTests.Folder
    private let clock = SQLiteTokenStoreTests.WallClock()
    private let key = RecordKey(name: "user", issuer: "https://id.example.com", clientID: "client")

    init() throws { folder = try SQLiteTokenStoreTests.Folder() }

    private func table(_ onMessage: @escaping @Sendable (DatabaseMessage) -> Void = { _ in }) -> SQLiteRecords {
        SQLiteRecords(
            file: SQLiteFile(path: folder.file),
            host: clock.host,
            leases: clock.leases(),
            onMessage: onMessage
        )
    }

    /// A table in which a test can make writes fail or wait, change or delay a lease acquisition, lose the response to a claim, and interrupt a
    /// removal.
    private struct FaultyTable: RecordTable {
        let base: SQLiteRecords
        var isRefusing: FailingWrites?
        var pausedWrite: PausedAttempt?
        var firstAttempt: FirstAttempt?
        var pausedAttempt: PausedAttempt?
        var lostResponse: LostResponse?
        var interruption: Interruption?

        func write(
            _ bytes: [UInt8]?,
            _ attributes: RecordAttributes?,
            number: Int64,
            under lease: HeldLease
        ) async throws -> Bool {
            if isRefusing?.value.load(ordering: .relaxed) == true {
                throw DatabaseFailure(.refused, "No space is left.")
            }
            await pausedWrite?.pause()
            return try await base.write(bytes, attributes, number: number, under: lease)
        }
        func bytes(of digest: [UInt8]) async throws -> [UInt8]? { try await base.bytes(of: digest) }
        func bytes(under lease: HeldLease) async throws -> [UInt8]? { try await base.bytes(under: lease) }
        func take(_ key: RecordKey, by owner: [UInt8], for duration: Duration) async throws -> TakenLease {
            if let result = firstAttempt?.take(key) { return result }
            let result = try await base.take(key, by: owner, for: duration)
            await pausedAttempt?.pause()
            return result
        }
        func renew(_ lease: HeldLease, for duration: Duration) async throws -> Bool {
            try await base.renew(lease, for: duration)
        }
        func release(_ lease: HeldLease) async throws { try await base.release(lease) }
        func touch(_ digest: [UInt8]) async throws -> Bool { try await base.touch(digest) }
        func records(tagged tag: [UInt8]) async throws -> [TaggedRecord] { try await base.records(tagged: tag) }
        func remove(_ digests: [[UInt8]]) async throws -> [TaggedRecord] {
            guard let interruption else { return try await base.remove(digests) }
            var removed: [TaggedRecord] = []
            for digest in digests {
                try interruption.beginRemoval()
                removed += try await base.remove([digest])
            }
            return removed
        }
        func claim(_ key: RecordKey, for lifetime: Duration) async throws -> Bool {
            let isFirst = try await base.claim(key, for: lifetime)
            try lostResponse?.lose()
            return isFirst
        }
        func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey] {
            try await base.keys(after: digest, limit: limit)
        }
        func removeEnded() async throws -> Int { try await base.removeEnded() }
        func listen() {
            // A new connection for messages would wake all waiting tasks.
            if firstAttempt == nil { base.listen() }
        }
        var pushesMessages: Bool { base.pushesMessages }
        var removesAtomically: Bool { interruption == nil }
        var pending: Int { base.pending }
    }

    private final class FailingWrites: Sendable {
        let value = Atomic(true)
    }

    /// An acquisition whose result arrives, or a write that continues, when the test allows it.
    private final class PausedAttempt: Sendable {
        let began = AsyncStream<Void>.makeStream()
        let released = AsyncStream<Void>.makeStream()

        func pause() async {
            began.continuation.yield()
            for await _ in released.stream { break }
        }
    }

    /// The response to the first call is lost.
    private final class LostResponse: Sendable {
        private let isLost = Atomic(false)

        func lose() throws {
            guard !isLost.exchange(true, ordering: .relaxed) else { return }
            throw DatabaseFailure(.unknownOutcome, "The connection was lost.")
        }
    }

    /// The connection is lost before the second record is removed.
    private final class Interruption: Sendable {
        private let removals = Atomic(0)

        func beginRemoval() throws {
            guard removals.add(1, ordering: .relaxed).newValue == 2 else { return }
            throw DatabaseFailure(.unknownOutcome, "The connection was lost.")
        }
    }

    /// An attempt during which the holder releases the lease.
    private struct FirstAttempt: Sendable {
        let rest: Duration
        let onMessage: @Sendable (DatabaseMessage) -> Void
        private let attempts = Attempts()

        private final class Attempts: Sendable { let count = Atomic(0) }

        init(rest: Duration, onMessage: @escaping @Sendable (DatabaseMessage) -> Void) {
            (self.rest, self.onMessage) = (rest, onMessage)
        }

        func take(_ key: RecordKey) -> TakenLease? {
            guard attempts.count.add(1, ordering: .relaxed).oldValue == 0 else { return nil }
            onMessage(.message(String(decoding: RecordMessage.released(key.digest).text, as: UTF8.self)))
            return .busy(rest)
        }
    }

    @Test(.timeLimit(.minutes(1)), arguments: [Duration.zero, .seconds(15)])
    func aLeaseThatIsReleasedDuringAnAttemptIsAcquiredWithoutPolling(remainingLifetime: Duration) async throws {
        // With a stopped clock, this process never polls.
        let records = LeasedRecords(times: .init(), host: HostServices(clock: StoppedClock())) { onMessage in
            FaultyTable(
                base: table(onMessage),
                firstAttempt: FirstAttempt(rest: remainingLifetime, onMessage: onMessage)
            )
        }
        try await records.withLease(on: key) { #expect($0.key == key) }
    }

    @Test(.timeLimit(.minutes(1))) func aTaskThatIsCancelledWhileItAcquiresALeaseReleasesIt() async throws {
        let attempt = PausedAttempt()
        let records = LeasedRecords(times: .init(), host: clock.host) {
            FaultyTable(base: table($0), pausedAttempt: attempt)
        }
        let task = Task { [key] in
            try await records.withLease(on: key) { _ in Issue.record("The cancelled task holds the lease.") }
        }
        for await _ in attempt.began.stream { break }
        task.cancel()
        attempt.released.continuation.yield()
        await #expect(throws: CancellationError.self) { try await task.value }
        let other = LeasedRecords(times: .init(waitTimeout: .zero), host: clock.host) { table($0) }
        try await other.withLease(on: key) { #expect(!$0.isAfterAbandonedLease) }
    }

    /// A second attempt would find the claim of the first, as if another process had made it.
    @Test func aClaimWhoseOutcomeIsUnknownIsNotRepeated() async throws {
        let records = LeasedRecords(times: .init(), host: clock.host) {
            FaultyTable(base: table($0), lostResponse: LostResponse())
        }
        await expectError(.storageFailed) { try await records.claim(key, for: .seconds(60)) }
        #expect(try await !records.claim(key, for: .seconds(60)))
    }

    /// Redis removes the records one at a time. The application is notified of the end of each session that was removed.
    @Test func anInterruptedRemovalReturnsAllRecords() async throws {
        let records = LeasedRecords(times: .init(), host: clock.host) {
            FaultyTable(base: table($0), interruption: Interruption())
        }
        let keys = ["a", "b", "c"].map { RecordKey(name: $0, issuer: key.issuer, clientID: key.clientID) }
        for key in keys { try await records.withLease(on: key) { try await records.write([1], nil, under: $0) } }
        #expect(try await records.remove(keys).map(\.key) == keys)
    }

    private static let hex = String(repeating: "a", count: 64)

    static let otherMessages = ["", "r", "r ", "r abc", "r \(hex)0", "r-\(hex)", "x \(hex)"]

    @Test(arguments: otherMessages) func ignoresAMessageInAnotherFormat(_ text: String) {
        #expect(RecordMessage(text) == nil)
        #expect(RecordMessage("r \(Self.hex)") == .released([UInt8](repeating: 0xAA, count: 32)))
    }

    @Test func aDuplicateAcquisitionByTheSameOwnerKeepsTheLeaseValid() async throws {
        let table = table()
        let owner = [UInt8](repeating: 7, count: 16)
        guard case .taken(let fence, _) = try await table.take(key, by: owner, for: .seconds(15)),
            case .taken(let again, _) = try await table.take(key, by: owner, for: .seconds(15))
        else { throw CancellationError() }
        #expect(again == fence)
        let lease = HeldLease(digest: key.digest, owner: owner, fence: fence)
        #expect(try await table.write([1], nil, number: 1, under: lease))
    }

    /// Otherwise, an alert on the gauge would fire until the process restarts.
    @Test func aFailedWriteIsUnfinishedOnlyUntilItsHolderGivesUp() async throws {
        let records = LeasedRecords(times: .init(), host: clock.host) {
            FaultyTable(base: table($0), isRefusing: FailingWrites())
        }
        func unfinished() -> [Int] {
            records.gauges.filter { ["authflow_leases_held", "authflow_writes_unfinished"].contains($0.name) }
                .map { Int($0.value) }
        }
        await expectError(.storageFailed) {
            try await records.withLease(on: key) { lease in
                defer { #expect(unfinished() == [1, 1]) }
                try await records.write([2], nil, under: lease)
            }
        }
        #expect(unfinished() == [0, 0])
    }

    @Test func aFailedWriteHoldsTheLeaseUntilTheResultIsWritten() async throws {
        let writes = FailingWrites()
        let records = LeasedRecords(times: .init(), host: clock.host) {
            FaultyTable(base: table($0), isRefusing: writes)
        }
        var lease: Lease?
        try await records.withLease(on: key) { held in
            lease = held
            await expectError(.storageFailed) { try await records.write([2], nil, under: held) }
        }
        let held = try #require(lease)
        let other = LeasedRecords(times: .init(waitTimeout: .zero), host: clock.host) { table($0) }
        let busy = await #expect(throws: AuthError.self) { try await other.withLease(on: key) { _ in } }
        #expect(busy?.code == .leaseBusy)
        await expectError(.storageFailed) { try await records.write([2], nil, under: held) }
        writes.value.store(false, ordering: .relaxed)
        try await records.write([2], nil, under: held)
        #expect(try await other.withLease(on: key) { _ in try await other.bytes(for: key) } == [2])
        // The lease was released, so it cannot be used again.
        let lost = await #expect(throws: AuthError.self) { try await records.write([3], nil, under: held) }
        #expect(lost?.code == .leaseLost)
    }

    /// Otherwise, other processes would wait until the lease expires.
    @Test("A lease is released by a retried write during which its body returns", .timeLimit(.minutes(1)))
    func aRetriedWriteReleasesItsLeaseAfterTheBodyHasReturned() async throws {
        let (writes, attempt) = (FailingWrites(), PausedAttempt())
        let records = LeasedRecords(times: .init(), host: clock.host) {
            FaultyTable(base: table($0), isRefusing: writes, pausedWrite: attempt)
        }
        let retry = try await records.withLease(on: key) { held in
            await expectError(.storageFailed) { try await records.write([2], nil, under: held) }
            writes.value.store(false, ordering: .relaxed)
            let retry = Task { try await records.write([2], nil, under: held) }
            for await _ in attempt.began.stream { break }
            return retry
        }
        attempt.released.continuation.yield()
        try await retry.value
        let other = LeasedRecords(times: .init(waitTimeout: .zero), host: clock.host) { table($0) }
        #expect(try await other.withLease(on: key) { _ in try await other.bytes(for: key) } == [2])
    }
}
