public import AuthFlowHTTP
import AuthFlowIssuer

/// A logout request, which ends the user's session at the provider (OpenID Connect RP-Initiated Logout 1.0): the URL to
/// visit, and the values for checking the post-logout redirect.
public struct EndSessionRequest: Sendable, Hashable, Codable {
    /// The URL to open in a user agent. It can contain the ID Token (`id_token_hint`), so do not log it.
    public let url: String

    /// The post-logout redirect URI.
    public let redirectURI: String

    /// The `state` that the post-logout redirect must contain.
    public let state: String

    /// Checks the post-logout redirect. Section 2: the provider passes "this value back to the RP using the state
    /// parameter". Without this value, another page may have caused the redirect.
    /// - Parameter callback: The complete URL to which the user was redirected.
    /// - Throws: ``AuthError`` with `invalid_callback` when it is not known whether the session has ended.
    public func check(_ callback: String) throws(AuthError) {
        guard let fault = fault(of: callback) else { return }
        throw AuthError(.invalidCallback, "It is not known whether the session at the provider has ended: \(fault).")
    }

    /// Checks a post-logout redirect that may already have been decoded.
    package func check(_ redirect: ReceivedRedirect) throws(AuthError) {
        switch redirect {
        case .url(let url): try check(url)
        case .response(let response): try check(response.url)
        }
    }

    /// The error in a post-logout redirect; nil when the redirect is valid (rows 61 and 62 of docs/conformance.md).
    private func fault(of callback: String) -> String? {
        guard !callback.isIdentical(to: redirectURI) else { return "the post-logout redirect has no state" }
        guard let response = RedirectResponse.encoded(in: callback, at: redirectURI, .query),
            let parameters = RedirectResponse.parameters(in: response)
        else { return "the post-logout redirect went to a different URI, or its query is malformed" }
        guard let returned = parameters["state"] else { return "the post-logout redirect has no state" }
        guard Secret(returned) == Secret(state) else { return "the post-logout redirect has a different state" }
        // No specification defines an error here, but some providers send one.
        return parameters.authorizationError.map {
            "the provider reported the error \"\(DisplayText.sanitized($0.error, limit: 80))\""
        }
    }
}

extension EndSessionRequest: CustomStringConvertible, NonReflectable {
    /// The URL without its parameter values.
    public var description: String { Redaction.url(url) }
}

extension OAuthClient {
    /// Builds the request that ends the user's session at the provider. This method needs no user agent: a web server redirects its user
    /// to the URL, and passes the URL of the post-logout redirect to ``EndSessionRequest/check(_:)``.
    /// - Parameter credential: The credential of the user who signs out.
    /// - Throws: ``AuthError`` with `unsupported` when the provider has no such endpoint or no post-logout redirect URI is registered,
    ///   `login_required` when the credential is bound to other endpoints.
    public func endSessionRequest(for credential: Credential) async throws -> EndSessionRequest {
        try await endSessionEndpoint(for: credential).request(nil, host.randomToken())
    }

    /// The end session endpoint, and the values for a request to it.
    package func endSessionEndpoint(for credential: Credential) async throws -> EndSession {
        let metadata = try await requireBinding(of: credential, with: \ProviderMetadata.endSessionEndpoint)
        if metadata.endSessionEndpoint == nil, let advice = metadata.signOutAdvice {
            throw AuthError(.unsupported, advice)
        }
        let endpoint = try metadata.required(\.endSessionEndpoint, "end session endpoint")
        guard let redirectURI = registration.postLogoutRedirectURI else {
            throw AuthError(
                .unsupported,
                "No post-logout redirect URI is configured. Register one and set \"post_logout_redirect_uri\"."
            )
        }
        return EndSession(client: self, endpoint: endpoint, credential: credential, redirectURI: redirectURI)
    }
}

/// The values for building a logout request.
package struct EndSession: Sendable {
    let client: OAuthClient
    let endpoint: Endpoint
    let credential: Credential
    package let redirectURI: RedirectURI

    /// - Parameter uri: The complete redirect URI; nil for the registered URI.
    package func request(_ uri: String?, _ state: String) async throws -> EndSessionRequest {
        let uri = uri ?? redirectURI.uri
        var request = ProviderRequest(
            purpose: .endSession,
            endpoint: endpoint,
            parameters: client.parameters(of: .endSession),
            protectedParameters: ["post_logout_redirect_uri": uri, "state": state],
            tokens: credential.tokens
        )
        // Section 2: id_token_hint is RECOMMENDED; without it, client_id must be sent. "When both client_id and id_token_hint
        // are present, the OP MUST verify that the Client Identifier matches the one used when issuing the ID Token."
        let hint = client.registration.sendsIDTokenAtSignOut ? credential.tokens.idToken : nil
        request.protectedParameters["id_token_hint"] = hint?.exposed
        if hint == nil || client.registration.sendsClientIDAtSignOut {
            request.protectedParameters["client_id"] = client.registration.clientID
        }
        try await client.adapter.prepare(&request, in: client.providerContext)
        let parameters = try request.allParameters()
        try endpoint.requireNone(of: parameters, name: "end session endpoint")
        return EndSessionRequest(url: endpoint.url(adding: parameters), redirectURI: uri, state: state)
    }
}
