public import AuthFlowOAuth
package import AuthFlowTransport

/// A client ID metadata document, served over https at the URL that is the `client_id` (OAuth Client ID Metadata Document).
///
/// A client with such a document needs no registration: an authorization server fetches the document when it receives
/// the client's first request.
public struct ClientMetadataDocument: Sendable, Hashable {
    /// The URL of the document, which is the `client_id`, exactly as written.
    public let clientID: String

    /// The document.
    public let json: JSON

    /// The recommended maximum size of a document, in bytes (section 6.6).
    static let maximumSize = 5 * 1024

    /// Creates a document for a public client.
    /// - Parameters:
    ///   - clientID: The URL at which the document will be served.
    ///   - name: `client_name`, which servers show to the user.
    ///   - redirectURIs: `redirect_uris`. Many servers also compare the port of a loopback redirect URI, so list the
    ///     URIs with the ports that are used.
    ///   - metadata: Additional client metadata (RFC 7591), such as `logo_uri`; default: none.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the URL or a member is not allowed.
    public init(
        clientID: String,
        name: String,
        redirectURIs: [RedirectURI] = [.loopback],
        metadata: [String: JSON] = [:]
    ) throws(AuthError) {
        let own: [String: JSON] = [
            "client_id": .string(clientID), "client_name": .string(name),
            "redirect_uris": .array(redirectURIs.map { .string($0.uri) }),
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
            "application_type": redirectURIs.contains { $0.kind == .https } ? "web" : "native",
            "token_endpoint_auth_method": "none",
        ]
        try self.init(checking: .object(own.merging(metadata) { own, _ in own }), at: clientID)
    }

    /// Validates an existing document.
    /// - Parameters:
    ///   - json: The document.
    ///   - address: The URL at which the document is, or will be, served.
    /// - Throws: ``AuthError`` with `invalid_configuration` when authorization servers must reject the document.
    package init(checking json: JSON, at address: String) throws(AuthError) {
        func refuse(_ reason: String) -> AuthError {
            AuthError(.invalidConfiguration, "The client ID metadata document cannot be used: \(reason).")
        }
        try Self.checkURL(address)
        // Section 4.1: "The client_id property's value MUST match the client_id URL using simple string comparison".
        guard let named = json["client_id"]?.string, named.isIdentical(to: address) else {
            throw refuse("its \"client_id\" is not the URL at which it is served")
        }
        // MCP, "Client ID Metadata Documents": "client_id, client_name, redirect_uris" are required.
        guard json["client_name"]?.string?.isEmpty == false else { throw refuse("it has no \"client_name\"") }
        guard let uris = json["redirect_uris"]?.strings, !uris.isEmpty else {
            throw refuse("it has no \"redirect_uris\"")
        }
        for uri in uris { _ = try RedirectURI(uri) }
        // Section 4.1: a method "based around a shared symmetric secret" cannot be used, and "client_secret and
        // client_secret_expires_at properties MUST NOT be used".
        guard json["client_secret"] == nil, json["client_secret_expires_at"] == nil else {
            throw refuse("it contains \"client_secret\" or \"client_secret_expires_at\", but the document is public")
        }
        // RFC 7591 section 2: "If unspecified or omitted, the default is "client_secret_basic"".
        guard let method = json["token_endpoint_auth_method"]?.string else {
            throw refuse(
                "it has no \"token_endpoint_auth_method\", so servers use the default, \"client_secret_basic\", which requires a secret"
            )
        }
        if ["client_secret_post", "client_secret_basic", "client_secret_jwt"].contains(method) {
            throw refuse("its \"token_endpoint_auth_method\" requires a secret, but the document is public")
        }
        let keys = json["jwks"] ?? .null
        if keys != .null { try Self.checkKeys(keys, refuse) }
        // RFC 7591 section 2: the server verifies client assertions and self-signed certificates with the keys in `jwks` or `jwks_uri`.
        if ["private_key_jwt", "self_signed_tls_client_auth"].contains(method), keys == .null,
            json["jwks_uri"]?.string == nil
        {
            throw refuse(
                "its \"token_endpoint_auth_method\" requires public keys, but it has neither \"jwks\" nor \"jwks_uri\""
            )
        }
        guard (try? json.serialized())?.count ?? .max <= Self.maximumSize else {
            throw refuse("it is larger than 5 KiB, so servers may reject it")
        }
        self.clientID = address
        self.json = json
    }

    /// Rejects a `jwks` that is not a JWK Set (RFC 7517 section 5), or that contains a private or symmetric key: the document is public.
    private static func checkKeys(_ keys: JSON, _ refuse: (String) -> AuthError) throws(AuthError) {
        guard let keys = keys["keys"]?.array, !keys.isEmpty, keys.allSatisfy({ $0["kty"]?.string != nil }) else {
            throw refuse("its \"jwks\" contains no keys")
        }
        guard !keys.contains(where: { key in JWK.privateMembers.contains { key[$0] != nil } }) else {
            throw refuse(
                "its \"jwks\" contains a private or symmetric key, but the document is public; a key that was already published must be replaced"
            )
        }
    }

    /// Section 3: "Client identifier URLs MUST have an "https" scheme, MUST contain a path component, MUST NOT contain single-dot
    /// or double-dot path segments, MUST NOT contain a fragment component and MUST NOT contain a username or password."
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    package static func checkURL(_ address: String) throws(AuthError) {
        let endpoint = try Endpoint(address, name: "client_id")
        guard endpoint.scheme == "https", !endpoint.path.isEmpty, endpoint.path != "/", !endpoint.hasDotSegments else {
            throw AuthError(
                .invalidConfiguration,
                "The client_id \"\(endpoint)\" cannot be the URL of a client ID metadata document: the URL must use https and have a path without \".\" or \"..\" segments."
            )
        }
    }

    /// Fetches and validates a document as an authorization server does: no redirect, status 200, JSON with a JSON media type, within the maximum
    /// size.
    /// - Throws: ``AuthError`` with `invalid_configuration` when servers must reject it, `invalid_response` for a redirect
    ///   or a response that is too large, or with a network error code.
    package static func fetch(
        _ address: String,
        transport: any HTTPTransport = SystemTransport(),
        host: HostServices = .system
    ) async throws -> ClientMetadataDocument {
        try checkURL(address)
        let request = TransportRequest(
            .get,
            try Endpoint(address),
            headerFields: [.accept: "application/json"],
            maximumResponseSize: maximumSize
        )
        let response = try await ExchangeLimits.send(request, by: transport, clock: host.clock)
        guard response.status == 200, let json = try? response.parsed() else {
            throw AuthError(
                .invalidConfiguration,
                "There is no client ID metadata document at \(request.url) (status \(response.status)).",
                status: response.status
            )
        }
        // The draft requires application/json, or a more specific type, application/<AS-defined>+json: servers reject any other type. A static
        // file server sends a file without the extension .json as text/plain or application/octet-stream.
        let type = response.mediaType
        guard type == "application/json" || type.hasPrefix("application/") && type.hasSuffix("+json") else {
            throw AuthError(
                .invalidConfiguration,
                "The client ID metadata document at \(request.url) is served with \(type.isEmpty ? "no Content-Type" : "the Content-Type \(DisplayText.sanitized(type, limit: 80))"). Serve it as application/json.",
                status: response.status
            )
        }
        return try ClientMetadataDocument(checking: json, at: address)
    }
}
