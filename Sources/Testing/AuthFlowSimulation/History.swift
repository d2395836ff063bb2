/// What happens in a world from a seed on, and whether every rule held.
package protocol History {
    var simulation: Simulation { get }
    /// The faults that it may have.
    var kind: String { get }
    /// The calls that have returned.
    var calls: Int { get }

    /// Runs it.
    /// - Returns: The first rule that was broken; nil when all held.
    func run() -> String?
}

/// The history of a seed: one of eight is of a web application's sessions, the others of credentials.
package func history(of seed: UInt64, recordsTrace: Bool = false) -> any History {
    seed % 8 == 0
        ? ServerHistory(seed: seed, recordsTrace: recordsTrace)
        : CredentialHistory(seed: seed, recordsTrace: recordsTrace)
}
