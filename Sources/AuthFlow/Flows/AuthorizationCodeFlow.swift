/// Signing in with the authorization code grant, PKCE and OpenID Connect (RFC 6749 section 4.1, RFC 7636, OIDC Core
/// section 3.1), from the first request to the stored credential.
///
/// ``signIn(with:store:)`` reads as the login happens. Each step is a file of this folder:
///
/// 1. find the provider's endpoints (`Providers/Discovery.swift`);
/// 2. open a place for the redirect to land (`UserAgents/UserAgent.swift`);
/// 3. build the authorization request (`AuthorizationRequest.swift`) and let the user agent visit it;
/// 4. check the redirect that comes back (`AuthorizationResponse.swift`);
/// 5. exchange the code for tokens (`CodeExchange.swift`);
/// 6. check the ID Token and find out who it is (`SignInOutcome.swift`);
/// 7. keep the credential (`Stores/`).
struct AuthorizationCodeFlow: Sendable {
    let engine: Engine
    let reporter: FlowReporter
    /// Called before the user agent shows anything.
    var begun: @Sendable () -> Void = {}
    /// Called when the redirect has come: nothing is waited for any more but the provider's servers.
    var answered: @Sendable () -> Void = {}

    /// Runs the whole flow.
    /// - Parameters:
    ///   - userAgent: Shows the pages.
    ///   - store: Keeps the credential. Called while the user agent still waits, so that it can tell the person the truth.
    func signIn<Return: Sendable>(
        with userAgent: any UserAgent,
        store: @escaping @Sendable (SignInOutcome) async throws -> Return
    ) async throws -> Return {
        let metadata = try await discover()
        // RFC 9700 section 4.7: a new state for every request. The agent needs it to tell the answer from other visits.
        let state = engine.host.randomToken()
        let options = RedirectOptions(
            redirectURIs: engine.settings.redirectURIs,
            state: Secret(state),
            responseMode: engine.settings.responseMode,
            reporter: reporter,
            clock: engine.host.clock
        )
        return try await userAgent.withRedirectSession(options) { session in
            let pending = try await begin(at: metadata, redirectURI: session.redirectURI, state: state)
            begun()
            let callback = try await reporter.step(.userAgentVisit) {
                try await engine.visits.visit(pending.url, in: session, options)
            }
            answered()
            // A code that was sent is used up, and the tokens that come for it are kept, whichever task waits for them.
            return try await engine.unfinished.finish { try await store(try await finish(pending, with: callback)) }
        }
    }

    /// Step 1.
    func discover() async throws -> ProviderMetadata {
        try await reporter.step(.discovery) { try await engine.metadata() }
    }

    /// Step 3, up to the URL to visit.
    func begin(at metadata: ProviderMetadata, redirectURI: String, state: String) async throws -> PendingAuthorization {
        try await reporter.step(.authorizationRequest) {
            try await engine.authorizationRequest(at: metadata, redirectURI: redirectURI, state: state)
        }
    }

    /// Steps 4 to 6.
    func finish(_ pending: PendingAuthorization, with callback: String) async throws -> SignInOutcome {
        let response = try await reporter.step(.authorizationResponse) {
            let response = try AuthorizationResponse(callback, to: pending)
            reporter.report(
                .authorizationResponse,
                details: ["parameters": response.parameters.names.joined(separator: " ")]
            )
            for (check, clause) in response.passed { reporter.passed(.authorizationResponse, check, clause) }
            return response
        }
        let received = try await reporter.step(.codeExchange) {
            try await engine.exchange(response.code, for: pending)
        }
        return try await engine.outcome(
            of: received,
            engine.expectation(for: pending, received, code: response.code),
            metadata: pending.metadata,
            authorizationParameters: response.parameters,
            reporter: reporter
        )
    }
}
