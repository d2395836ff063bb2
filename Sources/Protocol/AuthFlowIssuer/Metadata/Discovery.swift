public import AuthFlowHTTP
public import AuthFlowJOSE
import AuthFlowJSON
import HTTPTypes

extension ServerContext {
    /// Discovers the server's metadata from its issuer, at the well-known URLs of OpenID Connect Discovery section 4 and RFC 8414
    /// sections 3 and 5.
    /// - Parameters:
    ///   - address: The URL of the document, if it is not at any of these URLs.
    ///   - order: The URL that is requested first; default: the OpenID Connect URL.
    ///   - tokenIssuer: The template for the issuers in ID Tokens, if each tenant has its own issuer. The document may
    ///     then contain the template instead of the issuer.
    ///   - advice: The advice in the error for a missing document, as a sentence.
    /// - Throws: ``AuthError`` with `issuer_mismatch`, `discovery_failed`, `invalid_configuration` when the issuer is not a usable URL,
    ///   `temporarily_unavailable`, or a network error.
    public func discover(
        at address: Endpoint? = nil,
        order: DiscoveryOrder = .openIDFirst,
        tokenIssuer: TokenIssuerTemplate? = nil,
        advice: String = "Check the issuer."
    ) async throws -> ProviderMetadata {
        let discovery = Discovery(issuer: issuer, tokenIssuer: tokenIssuer, context: self)
        let documentURLs = try address.map { [$0] } ?? discovery.wellKnownURLs(order)
        var unreadable: AuthError?
        for documentURL in documentURLs {
            let found: Discovery.DiscoveredDocument?
            do {
                found = try await discovery.document(at: documentURL)
            } catch let error as AuthError
                where error.code == .discoveryFailed && (error.status == 200 || 300..<500 ~= error.status ?? 0)
            {
                // A server that responds to every URL with a page, or restricts access by path, has no document there.
                unreadable = unreadable ?? error
                continue
            }
            guard let found else { continue }
            var metadata = try ProviderMetadata(found.json)
            metadata.limitReach(to: found.reach)
            metadata.issuer = tokenIssuer == nil ? metadata.issuer : issuer
            metadata.tokenIssuer = tokenIssuer
            // The URL derived from the issuer belongs to the issuer; any other URL was chosen by another party.
            let isOwn = try address.map { address in try discovery.wellKnownURLs().contains { $0.url == address.url } }
            metadata.document = isOwn == false ? .at(documentURL.url) : .ofIssuer
            metadata.lifetime = found.lifetime
            return metadata
        }
        if let unreadable { throw unreadable }
        let names = documentURLs.map { "\($0)" }.joined(separator: ", ")
        throw AuthError(
            .discoveryFailed,
            "No metadata document was found for the issuer \"\(issuer)\" at \(names). \(advice)",
            status: 404
        )
    }
}

/// The order in which the URLs of an issuer's metadata are requested.
public enum DiscoveryOrder: Sendable, Hashable {
    /// First the URL that OpenID Connect Discovery defines, for providers that sign users in.
    case openIDFirst
    /// First the URL that RFC 8414 defines, for authorization servers of protected resources, as MCP requires.
    case oauthFirst
}

/// The search for an issuer's metadata documents.
struct Discovery: Sendable {
    let issuer: String
    var tokenIssuer: TokenIssuerTemplate?
    let context: ServerContext

    /// The lifetime of a document without `Cache-Control`, in seconds.
    static let standardAge: Double = 3600
    /// The bounds for the lifetime in `Cache-Control: max-age`, in seconds.
    static let ageBounds: ClosedRange<Double> = 300...86_400

    /// A discovered metadata document.
    struct DiscoveredDocument {
        let json: JSON
        /// The lifetime of the document.
        let lifetime: Duration
        /// The network reach of the connection (public, private or loopback); nil when it is not known.
        let reach: NetworkReach?
    }

    /// The standard URLs of an issuer's documents.
    func wellKnownURLs(_ order: DiscoveryOrder = .openIDFirst) throws -> [Endpoint] {
        let home = try home()
        let path = home.path.droppingTrailingSlash
        // OIDC Discovery section 4: the well-known path is appended, "any terminating / MUST be removed".
        let openID = try Endpoint("\(home.origin)\(path)/.well-known/openid-configuration")
        let oauth = try oauthMetadataURL()
        guard !path.isEmpty else { return order == .openIDFirst ? [openID, oauth] : [oauth, openID] }
        // RFC 8414 section 5: the URL that the OpenID Connect document would have under this specification.
        let inserted = try Endpoint("\(home.origin)/.well-known/openid-configuration\(path)")
        return order == .openIDFirst ? [openID, oauth, inserted] : [oauth, inserted, openID]
    }

