public import AuthFlow

/// Sends requests to emulators in this process, selected by origin, without a network.
public struct InProcessTransport: HTTPTransport {
    private let handlers: [String: @Sendable (HTTPRequest, [UInt8]) async throws -> TransportResponse]

    /// Creates a transport to these providers.
    public init(_ emulators: any ProviderEmulator...) {
        var handlers: [String: @Sendable (HTTPRequest, [UInt8]) async throws -> TransportResponse] = [:]
        for emulator in emulators {
            for origin in emulator.origins {
                handlers[origin] = { request, body in
                    var request = request
                    // The system's transport adds this field, too, and GitHub's API requires it.
                    if request.headerFields[.userAgent] == nil {
                        request.headerFields[.userAgent] = NetworkSettings().productName
                    }
                    return await emulator.handle(request, body: body)
                }
            }
        }
        self.handlers = handlers
    }

    /// Creates a transport to a function that handles the requests to one origin.
    public init(origin: String, handler: @escaping @Sendable (HTTPRequest, [UInt8]) async throws -> TransportResponse) {
        self.handlers = [origin: handler]
    }

    public func send(_ call: TransportRequest) async throws -> TransportResponse {
        try Task.checkCancellation()
        let named = "\(call.head.scheme ?? "")://\(call.head.authority ?? "")"
        // A URL may contain the default port explicitly.
        guard let handler = try handlers[named] ?? handlers[Endpoint(call.url).origin] else {
            throw AuthError(.networkFailed, "No emulator listens at \(call.head.authority ?? "").")
        }
        try call.willSend()
        let response = try await handler(call.head, call.body)
        guard response.body.count <= call.maximumResponseSize else {
            throw AuthError(.invalidResponse, "\(call) responded with more than \(call.maximumResponseSize) bytes.")
        }
        return response
    }
}
