package import AuthFlow
import Synchronization

/// A token store backed by a database table. It renews leases while they are held, retries failed writes for a
/// limited time, and lets tasks wait for leases that other processes hold.
package final class LeasedRecords<Table: RecordTable>: Sendable {
    /// The durations and timeouts for leases, waits and retries.
    package struct Times: Sendable {
        /// The duration of a lease that its holder does not renew. A holder renews its lease each time a third of
        /// this duration has passed. A write is retried for the same duration while the database is unavailable. If the
        /// lease has expired in the meantime, the database decides whether it is still held.
        let lease: Duration
        /// The maximum time to wait for another holder to release the lease.
        let waitTimeout: Duration
        /// The time for which other calls are retried. This can be short, because a restarting database is unavailable only
        /// briefly.
        let outage = Duration.seconds(5)

        package init(lease: Duration = .seconds(15), waitTimeout: Duration = .seconds(30)) {
            self.lease = lease
            self.waitTimeout = waitTimeout
        }
    }

    /// A lease acquired by this process.
    private struct Held {
        let lease: HeldLease
        /// The number of writes that were started.
        var writes: Int64 = 0
        /// Whether the last write failed.
        var isUnwritten = false
        /// Whether the body of `withLease` has returned although its result could not be stored. The holder may still
        /// write the result under this lease, as long as no other holder has acquired the lease.
        var isOver = false
        /// Whether the holder still has a reference to the lease, and may therefore write.
        let isReferenced: @Sendable () -> Bool

        /// Whether the holder has given up the result that could not be stored.
        var isAbandoned: Bool { isOver && !isReferenced() }
    }

    /// The maximum number of leases with unwritten results. If there are more, all are dropped, and their holders
    /// must acquire new leases.
    private static var maximumOver: Int { 10_000 }

    package let table: Table
    private let times: Times
    private let host: HostServices
    private let waiters = RecordWaiters()
    /// The keys do not retain the leases.
    private let held = Mutex<[Lease: Held]>([:])
    private let observers = Observers()

    /// - Parameter table: Creates the table, which passes its messages to the given handler.
    package init(
        times: Times,
        host: HostServices,
        table: (_ onMessage: @escaping @Sendable (DatabaseMessage) -> Void) -> Table
    ) {
        self.times = times
        self.host = host
        let (waiters, observers) = (self.waiters, self.observers)
        self.table = table { message in
            switch message {
            case .connected:
                waiters.wakeUpAll()
                observers.report(nil)
            case .message(let text):
                switch RecordMessage(text) {
                case .released(let digest)?: waiters.wakeUp(digest)
                case .removed(let digest)?:
                    waiters.wakeUp(digest)
                    observers.report(digest)
                case nil: break
                }
            }
        }
    }

    private final class Observers: Sendable {
        private let list = Mutex<[@Sendable ([UInt8]?) -> Void]>([])
        func add(_ observer: @escaping @Sendable ([UInt8]?) -> Void) { list.withLock { $0.append(observer) } }
        func report(_ digest: [UInt8]?) { for observer in list.withLock({ $0 }) { observer(digest) } }
    }

    package func observeRemovals(_ observer: @escaping @Sendable (_ digest: [UInt8]?) -> Void) {
        observers.add(observer)
        table.listen()
    }
}

extension LeasedRecords {
    /// The current metrics of this process, which ``DatabaseStore/gauges`` describes.
    package var gauges: [FlowGauge] {
        let (leases, unwritten) = held.withLock { held in
            held = held.filter { !$0.value.isAbandoned }
            return (held.count, held.values.count { $0.isUnwritten })
        }
        return [
            FlowGauge("authflow_leases_held", leases),
            FlowGauge("authflow_lease_waiters", waiters.count),
            FlowGauge("authflow_writes_unfinished", unwritten),
            FlowGauge("authflow_store_statements", table.pending),
        ]
    }
}

// MARK: - Leases

