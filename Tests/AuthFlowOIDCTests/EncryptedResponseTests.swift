import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Foundation
import Testing

/// ID Tokens, userinfo and authorization responses that are encrypted for the client.
@Suite struct EncryptedResponseTests {
    static let keys: [KeyManagementAlgorithm: DecryptionKey] = Dictionary(
        uniqueKeysWithValues: [KeyManagementAlgorithm.rsaOAEP, .rsaOAEP256, .ecdhES, .ecdhESA128KW, .ecdhESA256KW]
            .compactMap { algorithm in (try? DecryptionKey(generatedFor: algorithm)).map { (algorithm, $0) } }
    )

    static func client(
        _ key: DecryptionKey,
        _ algorithm: KeyManagementAlgorithm = .ecdhESA256KW,
        encryption: ContentEncryption = .a256GCM,
        responses: Set<EncryptedResponse> = [.idToken],
        _ change: (inout EmulatedEncryption) -> Void = { _ in }
    ) -> OIDCEmulator.Client {
        var client = OIDCEmulator.Client.demo
        client.redirectURIs = ["http://127.0.0.1:8400/callback"]
        var encrypted = EmulatedEncryption(
            to: key.publicJWK,
            algorithm: algorithm,
            encryption: encryption,
            responses: responses
        )
        change(&encrypted)
        client.encryption = encrypted
        return client
    }

    static func registration(
        _ keys: [DecryptionKey],
        _ change: (inout ClientRegistration.Values) -> Void = { _ in }
    ) throws -> ClientRegistration.Values {
        var values = try EmulatorEnvironment.registration()
        values.scopes.append("offline_access")
        values.decryptionKeys = keys.isEmpty ? nil : DecryptionKeySource(keys)
        change(&values)
        return values
    }

    @Test(arguments: [
        (KeyManagementAlgorithm.rsaOAEP, ContentEncryption.a128CBCHS256), (.rsaOAEP256, .a256GCM),
        (.ecdhES, .a128GCM), (.ecdhESA128KW, .a128CBCHS256), (.ecdhESA256KW, .a256CBCHS512),
    ]) func signsInRefreshesAndSignsOutWithEncryptedIDTokens(
        _ algorithm: KeyManagementAlgorithm,
        _ encryption: ContentEncryption
    ) async throws {
        let key = try #require(Self.keys[algorithm])
        let registered = Self.client(key, algorithm, encryption: encryption)
        try await EmulatorEnvironment.with(.sockets, clients: [registered]) { environment in
            let values = try Self.registration([key]) {
                $0.encryptedResponses = [.idToken]
                $0.postLogoutRedirectURI = "http://127.0.0.1:8400/callback"
            }
            let client = try environment.client(registration: values)
            let credential = try await client.signIn().credential
            #expect(credential.identity?.displayName == "Alice Example")
            // The signed token is stored without its encryption, because it is later sent as the
            // `id_token_hint`, and only the client could decrypt it.
            #expect(credential.tokens.idToken?.exposed.split(separator: ".").count == 3)
            let refreshed = try await client.refresh()
            #expect(refreshed.tokens.idToken?.exposed.split(separator: ".").count == 3)
            let signOut = try await client.signOut(endingSession: true)
            guard case .done = signOut.endSession else {
                Issue.record("\(signOut.endSession)")
                return
            }
            let hint = environment.emulator.receivedRequests.last { $0.path == "/end_session" }?.query["id_token_hint"]
            #expect(hint?.split(separator: ".").count == 3)
        }
    }

