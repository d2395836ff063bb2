public import AuthFlowHTTP
public import AuthFlowJOSE
public import AuthFlowTransport

/// The metadata document at one of the issuer's well-known URLs.
struct DiscoveredMetadata: MetadataSource {
    let issuer: String
    let tokenIssuer: TokenIssuerTemplate?

    func metadata(in context: ServerContext) async throws -> ProviderMetadata {
        try await context.discover(tokenIssuer: tokenIssuer)
    }
}

extension AuthorizationServer {
    /// Creates a server that implements OpenID Connect, or OAuth 2.0 with a metadata document.
    /// - Parameters:
    ///   - issuer: The issuer, exactly as in the provider's metadata.
    ///   - tokenIssuer: The template for the issuers in tokens, if each tenant has its own issuer; default: the issuer.
    ///     The metadata may then contain the template instead of the issuer.
    ///   - transport: Sends every request to this server; default: the system's.
    ///   - host: The clock, random number generator and environment; default: the system's.
    public convenience init(
        issuer: String,
        tokenIssuer: TokenIssuerTemplate? = nil,
        transport: any HTTPTransport = SystemTransport(),
        host: HostServices = .system
    ) {
        self.init(DiscoveredMetadata(issuer: issuer, tokenIssuer: tokenIssuer), transport: transport, host: host)
    }
}
