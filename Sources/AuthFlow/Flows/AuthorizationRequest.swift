import HTTPTypes
import Synchronization

/// An authorization request that has been built and awaits its answer: what the answer is checked against.
///
/// It can be answered once. Keep it in memory until then; it holds the code verifier.
public final class PendingAuthorization: Sendable {
    /// The URL to open in a user agent. It carries `state` and `nonce`: show it to the person, and keep it out of logs.
    public let url: String

    /// The redirect URI that the answer will come to.
    public let redirectURI: String

    let state: Secret
    let nonce: Secret?
    let codeVerifier: Secret
    let metadata: ProviderMetadata
    let responseMode: ResponseMode
    let demand: AuthenticationDemand
    /// The scopes that were asked for, as they were sent.
    let scopes: [String]
    let dpopKey: DPoPKey?
    private let isAnswered = Mutex(false)

    init(
        url: String,
        redirectURI: String,
        state: Secret,
        nonce: Secret?,
        codeVerifier: Secret,
        metadata: ProviderMetadata,
        responseMode: ResponseMode = .query,
        demand: AuthenticationDemand = AuthenticationDemand(),
        scopes: [String] = [],
        dpopKey: DPoPKey? = nil
    ) {
        self.url = url
        self.redirectURI = redirectURI
        self.state = state
        self.nonce = nonce
        self.codeVerifier = codeVerifier
        self.metadata = metadata
        self.responseMode = responseMode
        self.demand = demand
        self.scopes = scopes
        self.dpopKey = dpopKey
    }

    /// Uses the request up. RFC 9700 section 4.2.4: "The state value SHOULD be invalidated by the client after its first
    /// use at the redirection endpoint."
    func answer() throws(AuthError) {
        let wasAnswered = isAnswered.withLock { answered in
            defer { answered = true }
            return answered
        }
        guard !wasAnswered else {
            throw AuthError(.invalidCallback, "This sign-in has been answered already; the same answer came again.")
        }
    }
}

extension PendingAuthorization: CustomStringConvertible, CustomReflectable {
    /// The URL with its values left out.
    public var description: String { Redaction.url(url) }
    /// A mirror without children: the request holds secrets.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

extension Engine {
    /// Builds an authorization request (RFC 6749 section 4.1.1, RFC 7636 section 4.3, OIDC Core section 3.1.2.1).
    func authorizationRequest(
        at metadata: ProviderMetadata,
        redirectURI: String,
        state: String
    ) async throws -> PendingAuthorization {
        let endpoint = try metadata.required(\.authorizationEndpoint, "authorization endpoint")
        _ = try metadata.required(\.tokenEndpoint, "token endpoint")
        // RFC 9126 section 5: the provider "accepts authorization request data only via PAR". It would show an empty page.
        guard !metadata.requiresPushedRequests else {
            throw AuthError(
                .unsupported,
                "The provider \(metadata.issuer) takes pushed authorization requests only (RFC 9126), which AuthFlow does not send yet."
            )
        }
        // A provider that knows PKCE, but only its method "plain", would leave the code unprotected.
        if let methods = metadata.codeChallengeMethods, !methods.isEmpty, !methods.contains("S256") {
            throw AuthError(
                .unsupported,
                "The provider \(metadata.issuer) does not support PKCE with S256 (RFC 7636), without which a code can be stolen."
            )
        }

        let pkce = PKCE(codeVerifier: Secret(host.randomToken()))

        var request = ProviderRequest(
            purpose: .authorization,
            endpoint: endpoint,
            parameters: settings.parameters[.authorization] ?? [:],
            headerFields: [:],
            protectedParameters: [
                "response_type": "code",
                "client_id": settings.clientID,
                "redirect_uri": redirectURI,
                "state": state,
                "code_challenge": pkce.codeChallenge,
                "code_challenge_method": "S256",
            ]
        )
        if !settings.scopes.isEmpty { request.parameters["scope"] = settings.scopes.joined(separator: " ") }
        // OAuth 2.0 Multiple Response Type Encoding Practices section 2.1: query is the default for a code.
        if settings.responseMode != .query {
            request.protectedParameters["response_mode"] = settings.responseMode.rawValue
        }
        // RFC 9449 section 10: the code is then of no use to who has not got the key.
        let dpopKey = try newDPoPKey(at: metadata)
        if let dpopKey { request.protectedParameters["dpop_jkt"] = dpopKey.thumbprint }
        try await provider.prepare(&request, in: context)

        // What protects the request is decided by what is sent, however that came into the request: an ID Token needs a nonce.
        let scopes = request.scopes ?? []
        let nonce = scopes.contains("openid") ? host.randomToken() : nil
        request.protectedParameters["nonce"] = nonce
        let parameters = try request.allParameters()
        return PendingAuthorization(
            url: endpoint.url(adding: parameters),
            redirectURI: redirectURI,
            state: Secret(state),
            nonce: nonce.map(Secret.init),
            codeVerifier: pkce.codeVerifier,
            metadata: metadata,
            responseMode: settings.responseMode,
            demand: try AuthenticationDemand(parameters),
            scopes: scopes,
            dpopKey: dpopKey
        )
    }
}
