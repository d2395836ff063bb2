public import AuthFlowHTTP
import AuthFlowJSON

/// The data that a user needs to sign in on another device (RFC 8628 section 3.2): a URL, and a code to enter at that URL.
///
/// Show both only to the user of this program, because a user who enters another program's code signs that program in
/// (section 5.4).
public struct DeviceAuthorization: Sendable {
    /// `user_code`: the code to enter. Show it unchanged (escaped in HTML); it contains no control or format
    /// characters.
    public let userCode: String

    /// `verification_uri`: the URL at which to enter the code.
    public let verificationURI: Endpoint

    /// `verification_uri_complete`: the URL with the code in it, for a QR code or a link. Show the code as well, so
    /// that the user can compare it with the code on the page (section 3.3.1).
    public let verificationURIComplete: Endpoint?

    /// `expires_in`: the lifetime of the code.
    public package(set) var lifetime: Duration

    let deviceCode: Secret

    /// The requested scopes, as they were sent.
    package var scopes: [String] = []

    /// The requested resources, as they were sent.
    package var resources: [String] = []

    /// `interval`: the minimum time between two polls.
    let interval: Duration

    /// The maximum time to wait for the user to enter a code, regardless of `expires_in`.
    package static let maximumLifetime = Duration.seconds(3600)

    /// Parses a device authorization response (RFC 8628 section 3.2).
    /// - Throws: ``AuthError`` with `invalid_response` when a member is missing or invalid.
    init(_ json: JSON) throws(AuthError) {
        func rejection(_ problem: String) -> AuthError {
            AuthError(.invalidResponse, "The device authorization response \(problem) (RFC 8628 section 3.2).")
        }
        guard let deviceCode = json["device_code"]?.string, !deviceCode.isEmpty else {
            throw rejection("has no \"device_code\"")
        }
        guard let userCode = json["user_code"]?.string, !userCode.isEmpty else {
            throw rejection("has no \"user_code\"")
        }
        // A user types the code, so a string of more than 64 characters is not a usable code.
        guard userCode.unicodeScalars.count <= 64, DisplayText.sanitized(userCode) == userCode else {
            throw rejection("has a \"user_code\" that is too long or cannot be displayed")
        }
        // Drafts of the RFC had "verification_url", and some providers still use it.
        guard let uri = json["verification_uri"]?.string ?? json["verification_url"]?.string else {
            throw rejection("has no \"verification_uri\"")
        }
        guard let lifetime = try json.seconds("expires_in") else { throw rejection("has no \"expires_in\"") }
        guard lifetime > 0 else { throw rejection("has a code that has already expired (expires_in)") }
        self.deviceCode = Secret(deviceCode)
        self.userCode = userCode
        self.lifetime = min(.seconds(lifetime), Self.maximumLifetime)
        // "If no value is provided, clients MUST use 5 as the default." Even a provider that sends 0 is not polled
        // continuously.
        self.interval = max(.seconds(try json.seconds("interval") ?? 5), .seconds(1))
        guard interval < self.lifetime else {
            throw rejection("requires a polling interval that is not shorter than the code's lifetime")
        }
        // The URL of a page: on a site with client-side routing, the fragment may identify the page.
        self.verificationURI = try AuthError.recoded(.invalidResponse) { () throws(AuthError) in
            try Endpoint(allowingFragment: uri, name: "verification_uri")
        }
        // This URL is optional, so an unusable one is ignored: the user can enter the code at `verification_uri`.
        self.verificationURIComplete = json["verification_uri_complete"]?.string.flatMap {
            try? Endpoint(allowingFragment: $0, name: "verification_uri_complete")
        }
    }
}

extension DeviceAuthorization: CustomStringConvertible, NonReflectable {
    /// The URL without the values of its query parameters, because the codes must not be logged.
    public var description: String { "\(verificationURI)" }
}

extension OAuthClient {
    /// Requests a code for a sign-in on another device (RFC 8628 section 3.1).
    /// - Parameter scopes: The scopes to request; default: the registration's.
    /// - Throws: ``AuthError`` with `unsupported` when the provider does not support this grant, or does not allow it
    ///   for this client, or the registration's authorization parameters require a recent or stronger authentication, or a specific user;
    ///   `provider_rejected` for another OAuth error; `invalid_response`.
    public func deviceAuthorization(scopes: [String]? = nil) async throws -> DeviceAuthorization {
        try await deviceAuthorization(scopes: scopes, resources: nil)
    }

    /// Like ``deviceAuthorization(scopes:)``, but for specific resources.
    /// - Parameter resources: The target resources (RFC 8707); default: the registration's.
    package func deviceAuthorization(scopes: [String]?, resources: [String]?) async throws -> DeviceAuthorization {
        // Section 3.1 defines no parameters for these requirements, so they would be neither sent nor checked.
        guard try AuthenticationRequirements(parameters(of: .authorization)) == AuthenticationRequirements() else {
            throw AuthError(
                .unsupported,
                "The device flow does not support the max_age, the essential claims or the sub that are configured for authorization requests. Sign in with a browser on this device."
            )
        }
        let metadata = try await metadata(with: \.deviceAuthorizationEndpoint)
        let scopes = scopes ?? registration.scopes
        var request = ProviderRequest(
            purpose: .deviceAuthorization,
            endpoint: try metadata.required(
                \.deviceAuthorizationEndpoint,
                "device authorization endpoint (RFC 8628), so users cannot sign in on another device"
            ),
            parameters: parameters(of: .deviceAuthorization)
        )
        if !scopes.isEmpty { request.parameters["scope"] = scopes.joined(separator: " ") }
        try ResourceIdentifier.check(resources ?? [])
        request.addResources(resources ?? registration.resources)
        // RFC 9396 section 2: `authorization_details` may be sent in every request that may contain `scope`.
        try request.addAuthorizationDetails(registration.authorizationDetails, at: metadata)
        let response = try await sendFormRequest(request, scopes: scopes)
        let json = try? adapter.responseParameters(response)
        if let error = json.flatMap(response.http.providerError(in:)) {
            // RFC 6749 section 5.2: "The authenticated client is not authorized to use this authorization grant type", and
            // "not supported by the authorization server".
            let isDisabled = ["unauthorized_client", "unsupported_grant_type"].contains(
                adapter.standardName(of: error) ?? ""
            )
            let code: AuthError.Code = isDisabled ? .unsupported : .providerRejected
            throw advisedAboutClientID(
                AuthError(
                    error.isServerError ? .temporarilyUnavailable : code,
                    isDisabled
                        ? "\(response.endpoint.host) does not support the device flow (RFC 8628), or does not allow this client to use it. Enable the device flow in the client's registration."
                        : "\(response.endpoint.host) rejected the \(response.purpose) request.",
                    providerError: error,
                    status: response.status
                )
            )
        }
        guard response.http.isSuccessful else {
            // A server that does not support this grant responds as it does for any other nonexistent path.
            let isAbsent = [401, 403, 404, 405, 422].contains(response.status)
            throw response.unexpectedStatus(isAbsent ? .unsupported : .invalidResponse)
        }
        var authorization = try DeviceAuthorization(try adapter.responseParameters(response))
        // The user would be directed to this URL, and an automated user agent would send a password to it.
        for address in [authorization.verificationURI, authorization.verificationURIComplete].compactMap({ $0 }) {
            guard request.endpoint.mayReferTo(address) else {
                throw AuthError(
                    .invalidResponse,
                    "The device authorization response directs the user to \(address.origin), a loopback or private network address, which a public provider must not use."
                )
            }
        }
        authorization.scopes = response.scopes
        authorization.resources = response.resources
        return authorization
    }
}
