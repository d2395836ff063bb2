/// An error that reports the rule that a plug-in violates.
public struct ConformanceFailure: Error, Sendable, CustomStringConvertible {
    /// The violated rule, with details of the violation if there are any.
    public let description: String
}

func require(_ condition: Bool, _ rule: String) throws(ConformanceFailure) {
    guard condition else { throw ConformanceFailure(description: rule) }
}
