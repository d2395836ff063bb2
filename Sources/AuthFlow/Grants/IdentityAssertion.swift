import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension OAuthClient {
    /// Asks the user's identity provider for an assertion that the authorization server of another domain accepts
    /// (draft-ietf-oauth-identity-assertion-authz-grant, section 4.3). Hand it to ``jwtBearer(_:scopes:resources:)`` of a client
    /// of that server.
    /// - Parameters:
    ///   - idToken: The ID Token of the user, issued to this client.
    ///   - audience: The issuer of the other server.
    ///   - resources: The resources that the access token is to be for.
    ///   - scopes: The scopes that it is to have; default: the provider's choice.
    /// - Throws: ``AuthError`` with `provider_rejected`; `invalid_reply` when it sends something else.
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
        // Section 4.3.3: issued_token_type is REQUIRED and is id-jag; token_type is N_A, "because this is not an OAuth access token".
        guard parameters["issued_token_type"]?.string == TokenExchange.TokenType.identityAssertion.rawValue,
            response.tokens.tokenType.lowercased() == "n_a"
        else {
            throw AuthError(
                .invalidResponse,
                "The provider has sent another token than the identity assertion that was asked for."
            )
        }
        // RFC 8693 section 2.2.1: scope is "OPTIONAL if the scope of the issued security token is identical to the scope requested".
        let granted = response.tokens.scopes
        var assertion = try Assertion(response.tokens.accessToken, scopes: granted.isEmpty ? nil : granted)
        // Section 4.3.3: with a proof in this request the assertion may be bound to its key, and the next then needs the same. A server
        // that ignores the proof binds it to none.
        if let key = response.key, try JWS(assertion.jwt).payload["cnf"]?["jkt"]?.string == key.thumbprint {
            assertion.key = key
        }
        try assertion.check(audience: audience, at: server.time, from: "the identity provider")
        return assertion
    }
}

extension AssertionSource {
    /// The sign-in of the user at their identity provider, which gives an assertion for the other server. Nothing is shown: where
    /// the user is not signed in, that is said.
    /// - Parameters:
    ///   - name: What the sign-in is called in messages.
    ///   - client: Makes the client that the user has signed in with, once, when it is first needed. It must have asked for the scope
    ///     `openid`.
    public static func signIn(_ name: String, of client: @escaping @Sendable () throws -> AuthClient) -> AssertionSource
    {
        let other = OtherSignIn(client)
        return AssertionSource("the sign-in \(DisplayText.sanitized(name))", identity: name) {
            // A user who has signed out there, or in as another, is not who the last token was for.
            let account = try await other.client().credential()?.account
            return account.map { "\($0.issuer)\u{0}\($0.subject ?? "")" } ?? ""
        } make: { request in
            let client = try other.client()
            return try await client.client.identityAssertion(
                for: try await client.freshIDToken(),
                audience: request.issuer,
                resources: request.resources,
                scopes: request.scopes
            )
        }
    }
}

/// The client of another sign-in, which is made when it is first needed, and kept: its tokens in memory serve every assertion.
private final class OtherSignIn: Sendable {
    private let make: @Sendable () throws -> AuthClient
    private let made = Mutex<AuthClient?>(nil)

    init(_ make: @escaping @Sendable () throws -> AuthClient) { self.make = make }

    func client() throws -> AuthClient {
        try made.withLock { made in
            let client = try made ?? make()
            made = client
            return client
        }
    }
}

extension AuthClient {
    /// An ID Token that has not expired.
    fileprivate func freshIDToken() async throws -> Secret {
        func unexpired(_ tokens: TokenSet) -> Secret? {
            guard let idToken = tokens.idToken, let expiry = AssertionClaims(idToken).expiry,
                expiry > client.host.now().timeIntervalSince1970
            else { return nil }
            return idToken
        }
        if let idToken = unexpired(try await freshTokens()) { return idToken }
        if let idToken = unexpired(try await refresh().tokens) { return idToken }
        throw AuthError(
            .loginRequired,
            "The ID Token of the sign-in \(options.name) has expired, and refreshing brings no new one. Sign in there again."
        )
    }
}
