import AuthFlowHTTP
import AuthFlowOAuth

/// The cause of an error: the resource requires a sign-in with more scopes, or with stronger or more recent user authentication.
package struct RequiredAccess: Error, Equatable {
    /// The scopes that the user has not granted.
    package var scopes: [String] = []
    /// The authentication context classes (RFC 9470).
    package var acrValues: [String] = []
    /// The maximum age of the user's authentication in seconds (RFC 9470); nil for any.
    package var maxAge: Int?
}

extension ResourceChallenge {
    /// The demand on the authentication of the user.
    var authentication: RequiredAccess { RequiredAccess(acrValues: acrValues, maxAge: maxAge) }
}

extension ResourceClient {
    /// The error for a caller that may not show a page, after the resource has rejected a token.
    func loginRequired(rejected credential: Credential, _ challenge: ResourceChallenge) -> AuthError {
        switch challenge.demand {
        case .scope:
            let scopes = challenge.scopes ?? []
            let missing = Set(scopes).subtracting(credential.tokens.scopes).sorted()
            guard !missing.isEmpty else { return insufficientScope(scopes) }
            return AuthError(
                .loginRequired,
                "\(address) requires more scopes: \(Self.shown(missing)). Sign in with them.",
                status: 403,
                underlyingError: RequiredAccess(scopes: missing)
            )
        case .authentication:
            let classes = challenge.acrValues.isEmpty ? nil : "acr_values \(Self.shown(challenge.acrValues))"
            let maxAge = challenge.maxAge.flatMap { ResourceClient.Options.maxAges.contains($0) ? $0 : nil }
            let age = maxAge.map { "max_age \($0)" }
            let requirement = [classes, age].compactMap(\.self).joined(separator: ", ")
            return AuthError(
                .loginRequired,
                "\(address) requires stronger or more recent user authentication\(requirement.isEmpty ? "" : " (\(requirement))"). Sign in again.",
                status: 401,
                underlyingError: RequiredAccess(acrValues: challenge.acrValues, maxAge: maxAge)
            )
        case .token, .nonce:
            return AuthError(
                .loginRequired,
                "\(address) does not accept the access token, although it has not expired. Sign in again.",
                status: 401
            )
        }
    }

    /// The error when a token with the required scopes is rejected.
    func insufficientScope(_ scopes: some Collection<String>) -> AuthError {
        AuthError(
            .insufficientScope,
            "\(address) requires the scopes \(Self.shown(scopes)), but rejected a token requested with them."
        )
    }

    private static func shown(_ values: some Collection<String>) -> String {
        DisplayText.sanitized(values.joined(separator: " "), limit: 200)
    }
}