extension LeasedRecords {
    package func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return {
        let (lease, inTable, expiry) = try await take(key)
        held.withLock {
            $0[Lease(key: key, fence: lease.fence)] = Held(lease: inTable) { [weak expiry] in expiry != nil }
        }
        let renewing = Task { [table, times, host, weak expiry] in
            var pause = times.lease / 3
            while true {
                try await host.clock.sleep(for: max(pause, .milliseconds(1)))
                guard let expiry else { return }
                let requestedAt = expiry.now
                // A failed renewal is not an error: at the next write, the database decides whether the lease is
                // still held.
                let isRenewed = (try? await table.renew(inTable, for: times.lease)) == true
                if isRenewed { expiry.extend(until: requestedAt + times.lease) }
                pause = isRenewed ? times.lease / 3 : times.lease / 15
            }
        }
        let result: Result<Return, any Error>
        do {
            result = .success(try await body(lease))
        } catch {
            result = .failure(error)
        }
        renewing.cancel()
        // A lease with an unwritten result blocks other holders until it expires, or until its holder has written the result.
        let isUnwritten = held.withLock { held in
            held[lease]?.isOver = true
            let isUnwritten = held[lease]?.isUnwritten == true
            if !isUnwritten { held[lease] = nil }
            return isUnwritten
        }
        guard !isUnwritten else {
            limitUnwritten()
            return try result.get()
        }
        await release(inTable)
        return try result.get()
    }

    /// Releases a lease even if this task was cancelled, so that other tasks do not have to wait for its expiry.
    private func release(_ lease: HeldLease) async {
        let release = Task { [table] in
            do {
                try await table.release(lease)
            } catch {
                Task { try? await self.repeated(for: self.times.lease) { try await self.table.release(lease) } }
            }
        }
        await release.value
    }

    private func limitUnwritten() {
        held.withLock { held in
            held = held.filter { !$0.value.isAbandoned }
            guard held.values.count(where: { $0.isOver }) > Self.maximumOver else { return }
            held = held.filter { !$0.value.isOver }
        }
    }

    private func take(_ key: RecordKey) async throws -> (Lease, HeldLease, Lease.Expiry) {
        let owner = host.randomBytes(16)
        let elapsed = host.clock.stopwatch()
        var attempt = 0
        while true {
            try Task.checkCancellation()
            let waiter = waiters.register(for: key.digest)
            defer { waiters.remove(waiter) }
            let expiry = Lease.Expiry(lasting: times.lease, clock: host.clock)
            // The same owner may retry, so that a lost response does not leave an orphaned lease.
            let acquisition = Task {
                try await self.repeated(for: self.times.outage) {
                    try await self.table.take(key, by: owner, for: self.times.lease)
                }
            }
            switch try await acquisition.value {
            case .taken(let fence, let isAfterAbandonedLease):
                let inTable = HeldLease(digest: key.digest, owner: owner, fence: fence)
                guard !Task.isCancelled else {
                    await release(inTable)
                    throw CancellationError()
                }
                return (
                    Lease(key: key, fence: fence, isAfterAbandonedLease: isAfterAbandonedLease, expiry: expiry),
                    inTable, expiry
                )
            case .busy(let rest):
                let waited = elapsed()
                guard waited < times.waitTimeout else {
                    throw AuthError(
                        .leaseBusy,
                        "Another process holds the lease on this session for \(Int(rest.seconds.rounded(.up))) more seconds. Try again.",
                        retryAfter: rest
                    )
                }
                // The holder released the lease during the attempt, before this task was recorded as waiting.
                guard rest > .zero else { continue }
                table.listen()
                // A message may be lost, so the table is also polled. Without pushed messages, each pause is a quarter of the time waited
                // so far, but at least 2 ms and at most 100 ms.
                let poll =
                    table.pushesMessages
                    ? min(Duration.milliseconds(100) * (1 << min(attempt, 4)), .seconds(1))
                    : max(.milliseconds(2), min(waited / 4, .milliseconds(100)))
                attempt += 1
                let pause = max(.milliseconds(1), min(poll, rest, times.waitTimeout - waited))
                try await waiters.wait(waiter, atMost: pause, clock: host.clock)
            }
        }
    }

    /// Retries a call while the database is unavailable. The call must be idempotent unless `isSafe` is false.
    /// - Parameter isSafe: Whether a retry is safe even if the call may have been executed; otherwise the call is retried only if it was not sent.
    private func repeated<Value: Sendable>(
        for time: Duration,
        isSafe: Bool = true,
        _ call: @Sendable () async throws -> Value
    ) async throws -> Value {
        let elapsed = host.clock.stopwatch()
        var pause = Duration.milliseconds(20)
        while true {
            do {
                return try await call()
            } catch let failure as DatabaseFailure {
                guard failure.isTemporary, isSafe || failure.kind == .unreachable, elapsed() < time else {
                    throw failure.error
                }
                try await host.clock.sleep(for: pause)
                pause = min(pause * 2, .seconds(1))
            }
        }
    }
}

