import AuthFlowHTTP
import AuthFlowOAuth

/// The cause of an error: the resource requires scopes that the user has not granted.
package struct MissingScopes: Error {
    /// The scopes.
    package let scopes: [String]
}

extension ResourceClient {
    /// The error for a caller that may not show a page, after the resource has rejected a token.
    /// - Parameter scopes: The scopes that the resource requires; nil if it does not name any.
    func loginRequired(rejected credential: Credential, _ scopes: Set<String>?) -> AuthError {
        guard let scopes else {
            return AuthError(
                .loginRequired,
                "\(address) does not accept the access token, although it has not expired. Sign in again.",
                status: 401
            )
        }
        let missing = scopes.subtracting(credential.tokens.scopes).sorted()
        guard !missing.isEmpty else { return insufficientScope(scopes.sorted()) }
        return AuthError(
            .loginRequired,
            "\(address) requires more scopes: \(Self.shown(missing)). Sign in with them.",
            status: 403,
            underlyingError: MissingScopes(scopes: missing)
        )
    }

    /// The error when a token with the required scopes is rejected.
    func insufficientScope(_ scopes: some Collection<String>) -> AuthError {
        AuthError(
            .insufficientScope,
            "\(address) requires the scopes \(Self.shown(scopes)), but rejected a token requested with them."
        )
    }

    private static func shown(_ scopes: some Collection<String>) -> String {
        DisplayText.sanitized(scopes.joined(separator: " "), limit: 200)
    }
}
