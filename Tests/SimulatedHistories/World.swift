import AuthFlow
package import AuthFlowSimulation

/// The faults of a history: probabilities per request or call, and rates per hour.
package struct Faults: Sendable {
    /// The probability that a request to the provider fails or loses its connection, before or after it takes effect.
    package var provider: Double
    /// The probability that a call to the store is slow, fails, or loses its connection, before or after it takes
    /// effect.
    package var store: Double
    /// Whether the store is completely unavailable at times.
    package var hasOutages: Bool
    /// The number of processes killed per hour.
    package var kills: Double
    /// The number of process pauses per hour, of up to a minute each.
    package var pauses: Double
    /// The number of sessions that the provider ends per hour.
    package var ends: Double

    package init(
        provider: Double = 0,
        store: Double = 0,
        hasOutages: Bool = false,
        kills: Double = 0,
        pauses: Double = 0,
        ends: Double = 0
    ) {
        self.provider = provider
        self.store = store
        self.hasOutages = hasOutages
        self.kills = kills
        self.pauses = pauses
        self.ends = ends
    }

    /// The kinds of histories: each kind shows which invariants hold without the faults of the other kinds.
    package static let kinds: [(name: String, faults: Faults)] = [
        ("calm", Faults()),
        ("provider", Faults(provider: 0.15, ends: 20)),
        ("store", Faults(store: 0.1)),
        ("kills", Faults(kills: 60, pauses: 60)),
        ("outages", Faults(store: 0.05, hasOutages: true)),
        ("all", Faults(provider: 0.1, store: 0.08, hasOutages: true, kills: 40, pauses: 40, ends: 20)),
    ]
}

/// The state that the simulated processes share, and the invariants that are checked at every step.
package final class World: @unchecked Sendable {  // All jobs of a simulation run on one thread.
    package let simulation: Simulation
    package var faults: Faults
    /// The time until which the store is unavailable.
    package private(set) var outageEnd = Duration.zero
    private var outages: [Range<Duration>] = []
    private var pauses: [Int: [Range<Duration>]] = [:]
    private var kills: [Int: Duration] = [:]
    /// The time at which each process last failed to reach the store.
    private var failures: [Int: Duration] = [:]
    /// The first invariant that was violated.
    package private(set) var violation: String?

    /// Whether a process may store a removed sign-in again, because it received no confirmation of the first write.
    package var mayStoreAgain = false

    /// Whether the provider has ended a grant.
    package var isEnded: (Int) -> Bool = { _ in false }

    /// The user of a grant.
    package var user: (Int) -> String = { _ in "" }

    package init(simulation: Simulation, faults: Faults) {
        self.simulation = simulation
        self.faults = faults
    }

    package func require(_ condition: Bool, _ violation: @autoclosure () -> String) {
        guard !condition, self.violation == nil else { return }
        self.violation = violation()
        simulation.note("VIOLATION: \(violation())")
    }

    package func note(_ event: @autoclosure () -> String) { simulation.note(event()) }

    /// The number of store calls so far.
    package var storeCalls = 0

    /// The one-way latencies of store calls; nil to use ``latency(_:)``.
    package var storeLatencies: Latencies?

    /// A random latency: usually short, occasionally long.
    package func latency(_ longest: Duration) -> Duration {
        simulation.random.happens(0.9)
            ? simulation.random.duration(.milliseconds(1), .milliseconds(80))
            : simulation.random.duration(.milliseconds(80), longest)
    }

    package func beginOutage(for duration: Duration) {
        note("the store cannot be reached for \(duration)")
        outageEnd = simulation.now + duration
        outages.append(simulation.now..<outageEnd)
    }

    package func noteFailure(of process: Simulation.Process) { failures[process.index] = simulation.now }

    /// Whether a process may return tokens that were removed more than ten seconds ago: either it could not reach the
    /// store, and therefore trusts the tokens in its memory for longer, or it was paused in the meantime.
    package func mayKnowLess(_ process: Simulation.Process) -> Bool {
        let wasPaused = pauses[process.index, default: []].contains { simulation.now - $0.upperBound < .seconds(1) }
        return wasPaused || failures[process.index].map { simulation.now - $0 < .seconds(6) } ?? false
    }

    package func pause(_ process: Simulation.Process, for duration: Duration) {
        pauses[process.index, default: []].append(simulation.now..<(simulation.now + duration))
        simulation.pause(process, for: duration)
    }

    package func kill(_ process: Simulation.Process) {
        kills[process.index] = simulation.now
        simulation.kill(process)
    }

    /// Whether a kill, an outage or a pause since the given time may have prevented a process from storing a response
    /// before its lease expired (the window that docs/servers.md describes).
    /// - Parameter shortest: The minimum duration of an outage or a pause.
    package func couldNotWrite(
        _ process: Simulation.Process,
        since: Duration,
        shortest: Duration = .seconds(9)
    ) -> Bool {
        func isLong(_ range: Range<Duration>) -> Bool {
            range.upperBound > since && range.upperBound - range.lowerBound >= shortest
        }
        return simulation.isKilled(process) || outages.contains(where: isLong)
            || pauses[process.index, default: []].contains(where: isLong)
    }

    /// Whether a process was killed before it could store a response: it was killed within a minute, or an outage or a pause delayed its writes for
    /// longer. A process that lives on stores each response that it has received.
    /// - Parameter received: The time at which the process received the response.
    func wasKilled(_ process: Simulation.Process, beforeStoringResponseOf received: Duration) -> Bool {
        guard let killed = kills[process.index] else { return false }
        // The response arrived after the process was killed.
        guard killed > received else { return true }
        let delays = (outages + pauses[process.index, default: []]).filter { $0.overlaps(received..<killed) }
        return killed - received < .seconds(60) || !delays.isEmpty
    }
}
