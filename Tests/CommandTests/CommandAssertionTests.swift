import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Testing

/// The command-line tool with assertions from a platform, and from another profile's sign-in.
@Suite struct CommandAssertionTests {
    struct Source: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let keys: [String: String?]
    }

    private static let sources = [
        Source(testDescription: "file", keys: ["assertion": #"{"name": "file", "path": "jwt"}"#]),
        Source(testDescription: "environment", keys: ["assertion": #"{"name": "environment", "variable": "JWT"}"#]),
        Source(
            testDescription: "command",
            keys: ["assertion": #"{"name": "command", "command": ["printenv", "JWT"]}"#]
        ),
        Source(
            testDescription: "key",
            keys: [
                "client_key": #""key.pem""#, "client_authentication": #""none""#,
                "assertion": #"{"name": "key", "subject": "reports", "issuer": "https://robot.example.com"}"#,
            ]
        ),
        Source(
            testDescription: "client assertion",
            keys: ["flow": #""client_credentials""#, "client_assertion": #"{"name": "file", "path": "jwt"}"#]
        ),
    ]

    @Test(arguments: sources) func obtainsATokenWithAnAssertionFromEachSource(_ source: Source) async throws {
        try await CommandHarness.withConfiguration("{}") { path, folder in
            let key = try await CommandHarness.run(["keys", "new", "\(folder)/key.pem"])
            let platform = try OIDCEmulator(issuer: "https://platform.example.com", clients: [])
            var client = OIDCEmulator.Client(id: "robot")
            if source.keys["client_assertion"] != nil {
                client.authenticationMethod = "private_key_jwt"
                client.workload = OIDCEmulator.Workload(issuer: platform.issuer, subject: "robot-at-work")
            }
            let registered = client
            try await EmulatorServer.run {
                try OIDCEmulator(issuer: $0, clients: [registered])
            } _: { emulator in
                emulator.trustedIssuers = [
                    platform.issuer: try platform.publicKeys(),
                    "https://robot.example.com": try JSON(parsing: Array(key.output.utf8)),
                ]
                let jwt = try platform.assertion(["sub": "robot-at-work", "aud": .string(emulator.issuer)])
                try jwt.write(toFile: "\(folder)/jwt", atomically: true, encoding: .utf8)
                var keys: [String: String?] = [
                    "client_id": #""robot""#, "flow": #""jwt_bearer""#, "scopes": #"["reports"]"#, "user_agent": nil,
                ]
                for (name, value) in source.keys { keys[name] = value }
                try Data(CommandHarness.profile(emulator.issuer, keys).utf8).write(to: URL(fileURLWithPath: path))
                let outcome = try await CommandHarness.run(["token", "--config", path], environment: ["JWT": jwt])
                #expect(outcome.status == 0 && outcome.output.count > 20, "\(outcome.standardError)")
                let again = try await CommandHarness.run(["token", "--config", path], environment: ["JWT": jwt])
                #expect(again.output == outcome.output)
                #expect(emulator.requests.count { $0 == "POST /token" } == 1)
                let doctor = try await CommandHarness.run(["doctor", "--config", path], environment: ["JWT": jwt])
                #expect(doctor.status == 0, "\(doctor.output)\(doctor.standardError)")
            }
        }
    }

    @Test func reportsAnUnsetAssertionVariable() async throws {
        try await CommandHarness.withConfiguration("{}") { path, _ in
            try await EmulatorServer.run {
                try OIDCEmulator(issuer: $0, clients: [OIDCEmulator.Client(id: "robot")])
            } _: { emulator in
                let keys: [String: String?] = [
                    "client_id": #""robot""#, "flow": #""jwt_bearer""#, "user_agent": nil,
                    "assertion": #"{"name": "environment", "variable": "NO_SUCH_TOKEN"}"#,
                ]
                try Data(CommandHarness.profile(emulator.issuer, keys).utf8).write(to: URL(fileURLWithPath: path))
                let outcome = try await CommandHarness.run(["token", "--config", path])
                #expect(outcome.status == 1 && outcome.output.isEmpty)
                #expect(outcome.standardError.contains("NO_SUCH_TOKEN is unset or empty"), "\(outcome.standardError)")
            }
        }
    }

    @Test(arguments: [
        (#"{"name": "profile", "profile": "nowhere"}"#, "no other profile"), (#""key""#, "subject"),
        (#"{"name": "key", "subject": "x"}"#, "client_key"), (#""pigeon""#, "pigeon"), (nil, "needs an \"assertion\""),
    ]) func anInvalidAssertionSourceIsAConfigurationError(_ source: String?, _ words: String) async throws {
        let keys: [String: String?] = [
            "client_id": #""robot""#, "flow": #""jwt_bearer""#, "user_agent": nil, "assertion": source,
        ]
        try await CommandHarness.withConfiguration(CommandHarness.profile("https://id.example.com", keys)) { path, _ in
            let outcome = try await CommandHarness.run(["config", "check", "--config", path])
            #expect(outcome.status == 2 && outcome.standardError.contains(words), "\(outcome.standardError)")
        }
    }

    /// After one sign-in at work, the tool obtains tokens for the API without a second sign-in, using only a
    /// configuration file.
    @Test func obtainsTokensForOneProfileFromTheSignInOfAnother() async throws {
        try await CommandHarness.withConfiguration("{}") { path, folder in
            try await EmulatorServer.run {
                try OIDCEmulator(issuer: $0, clients: [OIDCEmulator.Client(id: "app-at-api")])
            } _: { api in
                try await EmulatorServer.run {
                    try OIDCEmulator(issuer: $0)
                } _: { work in
                    work.identityAudiences = [api.issuer: "app-at-api"]
                    api.trustedIssuers = [work.issuer: try work.publicKeys()]
                    let configuration = """
                        {"profiles": {
                          "work": {
                            "provider": "oidc", "issuer": "\(work.issuer)", "client_id": "authflow-demo",
                            "scopes": ["openid", "offline_access"], "product_name": "work-client",
                            "store": {"name": "file", "directory": "\(folder)/store"},
                            "user_agent": {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": ["\(work.issuer)"]}
                          },
                          "api": {
                            "provider": "oidc", "issuer": "\(api.issuer)", "client_id": "app-at-api", "flow": "jwt_bearer",
                            "scopes": ["chat.read"], "resources": ["https://chat.example.com/"], "product_name": "api-client",
                            "store": {"name": "file", "directory": "\(folder)/store"},
                            "assertion": {"name": "profile", "profile": "work"}
                          }
                        }}
                        """
                    try Data(configuration.utf8).write(to: URL(fileURLWithPath: path))
                    let environment = ["PASSWORD": "wonderland"]
                    func run(_ arguments: String...) async throws -> CommandHarness.Outcome {
                        try await CommandHarness.run(arguments + ["--config", path], environment: environment)
                    }
                    let early = try await run("token", "--profile", "api")
                    // A sign-in with the profile "api" would fail with the same error.
                    let advice = "Run: authflow login --config \(path) --profile work\n"
                    #expect(early.status == 4 && early.standardError.hasSuffix(advice), "\(early.standardError)")
                    let login = try await run("login", "--profile", "work")
                    #expect(login.status == 0, "\(login.standardError)")
                    let token = try await run("token", "--profile", "api")
                    #expect(token.status == 0 && token.output.count > 20, "\(token.standardError)")
                    #expect(api.requests.count { $0 == "POST /token" } == 1)
                    // Each provider receives requests with the network settings of its own profile.
                    for (emulator, name) in [(work, "work-client"), (api, "api-client")] {
                        let requests = emulator.receivedRequests.filter { $0.path == "/token" }
                        #expect(Set(requests.map { $0.request.headerFields[.userAgent] }) == [name])
                    }
                }
            }
        }
    }
}
