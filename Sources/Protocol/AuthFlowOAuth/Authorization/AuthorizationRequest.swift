public import AuthFlowEssentials
package import AuthFlowIssuer
public import AuthFlowJSON

/// An authorization request that awaits its response (RFC 6749 section 4.1.1): the URL to visit, and the values for
/// checking the response.
///
/// It is a value that can be stored (`Codable`) and completed in another process. It contains the code verifier, so store it
/// as securely as tokens: in a ``PendingAuthorizations``, which also ensures that it is used only once, or encrypted
/// (``sealed(by:)``) in a cookie of the user's browser.
public struct AuthorizationRequest: Sendable, Hashable {
    /// The URL to open in a user agent. It may contain `state` and `nonce`: show it only to the user, and do not log it.
    public let url: String

    /// The redirect URI that receives the response.
    public let redirectURI: String

    /// The issuer of the authorization server.
    public let issuer: String

    /// The expiry of the request, according to the clock of the machine that created it. Later responses are rejected.
    public let expiresAt: Date

    /// The time of the request, according to the same clock; nil when it was stored by an earlier version.
    let requestedAt: Date?

    /// An application-defined value that is stored with the request, such as the page to return to. It is never sent.
    public var note: String?

    package let clientID: String
    package let state: Secret
    let nonce: Secret?
    let codeVerifier: Secret
    let responseMode: ResponseMode
    let requirements: AuthenticationRequirements
    /// The requested scopes, as they were sent.
    let scopes: [String]
    /// The requested resources, as they were sent.
    let resources: [String]
    /// `authorization_details` as they were sent; nil for none.
    public let authorizationDetails: JSON?
    let dpopKey: DPoPKey?
    /// The endpoints to which the code and its verifier may be sent.
    let binding: ProviderBinding
    /// Whether the response must contain `iss` (RFC 9207), as the server advertised when the request was created.
    var requiresIssuer = false
    /// The number of seconds for which the server accepts the URL of a pushed request (RFC 9126 section 2.2); nil if the request was not pushed.
    package var urlLifetime: Double?
}

extension AuthorizationRequest: CustomStringConvertible, NonReflectable {
    /// The URL without its parameter values.
    public var description: String { Redaction.url(url) }
}

extension OAuthClient {
    /// Builds an authorization request (RFC 6749 section 4.1.1, RFC 7636 section 4.3, OIDC Core section 3.1.2.1).
    /// - Parameter options: The options of this request.
    /// - Throws: ``AuthError`` with `unsupported` when the server does not support a secure request, `invalid_configuration` when an
    ///   option cannot be sent; any error from fetching the metadata, signing or pushing the request, or the adapter.
    public func authorizationRequest(_ options: AuthorizationOptions = AuthorizationOptions()) async throws
        -> AuthorizationRequest
    {
        let whole = registration.redirectURIs.first {
            if case .loopback(_, nil, _) = $0.kind { false } else { true }
        }
        guard let redirectURI = options.redirectURI ?? whole else {
            throw AuthError(
                .invalidConfiguration,
                "The request needs a complete redirect URI. Include the port of the loopback listener."
            )
        }
        return try await authorizationRequest(options, redirectURI: redirectURI.uri, state: host.randomToken())
    }

