import AuthFlowCredentials
public import AuthFlowOAuth

/// The result of a sign-out.
public struct SignOut: Sendable {
    /// The outcome of one step of a sign-out.
    public enum Outcome: Sendable, Equatable {
        /// The step was completed.
        case done
        /// The step was not requested, or there was nothing to do.
        case nothingToDo
        /// The provider does not support the step, or the step is not configured; the reason is a sentence.
        case unsupported(String)
        /// The step was attempted and failed.
        case failed(AuthError)

        /// The combined outcome of several steps: the outcome of the first incomplete step, if any.
        package static func combining(_ outcomes: [Outcome]) -> Outcome {
            outcomes.first { ![.done, .nothingToDo].contains($0) } ?? outcomes.first { $0 == .done } ?? .nothingToDo
        }

        /// Adds the outcome of a revocation to the error of a sign-out that failed later or in part, because no later sign-out finds the removed tokens.
        package func added(to error: any Error) -> any Error {
            guard let error = error as? AuthError else { return error }
            let sentence: String
            switch self {
            case .nothingToDo: return error
            case .done: sentence = "The tokens that were removed have been revoked."
            case .unsupported(let reason): sentence = "The tokens that were removed were not revoked: \(reason)"
            case .failed(let cause): sentence = "The tokens that were removed could not be revoked: \(cause.message)"
            }
            return error.withMessage("\(error.message) \(sentence)", because: error)
        }

        /// Compares two outcomes. Failures are equal when their codes are equal.
        public static func == (left: Outcome, right: Outcome) -> Bool {
            switch (left, right) {
            case (.done, .done), (.nothingToDo, .nothingToDo): true
            case (.unsupported(let left), .unsupported(let right)): left == right
            case (.failed(let left), .failed(let right)): left.code == right.code
            default: false
            }
        }
    }

    /// The credential that was removed, or the first of several; nil when no user was signed in. Its access token may remain valid unless revoked.
    public let credential: Credential?

    /// Whether the tokens were revoked at the provider (RFC 7009). Unrevoked tokens remain valid until they expire.
    public let revocation: Outcome

    /// Whether the user's session at the provider was ended (RP-Initiated Logout). If not, the next sign-in may complete
    /// without a password.
    public let endSession: Outcome

    package init(credential: Credential?, revocation: Outcome, endSession: Outcome) {
        self.credential = credential
        self.revocation = revocation
        self.endSession = endSession
    }
}

extension SignOut: CustomStringConvertible {
    /// A line for a terminal: the user's display name, which may be an e-mail address, and the outcomes.
    public var description: String {
        guard let credential else { return "No user was signed in" }
        let tokens =
            switch revocation {
            case .done: "the tokens were revoked"
            case .nothingToDo: "no tokens were revoked"
            case .unsupported(let reason): "the tokens were not revoked: \(reason)"
            case .failed(let error): "the tokens could not be revoked: \(error.message)"
            }
        let session =
            switch endSession {
            case .done: "; the session at the provider has ended"
            case .nothingToDo: ""
            case .unsupported(let reason): "; the session at the provider continues: \(reason)"
            case .failed(let error): "; the session at the provider may remain active: \(error.message)"
            }
        return "Signed out \(credential.displayName); \(tokens)\(session)"
    }
}

extension AuthClient {
    /// The timeout for the redirect from the provider's sign-out page.
    private static let postLogoutRedirectTimeout = Duration.seconds(30)

    /// Signs out: removes the stored tokens, revokes them at the provider, and optionally ends the user's session at the
    /// provider through the user agent.
    ///
    /// Only the account in the options, by default the current account, is signed out. If other accounts are signed in, one of them becomes the
    /// current account.
    ///
    /// The credential is removed regardless of the provider's response. The last valid tokens are revoked: a refresh in progress, here or
    /// in another process, completes first, and its tokens are not returned to callers.
    ///
    /// Without a user agent, end the session with ``OAuthClient/endSessionRequest(for:)`` and the credential in the result.
    /// - Parameters:
    ///   - revokingTokens: Whether to revoke the tokens; default: true.
    ///   - endingSession: Whether to show the provider's sign-out page; default: false. It requires a
    ///     ``ClientRegistration/Values/postLogoutRedirectURI`` that the user agent can receive: without it, ``SignOut/endSession`` is
    ///     `unsupported`. The timeout for its redirect is at most 30 seconds.
    /// - Throws: ``AuthError`` with `storage_failed` or `credential_unusable` when the credential could not be removed; `CancellationError`.
    public func signOut(revokingTokens: Bool = true, endingSession: Bool = false) async throws -> SignOut {
        let reporter = reporter()
        let (removed, revocation) = try await credentials.unfinished.finish {
            [self] () -> (Credential?, SignOut.Outcome) in
            let all = try await all()
            // Run concurrently, so that neither a record locked by another process nor an unresponsive provider delays the others.
            let ended = await all.concurrentMap { await self.end($0, revokesTokens: revokingTokens, reporter) }
            let revocation = SignOut.Outcome.combining(ended.map(\.revocation))
            if let error = ended.lazy.compactMap(\.error).first { throw revocation.added(to: error) }
            return (ended.lazy.compactMap(\.credential).first, revocation)
        }
        guard let removed else { return SignOut(credential: nil, revocation: .nothingToDo, endSession: .nothingToDo) }
        let ended = try await outcome(of: .endSession, isAsked: endingSession, reporter) {
            try await endSession(of: removed, reporter)
        }
        return SignOut(credential: removed, revocation: revocation, endSession: ended)
    }

