public import AuthFlowHTTP

/// The context of an adapter that fetches the metadata of its server, before any client is involved.
public struct ServerContext: Sendable {
    /// The adapter's issuer.
    let issuer: String

    /// The clock and random number generator.
    public let host: HostServices

    private let sendRequest: @Sendable (TransportRequest) async throws -> TransportResponse

    init(
        issuer: String,
        host: HostServices,
        send: @escaping @Sendable (TransportRequest) async throws -> TransportResponse
    ) {
        self.issuer = issuer
        self.host = host
        self.sendRequest = send
    }

    /// Sends a request with limits on time and size, without following redirects.
    /// - Throws: Any error thrown by ``HTTPTransport/send(_:)``, or ``AuthError`` with `invalid_reply` for a redirect.
    public func send(_ request: TransportRequest) async throws -> TransportResponse { try await sendRequest(request) }
}
