import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import Synchronization
import Testing

/// A provider and a user agent that exist only for configurations.
private struct FakeProvider: ProviderAdapter {
    let issuer = "https://id.example.com"
    func metadata(in context: ServerContext) throws -> ProviderMetadata {
        ProviderMetadata(
            issuer: "https://id.example.com",
            authorizationEndpoint: Endpoint("https://id.example.com/authorize"),
            tokenEndpoint: Endpoint("https://id.example.com/token")
        )
    }
}

private struct FakeUserAgent: UserAgent {
    func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        throw AuthError(.userAgentFailed, "fake")
    }
}

private struct NoPresenter: DevicePresenter {
    func present<Return: Sendable>(
        _ authorization: DeviceAuthorization,
        while body: () async throws -> Return
    ) async throws -> Return {
        try await body()
    }
}

extension ProviderFactory {
    fileprivate static let fake = ProviderFactory(
        "fake",
        keys: [ConfigurationKey("issuer", .url, required: true, "The issuer.")]
    ) { _ in FakeProvider() }
}

extension UserAgentFactory {
    fileprivate static let fake = UserAgentFactory(
        "window",
        keys: [ConfigurationKey("width", .number(1...100), "Its width.")]
    ) {
        _,
        _ in FakeUserAgent()
    }
    fileprivate static let absent = UserAgentFactory(
        "absent",
        availability: { _, _ in .unavailable(reason: "no screen") }
    ) {
        _,
        _ in FakeUserAgent()
    }
    fileprivate static let lastResort = UserAgentFactory(
        "lastResort",
        availability: { _, context in
            context.launchEnvironment.environment["SCREEN"] == nil ? .lastResort(reason: "no screen") : .available()
        }
    ) {
        _,
        _ in FakeUserAgent()
    }
    fileprivate static let needy = UserAgentFactory(
        "needy",
        keys: [ConfigurationKey("who", .text, required: true, "Who.")]
    ) {
        _,
        _ in FakeUserAgent()
    }
}

