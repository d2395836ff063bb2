import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes
import Testing

@testable import AuthFlowConfiguration
@testable import AuthFlowDesktop
@testable import AuthFlowHTTP
@testable import AuthFlowOAuth

/// Printing or dumping a value of this package never reveals a secret in it.
@Suite struct PrintedSecretsTests {
    private static let secret = "hunter2-marker"

    private static func values() throws -> [(name: String, value: Any)] {
        let endpoint = try Endpoint("https://id.example.com/token?code=\(secret)")
        let fields: HTTPFields = [.authorization: "Bearer \(secret)", .cookie: "session=\(secret)"]
        let call = TransportRequest(.post, endpoint, headerFields: fields, body: Array(secret.utf8))
        let response = TransportResponse(
            head: HTTPResponse(status: .ok, headerFields: [.setCookie: "a=\(secret)"]),
            body: Array(secret.utf8)
        )
        var request = ProviderRequest(
            purpose: .token,
            endpoint: endpoint,
            parameters: ["x": secret],
            protectedParameters: ["code": secret]
        )
        request.headerFields = fields
        var tokens = TokenSet(
            accessToken: Secret(secret),
            refreshToken: Secret(secret),
            idToken: Secret(secret),
            parameters: RedactedJSON(["x": .string(secret)])
        )
        tokens.deviceSecret = Secret(secret)
        request.tokens = tokens
        let settings = try ClientRegistration(clientID: "c") {
            $0.authentication = .clientSecretBasic(Secret(secret))
            $0.parameters = [.authorization: ["login_hint": secret]]
        }
        let host = HostServices(environment: ["TOKEN": secret])
        let launchEnvironment = LaunchEnvironment(environment: ["TOKEN": secret], hasTerminal: false) { _ in nil }
        var exchange = TokenExchange(Secret(secret), type: .idToken)
        exchange.actorToken = Secret(secret)
        let pending = AuthorizationRequest(
            url: "https://id.example.com/authorize?state=\(secret)",
            redirectURI: "a.b:/c",
            issuer: "https://id.example.com",
            expiresAt: Date(),
            requestedAt: nil,
            clientID: "c",
            state: Secret(secret),
            nonce: Secret(secret),
            codeVerifier: Secret(secret),
            responseMode: .query,
            requirements: AuthenticationRequirements(),
            scopes: [],
            resources: [],
            authorizationDetails: nil,
            dpopKey: nil,
            binding: ProviderBinding(ProviderMetadata(issuer: "https://id.example.com"))
        )
        var network = NetworkSettings()
        network.proxy = .environment(["TOKEN": secret])
        let proxy = try NetworkSettings.ProxyServer(
            url: "http://proxy:3128",
            username: secret,
            password: Secret(secret)
        )
        let provider = FixedMetadata()
        let server = AuthorizationServer(provider, transport: InProcessTransport(), host: host)
        let oauthClient = OAuthClient(server: server, registration: settings)
        let endSession = EndSessionRequest(
            url: "https://id.example.com/?h=\(secret)",
            redirectURI: "a.b:/c",
            state: "s"
        )
        let event = FlowEvent(
            flowID: "f",
            step: .userAgentVisit,
            progress: .note,
            time: Date(),
            details: [:],
            url: "https://id.example.com/authorize?state=\(secret)"
        )
        let file = try ConfigurationFile(text: Array(#"{"profiles": {"a": {"provider": "x", "client_id": "c"}}}"#.utf8))
        let (_, configuration) = try file.profile().checked(
            by: ProfileComponents(providers: [ProviderFactory("x", keys: []) { _ in provider }]),
            environment: ["TOKEN": secret]
        )
        let device = try DeviceAuthorization(
            [
                "device_code": .string(secret), "user_code": "ABCD",
                "verification_uri": .string("https://id.example.com/device?x=\(secret)"),
                "expires_in": 600,
            ] as JSON
        )
        return [
            ("NetworkSettings", network), ("NetworkSettings.Proxy", network.proxy), ("ProxyServer", proxy),
            ("NetworkSettings.Proxy.server", NetworkSettings.Proxy.server(proxy)),
            ("Secret", Secret(secret)), ("RedactedJSON", RedactedJSON(["x": .string(secret)])), ("Endpoint", endpoint),
            ("TransportRequest", call), ("TransportResponse", response),
            ("FormParameters", FormParameters(dictionaryLiteral: ("x", secret))),
            ("ProviderRequest", request),
            ("ProviderResponse", ProviderResponse(purpose: .token, endpoint: endpoint, http: response)),
            ("TokenSet", tokens),
            (
                "Credential",
                Credential(tokens: tokens, identity: Identity(issuer: "i", subject: "s"), signedInAt: Date())
            ),
            ("ClientAuthentication", settings.authentication), ("ClientRegistration", settings), ("HostServices", host),
            ("LaunchEnvironment", launchEnvironment),
            ("UserAgentContext", UserAgentContext(launchEnvironment: launchEnvironment, redirectURIs: [])),
            ("SchemeHandler", SchemeHandler(scheme: "a.b", environment: ["TOKEN": secret])),
            ("TokenExchange", exchange),
            ("OAuthClient", oauthClient), ("AuthorizationServer", server), ("EndSessionRequest", endSession),
            ("AuthorizationRequest", pending), ("FlowEvent", event), ("ConfigurationObject", configuration),
            ("ProviderContext", oauthClient.providerContext), ("DeviceAuthorization", device),
            (
                "RedirectOptions",
                RedirectOptions(
                    redirectURIs: [],
                    state: Secret(secret),
                    reporter: FlowReporter(),
                    clock: ContinuousClock()
                )
            ),
            ("RevocableToken", RevocableToken(Secret(secret), typeHint: "refresh_token")),
            ("RedactedMessage of a call", RedactedMessage(call)),
            ("RedactedMessage of a response", RedactedMessage(response)),
            (
                "AuthClient",
                AuthClient(
                    client: OAuthClient(
                        server: AuthorizationServer(provider, transport: InProcessTransport(), host: host),
                        registration: settings
                    ),
                    methods: [.userAgent(PasteUserAgent())]
                )
            ),
            (
                "EncryptedTokenStore",
                EncryptedTokenStore(MemoryTokenStore(), key: .passphrase(Secret(secret)), host: host)
            ),
        ]
    }

    private struct FixedMetadata: ProviderAdapter {
        let issuer = "https://id.example.com"
        func metadata(in context: ServerContext) throws -> ProviderMetadata {
            ProviderMetadata(issuer: "https://id.example.com")
        }
    }

    @Test func printedValuesContainNoSecrets() throws {
        for (name, value) in try Self.values() {
            var dumped = ""
            dump(value, to: &dumped)
            var printed = ""
            print(value, to: &printed)
            for text in [dumped, printed, "\(value)", String(describing: value), String(reflecting: value)] {
                #expect(!text.contains(Self.secret), "\(name): \(text.prefix(300))")
            }
            // The value may also be nested, for example in a property or in a test's failure message.
            #expect(!"\([value])".contains(Self.secret), "\(name) in an array")
            #expect(!String(reflecting: Optional(value)).contains(Self.secret), "\(name) as an optional")
        }
    }

    @Test func dumpingAMemoryStoreRevealsNoSecrets() async throws {
        let store = MemoryTokenStore()
        try await store.set(Array(Self.secret.utf8), for: RecordKey(name: "n", issuer: "p", clientID: "c"))
        var dumped = ""
        dump(store, to: &dumped)
        #expect(!dumped.contains("104"))
        #expect(!dumped.contains(Self.secret))
    }
}
