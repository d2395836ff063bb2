import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import Testing

/// A provider and a user agent that only a configuration needs.
private struct FakeProvider: ProviderAdapter {
    let id: ProviderID = "fake"
    func metadata(in context: ProviderContext) -> ProviderMetadata {
        ProviderMetadata(issuer: "https://id.example.com")
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
        _ in FakeUserAgent()
    }
    fileprivate static let absent = UserAgentFactory(
        "absent",
        availability: { _, _ in .unavailable(reason: "no screen") }
    ) {
        _ in FakeUserAgent()
    }
    fileprivate static let needy = UserAgentFactory(
        "needy",
        keys: [ConfigurationKey("who", .text, required: true, "Who.")]
    ) {
        _ in FakeUserAgent()
    }
}

@Suite struct ConfigurationTests {
    private func client(_ profile: String, environment: [String: String] = ["SECRET": "s"]) throws -> AuthClient {
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
            userAgents: [.fake, .absent, .needy],
            stores: [.memory, .file],
            host: HostServices(environment: environment)
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
        #", "store": "memory", "parameters": {"authorization": {"prompt": "login"}, "token": {"x": "y"}}"#,
    ]) func accepts(_ more: String) throws {
        _ = try client("{\(Self.good)\(more)}")
    }

    /// What is added to a good profile, where the fault is, and what is said about it.
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
        (#", "user_agent": []"#, "3:88", "profiles.work.user_agent", "at least one"),
        (#", "store": "keyring""#, "3:88", "profiles.work.store", "Known: memory, file"),
        (
            #", "parameters": {"authorization": {"nonce": "x"}}"#, "3:121",
            "profiles.work.parameters.authorization.nonce", "set by AuthFlow"
        ),
    ]

    @Test(arguments: faults) func saysWhatIsWrongAndWhere(
        _ fault: (more: String, place: String, keyPath: String, words: String)
    ) throws {
        let error = try #require(throws: ConfigurationError.self) { try client("{\(Self.good)\(fault.more)}") }
        let issue = try #require(error.issues.first)
        #expect(issue.keyPath == fault.keyPath)
        #expect("\(issue.line):\(issue.column)" == fault.place)
        #expect(issue.problem.contains(fault.words), "\(issue.problem)")
        #expect(!error.description.contains("hunter2"))
    }

    @Test func namesEveryFaultAtOnce() throws {
        let error = try #require(throws: ConfigurationError.self) {
            try client(#"{"provider": "fake", "timeout": "x"}"#)
        }
        #expect(error.issues.map(\.keyPath).sorted() == ["profiles.work", "profiles.work", "profiles.work.timeout"])
    }

    @Test func doesNotTakeTheKeysOfAMisspeltProviderForMistakes() throws {
        let error = try #require(throws: ConfigurationError.self) {
            try client(#"{"provider": "fakee", "issuer": "https://id.example.com", "client_id": "c"}"#)
        }
        #expect(error.issues.map(\.keyPath) == ["profiles.work.provider"])
    }

    @Test func failsWhenNoUserAgentCanWorkHere() throws {
        let error = try #require(throws: AuthError.self) { try client("{\(Self.good), \"user_agent\": [\"absent\"]}") }
        #expect(error.description.contains("absent: no screen"))
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

    @Test(arguments: brokenFiles) func refusesFiles(_ file: (text: String, words: String)) throws {
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

    @Test func describesItselfToEditors() throws {
        let schema = ConfigurationFile.jsonSchema(providers: [.fake], userAgents: [.fake, .needy], stores: [.memory])
        let profile = schema["properties"]?["profiles"]?["additionalProperties"]?["anyOf"]?.array?.first
        #expect(profile?["required"]?.strings == ["provider", "client_id", "issuer"])
        #expect(profile?["properties"]?["issuer"]?["description"] == "The issuer.")
        #expect(profile?["additionalProperties"] == false)
    }
}
