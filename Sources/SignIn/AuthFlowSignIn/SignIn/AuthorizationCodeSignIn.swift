import AuthFlowOAuth

/// Signs a user in with the authorization code grant, PKCE and OpenID Connect (RFC 6749 section 4.1, RFC 7636, OIDC Core
/// section 3.1).
///
/// ``run(with:save:)`` performs the steps of a sign-in in order:
///
/// 1. find the server's endpoints (`AuthorizationServer/AuthorizationServer.swift`, `Discovery.swift`);
/// 2. start listening for the redirect (`UserAgents/UserAgent.swift`);
/// 3. build the authorization request (`Authorization/AuthorizationRequest.swift`) and let the user agent open its URL;
/// 4. check the authorization response (`Authorization/AuthorizationResponse.swift`);
/// 5. exchange the code for tokens (`Authorization/CodeExchange.swift`, `Client/TokenRequest.swift`);
/// 6. validate the tokens and identify the user (`Client/TokenValidation.swift`,
///    `IDToken/IDTokenValidation.swift`);
/// 7. store the credential (`AuthFlowCredentials/ManagedCredential+SignIn.swift`).
struct AuthorizationCodeSignIn: Sendable {
    let client: OAuthClient
    let reporter: FlowReporter
    let options: AuthorizationOptions
    /// Whether the user agent may use a session that another app has shared, which belongs to that app's user.
    let usesSharedSessions: Bool
    let pendingRedirects: PendingRedirects
    let unfinished: UnfinishedWork
    let ignoredResponseReason: IgnoredResponseReason
    /// Called before the user agent shows anything.
    let willShow: @Sendable () async throws -> Void
    /// Called with the lifetime of the URL of a pushed request, in seconds.
    let didPush: @Sendable (Double) -> Void
    /// Called when the redirect has arrived: from then on, only the provider's servers can cause a delay.
    let didRespond: @Sendable () -> Void

    /// Runs the whole sign-in.
    /// - Parameters:
    ///   - userAgent: Shows the pages.
    ///   - save: Stores the credential. Called while the user agent is still waiting, so that it can show the outcome.
    func run<Return: Sendable>(
        with userAgent: any UserAgent,
        save: @escaping @Sendable (Credential, AuthorizationResponse) async throws -> Return
    ) async throws -> Return {
        let client = try await reporter.step(.discovery) { try await self.client.withPinnedMetadata() }
        // RFC 9700 section 4.7: a new state for every request. The agent needs it to distinguish the response from the responses to other requests.
        let state = client.host.randomToken()
        var expected = RedirectOptions(
            redirectURIs: options.redirectURI.map { [$0] } ?? client.registration.redirectURIs,
            state: Secret(state),
            responseMode: client.registration.responseMode,
            reporter: reporter,
            clock: client.host.clock
        )
        expected.decrypt = client.responseDecryption
        expected.ignoredResponseReason = ignoredResponseReason
        expected.usesSharedSessions = usesSharedSessions
        // With "par": "auto", a request is pushed if the server supports it, even if this is not required explicitly.
        let isPushedAutomatically: @Sendable (AuthorizationRequest) -> Bool = { [registration = client.registration] in
            registration.pushedRequests == .automatic && $0.url.contains("request_uri=")
        }
        return try await userAgent.withRedirectSession(expected) { [expected] session in
            let request = try await reporter.step(.authorizationRequest) {
                try await client.authorizationRequest(options, redirectURI: session.redirectURI, state: state)
            }
            if let lifetime = request.urlLifetime { didPush(lifetime) }
            try await willShow()
            let callback = try await reporter.step(.userAgentVisit) {
                do {
                    return try await pendingRedirects.visit(request.url, in: session, expected)
                } catch let error as AuthError where error.status == 400 && isPushedAutomatically(request) {
                    throw error.advisingAboutPushedRequests
                }
            }
            didRespond()
            // A code can be used only once, so its tokens are stored even if no task waits for them anymore.
            return try await unfinished.finish {
                let (credential, response) = try await client.exchange(callback, for: request, reporter: reporter)
                return try await save(credential, response)
            }
        }
    }
}

extension AuthError {
    /// The same error, with advice on pushed requests, because some servers also require pushed parameters in the authorization URL.
    fileprivate var advisingAboutPushedRequests: AuthError {
        withMessage(
            "\(message) The request was pushed (\"par\": \"auto\"). If the server also requires pushed parameters in the authorization URL, list them in \"par_repeats\"; to disable pushed requests, set \"par\": \"never\".",
            because: underlyingError
        )
    }
}
