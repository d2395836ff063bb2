import ArgumentParser
import AuthFlow
import AuthFlowTerminal
import Synchronization

struct LogoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "Revoke the tokens at the provider and remove them from this machine.",
        discussion: """
            The credential is removed regardless of the provider's response. Exit status 9 means that tokens or a session \
            may still be valid at the provider; the output states the reason. 0 means that everything requested was done.
            """
    )

    @OptionGroup var resource: ResourceOptions

    @OptionGroup var options: ProfileOptions

    @Flag(
        help:
            "Send no request, and remove the tokens of the profile, even if they cannot be read, or the profile's secret or key is missing; with --account, only those of that account. A sign-in that several apps share remains stored."
    )
    var local = false

    @Flag(
        help: "End your session at the provider too, on its sign-out page, which requires \"post_logout_redirect_uri\"."
    )
    var browser = false

    func validate() throws {
        try resource.check(options)
        guard !(local && browser) else { throw ValidationError("--local and --browser cannot be combined.") }
        guard !resource.hasAddress || !browser else {
            throw ValidationError("--browser needs a profile, not a URL.")
        }
    }

    func run() async throws {
        UnfinishedClients.note(.signOut)
        if var choice = try resource.choice(options) {
            choice.choice.isForLocalSignOut = local
            let client = try choice.client()
            // A local sign-out also removes a record that cannot be read.
            let isInProgress = (try? await client.hasSignInInProgress()) == true
            if local {
                Terminal.printMessage(
                    try await client.signOutLocally() ? "Signed out on this machine." : "No user was signed in."
                )
            } else {
                try report(try await DelayNotice().during { try await client.signOut() }, of: choice.address)
            }
            if isInProgress {
                Terminal.printMessage(
                    "Another sign-in is in progress, or was interrupted. If it succeeds, its tokens are stored."
                )
            }
            return
        }
        let redirects = TerminalRedirects()
        var choice = options.choice
        choice.isForLocalSignOut = local
        // The tokens are removed before the page is shown.
        let showsPage = Atomic(false)
        let client = try choice.client(observer: { event in
            if event.step == .endSession { showsPage.store(true, ordering: .sequentiallyConsistent) }
            redirects.observer(event)
        })
        // Fails before anything is removed, rather than afterwards.
        if browser, !client.isWithoutUser { try await requireSignOutPage(client) }
        await Self.removeAWSKeys(of: client, options.choice)
        if local {
            // An unreadable record is preserved only if --account is given; an account in the configuration is not sufficient.
            let hadTokens = try await client.signOutLocally(discardingUnreadable: options.account == nil)
            await Self.removeAWSKeys(of: client, options.choice)
            guard hadTokens || options.account == nil else { throw unknownAccount }
            return Terminal.printMessage(hadTokens ? "Signed out on this machine." : absence(client))
        }
        // The sign-out removes the session's record.
        let wasEnded = try await client.isEnded()
        let signOut: SignOut
        do {
            signOut = try await redirects.accepting(for: client) {
                guard browser, !client.isWithoutUser else {
                    return try await DelayNotice().during { try await client.signOut() }
                }
                return try await client.signOut(endingSession: true)
            }
        } catch let error as CancellationError {
            // In a separate task, because the current task is cancelled: the store would not remove anything.
            let choice = options.choice
            await Task { await Self.removeAWSKeys(of: client, choice) }.value
            if showsPage.load(ordering: .sequentiallyConsistent) {
                Terminal.printMessage(
                    "You are signed out on this machine, but your session at the provider may still be active."
                )
            }
            throw error
        }
        await Self.removeAWSKeys(of: client, options.choice)
        if options.account != nil, signOut.credential == nil, !wasEnded { throw unknownAccount }
        guard signOut.credential != nil else {
            Terminal.printMessage(
                wasEnded ? "The session had already ended. Its record was removed from this machine." : absence(client)
            )
            guard browser, wasEnded || !client.isWithoutUser else { return }
            let reason =
                wasEnded
                ? "the stored record of the ended session is not sufficient to sign out there"
                : "no credential is stored with which to sign out there"
            Terminal.printMessage("Your session at the provider may still be active: \(reason).")
            throw ExitStatus.signedOutLocallyOnly
        }
        if !options.quiet, let next = await currentUser(client) {
            Terminal.printMessage("\(next.displayName) is the current account.")
        }
        try report(signOut, tokens: client.tokensWithoutSignIn)
    }

    /// Checks the requirements for the provider's sign-out page: a post-logout redirect URI and a user agent.
    private func requireSignOutPage(_ client: AuthClient) async throws {
        try client.methods.createUserAgents()
        // Without an endpoint, the sign-out reports that, or where the user can sign out.
        let metadata = try? await DelayNotice().during { try await client.client.metadata() }
        try Task.checkCancellation()
        guard metadata == nil || metadata?.endSessionEndpoint != nil else { return }
        guard let redirectURI = client.registration.postLogoutRedirectURI else {
            throw AuthError(
                .invalidConfiguration,
                "--browser requires \"post_logout_redirect_uri\", to which the provider redirects after the sign-out. Nothing was removed."
            )
        }
        do {
            try await client.requireUserAgentForSignOut(redirectingTo: redirectURI)
        } catch let error as AuthError {
            throw AuthError(
                .userAgentFailed,
                "Nothing was removed, because the provider's sign-out page cannot be shown here (\"post_logout_redirect_uri\" \(redirectURI.uri)): \(error.message)",
                underlyingError: error
            )
        }
    }

    private var unknownAccount: AccountNotSignedIn {
        let account = DisplayText.sanitized(options.account ?? "", limit: 80)
        return AccountNotSignedIn(message: "The account \"\(account)\" is not signed in.")
    }

    private func absence(_ client: AuthClient) -> String {
        client.isWithoutUser && !client.hasOwner ? "No tokens were stored." : "No user was signed in."
    }

    private func currentUser(_ client: AuthClient) async -> Identity? {
        guard case .signedIn(let user)? = try? await client.states().first(where: { _ in true }) else { return nil }
        return user
    }

    /// Removes the credentials before the sign-out, which may be interrupted, and after it, because a program may have
    /// obtained new credentials in the meantime.
    private static func removeAWSKeys(of client: AuthClient, _ choice: ProfileChoice) async {
        do {
            try await AWSKeys.remove(try choice.file().profile(choice.profile), client)
        } catch {
            Terminal.printMessage("Warning: AWS credentials may remain in the store: \(ExitStatus.message(for: error))")
        }
    }

    /// - Parameters:
    ///   - resource: The URL of a protected resource; nil for a profile.
    ///   - tokens: A description of the tokens of a profile that does not sign in users; nil for a user.
    private func report(_ signOut: SignOut, of resource: String? = nil, tokens: String? = nil) throws {
        guard let credential = signOut.credential else { return Terminal.printMessage("No user was signed in.") }
        if !options.quiet {
            Terminal.printMessage(
                resource.map { "Signed out of \(Redaction.url($0)) on this machine." }
                    ?? tokens.map { "The \($0), were removed." }
                    ?? "\(credential.displayName) is signed out on this machine."
            )
        }
        let isDone = [
            report(
                signOut.revocation,
                done: "The tokens were revoked.",
                otherwise: "The tokens may remain valid, and signing out again will not revoke them"
            ),
            report(
                signOut.endSession,
                done: "The sign-out on the provider's page was completed.",
                otherwise: "Your session at the provider may still be active"
            ),
        ]
        guard isDone.allSatisfy({ $0 }) else { throw ExitStatus.signedOutLocallyOnly }
    }

    /// - Returns: Whether the step succeeded or was not necessary.
    private func report(_ outcome: SignOut.Outcome, done: String, otherwise: String) -> Bool {
        if let reason = outcome.failureReason {
            Terminal.printMessage("\(otherwise): \(reason)")
            return false
        }
        if case .done = outcome, !options.quiet { Terminal.printMessage(done) }
        return true
    }
}

extension SignOut.Outcome {
    /// The reason why the step was not completed; nil if it was completed or was not necessary.
    var failureReason: String? {
        switch self {
        case .done, .nothingToDo: nil
        case .unsupported(let reason): reason
        case .failed(let error): "\(error)"
        }
    }
}

/// The error for an account that is not signed in. A command to sign in would not be helpful here.
struct AccountNotSignedIn: CommandFailure {
    let message: String
    var status: ExitCode { ExitStatus.loginRequired }
}
