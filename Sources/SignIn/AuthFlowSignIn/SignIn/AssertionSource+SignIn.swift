import AuthFlowEssentials
public import AuthFlowOAuth
import Synchronization

extension AssertionSource {
    /// The user's sign-in at their identity provider, which issues an Identity Assertion JWT Authorization Grant
    /// (ID-JAG) for the other server. It shows no page: if the user is not signed in, it throws an error.
    /// - Parameters:
    ///   - name: The name of the sign-in in messages.
    ///   - client: Creates the client with which the user signed in. Called once, on first use. The client must
    ///     have requested the `openid` scope.
    public static func signIn(_ name: String, of client: @escaping @Sendable () throws -> AuthClient) -> AssertionSource
    {
        let other = OtherSignIn(client)
        var source = AssertionSource("the sign-in \(DisplayText.sanitized(name))", identity: name) { request in
            let client = try other.client()
            do {
                return try await client.client.identityAssertion(
                    for: try await client.freshIDToken(),
                    audience: request.issuer,
                    resources: request.resources,
                    scopes: request.scopes
                )
            } catch let error as AuthError where error.code == .loginRequired {
                throw error.withMessage(error.message, because: OtherSignInRequired(name: name))
            }
        }
        source.owner = {
            // After the user signs out of that client, or another user signs in, the cached token belongs to the wrong user.
            let account = try await other.client().credential()?.account
            return account.map { "\($0.issuer)\u{0}\($0.subject ?? "")" } ?? ""
        }
        return source
    }
}

/// The sign-in to repeat, as the underlying error of an error with `login_required`. A sign-in with the client that needs the assertion would fail.
package struct OtherSignInRequired: Error, Equatable {
    /// The name of the sign-in.
    package let name: String
}

/// The client of another sign-in, created on first use and then reused, so that all assertions use its cached tokens.
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
        let tokens = try await freshTokens()
        if let idToken = unexpired(tokens) { return idToken }
        // If the last refresh returned no new ID Token, neither will the next: it would only rotate the refresh token.
        let expiry = tokens.idToken.flatMap { AssertionClaims($0).expiry }
        let stored = try await credential()
        let wasRefreshed =
            stored.map { credential in
                expiry.map { credential.obtainedAt.timeIntervalSince1970 > $0 }
                    ?? (credential.obtainedAt > credential.signedInAt)
            } ?? false
        if !wasRefreshed, let idToken = unexpired(try await refresh().tokens) { return idToken }
        throw AuthError(
            .loginRequired,
            "The sign-in \(options.name) has no ID Token that is still valid, and refreshing returned no new ID Token. Repeat that sign-in."
        )
    }
}
