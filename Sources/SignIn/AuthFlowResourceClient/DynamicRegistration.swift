public import AuthFlowEssentials
public import AuthFlowOAuth

/// Registers a client with a provider (RFC 7591, OpenID Connect Dynamic Client Registration 1.0).
public struct DynamicRegistration: Sendable {
    /// A registration request with the client metadata (RFC 7591 section 3.1).
    public struct Request: Sendable {
        /// `redirect_uris`.
        public var redirectURIs: [RedirectURI]
        /// `client_name`: shown to the user who signs in.
        public var name: String?
        /// `scope`.
        public var scopes: [String]
        /// `token_endpoint_auth_method`: the first of these methods that the server's metadata lists, otherwise the first; default: `none` (because
        /// native clients are public clients), `client_secret_post`, `client_secret_basic`.
        public var authenticationMethods: [ClientAuthentication.Method]
        /// `grant_types`; nil (the default): `authorization_code` and, unless the server's metadata lists only other grant types, `refresh_token`.
        public var grantTypes: [String]?
        /// Additional metadata, such as `contacts`, `logo_uri` or `id_token_signed_response_alg`.
        public var metadata: [String: JSON]

        /// Creates a request.
        public init(
            redirectURIs: [RedirectURI] = [.loopback],
            name: String? = nil,
            scopes: [String] = ["openid"],
            authenticationMethods: [ClientAuthentication.Method] = [.none, .clientSecretPost, .clientSecretBasic],
            metadata: [String: JSON] = [:]
        ) {
            self.redirectURIs = redirectURIs
            self.name = name
            self.scopes = scopes
            self.authenticationMethods = authenticationMethods
            self.metadata = metadata
        }

        /// Sets the values that depend on the server's metadata.
        fileprivate mutating func complete(for metadata: ProviderMetadata) {
            // RFC 7591 section 2: an omitted grant type is not registered, and the server may then reject refreshes.
            if grantTypes == nil {
                let refreshes = metadata.json["grant_types_supported"]?.strings?.contains("refresh_token") ?? true
                grantTypes = ["authorization_code"] + (refreshes ? ["refresh_token"] : [])
            }
            // By default, client_secret_basic is last: some servers decode it incorrectly, or accept it only if the body contains the client_id.
            let known = metadata.tokenEndpointAuthMethods ?? []
            let listed = authenticationMethods.first { known.contains($0.rawValue) }
            authenticationMethods = (listed ?? authenticationMethods.first).map { [$0] } ?? []
        }

        /// The client metadata to send (RFC 7591 section 2).
        var json: JSON {
            var document: [String: JSON] = [
                "redirect_uris": .array(redirectURIs.map { .string($0.uri) }),
                "response_types": ["code"],
                "application_type": redirectURIs.contains { $0.kind == .https } ? "web" : "native",
            ]
            document["grant_types"] = grantTypes.map { .array($0.map(JSON.string)) }
            document["token_endpoint_auth_method"] = authenticationMethods.first.map { .string($0.rawValue) }
            if !scopes.isEmpty { document["scope"] = .string(scopes.joined(separator: " ")) }
            document["client_name"] = name.map(JSON.string)
            return .object(document.merging(metadata) { own, _ in own })
        }
    }

    /// A registered client, as returned by the provider.
    public struct Registered: Sendable {
        /// `client_id`.
        public let clientID: String
        /// The client authentication at the token endpoint, including the secret.
        public let authentication: ClientAuthentication
        /// `client_secret`, for the app to store; nil for a public client.
        public let clientSecret: Secret?
        /// `client_secret_expires_at`; nil when there is no secret or the secret does not expire.
        public let clientSecretExpiresAt: Date?
        /// `registration_client_uri`: the client configuration endpoint (RFC 7592).
        public let registrationEndpoint: Endpoint?
        /// `registration_access_token`: authorizes requests to the client configuration endpoint.
        public let registrationAccessToken: Secret?
        /// All metadata that the provider has registered. Contains secrets.
        public let metadata: RedactedJSON
    }

    private let server: AuthorizationServer

    /// Creates a registration service for an authorization server.
    public init(server: AuthorizationServer) { self.server = server }

    /// Registers a client.
    /// - Parameters:
    ///   - request: The metadata of the client.
    ///   - initialAccessToken: The initial access token, if the provider requires one; nil for none.
    /// - Throws: ``AuthError`` with `unsupported` when the provider does not support registration, or registers an
    ///   unsupported client authentication method; `provider_rejected` when it rejects this
    ///   client, `invalid_response` when the response does not conform to RFC 7591 or does not match the request. A client whose registration
    ///   response is rejected is deleted if the provider supports that (RFC 7592).
    public func register(_ request: Request, initialAccessToken: Secret? = nil) async throws -> Registered {
        let path: EndpointPath = \.registrationEndpoint
        let metadata = try await server.metadata(with: path)
        let endpoint = try metadata.required(path, "registration endpoint")
        var request = request
        request.complete(for: metadata)
        var fields: HTTPFields = [.contentType: "application/json", .accept: "application/json"]
        if let initialAccessToken { fields[.authorization] = "Bearer \(initialAccessToken.exposed)" }
        let response = try await server.send(
            TransportRequest(.post, endpoint, headerFields: fields, body: try request.json.serialized())
        )
        try response.requireAvailable(from: endpoint.host, now: server.host.now())
        // RFC 7591 section 3.2.1: "201 Created"; several providers respond with 200. Section 3.2.2: errors have status 400, but
        // some providers use other statuses and formats.
        guard response.status == 201 || response.status == 200 else {
            throw AuthError(
                .providerRejected,
                "\(endpoint.host) did not register the client (status \(response.status)).\(Self.hint(response, initialAccessToken))",
                providerError: response.providerError,
                status: response.status
            )
        }
        let json = try response.json(from: "\(endpoint)")
        if let error = response.providerError(in: json) {
            throw AuthError(.providerRejected, "\(endpoint.host) did not register the client.", providerError: error)
        }
        do {
            return try Self.registered(json, asked: request, at: endpoint)
        } catch {
            await delete(json, at: endpoint)
            throw error
        }
    }