// MARK: - Records

extension LeasedRecords: SessionTokenStore, GaugeSource {
    package func bytes(for key: RecordKey) async throws -> [UInt8]? {
        try await repeated(for: times.outage) { try await self.table.bytes(of: key.digest) }
    }

    package func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        try await write(bytes, nil, under: lease)
    }

    package func write(_ bytes: [UInt8], _ attributes: RecordAttributes, under lease: Lease) async throws {
        try await write(Optional(bytes), Optional(attributes), under: lease)
    }

    package func bytes(under lease: Lease) async throws -> [UInt8]? {
        guard let inTable = held.withLock({ $0[lease] })?.lease else { throw Lease.lost }
        return try await repeated(for: times.outage) { try await self.table.bytes(under: inTable) }
    }

    package func write(
        _ bytes: [UInt8]?,
        _ attributes: RecordAttributes?,
        under lease: Lease
    ) async throws {
        let started = held.withLock { held in
            held[lease]?.writes += 1
            return held[lease]
        }
        guard let entry = started else { throw Lease.lost }
        let inTable = entry.lease
        // The write completes even if the caller is cancelled, because the only copy of the bytes may be in this process.
        let isUnknown = Atomic(false)
        let writing = Task {
            try await self.repeated(for: self.times.lease) {
                do {
                    return try await self.table.write(bytes, attributes, number: entry.writes, under: inTable)
                } catch let error as DatabaseFailure {
                    if error.kind == .unknownOutcome { isUnknown.store(true, ordering: .relaxed) }
                    throw error
                }
            }
        }
        do {
            let isWritten = try await writing.value
            // The body of `withLease` may have returned during the write, which another task of the holder has retried.
            let isOver = held.withLock { held in
                let isOver = held[lease]?.isOver ?? entry.isOver
                if isOver { held[lease] = nil } else { held[lease]?.isUnwritten = false }
                return isOver
            }
            guard isWritten else {
                throw isUnknown.load(ordering: .relaxed) ? Self.unknownOutcome : Lease.lost
            }
            if isOver { await release(inTable) }
        } catch let error as AuthError where error.code == .storageFailed {
            let isOver = held.withLock { held in
                held[lease]?.isUnwritten = true
                return held[lease]?.isOver ?? entry.isOver
            }
            if isOver { _ = try? await table.renew(inTable, for: times.lease) }
            throw error
        }
    }

    private static var unknownOutcome: AuthError {
        AuthError(
            .outcomeUnknown,
            "It is unknown whether the credential was stored: the database did not confirm the write, and another process has changed the record since."
        )
    }

    package func touch(_ key: RecordKey) async throws -> Bool {
        try await repeated(for: times.outage) { try await self.table.touch(key.digest) }
    }

    package func records(tagged tag: RecordTag) async throws -> [TaggedRecord] {
        try await repeated(for: times.outage) { try await self.table.records(tagged: tag.bytes) }
    }

    package func remove(_ keys: [RecordKey]) async throws -> [TaggedRecord] {
        guard !keys.isEmpty else { return [] }
        let digests = keys.map(\.digest)
        var removed: [TaggedRecord] = []
        // If a removal that is not atomic fails midway, a retry does not return the records that were already removed.
        for batch in table.removesAtomically ? [digests] : digests.map({ [$0] }) {
            removed += try await repeated(for: times.outage) { try await self.table.remove(batch) }
        }
        return removed
    }

    package func claim(_ key: RecordKey, for lifetime: Duration) async throws -> Bool {
        // A retry would not be safe, because a claim made by the first attempt could not be distinguished from another
        // process's claim.
        try await repeated(for: times.outage, isSafe: false) { try await self.table.claim(key, for: lifetime) }
    }

    package func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey] {
        try await repeated(for: times.outage) { try await self.table.keys(after: digest, limit: limit) }
    }

    package func removeEnded() async throws -> Int {
        try await repeated(for: times.outage) { try await self.table.removeEnded() }
    }
}
