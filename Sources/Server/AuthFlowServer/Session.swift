public import AuthFlow
public import AuthFlowEssentials

/// The session of a user's browser.
public struct Session: Sendable {
    /// The identifier in the browser's cookie.
    let identifier: Secret

    /// The name of the provider where the user signed in; empty for the only one.
    public let provider: String

    /// The user; nil when the provider does not say.
    public let identity: Identity?

    /// The user's authentication at the provider; nil when the provider does not report it.
    public let authentication: UserAuthentication?

    /// When the user signed in.
    public let signedInAt: Date

    /// A name of the session that is not secret: for lists, and to tell sessions apart.
    public var name: String { CredentialManager.recordName(of: identifier.exposed) }

    init(_ identifier: Secret, _ credential: Credential, of sessions: ProviderSessions) {
        self.identifier = identifier
        self.provider = sessions.name
        self.identity = credential.identity
        self.authentication = credential.authentication
        self.signedInAt = credential.signedInAt
    }
}

/// One of the sessions of a user, for a list to show.
public struct SessionSummary: Sendable, Hashable {
    /// A name of the session that is not secret.
    public let name: String

    /// When the user signed in.
    public let signedInAt: Date

    /// When the session was last used, accurate to a minute.
    public let lastUse: Date

    /// Whether it is the session of the request.
    public let isCurrent: Bool
}
