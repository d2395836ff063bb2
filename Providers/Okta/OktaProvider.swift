public import AuthFlow

/// Okta, with native single sign-on: one sign-in for all of a vendor's apps on a machine.
///
/// Without the `device_sso` scope it is an OpenID provider like any other, except that its errors have two formats.
public struct OktaProvider: Sendable {
    /// The extent of a sign-out.
    public enum SignOut: String, Sendable, Hashable, CaseIterable {
        /// Ends the sign-in of every app in the group, by revoking the device secret.
        case allApps = "all_apps"
        /// Ends only the sign-in of this app.
        case thisApp = "this_app"
        /// Like `all_apps`, but the URL of Okta's sign-out page also contains the device secret, which browser
        /// histories and logs record.
        case allAppsWithSecretInAddress = "all_apps_with_secret_in_address"
    }

    /// The token type of a device secret at Okta and in the earlier OpenID drafts.
    public static let deviceSecretType = TokenExchange.TokenType(
        rawValue: "urn:x-oath:params:oauth:token-type:device-secret"
    )

    public let issuer: String

    let audience: String?
    let secretType: TokenExchange.TokenType
    let signOut: SignOut

    /// Creates a provider.
    /// - Parameters:
    ///   - issuer: The issuer: `https://example.okta.com` for the org authorization server,
    ///     `https://example.okta.com/oauth2/ID` for a custom authorization server, which native SSO requires.
    ///   - audience: The audience of the authorization server, for native SSO; default: `api://default` for the server named `default`,
    ///     none for any other server.
    ///   - secretType: The token type of a device secret; default: ``deviceSecretType``.
    ///   - signOut: The extent of a sign-out.
    public init(
        issuer: String,
        audience: String? = nil,
        secretType: TokenExchange.TokenType = OktaProvider.deviceSecretType,
        signOut: SignOut = .allApps
    ) {
        self.issuer = issuer
        // "Configure Native SSO": the exchange request contains the audience of the authorization server.
        self.audience = audience ?? (issuer.hasSuffix("/oauth2/default") ? "api://default" : nil)
        self.secretType = secretType
        self.signOut = signOut
    }

    /// Whether a client requests native SSO.
    func isShared(_ registration: ClientRegistration) -> Bool { registration.scopes.contains("device_sso") }
}

extension OktaProvider: ProviderAdapter {
    public func metadata(in context: ServerContext) async throws -> ProviderMetadata { try await context.discover() }

    public func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws {
        let registration = context.registration
        if [.authorization, .deviceAuthorization, .tokenExchange].contains(request.purpose), isShared(registration) {
            try requireNativeSSO(registration)
        }
        guard request.purpose == .endSession, signOut == .allAppsWithSecretInAddress else { return }
        // If the shared record cannot be read, the page still ends the browser's session.
        request.parameters["device_secret"] = try? await deviceSecret(endedBy: request.tokens, in: context)?.exposed
    }

    private func requireNativeSSO(_ registration: ClientRegistration) throws {
        // "The org authorization server isn't supported" ("Configure Native SSO").
        guard try Endpoint(issuer, name: "issuer").path.hasPrefix("/oauth2/") else {
            throw AuthError(
                .unsupported,
                "Okta's org authorization server does not support native SSO. Use the issuer of a custom authorization server, such as \(issuer)/oauth2/default, or omit the \"device_sso\" scope."
            )
        }
        let missing = ["openid", "offline_access"].filter { !registration.scopes.contains($0) }
        guard missing.isEmpty else {
            throw AuthError(
                .invalidConfiguration,
                "Okta issues a device secret only for \"openid\", \"device_sso\" and \"offline_access\" together. Add \(missing.joined(separator: " and ")) to the scopes."
            )
        }
    }
}

extension OktaProvider: ResponseParsing {
    /// Parses both error formats: the OAuth 2.0 format and Okta's format.
    public func parameters(of response: ProviderResponse) throws -> JSON {
        let json = try response.parameters()
        guard json["error"] == nil, let code = json["errorCode"]?.string else { return json }
        // Each cause is an object, although some clients expect a string.
        let causes = (json["errorCauses"]?.array ?? []).compactMap { $0["errorSummary"]?.string ?? $0.string }
        let words = [json["errorSummary"]?.string].compactMap { $0 } + causes
        return ["error": .string(code), "error_description": .string(words.joined(separator: "; "))]
    }
}
