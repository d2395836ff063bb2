import AuthFlowEssentials
public import AuthFlowIssuer
public import AuthFlowStorage

/// A type that describes one identity provider: its endpoints, and its deviations from the standards.
///
/// The engine builds every request, validates every response, and handles polling, retries and timeouts. An adapter
/// specifies where requests are sent, adjusts their parameters, and performs the checks that are specific to this
/// provider's tokens. It cannot weaken a check of the engine, because the engine sets and verifies the parameters that protect a
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
/// | ``UserInfoProviding`` | issues no ID Token, or provides user information through a non-standard API |
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
/// Every method may be called by several tasks concurrently, on any thread. Unless stated otherwise, if a method throws an error, the operation
/// that called it fails with that error.
///
/// ## How to test an adapter
///
/// Run `ProviderConformance` from `AuthFlowTesting` against it, and sign in with an emulator of the provider.
public protocol ProviderAdapter: MetadataSource {
    /// Adjusts a request that the engine has built. Called for each authorization, logout and back-channel form request, before it
    /// is sent. Default: leaves the request unchanged.
    func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws

    /// Performs the checks that are specific to this provider's tokens. Called at each sign-in, and at each refresh of a credential's own tokens
    /// (not for fewer scopes or for one of several resources), after the standard checks of the tokens
    /// and before the credential is stored. Default: no checks.
    /// - Parameters:
    ///   - credential: The new credential.
    ///   - previous: The credential that a refresh replaces; nil at a sign-in. A refresh response may lack an ID Token and other
    ///     members of the sign-in's response, in which case the new credential retains the previous values.
    ///   - context: The client.
    /// - Throws: ``AuthError`` to reject the tokens.
    func check(_ credential: Credential, replacing previous: Credential?, in context: ProviderContext) async throws

    /// The provider's non-standard error codes, mapped to the standard ones. Default: none.
    ///
    /// The engine acts on several errors. Most importantly, `invalid_grant` for a refresh token ends the session (RFC 6749 section 5.2), and the
    /// device grant depends on `authorization_pending`, `slow_down`, `expired_token` and `access_denied` (RFC 8628 section
    /// 3.5). Error codes are always reported as the provider sent them.
    var standardErrorNames: [String: String] { get }
}

extension ProviderAdapter {
    public func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws {}
    public func check(_ credential: Credential, replacing previous: Credential?, in context: ProviderContext)
        async throws
    {}
    public var standardErrorNames: [String: String] { [:] }
}

/// A provider whose back-channel responses are neither JSON nor form-encoded, or use non-standard member names.
public protocol ResponseParsing: ProviderAdapter {
    /// Parses the parameters of a response, including `error`, and returns them under their standard names. Called for
    /// responses from the token, device authorization, revocation and introspection endpoints; it must not block.
    /// - Throws: ``AuthError`` with `invalid_response` when the response cannot be parsed.
    func parameters(of response: ProviderResponse) throws -> JSON
}

/// A provider that identifies users in a non-standard way.
public protocol UserInfoProviding: ProviderAdapter {
    /// Returns the user to whom the tokens belong; nil when the user cannot be determined. Called at each sign-in (after the ID Token, if any, has
    /// passed every check), and at refreshes in sessions without an ID Token. A user whose subject differs from the ID Token's is rejected. At a refresh, a
    /// temporary failure (except a timeout after 3 seconds) and a response with a status from 400 to 499 are ignored;
    /// ``ProviderAdapter/check(_:replacing:in:)`` can reject refreshed tokens.
    func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity?

    /// Returns the claims about the user. Called by a client's `userInfo()` method. Default: requests the userinfo endpoint.
    func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON

    /// Whether a client's users can be identified. Called when a configuration is validated, before any sign-in. Default: true.
    func identifiesUsers(of registration: ClientRegistration) -> Bool
}

extension UserInfoProviding {
    public func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON {
        try await context.userInfo(for: tokens)
    }

    public func identifiesUsers(of registration: ClientRegistration) -> Bool { true }
}

/// A provider that does not revoke tokens as RFC 7009 specifies, or that revokes additional tokens.
public protocol TokenRevoking: ProviderAdapter {
    /// Revokes the tokens of a user who signs out (``Credential/revocableTokens(at:)``). When this method is called, they
    /// have already been removed from the store.
    /// - Throws: ``AuthError`` with `unsupported` and a message for the user when revocation is not possible.
    func revoke(_ credential: Credential, in context: ProviderContext) async throws

    /// Revokes the unused tokens of a rejected sign-in, and nothing else: the same user may have another session. Default: RFC 7009.
    /// - Throws: Any error, which is ignored: the error for the rejection is reported instead.
    func revokeUnused(_ tokens: TokenSet, in context: ProviderContext) async throws
}

