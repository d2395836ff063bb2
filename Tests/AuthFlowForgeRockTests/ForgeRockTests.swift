import AuthFlow
import AuthFlowForgeRock
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// An emulated ForgeRock server, the transport to it, and clients of it.
struct ForgeRockScene: Sendable {
    let emulator: ForgeRockEmulator
    let transport: any HTTPTransport

    static func with<Return: Sendable>(
        _ setting: EmulatorScene.Setting,
        now: @escaping @Sendable () -> Date = { Date() },
        _ body: @Sendable (ForgeRockScene) async throws -> Return
    ) async throws -> Return {
        switch setting {
        case .inProcess:
            let emulator = try ForgeRockEmulator(origin: "https://id.example.com", now: now)
            return try await body(ForgeRockScene(emulator: emulator, transport: InProcessTransport(emulator)))
        case .sockets:
            return try await EmulatorServer.run {
                try ForgeRockEmulator(origin: $0, now: now)
            } _: { emulator in
                try await body(ForgeRockScene(emulator: emulator, transport: SystemTransport()))
            }
        }
    }

    var origin: String { emulator.origins[0] }

    static let alice = ConfiguredAnswers(username: "alice", password: Secret("wonderland"))

    func client(
        handlers: [any CallbackHandler] = [alice],
        tree: String? = nil,
        acrValues: [String] = [],
        requiresACR: Bool = false,
        allowsConsent: Bool = true,
        cookies: SharedCookies? = nil,
        parameters: FormParameters = [:],
        transport: (any HTTPTransport)? = nil,
        host: HostServices = .system,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> AuthClient {
        let realm = try ForgeRockRealm(baseURL: emulator.baseURL, path: "/alpha")
        let driver = TreeDriver(
            realm: realm,
            tree: tree,
            handlers: handlers,
            allowsConsent: allowsConsent,
            host: host
        )
        return AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(
                    ForgeRockProvider(realm: realm, acrValues: acrValues, requiresACR: requiresACR),
                    transport: transport ?? self.transport,
                    host: host
                ),
                registration: try ClientRegistration(clientID: "authflow-demo") {
                    $0.redirectURIs = [RedirectURI("http://127.0.0.1:8400/callback")]
                    $0.scopes = ["openid", "profile"]
                    $0.parameters = [.authorization: parameters]
                    $0.postLogoutRedirectURI = RedirectURI("http://127.0.0.1:8400/callback")
                }
            ),
            methods: [
                .userAgent(
                    HeadlessUserAgent(
                        driver: driver,
                        sharedCookies: cookies,
                        transport: transport ?? self.transport,
                        host: host
                    )
                )
            ],
            observer: observer
        )
    }

    func cookies(
        _ store: any TokenStore,
        names: [String] = ["session-jwt"],
        atRisk: Bool = false
    ) throws -> SharedCookies {
        SharedCookies(
            store: SharedCredentialStore(group: "acme", store: store),
            origin: try Endpoint(origin),
            names: names,
            sharingSessionCookiesAtRisk: atRisk
        )
    }
}

@Suite struct TreeTests {
    @Test(arguments: EmulatorScene.Setting.allCases) func signsInThroughATree(_ setting: EmulatorScene.Setting)
        async throws
    {
        try await ForgeRockScene.with(setting) { scene in
            let client = try scene.client()
            let credential = try await client.signIn().credential
            #expect(credential.identity?.displayName == "Alice Example")
            #expect(credential.identity?.issuer == "\(scene.emulator.baseURL)/oauth2/realms/root/realms/alpha")
            #expect(try await client.userInfo()["name"] == "Alice Example")
        }
    }

