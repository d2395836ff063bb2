import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Foundation
import Testing

/// The FAPI 2.0 profiles: one setting makes the whole client conform, and conflicting settings are rejected.
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

    @Test func theSecurityProfileEnablesItsRequiredSettings() throws {
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
        Breach(name: "a public client", clause: "5.3.3.1, item 2") { $0.authentication = .none },
        Breach(name: "a secret", clause: "5.3.3.1, item 2") { $0.authentication = .clientSecretBasic(Secret("s")) },
        Breach(name: "a secret that signs assertions", clause: "5.3.3.1, item 2") {
            $0.authentication = .clientSecretJWT(Secret(String(repeating: "s", count: 32)))
        },
        Breach(name: "another audience", clause: "5.3.3.1, item 5") {
            $0.authentication = .privateKeyJWT(SigningKeySource(try PrivateKey()), audience: .tokenEndpoint)
        },
        Breach(name: "assertions signed with RS256", clause: "5.4.1") {
            $0.authentication = .privateKeyJWT(SigningKeySource(try PrivateKey()), algorithm: .rs256)
        },
        Breach(name: "no pushed requests", clause: "5.3.3.2, item 2") { $0.pushedRequests = .never },
        Breach(name: "pushed parameters repeated in the authorization URL", clause: "5.3.3.2, item 6") {
            $0.repeatedPushedParameters = [.scope]
        },
        Breach(name: "request objects by reference", clause: "5.3.3.2, item 2") {
            $0.requestObjectReference = RequestObjectReference { _ in "https://client.example.com/request" }
        },
        Breach(name: "ID Tokens signed with RS256", clause: "5.4.1") { $0.idTokenSigningAlgorithms = [.rs256] },
        Breach(name: "no request signing key", clause: "Message Signing section 5.3.2") {
            $0.securityProfile = .fapi2MessageSigning
        },
        Breach(name: "unsigned responses", clause: "Message Signing section 5.4.2") {
            $0.securityProfile = .fapi2MessageSigning
            $0.requestObjectKey = SigningKeySource(try PrivateKey())
            $0.responseMode = .formPost
        },
    ]

    @Test(arguments: breaches) func rejectsSettingsThatViolateTheProfileAndCitesTheClause(_ breach: Breach) throws {
        let error = #expect(throws: AuthError.self) { try ClientRegistration(Self.values(breach.change)) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains(breach.clause) == true, "\(error?.message ?? "")")
    }

    @Test(arguments: SecurityProfile.allCases, EmulatorEnvironment.Setting.allCases)
    func signsInWithEachFAPI2Profile(_ profile: SecurityProfile, _ setting: EmulatorEnvironment.Setting) async throws {
        let key = try PrivateKey()
        var registered = ClientAssertionTests.client(key)
        registered.assertionAudiences = [.issuer]
        registered.mustPushRequests = true
        registered.mustSignRequests = profile == .fapi2MessageSigning
        try await EmulatorEnvironment.with(setting, clients: [registered]) { environment in
            environment.emulator.pushedRequests = .always
            environment.emulator.dpop = .requiredWithNonce
            environment.emulator.resourceRequiresNonce = true
            let values = try Self.values {
                $0.securityProfile = profile
                $0.authentication = .privateKeyJWT(SigningKeySource(key))
                $0.scopes = ["openid", "profile", "offline_access"]
                if profile == .fapi2MessageSigning { $0.requestObjectKey = SigningKeySource(key) }
            }
            let client = try environment.client(registration: values)
            let credential = try await client.signIn().credential
            #expect(credential.identity?.displayName == "Alice Example")
            #expect(credential.tokens.tokenType == "DPoP")
            _ = try await client.refresh()
            let visited = environment.emulator.receivedRequests.filter { $0.path == "/authorize" }
            #expect(visited.allSatisfy { $0.query.names.sorted() == ["client_id", "request_uri"] })
        }
    }

    /// FAPI 2.0 section 5.4.1: assertions and requests are signed only with the permitted algorithms, whatever the
    /// provider advertises.
    @Test(arguments: [
        "token_endpoint_auth_signing_alg_values_supported", "request_object_signing_alg_values_supported",
    ]) func doesNotSignWithAlgorithmsOutsideTheProfile(_ member: String) async throws {
        let key = try PrivateKey(pem: PrivateKey(generatedFor: .rs256).pem)
        let environment = EmulatorEnvironment(
            try OIDCEmulator(issuer: "https://id.example.com", clients: [ClientAssertionTests.client(key)])
        )
        environment.emulator.pushedRequests = .always
        environment.emulator.fault = .metadata(.member(member, ["RS256"]))
        let values = try Self.values {
            $0.authentication = .privateKeyJWT(SigningKeySource(key))
            $0.securityProfile = .fapi2MessageSigning
            $0.requestObjectKey = SigningKeySource(key)
        }
        let error = await #expect(throws: AuthError.self) {
            try await environment.client(registration: values).signIn()
        }
        #expect(error?.code == .unsupported)
        #expect(!environment.emulator.requests.contains("POST /par"))
    }

    /// FAPI 2.0 Security Profile section 5.3.3.2: iss is checked, whether or not the provider advertises it.
    @Test func rejectsAnAuthorizationResponseWithoutIss() async throws {
        let key = try PrivateKey()
        let environment = EmulatorEnvironment(
            try OIDCEmulator(issuer: "https://id.example.com", clients: [ClientAssertionTests.client(key)])
        )
        environment.emulator.pushedRequests = .always
        let client = OAuthClient(
            server: environment.server(),
            registration: try ClientRegistration(
                Self.values { $0.authentication = .privateKeyJWT(SigningKeySource(key)) }
            )
        )
        environment.emulator.fault = .metadata(.member("authorization_response_iss_parameter_supported", nil))
        let request = try await client.authorizationRequest()
        environment.emulator.fault = .callback(.missingIss)
        let callback = try environment.emulator.redirect(for: request.url, as: "alice")
        let error = await #expect(throws: AuthError.self) { try await client.exchange(callback, for: request) }
        #expect(error?.code == .issuerMismatch)
        #expect(!environment.emulator.requests.contains("POST /token"))
    }

    /// Section 5.3.3.1, note 1: every attempt is signed again, including the request object.
    @Test func signsARequestObjectAgainAfterCorrectingTheClock() async throws {
        let key = try PrivateKey()
        var registered = ClientAssertionTests.client(key)
        registered.mustSignRequests = true
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [registered]))
        environment.emulator.pushedRequests = .always
        let client = OAuthClient(
            server: environment.server(host: HostServices(now: { Date() - 900 })),
            registration: try ClientRegistration(
                Self.values {
                    $0.authentication = .privateKeyJWT(SigningKeySource(key))
                    $0.securityProfile = .fapi2MessageSigning
                    $0.requestObjectKey = SigningKeySource(key)
                }
            )
        )
        _ = try await client.authorizationRequest()
        let objects = environment.emulator.receivedRequests.filter { $0.path == "/par" }.compactMap {
            $0.form["request"]
        }
        #expect(objects.count == 2 && Set(objects).count == 2)
    }

    /// A request that was stored before the settings became stricter is not completed with the weaker settings.
    @Test func rejectsAStoredAuthorizationRequestThatIsWeakerThanTheSettings() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        let before = OAuthClient(
            server: environment.server(),
            registration: try ClientRegistration(EmulatorEnvironment.registration())
        )
        let request = try await before.authorizationRequest()
        let callback = try environment.emulator.redirect(for: request.url, as: "alice")
        for change: @Sendable (inout ClientRegistration.Values) -> Void in [
            { $0.responseMode = .jwt }, { $0.usesDPoP = true },
        ] {
            var values = try EmulatorEnvironment.registration()
            change(&values)
            let now = OAuthClient(server: environment.server(), registration: try ClientRegistration(values))
            let error = await #expect(throws: AuthError.self) { try await now.exchange(callback, for: request) }
            #expect(error?.code == .invalidCallback)
        }
        #expect(!environment.emulator.requests.contains("POST /token"))
    }

    /// Tokens from before a configuration change are not used, but they are revoked at sign-out.
    @Test func doesNotUseStoredBearerTokensOnceDPoPIsRequired() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        let store = MemoryTokenStore()
        var values = try EmulatorEnvironment.registration()
        values.scopes = ["openid", "offline_access"]
        let signIn = try await environment.client(registration: values, store: store).signIn()
        values.usesDPoP = true
        let client = try environment.client(registration: values, store: store)
        await expectError(.loginRequired) { try await client.freshTokens() }
        await expectError(.loginRequired) { try await client.refresh() }
        await expectError(.loginRequired) { try await client.client.refresh(signIn.credential) }
        #expect(environment.emulator.requests.count { $0 == "POST /token" } == 1)
        for await state in try await client.states() {
            #expect(state == .expired)
            break
        }
        #expect(try await client.signOut().revocation == .done)
        _ = try await client.signIn()
        #expect(try await client.freshTokens().dpopKey != nil)
    }

    /// FAPI 2.0 sections 5.3.3.1 and 5.4.1 also apply to assertions that the program itself creates.
    @Test func rejectsACustomAssertionWithADisallowedAlgorithm() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        environment.emulator.pushedRequests = .always
        let own = ClientAuthentication.custom(.privateKeyJWT) { request in
            let header = Base64URL.encode(Array(#"{"alg":"RS256"}"#.utf8))
            let payload = Base64URL.encode(Array(#"{"aud":"\#(request.issuer)"}"#.utf8))
            return ["client_id": request.clientID, "client_assertion": "\(header).\(payload).AAAA"]
        }
        let client = try environment.client(registration: try Self.values { $0.authentication = own })
        await expectError(.assertionUnusable) { try await client.signIn() }
        #expect(!environment.emulator.requests.contains("POST /par"))
    }

    /// FAPI 2.0 section 5.4.1: tokens signed with other algorithms are rejected, whatever the provider advertises.
    @Test func rejectsAnIDTokenSignedWithADisallowedAlgorithm() async throws {
        let key = try PrivateKey()
        let environment = EmulatorEnvironment(
            try OIDCEmulator(issuer: "https://id.example.com", clients: [ClientAssertionTests.client(key)])
        )
        environment.emulator.pushedRequests = .always
        environment.emulator.signingAlgorithm = .rs256
        let values = try Self.values { $0.authentication = .privateKeyJWT(SigningKeySource(key)) }
        let error = await #expect(throws: AuthError.self) {
            try await environment.client(registration: values).signIn()
        }
        #expect(error?.code == .invalidIDToken)
    }
}