extension TokenRevoking {
    public func revokeUnused(_ tokens: TokenSet, in context: ProviderContext) async throws {
        try await context.revoke(tokens.allTokens)
    }
}

/// A provider at which the apps of one vendor can share a sign-in, through ``ProviderContext/sharedCredentials``.
public protocol SharedSignIn: ProviderAdapter {
    /// Returns a token exchange that signs the user in without user interaction, based on data that another app has shared; nil when there
    /// is nothing to exchange. Called before any other sign-in method; when the provider rejects the exchange, or responds with an internal
    /// error (500), the next method is used.
    func exchangeForSignIn(in context: ProviderContext) async throws -> TokenExchange?

    /// Performs the checks that require the exchange of a sign-in, such as whether the tokens belong to the same session. Called after
    /// ``ProviderAdapter/check(_:replacing:in:)``, before the credential is stored. Default: no checks.
    /// - Throws: ``AuthError`` to reject the tokens; the next sign-in method is then used.
    func check(_ credential: Credential, from exchange: TokenExchange, in context: ProviderContext) async throws

    /// Shares a sign-in with the vendor's other apps. Called at each sign-in, after the credential has been stored, and at each refresh that
    /// has replaced the device secret. If it throws, the error is reported, and the credential remains valid.
    /// - Parameters:
    ///   - credential: The new credential.
    ///   - previous: The credential that a refresh has replaced; nil at a sign-in.
    ///   - context: The client.
    func share(_ credential: Credential, replacing previous: Credential?, in context: ProviderContext) async throws

    /// Returns the reason why the provider has ended a session, if another app has shared that reason; nil otherwise.
    func reasonForEnd(of credential: Credential, in context: ProviderContext) async -> String?
}

extension SharedSignIn {
    public func check(_ credential: Credential, from exchange: TokenExchange, in context: ProviderContext)
        async throws
    {}
}

/// A provider that is known only from a protected resource, and whose metadata may therefore contain another server's
/// endpoints.
package protocol MixUpDefending: ProviderAdapter {
    /// Checks that the response to a request can be distinguished from another server's response (RFC 9700 section
    /// 2.1).
    /// - Throws: ``AuthError`` with `unsupported`.
    func requireMixUpDefense(_ metadata: ProviderMetadata, redirectURI: String) throws(AuthError)
}

/// A provider whose response may lack an ID Token even if `openid` was requested, because the user need not be identified.
package protocol IDTokenOptional: ProviderAdapter {
    /// Whether the response to a request with the scope `openid` may lack an ID Token.
    func mayOmitIDToken(_ metadata: ProviderMetadata) -> Bool
}

extension ProviderAdapter {
    /// The parameters of a response, parsed by the adapter if the provider uses a non-standard format.
    func responseParameters(_ response: ProviderResponse) throws -> JSON {
        try (self as? any ResponseParsing)?.parameters(of: response) ?? response.parameters()
    }

    /// The standard code for a provider's error.
    package func standardName(of error: ProviderError?) -> String? {
        error.map { standardErrorNames[$0.error] ?? $0.error }
    }
}

/// A provider without deviations from the standards, whose metadata comes from a source that is not an adapter.
struct StandardProvider: ProviderAdapter {
    let source: any MetadataSource

    var issuer: String { source.issuer }

    func metadata(in context: ServerContext) async throws -> ProviderMetadata { try await source.metadata(in: context) }
}

/// The context in which an adapter acts for a client: the client's registration, and functions that send requests to
/// the provider.
public struct ProviderContext: Sendable {
    private let client: any ClientOperations

    init(_ client: any ClientOperations) { self.client = client }

    /// The client's registration.
    public var registration: ClientRegistration { client.registration }

    /// The clock and random number generator.
    public var host: HostServices { client.host }

    /// The store that the apps of one vendor share on this machine; nil when the app does not share sign-ins.
    public var sharedCredentials: SharedCredentialStore? { client.sharedCredentials }

    /// The provider's metadata.
    public func metadata() async throws -> ProviderMetadata { try await client.metadata() }

