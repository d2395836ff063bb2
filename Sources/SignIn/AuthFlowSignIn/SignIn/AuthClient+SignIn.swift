public import AuthFlowCredentials
public import AuthFlowOAuth
import Synchronization

/// A sign-in, by any method.
private struct SignInAttempt: Sendable {
    let policy: AccountPolicy
    let options: AuthorizationOptions
    /// Whether the user agent may use a session that another app has shared.
    let usesSharedSessions: Bool
    let reporter: FlowReporter
    /// Called before the user is shown anything; if it throws an error, nothing is shown.
    var willShow: @Sendable () async throws -> Void
}

extension AuthClient {
    /// Signs a user in: shows the provider's page or a code for another device, waits, checks the result, and stores the
    /// credential. Concurrent calls are not combined, unlike refreshes: each call shows a page.
    /// - Parameters:
    ///   - policy: The policy for a sign-in by a user other than the one who is already signed in; default: reject it.
    ///   - options: The options of the authorization request; default: the registration's. A flow that does not support them is not used.
    /// - Returns: The credential, with the error if it could not be stored.
    /// - Throws: ``AuthError``, with `storage_failed` before any page is shown when the store cannot be used;
    ///   `CancellationError` when the task is cancelled. If the redirect, whose code can be used only once, has already arrived, or a token without
    ///   a user has been requested, the sign-in completes nevertheless: the credential is stored, and ``states()`` reports the sign-in.
    public func signIn(
        _ policy: AccountPolicy = .sameAccount,
        options: AuthorizationOptions = AuthorizationOptions()
    ) async throws -> SignIn {
        try await signIn(policy, options: options, usesSharedSessions: policy == .sameAccount, willShow: {})
    }

    /// - Parameters:
    ///   - usesSharedSessions: Whether the user agent may use a session that another app has shared.
    ///   - willShow: Called before the user is shown anything; if it throws an error, nothing is shown.
    package func signIn(
        _ policy: AccountPolicy,
        options: AuthorizationOptions,
        usesSharedSessions: Bool,
        willShow: @escaping @Sendable () async throws -> Void
    ) async throws -> SignIn {
        let options = requested(options)
        // If the result could not be stored, the sign-in fails before the user is prompted.
        _ = try await current().probe()
        if policy != .replaceAccount, !isWithoutUser, !client.identifiesUsers {
            try await current().requireNoUnknownUser()
        }
        let reporter = reporter()
        // A shared credential is used only for the same account, because choosing another account requires the provider's
        // account chooser.
        if policy == .sameAccount, let signIn = try await signInByExchange(options, reporter) { return signIn }
        let last = try methods.requireLast()
        let attempt = SignInAttempt(
            policy: policy,
            options: options,
            usesSharedSessions: usesSharedSessions,
            reporter: reporter,
            willShow: willShow
        )
        for (flow, reason) in methods.skipped { reportSkipped(flow.rawValue, reason, reporter) }
        for method in methods.methods.dropLast() {
            let hasBegun = Atomic(false)
            var attempt = attempt
            attempt.willShow = {
                hasBegun.store(true, ordering: .relaxed)
                try await willShow()
            }
            do {
                return try await signIn(by: method, attempt)
            } catch let error as AuthError where Self.mayTryAnother(error) && !hasBegun.load(ordering: .relaxed) {
                reportSkipped(method.flow.rawValue, error, reporter)
            }
        }
        return try await signIn(by: last, attempt)
    }

    private func signIn(by method: SignInMethod, _ attempt: SignInAttempt) async throws -> SignIn {
        switch method {
        case .userAgent(let userAgent): try await signIn(with: userAgent, attempt)
        case .device(let presenter): try await signIn(with: presenter, attempt)
        case .clientCredentials, .jwtBearer: try await signInWithoutUser(by: method, attempt)
        }
    }

