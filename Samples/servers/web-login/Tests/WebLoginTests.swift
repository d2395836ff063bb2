import AuthFlow
import AuthFlowHummingbird
import AuthFlowOIDC
import AuthFlowObservability
import AuthFlowServer
import AuthFlowTesting
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import InMemoryTracing
import MetricsTestKit
import Testing
import Tracing

private struct WebContext: SessionRequestContext {
    var coreContext: CoreRequestContextStorage
    var session: Session?
    init(source: Source) { coreContext = .init(source: source) }
}

/// A Hummingbird application whose users sign in at the emulator, and a user's browser.
private struct Site {
    static let origin = "https://app.example.com"

    let environment: EmulatorEnvironment
    let server: SessionServer
    let application: any ApplicationProtocol

    init(observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }) throws {
        let secret = "the secret of the application"
        environment = EmulatorEnvironment(
            try OIDCEmulator(
                issuer: "https://id.example.com",
                clients: [
                    OIDCEmulator.Client(
                        id: "web",
                        secret: secret,
                        authenticationMethod: "client_secret_basic",
                        redirectURIs: ["\(Self.origin)/callback"]
                    )
                ]
            )
        )
        var values = ClientRegistration.Values(clientID: "web")
        values.authentication = .clientSecretBasic(Secret(secret))
        values.redirectURIs = [try RedirectURI("\(Self.origin)/callback")]
        values.scopes = ["openid", "profile", "offline_access"]
        server = try SessionServer(
            client: OAuthClient(server: environment.server(), registration: try ClientRegistration(values)),
            store: MemoryTokenStore(),
            options: SessionServerOptions(origin: Self.origin),
            observer: observer
        )
        let router = Router(context: WebContext.self)
        let proxy = ResourceProxy(
            server: server,
            routes: [
                try .init("/api/", to: "https://api.example.com/", methods: [.post], maximumRequestSize: 1000)
            ]
        )
        router.add(middleware: SessionMiddleware(server: server, proxy: proxy))
        router.get("/me") { [server] _, context in
            let session = try context.requireSession()
            return "\(session.identity?.displayName ?? "") \(try await server.freshTokens(for: session).tokenType)"
        }
        router.group("/account").requireAuthentication(by: server).get { _, context in
            try context.requireSession().identity?.displayName ?? ""
        }
        router.post("/upload") { request, _ in
            let body = try await request.body.collect(upTo: 10_000_000)
            return "\(body.readableBytes)"
        }
        application = Application(router: router)
    }

    /// Signs in.
    /// - Returns: The value of the browser's `Cookie` header field.
    func signIn(_ client: some TestClientProtocol) async throws -> String {
        let login = try await client.execute(uri: "/login", method: .get)
        let slots = login.headers[values: .setCookie].map { String($0.prefix { $0 != ";" }) }
        let callback = try await environment.visit(login.headers[.location] ?? "", user: .alice)
        let response = try await client.execute(
            uri: String(callback.dropFirst(Self.origin.count)),
            method: .get,
            headers: [.cookie: slots.joined(separator: "; ")]
        )
        let cookies = response.headers[values: .setCookie].filter { !$0.contains("Max-Age=0") }
        return cookies.map { String($0.prefix { $0 != ";" }) }.joined(separator: "; ")
    }
}

/// The web application products that require a package trait, in a Hummingbird application.
@Suite struct WebLoginTests {
    @Test func handlersReceiveTheSessionOfASignedInBrowser() async throws {
        let site = try Site()
        try await site.application.test(.router) { client in
            let refused = try await client.execute(uri: "/me", method: .get)
            #expect(refused.status == .unauthorized)
            let cookie = try await site.signIn(client)
            let response = try await client.execute(uri: "/me", method: .get, headers: [.cookie: cookie])
            #expect(String(buffer: response.body) == "Alice Example Bearer")
        }
    }

