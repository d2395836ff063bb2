import AuthFlowJSON
import HTTPTypes

/// A sign-out at the provider, through the user agent (OpenID Connect RP-Initiated Logout 1.0).
struct EndSessionFlow: Sendable {
    let engine: Engine
    let reporter: FlowReporter

    /// Sends the person to the provider's end session endpoint and waits for their return.
    /// - Returns: nil when the provider has sent them back with the right state; otherwise what was wrong with it.
    /// - Throws: ``AuthError`` with `unsupported` when the provider has no such endpoint or no way back is configured.
    func run(_ credential: Credential, with userAgent: any UserAgent) async throws -> String? {
        let metadata = try await engine.metadata(with: \.endSessionEndpoint)
        if metadata.endSessionEndpoint == nil, let advice = metadata.signOutAdvice {
            throw AuthError(.unsupported, advice)
        }
        let endpoint = try metadata.required(\.endSessionEndpoint, "end session endpoint")
        guard let redirectURI = engine.settings.postLogoutRedirectURI else {
            throw AuthError(
                .unsupported,
                "No way back from the provider's sign-out page is configured. Register one and set \"post_logout_redirect_uri\"."
            )
        }
        let state = engine.host.randomToken()
        let options = RedirectOptions(
            purpose: .signOut,
            redirectURIs: [redirectURI],
            state: Secret(state),
            reporter: reporter,
            clock: engine.host.clock
        )
        return try await userAgent.withRedirectSession(options) { session in
            let url = try await url(endpoint, credential, redirectURI: session.redirectURI, state: state)
            let callback = try await engine.visits.visit(url, in: session, options)
            return Self.fault(of: callback, redirectURI: session.redirectURI, state: state)
        }
    }

    private func url(_ endpoint: Endpoint, _ credential: Credential, redirectURI: String, state: String) async throws
        -> String
    {
        var request = ProviderRequest(
            purpose: .endSession,
            endpoint: endpoint,
            parameters: engine.settings.parameters[.endSession] ?? [:],
            headerFields: [:],
            protectedParameters: ["post_logout_redirect_uri": redirectURI, "state": state]
        )
        // Section 2: id_token_hint is RECOMMENDED; without it the client has to be named. "When both client_id and id_token_hint
        // are present, the OP MUST verify that the Client Identifier matches the one used when issuing the ID Token."
        request.tokens = credential.tokens
        request.protectedParameters["id_token_hint"] = credential.tokens.idToken?.exposed
        if credential.tokens.idToken == nil || engine.settings.sendsClientIDAtSignOut {
            request.protectedParameters["client_id"] = engine.settings.clientID
        }
        try await engine.provider.prepare(&request, in: engine.context)
        return endpoint.url(adding: try request.allParameters())
    }

    /// Section 3: the provider passes "this value back to the RP using the state parameter". Rows 61 and 62: when it does
    /// not, another page may have sent the user here, and it is not known whether they are signed out.
    private static func fault(of callback: String, redirectURI: String, state: String) -> String? {
        guard !callback.isIdentical(to: redirectURI) else { return "the return has no state" }
        guard let response = RedirectOptions.response(in: callback, at: redirectURI, .query),
            let parameters = FormURLEncoding.decode(response)
        else { return "the return went to another address" }
        guard let returned = parameters["state"] else { return "the return has no state" }
        return Secret(returned) == Secret(state) ? nil : "the return has another state"
    }
}
