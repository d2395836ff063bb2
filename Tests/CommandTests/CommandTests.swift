import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Testing

/// The command-line tool from the user's perspective: the built program, its two streams and its exit status.
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
                #expect(login.standardError.contains("ok  ID Token validation"))
                #expect(try await command("status", "--json").output.contains("248289761001"))
                let token = try await command("token")
                #expect(token.status == 0)
                #expect(token.output.count == 33)
                #expect(token.standardError.isEmpty)
                #expect(try await command("userinfo").output.contains("Alice Example"))
                #expect(try await command("discover").output.contains(emulator.issuer))
                #expect(try await command("config", "check").status == 0)
                #expect(try await command("logout").status == 0)
                #expect(try await command("userinfo").status == 4)
            }
        }
    }

    @Test func withoutABrowserTheProfilesDeviceFlowIsUsed() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.devicePollInterval = 1
            let text = CommandHarness.profile(emulator.issuer, ["flow": #""device""#])
            try await CommandHarness.withConfiguration(text) { path, _ in
                let login = try await CommandHarness.run(
                    ["login", "--no-browser", "--config", path],
                    interruptWhen: { standardError in
                        let line = standardError.split(separator: "\n").last ?? ""
                        if line.hasPrefix("and enter this code:  ") {
                            emulator.decide(String(line.suffix(9)), as: .bob)
                        }
                        return false
                    }
                )
                #expect(login.status == 0, "\(login.standardError)")
                #expect(login.standardError.contains("\(emulator.issuer)/device\n"))
            }
        }
    }

    @Test(
        arguments: [
            ([], "Not using authorization_code: No user agent works here."), (["--quiet"], "To sign in, open this URL"),
        ] as [([String], String)]
    )
    func saysWhyAFlowIsSkippedUnlessQuiet(_ options: [String], _ words: String) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let text = CommandHarness.profile(
                emulator.issuer,
                ["flow": #"["authorization_code", "device"]"#, "user_agent": nil]
            )
            try await CommandHarness.withConfiguration(text) { path, _ in
                let login = try await CommandHarness.run(
                    ["login", "--config", path] + options,
                    interruptWhen: { $0.contains("Waiting for you") }
                )
                #expect(login.status == 130)
                #expect(login.standardError.hasPrefix(words), "\(login.standardError)")
            }
        }
    }

    /// A provider with an API whose responses contain control characters.
    private struct APIEmulator: ProviderEmulator {
        static let text = "a\u{1B}]0;b\u{7}c"
        let base: OIDCEmulator
        var origins: [String] { base.origins }
        func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
            guard request.path == "/api" else { return await base.handle(request, body: body) }
            return TransportResponse(head: HTTPResponse(status: .ok), body: Array(Self.text.utf8))
        }
    }

    @Test func curlPrintsTheControlCharactersOfAResponseOnlyToAPipe() async throws {
        try await EmulatorServer.run {
            try APIEmulator(base: OIDCEmulator(issuer: $0))
        } _: { emulator in
            let issuer = emulator.base.issuer
            let text = CommandHarness.profile(issuer, ["api_origins": "[\"\(issuer)\"]"])
            try await CommandHarness.withConfiguration(text) { path, _ in
                let environment = ["PASSWORD": "wonderland"]
                let choice = ["--config", path, "--profile", "work"]
                #expect(try await CommandHarness.run(["login"] + choice, environment: environment).status == 0)
                let curl = ["curl", "\(issuer)/api"] + choice
                let pipe = try await CommandHarness.run(curl, environment: environment)
                #expect(pipe.output == APIEmulator.text, "\(pipe.standardError)")
                let program = CommandHarness.folder.appendingPathComponent("authflow").path
                let terminal = try await CommandHarness.run(
                    [
                        "python3", "-c",
                        "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))", program,
                    ] + curl,
                    program: "/usr/bin/env",
                    environment: environment
                )
                #expect(terminal.status == 0 && terminal.output.contains("a ]0;b c"), "\(terminal)")
                #expect(!terminal.output.contains("\u{1B}") && !terminal.output.contains("\u{7}"))
            }
        }
    }

    @Test func signsInWithTheDeviceGrant() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.devicePollInterval = 1
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, _ in
                @Sendable func decide(_ standardError: String) -> Bool {
                    let line = standardError.split(separator: "\n").last ?? ""
                    if line.hasPrefix("and enter this code:  ") { emulator.decide(String(line.suffix(9)), as: .bob) }
                    return false
                }
                let login = try await CommandHarness.run(
                    ["login", "--device", "--config", path],
                    interruptWhen: decide
                )
                #expect(login.status == 0, "\(login.standardError)")
                #expect(login.output.hasPrefix("Signed in as Bob Example"))
                #expect(login.standardError.contains("\(emulator.issuer)/device\n"))
                let stopped = try await CommandHarness.run(
                    ["login", "--device", "--config", path],
                    interruptWhen: { $0.contains("Waiting for you") }
                )
                #expect(stopped.status == 130)
                #expect(stopped.standardError.hasSuffix("Cancelled.\n"))
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
                #expect(outcome.standardError.contains("denied"))
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
                #expect(outcome.standardError.contains("is used by another program"))
            }
        }
    }

    @Test func failsImmediatelyWithoutABrowserOrTerminal() async throws {
        // No server is listening at this issuer's URL, and no request is sent to it.
        try await CommandHarness.withConfiguration(CommandHarness.profile("http://127.0.0.1:1", ["user_agent": nil])) {
            path,
            _ in
            let outcome = try await CommandHarness.run(["login", "--config", path])
            #expect(outcome.status == 4)
            #expect(outcome.standardError.contains("no terminal to display the URL"))
            #expect(outcome.standardError.contains("paste: there is no terminal to paste into"))
        }
    }

    @Test(arguments: [#""device""#, #"["authorization_code", "device"]"#])
    func aPrivateSignInShowsNoCode(_ flow: String) async throws {
        // No server is listening at this issuer's URL, and no request is sent to it.
        let text = CommandHarness.profile("http://127.0.0.1:1", ["flow": flow, "user_agent": nil])
        try await CommandHarness.withConfiguration(text) { path, _ in
            let outcome = try await CommandHarness.run(["login", "--private", "--config", path])
            #expect(outcome.status == 4, "\(outcome.standardError)")
        }
    }

    @Test func theUserAgentOptionOverridesTheConfiguredUserAgent() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, _ in
                for (arguments, status, words) in [
                    (["--user-agent", "headless"], 0, "User agent: headless"),
                    (["--user-agent", "paste"], 4, "no terminal to paste into"),
                    (["--user-agent", "auto"], 4, "no terminal"),
                    (["--user-agent", "tree"], 2, "needs \"base_url\""),
                    (["--user-agent", "loobpack"], 2, "Did you mean \"loopback\"?"),
                    (["--user-agent", "paste", "--device"], 2, "--device needs no user agent"),
                    (["--private", "--device"], 2, "--device needs no user agent"),
                ] as [([String], Int32, String)] {
                    let all = ["login", "--config", path] + arguments
                    let outcome = try await CommandHarness.run(all, environment: ["PASSWORD": "wonderland"])
                    #expect(outcome.status == status, "\(arguments): \(outcome.standardError)")
                    #expect(outcome.standardError.contains(words), "\(arguments): \(outcome.standardError)")
                }
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
                #expect(registered.status == 0, "\(registered.standardError)")
                #expect(registered.standardError.contains("Never commit them"))
                let isPublic = method == "none"
                for file in isPublic ? [path, "\(path).registration"] : [path, "\(path).client-secret"] {
                    let attributes = try FileManager.default.attributesOfItem(atPath: file)
                    #expect(attributes[.posixPermissions] as? Int == 0o600)
                }
                if !isPublic {
                    let secret = try String(contentsOfFile: "\(path).client-secret", encoding: .utf8)
                    #expect(!registered.output.contains(secret.dropLast()))
                }
                // Existing files are not changed, and nothing is registered.
                let again = try await CommandHarness.run(arguments)
                #expect(again.status == 2)
                #expect(again.standardError.contains("already exists"))
                #expect(emulator.requests.count { $0 == "POST /register" } == 1)

                // The tests have no browser, so a headless user agent and a memory store are added to the
                // configuration.
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
                #expect(login.status == 0, "\(login.standardError)")
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
            #expect(found.status == 0, "\(found.standardError)")
            let metadata = try JSON(parsing: Array(found.output.utf8))
            #expect(metadata["issuer"]?.string == emulator.issuer)
            let unknown = try await CommandHarness.run(["discover", "alice@127.0.0.1"])
            #expect(unknown.status == 7, "\(unknown.standardError)")
        }
    }
}
