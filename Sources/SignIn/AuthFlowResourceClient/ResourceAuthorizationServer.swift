import AuthFlowOAuth
import Crypto

/// The authorization server that a protected resource names: only its issuer is known in advance.
///
/// RFC 8414 metadata is tried before OpenID Connect Discovery, and PKCE with S256 must be advertised, which is optional for a
/// configured provider.
struct ResourceAuthorizationServer: MixUpDefending, IDTokenOptional {
    let issuer: String

    /// Whether the issuer is only assumed to be an authorization server, as in MCP revision 2025-03-26.
    var isAssumed = false

    /// Whether the issuer is one of the trusted issuers in the options, so that its metadata is trusted.
    var isListed = false

    func metadata(in context: ServerContext) async throws -> ProviderMetadata {
        do {
            return try await context.discover(order: .oauthFirst, advice: "The protected resource names this issuer.")
        } catch let error as AuthError
            where error.code == .discoveryFailed && (error.status == 200 || 300..<500 ~= error.status ?? 0) && isAssumed
        {
            return try Self.assumedMetadata(of: issuer)
        }
    }

    /// Whether the server is not an OpenID Provider, whose metadata must contain `id_token_signing_alg_values_supported` (OpenID Connect Discovery
    /// section 3). For such a server, `openid` is a scope like any other: servers in front of another provider (FastMCP) list that provider's scopes,
    /// and return no ID Token. A resource client does not identify the user. If an ID Token is returned anyway, it is validated if the metadata has
    /// `jwks_uri`, and otherwise discarded.
    package func mayOmitIDToken(_ metadata: ProviderMetadata) -> Bool { metadata.idTokenSigningAlgorithms == nil }

    /// Requires that the response to a request can be distinguished from another server's response.
    ///
    /// RFC 9700 section 2.1: with several authorization servers, a defense against mix-up attacks is REQUIRED. Section 4.4: an attacker's
    /// server may name the authorization endpoint of another server as its own, and would then receive that server's
    /// code.
    /// - Throws: ``AuthError`` with `unsupported`.
    package func requireMixUpDefense(_ metadata: ProviderMetadata, redirectURI: String) throws(AuthError) {
        // RFC 9207 section 2.4: `iss` is then required in every response, and is compared with the issuer.
        guard !isListed, !metadata.sendsIssuerInResponses else { return }
        try requireOwnEndpoints(metadata)
        // RFC 8252 section 8.10: "it is REQUIRED that a unique redirect URI is used for each authorization server used
        // by the app". Here, this applies only if the responses do not contain `iss`.
        guard redirectURI.hasSuffix(RedirectURI.pathSegment(of: issuer)) else {
            throw refusal(
                "its responses contain no iss parameter (RFC 9207), and the redirect URI is shared with other servers"
            )
        }
    }

    /// Requires that the authorization, PAR and registration endpoints are at the issuer's origin if the responses contain no
    /// `iss`.
    func requireOwnEndpoints(_ metadata: ProviderMetadata) throws(AuthError) {
        guard !isListed, !metadata.sendsIssuerInResponses else { return }
        let names = ["authorization_endpoint", "pushed_authorization_request_endpoint", "registration_endpoint"]
        for (name, endpoint) in metadata.endpoints where names.contains(name) { try requireOwn(name, endpoint) }
    }

    /// The device flow (RFC 8628) has neither a redirect nor an `iss` parameter that distinguishes servers.
    func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws {
        guard request.purpose == .deviceAuthorization, !isListed else { return }
        try requireOwn("device_authorization_endpoint", request.endpoint)
    }

    private func requireOwn(_ name: String, _ endpoint: Endpoint?) throws(AuthError) {
        guard let endpoint, (try? Endpoint(issuer))?.origin != endpoint.origin else { return }
        throw refusal("its \(name) is at \(endpoint.origin), and its responses contain no iss parameter (RFC 9207)")
    }

    private func refusal(_ reason: String) -> AuthError {
        AuthError(
            .unsupported,
            "The authorization server \(issuer) cannot be distinguished from another server: \(reason). No sign-in was started. If you trust this server, list it in \"issuers\"."
        )
    }

    /// MCP revision 2025-03-26: without metadata, use "/authorize", "/token" and "/register" at the server's origin.
    private static func assumedMetadata(of issuer: String) throws(AuthError) -> ProviderMetadata {
        var metadata = ProviderMetadata(
            issuer: issuer,
            authorizationEndpoint: try Endpoint("\(issuer)/authorize"),
            tokenEndpoint: try Endpoint("\(issuer)/token"),
            registrationEndpoint: try Endpoint("\(issuer)/register")
        )
        metadata.codeChallengeMethods = ["S256"]
        return metadata
    }
}

extension RedirectURI {
    /// The last path segment of the redirect URIs for one issuer.
    static func pathSegment(of issuer: String) -> String {
        "/" + Base64URL.encode(Array(SHA256.hash(data: Array(issuer.utf8)).prefix(16)))
    }

    /// The redirect URI for one issuer; unchanged when it cannot be varied.
    func own(for issuer: String) -> RedirectURI {
        guard kind != .https, !uri.contains("?") else { return self }
        return (try? RedirectURI(uri.droppingTrailingSlash + Self.pathSegment(of: issuer))) ?? self
    }
}
