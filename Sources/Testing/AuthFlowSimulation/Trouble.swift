extension World {
    /// Makes trouble, each second with the probability that the kind of the history has for it.
    /// - Parameters:
    ///   - goesOn: Whether the history still has faults.
    ///   - processes: The processes that run.
    ///   - replace: Forgets a process that is killed, and returns what starts another one.
    ///   - endSession: Has the provider end a session.
    func makeTrouble(
        while goesOn: () -> Bool,
        processes: () -> [Simulation.Process],
        replace: (Simulation.Process) -> @Sendable () -> Void,
        endSession: () -> Void
    ) async {
        let rates = [faults.kills, faults.pauses, faults.ends, faults.hasOutages ? 30 : 0].map { $0 / 3600 }
        while goesOn() {
            try? await simulation.clock.sleep(for: .seconds(1))
            guard goesOn() else { return }
            if simulation.random.happens(rates[0]), let victim = processes().randomElement(using: &simulation.random) {
                simulation.kill(victim)
                let start = replace(victim)
                simulation.begin(in: .world) { [simulation] in
                    try? await simulation.clock.sleep(for: simulation.random.duration(.seconds(1), .seconds(30)))
                    start()
                }
            }
            if simulation.random.happens(rates[1]), let victim = processes().randomElement(using: &simulation.random) {
                pause(victim, for: simulation.random.duration(.seconds(1), .seconds(60)))
            }
            if simulation.random.happens(rates[2]) { endSession() }
            if simulation.random.happens(rates[3]) {
                beginOutage(for: simulation.random.duration(.seconds(1), .seconds(60)))
            }
        }
    }
}
