/// A type that knows where one identity provider lives and how it departs from the standards.
///
/// The engine builds every request, checks every reply, and does all the waiting. An adapter says where to send things,
/// adjusts what is sent, and reads what comes back. It cannot loosen a check: what protects an exchange is set and
/// verified by the engine.
///
/// ## When to write one
///
/// Most providers need none: the generic adapter of `AuthFlowOIDC` is made by a configuration file. Write one when a
/// provider answers in its own format, has no ID Token, or needs a request of its own. A whole adapter:
///
/// ```swift
/// struct ExampleProvider: ProviderAdapter {
///     let id: ProviderID = "example"
///
///     func metadata(in context: ProviderContext) throws -> ProviderMetadata {
///         ProviderMetadata(
///             issuer: "https://example.com",
///             authorizationEndpoint: try Endpoint("https://example.com/login"),
///             tokenEndpoint: try Endpoint("https://example.com/token")
///         )
///     }
///
///     // Example's tokens say nothing about the person, but one of its resources does.
///     func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity { ... }
/// }
/// ```
///
/// ## How to test one
///
/// Run `ProviderConformance` of `AuthFlowTesting` on it, and sign in against an emulator of the provider.
public protocol ProviderAdapter: Sendable {
    /// The name that stored credentials and events use for this provider.
    var id: ProviderID { get }

    /// Returns the provider's endpoints and what they support: from discovery (``discoveredMetadata(issuer:in:)``), or
    /// fixed.
    func metadata(in context: ProviderContext) async throws -> ProviderMetadata

    /// Adjusts a request that the engine has built, just before it is sent.
    func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws

    /// Reads the tokens, or the provider's error, from the reply of the token endpoint.
    func tokens(from reply: ProviderReply, in context: ProviderContext) throws -> TokenSet

    /// Returns who the tokens belong to. The ID Token, if there is one, has passed every check by then.
    func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity

    /// Returns what is to be withdrawn when the person signs out (RFC 7009), in this order.
    func revocableTokens(of tokens: TokenSet) -> [RevocableToken]
}

/// A token that can be withdrawn at the provider.
public struct RevocableToken: Sendable, Hashable {
    /// The token.
    public let token: Secret

    /// `token_type_hint`: what kind of token it is, such as `refresh_token`.
    public let typeHint: String

    /// Creates a token to withdraw.
    public init(_ token: Secret, typeHint: String) {
        self.token = token
        self.typeHint = typeHint
    }
}

extension ProviderAdapter {
    /// Leaves the request as the engine built it.
    public func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws {}

    /// Reads the reply with ``standardTokens(from:in:)``.
    public func tokens(from reply: ProviderReply, in context: ProviderContext) throws -> TokenSet {
        try standardTokens(from: reply, in: context)
    }

    /// The refresh token, without which there are no new ones, then the access token.
    public func revocableTokens(of tokens: TokenSet) -> [RevocableToken] {
        [tokens.refreshToken.map { RevocableToken($0, typeHint: "refresh_token") }].compactMap { $0 }
            + [RevocableToken(tokens.accessToken, typeHint: "access_token")]
    }

    /// Takes the identity from ``standardIdentity(for:in:)``.
    public func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity {
        try await standardIdentity(for: tokens, in: context)
    }
}

/// The name of a provider adapter, such as `oidc`.
public struct ProviderID: RawRepresentable, Sendable, Hashable, ExpressibleByStringLiteral {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public let rawValue: String
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public init(rawValue: String) { self.rawValue = rawValue }
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public init(stringLiteral value: String) { self.rawValue = value }
}
