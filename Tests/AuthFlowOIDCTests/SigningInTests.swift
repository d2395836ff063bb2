import AuthFlow
import AuthFlowDesktop
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowLoopback
import AuthFlowOIDC
import AuthFlowTesting
import ConformanceRows
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// A sign-in from its start to the stored credential.
@Suite struct SigningInTests {
    @Test(arguments: EmulatorEnvironment.Setting.allCases, SignatureAlgorithm.asymmetric)
    func signsInWithEverySignatureAlgorithm(_ setting: EmulatorEnvironment.Setting, _ algorithm: SignatureAlgorithm)
        async throws
    {
        // Rows 1, 8, 13, 15, 16 and 74.
        try await EmulatorEnvironment.with(setting) { environment in
            environment.emulator.signingAlgorithm = algorithm
            let client = try environment.client()
            let signIn = try await client.signIn()
            #expect(signIn.storageError == nil)
            let credential = signIn.credential
            #expect(credential.identity?.subject == "248289761001")
            #expect(credential.identity?.issuer == environment.emulator.issuer)
            #expect(credential.identity?.displayName == "Alice Example")
            #expect(credential.identity?.claims["email"] == "alice@example.com")
            #expect(credential.identity?.claims["nonce"] == nil)
            #expect(credential.tokens.verifiedIDToken?.header.algorithm == algorithm)
            #expect(try await client.credential() == credential)
            #expect(try await client.userInfo()["name"] == "Alice Example")
            #expect(try await client.signOutLocally())
            #expect(try await client.credential() == nil)
            #expect(try await !client.signOutLocally())
        }
    }

    static let authentications: [(OIDCEmulator.Client, ClientAuthentication)] = [
        (.init(id: "public"), .none),
        (
            .init(id: "a:b %+", secret: "p:s%+ &=é", authenticationMethod: "client_secret_basic"),
            .clientSecretBasic(Secret("p:s%+ &=é"))
        ),
        (
            .init(id: "a:b", secret: "p:s%+ &=é", authenticationMethod: "client_secret_post"),
            .clientSecretPost(Secret("p:s%+ &=é"))
        ),
    ]

    @Test(arguments: authentications) func authenticatesTheClient(
        _ client: OIDCEmulator.Client,
        _ authentication: ClientAuthentication
    ) async throws {
        // Rows 14, 49, 50 and I5.
        try await EmulatorEnvironment.with(.sockets, clients: [client]) { environment in
            let settings = try ClientRegistration(clientID: client.id) { $0.authentication = authentication }.values
            let signIn = try await environment.client(registration: settings).signIn()
            #expect(signIn.credential.identity?.subject == "248289761001")
        }
    }

    /// RFC 8414 section 2: if `token_endpoint_auth_methods_supported` is omitted, "the default is "client_secret_basic"".
    @Test(
        arguments: [
            ("client_secret_basic", nil), ("client_secret_basic", ["client_secret_post", "client_secret_basic"]),
            ("client_secret_basic", ["private_key_jwt"]),
            ("client_secret_post", ["client_secret_post", "private_key_jwt"]),
        ] as [(String, JSON?)]
    )
    func selectsTheClientAuthenticationMethodFromTheMetadata(_ method: String, _ listed: JSON?) async throws {
        let client = OIDCEmulator.Client(id: "c", secret: "s", authenticationMethod: method)
        try await EmulatorEnvironment.with(.inProcess, clients: [client]) { environment in
            environment.emulator.fault = .metadata(.member("token_endpoint_auth_methods_supported", listed))
            let settings = try ClientRegistration(clientID: "c") { $0.authentication = .clientSecret(Secret("s")) }
            _ = try await environment.client(registration: settings.values).signIn()
        }
    }

    @Test(arguments: [
        ("wrong-secret", #"Check "client_id", "client_secret""#), ("right\n", "ends with a line break or a space"),
        ("wrong+secret", "decode incorrectly in HTTP Basic"),
    ])
    func reportsAWrongClientSecret(_ secret: String, _ advice: String) async throws {
        let client = OIDCEmulator.Client(id: "c", secret: "right", authenticationMethod: "client_secret_basic")
        try await EmulatorEnvironment.with(.inProcess, clients: [client]) { environment in
            let settings = try ClientRegistration(clientID: "c") {
                $0.authentication = .clientSecretBasic(Secret(secret))
            }
            .values
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(registration: settings).signIn()
            }
            #expect(error?.providerError?.error == "invalid_client")
            #expect(error?.message.contains(advice) == true, "\(error?.message ?? "")")
            #expect(error.map { "\($0)" }?.contains(secret) == false)
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases) func reportsThatTheUserDeniedAccess(
        _ setting: EmulatorEnvironment.Setting
    )
        async throws
    {
        try await EmulatorEnvironment.with(setting) { environment in
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(consent: .deny).signIn()
            }
            #expect(error?.code == .accessDenied)
            #expect(error?.providerError?.errorDescription == "The user denied the request")
        }
    }

