public import AuthFlow

/// A provider for testing and development: a function from requests to responses, and the origins it serves.
///
/// The same emulator works in process (``InProcessTransport``) and over a socket (``EmulatorServer``).
public protocol ProviderEmulator: Sendable {
    /// The origins it serves, such as `https://id.example.com`.
    var origins: [String] { get }

    /// Returns the response to a request.
    func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse
}
