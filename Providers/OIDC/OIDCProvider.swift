public import AuthFlow

/// A provider that follows OpenID Connect, or OAuth 2.0 with a metadata document: the adapter without quirks.
public struct OIDCProvider: Sendable {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public let id: ProviderID = "oidc"

    private let source: Source

    private enum Source: Sendable {
        case issuer(String)
        case fixed(ProviderMetadata)
    }

    /// Creates a provider whose endpoints are found from its issuer (OpenID Connect Discovery, RFC 8414).
    /// - Parameter issuer: The issuer, exactly as the provider writes it.
    public init(issuer: String) {
        self.source = .issuer(issuer)
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
        case .issuer(let issuer): try await discoveredMetadata(issuer: issuer, in: context)
        case .fixed(let metadata): metadata
        }
    }
}
