public import AuthFlowJSON

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension ProviderAdapter {
    /// Reads the response of a token endpoint as RFC 6749 sections 5.1 and 5.2 describe it.
    ///
    /// An `error` member is an error whatever the status: some providers send it with 200.
    /// - Throws: ``AuthError`` with `provider_rejected`, or `invalid_reply` when the response follows neither section.
    public func standardTokens(from response: ProviderResponse, in context: ProviderContext) throws -> TokenSet {
        let json = try? parameters(of: response)
        if let error = json.flatMap({ ProviderError($0, status: response.status) }) {
            throw AuthError(
                .providerRejected,
                "\(response.endpoint.host) refused the \(response.purpose) request.",
                providerError: error
            )
        }
        guard response.status == 200 else {
            throw AuthError(
                .invalidResponse,
                "\(response.endpoint.host) answered the \(response.purpose) request with status \(response.status) and no OAuth error.",
                providerError: response.http.providerError,
                status: response.status
            )
        }
        let parameters = try parameters(of: response)
        guard let accessToken = parameters["access_token"]?.string, !accessToken.isEmpty else {
            throw AuthError(.invalidResponse, "The token response has no \"access_token\" (RFC 6749 section 5.1).")
        }
        guard let tokenType = parameters["token_type"]?.string else {
            throw AuthError(.invalidResponse, "The token response has no \"token_type\" (RFC 6749 section 5.1).")
        }
        // RFC 6749 section 5.1: expires_in is RECOMMENDED; without it nothing is known.
        let lifetime = try parameters.seconds("expires_in")
        // RFC 6749 section 5.1: scope is "OPTIONAL, if identical to the scope requested by the client"; section 6: and if
        // omitted in a refresh "is treated as equal to the scope originally granted by the resource owner".
        let scopes = parameters["scope"]?.string.map { $0.split(separator: " ").map(String.init) }
        var tokens = TokenSet(
            accessToken: Secret(accessToken),
            tokenType: tokenType,
            expiresAt: lifetime.map { context.host.wholeSecond.addingTimeInterval($0.rounded(.down)) },
            refreshToken: parameters.token("refresh_token"),
            idToken: parameters.token("id_token"),
            scopes: scopes ?? response.scopes,
            // What is kept elsewhere is not kept twice.
            parameters: RedactedJSON(.object((parameters.object ?? [:]).filter { !tokenParameters.contains($0.key) }))
        )
        tokens.deviceSecret = parameters.token("device_secret")
        return tokens
    }

    /// Takes the identity from the verified ID Token, and adds what the userinfo endpoint says when the provider has one
    /// and a scope was granted that it answers to (OIDC Core section 5.4: `profile`, `email`, `address`, `phone`).
    /// - Throws: ``AuthError`` with `unsupported` when there is no ID Token, or what fetching userinfo throws.
    public func standardIdentity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity {
        guard let idToken = tokens.verifiedIDToken else {
            throw AuthError(
                .unsupported,
                "The provider sent no ID Token, so it is not known who signed in. Ask for the scope \"openid\"."
            )
        }
        var claims = (idToken.claims.object ?? [:]).filter { !protocolClaims.contains($0.key) }
        let metadata = try await context.metadata()
        let answered: Set<String> = ["profile", "email", "address", "phone"]
        if metadata.userInfoEndpoint != nil, !answered.isDisjoint(with: tokens.scopes) {
            let userInfo = try await context.userInfo(for: tokens)
            claims.merge(userInfo.object ?? [:]) { fromIDToken, _ in fromIDToken }
        }
        return Identity(issuer: idToken.issuer, subject: idToken.subject, claims: .object(claims))
    }
}

extension JSON {
    /// A token in a response; nil also for an empty text, which no token is (RFC 6749 appendix A.17: 1*VSCHAR) and which must not take
    /// the place of one.
    fileprivate func token(_ name: String) -> Secret? {
        self[name]?.string.flatMap { $0.isEmpty ? nil : Secret($0) }
    }

    /// A number of seconds in a response.
    /// - Returns: nil when the member is absent or null.
    /// - Throws: ``AuthError`` with `invalid_reply` when it is neither a number nor, as some send it, a string of digits, or
    ///   when it is less than zero or more than a century.
    func seconds(_ name: String) throws(AuthError) -> Double? {
        guard let value = self[name], value != .null else { return nil }
        let seconds = value.number ?? value.string.flatMap { Int64($0) }.map(Double.init)
        guard let seconds, 0...(100 * 365 * 86_400) ~= seconds else {
            throw AuthError(.invalidResponse, "The response has a \"\(name)\" that is not a number of seconds.")
        }
        return seconds
    }
}

/// Parameters of a token response that a ``TokenSet`` has properties for.
private let tokenParameters: Set<String> = [
    "access_token", "token_type", "expires_in", "refresh_token", "id_token", "scope", "device_secret",
]

/// Claims of an ID Token about the token and the sign-in, not about the user.
private let protocolClaims: Set<String> = [
    "iss", "aud", "exp", "iat", "nbf", "jti", "nonce", "azp", "at_hash", "c_hash", "auth_time", "acr", "amr", "sid",
]

extension ProviderError {
    /// Reads the error members of a JSON response (RFC 6749 section 5.2).
    /// - Returns: nil when there is no `error` string.
    public init?(_ json: JSON, status: Int) {
        guard let error = json["error"]?.string else { return nil }
        self.init(
            error: error,
            errorDescription: json["error_description"]?.string,
            errorURI: json["error_uri"]?.string,
            status: status
        )
    }
}
