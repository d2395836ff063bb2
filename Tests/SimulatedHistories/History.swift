import AuthFlow
package import AuthFlowSimulation

/// A simulated history, determined by its seed, in which every invariant is checked: processes serve users for some minutes while faults
/// are injected; then no more faults are injected, and the system must recover completely.
package protocol History: AnyObject, Sendable {
    var setting: HistorySetting { get }

    /// The number of calls that have returned.
    var calls: Int { get }

    /// Whether the faults have stopped.
    var isOver: Bool { get set }

    /// The running processes.
    var processes: [Simulation.Process] { get }

    func startServer()

    /// Removes a process that was killed.
    func forget(_ process: Simulation.Process)

    /// Checks that no call, lease or wait is outstanding.
    func checkThatNothingIsLeft()

    /// Runs the history.
    /// - Returns: The first rule that was violated; nil if no rule was violated.
    func run() -> String?
}

/// The world of a history, determined by the seed.
package struct HistorySetting: Sendable {
    package let simulation: Simulation
    /// The name of the kind of faults that may occur.
    package let kind: String
    package let world: World
    package let provider: SimulatedProvider
    package let records: SimulatedRecords

    /// - Parameter recordsTrace: Whether the trace of the simulation is recorded.
    init(seed: UInt64, recordsTrace: Bool) {
        simulation = Simulation(seed: seed, recordsTrace: recordsTrace)
        let kind = Faults.kinds[Int(simulation.random.next() % UInt64(Faults.kinds.count))]
        self.kind = kind.name
        world = World(simulation: simulation, faults: kind.faults)
        provider = SimulatedProvider(world: world)
        records = SimulatedRecords(world: world)
    }
}

extension History {
    package var simulation: Simulation { setting.simulation }
    var world: World { setting.world }
    var provider: SimulatedProvider { setting.provider }
    var records: SimulatedRecords { setting.records }

    /// Runs the simulation with faults, and then without faults.
    /// - Parameters:
    ///   - busy: The duration of the period with faults.
    ///   - useAll: Starts the final calls. Called 20 minutes after the faults have stopped.
    /// - Returns: The first rule that was violated; nil if no rule was violated.
    func letTimePass(_ busy: Duration, thenAtRest useAll: () -> Void) -> String? {
        simulation.run(until: busy) { world.violation == nil }
        world.note("no more faults")
        isOver = true
        world.faults = Faults()
        simulation.run(until: busy + .seconds(1200)) { world.violation == nil }
        checkThatNothingIsLeft()
        useAll()
        simulation.run(until: busy + .seconds(1500)) { world.violation == nil }
        checkThatNothingIsLeft()
        return world.violation
    }

    /// Waits until the next call of a process, or the next action of a user: a few seconds or, in a burst of calls, a few milliseconds.
    func waitForNextCall() async {
        let isBusy = simulation.random.happens(0.3)
        let pause = simulation.random.duration(.zero, isBusy ? .milliseconds(50) : .seconds(12))
        try? await simulation.clock.sleep(for: pause)
    }

    /// Checks that every stored refresh token is valid at the provider, unless the provider has ended the grant, or
    /// the newer token was lost before any process could store it.
    func checkThatNoRefreshTokenIsLost() {
        for (digest, row) in records.rows.sorted(by: { $0.value.key.name < $1.value.key.name }) where row.sealed != nil
        {
            for (grant, serial) in records.grants(in: digest) where provider.grants[grant].end == nil {
                let isValid = serial == provider.grants[grant].serial
                world.require(
                    isValid || provider.isLossExplained(grant, of: serial),
                    "rt.\(grant).\(serial) is stored, but the provider expects rt.\(grant).\(provider.grants[grant].serial)"
                )
            }
        }
    }

    /// Injects faults each second, with the probabilities for the history's kind.
    func makeTrouble() async {
        let faults = world.faults
        let rates = [faults.kills, faults.pauses, faults.ends, faults.hasOutages ? 30 : 0].map { $0 / 3600 }
        while !isOver {
            try? await simulation.clock.sleep(for: .seconds(1))
            guard !isOver else { return }
            if simulation.random.happens(rates[0]), let victim = processes.randomElement(using: &simulation.random) {
                world.kill(victim)
                forget(victim)
                simulation.begin(in: .world) { [self] in
                    try? await simulation.clock.sleep(for: simulation.random.duration(.seconds(1), .seconds(30)))
                    startServer()
                }
            }
            if simulation.random.happens(rates[1]), let victim = processes.randomElement(using: &simulation.random) {
                world.pause(victim, for: simulation.random.duration(.seconds(1), .seconds(60)))
            }
            if simulation.random.happens(rates[2]), !provider.grants.isEmpty {
                let grant = Int(simulation.random.next() % UInt64(provider.grants.count))
                provider.end(grant, "the provider ends the session")
            }
            if simulation.random.happens(rates[3]) {
                world.beginOutage(for: simulation.random.duration(.seconds(1), .seconds(60)))
            }
        }
    }
}

/// The history for a seed. Of eight consecutive seeds, one simulates the sessions of a web application, one protected resources, and one an app
/// with several accounts; the others simulate credentials.
package func history(of seed: UInt64, recordsTrace: Bool = false) -> any History {
    switch seed % 8 {
    case 0: ServerHistory(seed: seed, recordsTrace: recordsTrace)
    case 1: ResourceHistory(seed: seed, recordsTrace: recordsTrace)
    case 6: AccountHistory(seed: seed, recordsTrace: recordsTrace)
    default: CredentialHistory(seed: seed, recordsTrace: recordsTrace)
    }
}
