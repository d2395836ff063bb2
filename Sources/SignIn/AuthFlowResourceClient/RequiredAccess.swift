import AuthFlowOAuth

/// The cause of an error: the resource requires a sign-in with more scopes, or with stronger or more recent user authentication.
package struct RequiredAccess: Error, Equatable {
    /// The scopes that the user has not granted.
    package var scopes: [String] = []
    /// The required user authentication.
    package var authentication = RequiredAuthentication()
}

/// The user authentication that a resource requires (RFC 9470).
package struct RequiredAuthentication: Sendable, Hashable {
    /// The authentication context classes; empty for any.
    package var acrValues: [String] = []
    /// The maximum age in seconds; nil for any.
    package var maxAge: Int?

    package init(acrValues: [String] = [], maxAge: Int? = nil) {
        self.acrValues = acrValues
        self.maxAge = maxAge
    }

    init(acrValues: [String], maxAge: Duration?) {
        self.init(acrValues: acrValues, maxAge: maxAge.map { Int(clamping: $0.components.seconds) })
    }

    /// Whether a sign-in that requested this authentication also satisfies another requirement.
    func covers(_ other: RequiredAuthentication) -> Bool {
        // RFC 9470 section 3: "The protected resource requires one of these values". The sign-in may have satisfied any value that it requested.
        let isAccepted =
            other.acrValues.isEmpty || !acrValues.isEmpty && Set(other.acrValues).isSuperset(of: acrValues)
        return isAccepted && other.maxAge.map { limit in maxAge.map { $0 <= limit } ?? false } ?? true
    }

    /// This requirement, with its missing values taken from an earlier challenge, because a sign-in must satisfy both requirements.
    func adding(_ earlier: RequiredAuthentication) -> RequiredAuthentication {
        RequiredAuthentication(
            acrValues: acrValues.isEmpty ? earlier.acrValues : acrValues,
            maxAge: maxAge ?? earlier.maxAge
        )
    }
}

extension ResourceClient {
    /// The error for a caller that may not show a sign-in page, after the resource has rejected a token.
    func loginRequired(rejected credential: Credential, _ challenge: ResourceChallenge) async throws -> AuthError {
        switch challenge.demand {
        case .scope:
            let scopes = challenge.scopes ?? []
            let missing = Set(scopes).subtracting(credential.tokens.scopes).sorted()
            guard !missing.isEmpty else { return insufficientScope(scopes) }
            return AuthError(
                .loginRequired,
                "\(address) requires more scopes: \(Self.shown(missing)). Sign in again to request them.",
                status: 403,
                underlyingError: RequiredAccess(scopes: missing, authentication: challenge.authentication)
            )
        case .authentication:
            let classes = challenge.acrValues.isEmpty ? nil : "acr_values \(Self.shown(challenge.acrValues))"
            let age = challenge.maxAge.map { "max_age \($0)" }
            let requirement = [classes, age].compactMap(\.self).joined(separator: ", ")
            let last = try await known()?.authentication
            let isRepeated = !challenge.acrValues.isEmpty && last == challenge.authentication
            let advice =
                isRepeated
                ? "The last sign-in requested the same authentication. If another sign-in does not help, the authorization server may not support this authentication."
                : "Sign in again."
            return AuthError(
                .loginRequired,
                "\(address) requires stronger or more recent user authentication\(requirement.isEmpty ? "" : " (\(requirement))"). \(advice)",
                status: 401,
                underlyingError: RequiredAccess(authentication: challenge.authentication)
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
            "\(address) requires the scopes \(Self.shown(scopes)), but rejected a token requested with them. If the scopes have since been granted, sign in again.",
            underlyingError: RequiredAccess(scopes: Array(scopes))
        )
    }

    private static func shown(_ values: some Collection<String>) -> String {
        DisplayText.sanitized(values.joined(separator: " "), limit: 200)
    }
}
