import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import HTTPTypes
import Testing

/// The user's claims from the ID Token and from userinfo.
@Suite struct UserClaimsTests {
    private func identity(idToken: [String: JSON], userInfo: [String: JSON]) async throws -> Identity? {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        let ofUser: Set<String> = ["email", "email_verified", "phone_number", "phone_number_verified"]
        environment.emulator.fault = .idToken(
            .claims { claims in
                claims = claims.filter { !ofUser.contains($0.key) }.merging(idToken) { $1 }
            }
        )
        environment.emulator.customResponse = { exchange in
            guard exchange.request.path == "/userinfo" else { return exchange.response }
            let claims = userInfo.merging(["sub": "248289761001"]) { $1 }
            return TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                body: (try? JSON.object(claims).serialized()) ?? []
            )
        }
        return try await environment.client().signIn().identity
    }

    @Test func aNameOfInvisibleCharactersIsNotDisplayed() {
        let claims: JSON = ["name": "\u{202E}\u{200B} ", "email": "alice@example.com"]
        #expect(Identity(issuer: "i", subject: "s", claims: claims).displayName == "alice@example.com")
        #expect(Identity(issuer: "i", subject: "s", claims: ["name": "\u{200B}"]).displayName == "s")
    }

    struct Case: CustomTestStringConvertible {
        let testDescription: String
        var idToken: [String: JSON] = [:]
        var userInfo: [String: JSON] = [:]
        let email: String?
        let isVerified: Bool?
    }

    /// OIDC Core section 5.1: `email_verified` refers to the `email` in the same claims.
    @Test(arguments: [
        Case(
            testDescription: "both in userinfo",
            userInfo: ["email": "a@example.com", "email_verified": true],
            email: "a@example.com",
            isVerified: true
        ),
        Case(
            testDescription: "both in the ID Token",
            idToken: ["email": "a@example.com", "email_verified": true],
            userInfo: ["email": "b@example.com", "email_verified": false],
            email: "a@example.com",
            isVerified: true
        ),
        Case(
            testDescription: "the same address in both",
            idToken: ["email": "a@example.com"],
            userInfo: ["email": "a@example.com", "email_verified": true],
            email: "a@example.com",
            isVerified: true
        ),
        Case(
            testDescription: "a different email address is verified",
            idToken: ["email": "victim@example.com"],
            userInfo: ["email": "attacker@example.com", "email_verified": true],
            email: "victim@example.com",
            isVerified: nil
        ),
        Case(
            testDescription: "the ID Token has email_verified, but no email",
            idToken: ["email_verified": true],
            userInfo: ["email": "attacker@example.com"],
            email: "attacker@example.com",
            isVerified: nil
        ),
        Case(
            testDescription: "userinfo has email_verified, but no email",
            idToken: ["email": "victim@example.com"],
            userInfo: ["email_verified": true],
            email: "victim@example.com",
            isVerified: nil
        ),
        Case(
            testDescription: "a string, which Apple and Amazon Cognito send",
            userInfo: ["email": "a@example.com", "email_verified": "true"],
            email: "a@example.com",
            isVerified: true
        ),
        Case(
            testDescription: "null in the ID Token, as some servers send for absent claims",
            idToken: ["email": .null, "email_verified": .null],
            userInfo: ["email": "a@example.com", "email_verified": true],
            email: "a@example.com",
            isVerified: true
        ),
    ])
    func emailVerifiedAppliesOnlyToTheEmailInTheSameClaims(_ test: Case) async throws {
        let identity = try await identity(idToken: test.idToken, userInfo: test.userInfo)
        #expect(identity?.email == test.email)
        #expect(identity?.isEmailVerified == test.isVerified)
    }

    @Test func ignoresAuthenticationClaimsFromUserInfo() async throws {
        let userInfo: [String: JSON] = ["acr": "mfa", "sid": "S", "amr": ["otp"], "zip": "1"]
        let identity = try await identity(idToken: [:], userInfo: userInfo)
        #expect(identity?.claims["zip"] == "1")
        for name in ["acr", "sid", "amr", "iss", "aud"] { #expect(identity?.claims[name] == nil) }
    }
}