@Suite struct ConfigurationTests {
    private func client(
        _ profile: String,
        environment: [String: String] = ["SECRET": "s"],
        devicePresenter: (any DevicePresenter)? = nil,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> AuthClient {
        let text = """
            {
              "profiles": {
                "work": \(profile)
              }
            }
            """
        return try AuthClient(
            profile: try ConfigurationFile(text: Array(text.utf8), name: "auth.json").profile("work"),
            providers: [.fake],
            userAgents: [.fake, .absent, .lastResort, .needy],
            devicePresenter: devicePresenter,
            stores: [.memory, .file],
            host: HostServices(environment: environment),
            observer: observer
        )
    }

    private static let good = #""provider": "fake", "issuer": "https://id.example.com", "client_id": "c""#

    @Test(arguments: [
        "",
        #", "client_secret": {"env": "SECRET"}"#,
        #", "client_secret": {"env": "SECRET"}, "client_authentication": "client_secret_post""#,
        #", "scopes": ["openid", "email"], "redirect_uri": "http://127.0.0.1:8400/cb", "timeout": 60"#,
        #", "user_agent": "window""#,
        #", "user_agent": {"name": "window", "width": 5}"#,
        #", "user_agent": ["absent", {"name": "window"}]"#,
        #", "flow": "authorization_code""#,
        #", "flow": ["authorization_code", "device"], "user_agent": "absent""#,
        #", "user_agent": "lastResort""#,
        #", "store": "memory", "parameters": {"authorization": {"prompt": "login"}, "token": {"x": "y"}}"#,
    ]) func acceptsValidProfiles(_ more: String) throws {
        _ = try client("{\(Self.good)\(more)}")
    }

    /// The keys that are added to a good profile, the place of the fault, and words of its message.
    static let faults: [(more: String, place: String, keyPath: String, words: String)] = [
        (#", "client_ids": "x""#, "3:88", "profiles.work.client_ids", #"did you mean "client_id"?"#),
        (#", "scopes": "openid""#, "3:88", "profiles.work.scopes", "expected an array"),
        (#", "scopes": ["openid", 5]"#, "3:109", "profiles.work.scopes[1]", "expected a string"),
        (#", "scopes": ["a\"b"]"#, "3:88", "profiles.work.scopes", "RFC 6749 section 3.3"),
        (#", "timeout": 2"#, "3:88", "profiles.work.timeout", "from 5 to 3600"),
        (#", "client_secret": "hunter2""#, "3:88", "profiles.work.client_secret", "never written into the file"),
        (#", "client_secret": {"envv": "X"}"#, "3:106", "profiles.work.client_secret.envv", #"did you mean "env"?"#),
        (#", "client_secret": {"env": "NOPE"}"#, "3:88", "profiles.work.client_secret", "NOPE is not set"),
        (#", "client_secret": {"file": "/no/such"}"#, "3:88", "profiles.work.client_secret", "cannot be read"),
        (
            #", "client_authentication": "client_secret_basic""#, "3:88", "profiles.work.client_authentication",
            "needs a"
        ),
        (#", "redirect_uri": "http://example.com/cb""#, "3:88", "profiles.work.redirect_uri", "plain http"),
        (#", "user_agent": "windov""#, "3:88", "profiles.work.user_agent", #"did you mean "window"?"#),
        (
            #", "user_agent": {"name": "window", "widht": 5}"#, "3:121", "profiles.work.user_agent.widht",
            #"did you mean "width"?"#
        ),
        (#", "user_agent": "needy""#, "3:88", "profiles.work.user_agent", "needs options"),
        (#", "flow": "devise""#, "3:88", "profiles.work.flow", #"did you mean "device"?"#),
        (#", "flow": "device""#, "3:88", "profiles.work.flow", "cannot show a code"),
        (#", "user_agent": []"#, "3:88", "profiles.work.user_agent", "at least one"),
        (#", "store": "keyring""#, "3:88", "profiles.work.store", "Known: memory, file"),
        (
            #", "parameters": {"authorization": {"nonce": "x"}}"#, "3:121",
            "profiles.work.parameters.authorization.nonce", "set by AuthFlow"
        ),
    ]

    @Test(arguments: faults) func reportsAFaultOfAProfileWithItsPlace(
        _ fault: (more: String, place: String, keyPath: String, words: String)
    ) throws {
        let error = try #require(throws: ConfigurationError.self) { try client("{\(Self.good)\(fault.more)}") }
        let issue = try #require(error.issues.first)
        #expect(issue.keyPath == fault.keyPath)
        #expect("\(issue.line):\(issue.column)" == fault.place)
        #expect(issue.problem.contains(fault.words), "\(issue.problem)")
        #expect(!error.description.contains("hunter2"))
    }

    @Test func reportsAllFaultsOfAProfileAtOnce() throws {
        let error = try #require(throws: ConfigurationError.self) {
            try client(#"{"provider": "fake", "timeout": "x"}"#)
        }
        #expect(error.issues.map(\.keyPath).sorted() == ["profiles.work", "profiles.work", "profiles.work.timeout"])
    }

    @Test func doesNotReportTheKeysOfAMisspeltProvider() throws {
        let error = try #require(throws: ConfigurationError.self) {
            try client(#"{"provider": "fakee", "issuer": "https://id.example.com", "client_id": "c"}"#)
        }
        #expect(error.issues.map(\.keyPath) == ["profiles.work.provider"])
    }

    @Test func failsAtOnceWhenNoUserAgentCanWorkHere() async throws {
        let events = Mutex<[FlowEvent]>([])
        let client = try client("{\(Self.good), \"store\": \"memory\", \"user_agent\": \"absent\"}") { event in
            events.withLock { $0.append(event) }
        }
        // Neither the provider nor the user is asked anything.
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.code == .noUserAgent)
        #expect(error?.message.contains("absent: no screen") == true)
        #expect(events.withLock { $0.isEmpty })
        // Calls that need no user agent still work.
        #expect(try await client.credential() == nil)
    }

    /// The user agent that is chosen, and those that were passed over.
    @Test(
        arguments: [
            (#""lastResort""#, [:], "lastResort", nil),
            (#"["lastResort", "window"]"#, [:], "window", "lastResort: no screen"),
            (#"["lastResort", "window"]"#, ["SCREEN": "1"], "lastResort", nil),
            (#"["absent", "lastResort"]"#, [:], "lastResort", "absent: no screen"),
        ] as [(String, [String: String], String, String?)]
    ) func choosesTheUserAgent(
        _ agents: String,
        _ environment: [String: String],
        _ name: String,
        _ passedOver: String?
    ) async throws {
        let events = Mutex<[FlowEvent]>([])
        let profile = "{\(Self.good), \"store\": \"memory\", \"user_agent\": \(agents)}"
        let client = try client(profile, environment: environment) { event in events.withLock { $0.append(event) } }
        await #expect(throws: AuthError.self) { try await client.signIn() }
        let choice = events.withLock { $0.first { $0.step == .userAgentChoice } }
        #expect(choice?.details["name"] == name)
        #expect(choice?.details["passed_over"] == passedOver)
    }

    @Test func triesTheDeviceGrantBeforeAUserAgentOfLastResort() async throws {
        let events = Mutex<[FlowEvent]>([])
        let flow = #""flow": ["authorization_code", "device"]"#
        let client = try client(
            "{\(Self.good), \"store\": \"memory\", \"user_agent\": \"lastResort\", \(flow)}",
            devicePresenter: NoPresenter()
        ) { event in events.withLock { $0.append(event) } }
        // The provider of these tests has no device flow either, so the lastResort agent is tried after all, and fails.
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.code == .userAgentFailed)
        let passedOver = events.withLock { $0.filter { $0.step == .flowChoice }.map { $0.details["passed_over"] } }
        #expect(passedOver == ["authorization_code", "device"])
        let choice = events.withLock { $0.first { $0.step == .flowChoice } }
        #expect(choice?.details["reason"]?.contains("lastResort: no screen") == true)
    }

    @Test func usesNoOtherGrantThanTheConfiguredOne() async throws {
        let profile = "{\(Self.good), \"store\": \"memory\", \"user_agent\": \"lastResort\", \"flow\": \"device\"}"
        let client = try client(profile, devicePresenter: NoPresenter())
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.message.contains("device authorization endpoint") == true)
    }

    static let brokenFiles: [(text: String, words: String)] = [
        ("", "1:1"),
        ("{", "ends too early"),
        (#"{"profiles": {}}"#, "no profile"),
        (#"{"profile": {}}"#, #"did you mean "profiles"?"#),
        (#"{"profiles": {"a": {}}, "default_profile": "b"}"#, "Known: a"),
        ("[]", "expected an object"),
        (#"{"profiles": 5}"#, "expected an object"),
    ]

    @Test(arguments: brokenFiles) func refusesBrokenConfigurationFiles(_ file: (text: String, words: String)) throws {
        let error = try #require(throws: ConfigurationError.self) {
            try ConfigurationFile(text: Array(file.text.utf8), name: "auth.json").profile()
        }
        #expect(error.description.hasPrefix("auth.json:"))
        #expect(error.description.contains(file.words), "\(error)")
    }

    @Test func choosesTheProfile() throws {
        let two = Array(#"{"profiles": {"a": {}, "b": {}}}"#.utf8)
        #expect(throws: ConfigurationError.self) { try ConfigurationFile(text: two).profile() }
        #expect(try ConfigurationFile(text: two).profile("b").name == "b")
        let preferred = Array(#"{"profiles": {"a": {}, "b": {}}, "default_profile": "b"}"#.utf8)
        #expect(try ConfigurationFile(text: preferred).profile().name == "b")
        let one = Array(#"{"profiles": {"a": {}}}"#.utf8)
        #expect(try ConfigurationFile(text: one).profile().name == "a")
    }

    @Test func describesTheConfigurationAsAJSONSchema() throws {
        let schema = ConfigurationFile.jsonSchema(providers: [.fake], userAgents: [.fake, .needy], stores: [.memory])
        let profile = schema["properties"]?["profiles"]?["additionalProperties"]?["anyOf"]?.array?.first
        #expect(profile?["required"]?.strings == ["provider", "client_id", "issuer"])
        #expect(profile?["properties"]?["issuer"]?["description"] == "The issuer.")
        #expect(profile?["additionalProperties"] == false)
    }
}
