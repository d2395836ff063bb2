import AuthFlow
import AuthFlowEssentials

/// Determines which sessions a logout token ends, among those that match it (OpenID Connect Back-Channel Logout 1.0
/// section 2.7). It performs no I/O.
struct ProviderLogout: Sendable {
    let token: LogoutToken
    /// Whether the token identifier (`jti`) is used for the first time.
    let isFirst: Bool
    /// The maximum difference between this machine's clock and the provider's clock.
    let clockLeeway: Duration

    /// Whether the token ends a session.
    ///
    /// A delayed token ends the sessions that existed when it was issued. If the provider resends a token after a failed attempt, it ends the
    /// same sessions; if an attacker replays a token, it does not end sessions that started later.
    func ends(_ session: TaggedCredential) -> Bool {
        guard let credential = session.credential else { return isFirst }
        let start = credential.sessionStart
        guard isFirst else { return start < token.issuedAt }
        // The start time may have been taken from this machine's clock, which may be ahead of the provider's. A provider may reuse the identifier for a later sign-in.
        let sessionID = credential.authentication?.sessionID
        let isOfSession = token.sessionID.map { sessionID?.isIdentical(to: $0) == true } ?? false
        return start <= (isOfSession ? token.issuedAt + clockLeeway.seconds : token.issuedAt)
    }

    /// Whether the token is rejected as a replay: it has already been used, and ends none of the sessions that were found.
    func isReplay(ending ended: [TaggedCredential], of found: [TaggedCredential]) -> Bool {
        !isFirst && !found.isEmpty && ended.isEmpty
    }
}

extension LogoutToken {
    /// Whether a session belongs to the user that the token identifies. A session that this process cannot read is
    /// included, because another process may be able to read it.
    func isForUser(of session: TaggedCredential) -> Bool {
        guard let subject, let credential = session.credential else { return true }
        return credential.identity?.subject.isIdentical(to: subject) == true
    }
}

extension Credential {
    /// Whether the tokens are revoked when the provider ends the session. Section 2.7: "refresh tokens issued without the offline_access property
    /// ... SHOULD be revoked", and those issued with it "normally SHOULD NOT".
    var endsWithProviderSession: Bool { !tokens.scopes.contains("offline_access") }

    /// The start of the session, according to the provider's clock if possible. A refresh may have replaced the ID Token with a later one, and
    /// this machine's clock may be ahead, so the earlier of the two times is used.
    fileprivate var sessionStart: Date { min(signedInAt, tokens.verifiedIDToken?.issuedAt ?? signedInAt) }
}

/// The subject of a logout record. A sign-in in progress looks up a user, a session at the provider, or both. For a logout with both, one
/// record applies to that session, and another to the user's sign-ins that have no session identifier, because they may belong to that session.
enum LogoutRecordSubject: Hashable, Sendable {
    case user(String)
    case session(String)
    case userInSession(String, String)
    case userInSomeSession(String)
    /// The identifier (`jti`) of a logout token that has ended its sessions.
    case token(String)

    /// The subjects of the records that a logout stores.
    static func stored(by token: LogoutToken) -> [Self] {
        switch (token.subject, token.sessionID) {
        case (let subject?, nil): [.user(subject)]
        case (nil, let session?): [.session(session)]
        case (let subject?, let session?): [.userInSession(subject, session), .userInSomeSession(subject)]
        case (nil, nil): []
        }
    }

    /// The subjects of the records that a sign-in looks up.
    static func concerning(_ subject: String, session: String?) -> [Self] {
        guard let session else { return [.user(subject), .userInSomeSession(subject)] }
        return [.user(subject), .session(session), .userInSession(subject, session)]
    }

    /// The values that identify the record.
    var parts: [String] {
        switch self {
        case .user(let subject): ["user", subject]
        case .session(let identifier): ["session", identifier]
        case .userInSession(let subject, let identifier): ["user in session", subject, identifier]
        case .userInSomeSession(let subject): ["user in some session", subject]
        case .token(let identifier): ["token", identifier]
        }
    }

    /// Whether a logout at `time`, in seconds since 1970, ended the session of a sign-in: true unless the provider
    /// issued the sign-in's ID Token later.
    static func hasEnded(_ credential: Credential, at time: TimeInterval) -> Bool {
        time >= (credential.tokens.verifiedIDToken?.issuedAt ?? credential.signedInAt).timeIntervalSince1970
    }
}
