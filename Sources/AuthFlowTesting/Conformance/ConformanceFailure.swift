/// What a plug-in does that it must not, or the other way round.
public struct ConformanceFailure: Error, Sendable, CustomStringConvertible {
    /// The rule, and what happened instead.
    public let description: String

    static func require(_ condition: Bool, _ rule: String) throws(ConformanceFailure) {
        guard condition else { throw ConformanceFailure(description: rule) }
    }
}
