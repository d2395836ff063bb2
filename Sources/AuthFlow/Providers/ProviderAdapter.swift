public import AuthFlowJSON

/// A type that knows where one identity provider lives and how it departs from the standards.
///
/// The engine builds every request, checks every response, and does all the waiting. An adapter says where to send things,
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

    /// Reads the parameters of a back-channel response, for providers that answer neither in JSON nor with a form.
    func parameters(of response: ProviderResponse) throws -> JSON

    /// Names of this provider's errors, and what the standards call them.
    ///
    /// The engine acts on a few errors: `invalid_grant` for a refresh token ends the session (RFC 6749 section 5.2), and the
    /// device grant lives by `authorization_pending`, `slow_down`, `expired_token` and `access_denied` (RFC 8628 section
    /// 3.5). Errors are always shown as the provider sent them.
    var standardErrorNames: [String: String] { get }

    /// Reads the tokens, or the provider's error, from the response of the token endpoint.
    func tokens(from response: ProviderResponse, in context: ProviderContext) throws -> TokenSet

    /// Returns who the tokens belong to. The ID Token, if there is one, has passed every check by then.
    func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity

    /// Returns an exchange that signs a person in without asking them, from what another app has shared; nil when there is
    /// nothing to exchange. When it fails, the person is asked.
    func exchangeForSignIn(in context: ProviderContext) async throws -> TokenExchange?

    /// Checks what only this provider's tokens have, in a sign-in that has passed every other check and is not kept yet.
    /// - Throws: ``AuthError`` to refuse it.
    func check(_ credential: Credential, in context: ProviderContext) async throws

    /// Shares a sign-in that has been kept with the maker's other apps (``ProviderContext/sharedCredentials``).
    func share(_ credential: Credential, in context: ProviderContext) async throws

    /// Returns why the provider has ended a session, when that is known here; otherwise nil.
    func reasonForEnd(of credential: Credential, in context: ProviderContext) async -> String?

    /// Returns what the provider says about the person whom the tokens belong to.
    func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON

    /// Returns what is to be withdrawn when the person signs out (RFC 7009), in this order.
    func revocableTokens(of tokens: TokenSet) -> [RevocableToken]

    /// Withdraws the tokens when the person signs out, for providers that do it in their own way.
    /// - Throws: ``AuthError`` with `unsupported` and a sentence for the person when it cannot be done.
    func revoke(_ tokens: TokenSet, in context: ProviderContext) async throws
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

    /// Reads the body with ``ProviderResponse/parameters()``.
    public func parameters(of response: ProviderResponse) throws -> JSON {
        try response.parameters()
    }

    /// Nothing: the person is asked.
    public func exchangeForSignIn(in context: ProviderContext) async throws -> TokenExchange? { nil }

    /// Finds nothing.
    public func check(_ credential: Credential, in context: ProviderContext) async throws {}

    /// Shares nothing.
    public func share(_ credential: Credential, in context: ProviderContext) async throws {}

    /// Not known.
    public func reasonForEnd(of credential: Credential, in context: ProviderContext) async -> String? { nil }

    /// None: the provider calls its errors what the standards call them.
    public var standardErrorNames: [String: String] { [:] }

    /// Asks the userinfo endpoint with ``ProviderContext/userInfo(for:)``.
    public func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON {
        try await context.userInfo(for: tokens)
    }

    /// Revokes ``revocableTokens(of:)`` with ``ProviderContext/revoke(_:)``; an access token that has expired needs no revocation.
    public func revoke(_ tokens: TokenSet, in context: ProviderContext) async throws {
        let isExpired = tokens.expiresAt.map { $0 <= context.host.now() } ?? false
        try await context.revoke(
            revocableTokens(of: tokens).filter { !isExpired || $0.token != tokens.accessToken }
        )
    }

    /// Reads the response with ``standardTokens(from:in:)``.
    public func tokens(from response: ProviderResponse, in context: ProviderContext) throws -> TokenSet {
        try standardTokens(from: response, in: context)
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
