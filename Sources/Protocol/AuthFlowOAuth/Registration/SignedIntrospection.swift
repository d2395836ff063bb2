/// The demand that the provider signs what it says about a token (RFC 9701).
public struct SignedIntrospection: Sendable, Hashable {
    /// The audience that the response must have; nil for the client's identifier. Some providers name the audience of the token.
    public var audience: String?

    /// Creates a demand.
    public init(audience: String? = nil) { self.audience = audience }

    static let mediaType = "application/token-introspection+jwt"

    /// The longest time since a response was signed, in seconds.
    static let longestAge = 300.0
}