    @Test func conformsToTheAdapterSuite() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let realm = try ForgeRockRealm(baseURL: scene.emulator.baseURL, path: "/alpha")
            try await ProviderConformance(adapter: ForgeRockProvider(realm: realm), client: scene.client()).run()
        }
    }

    @Test func reportsAWrongPassword() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let wrong = ConfiguredAnswers(username: "alice", password: Secret("looking-glass"))
            let error = await #expect(throws: AuthError.self) { try await scene.client(handlers: [wrong]).signIn() }
            #expect(error?.code == .accessDenied)
            #expect(error?.providerError?.errorDescription == "Authentication Failed")
            #expect(error.map { "\($0)" }?.contains("looking-glass") == false)
        }
    }

    @Test func reportsALockedAccount() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            scene.emulator.settings.lockedUsers = ["alice"]
            let error = await #expect(throws: AuthError.self) { try await scene.client().signIn() }
            #expect(error?.code == .accountLocked)
        }
    }

    @Test func restartsATreeOnceWhenItsAuthIDHasExpired() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            scene.emulator.settings.staleAuthIDs = 1
            _ = try await scene.client().signIn()
            scene.emulator.settings.staleAuthIDs = 2
            let error = await #expect(throws: AuthError.self) { try await scene.client().signIn() }
            #expect(error?.code == .timedOut)
        }
    }

    @Test func failsWhenTheServerDoesNotKnowTheAuthID() async throws {
        struct ForgingTransport: HTTPTransport {
            let base: any HTTPTransport
            func send(_ call: TransportRequest) async throws -> TransportResponse {
                var call = call
                if var body = (try? JSON(parsing: call.body))?.object, body["authId"] != nil {
                    body["authId"] = "e30.e30.forged"
                    call.body = try JSON.object(body).serialized()
                }
                return try await base.send(call)
            }
        }
        try await ForgeRockScene.with(.inProcess) { scene in
            let client = try scene.client(transport: ForgingTransport(base: scene.transport))
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .timedOut)
            #expect(try await client.credential() == nil)
        }
    }

    /// A tree of one page before the login.
    private func tree(
        _ callbacks: [EmulatorTree.Callback],
        _ verdict: @escaping @Sendable ([JSON]) -> EmulatorTree.Verdict
    ) -> EmulatorTree {
        EmulatorTree([.page(stage: "Extra", callbacks, verdict), .userNameAndPassword])
    }

    static let questions: [(callback: EmulatorTree.Callback, answer: String, expected: JSON)] = [
        (.init("TextInputCallback", [("prompt", "Pet"), ("defaultText", "cat")]), "dog", "dog"),
        (.init("ChoiceCallback", [("prompt", "Pet"), ("choices", ["cat", "dog"])], inputs: [0]), "Dog", 1),
        (.init("ConfirmationCallback", [("prompt", "Pet"), ("options", ["Keep", "Drop"])], inputs: [0]), "drop", 1),
        (.init("ConfirmationCallback", [("prompt", "Pet"), ("options", []), ("optionType", 0)], inputs: [0]), "no", 1),
        (.init("ConfirmationCallback", [("prompt", "Pet"), ("options", []), ("optionType", 2)], inputs: [0]), "ok", 3),
        (
            .init("StringAttributeInputCallback", [("name", "Pet"), ("prompt", "Which?")], inputs: ["", false]), "dog",
            "dog"
        ),
        (
            .init("NumberAttributeInputCallback", [("name", "Pet"), ("prompt", "How old?")], inputs: [0, false]), "7",
            7
        ),
        (
            .init("NumberAttributeInputCallback", [("name", "Pet"), ("prompt", "How old?")], inputs: [0, false]), "7.5",
            7.5
        ),
        (
            .init("BooleanAttributeInputCallback", [("name", "Pet"), ("prompt", "Any?")], inputs: [false, false]),
            "true", true
        ),
        (
            .init("TermsAndConditionsCallback", [("terms", "Be kind."), ("version", "1")], inputs: [false]), "accept",
            true
        ),
    ]

    @Test(arguments: questions) func answersEveryKindOfCallback(
        _ test: (callback: EmulatorTree.Callback, answer: String, expected: JSON)
    ) async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let seen = Mutex<JSON?>(nil)
            let given = test.answer
            scene.emulator.settings.trees["Login"] = tree([test.callback]) { answers in
                seen.withLock { $0 = answers.first }
                return .goOn
            }
            let answers = ConfiguredAnswers(
                username: "alice",
                password: Secret("wonderland"),
                answers: ["pet": Secret(given), "terms": Secret(given)]
            )
            _ = try await scene.client(handlers: [answers]).signIn()
            #expect(seen.withLock { $0 } == test.expected)
            // The same when the user is asked.
            let questions = Mutex<[String]>([])
            let asking = AskingHandler { question, isSecret in
                questions.withLock { $0.append(question) }
                #expect(isSecret == (question == "Password"))
                return question == "User Name" ? "alice" : question == "Password" ? "wonderland" : given
            }
            _ = try await scene.client(handlers: [asking]).signIn()
            #expect(seen.withLock { $0 } == test.expected)
            #expect(questions.withLock { $0.count } == 3)
        }
    }

    static let passive: [EmulatorTree.Callback] = [
        .init("TextOutputCallback", [("message", "Hello"), ("messageType", "0")], inputs: []),
        .init("TextOutputCallback", [("message", "alert(1)"), ("messageType", "4")], inputs: []),
        .init("HiddenValueCallback", [("value", "v"), ("id", "token")], inputs: ["token"]),
        .init("MetadataCallback", [("data", ["stage": "x"])], inputs: []),
    ]

    @Test(arguments: passive)
    func returnsCallbacksThatNeedNoInputUnchanged(_ callback: EmulatorTree.Callback) async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            scene.emulator.settings.trees["Login"] = tree([callback]) { answers in
                answers.allSatisfy { $0 == "token" } ? .goOn : .fail("changed")
            }
            _ = try await scene.client().signIn()
        }
    }

    @Test(arguments: [
        ("DeviceProfileCallback", AuthError.Code.unknownCallback), ("ReCaptchaCallback", .unknownCallback),
        ("SomethingNewCallback", .unknownCallback), ("TextInputCallback", .unknownCallback),
        ("SuspendedTextOutputCallback", .treeSuspended),
    ]) func namesTheCallbackThatNoHandlerAnswers(_ type: String, _ code: AuthError.Code) async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            scene.emulator.settings.trees["Login"] = tree([.init(type, [("prompt", "What?"), ("message", "Mail")])]) {
                _ in .goOn
            }
            let error = await #expect(throws: AuthError.self) { try await scene.client().signIn() }
            #expect(error?.code == code)
            #expect(code != .unknownCallback || error?.message.contains(type) == true)
        }
    }

    @Test func asksTheAppsOwnHandlerFirst() async throws {
        struct Device: CallbackHandler {
            let mayAnswerOtherwise = false
            func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> Bool {
                guard callback.type == "DeviceProfileCallback" else { return false }
                callback.answer(.string("{\"identifier\":\"x\"}"))
                return true
            }
        }
        try await ForgeRockScene.with(.inProcess) { scene in
            scene.emulator.settings.trees["Login"] = tree([.init("DeviceProfileCallback", [("message", "")])]) {
                answers in
                answers.first?.string?.contains("identifier") == true ? .goOn : .fail("no profile")
            }
            _ = try await scene.client(handlers: [Device(), ForgeRockScene.alice]).signIn()
        }
    }

    @Test func waitsAsLongAsTheTreeAsksWithinALimit() async throws {
        let time = VirtualTime()
        try await ForgeRockScene.with(.inProcess, now: { time.now }) { scene in
            scene.emulator.settings.trees["Login"] = EmulatorTree([
                .polling(times: 3, milliseconds: 2000), .userNameAndPassword,
            ])
            let began = time.now
            _ = try await scene.client(host: time.host).signIn()
            #expect(time.now.timeIntervalSince(began) == 6)
            scene.emulator.settings.trees["Login"] = EmulatorTree([.polling(times: 1000, milliseconds: 9_000_000)])
            let error = await #expect(throws: AuthError.self) { try await scene.client(host: time.host).signIn() }
            #expect(error?.code == .timedOut)
            scene.emulator.settings.trees["Login"] = EmulatorTree([.polling(times: 1000, milliseconds: 0)])
            await #expect(throws: AuthError.self) { try await scene.client(host: time.host).signIn() }
        }
    }

    @Test func stopsWhenATreeKeepsAskingTheSameQuestion() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            scene.emulator.settings.trees["Login"] = tree([.init("TextInputCallback", [("prompt", "Code")])]) { _ in
                .again
            }
            let configured = ConfiguredAnswers(answers: ["code": Secret("1")])
            let error = await #expect(throws: AuthError.self) {
                try await scene.client(handlers: [configured]).signIn()
            }
            #expect(error?.code == .accessDenied)
            let count = Mutex(0)
            let asking = AskingHandler { _, _ in
                count.withLock { $0 += 1 }
                return "1"
            }
            await #expect(throws: AuthError.self) { try await scene.client(handlers: [asking]).signIn() }
            #expect(count.withLock { $0 } == 40)
        }
    }

    @Test func reportsAnUnknownTree() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let error = await #expect(throws: AuthError.self) { try await scene.client(tree: "nonsense").signIn() }
            #expect(error?.code == .providerRejected)
            #expect(error?.providerError?.errorDescription == "No Configuration found")
        }
    }

    @Test(arguments: EmulatorScene.Setting.allCases, [true, false])
    func allowsOrDeniesConsentAsConfigured(
        _ setting: EmulatorScene.Setting,
        _ allows: Bool
    )
        async throws
    {
        try await ForgeRockScene.with(setting) { scene in
            scene.emulator.settings.asksForConsent = true
            let client = try scene.client(allowsConsent: allows)
            if allows {
                _ = try await client.signIn()
            } else {
                let error = await #expect(throws: AuthError.self) { try await client.signIn() }
                #expect(error?.code == .accessDenied)
            }
        }
    }

    @Test(arguments: [
        "https://elsewhere.example.com/am/XUI/?goto=https%3A%2F%2Fid.example.com%2Fauthorize",
        "https://id.example.com/am/XUI/?goto=https%3A%2F%2Felsewhere.example.com%2Fauthorize",
        "https://id.example.com/am/XUI/?goto=https%3A%2F%2Fid.example.com%2Fsomewhere",
        "https://id.example.com/am/XUI/",
    ]) func sendsNoCredentialsFromAPageThatIsNotTheSignInPage(_ address: String) async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let calls = Mutex<[String]>([])
            let transport = DetouringTransport(scene.transport, to: address) { path in
                calls.withLock { $0.append(path) }
            }
            let error = await #expect(throws: AuthError.self) { try await scene.client(transport: transport).signIn() }
            #expect(error?.code == .userAgentFailed)
            #expect(!calls.withLock { $0 }.contains { $0.contains("authenticate") })
        }
    }
}