    /// The removed credential, the outcome of its revocation, and the error of the store, which may have removed the credential nevertheless.
    private struct Ended: Sendable {
        var credential: Credential?
        var revocation = SignOut.Outcome.nothingToDo
        var error: (any Error)?
    }

    /// Removes a credential and then revokes its tokens, because only the removed credential is known to be the latest. A crash in between
    /// leaves tokens that are no longer stored but remain valid until they expire.
    private func end(_ managed: ManagedCredential, revokesTokens: Bool, _ reporter: FlowReporter) async -> Ended {
        var ended = Ended()
        var found: Credential?
        // If the store cannot record this, the sign-out still removes the tokens.
        if revokesTokens { try? await managed.revokeLateTokens() }
        do {
            ended.credential = try await managed.remove({ found = $0.credential })?.credential
        } catch {
            ended.error = error
            // If the store has removed the record although it reports a failure, no later sign-out would find the tokens.
            guard revokesTokens, let found,
                let isPresent = try? await managed.hasTokens(of: found.account), !isPresent
            else { return ended }
            ended.credential = found
        }
        guard let credential = ended.credential else { return ended }
        do {
            let hasTokens =
                client.adapter is any TokenRevoking || !credential.revocableTokens(at: client.host.now()).isEmpty
            ended.revocation = try await outcome(of: .revocation, isAsked: revokesTokens && hasTokens, reporter) {
                try await client.revoke(credential)
            }
        } catch {
            ended.error = ended.error ?? error
        }
        return ended
    }

    /// Checks that the user agent can receive the post-logout redirect, without showing the page.
    /// - Throws: The error with which the sign-out would fail.
    package func requireUserAgentForSignOut(redirectingTo redirectURI: RedirectURI) async throws {
        let userAgent = try userAgentForSignOut()
        let expected = redirectOptionsForSignOut(redirectURI, state: client.host.randomToken(), FlowReporter())
        try await userAgent.withRedirectSession(expected) { _ in }
    }

    private func userAgentForSignOut() throws -> any UserAgent {
        for case .userAgent(let userAgent) in methods.methods { return userAgent }
        throw methods.skipped.first { $0.flow == .authorizationCode }?.reason
            ?? AuthError(.unsupported, "This client has no user agent that can show the provider's sign-out page.")
    }

    private func redirectOptionsForSignOut(
        _ redirectURI: RedirectURI,
        state: String,
        _ reporter: FlowReporter
    ) -> RedirectOptions {
        RedirectOptions(
            purpose: .signOut,
            redirectURIs: [redirectURI],
            state: Secret(state),
            reporter: reporter,
            clock: client.host.clock
        )
    }

    private func endSession(of credential: Credential, _ reporter: FlowReporter) async throws {
        let session = try await client.endSessionEndpoint(for: credential)
        let userAgent = try userAgentForSignOut()
        let state = client.host.randomToken()
        let expected = redirectOptionsForSignOut(session.redirectURI, state: state, reporter)
        let timeout = min(options.timeout, Self.postLogoutRedirectTimeout)
        try await withDeadline(timeout, clock: client.host.clock) {
            AuthError(
                .timedOut,
                "The provider's sign-out page did not redirect back within \(Int(timeout.seconds)) s, so the session there may not have ended.\(expected.ignoredResponseReason.advice)"
            )
        } _: { [pendingRedirects] in
            try await userAgent.withRedirectSession(expected) { redirectSession in
                let request = try await session.request(redirectSession.redirectURI, state)
                try request.check(try await pendingRedirects.visit(request.url, in: redirectSession, expected))
            }
        }
    }

    /// Removes every stored credential of this client, including unreadable ones; with ``Options/account``, only that account. For a
    /// machine-to-machine client, these are the tokens that it requests with its current scopes, resources and parameters. No request is sent to the
    /// provider, where the tokens and the session remain valid. Only a refresh that completes after it has lost its lease may revoke its new tokens.
    /// - Parameter discardingUnreadable: Whether a client with ``Options/account`` also removes a record that cannot be read, including all accounts
    ///   in it; default: no.
    /// - Returns: Whether there was a credential.
    /// - Throws: ``AuthError`` with `storage_failed`; also `credential_unusable` for a record that cannot be decrypted and is not discarded.
    @discardableResult
    public func signOutLocally(discardingUnreadable: Bool = false) async throws -> Bool {
        var hasCredential = false
        try await all().attemptEach {
            if try await $0.clear(discardingUnreadable: discardingUnreadable) { hasCredential = true }
        }
        return hasCredential
    }

    private func outcome(
        of step: FlowEvent.Step,
        isAsked: Bool,
        _ reporter: FlowReporter,
        _ body: () async throws -> Void
    ) async throws -> SignOut.Outcome {
        guard isAsked else { return .nothingToDo }
        do {
            try await reporter.step(step, body)
            return .done
        } catch let error as AuthError where error.code == .unsupported {
            return .unsupported(error.message)
        } catch let error as AuthError {
            return .failed(error)
        }
    }
}
