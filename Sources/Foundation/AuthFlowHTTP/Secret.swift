/// A string that must not be disclosed: a token, a client secret, a password, a code verifier.
///
/// Every way of printing it yields `<redacted>`: `description`, `debugDescription`, string interpolation, `dump` and the
/// failure messages in tests. Reading it requires ``exposed``, a name that is easy to search for in a review.
public struct Secret: Sendable {
    /// The secret itself. Use it only in requests, never in a log, an error or a command line.
    public let exposed: String

    /// Wraps a secret.
    public init(_ exposed: String) {
        self.exposed = exposed
    }
}

extension Secret: Hashable {
    /// Compares in constant time: the duration depends only on the lengths.
    public static func == (left: Secret, right: Secret) -> Bool {
        let (left, right) = (Array(left.exposed.utf8), Array(right.exposed.utf8))
        guard left.count == right.count else { return false }
        return zip(left, right).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(exposed) }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, NonReflectable {
    public var description: String { "<redacted>" }
    public var debugDescription: String { "<redacted>" }
}
