import AuthFlowJSON
import HTTPTypes

extension ProviderAdapter {
    /// Finds the provider's metadata from its issuer: at the address of OpenID Connect Discovery section 4, or, when
    /// there is none, at that of RFC 8414 section 3.
    /// - Parameters:
    ///   - issuer: The issuer that the document has to name.
    ///   - address: Where the document is, when it is at neither of these.
    ///   - advice: What to do when there is no document, as a sentence.
    ///   - context: The engine's.
    /// - Throws: ``AuthError`` with `issuer_mismatch`, `discovery_failed`, or a code of the network's.
    public func discoveredMetadata(
        issuer: String,
        at address: Endpoint? = nil,
        advice: String = "Check the issuer.",
        in context: ProviderContext
    ) async throws -> ProviderMetadata {
        let discovery = Discovery(issuer: issuer, context: context)
        let places = try address.map { [$0] } ?? discovery.standardPlaces()
        for place in places {
            guard let json = try await discovery.document(at: place) else { continue }
            var metadata = try ProviderMetadata(json)
            // What the issuer's name leads to is the issuer's own; any other address was chosen elsewhere.
            let isOwn = try address.map { address in try discovery.standardPlaces().contains { $0.url == address.url } }
            metadata.document = isOwn == false ? .at(place.url) : .ofIssuer
            return metadata
        }
        let names = places.map { "\($0)" }.joined(separator: " nor at ")
        throw AuthError(
            .discoveryFailed,
            "No metadata document was found for the issuer \"\(issuer)\", neither at \(names). \(advice)"
        )
    }
}

/// The search for an issuer's metadata documents.
struct Discovery: Sendable {
    let issuer: String
    let context: ProviderContext

    /// Where an issuer's documents are, by the standards: that of OpenID Connect first.
    func standardPlaces() throws -> [Endpoint] {
        let home = try home()
        let path = home.path.hasSuffix("/") ? String(home.path.dropLast()) : home.path
        return [
            // OIDC Discovery section 4: appended, "any terminating / MUST be removed".
            try Endpoint("\(home.scheme)://\(home.authority)\(path)/.well-known/openid-configuration"),
            // RFC 8414 section 3.1: inserted between the host and the path.
            try Endpoint("\(home.scheme)://\(home.authority)/.well-known/oauth-authorization-server\(path)"),
        ]
    }

    private func home() throws -> Endpoint {
        let home = try Endpoint(issuer, name: "issuer")
        guard home.query == nil else {
            throw AuthError(
                .invalidConfiguration,
                "The issuer \"\(home)\" has a query, which RFC 8414 section 2 forbids."
            )
        }
        return home
    }

    /// The document at an address; nil when there is none.
    /// - Throws: ``AuthError`` with `discovery_failed` when something else than a document is there, and `issuer_mismatch` when
    ///   the document is that of another issuer.
    func document(at place: Endpoint) async throws -> JSON? {
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
                "\(call) answered with status \(response.status). Is \"\(issuer)\" the provider's issuer?",
                providerError: response.providerError,
                status: response.status
            )
        }
        let json: JSON
        do throws(AuthError) {
            json = try response.json(from: "\(call)")
        } catch {
            throw AuthError(.discoveryFailed, error.message, underlyingError: error)
        }
        let named = json["issuer"]?.string ?? ""
        // OIDC Discovery section 4.3: "The issuer value returned MUST be identical to the Issuer URL that was used as the
        // prefix to /.well-known/openid-configuration to retrieve the configuration information."
        guard named.isIdentical(to: issuer) || named.isEmpty else {
            throw AuthError(
                .issuerMismatch,
                """
                The metadata found for the issuer "\(issuer)" is that of "\(Redaction.url(named))". They must be identical to \
                the last character. If the second is right, write it in the configuration.
                """
            )
        }
        return json
    }
}

extension Engine {
    /// The provider's metadata, when it has an endpoint or none can be found. A provider may describe in its RFC 8414 document
    /// what the one of OpenID Connect lacks: that document is looked for once, when something is missing.
    func metadata(with path: KeyPath<ProviderMetadata, Endpoint?>) async throws -> ProviderMetadata {
        let metadata = try await metadata()
        guard metadata[keyPath: path] == nil, metadata.document == .ofIssuer else { return metadata }
        do {
            return try await supplementedMetadata { [self] in try await supplemented(metadata) }
        } catch is AuthError {
            // What is missing stays missing for now.
            return metadata
        }
    }

    private func supplemented(_ metadata: ProviderMetadata) async throws -> ProviderMetadata {
        let discovery = Discovery(issuer: metadata.issuer, context: context)
        guard let place = try discovery.standardPlaces().last else { return metadata }
        let other: ProviderMetadata
        do {
            guard let document = try await discovery.document(at: place) else { return metadata }
            other = try ProviderMetadata(document)
        } catch let error as AuthError where error.isPassing {
            throw error
        } catch is AuthError {
            // There is no second document, or it cannot be used.
            return metadata
        }
        var members = metadata.json.object ?? [:]
        for (name, path) in ProviderMetadata.endpointNames where metadata[keyPath: path] == nil {
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
