import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Testing

@testable import AuthFlowOAuth

/// Userinfo for tokens without an ID Token, which the device flow may return.
@Suite struct UserInfoWithoutIDTokenTests {
    private let environment: EmulatorEnvironment
    private let client: OAuthClient

    init() throws {
        environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        client = OAuthClient(
            server: environment.server(),
            registration: try ClientRegistration(EmulatorEnvironment.registration())
        )
    }

    private func signIn() async throws -> Credential {
        let request = try await client.authorizationRequest()
        return try await client.exchange(try await environment.visit(request.url), for: request)
    }

    @Test(arguments: [nil, "other", 5] as [JSON?])
    func theUserInfoMustBeAboutTheSignedInUser(_ subject: JSON?) async throws {
        let credential = try await signIn()
        var tokens = credential.tokens
        tokens.verifiedIDToken = nil
        #expect(try await client.userInfo(tokens, of: credential)["sub"] == "248289761001")
        environment.emulator.fault = .userInfo(.member("sub", subject))
        let error = await #expect(throws: AuthError.self) { try await client.userInfo(tokens, of: credential) }
        #expect(error?.code == .invalidUserInfo)
        #expect(error?.message.contains("not the identifier of the signed-in user") == true, "\(error as Any)")
    }

    @Test(arguments: [nil, "", 5] as [JSON?])
    func userInfoWithoutASubjectDoesNotIdentifyAUser(_ subject: JSON?) async throws {
        var tokens = try await signIn().tokens
        tokens.verifiedIDToken = nil
        #expect(try await client.identityFromUserInfo(tokens)?.subject == "248289761001")
        environment.emulator.fault = .userInfo(.member("sub", subject))
        let error = await #expect(throws: AuthError.self) { try await client.identityFromUserInfo(tokens) }
        #expect(error?.code == .invalidUserInfo)
        #expect(error?.message.contains("the user cannot be identified") == true, "\(error as Any)")
    }

    @Test func userInfoDoesNotIdentifyAUserWhoHasAnIDToken() async throws {
        let tokens = try await signIn().tokens
        #expect(try await client.identityFromUserInfo(tokens) == nil)
    }
}
