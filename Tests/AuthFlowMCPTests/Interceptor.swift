import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import HTTPTypes
import Synchronization

/// Replaces responses of an emulator, and records the requests.
final class Interceptor: HTTPTransport {
    typealias Response = @Sendable (TransportRequest) -> TransportResponse?
    private let base: any HTTPTransport
    private struct State {
        var response: Response?
        var fails = false
        var authorizations: [FormParameters] = []
        var requests: [TransportRequest] = []
    }
    private let state = Mutex(State())

    init(_ base: any HTTPTransport) { self.base = base }

    /// An environment with refresh tokens, and the interceptor of its requests.
    static func environment(tokenLifetime: Int = 3600) -> (Interceptor, ResourceEnvironment) {
        var settings = ResourceSettings()
        settings.refreshes = true
        settings.tokenLifetime = tokenLifetime
        let emulator = ProtectedResourceEmulator(origin: "https://api.example.com", settings: settings)
        let interceptor = Interceptor(InProcessTransport(emulator))
        return (interceptor, ResourceEnvironment(emulator: emulator, transport: interceptor))
    }

    func respond(_ response: @escaping Response) { state.withLock { $0.response = response } }
    func failTokenRequestOnce() { state.withLock { $0.fails = true } }
    var authorizations: [FormParameters] { state.withLock { $0.authorizations } }

    /// The requests with this path.
    func requests(to path: String) -> [TransportRequest] {
        state.withLock { $0.requests.filter { ($0.head.path ?? "").prefix { $0 != "?" } == path } }
    }

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        let path = call.head.path ?? ""
        let (response, fails) = state.withLock { state in
            state.requests.append(call)
            if path.hasPrefix("/authorize?"), let query = FormURLEncoding.decode(path.dropFirst("/authorize?".count)) {
                state.authorizations.append(query)
            }
            let fails = state.fails && path == "/token"
            if fails { state.fails = false }
            return (state.response, fails)
        }
        if fails { return jsonResponse(.unauthorized, ["error": "invalid_client"]) }
        if let response = response?(call) { return response }
        return try await base.send(call)
    }
}

func jsonResponse(_ status: HTTPResponse.Status, _ json: JSON) -> TransportResponse {
    let fields: HTTPFields = [.contentType: "application/json"]
    return TransportResponse(
        head: HTTPResponse(status: status, headerFields: fields),
        body: (try? json.serialized()) ?? []
    )
}
