public import AuthFlowHTTP
public import AuthFlowJOSE
import AuthFlowJSON
import HTTPTypes

extension ServerContext {
    /// Finds the server's metadata from its issuer: at the addresses of OpenID Connect Discovery section 4 and of RFC 8414
    /// sections 3 and 5.
    /// - Parameters:
    ///   - address: Where the document is, when it is at none of these.
    ///   - order: Which address is asked first; default: that of OpenID Connect.
    ///   - tokenIssuer: The rule by which ID Tokens name issuers of their own. The document may then have its template in place of
    ///     the issuer.
    ///   - advice: What to do when there is no document, as a sentence.
    /// - Throws: ``AuthError`` with `issuer_mismatch`, `discovery_failed`, or a code of the network's.
    public func discover(
        at address: Endpoint? = nil,
        order: DiscoveryOrder = .openIDFirst,
        tokenIssuer: TokenIssuerTemplate? = nil,
        advice: String = "Check the issuer."
    ) async throws -> ProviderMetadata {
        let discovery = Discovery(issuer: issuer, tokenIssuer: tokenIssuer, context: self)
        let places = try address.map { [$0] } ?? discovery.standardPlaces(order)
        var unreadable: AuthError?
        for place in places {
            let found: Discovery.FoundDocument?
            do {
                found = try await discovery.document(at: place)
            } catch let error as AuthError
                where error.code == .discoveryFailed && (error.status == 200 || 300..<500 ~= error.status ?? 0)
            {
                // Applications that answer every address with a page, or guard them by path, have no document there.
                unreadable = unreadable ?? error
                continue
            }
            guard let found else { continue }
            var metadata = try ProviderMetadata(found.json)
            metadata.limitReach(to: found.reach)
            metadata.issuer = tokenIssuer == nil ? metadata.issuer : issuer
            metadata.tokenIssuer = tokenIssuer
            // The address that the issuer leads to is the issuer's own; any other was chosen elsewhere.
            let isOwn = try address.map { address in try discovery.standardPlaces().contains { $0.url == address.url } }
            metadata.document = isOwn == false ? .at(place.url) : .ofIssuer
            metadata.lifetime = found.lifetime
            return metadata
        }
        if let unreadable { throw unreadable }
        let names = places.map { "\($0)" }.joined(separator: ", ")
        throw AuthError(
            .discoveryFailed,
            "No metadata document was found for the issuer \"\(issuer)\" at \(names). \(advice)",
            status: 404
        )
    }
}

/// The order in which the addresses of an issuer's metadata are asked.
public enum DiscoveryOrder: Sendable, Hashable {
    /// OpenID Connect Discovery's first: for providers that sign users in.
    case openIDFirst
    /// RFC 8414's first: for authorization servers of protected resources, as MCP demands.
    case oauthFirst
}

/// The search for an issuer's metadata documents.
struct Discovery: Sendable {
    let issuer: String
    var tokenIssuer: TokenIssuerTemplate?
    let context: ServerContext

    /// How long a document is used when `Cache-Control` does not say, in seconds.
    static let standardAge: Double = 3600
    /// The bounds within which `Cache-Control: max-age` is followed, in seconds.
    static let ageBounds: ClosedRange<Double> = 300...86_400

    /// A document that was found.
    struct FoundDocument {
        let json: JSON
        /// How long it may be used.
        let lifetime: Duration
        /// What the connection led to; nil when that is not known.
        let reach: NetworkReach?
    }

    /// Where an issuer's documents are, by the standards.
    func standardPlaces(_ order: DiscoveryOrder = .openIDFirst) throws -> [Endpoint] {
        let home = try home()
        let path = home.path.droppingLastSlash
        let origin = "\(home.scheme)://\(home.authority)"
        // OIDC Discovery section 4: appended, "any terminating / MUST be removed".
        let openID = try Endpoint("\(origin)\(path)/.well-known/openid-configuration")
        let oauth = try oauthPlace()
        guard !path.isEmpty else { return order == .openIDFirst ? [openID, oauth] : [oauth, openID] }
        // RFC 8414 section 5: the address that OpenID Connect's would have had by this specification.
        let inserted = try Endpoint("\(origin)/.well-known/openid-configuration\(path)")
        return order == .openIDFirst ? [openID, oauth, inserted] : [oauth, inserted, openID]
    }

    /// RFC 8414 section 3.1: inserted between the host and the path.
    private func oauthPlace() throws -> Endpoint {
        let home = try home()
        let path = home.path.droppingLastSlash
        return try Endpoint("\(home.scheme)://\(home.authority)/.well-known/oauth-authorization-server\(path)")
    }

    private func home() throws -> Endpoint {
        if let place = issuer.firstRange(of: "/.well-known/") {
            throw AuthError(
                .discoveryFailed,
                "\"\(issuer)\" is the address of a metadata document. The issuer is what the document calls so, mostly \(issuer[..<place.lowerBound])."
            )
        }
        let home = try Endpoint(issuer, name: "issuer")
        guard home.query == nil else {
            throw AuthError(
                .invalidConfiguration,
                "The issuer \"\(home)\" has a query, which RFC 8414 section 2 forbids."
            )
        }
        return home
    }

    /// The document at an address and how long it may be used; nil when there is none.
    /// - Throws: ``AuthError`` with `discovery_failed` when the response is not a metadata document, and `issuer_mismatch` when
    ///   the document is that of another issuer.
    func document(at place: Endpoint) async throws -> FoundDocument? {
        _ = try home()
        let call = TransportRequest(.get, place, headerFields: [.accept: "application/json"])
        let response: TransportResponse
        do {
            response = try await context.send(call)
        } catch let error as AuthError where error.code == .invalidResponse {
            throw AuthError(.discoveryFailed, error.message, status: error.status, underlyingError: error)
        }
        if response.status == 404 { return nil }
        try response.requireAvailable(from: "\(place.host)", now: context.host.now())
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
        let named = json["issuer"]?.string ?? ""
        // OIDC Discovery section 4.3: "The issuer value returned MUST be identical to the Issuer URL that was used as the
        // prefix to /.well-known/openid-configuration to retrieve the configuration information."
        let isTemplate = tokenIssuer.map { named.isIdentical(to: $0.text) } ?? false
        guard named.isIdentical(to: issuer) || named.isEmpty || isTemplate else {
            throw AuthError(
                .issuerMismatch,
                """
                The provider at "\(issuer)" calls itself "\(Redaction.url(named))", and both must be identical to the last \
                character. If it is the right provider, use exactly that as the issuer.
                """
            )
        }
        let age = response.cacheAge(default: Self.standardAge, within: Self.ageBounds)
        return FoundDocument(json: json, lifetime: .seconds(age), reach: response.reach)
    }

    /// Adds to metadata the endpoints that only the issuer's RFC 8414 document names.
    /// - Throws: ``AuthError`` when the document cannot be had for a passing reason.
    func supplement(_ metadata: ProviderMetadata) async throws -> ProviderMetadata {
        let place = try oauthPlace()
        let other: ProviderMetadata
        do {
            guard let document = try await document(at: place) else { return metadata }
            var found = try ProviderMetadata(document.json)
            found.limitReach(to: document.reach)
            other = found
        } catch let error as AuthError where error.isPassing {
            throw error
        } catch is AuthError {
            // There is no second document, or it cannot be used.
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
