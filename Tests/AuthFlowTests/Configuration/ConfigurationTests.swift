import AuthFlow
import AuthFlowJSON
import AuthFlowLoopback
import AuthFlowTesting
import Expectations
import Foundation
import Synchronization
import Testing

/// A provider that exists only for the configuration tests.
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
        keys: [ConfigurationKey("issuer", required: .url, "The issuer.")]
    ) { _ in FakeProvider() }
}

extension UserAgentFactory {
    fileprivate static let fake = UserAgentFactory(
        "window",
        keys: [ConfigurationKey("width", .number(1...100), default: 80, "Its width.")]
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
        keys: [ConfigurationKey("who", required: .text, "Who.")]
    ) {
        _,
        _ in FakeUserAgent()
    }
}

/// A user agent whose options must name a secret. Counts the agents that were created.
private final class SecretiveAgents: Sendable {
    private let created = Mutex(0)
    var count: Int { created.withLock { $0 } }

    var factory: UserAgentFactory {
        let word = ConfigurationKey("word", required: .secret, "The secret word.")
        return UserAgentFactory("secretive", keys: [word]) { [self] options, _ in
            _ = try options[word]
            created.withLock { $0 += 1 }
            return FakeUserAgent()
        }
    }
}

@Suite struct ConfigurationTests {
    private func client(
        _ profile: String,
        environment: [String: String] = ["SECRET": "s", "EMPTY": ""],
        userAgents: [UserAgentFactory] = [.fake, .absent, .lastResort, .needy],
        devicePresenter: (any DevicePresenter)? = nil,
        overrides: AuthClient.Overrides = AuthClient.Overrides(),
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
            userAgents: userAgents,
            devicePresenter: devicePresenter,
            stores: [.memory, .file],
            overrides: overrides,
            host: HostServices(environment: environment),
            observer: observer
        )
    }

    private static let good = #""provider": "fake", "issuer": "https://id.example.com", "client_id": "c""#

    @Test(arguments: [
        "",
        #", "client_secret": {"env": "SECRET"}"#,
        #", "client_secret": {"command": ["/bin/sh", "-c", "echo \"$SECRET\""]}"#,
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

    @Test(arguments: [
        ("", ["client_secret_post"], "client_secret_post"),
        ("", ["client_secret_basic", "client_secret_post"], "client_secret_basic"),
        (#", "client_authentication": "client_secret_basic""#, ["client_secret_post"], "client_secret_basic"),
    ])
    func metadataSelectsTheClientAuthenticationMethodByDefault(_ more: String, _ listed: [String], _ method: String)
        throws
    {
        let client = try client(#"{\#(Self.good), "client_secret": {"env": "SECRET"}\#(more)}"#)
        #expect(client.registration.authentication.resolved(for: listed).method.rawValue == method)
    }

    @Test func listsOnlyTheFirstHundredConfigurationErrors() throws {
        let keys = (0..<1000).map { "\"unknown_\($0)\": 1" }.joined(separator: ", ")
        let error = #expect(throws: ConfigurationError.self) { try client("{\(Self.good), \(keys)}") }
        #expect(error?.issues.count == 101)
        #expect(error?.issues.last?.problem.contains("only the first 100") == true)
    }

    @Test func rejectsACertificateForTheDPoPKey() throws {
        let key = #"{"file": "key.pem", "certificate": "cert.pem"}"#
        let bound = #expect(throws: ConfigurationError.self) { try client("{\(Self.good), \"dpop_key\": \(key)}") }
        #expect(bound?.issues.first?.problem.contains("unknown key") == true)
    }

    struct Fault: CustomTestStringConvertible {
        let more: String
        let place: String
        let keyPath: String
        let words: String
        var testDescription: String { more }
    }

    /// Keys that are added to a valid profile, the location of the resulting error, and part of its message.
    static let faults: [Fault] = [
        Fault(
            more: #", "client_ids": "x""#,
            place: "3:88",
            keyPath: "profiles.work.client_ids",
            words: #"Did you mean "client_id"?"#
        ),
        Fault(
            more: #", "scopes": "openid""#,
            place: "3:88",
            keyPath: "profiles.work.scopes",
            words: "expected an array"
        ),
        Fault(
            more: #", "scopes": ["openid", 5]"#,
            place: "3:109",
            keyPath: "profiles.work.scopes[1]",
            words: "expected a non-empty string"
        ),
        Fault(
            more: #", "scopes": ["a\"b"]"#,
            place: "3:88",
            keyPath: "profiles.work.scopes",
            words: "RFC 6749 section 3.3"
        ),
        Fault(more: #", "timeout": 2"#, place: "3:88", keyPath: "profiles.work.timeout", words: "from 5 to 3600"),
        Fault(
            more: #", "client_secret": "hunter2""#,
            place: "3:88",
            keyPath: "profiles.work.client_secret",
            words: "must not be written in the file"
        ),
        Fault(
            more: #", "client_secret": {"envv": "X"}"#,
            place: "3:106",
            keyPath: "profiles.work.client_secret.envv",
            words: #"Did you mean "env"?"#
        ),
        Fault(
            more: #", "client_secret": {"env": "NOPE"}"#,
            place: "3:88",
            keyPath: "profiles.work.client_secret",
            words: "NOPE is not set"
        ),
        Fault(
            more: #", "client_secret": {"file": "/no/such"}"#,
            place: "3:88",
            keyPath: "profiles.work.client_secret",
            words: "There is no secret file at /no/such"
        ),
        Fault(
            more: #", "client_secret": {"command": ["no-such-program"]}"#,
            place: "3:88",
            keyPath: "profiles.work.client_secret",
            words: "is not installed"
        ),
        Fault(
            more: #", "client_secret": {"command": ["/bin/false"]}"#,
            place: "3:88",
            keyPath: "profiles.work.client_secret",
            words: "exited with status 1"
        ),
        Fault(
            more: #", "client_secret": {"command": ["/bin/true"]}"#,
            place: "3:88",
            keyPath: "profiles.work.client_secret",
            words: "printed nothing"
        ),
        Fault(
            more: #", "client_secret": {"command": ["/bin/sh", "-c", "head -c 70000 /dev/zero"]}"#,
            place: "3:88",
            keyPath: "profiles.work.client_secret",
            words: "than 64 KiB"
        ),
        Fault(
            more: #", "client_secret": {"command": []}"#,
            place: "3:88",
            keyPath: "profiles.work.client_secret",
            words: "as one of"
        ),
        Fault(
            more: #", "client_secret": {"command": "/bin/true"}"#,
            place: "3:88",
            keyPath: "profiles.work.client_secret",
            words: "as one of"
        ),
        Fault(
            more: #", "client_secret": {"env": "EMPTY"}"#,
            place: "3:88",
            keyPath: "profiles.work.client_secret",
            words: "EMPTY is not set, or is empty"
        ),
        Fault(
            more: #", "client_secret": {"env": "SECRET", "file": "secret.txt"}"#,
            place: "3:88",
            keyPath: "profiles.work.client_secret",
            words: "as one of"
        ),
        Fault(
            more: #", "client_authentication": "none", "client_secret": {"env": "SECRET"}"#,
            place: "3:88",
            keyPath: "profiles.work.client_authentication",
            words: "sends no secret"
        ),
        Fault(
            more: #", "client_secret_issuer": "team", "client_authentication": "client_secret_basic""#,
            place: "3:88",
            keyPath: "profiles.work.client_secret_issuer",
            words: #"requires "client_authentication": "client_secret_post""#
        ),
        Fault(
            more:
                #", "client_secret_issuer": "team", "client_authentication": "client_secret_post", "client_secret": {"env": "SECRET"}"#,
            place: "3:88",
            keyPath: "profiles.work.client_secret_issuer",
            words: #"without "client_secret""#
        ),
        Fault(
            more:
                #", "client_secret_issuer": "team", "client_authentication": "client_secret_post", "client_assertion": "actions""#,
            place: "3:88",
            keyPath: "profiles.work.client_secret_issuer",
            words: #"or "client_assertion""#
        ),
        Fault(
            more: #", "encrypted_responses": ["id_token"]"#,
            place: "3:88",
            keyPath: "profiles.work.encrypted_responses",
            words: #"need a "decryption_key""#
        ),
        Fault(
            more: #", "encrypted_requests": true"#,
            place: "3:88",
            keyPath: "profiles.work.encrypted_requests",
            words: "must be signed"
        ),
        Fault(
            more: #", "api_origins": ["https://api.example.com/?a=b"]"#,
            place: "3:104",
            keyPath: "profiles.work.api_origins[0]",
            words: "must not have a path or a query"
        ),
        Fault(
            more: #", "client_authentication": "client_secret_basic""#,
            place: "3:88",
            keyPath: "profiles.work.client_authentication",
            words: "needs a"
        ),
        Fault(
            more: #", "redirect_uri": "http://example.com/cb""#,
            place: "3:88",
            keyPath: "profiles.work.redirect_uri",
            words: "plain http"
        ),
        Fault(
            more: #", "user_agent": "windov""#,
            place: "3:88",
            keyPath: "profiles.work.user_agent",
            words: #"Did you mean "window"?"#
        ),
        Fault(
            more: #", "user_agent": {"name": "window", "widht": 5}"#,
            place: "3:121",
            keyPath: "profiles.work.user_agent.widht",
            words: #"Did you mean "width"?"#
        ),
        Fault(
            more: #", "user_agent": {"width": 5}"#,
            place: "3:88",
            keyPath: "profiles.work.user_agent",
            words: #"the key "name" is missing"#
        ),
        Fault(
            more: #", "user_agent": "needy""#,
            place: "3:88",
            keyPath: "profiles.work.user_agent",
            words: "needs options"
        ),
        Fault(
            more: #", "flow": "devise""#,
            place: "3:88",
            keyPath: "profiles.work.flow",
            words: #"Did you mean "device"?"#
        ),
        Fault(more: #", "flow": "device""#, place: "3:88", keyPath: "profiles.work.flow", words: "cannot show a code"),
        Fault(
            more: #", "flow": ["authorization_code", "client_credentials"]"#,
            place: "3:88",
            keyPath: "profiles.work.flow",
            words: "does not sign in a user"
        ),
        Fault(
            more: #", "dpop_key": "/nowhere/key.pem""#,
            place: "3:88",
            keyPath: "profiles.work.dpop_key",
            words: "/nowhere/key.pem"
        ),
        Fault(more: #", "user_agent": []"#, place: "3:88", keyPath: "profiles.work.user_agent", words: "at least one"),
        Fault(
            more: #", "store": "keyring""#,
            place: "3:88",
            keyPath: "profiles.work.store",
            words: "Known: memory, file"
        ),
        Fault(
            more: #", "parameters": {"authorization": {"nonce": "x"}}"#,
            place: "3:121",
            keyPath: "profiles.work.parameters.authorization.nonce",
            words: "set by AuthFlow"
        ),
        Fault(
            more: #", "parameters": {"refresh": {"redirect_uri": "oob", "refresh_token": "x"}}"#,
            place: "3:138",
            keyPath: "profiles.work.parameters.refresh.refresh_token",
            words: "set by AuthFlow"
        ),
        Fault(
            more: #", "parameters": {"authorization": {"scope": "openid offline_access"}}"#,
            place: "3:88",
            keyPath: "profiles.work.parameters",
            words: #"list the scopes in "scopes""#
        ),
        Fault(
            more: #", "parameters": {"jwt_bearer": {"scope": "orders"}}, "scopes": ["reports"]"#,
            place: "3:88",
            keyPath: "profiles.work.parameters",
            words: #"list the scopes in "scopes""#
        ),
        Fault(
            more:
                #", "parameters": {"authorization": {"authorization_details": "[]"}}, "authorization_details": [{"type": "payment"}]"#,
            place: "3:88",
            keyPath: "profiles.work.parameters",
            words: "would be replaced"
        ),
        Fault(
            more:
                #", "client_assertion": {"name": "environment", "variable": "JWT"}, "client_assertion_audience": "endpoint""#,
            place: "3:152",
            keyPath: "profiles.work.client_assertion_audience",
            words: #"whose option "audience""#
        ),
    ]

    @Test(arguments: faults) func reportsAProfileErrorWithItsLocationAndKeyPath(
        _ fault: Fault
    ) throws {
        let error = try #require(throws: ConfigurationError.self) { try client("{\(Self.good)\(fault.more)}") }
        let issue = try #require(error.issues.first)
        #expect(issue.keyPath == fault.keyPath)
        #expect("\(issue.line):\(issue.column)" == fault.place)
        #expect(issue.problem.contains(fault.words), "\(issue.problem)")
        #expect(!error.description.contains("hunter2"))
    }

    @Test(arguments: [
        #""scopes": [], "parameters": {"authorization": {"scope": "a"}}"#, #""parameters": {"token": {"scope": "a"}}"#,
        #""parameters": {"client_credentials": {"scope": "a"}}"#,
    ]) func aScopeParameterIsAllowedIfNoScopesReplaceIt(_ keys: String) throws {
        _ = try client("{\(Self.good), \(keys)}")
    }

    /// Keys of a profile that refer to files, and the resulting error; nil if the profile is valid.
    @Test(
        arguments: [
            (#""dpop_key": "KEY", "dpop": false"#, "dpop", "cannot be false when a \"dpop_key\" is set"),
            (
                #""client_key": {"file": "KEY", "certificate": "CERTIFICATE"}, "client_authentication": "none""#,
                "client_key",
                "requires \"client_authentication\": \"private_key_jwt\""
            ),
            (
                #""client_key": "KEY", "security_profile": "fapi2-message-signing", "signed_requests": false"#,
                "signed_requests", "requires the value true"
            ),
            // Only FAPI 2.0 Message Signing requires signed requests.
            (#""client_key": "KEY", "security_profile": "fapi2", "signed_requests": false"#, nil, ""),
        ] as [(String, String?, String)]
    ) func rejectsSettingsThatContradictAKey(_ more: String, _ rejected: String?, _ words: String) throws {
        let folder = NSTemporaryDirectory() + "authflow-keys-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let key = try PrivateKey(generatedFor: .es256).pem.exposed
        let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
        for (name, text) in [("KEY", key), ("CERTIFICATE", certificate)] {
            let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
            #expect(
                FileManager.default.createFile(
                    atPath: "\(folder)/\(name)",
                    contents: Data(text.utf8),
                    attributes: attributes
                )
            )
        }
        let members = ["KEY", "CERTIFICATE"].reduce(more) { $0.replacing("\"\($1)\"", with: "\"\(folder)/\($1)\"") }
        do {
            _ = try client("{\(Self.good), \(members)}")
            #expect(rejected == nil)
        } catch let error as ConfigurationError {
            #expect(error.issues.first?.keyPath == rejected.map { "profiles.work.\($0)" })
            #expect(error.issues.first?.problem.contains(words) == true, "\(error)")
        }
    }

    /// The best algorithm of an RSA key is PS256.
    @Test func aRequestObjectIsSignedWithTheAlgorithmOfTheClientKey() async throws {
        let path = NSTemporaryDirectory() + "authflow-key-\(UUID().uuidString).pem"
        let pem = try PrivateKey(generatedFor: .rs256).pem.exposed
        let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
        #expect(FileManager.default.createFile(atPath: path, contents: Data(pem.utf8), attributes: attributes))
        defer { try? FileManager.default.removeItem(atPath: path) }
        let key = #""client_key": {"file": "\#(path)", "algorithm": "RS256"}, "signed_requests": true"#
        let client = try client(
            #"{\#(Self.good), "store": "memory", "redirect_uri": "http://127.0.0.1:8400/cb", \#(key)}"#
        )
        let url = try await client.beginSignIn().url
        let request = FormURLEncoding.decode(url.drop { $0 != "?" }.dropFirst())?["request"] ?? ""
        let header = request.split(separator: ".").first.flatMap { Base64URL.decode($0) } ?? []
        #expect(try JSON(parsing: header)["alg"] == "RS256")
    }

    @Test func anAccountCannotBeSetForAFlowWithoutAUser() throws {
        let machine = #"{\#(Self.good), "client_secret": {"env": "SECRET"}, "flow": "client_credentials"}"#
        _ = try client(machine)
        let error = #expect(throws: ConfigurationError.self) {
            try client(machine, overrides: AuthClient.Overrides(account: "alice"))
        }
        #expect(
            error?.issues.first?.problem.contains("\"account\" cannot be set") == true,
            "\(error?.description ?? "")"
        )
    }

    @Test(arguments: [
        (#"{"git": {"hosts": ["git.example.com/path"]}}"#, "git.hosts", "neither a scheme nor a path"),
        (#"{"docker": {"registries": ["http://r.example.com"]}}"#, "docker.registries", "other than https://"),
    ])
    func credentialHelpersRejectAHostThatIsAnInsecureURLOrHasAPath(
        _ helpers: String,
        _ key: String,
        _ words: String
    ) throws {
        let text = #"{"profiles": {"work": {"provider": "fake", "helpers": \#(helpers)}}}"#
        let profile = try ConfigurationFile(text: Array(text.utf8)).profile()
        let error = #expect(throws: ConfigurationError.self) { try profile.helpers() }
        #expect(error?.issues.first?.keyPath == "profiles.work.helpers.\(key)")
        #expect(error?.issues.first?.problem.contains(words) == true, "\(error?.description ?? "")")
    }

    @Test func credentialHelpersFindAFileInTheHomeDirectoryOfTheEnvironment() throws {
        let folder = NSTemporaryDirectory() + "authflow-home-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
        let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
        let path = "\(folder)/ca.pem"
        #expect(FileManager.default.createFile(atPath: path, contents: Data(certificate.utf8), attributes: attributes))
        let text = """
            {"profiles": {"work": {"provider": "fake", "helpers": {"kubernetes": {"ca_file": "~/ca.pem"}}}}}
            """
        let profile = try ConfigurationFile(text: Array(text.utf8)).profile()
        #expect(try profile.helpers(environment: ["HOME": folder]).kubernetes?.certificateAuthorities == path)
    }

    @Test func reportsAllProfileErrorsAtOnce() throws {
        let error = try #require(throws: ConfigurationError.self) {
            try client(#"{"provider": "fake", "timeout": "x"}"#)
        }
        #expect(error.issues.map(\.keyPath).sorted() == ["profiles.work", "profiles.work", "profiles.work.timeout"])
    }

    @Test func doesNotReportTheKeysOfAMisspelledProvider() throws {
        let error = try #require(throws: ConfigurationError.self) {
            try client(#"{"provider": "fakee", "issuer": "https://id.example.com", "client_id": "c"}"#)
        }
        #expect(error.issues.map(\.keyPath) == ["profiles.work.provider"])
    }

    @Test func failsImmediatelyWhenNoUserAgentIsAvailable() async throws {
        let events = Mutex<[FlowEvent]>([])
        let client = try client("{\(Self.good), \"store\": \"memory\", \"user_agent\": \"absent\"}") { event in
            events.withLock { $0.append(event) }
        }
        // Neither the provider nor the user is contacted.
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.code == .noUserAgent)
        #expect(error?.message.contains("absent: no screen") == true)
        #expect(events.withLock { $0.isEmpty })
        // Calls that need no user agent still work.
        #expect(try await client.credential() == nil)
    }

    /// The user agent's secret is not needed for the stored tokens.
    @Test(arguments: [[:], ["SECRET": "s"]]) func theFirstSignInCreatesTheUserAgent(
        _ environment: [String: String]
    ) async throws {
        let agents = SecretiveAgents()
        let client = try client(
            "{\(Self.good), \"store\": \"memory\", \"user_agent\": {\"name\": \"secretive\", \"word\": {\"env\": \"SECRET\"}}}",
            environment: environment,
            userAgents: [agents.factory]
        )
        #expect(try await client.credential() == nil)
        #expect(agents.count == 0)
        for _ in 0..<2 {
            if environment.isEmpty {
                let error = await #expect(throws: AuthError.self) { try await client.signIn() }
                #expect(error?.code == .invalidConfiguration)
                #expect(error?.message.contains("SECRET is not set") == true, "\(error?.message ?? "")")
            } else {
                await expectError(.userAgentFailed) { try await client.signIn() }
            }
        }
        #expect(agents.count == (environment.isEmpty ? 0 : 1))
    }

    /// The color is written into the style sheet of a page.
    @Test func rejectsAnAccentColorThatIsNotAColor() async throws {
        var overrides = AuthClient.Overrides()
        overrides.launchEnvironment = LaunchEnvironment(environment: ["DISPLAY": ":0"], hasTerminal: true) { _ in nil }
        let agent = #"{"name": "loopback", "accent_color": "red; } </style>"}"#
        let client = try client(
            "{\(Self.good), \"store\": \"memory\", \"user_agent\": \(agent)}",
            userAgents: [.loopback],
            overrides: overrides
        )
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains("not a color") == true, "\(error?.message ?? "")")
    }

    /// The chosen user agent, and the user agents that are skipped.
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
        _ skipped: String?
    ) async throws {
        let events = Mutex<[FlowEvent]>([])
        let profile = "{\(Self.good), \"store\": \"memory\", \"user_agent\": \(agents)}"
        let client = try client(profile, environment: environment) { event in events.withLock { $0.append(event) } }
        await expectError(.userAgentFailed) { try await client.signIn() }
        let choice = events.withLock { $0.first { $0.step == .userAgentChoice } }
        #expect(choice?.details["name"] == name)
        #expect(choice?.details["passed_over"] == skipped)
    }

    /// For example, a profile whose pages must open in a private window keeps that option with `--user-agent loopback`.
    @Test func aUserAgentThatTheUserChoosesReceivesTheOptionsOfAuto() async throws {
        let width = ConfigurationKey("width", .number(1...100), default: 80, "Its width.")
        let received = Mutex<[Int]>([])
        let agent = UserAgentFactory("window", keys: [width]) { options, _ in
            let value = try options[width]
            received.withLock { $0.append(value) }
            return FakeUserAgent()
        }
        let client = try client(
            "{\(Self.good), \"store\": \"memory\", \"user_agent\": {\"name\": \"auto\", \"width\": 5}}",
            userAgents: [.absent, agent],
            overrides: AuthClient.Overrides(userAgent: "window")
        )
        await expectError(.userAgentFailed) { try await client.signIn() }
        #expect(received.withLock { $0 } == [5])
    }

    /// A code would be entered in a browser with the existing sign-ins.
    @Test(arguments: [#""device""#, #"["device", "authorization_code"]"#], [true, false])
    func aChosenUserAgentOrAPrivateWindowReplacesTheDeviceFlow(_ flow: String, _ isPrivate: Bool) throws {
        var overrides = AuthClient.Overrides(userAgent: isPrivate ? nil : "window")
        var launchEnvironment = LaunchEnvironment(environment: [:], hasTerminal: true) { _ in nil }
        launchEnvironment.wantsPrivateWindow = isPrivate
        overrides.launchEnvironment = launchEnvironment
        let client = try client(
            "{\(Self.good), \"store\": \"memory\", \"user_agent\": \"window\", \"flow\": \(flow)}",
            devicePresenter: NoPresenter(),
            overrides: overrides
        )
        #expect(client.methods.methods.map { $0.flow } == [.authorizationCode])
    }

    @Test func triesTheDeviceGrantBeforeAUserAgentOfLastResort() async throws {
        let events = Mutex<[FlowEvent]>([])
        let flow = #""flow": ["authorization_code", "device"]"#
        let client = try client(
            "{\(Self.good), \"store\": \"memory\", \"user_agent\": \"lastResort\", \(flow)}",
            devicePresenter: NoPresenter()
        ) { event in events.withLock { $0.append(event) } }
        // The provider in these tests does not support the device flow either, so the lastResort agent is tried after
        // all and fails.
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.code == .userAgentFailed)
        let skipped = events.withLock { $0.filter { $0.step == .flowChoice }.map { $0.details["passed_over"] } }
        #expect(skipped == ["authorization_code", "device"])
        let choice = events.withLock { $0.first { $0.step == .flowChoice } }
        #expect(choice?.details["reason"]?.contains("lastResort: no screen") == true)
    }

    @Test func usesOnlyTheConfiguredGrant() async throws {
        let profile = "{\(Self.good), \"store\": \"memory\", \"user_agent\": \"lastResort\", \"flow\": \"device\"}"
        let client = try client(profile, devicePresenter: NoPresenter())
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.message.contains("device authorization endpoint") == true)
    }

    struct BrokenFile: CustomTestStringConvertible {
        let text: String
        let words: String
        var testDescription: String { text }
    }

    static let brokenFiles: [BrokenFile] = [
        BrokenFile(text: "", words: "1:1"),
        BrokenFile(text: "{", words: "ends too early"),
        BrokenFile(text: #"{"profiles": {}}"#, words: "no profile"),
        BrokenFile(text: #"{"resource_client": {}}"#, words: "no profile"),
        BrokenFile(text: #"{"profile": {}}"#, words: #"Did you mean "profiles"?"#),
        BrokenFile(text: #"{"profiles": {"a": {}}, "default_profile": "b"}"#, words: #"Did you mean "a"?"#),
        BrokenFile(text: "[]", words: "expected an object"),
        BrokenFile(text: #"{"profiles": 5}"#, words: "expected an object"),
    ]

    @Test(arguments: brokenFiles) func rejectsInvalidConfigurationFiles(_ file: BrokenFile) throws {
        let error = try #require(throws: ConfigurationError.self) {
            try ConfigurationFile(text: Array(file.text.utf8), name: "auth.json").profile()
        }
        #expect(error.description.hasPrefix("auth.json:"))
        #expect(error.description.contains(file.words), "\(error)")
    }

    @Test(arguments: [
        (#"{"profiles": {}}"#, "profiles"), (#"{"server": {}}"#, "profiles"),
        (#"{"profiles": {"a": {}}, "default_profile": "b"}"#, "default_profile"),
    ]) func aFileWithoutAUsableProfileIsRejectedAsSoonAsItIsRead(_ text: String, _ keyPath: String) throws {
        let error = #expect(throws: ConfigurationError.self) { try ConfigurationFile(text: Array(text.utf8)) }
        #expect(error?.issues.first?.keyPath == keyPath)
    }

    /// Values by their keys, whose components are separated by periods.
    struct LookedUpValues: ConfigurationValues {
        var strings: [String: String] = [:]
        var lists: [String: [String]] = [:]
        var hidden: [String: Secret] = [:]

        func text(_ key: [String]) async throws -> String? { strings[key.joined(separator: ".")] }
        func number(_ key: [String]) async throws -> Int? { nil }
        func flag(_ key: [String]) async throws -> Bool? { nil }
        func texts(_ key: [String]) async throws -> [String]? { lists[key.joined(separator: ".")] }
        func secret(_ key: [String]) async throws -> Secret? { hidden[key.joined(separator: ".")] }
        func secrets(_ key: [String]) async throws -> [Secret]? {
            lists[key.joined(separator: ".")]?.map { Secret($0) }
        }
    }

    /// As environment variables, these names would be identical.
    @Test func lookedUpProfilesMustNotDifferOnlyInCaseAndPunctuation() async throws {
        let error = await #expect(throws: AuthError.self) {
            try await ConfigurationFile(values: LookedUpValues(), profiles: ["my-app", "My_App"])
        }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains("more than case and punctuation") == true)
    }

    @Test(arguments: [(secret: "", words: "the secret is empty"), (secret: "s", words: "both a value and nested keys")])
    func aLookedUpSecretMustBeEitherAValueOrAReference(_ secret: String, _ words: String) async throws {
        let key = "profiles.work.client_secret"
        var values = LookedUpValues(hidden: [key: Secret(secret)])
        values.strings["\(key).env"] = "SECRET"
        let lookedUp = values
        let error = await #expect(throws: ConfigurationError.self) {
            try await ConfigurationFile(values: lookedUp, profiles: ["work"])
        }
        #expect(error?.issues.first?.keyPath == key)
        #expect(error?.issues.first?.problem.contains(words) == true, "\(error?.description ?? "")")
    }

    /// Without an error, sessions would be stored without the configured encryption.
    @Test(arguments: ["profiles.work.authorization_details", "profiles.work.store.encryption_keys"])
    func aListOfObjectsThatIsLookedUpIsAnError(_ key: String) async throws {
        let values = LookedUpValues(
            strings: [
                "profiles.work.provider": "fake", "profiles.work.issuer": "https://id.example.com",
                "profiles.work.client_id": "c", "profiles.work.store.name": "memory",
            ],
            lists: [key: ["one"], "profiles.work.scopes": ["openid", "email"]]
        )
        let error = await #expect(throws: ConfigurationError.self) {
            try await ConfigurationFile(values: values, profiles: ["work"], providers: [.fake], stores: [.memory])
        }
        let keyPaths = error?.issues.map { $0.keyPath }
        #expect(keyPaths == [key], "\(error?.description ?? "")")
    }

    /// In an environment variable, a list whose elements are separated by commas is also a string.
    @Test func aLookedUpListIsNotReadAsASingleValue() async throws {
        let uris = ["http://127.0.0.1:8400/cb", "http://127.0.0.1:8401/cb"]
        let values = LookedUpValues(
            strings: [
                "profiles.work.provider": "fake", "profiles.work.issuer": "https://id.example.com",
                "profiles.work.client_id": "c", "profiles.work.flow": "authorization_code",
                "profiles.work.redirect_uri": uris.joined(separator: ","),
            ],
            lists: ["profiles.work.redirect_uri": uris, "profiles.work.flow": ["authorization_code"]]
        )
        let file = try await ConfigurationFile(values: values, profiles: ["work"], providers: [.fake])
        let client = try AuthClient(
            profile: try file.profile(),
            providers: [.fake],
            userAgents: [.fake],
            stores: [.memory]
        )
        #expect(client.registration.redirectURIs.map(\.uri) == uris)
    }

    @Test func theSettingsForResourcesReplaceOnlyTheOptionsThatTheyContain() throws {
        var options = ResourceClient.Options()
        options.clientName = "My app"
        options.clientMetadataDocument = "https://app.example.com/client.json"
        options.redirectURIs = ["http://127.0.0.1:8400/callback"]
        options.trustedIssuers = ["https://id.example.com"]
        options.usesDPoP = true
        options.freshnessMargin = .seconds(90)
        options.timeout = .seconds(30)
        func client(_ settings: String) throws -> ResourceClient {
            let file = try ConfigurationFile(text: Array(#"{"resource_client": {\#(settings)}}"#.utf8))
            return try ResourceClient(
                "https://api.example.com/mcp",
                settings: file.resourceClient,
                userAgents: [.fake],
                stores: [.memory],
                options: options
            )
        }
        let unchanged = try client("").options
        #expect(unchanged.clientName == "My app" && unchanged.usesDPoP == true)
        #expect(unchanged.clientMetadataDocument == "https://app.example.com/client.json")
        #expect(unchanged.redirectURIs == options.redirectURIs && unchanged.trustedIssuers == options.trustedIssuers)
        #expect(unchanged.freshnessMargin == .seconds(90) && unchanged.timeout == .seconds(30))
        let changed = try client(
            #""client_name": "Other", "client_id": "https://other.example.com/client.json", "dpop": false, "timeout": 60, "freshness_margin": 5, "issuers": ["https://id.example.net"]"#
        ).options
        #expect(changed.clientName == "Other" && changed.usesDPoP == false)
        #expect(changed.clientMetadataDocument == "https://other.example.com/client.json")
        #expect(changed.trustedIssuers == ["https://id.example.net"])
        #expect(changed.freshnessMargin == .seconds(5) && changed.timeout == .seconds(60))
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
        // Without presets, no profile can name one.
        #expect(schema["properties"]?["profiles"]?["additionalProperties"]?["anyOf"]?.array?.count == 1)
    }

    @Test(
        "The parser and the JSON Schema require that authorization details are objects with a type",
        arguments: [
            (#"["any"]"#, "[0]", #"expected an object with a "type", found a string"#),
            (#"[{"type": "payment"}, {}]"#, "[1]", #"the key "type" is missing"#),
            (#"[{"type": 1}]"#, "[0].type", "found a number"), (#"[{"type": ""}]"#, "[0].type", "is empty"),
        ]
    )
    func requiresTheTypeOfAuthorizationDetails(_ details: String, _ place: String, _ words: String) throws {
        let error = try #require(throws: ConfigurationError.self) {
            try client("{\(Self.good), \"authorization_details\": \(details)}")
        }
        #expect(error.issues.map(\.keyPath) == ["profiles.work.authorization_details\(place)"])
        #expect(error.issues.first?.problem.contains(words) == true, "\(error)")
        let schema = ConfigurationFile.jsonSchema(providers: [.fake], userAgents: [.fake], stores: [.memory])
        let profile = schema["properties"]?["profiles"]?["additionalProperties"]?["anyOf"]?.array?.first
        let element = profile?["properties"]?["authorization_details"]?["items"]
        #expect(element?["required"]?.strings == ["type"])
        #expect(element?["properties"]?["type"]?["minLength"] == 1)
    }

    @Test func aRepeatedTypeIsNotDefinedSeparatelyInTheJSONSchema() {
        let schema: [String: JSON] = ["properties": ["a": ["type": "string"], "b": ["type": "string"]]]
        #expect(SharedSchemas(of: schema, names: [:]).schema == .object(schema))
    }

    @Test func repeatedPartsOfTheJSONSchemaAreDefinedOnce() throws {
        func name(_ description: String) -> JSON {
            ["type": "object", "properties": ["first": ["type": "string"]], "description": .string(description)]
        }
        let either: JSON = ["anyOf": [["type": "string"], ["enum": [1]]]]
        let users: JSON = ["type": "array", "items": ["properties": ["name": name("A user's."), "age": either]]]
        let shared = SharedSchemas(
            of: [
                "properties": ["users": users, "age": either, "only": ["properties": ["name": name("An owner's.")]]],
                "additionalProperties": ["anyOf": [["properties": ["name": either]]]],
            ],
            names: [either: "number"]
        )
        let number: JSON = ["$ref": "#/$defs/number"]
        func nameReference(_ description: String) -> JSON {
            ["$ref": "#/$defs/name", "description": .string(description)]
        }
        #expect(
            shared.schema == [
                "$defs": ["number": either, "name": ["type": "object", "properties": ["first": ["type": "string"]]]],
                "properties": [
                    "users": [
                        "type": "array",
                        "items": ["properties": ["name": nameReference("A user's."), "age": number]],
                    ],
                    "age": number, "only": ["properties": ["name": nameReference("An owner's.")]],
                ],
                "additionalProperties": ["anyOf": [["properties": ["name": number]]]],
            ]
        )
    }
}
