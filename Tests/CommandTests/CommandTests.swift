import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Testing

/// The command line tool as a user runs it: the built program, its two streams and its exit status.
@Suite struct CommandTests {
    @Test func signsInUsesTheTokensAndSignsOut() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, _ in
                func command(_ arguments: String...) async throws -> CommandHarness.Outcome {
                    try await CommandHarness.run(
                        arguments + ["--config", path],
                        environment: ["PASSWORD": "wonderland"]
                    )
                }
                #expect(try await command("status").status == 4)
                #expect(try await command("token").status == 4)
                let login = try await command("login")
                #expect(login.status == 0)
                #expect(login.output.hasPrefix("Signed in as Alice Example\n"))
                #expect(login.talk.contains("ok  ID Token validation"))
                #expect(try await command("status", "--json").output.contains("248289761001"))
                let token = try await command("token")
                #expect(token.status == 0)
                #expect(token.output.count == 33)
                #expect(token.talk.isEmpty)
                #expect(try await command("userinfo").output.contains("Alice Example"))
                #expect(try await command("discover").output.contains(emulator.issuer))
                #expect(try await command("config", "check").status == 0)
                #expect(try await command("logout").status == 0)
                #expect(try await command("userinfo").status == 4)
            }
        }
    }

    @Test func signsInWithTheDeviceGrant() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.devicePollInterval = 1
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, _ in
                @Sendable func decide(_ talk: String) -> Bool {
                    let line = talk.split(separator: "\n").last ?? ""
                    if line.hasPrefix("and enter this code:  ") { emulator.decide(String(line.suffix(9)), as: .bob) }
                    return false
                }
                let login = try await CommandHarness.run(
                    ["login", "--device", "--config", path],
                    environment: ["PASSWORD": "x"],
                    interruptWhen: decide
                )
                #expect(login.status == 0, "\(login.talk)")
                #expect(login.output.hasPrefix("Signed in as Bob Example"))
                #expect(login.talk.contains("\(emulator.issuer)/device\n"))
                let stopped = try await CommandHarness.run(
                    ["login", "--device", "--config", path],
                    environment: ["PASSWORD": "x"],
                    interruptWhen: { $0.contains("Waiting for you") }
                )
                #expect(stopped.status == 130)
                #expect(stopped.talk.hasSuffix("Cancelled.\n"))
            }
        }
    }

    @Test func theGitHubSampleShowsTheUserAndTheGrantedScopes() async throws {
        for flow in [[], ["--device"]] {
            let sample = try await CommandHarness.run(["--emulator"] + flow, program: "github-login")
            #expect(sample.status == 0, "\(sample.talk)")
            #expect(sample.output.contains("Signed in as octocat, account 583231."))
            #expect(sample.output.contains("Granted: user:email, read:org"))
            #expect(sample.output.contains("octocat@example.com"))
            #expect(sample.output.contains("Gists (gist): not available"))
            #expect(!sample.output.contains("gho_"))
        }
    }

    @Test func theOktaSampleSignsTwoAppsInAndOutAndShowsNoSecret() async throws {
        try await EmulatorServer.run {
            try OktaEmulator(origin: $0)
        } _: { emulator in
            let custom = emulator.custom
            func configuration(_ app: String, _ origin: String) -> String {
                """
                {"profiles": {"\(app)": {
                  "provider": "okta", "issuer": "\(custom.issuer)", "client_id": "\(app)", "dpop": true,
                  "scopes": ["openid", "profile", "device_sso", "offline_access"],
                  "user_agent": {
                    "name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": ["\(origin)"]
                  },
                  "store": {"name": "encrypted-file", "directory": "data", "key_file": "key"},
                  "shared": {"group": "g", "store": {"name": "encrypted-file", "directory": "data", "key_file": "key"}}
                }}}
                """
            }
            try await CommandHarness.withConfiguration(configuration("mail", emulator.origin)) { mail, folder in
                let calendar = "\(folder)/calendar.json"
                // Nothing can be typed for the second app.
                try configuration("calendar", "https://nowhere.example.com")
                    .write(toFile: calendar, atomically: true, encoding: .utf8)
                var said = ""
                @discardableResult func app(_ command: String, _ path: String, _ status: Int32) async throws -> String {
                    let outcome = try await CommandHarness.run(
                        [command, path, "--verbose"],
                        program: "okta-native-sso",
                        environment: ["PASSWORD": "wonderland"]
                    )
                    #expect(outcome.status == status, "\(outcome.output)\(outcome.talk)")
                    said += outcome.output + outcome.talk
                    return outcome.output
                }
                try await app("login", mail, 0)
                #expect(try await app("login", calendar, 0).contains("without a prompt"))
                try await app("status", calendar, 0)
                let deviceSecret = try #require(custom.deviceSecrets.first)
                // The files are for this user alone, and unreadable without the key.
                for file in try FileManager.default.subpathsOfDirectory(atPath: "\(folder)/data") {
                    let path = "\(folder)/data/\(file)"
                    let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
                    #expect((mode ?? 0o777) & 0o077 == 0, "\(file)")
                    let text = FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
                    #expect(text?.contains(deviceSecret) != true)
                }
                try await app("logout", mail, 0)
                #expect(try await app("status", calendar, 1).contains("signed out in the app mail"))
                try await app("status", mail, 1)
                let names = ["code", "code_verifier", "refresh_token", "actor_token", "subject_token", "token"]
                let secrets = custom.receivedRequests.flatMap { received in
                    names.compactMap { received.form[$0] }
                        + (received.request.headerFields[.authorization].map { [String($0.dropFirst(5))] } ?? [])
                }
                #expect(secrets.contains(deviceSecret) && secrets.count >= 8)
                for secret in secrets + ["wonderland"] { #expect(!said.contains(secret)) }
            }
        }
    }

    @Test func explainsThatTheUserDeniedAccess() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let agent = """
                {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": ["\(emulator.issuer)"], "consent": "deny"}
                """
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, ["user_agent": agent])) {
                path,
                _ in
                let outcome = try await CommandHarness.run(
                    ["login", "--config", path],
                    environment: ["PASSWORD": "wonderland"]
                )
                #expect(outcome.status == 5)
                #expect(outcome.talk.contains("denied"))
            }
        }
    }

    @Test func explainsABusyPort() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let changes = [
                "user_agent": #"{"name": "loopback", "open_browser": false}"#,
                "redirect_uri": "\"\(emulator.issuer)/callback\"",
            ]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, changes)) { path, _ in
                let outcome = try await CommandHarness.run(["login", "--config", path])
                #expect(outcome.status == 1)
                #expect(outcome.talk.contains("is taken by another program"))
            }
        }
    }

    @Test func failsAtOnceWhereNoUserCouldSignIn() async throws {
        // No server listens at this issuer, and no request is sent to it.
        try await CommandHarness.withConfiguration(CommandHarness.profile("http://127.0.0.1:1", ["user_agent": nil])) {
            path,
            _ in
            let outcome = try await CommandHarness.run(["login", "--config", path])
            #expect(outcome.status == 4)
            #expect(outcome.talk.contains("no terminal to show the address at"))
            #expect(outcome.talk.contains("paste: there is no terminal to paste at"))
        }
    }

    @Test func usesTheUserAgentOfTheCommandLine() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, _ in
                for (arguments, status, words) in [
                    (["--user-agent", "headless"], 0, "User agent: headless"),
                    (["--user-agent", "paste"], 4, "no terminal to paste at"),
                    (["--user-agent", "auto"], 4, "no terminal"),
                    (["--user-agent", "tree"], 2, "needs options"),
                    (["--user-agent", "loobpack"], 2, "Did you mean \"loopback\"?"),
                    (["--user-agent", "paste", "--device"], 2, "--device needs no user agent"),
                ] as [([String], Int32, String)] {
                    let all = ["login", "--config", path] + arguments
                    let outcome = try await CommandHarness.run(all, environment: ["PASSWORD": "wonderland"])
                    #expect(outcome.status == status, "\(arguments): \(outcome.talk)")
                    #expect(outcome.talk.contains(words), "\(arguments): \(outcome.talk)")
                }
            }
        }
    }

    @Test func theOIDCSampleShowsTheIDTokenAndItsResources() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, ["store": #""memory""#]))
            { path, folder in
                let resources = """
                    [{"scope": "profile", "title": "Profile", "url": "\(emulator.issuer)/userinfo"},
                     {"scope": "calendar", "title": "Calendar", "url": "\(emulator.issuer)/calendar"}]
                    """
                try Data(resources.utf8).write(to: URL(fileURLWithPath: "\(folder)/resources.json"))
                let outcome = try await CommandHarness.run(
                    [path, "\(folder)/resources.json"],
                    program: "oidc-login",
                    environment: ["PASSWORD": "wonderland"]
                )
                #expect(outcome.status == 0, "\(outcome.talk)")
                #expect(outcome.output.contains("Hello, Alice Example."))
                #expect(outcome.output.contains("ES256"))
                #expect(outcome.output.contains("Calendar (calendar): not available"))
                #expect(outcome.output.contains("Profile (profile): {"))
            }
        }
    }

    @Test(arguments: ["none", "client_secret_basic", "client_secret_post"])
    func registersAClientAndSignsInWithIt(_ method: String) async throws {
        // Row 22.
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration("{}") { _, folder in
                let path = "\(folder)/new.json"
                let arguments = [
                    "register", emulator.issuer, "--output", path, "--authentication", method, "--name", "T",
                ]
                let registered = try await CommandHarness.run(arguments)
                #expect(registered.status == 0, "\(registered.talk)")
                let isPublic = method == "none"
                for file in isPublic ? [path, "\(path).registration"] : [path, "\(path).client-secret"] {
                    let attributes = try FileManager.default.attributesOfItem(atPath: file)
                    #expect(attributes[.posixPermissions] as? Int == 0o600)
                }
                if !isPublic {
                    let secret = try String(contentsOfFile: "\(path).client-secret", encoding: .utf8)
                    #expect(!registered.output.contains(secret.dropLast()))
                }
                // What is there already is not touched, and nothing is registered.
                let again = try await CommandHarness.run(arguments)
                #expect(again.status == 2)
                #expect(again.talk.contains("already exists"))
                #expect(emulator.requests.count { $0 == "POST /register" } == 1)

                // The tests have no browser: only the user agent is added.
                let agent = """
                    {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": ["\(emulator.issuer)"]}
                    """
                let text = try String(contentsOfFile: path, encoding: .utf8)
                    .replacing("\"provider\"", with: "\"user_agent\": \(agent), \"store\": \"memory\", \"provider\"")
                try Data(text.utf8).write(to: URL(fileURLWithPath: path))
                let login = try await CommandHarness.run(
                    ["login", "--config", path],
                    environment: ["PASSWORD": "wonderland"]
                )
                #expect(login.status == 0, "\(login.talk)")
                #expect(login.output.contains("248289761001"))
            }
        }
    }

    @Test func findsTheIssuerOfAnAccount() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let host = emulator.issuer.dropFirst("http://".count)
            let found = try await CommandHarness.run(["discover", "acct:alice@\(host)"])
            #expect(found.status == 0, "\(found.talk)")
            let metadata = try JSON(parsing: Array(found.output.utf8))
            #expect(metadata["issuer"]?.string == emulator.issuer)
            let unknown = try await CommandHarness.run(["discover", "alice@127.0.0.1"])
            #expect(unknown.status == 7, "\(unknown.talk)")
        }
    }
}
