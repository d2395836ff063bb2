import AuthFlowJSON

/// The authorization server that a protected resource names, found from its issuer alone.
///
/// Nothing is known about it beforehand, so it is held to more than a configured provider: RFC 8414's document comes first, and
/// PKCE with S256 has to be announced.
struct ResourceAuthorizationServer: ProviderAdapter {
    let issuer: String

    /// Whether the issuer is only assumed to be one, by the oldest revision of MCP.
    var isAssumed = false

    func metadata(in context: ServerContext) async throws -> ProviderMetadata {
        do {
            return try await context.discover(order: .oauthFirst, advice: "The protected resource names it.")
        } catch let error as AuthError where error.code == .discoveryFailed && error.status == 404 && isAssumed {
            return try Self.assumedMetadata(of: issuer)
        }
    }

    /// MCP revision 2025-03-26: without a document, "/authorize", "/token" and "/register" at the origin of the server.
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

    /// Passes metadata that announces PKCE with S256.
    ///
    /// MCP authorization, "Authorization Code Protection": "If code_challenge_methods_supported is absent, the authorization server
    /// does not support PKCE and MCP clients MUST refuse to proceed."
    /// - Throws: ``AuthError`` with `unsupported`.
    static func requireAnnouncedPKCE(_ metadata: ProviderMetadata) throws(AuthError) {
        guard metadata.codeChallengeMethods?.contains("S256") != true else { return }
        throw AuthError(
            .unsupported,
            "The authorization server \(metadata.issuer) does not announce PKCE with S256 (code_challenge_methods_supported), so a code could be stolen. No sign-in was begun."
        )
    }
}
