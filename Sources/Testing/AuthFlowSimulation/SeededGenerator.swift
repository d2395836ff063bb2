/// A deterministic random number generator with a seed (SplitMix64). Do not use it for secrets.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// Creates a generator.
    public init(seed: UInt64) { state = seed }

    /// The next number.
    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// Returns true with the given probability.
    public mutating func happens(_ probability: Double) -> Bool {
        probability > 0 && fraction() < probability
    }

    /// A random number in the half-open range from 0 to 1.
    package mutating func fraction() -> Double { Double(next() >> 11) / Double(1 << 53) }

    /// A random duration within bounds.
    public mutating func duration(_ shortest: Duration, _ longest: Duration) -> Duration {
        shortest + (longest - shortest) * fraction()
    }
}