@Suite struct PageQuestionsTests {
    private static let page = PageQuestions(handlers: [ForgeRockScene.alice])

    @Test func answersTheCallbacksOfAPage() async throws {
        let message = """
            {"authId": "x.y.z", "stage": "s", "callbacks": [
              {"type": "NameCallback", "output": [{"name": "prompt", "value": "User Name"}], "input": [{"name": "IDToken1", "value": ""}], "_id": 0},
              {"type": "TextOutputCallback", "output": [{"name": "message", "value": "Hi"}]}
            ]}
            """
        let answer = try JSON(parsing: Array(try await Self.page.answer(message).utf8))
        #expect(answer["authId"] == "x.y.z")
        #expect(answer["stage"] == "s")
        #expect(answer["callbacks"]?.array?.first?["input"]?.array?.first?["value"] == "alice")
        #expect(answer["callbacks"]?.array?.first?["_id"] == 0)
        #expect(answer["callbacks"]?.array?.count == 2)
    }

    @Test(arguments: [
        "", "[]", #"{"callbacks": []}"#, #"{"authId": "x", "callbacks": [{}]}"#, #"{"authId": "x", "callbacks": 5}"#,
        #"{"authId": "x", "callbacks": [{"type": "ReCaptchaCallback", "output": []}]}"#,
    ]) func refusesMessagesWithoutAnswerableCallbacks(_ message: String) async {
        await #expect(throws: AuthError.self) { try await Self.page.answer(message) }
    }
}

