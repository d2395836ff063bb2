public import AuthFlowIssuer

/// A type that describes one identity provider: its endpoints, and its deviations from the standards.
///
/// The engine builds every request, validates every response, and handles polling, retries and timeouts. An adapter
/// specifies where requests are sent, adjusts their parameters, and performs the checks that are specific to this
/// provider's tokens. It cannot weaken a check, because the engine sets and verifies the parameters that protect a
/// request.
///
/// ## When to write an adapter
///
/// Most providers need no custom adapter, because the generic adapter in `AuthFlowOIDC` can be configured from a file.
/// Write an adapter when a provider needs non-standard parameters, and adopt a capability protocol when parameters are
/// not enough:
///
/// | capability | for a provider that |
/// |---|---|
/// | ``ResponseParsing`` | responds in a non-standard format |
/// | ``UserInfoProviding`` | issues no ID Token, or describes users through a non-standard API |
/// | ``TokenRevoking`` | revokes tokens in a non-standard way |
/// | ``SharedSignIn`` | lets apps of one vendor share a sign-in |
///
/// A complete adapter:
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
/// Every method may be called by several tasks concurrently, on any thread. If a method throws an error, the operation
/// that called it fails with that error.
///
/// ## How to test an adapter
///
/// Run `ProviderConformance` from `AuthFlowTesting` against it, and sign in with an emulator of the provider.
public protocol ProviderAdapter: MetadataSource {
    /// Adjusts a request that the engine has built. Called for each authorization, logout and back-channel form request, before it
    /// is sent. Default: leaves the request unchanged.
    func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws

    /// Performs the checks that are specific to this provider's tokens. Called at each sign-in, after every other check
    /// and before the credential is stored. Default: no checks.
    /// - Throws: ``AuthError`` to reject the sign-in.
    func check(_ credential: Credential, in context: ProviderContext) async throws

    /// The provider's non-standard error codes, mapped to the standard ones. Default: none.
    ///
    /// The engine acts on a few errors: `invalid_grant` for a refresh token ends the session (RFC 6749 section 5.2), and the
    /// device grant depends on `authorization_pending`, `slow_down`, `expired_token` and `access_denied` (RFC 8628 section
    /// 3.5). Error codes are always reported as the provider sent them.
    var standardErrorNames: [String: String] { get }
}

extension ProviderAdapter {
    public func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws {}
    public func check(_ credential: Credential, in context: ProviderContext) async throws {}
    public var standardErrorNames: [String: String] { [:] }
}
