public import AuthFlowHTTP
import AuthFlowJSON
public import AuthFlowTransport
import HTTPTypes

/// Finds a user's provider from an identifier that the user enters (OpenID Connect Discovery section 2, RFC 7033).
public struct WebFinger: Sendable {
    /// The link relation of an issuer.
    private static let issuerRelation = "http://openid.net/specs/connect/1.0/issuer"

    private let transport: any HTTPTransport
    private let host: HostServices

    /// Creates a finder.
    /// - Parameters:
    ///   - transport: Sends the requests.
    ///   - host: The clock for timeouts.
    public init(transport: any HTTPTransport = SystemTransport(), host: HostServices = .system) {
        self.transport = transport
        self.host = host
    }

    /// Returns the issuer that is responsible for an account.
    ///
    /// The host in the identifier determines the provider. A sign-in validates that provider like any other: its
    /// metadata must name this issuer.
    /// - Parameter identifier: An e-mail address or `acct:` URI, a host name, or an `https` URL.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the identifier has none of these forms, `discovery_failed` when no
    ///   server returns an issuer for it, `invalid_response` when the response is not JSON, `temporarily_unavailable`, or a network error code.
    public func issuer(of identifier: String) async throws -> String {
        let (resource, origin) = try Self.normalized(identifier)
        let endpoint = try Endpoint("\(origin)/.well-known/webfinger", name: "WebFinger address")
        let call = TransportRequest(
            .get,
            try Endpoint(endpoint.url(adding: ["resource": resource, "rel": Self.issuerRelation])),
            headerFields: [.accept: "application/jrd+json, application/json"]
        )
        let response: TransportResponse
        do {
            response = try await ExchangeLimits.send(call, by: transport, clock: host.clock)
        } catch let error as AuthError where 300..<400 ~= error.status ?? 0 {
            // RFC 7033 section 4.2 allows redirects, but another host would then choose the provider.
            throw AuthError(
                .discoveryFailed,
                "\(error.message) Specify the issuer itself.",
                status: error.status,
                underlyingError: error
            )
        }
        try response.requireAvailable(from: "\(endpoint.host)", now: host.now())
        guard response.status == 200 else {
            throw AuthError(
                .discoveryFailed,
                "\(endpoint) returned no issuer for \"\(DisplayText.sanitized(identifier, limit: 100))\" (status \(response.status)). Specify the issuer itself.",
                providerError: response.providerError,
                status: response.status
            )
        }
        // RFC 7033 section 4.4: unknown members are ignored.
        let links = try response.json(from: "\(endpoint)")["links"]?.array ?? []
        // Section 4.4.4.3: a link need not have an href.
        let issuers = links.filter { $0["rel"]?.string == Self.issuerRelation }.compactMap { $0["href"]?.string }
        guard let issuer = issuers.first else {
            throw AuthError(
                .discoveryFailed,
                "\(endpoint) does not name an OpenID provider for \"\(DisplayText.sanitized(identifier, limit: 100))\"."
            )
        }
        // OIDC Discovery section 2: the issuer location "MUST be a URI with a scheme component that MUST be https".
        let found = try AuthError.recoded(.discoveryFailed) { () throws(AuthError) in try Endpoint(issuer: issuer) }
        guard endpoint.mayReferTo(found) else {
            throw AuthError(
                .discoveryFailed,
                "\(endpoint) names the provider \(found.origin), which it must not refer to: the address is more local than its own, or the connection would no longer be encrypted."
            )
        }
        return found.url
    }

    /// OIDC Discovery section 2.1: normalizes the user's input to a resource, and determines the origin to query.
    package static func normalized(_ identifier: String) throws(AuthError) -> (resource: String, origin: String) {
        let text = String(identifier.prefix { $0 != "#" })
        let lowercased = text.lowercased()
        let account = lowercased.hasPrefix("acct:") ? String(text.dropFirst(5)) : text
        if lowercased.hasPrefix("acct:") || isAccount(text) {
            // RFC 7565: the host is the part after the last @.
            guard let at = account.lastIndex(of: "@"), at != account.startIndex else { throw unusable(identifier) }
            return ("acct:\(account)", try origin(ofHost: String(account[account.index(after: at)...]), identifier))
        }
        let url = lowercased.contains("://") ? text : "https://\(text)"
        let endpoint = try Endpoint(url, name: "identifier")
        // Section 2.2.3: the resource of "example.com:8080" is "https://example.com:8080/".
        let isHost = !lowercased.contains("://") && endpoint.path.isEmpty && endpoint.query == nil
        return (isHost ? "\(url)/" : url, endpoint.origin)
    }

    /// Section 2.1.2 rule 2: "If the userinfo and host components are present and all of the scheme, path, query, port, and
    /// fragment components are absent, the acct scheme is assumed".
    private static func isAccount(_ text: String) -> Bool {
        text.contains("@") && !text.contains { "/?#:".contains($0) }
    }

    private static func origin(ofHost host: String, _ identifier: String) throws(AuthError) -> String {
        guard !host.isEmpty, !host.contains(where: { "/?#@".contains($0) }) else { throw unusable(identifier) }
        let endpoint = try Endpoint("https://\(host)", name: "identifier")
        guard Endpoint.isLoopback(host: endpoint.host) else { return endpoint.origin }
        return try Endpoint("http://\(host)", name: "identifier").origin
    }

    private static func unusable(_ identifier: String) -> AuthError {
        AuthError(
            .invalidConfiguration,
            "\"\(DisplayText.sanitized(identifier, limit: 100))\" is not an e-mail address, a host name or an https URL."
        )
    }
}