@Suite struct ACRTests {
    @Test func requestsATreeByItsACRValue() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let tokens = try await scene.client(acrValues: ["unmapped", "basic"]).signIn().credential.tokens
            #expect(tokens.verifiedIDToken?.claims["acr"] == "basic")
        }
    }

    @Test func refusesASignInByAnotherTreeThanWasRequired() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let good = try await scene.client(acrValues: ["persistent-cookie"], requiresACR: true).signIn()
            #expect(good.credential.tokens.verifiedIDToken?.claims["acr"] == "persistent-cookie")
            // A server that ignores the requested acr.
            scene.emulator.oauth.fault = .idToken(.claim("acr", "0"))
            let client = try scene.client(acrValues: ["persistent-cookie"], requiresACR: true)
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .invalidIDToken)
            #expect(try await client.credential() == nil)
        }
    }

    @Test(arguments: [
        (JSON.integer(5), true), (.integer(6), true), (.integer(4), false), (.string("9"), false), (.null, false),
    ]) func refusesAnAuthLevelBelowTheMinimum(_ level: JSON, _ isEnough: Bool) async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let payload = Base64URL.encode(try JSON.object(["auth_level": level]).serialized())
            let realm = try ForgeRockRealm(baseURL: scene.emulator.baseURL, path: "/alpha")
            let provider = ForgeRockProvider(realm: realm, minimumAuthLevel: 5)
            let context = try scene.client().providerContext
            for token in ["e30.\(payload).x"] + (isEnough ? [] : ["opaque", "a.b.c"]) {
                let credential = Credential(
                    tokens: TokenSet(accessToken: Secret(token)),
                    identity: Identity(issuer: "i", subject: "s"),
                    signedInAt: Date()
                )
                if isEnough {
                    try await provider.check(credential, in: context)
                } else {
                    let error = await #expect(throws: AuthError.self) {
                        try await provider.check(credential, in: context)
                    }
                    #expect(error?.code == .invalidIDToken)
                }
            }
        }
    }

    @Test func reportsEveryStepOfATreeWithoutTheAnswers() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let events = Mutex<[String]>([])
            _ = try await scene.client { event in events.withLock { $0.append("\(event)") } }.signIn()
            let lines = events.withLock { $0 }
            #expect(lines.contains { $0.contains("tree_step=NameCallback PasswordCallback") })
            #expect(!lines.contains { $0.contains("wonderland") })
        }
    }

    @Test func correctsAWrongRevocationEndpointInTheMetadata() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            scene.emulator.settings.hasRevokeQuirk = true
            let client = try scene.client()
            _ = try await client.signIn()
            guard case .done = try await client.signOut().revocation else {
                Issue.record("The tokens were not revoked.")
                return
            }
        }
    }

    @Test(arguments: [
        ("/", "https://a.example.com/am/oauth2/realms/root"),
        ("/alpha", "https://a.example.com/am/oauth2/realms/root/realms/alpha"),
        ("alpha/sales", "https://a.example.com/am/oauth2/realms/root/realms/alpha/realms/sales"),
    ]) func derivesTheIssuerFromTheRealm(_ path: String, _ issuer: String) async throws {
        let realm = try ForgeRockRealm(baseURL: "https://a.example.com/am/", path: path)
        let asked = Mutex<[String]>([])
        let transport = InProcessTransport(origin: "https://a.example.com") { request, _ in
            asked.withLock { $0.append(request.path ?? "") }
            return TransportResponse(head: HTTPResponse(status: .notFound))
        }
        let client = AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(ForgeRockProvider(realm: realm), transport: transport),
                registration: try ClientRegistration(clientID: "c")
            ),
            methods: [.userAgent(HeadlessUserAgent(driver: TreeDriver(realm: realm, handlers: [])))]
        )
        await #expect(throws: AuthError.self) { try await client.metadata() }
        #expect(
            asked.withLock { $0 } == [
                "\(issuer.dropFirst("https://a.example.com".count))/.well-known/openid-configuration"
            ]
        )
    }

    @Test(arguments: ["/..", "/a?b", "/a b", "/a#b", "/a%2fb"]) func refusesInvalidRealmPaths(_ path: String) {
        #expect(throws: AuthError.self) { try ForgeRockRealm(baseURL: "https://a.example.com/am", path: path) }
    }

    @Test func acceptsTheIssuerOfAnOlderServerWhenConfigured() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let other = "https://id.example.com/am/oauth2"
            scene.emulator.oauth.fault = .metadata(.member("issuer", .string(other)))
            let realm = try ForgeRockRealm(baseURL: scene.emulator.baseURL, path: "/alpha")
            func client(_ issuer: String?) throws -> AuthClient {
                AuthClient(
                    client: OAuthClient(
                        server: AuthorizationServer(
                            ForgeRockProvider(realm: realm, issuer: issuer),
                            transport: scene.transport
                        ),
                        registration: try ClientRegistration(clientID: "authflow-demo")
                    ),
                    methods: [.userAgent(HeadlessUserAgent(driver: TreeDriver(realm: realm, handlers: [])))]
                )
            }
            #expect(try await client(other).metadata().issuer == other)
            let error = await #expect(throws: AuthError.self) { try await client(nil).metadata() }
            #expect(error?.code == .issuerMismatch)
        }
    }
}

