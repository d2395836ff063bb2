import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import HTTPTypes
import Synchronization
import Testing

/// What a client reports about pushed authorization requests (RFC 9126) and authorization details (RFC 9396).
@Suite struct PushAdviceTests {
    private let environment: EmulatorEnvironment

    init() throws { environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com")) }

    @Test(arguments: [
        (PushedRequests.automatic, PushedRequests.automatic, true), (.always, .automatic, false),
        (.automatic, .always, false),
    ])
    func suggestsDisablingPushedRequestsOnlyIfNeitherSideRequiresThem(
        _ configured: PushedRequests,
        _ provider: PushedRequests,
        _ isSuggested: Bool
    ) async throws {
        environment.emulator.pushedRequests = provider
        environment.emulator.customResponse = { exchange in
            guard exchange.request.path == "/par" else { return exchange.response }
            return TransportResponse(
                head: HTTPResponse(status: .badRequest, headerFields: [.contentType: "application/json"]),
                body: Array(#"{"error": "unauthorized_client"}"#.utf8)
            )
        }
        var values = try EmulatorEnvironment.registration()
        values.pushedRequests = configured
        let client = try environment.client(registration: values)
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.providerError?.error == "unauthorized_client")
        #expect(error?.message.contains(#""par" to "never""#) == isSuggested, "\(error as Any)")
    }

    @Test(arguments: [("initiate", false), ("status", true)])
    func reportsTheGrantedAuthorizationDetailsOnlyIfTheyDiffer(_ action: String, _ isReported: Bool) async throws {
        let granted: JSON = [["type": "payment", "actions": [.string(action)]]]
        environment.emulator.fault = .tokenResponse(.member("authorization_details", granted))
        var options = AuthorizationOptions()
        options.authorizationDetails = [["type": "payment", "actions": ["initiate"]]]
        let wasReported = Mutex(false)
        let client = try environment.client { event in
            if event.details["granted"] != nil { wasReported.withLock { $0 = true } }
        }
        _ = try await client.signIn(options: options)
        #expect(wasReported.withLock { $0 } == isReported)
    }
}
