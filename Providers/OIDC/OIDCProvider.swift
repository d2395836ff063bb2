public import AuthFlow

/// A provider that follows OpenID Connect, or OAuth 2.0 with a metadata document: the adapter without quirks.
public struct OIDCProvider: Sendable {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public let id: ProviderID = "oidc"

    private let source: Source

    private enum Source: Sendable {
        case issuer(String, endpoints: ProviderMetadata?)
        case fixed(ProviderMetadata)
    }

    /// Creates a provider whose endpoints are found from its issuer (OpenID Connect Discovery, RFC 8414).
    /// - Parameters:
    ///   - issuer: The issuer, exactly as the provider writes it.
    ///   - endpoints: Endpoints that are given by hand, in place of discovered ones or beside them; nil for none.
    public init(issuer: String, endpoints: ProviderMetadata? = nil) {
        self.source = .issuer(issuer, endpoints: endpoints)
    }

    /// Creates a provider whose endpoints are given by hand.
    /// - Parameter metadata: The issuer and the endpoints. ID Tokens are verified with the keys at `jwksURI`.
    public init(metadata: ProviderMetadata) {
        self.source = .fixed(metadata)
    }
}

extension OIDCProvider: ProviderAdapter {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func metadata(in context: ProviderContext) async throws -> ProviderMetadata {
        switch source {
        case .fixed(let metadata): return metadata
        case .issuer(let issuer, let endpoints):
            var metadata = try await discoveredMetadata(
                issuer: issuer,
                advice: "Check the issuer, or give the endpoints by hand (\"endpoints\").",
                in: context
            )
            if let endpoints { metadata.replaceEndpoints(by: endpoints) }
            return metadata
        }
    }
}
