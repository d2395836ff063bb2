/// What a sign-out has come to.
public struct SignOut: Sendable {
    /// What became of one part of it.
    public enum Outcome: Sendable {
        /// It is done.
        case done
        /// It was not asked for, or there was nothing to do.
        case nothingToDo
        /// The provider cannot do it, or it is not configured; the reason is a sentence.
        case unsupported(String)
        /// It was tried and failed.
        case failed(AuthError)
    }

    /// Whose credential was forgotten; nil when nobody was signed in.
    public let identity: Identity?

    /// Whether the tokens were withdrawn at the provider (RFC 7009). When they were not they go on until they end.
    public let revocation: Outcome

    /// Whether the person's session at the provider was ended (RP-Initiated Logout). When it was not, the next sign-in may
    /// ask for nothing.
    public let endSession: Outcome
}

extension AuthClient {
    /// Signs out: withdraws the tokens at the provider, forgets them on this machine, and if asked ends the person's session
    /// at the provider through the user agent.
    ///
    /// The credential is forgotten whatever the provider says.
    /// - Parameters:
    ///   - revokingTokens: Whether to withdraw the tokens.
    ///   - endingSession: Whether to show the provider's sign-out page.
    /// - Throws: ``AuthError`` with `storage_failed` when the credential could not be forgotten; `CancellationError`.
    public func signOut(revokingTokens: Bool = true, endingSession: Bool = false) async throws -> SignOut {
        let reporter = reporter()
        guard let credential = try await credential() else {
            _ = try await keeper.remove()
            return SignOut(identity: nil, revocation: .nothingToDo, endSession: .nothingToDo)
        }
        // First, because afterwards the tokens are gone. A crash in between leaves tokens that no longer work, which the
        // next use finds out.
        let revocation = try await outcome(of: .revocation, isAsked: revokingTokens, reporter) {
            try await requireIssuer(of: credential)
            try await engine.provider.revoke(credential.tokens, in: engine.context)
        }
        _ = try await keeper.remove()
        let endSession = try await outcome(of: .endSession, isAsked: endingSession, reporter) {
            try await requireIssuer(of: credential)
            let flow = EndSessionFlow(engine: engine, reporter: reporter)
            let timeout = engine.settings.timeout
            let fault = try await withDeadline(timeout, clock: engine.host.clock) {
                AuthError(.timedOut, "The provider's sign-out page did not come back within \(Int(timeout.seconds)) s.")
            } _: {
                try await flow.run(credential, with: self.userAgent)
            }
            if let fault {
                throw AuthError(
                    .invalidCallback,
                    "It is not certain that the session at the provider was ended: \(fault)."
                )
            }
        }
        return SignOut(identity: credential.identity, revocation: revocation, endSession: endSession)
    }

    /// Forgets every credential of this client on this machine, also those that cannot be read any more. The provider is not
    /// asked: tokens and session go on there.
    /// - Returns: Whether there was anything.
    /// - Throws: ``AuthError`` with `storage_failed`.
    @discardableResult
    public func signOutLocally() async throws -> Bool {
        try await keeper.clear()
    }

    /// A token never goes to another provider than the one that issued it, whatever became of the configuration.
    private func requireIssuer(of credential: Credential) async throws {
        let issuer = try await engine.metadata().issuer
        guard issuer == credential.identity.issuer else {
            throw AuthError(
                .unsupported,
                "The person was signed in at \(credential.identity.issuer), and the configuration now says \(issuer)."
            )
        }
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
