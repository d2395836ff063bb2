/// An error that says which rule a plug-in breaks.
public struct ConformanceFailure: Error, Sendable, CustomStringConvertible {
    /// The rule, and what happened instead.
    public let description: String

    static func require(_ condition: Bool, _ rule: String) throws(ConformanceFailure) {
        guard condition else { throw ConformanceFailure(description: rule) }
    }
}
