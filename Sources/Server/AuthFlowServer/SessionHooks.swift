public import AuthFlow

/// The application's hooks into the lifecycle of a session. Each function is awaited, but no longer than its timeout, if any.
public struct SessionHooks: Sendable {
    /// Accepts or rejects a sign-in before a session is created: create the user here, look up roles, or reject the user.
    ///
    /// If it throws an error or rejects the sign-in, no session is created, and the browser's previous session
    /// continues. The new tokens are revoked, unless the previous session belongs to the same user: its tokens may
    /// belong to the same grant. Default: every user is accepted.
    public var onSignIn: @Sendable (NewSignIn) async throws -> SignInDecision = { _ in .accept }

    /// Runs when a user signs out with ``SessionServerOptions/logoutPath``, before the session ends. It cannot prevent
    /// the sign-out. If the store fails afterward, the user can try again, and the hook runs again. Default: does
    /// nothing.
    public var onSignOut: @Sendable (Session) async -> Void = { _ in }

    /// Runs after a session has ended, for any reason other than expiry, in the process that ended it or detected its end.
    ///
    /// Make it idempotent: it normally runs once, but does not run if the process is killed or the store's response is
    /// lost at that moment, and runs twice if the end of a session could not be stored.
    /// ``SessionServer/drain(within:)`` waits for it. Default: does nothing.
    public var onEnd: @Sendable (SessionEnd) async -> Void = { _ in }

    /// The timeout of ``onSignIn`` and ``onSignOut``, after which their tasks are cancelled and no longer awaited; default: 30 seconds.
    /// An ``onSignIn`` that times out is treated like one that throws an error.
    public var timeout = Duration.seconds(30)

    /// Creates hooks that do nothing.
    public init() {}
}

extension SessionHooks {
    /// Runs a hook, and stops waiting for it after the timeout. A hook that ignores its cancellation continues to run, but its result is discarded.
    /// - Throws: ``/AuthFlow/AuthError`` with `timed_out`, or any error that the hook throws.
    func run<Value: Sendable>(
        clock: any Clock<Duration>,
        _ hook: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let running = Task { try await hook() }
        let result = SharedTask { try await running.value }
        return try await withDeadline(timeout, clock: clock) {
            AuthError(.timedOut, "The application's hook timed out.")
        } _: {
            try await withTaskCancellationHandler {
                try await result.value()
            } onCancel: {
                running.cancel()
            }
        }
    }
}

/// A completed sign-in whose session does not exist yet.
public struct NewSignIn: Sendable {
    /// The name of the provider; empty if the server was created with a client instead of providers.
    public let provider: String

    /// The tokens and the user.
    public let credential: Credential

    /// The path and query of the page to which the user returns.
    public let returnPath: String

    /// The browser's previous session, at this or another provider; nil if there was none, or if
    /// ``SessionSignInOptions/linksAccounts`` was not set. It ends when the sign-in is accepted.
    public let previous: KnownSession?

    /// The user; nil if the provider does not identify the user.
    public var identity: Identity? { credential.identity }
}

/// The application's decision about a sign-in.
public struct SignInDecision: Sendable {
    enum Outcome: Sendable {
        case accepted(data: Secret?, returnPath: String?)
        case refused(String)
        case redirected(String)
    }

    let outcome: Outcome

    /// A session is created, and the user continues to the requested page.
    public static let accept = Self(outcome: .accepted(data: nil, returnPath: nil))

    /// A session is created, and the user first continues to another page, such as a page for new users.
    /// - Parameter path: The path and query of a page of the application.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration`.
    public static func accept(returningTo path: String) throws -> Self {
        Self(outcome: .accepted(data: nil, returnPath: try checked(path)))
    }

    /// A session that contains the application's data is created.
    /// - Parameters:
    ///   - data: The data.
    ///   - path: The path and query of a page of the application; default: the requested page.
    /// - Throws: ``/AuthFlow/AuthError`` with `session_data_unusable` or `invalid_configuration`.
    public static func accept(_ data: some SessionData, returningTo path: String? = nil) throws -> Self {
        Self(outcome: .accepted(data: try StoredSessionData.encode(data), returnPath: try path.map(checked)))
    }

    /// No session is created.
    /// - Parameter message: The message for the user.
    public static func refuse(_ message: String) -> Self { Self(outcome: .refused(message)) }

    /// No session is created, and the user is redirected to another URL.
    /// - Parameter url: Any URL. The URL must not be taken from the request: RFC 9700 section 4.11, "open redirector".
    public static func redirect(to url: String) -> Self { Self(outcome: .redirected(url)) }

    private static func checked(_ path: String) throws -> String {
        guard let address = ReturnAddress(path, prefixes: nil) else {
            throw AuthError(.invalidConfiguration, "The page to return to must be a path of the application.")
        }
        return address.path
    }
}

/// The end of a session.
public struct SessionEnd: Sendable {
    /// The reason why a session ended, from an extensible set.
    public struct Reason: RawRepresentable, Sendable, Hashable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The user signed out of this session or of all sessions, or ended this session from another session.
        public static let signedOut = Self(rawValue: "signed_out")
        /// A new session replaced this session in the browser.
        public static let replaced = Self(rawValue: "replaced")
        /// The user has more sessions than ``SessionServerOptions/sessionsPerUser``.
        public static let limit = Self(rawValue: "limit")
        /// The provider requested the logout (OpenID Connect Back-Channel Logout 1.0, Front-Channel Logout 1.0).
        public static let providerLogout = Self(rawValue: "provider_logout")
        /// The provider rejected the refresh of the tokens.
        public static let refreshRefused = Self(rawValue: "refresh_refused")
    }

    /// The session.
    public let session: KnownSession

    /// The reason.
    public let reason: Reason
}

/// A description of a session, without its identifier and tokens.
public struct KnownSession: Sendable {
    /// The name of the session, which is not secret: ``Session/name``.
    public let name: String

    /// The name of the provider; empty if the server was created with a client instead of providers.
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

    /// Returns the application's most recent data in the session, or nil if there is none.
    /// - Throws: ``/AuthFlow/AuthError`` with `session_data_unusable`.
    public func data<Value: SessionData>(_ type: Value.Type) throws -> Value? {
        try StoredSessionData.decode(type, storedData)
    }
}
