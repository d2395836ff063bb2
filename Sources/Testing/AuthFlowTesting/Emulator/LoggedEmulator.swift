public import AuthFlow

/// An emulator that logs each request and its response in one line: the method, the path without the query, and the status.
public struct LoggedEmulator<Base: ProviderEmulator>: ProviderEmulator {
    /// The emulator.
    public let base: Base
    private let log: @Sendable (String) -> Void

    /// Wraps an emulator.
    public init(_ base: Base, log: @escaping @Sendable (String) -> Void) {
        self.base = base
        self.log = log
    }

    public var origins: [String] { base.origins }

    public func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        let response = await base.handle(request, body: body)
        let path = DisplayText.sanitized(String((request.path ?? "/").prefix { $0 != "?" }), limit: 200)
        log("\(DisplayText.sanitized(request.method.rawValue, limit: 20)) \(path) \(response.status)")
        return response
    }
}
