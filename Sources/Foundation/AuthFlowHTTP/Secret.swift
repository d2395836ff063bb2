/// A string that must not be seen: a token, a client secret, a password, a code verifier.
///
/// Every way of printing it gives `<redacted>`: `description`, `debugDescription`, string interpolation, `dump` and the
/// failure messages of tests. Reading it takes ``exposed``, a word that is easy to look for in a review.
public struct Secret: Sendable {
    /// The secret itself. Hand it to the wire, never to a log, an error or a command line.
    public let exposed: String

    /// Wraps a secret.
    public init(_ exposed: String) {
        self.exposed = exposed
    }
}

extension Secret: Hashable {
    /// Compares in a time that depends on the lengths only.
    public static func == (left: Secret, right: Secret) -> Bool {
        let (left, right) = (Array(left.exposed.utf8), Array(right.exposed.utf8))
        guard left.count == right.count else { return false }
        return zip(left, right).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func hash(into hasher: inout Hasher) { hasher.combine(exposed) }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, WithoutReflection {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public var description: String { "<redacted>" }
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public var debugDescription: String { "<redacted>" }
}