    @Test(arguments: [nil, SignatureAlgorithm.es256]) func readsEncryptedUserInfo(_ signature: SignatureAlgorithm?)
        async throws
    {
        let key = try #require(Self.keys[.ecdhES])
        var registered = Self.client(key, .ecdhES, responses: [.userInfo])
        registered.userInfoSigningAlgorithm = signature
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [registered]))
        let client = try environment.client(
            registration: try Self.registration([key]) { $0.encryptedResponses = [.userInfo] }
        )
        _ = try await client.signIn()
        #expect(try await client.userInfo()["name"] == "Alice Example")
    }

    /// The node-oidc-provider library encrypts unsigned claims with this content type.
    @Test(arguments: ["json", "application/json"])
    func readsEncryptedUnsignedUserInfoWithTheContentTypeJSON(_ type: String) async throws {
        let key = try #require(Self.keys[.ecdhES])
        let registered = Self.client(key, .ecdhES, responses: [.userInfo]) {
            $0.header = { $0["cty"] = .string(type) }
        }
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [registered]))
        let client = try environment.client(
            registration: try Self.registration([key]) { $0.encryptedResponses = [.userInfo] }
        )
        _ = try await client.signIn()
        #expect(try await client.userInfo()["name"] == "Alice Example")
    }

    /// The claims in the first argument contain four dots, like a JWE.
    @Test(arguments: [
        #"{"sub":"248289761001","name":"Alice Example","email":"a@mail.example.com","website":"https://a.example.com"}"#,
        "\n { \"sub\": \"248289761001\", \"name\": \"Alice Example\" }\n",
    ])
    func readsEncryptedUnsignedUserInfoWithAnyContent(_ claims: String) async throws {
        let key = try #require(Self.keys[.ecdhES])
        let registered = Self.client(key, .ecdhES, responses: [.userInfo]) { $0.content = { _ in claims } }
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [registered]))
        let client = try environment.client(
            registration: try Self.registration([key]) { $0.encryptedResponses = [.userInfo] }
        )
        _ = try await client.signIn()
        #expect(try await client.userInfo()["name"] == "Alice Example")
    }

    @Test func rejectsUnencryptedUserInfoIfEncryptionIsRequired() async throws {
        let key = try #require(Self.keys[.ecdhES])
        let registered = Self.client(key, .ecdhES, responses: [])
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [registered]))
        let values = try Self.registration([key]) {
            $0.encryptedResponses = [.userInfo]
            $0.requestsUserInfoAtSignIn = false
        }
        let client = try environment.client(registration: values)
        _ = try await client.signIn()
        let error = await #expect(throws: AuthError.self) { try await client.userInfo() }
        #expect(error?.code == .invalidUserInfo)
        #expect(error?.message.contains("must be encrypted, but is not") == true)
    }

    @Test(arguments: [ResponseMode.jwt, .formPostJWT]) func readsAnEncryptedAuthorizationResponse(_ mode: ResponseMode)
        async throws
    {
        let key = try #require(Self.keys[.rsaOAEP256])
        let registered = Self.client(key, .rsaOAEP256, responses: [.authorizationResponse])
        try await EmulatorEnvironment.with(.sockets, clients: [registered]) { environment in
            let values = try Self.registration([key]) {
                $0.responseMode = mode
                $0.encryptedResponses = [.authorizationResponse]
            }
            let credential = try await environment.client(registration: values).signIn().credential
            #expect(credential.identity?.displayName == "Alice Example")
        }
    }

    /// A web server uses the state inside the JWT to find the request that a response belongs to.
    @Test(arguments: [true, false]) func matchesAJWTAuthorizationResponseToItsPendingRequest(_ isEncrypted: Bool)
        async throws
    {
        let key = try #require(Self.keys[.ecdhES])
        let registered = Self.client(key, .ecdhES, responses: isEncrypted ? [.authorizationResponse] : [])
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [registered]))
        let registration = try ClientRegistration(try Self.registration([key]) { $0.responseMode = .queryJWT })
        let client = OAuthClient(server: environment.server(), registration: registration)
        let pending = PendingAuthorizations(store: MemoryTokenStore())
        let browser = Secret("the-cookie-of-a-browser")
        let request = try await client.authorizationRequest()
        try await pending.save(request, for: browser)
        let callback = try await environment.visit(request.url, client: client)
        let taken = try await pending.take(for: callback, in: browser, of: client)
        #expect(try await client.exchange(callback, for: taken).identity?.displayName == "Alice Example")
    }

    @Test func bothKeysWorkDuringARotation() async throws {
        let (old, new) = (try DecryptionKey(), try DecryptionKey())
        for key in [old, new] {
            let registered = Self.client(key)
            let environment = EmulatorEnvironment(
                try OIDCEmulator(issuer: "https://id.example.com", clients: [registered])
            )
            _ = try await environment.client(registration: try Self.registration([new, old])).signIn()
        }
    }

    struct Hostile: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let change: @Sendable (inout EmulatedEncryption) -> Void
        let words: String
    }

    private static let hostile = [
        Hostile(
            testDescription: "RSA1_5 in the header",
            change: { $0.header = { $0["alg"] = "RSA1_5" } },
            words: "RSA1_5"
        ),
        Hostile(
            testDescription: "claims according to its content type",
            change: { $0.header = { $0["cty"] = "json" } },
            words: "cty"
        ),
        Hostile(testDescription: "compressed", change: { $0.header = { $0["zip"] = "DEF" } }, words: "zip"),
        Hostile(
            testDescription: "for an unknown key",
            change: { $0.header = { $0["kid"] = "other" } },
            words: "no key"
        ),
        Hostile(
            testDescription: "not signed",
            change: { $0.content = { _ in #"{"sub":"248289761001"}"# } },
            words: "not signed"
        ),
        Hostile(
            testDescription: "an unsigned token inside",
            change: {
                $0.content = {
                    "eyJhbGciOiJub25lIn0.\($0.split(separator: ".")[1])."
                }
            },
            words: "signed with \"none\""
        ),
        Hostile(
            testDescription: "encrypted twice",
            change: { $0.content = { _ in "eyJhbGciOiJFQ0RILUVTIn0.a.a.a.a" } },
            words: "encrypted twice"
        ),
        Hostile(
            testDescription: "a truncated authentication tag",
            change: { $0.text = { String($0.dropLast(6)) } },
            words: "cannot be decrypted"
        ),
        Hostile(testDescription: "not encrypted", change: { $0.responses = [] }, words: "not encrypted"),
    ]

    @Test(arguments: hostile) func rejectsAnInvalidEncryptedIDToken(_ hostile: Hostile) async throws {
        let key = try #require(Self.keys[.ecdhES])
        let registered = Self.client(key, .ecdhES, hostile.change)
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [registered]))
        let client = try environment.client(
            registration: try Self.registration([key]) { $0.encryptedResponses = [.idToken] }
        )
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.code == .invalidIDToken)
        #expect(error?.message.contains(hostile.words) == true, "\(error?.message ?? "")")
        #expect(try await client.credential() == nil)
    }

    /// Only a JWT can be encrypted, so a client that does not request a JWT response must not require encryption.
    @Test(arguments: [EncryptedResponse.authorizationResponse, .introspection])
    func rejectsRequiredEncryptionOfAResponseThatIsNotAJWT(_ response: EncryptedResponse) throws {
        let values = try Self.registration([try DecryptionKey()]) { $0.encryptedResponses = [response] }
        let error = #expect(throws: AuthError.self) { try ClientRegistration(values) }
        #expect(error?.code == .invalidConfiguration)
    }

    @Test func reportsAMissingDecryptionKey() async throws {
        let key = try #require(Self.keys[.ecdhES])
        let environment = EmulatorEnvironment(
            try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.client(key, .ecdhES)])
        )
        let error = await #expect(throws: AuthError.self) {
            try await environment.client(registration: try Self.registration([])).signIn()
        }
        #expect(error?.code == .unsupported && error?.message.contains("no decryption key") == true)
    }

    /// A registration whose decryption key is in a file that does not exist.
    private static func registrationWithoutKeyFile() throws -> ClientRegistration.Values {
        try registration([]) { $0.decryptionKeys = .file(path: "/nonexistent/authflow-key.pem") }
    }

    @Test func aKeyFileThatCannotBeReadIsNotReportedAsInvalidUserInfo() async throws {
        let key = try #require(Self.keys[.ecdhES])
        let environment = EmulatorEnvironment(
            try OIDCEmulator(
                issuer: "https://id.example.com",
                clients: [Self.client(key, .ecdhES, responses: [.userInfo])]
            )
        )
        let tokens = try await environment.client(registration: try Self.registration([key])).signIn().credential.tokens
        let without = try environment.client(registration: try Self.registrationWithoutKeyFile()).client
        await expectError(.invalidConfiguration) { try await without.userInfo(tokens) }
    }

    /// RFC 7009 section 2.1: the provider may revoke the whole grant, and with it the session that the user already has.
    @Test func tokensThatCannotBeCheckedWithoutTheKeyFileAreNotRevoked() async throws {
        let key = try #require(Self.keys[.ecdhES])
        let environment = EmulatorEnvironment(
            try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.client(key, .ecdhES)])
        )
        let client = try environment.client(
            registration: try Self.registrationWithoutKeyFile(),
            flows: [.authorizationCode]
        )
        await expectError(.invalidConfiguration) { try await client.signIn() }
        #expect(environment.emulator.requests.contains("POST /token"))
        #expect(!environment.emulator.requests.contains("POST /revoke"))
    }

    /// The provider repeats a logout request that failed temporarily, but not one with an invalid token.
    @Test func aKeyFileThatCannotBeReadIsNotReportedAsAnInvalidLogoutToken() async throws {
        let key = try #require(Self.keys[.ecdhES])
        let emulator = try OIDCEmulator(issuer: "https://id.example.com")
        let token = try emulator.logoutToken(for: OIDCEmulator.Client.demo.id, subject: "alice")
        let encrypted = try EmulatedEncryption(to: key.publicJWK, algorithm: .ecdhES).encrypted(token)
        let environment = EmulatorEnvironment(emulator)
        let with = try environment.client(registration: try Self.registration([key])).client
        #expect(try await with.verify(logoutToken: Secret(encrypted)).subject == "alice")
        let without = try environment.client(registration: try Self.registrationWithoutKeyFile()).client
        await expectError(.invalidConfiguration) { try await without.verify(logoutToken: Secret(encrypted)) }
    }

    /// An ID Token that cannot be decrypted after a refresh must not end the session.
    @Test func aRefreshWithAnUndecryptableIDTokenStoresTheNewRefreshToken() async throws {
        let key = try #require(Self.keys[.ecdhES])
        let environment = EmulatorEnvironment(
            try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.client(key, .ecdhES)])
        )
        let store = MemoryTokenStore()
        let before = try await environment.client(registration: try Self.registration([key]), store: store).signIn()
            .credential
        let without = try environment.client(registration: try Self.registration([try DecryptionKey()]), store: store)
        await expectError(.invalidIDToken) { try await without.refresh() }
        let kept = try #require(try await without.credential())
        #expect(kept.tokens.refreshToken != before.tokens.refreshToken)
        let with = try environment.client(registration: try Self.registration([key]), store: store)
        #expect(try await with.refresh().identity?.displayName == "Alice Example")
    }

    /// The provider is available, and the tokens are not known to be invalid.
    @Test(arguments: [EncryptedResponse.idToken, .userInfo])
    func refreshedTokensThatCannotBeCheckedWithoutTheKeyFileAreNeitherRejectedNorAnOutage(
        _ response: EncryptedResponse
    ) async throws {
        let key = try #require(Self.keys[.ecdhES])
        let registered = Self.client(key, .ecdhES, responses: [response])
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [registered]))
        var credential = try await environment.client(registration: try Self.registration([key])).signIn().credential
        // Without an ID Token, the userinfo response identifies the user.
        if response == .userInfo { credential.tokens.verifiedIDToken = nil }
        let without = try environment.client(registration: try Self.registrationWithoutKeyFile()).client
        guard case .unchecked(let updated, let error) = try await without.refresh(credential) else {
            Issue.record("The refreshed tokens were accepted or rejected.")
            return
        }
        #expect(error.code == .temporarilyUnavailable && error.status == 200)
        #expect(error.message.contains("/nonexistent/authflow-key.pem"))
        #expect(updated.tokens.refreshToken != credential.tokens.refreshToken)
        #expect(updated.tokens.accessToken == credential.tokens.accessToken)
    }

    @Test func aBackendVerifiesAnEncryptedIDToken() async throws {
        let key = try #require(Self.keys[.ecdhES])
        let environment = EmulatorEnvironment(
            try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.client(key, .ecdhES)])
        )
        let client = try environment.client(registration: try Self.registration([key]))
        let signed = try #require(try await client.signIn().credential.tokens.idToken)
        let encrypted = try EmulatedEncryption(to: key.publicJWK, algorithm: .ecdhES).encrypted(signed.exposed)
        let verified = try await environment.server().verify(
            Secret(encrypted),
            audience: "authflow-demo",
            decryptionKeys: DecryptionKeySource([key])
        )
        #expect(verified.subject == "248289761001")
        await expectError(.unsupported) {
            try await environment.server().verify(Secret(encrypted), audience: "authflow-demo")
        }
    }
}
