import AuthFlowEssentials
public import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON

extension OAuthClient {
    /// Requests an Identity Assertion JWT Authorization Grant (ID-JAG) from the user's identity provider, for the
    /// authorization server of another domain (draft-ietf-oauth-identity-assertion-authz-grant, section 4.3). Pass the
    /// assertion to ``jwtBearer(_:scopes:resources:)`` on a client of that server.
    /// - Parameters:
    ///   - idToken: The user's ID Token, issued to this client.
    ///   - audience: The issuer of the other server.
    ///   - resources: The target resources of the access token.
    ///   - scopes: The scopes to request for the access token; default: the provider's choice.
    /// - Throws: ``AuthError`` with `provider_rejected`; `invalid_response` when the response is not such an assertion; `assertion_unusable` when
    ///   it is not a signed JWT, has expired, or is for another audience.
    public func identityAssertion(
        for idToken: Secret,
        audience: String,
        resources: [String] = [],
        scopes: [String] = []
    ) async throws -> Assertion {
        var exchange = TokenExchange(idToken, type: .idToken, audience: [audience], resource: resources, scopes: scopes)
        exchange.requestedTokenType = .identityAssertion
        let response = try await sendTokenExchange(exchange, try await metadata())
        let parameters = response.tokens.parameters.exposed
        try await revokingRejectedToken(of: exchange, response) {
            // Section 4.3.3: issued_token_type is REQUIRED and is id-jag; token_type is N_A, "because this is not an OAuth access token".
            guard parameters["issued_token_type"]?.string == TokenExchange.TokenType.identityAssertion.rawValue,
                response.tokens.tokenType.lowercased() == "n_a"
            else {
                throw AuthError(
                    .invalidResponse,
                    "The provider sent a token other than the requested identity assertion."
                )
            }
        }
        // RFC 8693 section 2.2.1: scope is "OPTIONAL if the scope of the issued security token is identical to the scope requested".
        let granted = response.tokens.scopes
        var assertion = try Assertion(response.tokens.accessToken, scopes: granted.isEmpty ? nil : granted)
        // Section 4.3.3: with a DPoP proof in this request, the assertion may be bound to the proof's key, and the next
        // request then requires the same key. A server that ignores the proof does not bind the assertion.
        if let key = response.key, try JWS(assertion.jwt).payload["cnf"]?["jkt"]?.string == key.thumbprint {
            assertion.key = key
        }
        try assertion.check(audience: audience, at: server.time, from: "the identity provider")
        return assertion
    }
}
