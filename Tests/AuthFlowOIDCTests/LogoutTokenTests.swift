import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import Foundation
import Testing

/// Invalid claims of logout tokens (OpenID Connect Back-Channel Logout 1.0 section 2.6), in addition to the rows of the
/// conformance table.
@Suite struct LogoutTokenTests {
    private func verify(
        _ changes: [String: JSON],
        _ options: LogoutTokenOptions = LogoutTokenOptions()
    ) async throws -> LogoutToken {
        let time = TestTime()
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", now: { time.now }))
        let token = try environment.emulator.logoutToken(
            for: OIDCEmulator.Client.demo.id,
            subject: "alice",
            sessionID: "session"
        ) { _, claims in claims.merge(changes) { $1 } }
        return try await environment.client(host: time.host).client.verify(logoutToken: Secret(token), options)
    }

    struct Invalid: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let claims: [String: JSON]
        let words: String
    }

    private static let users = "sub and sid are missing, or one of them is invalid"

    /// If an invalid `sub` or `sid` were ignored, the token would end sessions that the provider did not intend to end.
    @Test(arguments: [
        Invalid(testDescription: "a sub that is not a string, with a sid", claims: ["sub": 7], words: users),
        Invalid(testDescription: "a null sub, with a sid", claims: ["sub": .null], words: users),
        Invalid(testDescription: "a sid that is not a string, with a sub", claims: ["sid": ["session"]], words: users),
        Invalid(testDescription: "an empty sub", claims: ["sub": ""], words: users),
        Invalid(testDescription: "an empty sid", claims: ["sid": ""], words: users),
        Invalid(testDescription: "an empty jti", claims: ["jti": ""], words: "no usable \"jti\" claim"),
        Invalid(testDescription: "a jti that is not a string", claims: ["jti": 7], words: "no usable \"jti\" claim"),
        Invalid(
            testDescription: "a jti of more than 1024 bytes",
            claims: ["jti": .string(String(repeating: "j", count: 1025))],
            words: "no usable \"jti\" claim"
        ),
    ])
    func rejectsALogoutTokenWithAnInvalidClaim(_ invalid: Invalid) async throws {
        let error = await #expect(throws: AuthError.self) { try await verify(invalid.claims) }
        #expect(error?.code == .invalidLogoutToken)
        #expect(error?.message.contains(invalid.words) == true, "\(error?.message ?? "")")
    }

    @Test func readsTheUserTheSessionAndTheIdentifierOfALogoutToken() async throws {
        let identifier = String(repeating: "j", count: 1024)
        let token = try await verify(["jti": .string(identifier)])
        #expect(token.subject == "alice" && token.sessionID == "session" && token.identifier == identifier)
    }

    /// Some servers send null instead of omitting a claim.
    @Test func aNullExpiryOfALogoutTokenIsAbsent() async throws {
        await expectError(.invalidLogoutToken) { try await verify(["exp": .null]) }
        let token = try await verify(["exp": .null], LogoutTokenOptions(maximumAgeWithoutExpiry: .seconds(120)))
        #expect(token.acceptedUntil == token.issuedAt + 180)
    }
}
