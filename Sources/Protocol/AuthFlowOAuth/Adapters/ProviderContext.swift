import AuthFlowEssentials
public import AuthFlowHTTP
public import AuthFlowIssuer
public import AuthFlowJSON
public import AuthFlowStorage
import HTTPTypes

/// The context in which an adapter acts for a client: the client's registration, and functions that send requests to
/// the provider.
public struct ProviderContext: Sendable {
    private let client: any ClientOperations

    init(_ client: any ClientOperations) { self.client = client }

    /// The registration of the client.
    public var registration: ClientRegistration { client.registration }

    /// The clock and random number generator.
    public var host: HostServices { client.host }

    /// The store that the apps of one vendor share on this machine; nil when the app does not share sign-ins.
    public var sharedCredentials: SharedCredentialStore? { client.sharedCredentials }

    /// The provider's metadata.
    public func metadata() async throws -> ProviderMetadata { try await client.metadata() }

    /// Sends a request with limits on time and size, without following redirects. If the response is an error, the secrets of the request are
    /// redacted in it: the credentials in the `Authorization` field, and the parameters of the body that are tokens, codes or passwords.
    /// - Throws: Any error thrown by ``HTTPTransport/send(_:)``, or ``AuthError`` with `invalid_reply` for a redirect.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        try await client.send(request).withoutSecrets(of: request)
    }

    /// Sends a form to one of the provider's endpoints, with the same client authentication as at the token endpoint.
    /// - Parameters:
    ///   - form: The parameters. The client authentication parameters are added.
    ///   - endpoint: The endpoint.
    /// - Throws: Any error thrown by ``send(_:)``; `temporarily_unavailable` when the provider responds with that error.
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
    ///   provider limits the request rate, `invalid_reply` for any other status.
    public func resource(_ request: TransportRequest, with tokens: TokenSet) async throws -> TransportResponse {
        try await client.resource(request, with: tokens)
    }

    /// Returns the claims from the userinfo endpoint (OIDC Core section 5.3).
    /// - Parameters:
    ///   - tokens: The tokens.
    ///   - trustingAccessTokenAlone: Whether the response is accepted without an ID Token for comparison, as in
    ///     plain OAuth 2.0, where the access token came from the token endpoint of the same provider.
    /// - Throws: ``AuthError`` with `unsupported` when there is no such endpoint or no ID Token to compare with;
    ///   `access_token_rejected` when the access token is not accepted; `invalid_user_info` when the response is for another user.
    public func userInfo(for tokens: TokenSet, trustingAccessTokenAlone: Bool = false) async throws -> JSON {
        try await client.requestUserInfo(tokens, withoutIDToken: trustingAccessTokenAlone)
    }

    /// Returns the user of the verified ID Token, with the claims from the userinfo endpoint if the provider has one
    /// and a granted scope requests them; nil without an ID Token.
    /// - Throws: Any error from the userinfo request.
    public func identity(for tokens: TokenSet) async throws -> Identity? {
        try await client.identityByIDToken(tokens)
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
    /// - Throws: ``AuthError`` with `unsupported` when the provider has no such endpoint, or the first error, after
    ///   revocation of the remaining tokens has been attempted, or immediately if the provider does not respond.
    public func revoke(_ tokens: [RevocableToken]) async throws { try await client.revoke(tokens) }

    /// The value of an `Authorization` field that authenticates the client with its secret (RFC 7617), for the
    /// provider's APIs; nil for a client without a secret.
    public var basicAuthorization: Secret? {
        registration.authentication.secret.map {
            Secret("Basic \(Data("\(registration.clientID):\($0.exposed)".utf8).base64EncodedString())")
        }
    }
}

/// The operations of a client that an adapter may use.
protocol ClientOperations: Sendable {
    var registration: ClientRegistration { get }
    var host: HostServices { get }
    var sharedCredentials: SharedCredentialStore? { get }

    func metadata() async throws -> ProviderMetadata
    func send(_ request: TransportRequest) async throws -> TransportResponse
    func sendForm(_ request: ProviderRequest) async throws -> ProviderResponse
    func resource(_ request: TransportRequest, with tokens: TokenSet) async throws -> TransportResponse
    func requestUserInfo(_ tokens: TokenSet, withoutIDToken: Bool) async throws -> JSON
    func identityByIDToken(_ tokens: TokenSet) async throws -> Identity?
    func introspect(_ token: Secret, typeHint: String?) async throws -> JSON
    func accessTokenClaims(_ tokens: TokenSet) async throws -> JSON
    func revoke(_ tokens: [RevocableToken]) async throws
}