    /// Deletes a registration whose response was rejected (RFC 7592 section 2.3), because each further attempt registers another client. Without a
    /// client configuration endpoint, or if the deletion fails, the client remains registered; the error of the registration is more useful.
    private func delete(_ json: JSON, at endpoint: Endpoint) async {
        guard let management = Self.registrationEndpoint(in: json, at: endpoint),
            let token = json["registration_access_token"]?.string
        else { return }
        var request = StoredRegistration.deletion(at: management, Secret(token), from: endpoint)
        request.timeout = .seconds(10)
        _ = try? await server.send(request)
    }

    /// The client configuration endpoint; nil if the response has none, or a URL that the registration endpoint must not refer to.
    private static func registrationEndpoint(in json: JSON, at endpoint: Endpoint) -> Endpoint? {
        json["registration_client_uri"]?.string.flatMap { try? Endpoint($0) }.flatMap {
            endpoint.mayReferTo($0) ? $0 : nil
        }
    }

    /// RFC 7591 section 3: the registration endpoint "MAY be an OAuth 2.0 protected resource".
    private static func hint(_ response: TransportResponse, _ initialAccessToken: Secret?) -> String {
        guard initialAccessToken == nil else { return "" }
        let isUnauthorized =
            [401, 403].contains(response.status) || response.providerError?.error == "access_denied"
        return isUnauthorized ? " It may require an initial access token (RFC 7591 section 3)." : ""
    }

    private static func registered(_ json: JSON, asked request: Request, at endpoint: Endpoint) throws -> Registered {
        guard let clientID = json["client_id"]?.string, !clientID.isEmpty else {
            throw AuthError(
                .invalidResponse,
                "The registration response has no \"client_id\" (RFC 7591 section 3.2.1)."
            )
        }
        // RFC 7591 section 3.2.1: the server "MAY reject or replace any of the client's requested metadata values", so
        // the client must check the response. Other redirect URIs would receive the authorization codes.
        if let uris = json["redirect_uris"], uris != .null {
            guard let uris = uris.strings, Set(uris).isSuperset(of: request.redirectURIs.map(\.uri)) else {
                throw AuthError(.invalidResponse, "The provider did not register the requested redirect URIs.")
            }
        }
        // RFC 6749 appendix A.1 and A.2: client-id = *VSCHAR, client-secret = *VSCHAR
        for (name, value) in [("client_id", clientID), ("client_secret", json["client_secret"]?.string ?? "")] {
            guard value.utf8.count <= 4096, value.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else {
                throw AuthError(
                    .invalidResponse,
                    "The registration response has a \"\(name)\" that is too long, or has characters that RFC 6749 appendix A does not allow."
                )
            }
        }
        let secret = json["client_secret"]?.string.flatMap { $0.isEmpty ? nil : Secret($0) }
        // Section 2: "If unspecified or omitted, the default is "client_secret_basic"".
        let usual = secret == nil ? request.authenticationMethods.first ?? .none : .clientSecretBasic
        let method = json["token_endpoint_auth_method"]?.string ?? usual.rawValue
        let authentication: ClientAuthentication
        switch (ClientAuthentication.Method(rawValue: method), secret) {
        case (.none, _): authentication = .none
        // RFC 6749 section 2.3.1: "The client MAY omit the parameter if the client secret is an empty string."
        case (.clientSecretPost, nil) where json["client_secret"]?.string == "": authentication = .none
        case (.clientSecretBasic, let secret?): authentication = .clientSecretBasic(secret)
        case (.clientSecretPost, let secret?): authentication = .clientSecretPost(secret)
        default:
            throw AuthError(
                .unsupported,
                "The provider registered the client authentication method \"\(DisplayText.sanitized(method, limit: 40))\", which is not supported, or requires a client_secret that the response does not contain."
            )
        }
        let expiry = json["client_secret_expires_at"]?.number ?? 0
        return Registered(
            clientID: clientID,
            authentication: authentication,
            clientSecret: authentication.secret,
            clientSecretExpiresAt: authentication.secret == nil || expiry == 0 ? nil : Date(secondsSince1970: expiry),
            // The client is already registered, and an error would lead to another registration. Without this URL, or with a URL that a public
            // provider must not refer to, the registration cannot be managed.
            registrationEndpoint: registrationEndpoint(in: json, at: endpoint),
            registrationAccessToken: json["registration_access_token"]?.string.map(Secret.init),
            metadata: RedactedJSON(json)
        )
    }
}