@Suite struct SharedCookieTests {
    @Test(arguments: EmulatorScene.Setting.allCases) func signsInTheSecondAppWithSharedCookiesAlone(
        _ setting: EmulatorScene.Setting
    ) async throws {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await ForgeRockScene.with(setting, now: { time.now }) { scene in
            let store = MemoryTokenStore()
            func app(_ handlers: [any CallbackHandler]) throws -> AuthClient {
                try scene.client(
                    handlers: handlers,
                    acrValues: ["persistent-cookie"],
                    cookies: scene.cookies(store),
                    host: time.host
                )
            }
            _ = try await app([ForgeRockScene.alice]).signIn()
            // No user can be asked.
            #expect(try await app([]).signIn().credential.identity?.displayName == "Alice Example")
            // The cookie expires, and the questions come back.
            time.advance(by: .seconds(3600))
            let error = await #expect(throws: AuthError.self) { try await app([]).signIn() }
            #expect(error?.code == .unknownCallback)
            _ = try await app([ForgeRockScene.alice]).signIn()
            _ = try await app([]).signIn()
            // Signed out for the whole group.
            try await scene.cookies(store).remove()
            await #expect(throws: AuthError.self) { try await app([]).signIn() }
        }
    }

    @Test func sharesOnlyNamedPersistentCookies() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let store = MemoryTokenStore()
            let cookies = try scene.cookies(store, names: ["amlbcookie"])
            _ = try await scene.client(acrValues: ["persistent-cookie"], cookies: cookies).signIn()
            let key = RecordKey(name: "acme", issuer: scene.origin, clientID: "", kind: .shared)
            // The named cookie is a session cookie.
            #expect(await store.bytes(for: key) == nil)
        }
    }

    @Test func sharesSessionCookiesOnlyWhenTheAppAcceptsTheRisk() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            for atRisk in [false, true] {
                let store = MemoryTokenStore()
                let cookies = try scene.cookies(store, names: ["iPlanetDirectoryPro"], atRisk: atRisk)
                _ = try await scene.client(cookies: cookies).signIn()
                let second = try scene.client(handlers: [], cookies: cookies)
                if atRisk {
                    _ = try await second.signIn()
                    // A session that the provider has ended is useless, and the tree is run again.
                    scene.emulator.endSessions()
                    _ = try await scene.client(cookies: cookies).signIn()
                } else {
                    await #expect(throws: AuthError.self) { try await second.signIn() }
                }
            }
        }
    }

    @Test func sharesNoCookiesWithAnotherOrigin() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let store = MemoryTokenStore()
            _ = try await scene.client(acrValues: ["persistent-cookie"], cookies: scene.cookies(store)).signIn()
            // The same names, of another origin.
            let elsewhere = SharedCookies(
                store: SharedCredentialStore(group: "acme", store: store),
                origin: Endpoint("https://elsewhere.example.com"),
                names: ["session-jwt"]
            )
            let client = try scene.client(handlers: [], acrValues: ["persistent-cookie"], cookies: elsewhere)
            await #expect(throws: AuthError.self) { try await client.signIn() }
        }
    }

    @Test func signsOutForEveryAppOfTheGroup() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let store = MemoryTokenStore()
            let cookies = try scene.cookies(store)
            let mail = try scene.client(acrValues: ["persistent-cookie"], cookies: cookies)
            _ = try await mail.signIn()
            let signOut = try await mail.signOut(endingSession: true)
            guard case .done = signOut.endSession else {
                Issue.record("\(signOut.endSession)")
                return
            }
            let calendar = try scene.client(handlers: [], acrValues: ["persistent-cookie"], cookies: cookies)
            await #expect(throws: AuthError.self) { try await calendar.signIn() }
        }
    }

    /// Origins whose cookies could be taken for those of `https://id.example.com`.
    static let neighbours = [
        "https://id.example.com:8443", "https://sub.id.example.com", "https://id.example.com.evil.example",
        "https://xid.example.com", "https://example.com", "http://127.0.0.1:1",
    ]

    @Test(arguments: neighbours) func sendsSharedCookiesToNoOtherOrigin(_ neighbour: String) async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let store = MemoryTokenStore()
            let cookies = try scene.cookies(store)
            _ = try await scene.client(acrValues: ["persistent-cookie"], cookies: cookies).signIn()
            // The provider now redirects the visit through that origin, which sets the cookie itself in every way it
            // can.
            let received = Mutex<[String]>([])
            let transport = NeighbourTransport(base: scene.transport, neighbour: neighbour) { cookie in
                received.withLock { $0.append(cookie) }
            }
            let key = RecordKey(name: "acme", issuer: scene.origin, clientID: "", kind: .shared)
            let client = try scene.client(
                handlers: [],
                acrValues: ["persistent-cookie"],
                cookies: cookies,
                transport: transport
            )
            _ = try? await client.signIn()
            // A public server cannot even redirect the visit to this machine.
            #expect(received.withLock { $0 } == (neighbour.contains("127.0.0.1") ? [] : [""]))
            // The cookie that it set was not shared.
            let after = await store.bytes(for: key)
            #expect(!String(decoding: after ?? [], as: UTF8.self).contains("tossed"))
        }
    }

    @Test func signsInWithoutSharedCookiesWhenTheirStoreIsDamaged() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let store = MemoryTokenStore()
            try await store.set(
                Array("not JSON".utf8),
                for: RecordKey(name: "acme", issuer: scene.origin, clientID: "", kind: .shared)
            )
            let events = Mutex<[String]>([])
            let client = try scene.client(cookies: scene.cookies(store)) { event in
                events.withLock { $0.append("\(event)") }
            }
            _ = try await client.signIn()
            #expect(events.withLock { $0.contains { $0.contains("damaged") } })
        }
    }
}

