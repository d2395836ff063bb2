public import AuthFlowHTTP
import AuthFlowJSON
import HTTPTypes

/// A request to end the user's session at the provider (OpenID Connect RP-Initiated Logout 1.0): the URL to visit, and what the
/// return is checked against.
public struct EndSessionRequest: Sendable, Hashable, Codable {
    /// The URL to redirect the user to. It carries the ID Token as a hint: keep it out of logs.
    public let url: String

    /// The address that the provider sends the user back to.
    public let redirectURI: String

    /// The value that the return has to carry.
    public let state: String

    /// Checks the return from the provider's sign-out page. Section 3: the provider passes "this value back to the RP using
    /// the state parameter". When it does not, another page may have sent the user here.
    /// - Parameter callback: The URL that the user was sent back to, whole.
    /// - Throws: ``AuthError`` with `invalid_callback` when it is not known whether the session has ended.
    public func check(_ callback: String) throws(AuthError) {
        guard let fault = fault(of: callback) else { return }
        throw AuthError(.invalidCallback, "Whether the session at the provider has ended is unknown: \(fault).")
    }

    /// Checks the return where it may have been decoded already.
    package func check(_ arrival: RedirectArrival) throws(AuthError) {
        switch arrival {
        case .url(let url): try check(url)
        case .response(let response): try check(response.url)
        }
    }

    /// Rows 61 and 62.
    private func fault(of callback: String) -> String? {
        guard !callback.isIdentical(to: redirectURI) else { return "the return has no state" }
        guard let response = RedirectResponse.encoded(in: callback, at: redirectURI, .query),
            let parameters = FormURLEncoding.decode(response)
        else { return "the return went to another address" }
        guard let returned = parameters["state"] else { return "the return has no state" }
        return Secret(returned) == Secret(state) ? nil : "the return has another state"
    }
}

extension EndSessionRequest: CustomStringConvertible, WithoutReflection {
    /// The URL with its values left out.
    public var description: String { Redaction.url(url) }
}

extension OAuthClient {
    /// Builds the request that ends the user's session at the provider. It needs no user agent: a web server redirects its user
    /// to the URL, and hands the return to ``EndSessionRequest/check(_:)``.
    /// - Parameter credential: The credential of the user who signs out.
    /// - Throws: ``AuthError`` with `unsupported` when the provider has no such endpoint or no return address is registered,
    ///   `login_required` when the credential belongs to other endpoints.
    public func endSessionRequest(for credential: Credential) async throws -> EndSessionRequest {
        try await endSessionEndpoint(for: credential).request(nil, host.randomToken())
    }

    /// The end session endpoint and the way to build a request to it.
    package func endSessionEndpoint(for credential: Credential) async throws -> EndSession {
        let metadata = try await requireBinding(of: credential, with: \ProviderMetadata.endSessionEndpoint)
        if metadata.endSessionEndpoint == nil, let advice = metadata.signOutAdvice {
            throw AuthError(.unsupported, advice)
        }
        let endpoint = try metadata.required(\.endSessionEndpoint, "end session endpoint")
        guard let redirectURI = registration.postLogoutRedirectURI else {
            throw AuthError(
                .unsupported,
                "No return address from the provider's sign-out page is configured. Register one and set \"post_logout_redirect_uri\"."
            )
        }
        return EndSession(client: self, endpoint: endpoint, credential: credential, redirectURI: redirectURI)
    }
}

/// A session at the provider that is to be ended.
package struct EndSession: Sendable {
    let client: OAuthClient
    let endpoint: Endpoint
    let credential: Credential
    package let redirectURI: RedirectURI

    /// - Parameter uri: The redirect URI, whole; nil for the registered one.
    package func request(_ uri: String?, _ state: String) async throws -> EndSessionRequest {
        let uri = uri ?? redirectURI.uri
        var request = ProviderRequest(
            purpose: .endSession,
            endpoint: endpoint,
            parameters: client.parameters(of: .endSession),
            protectedParameters: ["post_logout_redirect_uri": uri, "state": state],
            tokens: credential.tokens
        )
        // Section 2: id_token_hint is RECOMMENDED; without it the client has to be named. "When both client_id and id_token_hint
        // are present, the OP MUST verify that the Client Identifier matches the one used when issuing the ID Token."
        request.protectedParameters["id_token_hint"] = credential.tokens.idToken?.exposed
        if credential.tokens.idToken == nil || client.registration.sendsClientIDAtSignOut {
            request.protectedParameters["client_id"] = client.registration.clientID
        }
        try await client.adapter.prepare(&request, in: client.providerContext)
        return EndSessionRequest(url: endpoint.url(adding: try request.allParameters()), redirectURI: uri, state: state)
    }
}