    @Test func signsInWithBeginSignInAndFinishSignIn() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let client = try environment.client()
            let pending = try await client.beginSignIn()
            let response = try await environment.visit(pending.url)
            await expectError(.invalidCallback) {
                try await client.finishSignIn(pending, with: "\(pending.redirectURI)?state=x&code=1")
            }
            let signIn = try await client.finishSignIn(pending, with: response)
            #expect(signIn.credential.identity?.subject == "248289761001")
            #expect(signIn.authorizationParameters["iss"] == environment.emulator.issuer)
            let replay = await #expect(throws: AuthError.self) {
                try await client.finishSignIn(pending, with: response)
            }
            #expect(replay?.code == .invalidCallback)
            #expect(environment.emulator.requests.count { $0 == "POST /token" } == 1)
            #expect("\(pending)".contains("state=…"))
        }
    }

    @Test func beginSignInRequiresACompleteRedirectURI() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let client = try environment.client(registration: ClientRegistration.Values(clientID: "authflow-demo"))
            await expectError(.invalidConfiguration) { try await client.beginSignIn() }
        }
    }

    @Test func sendsNewStateNonceAndCodeChallengeEveryTime() async throws {
        // Rows I1 and I6, and points 1, 2 and 4 of docs/security.md.
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let client = try environment.client()
            var seen: Set<String> = []
            for _ in 0..<10 {
                let url = try await client.beginSignIn().url
                let query = try #require(FormURLEncoding.decode(url.drop { $0 != "?" }.dropFirst()))
                #expect(query.names.allSatisfy { query.values(for: $0).count == 1 })
                #expect(query["scope"] == "openid profile email")
                #expect(query["code_challenge_method"] == "S256")
                for name in ["state", "nonce", "code_challenge"] {
                    #expect(query[name]?.utf8.count == 43)
                    #expect(seen.insert(query[name] ?? "").inserted)
                }
            }
        }
    }

    @Test func sendsAdditionalParametersAndRejectsProtectedParameters() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            func client(_ parameters: FormParameters) throws -> AuthClient {
                try environment.client(
                    registration: ClientRegistration(clientID: "authflow-demo") {
                        $0.redirectURIs = [RedirectURI("http://127.0.0.1:8400/callback")]
                        $0.parameters = [.authorization: parameters]
                    }.values
                )
            }
            let pending = try await client(["prompt": "login", "resource": "a"]).beginSignIn()
            #expect(pending.url.contains("prompt=login"))
            for name in ["state", "redirect_uri", "code_challenge", "nonce", "client_id"] {
                await expectError(.invalidConfiguration) { try await client([name: "x"]).beginSignIn() }
            }
        }
    }

    @Test func theUserAgentReceivesTheRedirectAtTheRedirectURIOfTheOptions() async throws {
        let uris = ["http://127.0.0.1:8400/callback", "http://127.0.0.1:8401/callback"]
        let clients = [OIDCEmulator.Client(id: "authflow-demo", redirectURIs: uris)]
        try await EmulatorEnvironment.with(.inProcess, clients: clients) { environment in
            var values = try EmulatorEnvironment.registration()
            values.redirectURIs = try uris.map { uri in try RedirectURI(uri) }
            var options = AuthorizationOptions()
            options.redirectURI = try RedirectURI(uris[1])
            _ = try await environment.client(registration: values).signIn(options: options)
            let visited = try #require(environment.emulator.receivedRequests.first { $0.path == "/authorize" })
            #expect(visited.query["redirect_uri"] == uris[1])
        }
    }

    @Test func aSignInRequestsTheResourceOfTheClient() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let resource = "https://api.example.com"
            var options = AuthClient.Options()
            options.resource = resource
            let client = try environment.client(options: options)
            #expect(try await client.signIn().credential.resources == [resource])
            let visited = try #require(environment.emulator.receivedRequests.first { $0.path == "/authorize" })
            #expect(visited.query.values(for: "resource") == [resource])
            let request = try await client.beginSignIn()
            #expect(environment.emulator.parameters(ofRequestAt: request.url).values(for: "resource") == [resource])
        }
    }

    @Test func returnsTheTokensWithAStorageErrorWhenTheyCannotBeStored() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let failed = Mutex(false)
            let client = try environment.client(store: BrokenStore()) { event in
                if event.step == .storing, event.progress == .failed(.storageFailed) { failed.withLock { $0 = true } }
            }
            let signIn = try await client.signIn()
            #expect(signIn.storageError?.code == .storageFailed)
            #expect(signIn.credential.identity?.subject == "248289761001")
            #expect(failed.withLock { $0 })
        }
    }

    @Test func reportsEveryStepWithoutSecrets() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let events = Mutex<[FlowEvent]>([])
            let client = try environment.client() { event in events.withLock { $0.append(event) } }
            let credential = try await client.signIn().credential
            let log = events.withLock { $0 }
            let finished = log.filter { $0.progress == .succeeded }.map(\.step)
            #expect(
                finished == [
                    .discovery, .authorizationRequest, .userAgentVisit, .authorizationResponse, .codeExchange,
                    .idTokenValidation, .identity, .storing,
                ]
            )
            #expect(Set(log.map(\.flowID)).count == 1)
            let text = log.map(\.description).joined(separator: "\n")
            #expect(!text.contains(credential.tokens.accessToken.exposed))
            #expect(!text.contains("wonderland"))
        }
    }

    @Test(arguments: ResponseMode.allCases) func signsInThroughTheLoopbackPort(_ mode: ResponseMode) async throws {
        try await EmulatorEnvironment.with(.sockets) { environment in
            // The "browser" visits the provider's pages and then actually delivers the authorization response.
            let launcher = BrowserLauncher { url in
                Task {
                    let start = try await SystemTransport().send(TransportRequest(.get, Endpoint(url)))
                    let target = start.head.headerFields[.location] ?? ""
                    try await deliver(try await environment.visit(target, responseMode: mode), mode)
                }
                return "test"
            }
            let client = AuthClient(
                client: OAuthClient(
                    server: AuthorizationServer(OIDCProvider(issuer: environment.emulator.issuer)),
                    registration: try ClientRegistration(clientID: "authflow-demo") {
                        $0.scopes = ["openid", "profile"]
                        $0.responseMode = mode
                    }
                ),
                methods: [.userAgent(LoopbackUserAgent(launcher: launcher))]
            )
            #expect(try await client.signIn().credential.identity?.displayName == "Alice Example")
            #expect(
                environment.emulator.receivedRequests.first { $0.path == "/authorize" }?.query["response_mode"]
                    == (mode == .query ? nil : mode.rawValue)
            )
        }
    }

    private func deliver(_ response: String, _ mode: ResponseMode) async throws {
        let transport = SystemTransport()
        let parts = response.split(maxSplits: 1) { $0 == "?" || $0 == "#" }
        let address = try Endpoint(String(parts[0]))
        let form = TransportRequest(
            .post,
            address,
            headerFields: [.contentType: "application/x-www-form-urlencoded"],
            body: Array(parts[1].utf8)
        )
        switch mode.delivery {
        case .query:
            // A response in a mode that was not requested is rejected.
            #expect(try await transport.send(form).status == 405)
            _ = try await transport.send(TransportRequest(.get, Endpoint(response)))
        case .fragment:
            let page = try await transport.send(TransportRequest(.get, address))
            #expect(String(decoding: page.body, as: UTF8.self).contains("location.hash"))
            _ = try await transport.send(form)
        default:
            #expect(try await transport.send(TransportRequest(.get, Endpoint(response))).status == 405)
            _ = try await transport.send(form)
        }
    }

    @Test func passesTheProviderConformanceSuite() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            var registration = try EmulatorEnvironment.registration()
            registration.scopes.append("offline_access")
            try await ProviderConformance(
                adapter: OIDCProvider(issuer: environment.emulator.issuer),
                client: try environment.client(registration: registration),
                other: try environment.client(registration: registration, user: .bob)
            ).run()
        }
    }
}

private struct BrokenStore: TokenStore {
    func bytes(for key: RecordKey) throws -> [UInt8]? { nil }
    func write(_ bytes: [UInt8]?, under lease: Lease) throws { throw AuthError(.storageFailed, "The disk is full.") }
    func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return { try await body(Lease(key: key, fence: 1)) }
}
