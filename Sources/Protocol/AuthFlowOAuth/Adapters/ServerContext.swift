public import AuthFlowHTTP

/// The means that an adapter has while it finds the metadata of its server, before any client is involved.
public struct ServerContext: Sendable {
    let server: AuthorizationServer

    /// Time and randomness.
    public var host: HostServices { server.host }

    /// Sends a request, bounded in time and size, following no redirect.
    /// - Throws: What ``HTTPTransport/send(_:)`` throws, or ``AuthError`` with `invalid_reply` for a redirect.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        try await server.send(request)
    }
}
