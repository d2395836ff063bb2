public import AuthFlowHTTP
public import AuthFlowTransport

/// A provider without quirks: OpenID Connect, or OAuth 2.0 with a metadata document.
struct StandardProvider: ProviderAdapter {
    let issuer: String

    func metadata(in context: ServerContext) async throws -> ProviderMetadata { try await context.discover() }
}

extension AuthorizationServer {
    /// Creates a server that follows OpenID Connect, or OAuth 2.0 with a metadata document.
    /// - Parameters:
    ///   - issuer: The issuer, exactly as the provider writes it.
    ///   - transport: Sends every request that is about this server; default: the system's.
    ///   - host: Time, randomness and environment; default: the system's.
    public convenience init(
        issuer: String,
        transport: any HTTPTransport = SystemTransport(),
        host: HostServices = .system
    ) {
        self.init(StandardProvider(issuer: issuer), transport: transport, host: host)
    }
}
