public import AuthFlow
public import HTTPTypes

/// A provider for tests and trials: a function from requests to responses, and the origins it answers at.
///
/// The same emulator answers in process (``InProcessTransport``) and over a socket (``EmulatorServer``).
public protocol ProviderEmulator: Sendable {
    /// The origins it answers at, such as `https://id.example.com`.
    var origins: [String] { get }

    /// Answers a request.
    func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse
}
