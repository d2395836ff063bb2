public import AuthFlowJSON
import HTTPTypes

/// What the engine lends an adapter while it works: the client's settings, and a way to ask the provider something.
public struct ProviderContext: Sendable {
    /// The settings of the client.
    public let settings: ClientSettings

    /// Time and randomness.
    public let host: HostServices

    private let transport: any HTTPTransport
    private let knownMetadata: @Sendable () async throws -> ProviderMetadata

    init(
        settings: ClientSettings,
        host: HostServices,
        transport: any HTTPTransport,
        metadata: @escaping @Sendable () async throws -> ProviderMetadata
    ) {
        self.settings = settings
        self.host = host
        self.transport = transport
        self.knownMetadata = metadata
    }

    /// The provider's metadata, fetched once. Not to be asked from ``ProviderAdapter/metadata(in:)``, which answers it.
    public func metadata() async throws -> ProviderMetadata {
        try await knownMetadata()
    }

    /// Sends a call, bounded in time and size, following no redirect.
    /// - Throws: What ``HTTPTransport/send(_:)`` throws, or ``AuthError`` with `invalid_reply` for a redirect.
    public func send(_ call: HTTPCall) async throws -> HTTPReply {
        let transport = self.transport
        // The time is that of the whole exchange: a server that sends a byte now and then does not stretch it.
        let reply = try await withDeadline(call.timeout, clock: host.clock) {
            AuthError(.timedOut, "\(call) took longer than \(Int(call.timeout.seconds)) seconds.")
        } _: {
            try await transport.send(call)
        }
        // A redirect would carry the code, the secret or the token to an address nobody configured.
        guard !(300..<400).contains(reply.status) else {
            throw AuthError(
                .invalidReply,
                "\(call) answered with a redirect (\(reply.status)), which is never followed here."
            )
        }
        return reply
    }

    /// Fetches a JSON document.
    /// - Throws: What ``send(_:)`` throws; ``AuthError`` with `invalid_reply` when the status is not 200, or it is not JSON.
    public func document(at endpoint: Endpoint) async throws -> JSON {
        let reply = try await send(HTTPCall(.get, endpoint, headerFields: [.accept: "application/json"]))
        guard reply.status == 200 else {
            throw AuthError(
                .invalidReply,
                "\(endpoint) answered with status \(reply.status) where a document was expected."
            )
        }
        return try reply.json(from: "\(endpoint)")
    }
}