    /// Sends a request with limits on time and size, without following redirects. If the response is an error, the secrets of the request are
    /// redacted from it: the credentials in the `Authorization` field, and the parameters of the body that are tokens, codes or passwords.
    /// - Throws: Any error thrown by ``HTTPTransport/send(_:)``, or ``AuthError`` with `invalid_response` for a redirect.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        try await client.send(request).redactingSecrets(of: request)
    }

    /// Sends a form to one of the provider's endpoints, with the same client authentication as at the token endpoint.
    /// - Parameters:
    ///   - form: The parameters. The client authentication parameters are added.
    ///   - endpoint: The endpoint.
    /// - Throws: Any error thrown by ``send(_:)``; ``AuthError`` with `temporarily_unavailable` when the provider limits the
    ///   request rate, or reports a server error.
    public func post(form: FormParameters, to endpoint: Endpoint) async throws -> ProviderResponse {
        let request = ProviderRequest(purpose: .providerSpecific, endpoint: endpoint, protectedParameters: form)
        return try await client.sendForm(request)
    }

    /// Sends a request to one of the provider's resources with the access token: `Bearer`, or `DPoP` with a proof.
    /// - Parameters:
    ///   - request: The request, without an `Authorization` field.
    ///   - tokens: The tokens.
    /// - Returns: A response with status 200.
    /// - Throws: ``AuthError`` with `access_token_rejected` when the token is not accepted, `temporarily_unavailable` when the
    ///   provider limits the request rate or reports a server error, `invalid_response` for any other status.
    public func resource(_ request: TransportRequest, with tokens: TokenSet) async throws -> TransportResponse {
        try await client.resource(request, with: tokens)
    }

    /// Returns the claims from the userinfo endpoint (OIDC Core section 5.3).
    /// - Parameters:
    ///   - tokens: The tokens.
    ///   - trustingAccessTokenAlone: Whether the response is accepted without an ID Token for comparison, as in
    ///     plain OAuth 2.0, where the access token came from the token endpoint of the same provider.
    /// - Throws: ``AuthError`` with `unsupported` when there is no such endpoint or no ID Token for comparison;
    ///   `access_token_rejected` when the access token is not accepted; `invalid_user_info` when the response is for another user.
    public func userInfo(for tokens: TokenSet, trustingAccessTokenAlone: Bool = false) async throws -> JSON {
        try await client.requestUserInfo(tokens, withoutIDToken: trustingAccessTokenAlone)
    }

    /// Returns the user of the verified ID Token, with the claims from the userinfo endpoint if the registration permits it, the provider has one
    /// and a granted scope requests them; nil without an ID Token.
    /// - Throws: Any error from the userinfo request, except when the endpoint does not exist or rejects the access token.
    public func identity(for tokens: TokenSet) async throws -> Identity? {
        try await client.identityFromIDToken(tokens)
    }

    /// Returns the claims of a token from the introspection endpoint (RFC 7662); nil when the token is not active.
    /// - Throws: ``AuthError`` with `unsupported` when there is no such endpoint; `provider_rejected` when the endpoint rejects
    ///   this client.
    public func introspect(_ token: Secret) async throws -> JSON? {
        let claims = try await client.introspect(token, typeHint: "access_token")
        return claims["active"]?.bool == true ? claims : nil
    }

    /// Returns the claims of a JWT access token (RFC 9068), after verification of its signature, issuer and times.
    /// - Throws: ``AuthError`` with `unsupported` when it is not a JWT, `invalid_user_info` when it fails a check.
    public func accessTokenClaims(of tokens: TokenSet) async throws -> JSON {
        try await client.accessTokenClaims(tokens)
    }

    /// Revokes tokens at the provider's revocation endpoint (RFC 7009).
    /// - Throws: ``AuthError`` with `unsupported` when the provider has no such endpoint; otherwise, the first error. It is
    ///   thrown after revocation of the remaining tokens has been attempted, or immediately if the provider does not respond.
    public func revoke(_ tokens: [RevocableToken]) async throws { try await client.revoke(tokens) }

    /// The value of an `Authorization` field that authenticates the client with its secret (RFC 7617), for the
    /// provider's APIs; nil for a client without a secret.
    public var basicAuthorization: Secret? {
        registration.authentication.secret.map {
            Secret("Basic \(Data("\(registration.clientID):\($0.exposed)".utf8).base64EncodedString())")
        }
    }
}

/// The client operations that an adapter may use.
protocol ClientOperations: Sendable {
    var registration: ClientRegistration { get }
    var host: HostServices { get }
    var sharedCredentials: SharedCredentialStore? { get }

    func metadata() async throws -> ProviderMetadata
    func send(_ request: TransportRequest) async throws -> TransportResponse
    func sendForm(_ request: ProviderRequest) async throws -> ProviderResponse
    func resource(_ request: TransportRequest, with tokens: TokenSet) async throws -> TransportResponse
    func requestUserInfo(_ tokens: TokenSet, withoutIDToken: Bool) async throws -> JSON
    func identityFromIDToken(_ tokens: TokenSet) async throws -> Identity?
    func introspect(_ token: Secret, typeHint: String?) async throws -> JSON
    func accessTokenClaims(_ tokens: TokenSet) async throws -> JSON
    func revoke(_ tokens: [RevocableToken]) async throws
}