    /// - Parameters:
    ///   - redirectURI: The complete redirect URI.
    ///   - state: The `state`, which must be new for every request (RFC 9700 section 4.7).
    package func authorizationRequest(
        _ options: AuthorizationOptions,
        redirectURI: String,
        state: String
    ) async throws -> AuthorizationRequest {
        let metadata = try await metadata()
        let endpoint = try metadata.required(\.authorizationEndpoint, "authorization endpoint")
        _ = try metadata.required(\.tokenEndpoint, "token endpoint")
        // A provider that supports only the PKCE method "plain" would leave the code unprotected.
        if let methods = metadata.codeChallengeMethods, !methods.isEmpty, !methods.contains("S256") {
            throw metadata.unsupported(
                "does not support PKCE with S256 (RFC 7636), so an intercepted code could be redeemed."
            )
        }

        if registration.requiresAdvertisedPKCE { try Self.requireAdvertisedPKCE(metadata) }
        try (adapter as? any MixUpDefending)?.requireMixUpDefense(metadata, redirectURI: redirectURI)

        let pkce = PKCE(codeVerifier: Secret(host.randomToken()))
        var request = ProviderRequest(
            purpose: .authorization,
            endpoint: endpoint,
            parameters: parameters(of: .authorization),
            protectedParameters: [
                "response_type": "code",
                "client_id": registration.clientID,
                "redirect_uri": redirectURI,
                "state": state,
                "code_challenge": pkce.codeChallenge,
                "code_challenge_method": "S256",
            ]
        )
        let scopes = options.scopes ?? registration.scopes
        if !scopes.isEmpty { request.parameters["scope"] = scopes.joined(separator: " ") }
        let resources = options.resources ?? registration.resources
        try ResourceIdentifier.check(resources)
        for resource in resources { request.parameters.append("resource", resource) }
        try options.apply(to: &request)
        let details = options.authorizationDetails ?? registration.authorizationDetails
        try request.addAuthorizationDetails(details, at: metadata)
        // OAuth 2.0 Multiple Response Type Encoding Practices section 2.1: query is the default for a code.
        if registration.responseMode != .query {
            request.protectedParameters["response_mode"] = registration.responseMode.rawValue
        }
        // RFC 9449 section 10: without the key, the code cannot be redeemed.
        let dpopKey = try await newDPoPKey(at: metadata)
        if let dpopKey { request.protectedParameters["dpop_jkt"] = dpopKey.thumbprint }
        try await adapter.prepare(&request, in: providerContext)

        // The parameters as sent determine the protection, whatever their source: a request for an ID Token needs a
        // nonce.
        let sentScopes = request.scopes ?? []
        let nonce = sentScopes.contains("openid") ? host.randomToken() : nil
        request.protectedParameters["nonce"] = nonce
        let parameters = try request.allParameters()
        let requirements = try AuthenticationRequirements(parameters)
        // OIDC Core section 5.5: these claims are requested for the ID Token. A resource can check `max_age` without one (RFC 9470).
        let claims: FormParameters = parameters["claims"].map { ["claims": $0] } ?? [:]
        let ofIDToken = try AuthenticationRequirements(claims)
        guard nonce != nil || ofIDToken == AuthenticationRequirements() else {
            throw AuthError(
                .invalidConfiguration,
                "The essential claims and the requested \"sub\" cannot be checked without an ID Token. Add \"openid\" to the scopes."
            )
        }
        let (url, urlLifetime) = try await authorizationURL(parameters, at: endpoint, metadata)
        return AuthorizationRequest(
            url: url,
            redirectURI: redirectURI,
            issuer: metadata.issuer,
            expiresAt: Date(secondsSince1970: host.wholeSecond.timeIntervalSince1970 + options.lifetime.seconds),
            requestedAt: host.wholeSecond,
            clientID: registration.clientID,
            state: Secret(state),
            nonce: nonce.map(Secret.init),
            codeVerifier: pkce.codeVerifier,
            responseMode: registration.responseMode,
            requirements: requirements,
            scopes: sentScopes,
            resources: parameters.values(for: "resource"),
            authorizationDetails: parameters[AuthorizationDetails.name].flatMap { try? JSON(parsing: Array($0.utf8)) },
            dpopKey: dpopKey,
            binding: ProviderBinding(metadata),
            requiresIssuer: metadata.sendsIssuerInResponses,
            urlLifetime: urlLifetime
        )
    }

    /// Checks that the metadata advertises PKCE with S256.
    ///
    /// MCP authorization, "Authorization Code Protection": "If code_challenge_methods_supported is absent, the authorization server
    /// does not support PKCE and MCP clients MUST refuse to proceed."
    /// - Throws: ``AuthError`` with `unsupported`.
    package static func requireAdvertisedPKCE(_ metadata: ProviderMetadata) throws(AuthError) {
        guard metadata.codeChallengeMethods?.contains("S256") != true else { return }
        throw AuthError(
            .unsupported,
            "The authorization server \(metadata.issuer) does not advertise PKCE with S256 (code_challenge_methods_supported), so an intercepted code could be redeemed. The sign-in was not started."
        )
    }
}

extension AuthorizationRequest {
    /// The requested authorization details that the tokens do not cover; empty when all are covered.
    ///
    /// A granted element covers a requested element of the same type when its arrays contain all requested values and its other members are equal.
    public func missingAuthorizationDetails(in tokens: TokenSet) -> [JSON] {
        authorizationDetails.map { AuthorizationDetails.missing($0, from: tokens.authorizationDetails) } ?? []
    }
}
