import AuthFlowEssentials
import AuthFlowHTTP
public import AuthFlowOAuth
import Synchronization

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
            "The ID Token of the sign-in \(options.name) has expired, and a refresh returns no new one. Sign in there again."
        )
    }
}