    /// RFC 8414 section 3.1: the well-known path is inserted between the host and the path.
    private func oauthMetadataURL() throws -> Endpoint {
        let home = try home()
        return try Endpoint("\(home.origin)/.well-known/oauth-authorization-server\(home.path.droppingTrailingSlash)")
    }

    private func home() throws -> Endpoint { try Endpoint(issuer: issuer) }

    /// The document at a URL, with its lifetime; nil when there is none.
    /// - Throws: ``AuthError`` with `discovery_failed` when the response is not a metadata document, and `issuer_mismatch` when
    ///   the document belongs to another issuer; `temporarily_unavailable`; any error thrown by ``ServerContext/send(_:)``.
    func document(at documentURL: Endpoint) async throws -> DiscoveredDocument? {
        _ = try home()
        let call = TransportRequest(.get, documentURL, headerFields: [.accept: "application/json"])
        let response: TransportResponse
        do {
            response = try await context.send(call)
        } catch let error as AuthError where error.code == .invalidResponse {
            throw AuthError(.discoveryFailed, error.message, status: error.status, underlyingError: error)
        }
        if response.status == 404 { return nil }
        try response.requireAvailable(from: "\(documentURL.host)", now: context.host.now())
        guard response.status == 200 else {
            throw AuthError(
                .discoveryFailed,
                "\(call) responded with status \(response.status). Is \"\(issuer)\" the provider's issuer?",
                providerError: response.providerError,
                status: response.status
            )
        }
        let json: JSON
        do throws(AuthError) {
            json = try response.json(from: "\(call)")
        } catch {
            throw AuthError(.discoveryFailed, error.message, status: 200, underlyingError: error)
        }
        guard let named = json["issuer"]?.string, !named.isEmpty else {
            throw AuthError(
                .discoveryFailed,
                "The document at \(call) is not provider metadata: it has no \"issuer\".",
                status: 200
            )
        }
        // OIDC Discovery section 4.3: "The issuer value returned MUST be identical to the Issuer URL that was used as the
        // prefix to /.well-known/openid-configuration to retrieve the configuration information."
        let isTemplate = tokenIssuer.map { named.isIdentical(to: $0.text) } ?? false
        guard named.isIdentical(to: issuer) || isTemplate else {
            guard !named.contains("{") else {
                throw AuthError(
                    .issuerMismatch,
                    "The issuer in the metadata of \"\(issuer)\" is a template, because users of several tenants sign in there. Set \"token_issuer\", or use the entra-multitenant preset."
                )
            }
            throw AuthError(
                .issuerMismatch,
                """
                The metadata of "\(issuer)" has the issuer "\(Redaction.url(named))"; the two must match character for \
                character. If this is the intended provider, configure the issuer exactly as it appears in the metadata.
                """
            )
        }
        let age = response.cacheAge(default: Self.standardAge, within: Self.ageBounds)
        return DiscoveredDocument(json: json, lifetime: .seconds(age), reach: response.reach)
    }

    /// Adds to the metadata the endpoints that only the issuer's RFC 8414 document contains.
    /// - Throws: ``AuthError`` when the document cannot be fetched because of a transient error.
    func supplement(_ metadata: ProviderMetadata) async throws -> ProviderMetadata {
        let documentURL = try oauthMetadataURL()
        let other: ProviderMetadata
        do {
            guard let document = try await document(at: documentURL) else { return metadata }
            var found = try ProviderMetadata(document.json)
            found.limitReach(to: document.reach)
            other = found
        } catch let error as AuthError where error.isTransient {
            throw error
        } catch is AuthError {
            // The second document does not exist, or cannot be used.
            return metadata
        }
        var members = metadata.json.object ?? [:]
        for (name, endpoint) in metadata.endpoints where endpoint == nil {
            members[name] = other.json[name]
        }
        var supplemented = other
        supplemented.replaceEndpoints(by: metadata)
        var result = metadata
        result.replaceEndpoints(by: supplemented)
        result.json = .object(members)
        return result
    }
}

/// The context of an adapter that fetches the metadata of its server, before any client is involved.
public struct ServerContext: Sendable {
    /// The adapter's issuer.
    let issuer: String

    /// The clock and random number generator.
    public let host: HostServices

    let sendRequest: @Sendable (TransportRequest) async throws -> TransportResponse

    /// Sends a request with limits on time and size, without following redirects.
    /// - Throws: Any error thrown by ``HTTPTransport/send(_:)``, or ``AuthError`` with `invalid_response` for a redirect.
    public func send(_ request: TransportRequest) async throws -> TransportResponse { try await sendRequest(request) }
}
