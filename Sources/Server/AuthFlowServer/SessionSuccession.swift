import AuthFlow
import AuthFlowEssentials

/// The decisions at the end of a sign-in about the new session and the browser's previous sessions: the data that the
/// new session takes over from them, and the tokens to revoke. This type performs no I/O: ``SessionServer`` reads the
/// sessions and performs the actions.
struct SessionSuccession: Sendable {
    /// A session that the browser had when the sign-in started, or has now.
    struct Predecessor: Sendable {
        let session: KnownSession
        let credential: Credential
        let key: RecordKey
    }

    /// The new session of a sign-in that the application has accepted.
    struct Start: Sendable {
        /// The credential to store, with the application's data.
        let credential: Credential
        /// The key of the same user's previous session, and the application's data that was carried over from that session.
        fileprivate let carried: (key: RecordKey, data: Secret?)?
    }

    private let pending: PendingSignIn
    private let provider: String
    private let credential: Credential
    private let predecessors: [Predecessor]

    /// Prepares the decisions for one sign-in.
    /// - Parameters:
    ///   - provider: The name of the provider.
    ///   - credential: The credential that the provider has issued.
    ///   - predecessors: The browser's previous sessions that have not ended.
    init(_ pending: PendingSignIn, at provider: String, _ credential: Credential, after predecessors: [Predecessor]) {
        self.pending = pending
        self.provider = provider
        self.credential = credential
        self.predecessors = predecessors
    }

    /// The predecessor of the same user. Two users without an identity cannot be distinguished.
    private var continued: Predecessor? {
        predecessors.first { $0.credential.identity != nil && $0.credential.account == credential.account }
    }

    /// Whether the new tokens are revoked if the sign-in is rejected. They are not revoked if a session of the same
    /// user at the same provider continues, because its tokens may belong to the same grant.
    var revokesRejectedTokens: Bool {
        !predecessors.contains {
            $0.credential.identity != nil && !revokes($0.credential, at: $0.session.provider)
        }
    }

    /// Checks that the provider has authenticated the user as the page requires.
    /// - Parameter clockLeeway: The allowed clock skew between this machine and the provider.
    /// - Throws: ``/AuthFlow/AuthError`` with `insufficient_user_authentication`.
    func checkAuthentication(at now: Date, clockLeeway: Duration) throws(AuthError) {
        guard let requirement = pending.requirement else { return }
        guard requirement.isMet(by: credential.authentication, at: now, clockLeeway: clockLeeway) else {
            throw AuthError(.insufficientUserAuthentication, "The provider did not authenticate the user as required.")
        }
    }

    /// The sign-in that is passed to the application, which accepts or rejects it. If accounts are linked, it identifies the
    /// session in which the user requested the linking, and never a session that the browser started in the meantime.
    var proposal: NewSignIn {
        NewSignIn(
            provider: provider,
            credential: credential,
            returnPath: pending.returnPath,
            previous: pending.linksAccounts
                ? predecessors.first { $0.key.name == pending.previous?.name }?.session : nil
        )
    }

    /// The session of an accepted sign-in. The data of a previous session is carried over only if that session belongs to the same user.
    /// - Parameter data: The application's data; nil to keep the data of the previous session.
    /// - Throws: ``/AuthFlow/AuthError`` with `session_data_unusable`.
    func start(with data: Secret?) throws(AuthError) -> Start {
        let carried = data == nil ? continued?.credential.applicationData : nil
        var credential = credential
        credential.applicationData = data ?? carried
        guard credential.hasStorableSize else {
            throw AuthError(
                .sessionDataUnusable,
                "The session cannot be stored with this data, because it would be too large."
            )
        }
        return Start(credential: credential, carried: continued.map { ($0.key, carried) })
    }

    /// Whether the tokens of a predecessor are revoked when the new session replaces it. Tokens of the same user may belong to the same grant,
    /// which is still in use. The accounts are compared, not the claims, which may have changed in the meantime.
    func revokes(_ replaced: Credential, at other: String) -> Bool {
        replaced.account != credential.account || other != provider
    }

    /// Whether the tokens of a predecessor's refresh are also revoked if the refresh completes after the predecessor was replaced.
    func revokesLateTokens(of key: RecordKey, at other: String) -> Bool {
        predecessors.first { $0.key == key }.map { revokes($0.credential, at: other) } ?? false
    }
}

extension SessionSuccession.Start {
    /// Whether a request with the replaced session changed the application's data during the sign-in, so that the new session must take over
    /// the change. Data that `onSignIn` has set is not overwritten.
    func takesOver(_ replaced: TaggedCredential) -> Bool {
        guard let carried, carried.key == replaced.key, let last = replaced.credential else { return false }
        return last.applicationData != carried.data && credential.applicationData == carried.data
    }
}

extension Collection<TaggedCredential> {
    /// The least recently used sessions of a user who has more sessions than a limit. All of them were last used before the new session, so of two
    /// simultaneous sign-ins, only one can end the other's session.
    func beyond(limit: Int, after new: RecordKey) -> [RecordKey] {
        guard count > limit, let newest = first(where: { $0.key == new }) else { return [] }
        return filter { ($0.lastUse, $0.key.name) < (newest.lastUse, new.name) }
            .sorted { $0.lastUse < $1.lastUse }
            .prefix(count - limit)
            .map(\.key)
    }
}
