public import AuthFlow
public import AuthFlowEssentials

/// The session of a user's browser.
public struct Session: Sendable {
    /// The identifier in the browser's cookie.
    let identifier: Secret

    /// The name of the provider at which the user signed in; empty if the server was created with a client instead of providers.
    public let provider: String

    /// The user; nil if the provider does not identify the user.
    public let identity: Identity?

    /// The user's authentication at the provider; nil if the provider does not report it.
    public let authentication: UserAuthentication?

    /// The time at which the user signed in.
    public let signedInAt: Date

    /// A name for the session, which is not secret: for display in lists, and to distinguish sessions.
    public var name: String { CredentialManager.recordName(of: identifier.exposed) }

    init(_ identifier: Secret, _ credential: Credential, of sessions: ProviderSessions) {
        self.identifier = identifier
        self.provider = sessions.name
        self.identity = credential.identity
        self.authentication = credential.authentication
        self.signedInAt = credential.signedInAt
    }
}

/// One of a user's sessions, for display in a list.
public struct SessionSummary: Sendable, Hashable {
    /// A name for the session, which is not secret.
    public let name: String

    /// The time at which the user signed in.
    public let signedInAt: Date

    /// The time at which the session was last used, accurate to the minute; the time of the sign-in if the user is not identified.
    public let lastUse: Date

    /// Whether this is the session of the request.
    public let isCurrent: Bool
}