    @Test func aProtectedPageRedirectsToLoginAndIsServedAfterTheSignIn() async throws {
        let site = try Site()
        try await site.application.test(.router) { client in
            let redirect = try await client.execute(uri: "/account", method: .get)
            #expect(redirect.status == .seeOther)
            #expect(redirect.headers[.location] == "/login?return_to=%2Faccount")
            let cookie = try await site.signIn(client)
            let response = try await client.execute(uri: "/account", method: .get, headers: [.cookie: cookie])
            #expect(String(buffer: response.body) == "Alice Example")
        }
    }

    @Test func aLargeUploadReachesTheApplication() async throws {
        let site = try Site()
        try await site.application.test(.router) { client in
            let body = ByteBuffer(repeating: 1, count: 300_000)
            let response = try await client.execute(uri: "/upload", method: .post, body: body)
            #expect(String(buffer: response.body) == "300000")
        }
    }

    @Test(arguments: ["/logout", "/api/orders"])
    func libraryRoutesRejectAnOversizedRequestBody(_ path: String) async throws {
        let site = try Site()
        try await site.application.test(.router) { client in
            let body = ByteBuffer(repeating: 1, count: 300_000)
            let headers: HTTPFields = [.cookie: try await site.signIn(client), HTTPField.Name("X-AuthFlow")!: "1"]
            let response = try await client.execute(uri: path, method: .post, headers: headers, body: body)
            #expect(response.status == .contentTooLarge)
        }
    }

    @Test func theProxyRejectsARequestWithoutTheCSRFHeaderBeforeReadingItsBody() async throws {
        let site = try Site()
        try await site.application.test(.router) { client in
            let body = ByteBuffer(repeating: 1, count: 300_000)
            let response = try await client.execute(uri: "/api/orders", method: .post, body: body)
            #expect(response.status == .forbidden)
        }
    }

    @Test func recordsMetricsForFlowStepsAndEndedSessions() async throws {
        let metrics = TestMetrics()
        let site = try Site(observer: FlowEvent.metrics(factory: metrics))
        try await site.application.test(.router) { client in
            // The tokens expire as soon as they are issued.
            site.environment.emulator.accessTokenLifetime = 0
            let cookie = try await site.signIn(client)
            let labels = [("step", "code exchange"), ("outcome", "succeeded"), ("code", "none")]
            let timer = try metrics.expectTimer("authflow_step_duration", labels)
            #expect(timer.values.count == 1)

            site.environment.emulator.endSessions()
            let response = try await client.execute(uri: "/me", method: .get, headers: [.cookie: cookie])
            #expect(response.status != .ok)
            #expect(metrics.counters(label: "authflow_sessions_ended").map(\.totalValue) == [1])
            let failed = metrics.timers(label: "authflow_step_duration").filter {
                $0.dimensions.contains { $0.1 == "failed" }
            }
            #expect(failed.map(\.values.count) == [1])
        }
    }

    @Test func gaugesAreRecordedUnderTheirNames() async throws {
        let (metrics, site) = (TestMetrics(), try Site())
        try await site.application.test(.router) { client in
            _ = try await site.signIn(client)
            FlowGauge.record(site.server.gauges, factory: metrics)
            let gauge = try metrics.expectGauge("authflow_credentials_in_memory", [("provider", "")])
            #expect(gauge.lastValue == 1)
        }
    }

    @Test func flowStepsAreTracedAsSpansOfTheRequestWithoutSecrets() async throws {
        let tracer = InMemoryTracer()
        let site = try Site(observer: FlowEvent.spans(tracer: tracer))
        try await site.application.test(.router) { client in
            let request = tracer.startSpan("request", context: .topLevel)
            let cookie = try await ServiceContext.withValue(request.context) { try await site.signIn(client) }
            request.end()
            let spans = tracer.finishedSpans
            let exchange = try #require(spans.first { $0.operationName == "authflow code exchange" })
            #expect(exchange.context.inMemorySpanContext?.traceID == request.context.inMemorySpanContext?.traceID)
            #expect(tracer.activeSpans.isEmpty)
            let text = "\(spans.map { "\($0.attributes) \($0.events)" })"
            #expect(!text.contains(cookie.suffix(43)) && !text.contains("https://app.example.com/callback"))
        }
    }
}
