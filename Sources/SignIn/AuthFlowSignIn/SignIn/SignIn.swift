public import AuthFlowOAuth

/// The result of a sign-in.
public struct SignIn: Sendable {
    /// The validated credential.
    public let credential: Credential

    /// All parameters of the authorization response, including provider-specific parameters such as `session_state`. The code has
    /// already been used. Empty in a flow without an authorization response.
    public let authorizationParameters: FormParameters

    /// The error if the credential could not be stored. The sign-in is valid, but only in this process.
    public internal(set) var storageError: AuthError?

    /// The error if the credential could not be shared with the other apps of a group as configured. The sign-in is valid,
    /// but the other apps cannot use it.
    public internal(set) var sharingError: AuthError?

    /// The user who signed in; nil when the provider does not identify the user: plain OAuth 2.0 has no ID Token.
    public var identity: Identity? { credential.identity }
}

extension SignIn: CustomStringConvertible {
    /// A line for a log or a terminal.
    public var description: String {
        let scopes = credential.tokens.scopes.joined(separator: " ")
        let problems = [storageError, sharingError].compactMap { $0.map { "; \($0)" } }.joined()
        return "Signed in as \(credential.displayName)\(scopes.isEmpty ? "" : " with the scopes \(scopes)")\(problems)"
    }
}
