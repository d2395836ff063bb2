public import AuthFlow
public import HTTPTypes

/// Hands calls to emulators in this process, by the origin they are for. There is no network.
public struct InProcessTransport: HTTPTransport {
    private let handlers: [String: @Sendable (HTTPRequest, [UInt8]) async throws -> HTTPReply]

    /// Creates a transport to these providers.
    public init(_ emulators: any ProviderEmulator...) {
        var handlers: [String: @Sendable (HTTPRequest, [UInt8]) async throws -> HTTPReply] = [:]
        for emulator in emulators {
            for origin in emulator.origins { handlers[origin] = { await emulator.handle($0, body: $1) } }
        }
        self.handlers = handlers
    }

    /// Creates a transport to a function that answers for one origin.
    public init(origin: String, handler: @escaping @Sendable (HTTPRequest, [UInt8]) async throws -> HTTPReply) {
        self.handlers = [origin: handler]
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func send(_ call: HTTPCall) async throws -> HTTPReply {
        try Task.checkCancellation()
        guard let handler = handlers[try Endpoint(call.url).origin] else {
            throw AuthError(.networkFailed, "Nothing answers at \(call.request.authority ?? "").")
        }
        let reply = try await handler(call.request, call.body)
        guard reply.body.count <= call.maximumReplySize else {
            throw AuthError(.invalidReply, "\(call) answered with more than \(call.maximumReplySize) bytes.")
        }
        return reply
    }
}