    private func signIn(with userAgent: any UserAgent, _ attempt: SignInAttempt) async throws -> SignIn {
        let timeout = options.timeout
        let hasResponse = Atomic(false)
        let ignoredResponseReason = IgnoredResponseReason()
        let urlLifetime = Atomic(Double.infinity)
        return try await withDeadline(timeout, clock: client.host.clock) {
            // Once the redirect has arrived, the tokens are stored even after the timeout, so allow more time.
            hasResponse.load(ordering: .relaxed) ? timeout : nil
        } orThrow: {
            let advice = Self.advice(urlLifetime: urlLifetime.load(ordering: .relaxed), timeout: timeout)
            return AuthError(
                .timedOut,
                "The sign-in was not finished within \(timeout.formattedSeconds).\(ignoredResponseReason.advice)\(advice) Start again when ready."
            )
        } _: { [self] in
            let flow = AuthorizationCodeSignIn(
                client: client,
                reporter: attempt.reporter,
                options: attempt.options,
                usesSharedSessions: attempt.usesSharedSessions,
                pendingRedirects: pendingRedirects,
                unfinished: credentials.unfinished,
                ignoredResponseReason: ignoredResponseReason,
                willShow: attempt.willShow,
                didPush: { urlLifetime.store($0, ordering: .relaxed) },
                didRespond: { hasResponse.store(true, ordering: .relaxed) }
            )
            return try await flow.run(with: userAgent) { credential, response in
                try await self.save(credential, response.parameters, attempt.policy, attempt.reporter)
            }
        }
    }

    private func signIn(with presenter: any DevicePresenter, _ attempt: SignInAttempt) async throws -> SignIn {
        let flow = DeviceSignIn(client: client, reporter: attempt.reporter, unfinished: credentials.unfinished)
        let code = try await flow.begin(attempt.options, maximumWait: presenter.maximumWait)
        try await attempt.willShow()
        return try await presenter.present(code) {
            try await flow.finish(code) { credential in
                try await self.save(credential, [:], attempt.policy, attempt.reporter)
            }
        }
    }

    private func signInWithoutUser(by method: SignInMethod, _ attempt: SignInAttempt) async throws -> SignIn {
        // The client's own token would replace the user's tokens, because the record of a client with several methods
        // belongs to the user.
        guard isWithoutUser else {
            throw AuthError(
                .invalidConfiguration,
                "The flow \(method.flow.rawValue) cannot be combined with another flow. Use a separate client."
            )
        }
        let ignored = client.parametersIgnoredWithoutUser(attempt.options, resource: options.resource)
        guard ignored.isEmpty else {
            throw AuthError(
                .unsupported,
                "The flow \(method.flow.rawValue) does not support options for one request (\(ignored.joined(separator: ", "))). Set them in the client's registration."
            )
        }
        let owner = try await method.owner?()
        guard let renewal = method.renewal(of: owner) else { preconditionFailure("The method signs a user in.") }
        // The owner may change during the request, in which case the token does not belong to the new owner.
        let managed = self.managed(for: owner, method)
        // The token is stored even if no task waits for it anymore, because nothing would revoke it.
        return try await credentials.unfinished.finish { [self] in
            let credential = try await attempt.reporter.step(.machineToMachineGrant) {
                try await renewal(client, options.resource)
            }
            // Without a user there is only one account, and a new token replaces the old one.
            return try await save(credential, in: managed, [:], .replaceAccount, attempt.reporter)
        }
    }

    /// The options of a sign-in, which requests the resource of this client even if the registration does not list it: the credential is stored and
    /// refreshed for that resource.
    private func requested(_ options: AuthorizationOptions) -> AuthorizationOptions {
        guard options.resources == nil, let resource = self.options.resource,
            !registration.resources.contains(where: { $0.isIdentical(to: resource) })
        else { return options }
        var options = options
        options.resources = [resource]
        return options
    }

    /// Whether to try the next sign-in method after one has failed with this error.
    private static func mayTryAnother(_ error: AuthError) -> Bool {
        [.unsupported, .userAgentFailed, .noUserAgent, .portBusy].contains(error.code)
    }

