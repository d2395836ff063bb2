import AuthFlow
import AuthFlowTesting
import Expectations
import Foundation
import Testing

/// The emulator's handling of authorization codes, which is as strict as a provider's.
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