/// Redirects the first authorization request through another origin and back.
private final class NeighbourTransport: HTTPTransport {
    private let base: any HTTPTransport
    private let neighbour: String
    private let onCookie: @Sendable (String) -> Void
    private let back = Mutex<String?>(nil)

    init(base: any HTTPTransport, neighbour: String, onCookie: @escaping @Sendable (String) -> Void) {
        self.base = base
        self.neighbour = neighbour
        self.onCookie = onCookie
    }

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        if try Endpoint(call.url).origin == neighbour {
            onCookie(call.head.headerFields[.cookie] ?? "")
            var response = TransportResponse(
                head: HTTPResponse(status: .found, headerFields: [.location: back.withLock { $0 } ?? ""])
            )
            for domain in ["", "; Domain=example.com", "; Domain=id.example.com"] {
                let field = "session-jwt=tossed; Path=/; Max-Age=9999\(domain)"
                response.head.headerFields.append(HTTPField(name: .setCookie, value: field))
            }
            return response
        }
        let isFirst = back.withLock { back in
            guard call.url.contains("/authorize?"), back == nil else { return false }
            back = call.url
            return true
        }
        guard isFirst else { return try await base.send(call) }
        return TransportResponse(head: HTTPResponse(status: .found, headerFields: [.location: "\(neighbour)/"]))
    }
}

/// Redirects the authorization request to another page.
private struct DetouringTransport: HTTPTransport {
    let base: any HTTPTransport
    let address: String
    let onCall: @Sendable (String) -> Void

    init(_ base: any HTTPTransport, to address: String, onCall: @escaping @Sendable (String) -> Void) {
        self.base = base
        self.address = address
        self.onCall = onCall
    }

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        let path = call.head.path ?? ""
        onCall(path)
        if path.contains("/authorize?") {
            return TransportResponse(head: HTTPResponse(status: .found, headerFields: [.location: address]))
        }
        if path.contains("XUI") || call.head.authority == "elsewhere.example.com" {
            return TransportResponse(head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/html"]))
        }
        return try await base.send(call)
    }
}
