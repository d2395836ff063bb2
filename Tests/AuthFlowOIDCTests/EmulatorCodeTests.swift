import AuthFlow
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Testing

/// The emulator's handling of redirect URIs and authorization codes, which is as strict as a provider's.
@Suite struct EmulatorCodeTests {
    private let time = TestTime()
    private let environment: EmulatorEnvironment

    init() throws {
        let time = time
        environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", now: { time.now }))
    }

    private func client() throws -> OAuthClient {
        var values = try EmulatorEnvironment.registration()
        values.scopes = ["openid", "offline_access"]
        return OAuthClient(
            server: environment.server(host: time.host),
            registration: try ClientRegistration(values)
        )
    }

    @Test func reusingAnAuthorizationCodeRevokesItsTokens() async throws {
        let client = try client()
        let request = try await client.authorizationRequest()
        let callback = try await environment.visit(request.url)
        let credential = try await client.exchange(callback, for: request)
        _ = try await client.userInfo(credential.tokens)

        let thief = await #expect(throws: AuthError.self) { try await self.client().exchange(callback, for: request) }
        #expect(thief?.providerError?.error == "invalid_grant")
        await expectError(.accessTokenRejected) { try await client.userInfo(credential.tokens) }
        let refresh = await #expect(throws: AuthError.self) { try await client.refresh(credential).get() }
        #expect(refresh?.providerError?.error == "invalid_grant")
    }

    /// RFC 8252 section 7.3: the server "MUST allow any port to be specified at the time of the request for loopback IP
    /// redirect URIs".
    @Test(arguments: [
        ("http://127.0.0.1:8400/callback", "http://127.0.0.1:9000/callback", true),
        ("http://127.0.0.1:8400/callback", "http://127.0.0.1/callback", true),
        ("http://127.0.0.1/callback", "http://127.0.0.1:9000/callback", true),
        ("http://[::1]:8400/callback", "http://[::1]:9000/callback", true),
        ("http://127.0.0.1:8400/callback", "http://127.0.0.1:9000/other", false),
        ("http://127.0.0.1:8400/callback", "http://127.0.0.1:9000/callback?a=b", false),
        ("http://127.0.0.1:8400/callback", "http://localhost:9000/callback", false),
        ("https://app.example.com:8400/callback", "https://app.example.com:9000/callback", false),
    ]) func onlyALoopbackRedirectURIMayHaveAnUnregisteredPort(
        _ registered: String,
        _ requested: String,
        _ isAccepted: Bool
    ) async throws {
        let client = OIDCEmulator.Client(id: "app", redirectURIs: [registered])
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", clients: [client])
        let query = FormURLEncoding.encodeQuery([
            "client_id": "app", "redirect_uri": requested, "response_type": "code", "state": "0123456789abcdef",
            "code_challenge_method": "S256", "code_challenge": String(repeating: "c", count: 43),
        ])
        let request = HTTPRequest(
            method: .get,
            scheme: "https",
            authority: "id.example.com",
            path: "/authorize?\(query)"
        )
        let response = await emulator.handle(request, body: [])
        #expect(response.status == (isAccepted ? 200 : 400))
    }

    @Test func anAuthorizationCodeIsRejectedAfterTenMinutes() async throws {
        let client = try client()
        let request = try await client.authorizationRequest()
        let callback = try await environment.visit(request.url)
        time.advance(601)
        time.setError(-601)
        let error = await #expect(throws: AuthError.self) { try await client.exchange(callback, for: request) }
        #expect(error?.providerError?.error == "invalid_grant")
        #expect(error?.providerError?.errorDescription == "the code has expired")
    }
}
