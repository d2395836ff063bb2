public import AuthFlowJSON

/// A JSON value that may contain secrets and is never printed.
public struct RedactedJSON: Sendable, Hashable {
    /// The value itself.
    public let exposed: JSON

    /// Wraps a value.
    public init(_ exposed: JSON) {
        self.exposed = exposed
    }
}

extension RedactedJSON: CustomStringConvertible, NonReflectable {
    /// The names of the members.
    public var description: String { "<redacted: \((exposed.object ?? [:]).keys.sorted().joined(separator: ", "))>" }
}
