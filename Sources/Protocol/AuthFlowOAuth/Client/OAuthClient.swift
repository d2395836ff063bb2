public import AuthFlowIssuer
public import AuthFlowStorage

/// A client of an authorization server: it builds and sends standard requests, and validates the responses.
///
/// It is stateless and stores no tokens, so one client serves any number of users. State that must persist between
/// calls is a value that the caller stores, such as an ``AuthorizationRequest``.
///
/// ```swift
/// let request = try await client.authorizationRequest(.init(loginHint: hint))
/// let callbackURL = try await visit(request.url)
/// let credential = try await client.exchange(callbackURL, for: request)
/// ```
public struct OAuthClient: Sendable {
    /// The server.
    public let server: AuthorizationServer

    /// The registration with the server.
    public let registration: ClientRegistration

    /// The store that the apps of one vendor share on this machine; nil when the app does not share sign-ins.
    package let sharedCredentials: SharedCredentialStore?

    /// The adapter, which implements the provider's deviations from the standards.
    package let adapter: any ProviderAdapter

    /// Creates a client.
    /// - Parameters:
    ///   - server: The server, shared by all of its clients in the process.
    ///   - registration: The registration with the server.
    ///   - sharedCredentials: The store that the apps of one vendor share on this machine; default: none.
    public init(
        server: AuthorizationServer,
        registration: ClientRegistration,
        sharedCredentials: SharedCredentialStore? = nil
    ) {
        self.server = server
        self.adapter = server.source as? any ProviderAdapter ?? StandardProvider(source: server.source)
        self.registration = registration
        self.sharedCredentials = sharedCredentials
    }

    /// The context for an adapter's provider-specific functions.
    package var providerContext: ProviderContext { ProviderContext(self) }

    /// The metadata at the start of the flow, if this client is limited to one flow; nil otherwise.
    private var flowMetadata: ProviderMetadata?

    /// A copy of this client for one flow. The server's metadata is fixed when the flow starts, so that only values that were
    /// checked are used.
    /// - Throws: ``AuthError``.
    package func withPinnedMetadata() async throws -> OAuthClient {
        var client = self
        client.flowMetadata = try await metadata()
        return client
    }

    /// The server's metadata.
    /// - Throws: ``AuthError``.
    package func metadata() async throws -> ProviderMetadata {
        if let flowMetadata { return flowMetadata }
        return try effectiveMetadata(try await server.metadata())
    }

    /// The server's metadata, supplemented when it lacks an endpoint.
    func metadata(with endpoint: EndpointPath) async throws -> ProviderMetadata {
        if let flowMetadata, flowMetadata[keyPath: endpoint] != nil { return flowMetadata }
        return try effectiveMetadata(try await server.metadata(with: endpoint))
    }

    private func effectiveMetadata(_ metadata: ProviderMetadata) throws(AuthError) -> ProviderMetadata {
        // A profile requires sender-constrained tokens: without DPoP, the metadata must advertise certificate binding.
        if registration.bindsTokensToCertificate, registration.securityProfile != nil, !registration.usesDPoP,
            metadata.json["tls_client_certificate_bound_access_tokens"] != true
        {
            throw metadata.unsupported(
                "does not advertise certificate-bound tokens (RFC 8705 section 3.3). The security profile requires either certificate-bound tokens or DPoP."
            )
        }
        return registration.usesCertificate ? try metadata.withMTLSEndpointAliases() : metadata
    }

    /// Whether sign-ins identify the user. Without the `openid` scope (plain OAuth 2.0), no ID Token is issued.
    package var identifiesUsers: Bool {
        (adapter as? any UserInfoProviding)?.identifiesUsers(of: registration)
            ?? registration.scopes.contains("openid")
    }

    package var host: HostServices { server.host }

    /// The parameters that the registration adds to requests with the given purpose.
    func parameters(of purpose: ProviderRequest.Purpose) -> FormParameters { registration.parameters[purpose] ?? [:] }

    /// A request to the token endpoint, with the parameters that the registration adds.
    func tokenRequest(
        _ purpose: ProviderRequest.Purpose,
        _ parameters: FormParameters,
        at metadata: ProviderMetadata
    ) throws(AuthError) -> ProviderRequest {
        ProviderRequest(
            purpose: purpose,
            endpoint: try metadata.required(\.tokenEndpoint, "token endpoint"),
            parameters: self.parameters(of: purpose),
            protectedParameters: parameters
        )
    }
}

extension OAuthClient: ClientOperations {
    func send(_ request: TransportRequest) async throws -> TransportResponse { try await server.send(request) }

    func sendForm(_ request: ProviderRequest) async throws -> ProviderResponse { try await sendFormRequest(request) }
}

extension OAuthClient: CustomStringConvertible, NonReflectable {
    /// The client ID and the authorization server.
    public var description: String { "\(registration.clientID) at \(server)" }
}
