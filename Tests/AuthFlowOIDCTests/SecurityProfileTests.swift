import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Foundation
import Testing

/// The FAPI 2.0 profiles: one setting makes the whole client conform, and settings that break it are refused.
@Suite struct SecurityProfileTests {
    private static func values(_ change: (inout ClientRegistration.Values) throws -> Void = { _ in }) throws
        -> ClientRegistration.Values
    {
        var values = ClientRegistration.Values(clientID: "machine")
        values.redirectURIs = ["http://127.0.0.1:8400/callback"]
        values.authentication = .privateKeyJWT(SigningKeySource(try PrivateKey()))
        values.securityProfile = .fapi2
        try change(&values)
        return values
    }

    @Test func theProfileDecidesWhatItDemands() throws {
        let registration = try ClientRegistration(Self.values())
        #expect(registration.usesDPoP)
        #expect(registration.pushedRequests == .always)
        let signing = try ClientRegistration(
            Self.values {
                $0.securityProfile = .fapi2MessageSigning
                $0.requestObjectKey = SigningKeySource(try PrivateKey())
            }
        )
        #expect(signing.responseMode == .jwt)
    }

    struct Breach: CustomTestStringConvertible {
        let name: String
        let clause: String
        let change: @Sendable (inout ClientRegistration.Values) throws -> Void
        var testDescription: String { name }
    }

    static let breaches: [Breach] = [
        Breach(name: "a public client", clause: "5.3.3.1, 2") { $0.authentication = .none },
        Breach(name: "a secret", clause: "5.3.3.1, 2") { $0.authentication = .clientSecretBasic(Secret("s")) },
        Breach(name: "a secret that signs", clause: "5.3.3.1, 2") {
            $0.authentication = .clientSecretJWT(Secret(String(repeating: "s", count: 32)))
        },
        Breach(name: "another audience", clause: "5.3.3.1, 5") {
            $0.authentication = .privateKeyJWT(SigningKeySource(try PrivateKey()), audience: .tokenEndpoint)
        },
        Breach(name: "assertions by RS256", clause: "5.4.1") {
            $0.authentication = .privateKeyJWT(SigningKeySource(try PrivateKey()), algorithm: .rs256)
        },
        Breach(name: "no pushed requests", clause: "5.3.3.2, 2") { $0.pushedRequests = .never },
        Breach(name: "ID Tokens by RS256", clause: "5.4.1") { $0.idTokenSigningAlgorithms = [.rs256] },
        Breach(name: "no key to sign requests with", clause: "Message Signing section 5.3.2") {
            $0.securityProfile = .fapi2MessageSigning
        },
        Breach(name: "responses that are not signed", clause: "Message Signing section 5.4.2") {
            $0.securityProfile = .fapi2MessageSigning
            $0.requestObjectKey = SigningKeySource(try PrivateKey())
            $0.responseMode = .formPost
        },
    ]

    @Test(arguments: breaches) func refusesWhatBreaksTheProfileAndNamesTheClause(_ breach: Breach) throws {
        let error = #expect(throws: AuthError.self) { try ClientRegistration(Self.values(breach.change)) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains(breach.clause) == true, "\(error?.message ?? "")")
    }

    @Test(arguments: SecurityProfile.allCases, EmulatorScene.Setting.allCases)
    func signsInUnderTheProfile(_ profile: SecurityProfile, _ setting: EmulatorScene.Setting) async throws {
        let key = try PrivateKey()
        var registered = ClientAssertionTests.client(key)
        registered.assertionAudiences = [.issuer]
        registered.mustPushRequests = true
        registered.mustSignRequests = profile == .fapi2MessageSigning
        try await EmulatorScene.with(setting, clients: [registered]) { scene in
            scene.emulator.pushedRequests = .always
            scene.emulator.dpop = .requiredWithNonce
            scene.emulator.resourceWantsNonce = true
            let values = try Self.values {
                $0.securityProfile = profile
                $0.authentication = .privateKeyJWT(SigningKeySource(key))
                $0.scopes = ["openid", "profile", "offline_access"]
                if profile == .fapi2MessageSigning { $0.requestObjectKey = SigningKeySource(key) }
            }
            let client = try scene.client(registration: values)
            let credential = try await client.signIn().credential
            #expect(credential.identity?.displayName == "Alice Example")
            #expect(credential.tokens.tokenType == "DPoP")
            _ = try await client.refresh()
            let visited = scene.emulator.receivedRequests.filter { $0.path == "/authorize" }
            #expect(visited.allSatisfy { $0.query.names.sorted() == ["client_id", "request_uri"] })
        }
    }

    /// FAPI 2.0 section 5.4.1: neither assertions nor requests are signed by another algorithm, whatever the provider announces.
    @Test(arguments: [
        "token_endpoint_auth_signing_alg_values_supported", "request_object_signing_alg_values_supported",
    ]) func signsNothingByAnotherAlgorithm(_ member: String) async throws {
        let key = try PrivateKey(pem: PrivateKey(generatedFor: .rs256).pem)
        let scene = EmulatorScene(
            try OIDCEmulator(issuer: "https://id.example.com", clients: [ClientAssertionTests.client(key)])
        )
        scene.emulator.pushedRequests = .always
        scene.emulator.fault = .metadata(.member(member, ["RS256"]))
        let values = try Self.values {
            $0.authentication = .privateKeyJWT(SigningKeySource(key))
            $0.securityProfile = .fapi2MessageSigning
            $0.requestObjectKey = SigningKeySource(key)
        }
        let error = await #expect(throws: AuthError.self) { try await scene.client(registration: values).signIn() }
        #expect(error?.code == .unsupported)
        #expect(!scene.emulator.requests.contains("POST /par"))
    }

    /// FAPI 2.0 section 5.4.1: tokens by other algorithms are refused, whatever the provider announces.
    @Test func refusesAnIDTokenByAnotherAlgorithm() async throws {
        let key = try PrivateKey()
        let scene = EmulatorScene(
            try OIDCEmulator(issuer: "https://id.example.com", clients: [ClientAssertionTests.client(key)])
        )
        scene.emulator.pushedRequests = .always
        scene.emulator.signingAlgorithm = .rs256
        let values = try Self.values { $0.authentication = .privateKeyJWT(SigningKeySource(key)) }
        let error = await #expect(throws: AuthError.self) { try await scene.client(registration: values).signIn() }
        #expect(error?.code == .invalidIDToken)
    }
}
