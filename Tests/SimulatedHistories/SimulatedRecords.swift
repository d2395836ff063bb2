package import AuthFlow
package import AuthFlowDatabase
import AuthFlowEssentials
package import AuthFlowSimulation

/// The database table that the processes share, with the same rules as the statements of the real databases.
package final class SimulatedRecords: @unchecked Sendable {  // All jobs of a simulation run on one thread.
    struct Row {
        let key: RecordKey
        var sealed: [UInt8]?
        var fence: UInt64 = 0
        var owner: [UInt8]?
        var leaseEnd = Duration.zero
        var isAwaited = false
        var isAfterAbandonedLease = false
        /// The number of the lease holder's last write.
        var lastWrite: Int64 = 0
        var tags: [[UInt8]] = []
        var lifetimeEnd: Duration?
        var idleTime: Duration?
        var idleEnd: Duration?
        var usedAt = Duration.zero

        func isAlive(at now: Duration) -> Bool {
            [lifetimeEnd, idleEnd].allSatisfy { $0.map { $0 > now } ?? true }
        }
    }

    let world: World
    /// Returns the fault to inject into a call, by the call's name and process; nil to inject faults at random.
    package var script: (@Sendable (_ call: String, _ process: Simulation.Process) -> SimulatedTable.Fault?)?
    private var simulation: Simulation { world.simulation }
    private(set) var rows: [[UInt8]: Row] = [:]
    private var lastFence: UInt64 = 0
    private var listeners: [(process: Simulation.Process, receive: @Sendable (DatabaseMessage) -> Void)] = []
    /// The grants in each record, with the numbers of their refresh tokens.
    private var stored: [[UInt8]: [Int: Int]] = [:]
    /// The highest stored refresh token number, for each grant.
    private(set) var newest: [Int: Int] = [:]
    /// The grants whose storage was confirmed to their process.
    private var confirmed: Set<Int> = []
    /// The removal time of each grant that is no longer stored.
    private(set) var removals: [Int: Duration] = [:]
    /// The current user of each record, and the time of the last change.
    private(set) var currents: [[UInt8]: (user: String?, since: Duration)] = [:]

    package init(world: World) { self.world = world }

    /// The store of a process.
    package func store(of process: Simulation.Process, host: HostServices) -> LeasedRecords<SimulatedTable> {
        LeasedRecords(times: .init(), host: host) { SimulatedTable(self, process, onMessage: $0) }
    }

    /// The grants in a record, with the numbers of their refresh tokens.
    package func grants(in digest: [UInt8]) -> [Int: Int] { stored[digest] ?? [:] }

    /// The state of the session in a record.
    func state(in digest: [UInt8]) -> String {
        guard grants(in: digest).isEmpty else { return "signed in" }
        return Self.endedUsers(in: Self.json(bytes(of: digest))).isEmpty ? "signed out" : "ended"
    }

    /// Whether a grant is in any record.
    package func isStored(_ grant: Int) -> Bool { stored.values.contains { $0[grant] != nil } }

    /// The holder of a record's lease; nil when it has expired.
    package func holder(of digest: [UInt8]) -> [UInt8]? {
        rows[digest].flatMap { $0.leaseEnd > simulation.now ? $0.owner : nil }
    }

    /// Whether an unexpired lease is held.
    package var hasLease: Bool { rows.values.contains { $0.owner != nil && $0.leaseEnd > simulation.now } }

    // MARK: Rules

    private func change(_ digest: [UInt8], _ body: (inout Row?) -> Void) {
        let bytes = rows[digest]?.sealed
        body(&rows[digest])
        guard rows[digest]?.sealed != bytes else { return }
        let before = stored[digest] ?? [:]
        let json = Self.json(rows[digest]?.sealed)
        let current = json["current"]?["subject"]?.string
        if currents[digest].map({ $0.user != current }) ?? true { currents[digest] = (current, simulation.now) }
        let after = Self.grants(in: json)
        guard before != after else { return }
        stored[digest] = after
        for (grant, serial) in after.sorted(by: { $0.key < $1.key }) {
            world.require(
                removals[grant] == nil || mayStoreAgain(grant),
                "grant \(grant) is stored again after it was removed"
            )
            removals[grant] = nil
            world.require(
                serial >= newest[grant] ?? 0,
                "rt.\(grant).\(serial) overwrites rt.\(grant).\(newest[grant] ?? 0)"
            )
            newest[grant] = max(serial, newest[grant] ?? 0)
        }
        let ended = Self.endedUsers(in: json)
        for grant in before.keys.sorted() where after[grant] == nil {
            removals[grant] = simulation.now
            world.require(
                world.isEnded(grant) || !ended.contains(world.user(grant)),
                "grant \(grant) is stored as ended although the provider has not ended it"
            )
        }
        world.note("store: \(Self.text(before)) is replaced by \(Self.text(after)), fence \(rows[digest]?.fence ?? 0)")
    }

    /// Whether a process may store a grant again after its removal, because it received no confirmation that the grant had been stored.
    func mayStoreAgain(_ grant: Int) -> Bool { world.mayStoreAgain && !confirmed.contains(grant) }

    /// Records that a process has received confirmation that its bytes were stored.
    func confirm(_ bytes: [UInt8]?) { confirmed.formUnion(Self.grants(in: Self.json(bytes)).keys) }

    private static func text(_ grants: [Int: Int]) -> String {
        grants.isEmpty
            ? "nothing" : grants.sorted { $0.key < $1.key }.map { "rt.\($0.key).\($0.value)" }.joined(separator: ", ")
    }

    private static func json(_ bytes: [UInt8]?) -> JSON {
        guard let bytes, !bytes.isEmpty else { return .null }
        return (try? JSON(parsing: bytes)) ?? .null
    }

    private static func grants(in json: JSON) -> [Int: Int] {
        var grants: [Int: Int] = [:]
        for account in json["accounts"]?.array ?? [] {
            guard let parts = account["refresh_token"]?.string.flatMap(SimulatedProvider.parts) else { continue }
            grants[parts.grant] = parts.serial
        }
        return grants
    }

    /// The users whose sessions the provider has ended, according to a record; unknown users have an empty name.
    private static func endedUsers(in json: JSON) -> Set<String> {
        Set((json["accounts"]?.array ?? []).compactMap { $0["ended"]?["account"] }.map { $0["subject"]?.string ?? "" })
    }

    // MARK: Statements

    package func bytes(of digest: [UInt8]) -> [UInt8]? {
        rows[digest].flatMap { $0.isAlive(at: simulation.now) ? $0.sealed : nil }
    }

    package func take(_ key: RecordKey, by owner: [UInt8], for duration: Duration) -> TakenLease {
        let (digest, now) = (key.digest, simulation.now)
        if let row = rows[digest], let holder = row.owner, holder != owner, row.leaseEnd > now {
            rows[digest]?.isAwaited = true
            return .busy(row.leaseEnd - now)
        }
        lastFence += 1
        let fence = lastFence
        change(digest) { row in
            var new = row ?? Row(key: key)
            if !new.isAlive(at: now) {
                new = Row(key: key, fence: new.fence, owner: new.owner, lastWrite: new.lastWrite)
            }
            if new.owner != owner {
                new.isAfterAbandonedLease = new.isAfterAbandonedLease || new.owner != nil && new.lastWrite == 0
                new.fence = fence
                (new.lastWrite, new.isAwaited) = (0, false)
            }
            (new.owner, new.leaseEnd) = (owner, now + duration)
            row = new
        }
        return .taken(
            fence: rows[digest]?.fence ?? 0,
            isAfterAbandonedLease: rows[digest]?.isAfterAbandonedLease ?? false
        )
    }

    private func isHeld(_ lease: HeldLease) -> Bool {
        rows[lease.digest].map { $0.fence == lease.fence && $0.owner == lease.owner } ?? false
    }

    /// - Returns: The bytes; nil when the lease is lost.
    package func bytes(under lease: HeldLease) -> [UInt8]?? { isHeld(lease) ? .some(bytes(of: lease.digest)) : nil }

    /// Stores a record before the history begins.
    func begin(with bytes: [UInt8], at key: RecordKey) { rows[key.digest] = Row(key: key, sealed: bytes) }

    package func renew(_ lease: HeldLease, for duration: Duration) -> Bool {
        guard isHeld(lease) else { return false }
        rows[lease.digest]?.leaseEnd = simulation.now + duration
        return true
    }

    package func write(_ bytes: [UInt8]?, _ attributes: RecordAttributes?, number: Int64, under lease: HeldLease)
        -> Bool
    {
        guard isHeld(lease) else { return false }
        guard let row = rows[lease.digest], row.lastWrite <= number else { return false }
        let now = simulation.now
        change(lease.digest) { row in
            row?.sealed = bytes
            row?.isAfterAbandonedLease = false
            row?.lastWrite = number
            guard let attributes else { return }
            row?.usedAt = now
            row?.lifetimeEnd = attributes.lifetime.map { now + $0 }
            row?.idleTime = attributes.idleTime
            row?.idleEnd = attributes.idleTime.map { now + $0 }
            row?.tags = attributes.tags.map(\.bytes)
        }
        return true
    }

    package func release(_ lease: HeldLease) {
        guard isHeld(lease), let row = rows[lease.digest] else { return }
        change(lease.digest) { $0 = row.sealed == nil ? nil : $0 }
        rows[lease.digest]?.owner = nil
        rows[lease.digest]?.leaseEnd = .zero
        if row.isAwaited { postMessage(.released(lease.digest)) }
    }

    package func touch(_ digest: [UInt8]) -> Bool {
        let now = simulation.now
        guard let row = rows[digest], row.sealed != nil, row.isAlive(at: now) else { return false }
        rows[digest]?.idleEnd = row.idleTime.map { now + $0 }
        rows[digest]?.usedAt = now
        return true
    }

    private func tagged(_ row: Row) -> TaggedRecord? {
        row.sealed.map { TaggedRecord(key: row.key, bytes: $0, lastUse: Simulation.epoch + row.usedAt / .seconds(1)) }
    }

    package func records(tagged tag: [UInt8]) -> [TaggedRecord] {
        rows.values.filter { $0.tags.contains(tag) && $0.isAlive(at: simulation.now) }.compactMap(tagged)
            .sorted { $0.key.name < $1.key.name }
    }

    package func remove(_ digests: [[UInt8]]) -> [TaggedRecord] {
        digests.compactMap { digest in
            guard let row = rows[digest] else { return nil }
            change(digest) { $0 = nil }
            postMessage(.removed(digest))
            return row.isAlive(at: simulation.now) ? tagged(row) : nil
        }
    }

    /// Removes a record between two calls.
    package func removeAtOnce(_ key: RecordKey) -> Bool { !remove([key.digest]).isEmpty }

    package func claim(_ key: RecordKey, for lifetime: Duration) -> Bool {
        let now = simulation.now
        if let row = rows[key.digest], row.isAlive(at: now) { return false }
        rows[key.digest] = Row(key: key, sealed: [], lifetimeEnd: now + lifetime)
        return true
    }

    // MARK: Messages

    func listen(_ process: Simulation.Process, _ receive: @escaping @Sendable (DatabaseMessage) -> Void) {
        listeners.append((process, receive))
    }

    /// Notifies all processes. Some notifications are delayed and, if the store has faults, some are lost.
    private func postMessage(_ message: RecordMessage) {
        let text = String(decoding: message.text, as: UTF8.self)
        listeners.removeAll { simulation.isKilled($0.process) }
        for listener in listeners {
            guard !simulation.random.happens(world.faults.store) else { continue }
            let latency = world.latency(.seconds(1))
            simulation.begin(in: .world) { [simulation] in
                try? await simulation.clock.sleep(for: latency)
                simulation.begin(in: listener.process) {
                    listener.receive(.message(text))
                }
            }
        }
    }
}