    func reportSkipped(_ name: String, _ reason: AuthError, _ reporter: FlowReporter) {
        reporter.report(.flowChoice, details: ["passed_over": name, "reason": reason.description])
    }

    /// A sentence for a timeout message, preceded by a space; empty if the server accepted the URL until the timeout.
    package static func advice(urlLifetime: Double, timeout: Duration) -> String {
        guard urlLifetime < timeout.seconds else { return "" }
        return
            " The provider accepted the URL for only \(Duration.seconds(urlLifetime).formattedSeconds), because the request was pushed (\"par\")."
    }

    /// Starts a sign-in whose page the app shows itself: open the URL of the request, and pass the redirect to
    /// ``finishSignIn(_:with:policy:)-(_,String,_)``, in this process or another. No user agent is used.
    /// - Parameter options: The options of the request; default: the registration's.
    /// - Throws: The same errors as ``OAuthClient/authorizationRequest(_:)``.
    public func beginSignIn(_ options: AuthorizationOptions = AuthorizationOptions()) async throws
        -> AuthorizationRequest
    {
        let reporter = reporter()
        _ = try await reporter.step(.discovery) { try await client.metadata() }
        return try await reporter.step(.authorizationRequest) {
            try await client.authorizationRequest(requested(options))
        }
    }

    /// Finishes a sign-in whose page the app has shown itself, and stores the credential.
    /// - Parameters:
    ///   - request: The request. Each request can be used only once.
    ///   - callback: The complete URL that the provider redirected to.
    ///   - policy: The policy for a sign-in by a user other than the one who is already signed in; default: reject it.
    /// - Throws: ``AuthError``. If the URL does not belong to the request, the request can still be used.
    public func finishSignIn(
        _ request: AuthorizationRequest,
        with callback: String,
        policy: AccountPolicy = .sameAccount
    ) async throws -> SignIn {
        let reporter = reporter()
        return try await credentials.unfinished.finish { [self] in
            let (credential, response) = try await client.exchange(.url(callback), for: request, reporter: reporter)
            return try await save(credential, response.parameters, policy, reporter)
        }
    }

    /// Stores the credential from a sign-in, or retains it in memory.
    /// - Parameter managed: The credential to replace; default: ``current()``.
    package func save(
        _ credential: Credential,
        in managed: ManagedCredential? = nil,
        _ parameters: FormParameters,
        _ policy: AccountPolicy,
        _ reporter: FlowReporter
    ) async throws -> SignIn {
        var signIn = SignIn(credential: credential, authorizationParameters: parameters)
        let managed = if let managed { managed } else { try await current() }
        do {
            do {
                try await managed.save(credential, policy, reporter)
            } catch {
                let failure =
                    error as? AuthError
                    ?? AuthError(.storageFailed, "The credential could not be stored.", underlyingError: error)
                guard !(error is CancellationError), ![.accountMismatch, .outcomeUnknown].contains(failure.code) else {
                    throw error
                }
                try await managed.retainInMemory(credential, policy)
                signIn.storageError = failure
            }
        } catch let error as AuthError where error.code == .accountMismatch {
            // If the user may already be signed in, the tokens may belong to that session, so they are not revoked.
            if (try? await managed.isUnknownAccount(credential.account)) == true {
                await client.revokeRejectedTokens(credential.tokens)
            }
            throw error
        }
        signIn.sharingError = try await share(credential, reporter)
        return signIn
    }

    /// Tries again to store the tokens of a sign-in that could not be stored.
    /// - Returns: Whether these tokens, or the tokens of a later sign-in of the same user, are stored; false if the account policy, which could
    ///   not be applied before, does not allow the account.
    package func storeUnsavedTokens(of signIn: SignIn) async -> Bool {
        guard hasUnfinishedWork, await drain(), let stored = try? await credential() else { return false }
        // All unknown users have the same account.
        return stored.account == signIn.credential.account && stored.signedInAt >= signIn.credential.signedInAt
    }
}
