public import AuthFlow
import AuthFlowEssentials

/// The application's hooks for the lifecycle of a session. Each function is awaited.
public struct SessionHooks: Sendable {
    /// Accepts or rejects a sign-in before a session is created: create the user here, look up roles, or reject the user.
    ///
    /// If it throws or rejects, there is no session, and a session that the browser had before continues. The tokens are revoked, unless the
    /// continuing session is the same user's: its tokens may belong to the same grant. Default: every user is accepted.
    public var onSignIn: @Sendable (NewSignIn) async throws -> SignInDecision = { _ in .accept }

    /// Runs when a user signs out with ``SessionServerOptions/logoutPath``, before the session ends. It cannot prevent the sign-out; if the store
    /// fails afterwards, the user tries again, and it runs again. Default: nothing.
    public var onSignOut: @Sendable (Session) async -> Void = { _ in }

    /// Runs after a session has ended, for any reason other than expiry, in the process that ended it or detected its end.
    ///
    /// Make it idempotent: normally it runs once, but not at all if the process is killed or the store's answer is lost at that moment, and twice if
    /// the end of a session could not be stored. ``SessionServer/drain(within:)`` waits for it. Default: nothing.
    public var onEnd: @Sendable (SessionEnd) async -> Void = { _ in }

    /// The timeout of ``onSignIn`` and ``onSignOut``, after which their tasks are cancelled; default: 30 seconds. An ``onSignIn`` that throws
    /// because of that counts as one that throws.
    public var timeout = Duration.seconds(30)

    /// Creates hooks that do nothing.
    public init() {}
}

/// A completed sign-in, before its session exists.
public struct NewSignIn: Sendable {
    /// The name of the provider; empty for the only one.
    public let provider: String

    /// The tokens and the user.
    public let credential: Credential

    /// Path and query of the page that the user returns to.
    public let returnPath: String

    /// The session that the browser had, of this or another provider, if ``SessionSignInOptions/linksAccounts`` was set; nil otherwise, or when there
    /// was none. It ends when the sign-in is accepted.
    public let previous: KnownSession?

    /// The user; nil when the provider does not say.
    public var identity: Identity? { credential.identity }
}

/// The application's answer to a sign-in.
public struct SignInDecision: Sendable {
    enum Outcome: Sendable {
        case accepted(data: Secret?, returnPath: String?)
        case refused(String)
        case redirected(String)
    }

    let outcome: Outcome

    /// The user gets a session, and continues to the requested page.
    public static let accept = Self(outcome: .accepted(data: nil, returnPath: nil))

    /// The user gets a session, and continues to another page first, such as one for new users.
    /// - Parameter path: Path and query of a page of the application.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration`.
    public static func accept(returningTo path: String) throws -> Self {
        Self(outcome: .accepted(data: nil, returnPath: try checked(path)))
    }

    /// The user gets a session with data of the application.
    /// - Parameters:
    ///   - data: The data.
    ///   - path: Path and query of a page of the application; default: the requested page.
    /// - Throws: ``/AuthFlow/AuthError`` with `session_data_unusable`, `invalid_configuration`.
    public static func accept(_ data: some SessionData, returningTo path: String? = nil) throws -> Self {
        Self(outcome: .accepted(data: try StoredSessionData.encode(data), returnPath: try path.map(checked)))
    }

    /// The user gets no session.
    /// - Parameter message: A sentence for the user.
    public static func refuse(_ message: String) -> Self { Self(outcome: .refused(message)) }

    /// The user gets no session, and is sent elsewhere.
    /// - Parameter url: Any URL. It must not come from the request: RFC 9700 section 4.11, "open redirector".
    public static func redirect(to url: String) -> Self { Self(outcome: .redirected(url)) }

    private static func checked(_ path: String) throws -> String {
        guard let address = ReturnAddress(path, prefixes: nil) else {
            throw AuthError(.invalidConfiguration, "The page to return to is not a path of the application.")
        }
        return address.path
    }
}

/// The end of a session.
public struct SessionEnd: Sendable {
    /// The reason why a session ended, from an extensible set.
    public struct Reason: RawRepresentable, Sendable, Hashable {
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public let rawValue: String
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The user signed out, here or everywhere, or ended it from another session.
        public static let signedOut = Self(rawValue: "signed_out")
        /// The browser has a new session.
        public static let replaced = Self(rawValue: "replaced")
        /// The user has more sessions than ``SessionServerOptions/sessionsPerUser``.
        public static let limit = Self(rawValue: "limit")
        /// The provider requested it (OpenID Connect Back-Channel Logout 1.0, Front-Channel Logout 1.0).
        public static let providerLogout = Self(rawValue: "provider_logout")
        /// The provider has refused to refresh the tokens.
        public static let refreshRefused = Self(rawValue: "refresh_refused")
    }

    /// The session.
    public let session: KnownSession

    /// The reason.
    public let reason: Reason
}

/// A session without its browser: it gives no access to the tokens.
public struct KnownSession: Sendable {
    /// The name of the session that is not secret: ``Session/name``.
    public let name: String

    /// The name of the provider; empty for the only one.
    public let provider: String

    /// The user; nil when unknown.
    public let identity: Identity?

    let storedData: Secret?

    init(name: String, provider: String, _ credential: Credential?) {
        self.name = name
        self.provider = provider
        self.identity = credential?.identity
        self.storedData = credential?.applicationData
    }

    /// The application's last data in the session; nil for none.
    /// - Throws: ``/AuthFlow/AuthError`` with `session_data_unusable`.
    public func data<Value: SessionData>(_ type: Value.Type) throws -> Value? {
        try StoredSessionData.decode(type, storedData)
    }
}
