public import AuthFlow

/// GitHub: github.com, GitHub Enterprise Cloud with data residency, and GitHub Enterprise Server; for OAuth Apps and GitHub
/// Apps.
///
/// There is no ID Token: the API identifies the user (``identity(for:in:)``). Only the token response
/// indicates whether tokens expire, and whether they can be refreshed.
public struct GitHubProvider: Sendable {
    /// The tokens that a sign-out revokes at GitHub. Both cases require the client secret.
    public enum SignOut: String, Sendable, Hashable, CaseIterable {
        /// Only the token.
        case token
        /// The user's grant to the app, and with it all of the user's tokens, on every device.
        case grant
    }

    let host: GitHubHost
    let signOut: SignOut

    /// Creates a provider.
    /// - Parameters:
    ///   - host: The GitHub instance.
    ///   - signOut: The tokens that a sign-out revokes.
    public init(host: GitHubHost = .dotCom, signOut: SignOut = .token) {
        self.host = host
        self.signOut = signOut
    }
}

extension GitHubProvider: ProviderAdapter {
    /// The issuer in GitHub's RFC 8414 metadata.
    public var issuer: String { "\(host.webURL)/login/oauth" }

    /// The endpoints are fixed, because GitHub does not document its metadata.
    public func metadata(in context: ServerContext) async throws -> ProviderMetadata {
        let login = "\(host.webURL)/login"
        var metadata = ProviderMetadata(
            issuer: issuer,
            authorizationEndpoint: try Endpoint("\(login)/oauth/authorize"),
            tokenEndpoint: try Endpoint("\(login)/oauth/access_token"),
            deviceAuthorizationEndpoint: try Endpoint("\(login)/device/code")
        )
        metadata.signOutAdvice =
            "GitHub has no sign-out page for apps. Sign out at \(host.webURL)/logout, or send the parameter prompt=select_account with the next sign-in to choose the account."
        return metadata
    }

    /// Sends `login_hint` as `login`: "Suggests a specific account to use for signing in" ("Authorizing OAuth apps").
    public func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws {
        guard request.purpose == .authorization, let hint = request.parameters["login_hint"] else { return }
        request.parameters["login"] = hint
        request.parameters["login_hint"] = nil
    }

    /// "Troubleshooting OAuth app access token request errors" and "Authorizing OAuth apps" in GitHub's documentation.
    public var standardErrorNames: [String: String] {
        [
            "bad_verification_code": "invalid_grant",
            "bad_refresh_token": "invalid_grant",
            "incorrect_device_code": "invalid_grant",
            "incorrect_client_credentials": "invalid_client",
            "device_flow_disabled": "unauthorized_client",
            "token_expired": "expired_token",
        ]
    }
}
