/// A type that knows where one identity provider lives and how it departs from the standards.
///
/// The engine builds every request, checks every response, and does all the waiting. An adapter says where to send requests,
/// adjusts what is sent, and checks what only this provider's tokens have. It cannot loosen a check: the parameters that
/// protect an exchange are set and verified by the engine.
///
/// ## When to write one
///
/// Most providers need none: the generic adapter of `AuthFlowOIDC` is configured by a file. Write one when a provider needs
/// parameters of its own, and adopt a capability when it needs more:
///
/// | capability | for a provider that |
/// |---|---|
/// | ``ResponseParsing`` | responds in a format of its own |
/// | ``UserInfoProviding`` | has no ID Token, or describes users at an API of its own |
/// | ``TokenRevoking`` | revokes tokens in its own way |
/// | ``SharedSignIn`` | lets apps of one vendor share a sign-in |
///
/// A whole adapter:
///
/// ```swift
/// struct ExampleProvider: ProviderAdapter {
///     let issuer = "https://example.com"
///
///     func metadata(in context: ServerContext) async throws -> ProviderMetadata {
///         try await context.discover()
///     }
///
///     func prepare(_ request: inout ProviderRequest, in context: ProviderContext) {
///         if request.purpose == .authorization { request.parameters["audience"] = "https://api.example.com" }
///     }
/// }
/// ```
///
/// Every method may be called by several tasks at once, on any thread. An error that a method throws ends the operation
/// that called it, and is thrown by that operation.
///
/// ## How to test one
///
/// Run `ProviderConformance` of `AuthFlowTesting` on it, and sign in against an emulator of the provider.
public protocol ProviderAdapter: Sendable {
    /// The issuer that the metadata names, compared code point by code point. Stored credentials belong to it.
    var issuer: String { get }

    /// Returns the provider's endpoints and what they support: from discovery (``ServerContext/discover(at:order:tokenIssuer:advice:)``), or
    /// fixed.
    ///
    /// Called once for all who wait, again when the lifetime of the discovered document is over. When it throws, the old
    /// metadata is used if there is any.
    func metadata(in context: ServerContext) async throws -> ProviderMetadata

    /// Adjusts a request that the engine has built. Called for each request to an endpoint of the metadata, just before it is
    /// sent. Default: leaves it as it is.
    func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws

    /// Checks what only this provider's tokens have. Called at each sign-in, after every other check and before the credential
    /// is kept. Default: no check.
    /// - Throws: ``AuthError`` to refuse the sign-in.
    func check(_ credential: Credential, in context: ProviderContext) async throws

    /// The provider's names of errors, and what the standards call them. Default: none.
    ///
    /// The engine acts on a few errors: `invalid_grant` for a refresh token ends the session (RFC 6749 section 5.2), and the
    /// device grant depends on `authorization_pending`, `slow_down`, `expired_token` and `access_denied` (RFC 8628 section
    /// 3.5). Errors are always shown as the provider sent them.
    var standardErrorNames: [String: String] { get }
}

extension ProviderAdapter {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws {}
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func check(_ credential: Credential, in context: ProviderContext) async throws {}
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public var standardErrorNames: [String: String] { [:] }
}
