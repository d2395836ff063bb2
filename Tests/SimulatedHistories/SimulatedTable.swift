package import AuthFlow
package import AuthFlowDatabase
package import AuthFlowSimulation

/// The connection of a process to ``SimulatedRecords``: calls are delayed, fail, or lose the connection before or
/// after they take effect.
package final class SimulatedTable: RecordTable, @unchecked Sendable {  // All jobs of a simulation run on one thread.
    private let records: SimulatedRecords
    private let process: Simulation.Process
    private let onMessage: @Sendable (DatabaseMessage) -> Void
    private var isListening = false

    package init(
        _ records: SimulatedRecords,
        _ process: Simulation.Process,
        onMessage: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        self.records = records
        self.process = process
        self.onMessage = onMessage
    }

    /// A fault injected into a call.
    package enum Fault: CaseIterable, Sendable {
        case slow, unreachable, refused, lostBefore, lostAfter, late
    }

    private func latency(_ longest: Duration) -> Duration {
        records.world.storeLatencies?.draw(&records.world.simulation.random) ?? records.world.latency(longest)
    }

    private func call<Value: Sendable>(_ name: String, _ effect: @escaping @Sendable () -> Value) async throws -> Value
    {
        let (world, simulation) = (records.world, records.world.simulation)
        let hasFault = simulation.random.happens(world.faults.store)
        let chosen = hasFault ? Fault.allCases.randomElement(using: &simulation.random) : nil
        let fault = records.script?(name, process) ?? chosen
        let longest: Duration = fault == .slow || fault == .late ? .seconds(6) : .milliseconds(300)
        world.storeCalls += 1
        let times = (latency(longest), latency(longest))
        defer { if fault != nil || world.outageEnd > simulation.now { world.noteFailure(of: process) } }
        return try await simulation.inWorld { [process] in
            guard fault != .late else {
                simulation.begin(in: .world) {
                    try? await simulation.clock.sleep(for: times.0 + .seconds(2))
                    world.note("store: late \(name) of P\(process.index)")
                    _ = effect()
                }
                throw DatabaseFailure(.unknownOutcome, "The connection was cut off.")
            }
            try await simulation.clock.sleep(for: times.0)
            guard world.outageEnd <= simulation.now, fault != .unreachable else {
                throw DatabaseFailure(.unreachable, "The store cannot be reached.")
            }
            if let fault { world.note("store: \(name) of P\(process.index): \(fault)") }
            switch fault {
            case .refused: throw DatabaseFailure(.refused, "The store has no space left.")
            case .lostBefore: throw DatabaseFailure(.unknownOutcome, "The connection was cut off.")
            default: break
            }
            let value = effect()
            try await simulation.clock.sleep(for: times.1)
            if fault == .lostAfter { throw DatabaseFailure(.unknownOutcome, "The connection was cut off.") }
            return value
        }
    }

    package func bytes(of digest: [UInt8]) async throws -> [UInt8]? {
        try await call("read") { [records] in records.bytes(of: digest) }
    }

    package func bytes(under lease: HeldLease) async throws -> [UInt8]? {
        let found = try await call("read") { [records] in records.bytes(under: lease) }
        guard let found else { throw Lease.lost }
        return found
    }

    package func take(_ key: RecordKey, by owner: [UInt8], for duration: Duration) async throws -> TakenLease {
        try await call("take") { [records] in records.take(key, by: owner, for: duration) }
    }

    package func renew(_ lease: HeldLease, for duration: Duration) async throws -> Bool {
        try await call("renew") { [records] in records.renew(lease, for: duration) }
    }

    package func write(
        _ bytes: [UInt8]?,
        _ attributes: RecordAttributes?,
        number: Int64,
        under lease: HeldLease
    ) async throws -> Bool {
        let isWritten = try await call("write") { [records] in
            records.write(bytes, attributes, number: number, under: lease)
        }
        if isWritten { records.confirm(bytes) }
        return isWritten
    }

    package func release(_ lease: HeldLease) async throws {
        try await call("release") { [records] in records.release(lease) }
    }

    package func touch(_ digest: [UInt8]) async throws -> Bool {
        try await call("touch") { [records] in records.touch(digest) }
    }

    package func records(tagged tag: [UInt8]) async throws -> [TaggedRecord] {
        try await call("find") { [records] in records.records(tagged: tag) }
    }

    package func remove(_ digests: [[UInt8]]) async throws -> [TaggedRecord] {
        try await call("remove") { [records] in records.remove(digests) }
    }

    package func claim(_ key: RecordKey, for lifetime: Duration) async throws -> Bool {
        try await call("claim") { [records] in records.claim(key, for: lifetime) }
    }

    package func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey] { [] }

    package func removeEnded() async throws -> Int { 0 }

    package func listen() {
        guard !isListening else { return }
        isListening = true
        records.listen(process, onMessage)
    }

    package var pushesMessages: Bool { true }

    package var removesAtomically: Bool { true }

    package var pending: Int { 0 }
}
