/// What happens in a world from a seed on, and whether every rule held: processes serve users for some minutes, while things go wrong; then
/// nothing goes wrong for a while, and everything must be as it should.
package protocol History: AnyObject, Sendable {
    var setting: HistorySetting { get }

    /// The calls that have returned.
    var calls: Int { get }

    /// Whether the faults have stopped.
    var isOver: Bool { get set }

    /// The processes that run.
    var processes: [Simulation.Process] { get }

    func startServer()

    /// A process was killed.
    func forget(_ process: Simulation.Process)

    /// Checks that no call, lease or wait is left.
    func checkThatNothingIsLeft()

    /// Runs it.
    /// - Returns: The first rule that was broken; nil when all held.
    func run() -> String?
}

/// The world of a history. Everything follows from its seed.
package struct HistorySetting: Sendable {
    package let simulation: Simulation
    /// The faults that it may have.
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

    /// Lets time pass with faults, and then without.
    /// - Parameters:
    ///   - busy: How long there are faults.
    ///   - useAll: Begins a call for each user, when there have been none for a while.
    /// - Returns: The first rule that was broken; nil when all held.
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

    /// Makes trouble, each second with the probability that the kind of the history has for it.
    func makeTrouble() async {
        let faults = world.faults
        let rates = [faults.kills, faults.pauses, faults.ends, faults.hasOutages ? 30 : 0].map { $0 / 3600 }
        while !isOver {
            try? await simulation.clock.sleep(for: .seconds(1))
            guard !isOver else { return }
            if simulation.random.happens(rates[0]), let victim = processes.randomElement(using: &simulation.random) {
                simulation.kill(victim)
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

/// The history of a seed: one of eight is of a web application's sessions, the others of credentials.
package func history(of seed: UInt64, recordsTrace: Bool = false) -> any History {
    seed % 8 == 0
        ? ServerHistory(seed: seed, recordsTrace: recordsTrace)
        : CredentialHistory(seed: seed, recordsTrace: recordsTrace)
}
