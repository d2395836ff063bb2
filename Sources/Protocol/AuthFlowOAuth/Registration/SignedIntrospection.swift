/// The requirement that the provider sign introspection responses (RFC 9701).
public struct SignedIntrospection: Sendable, Hashable {
    /// The audience that the response must have; nil for the client identifier. Some providers use the audience of the token.
    public var audience: String?

    /// Creates a requirement.
    public init(audience: String? = nil) { self.audience = audience }

    static let mediaType = "application/token-introspection+jwt"

    /// The maximum age of a signed response, in seconds.
    static let maximumResponseAge = 300.0
}
