import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Testing

/// The command line tool as a user runs it: the built program, its two streams and its exit status.
@Suite struct CommandTests {
    private typealias Outcome = CommandHarness.Outcome

    private static let folder = CommandHarness.folder

    private func run(
        _ arguments: [String],
        program: String = "authflow",
        environment: [String: String] = [:],
        isAlone: Bool = true,
        interruptWhen onTalk: (@Sendable (String) -> Bool)? = nil
    ) async throws -> Outcome {
        try await CommandHarness.run(
            arguments,
            program: program,
            environment: environment,
            isAlone: isAlone,
            interruptWhen: onTalk
        )
    }

    private func withConfiguration<Return>(
        _ text: String,
        _ body: (_ path: String, _ folder: String) async throws -> Return
    ) async throws -> Return {
        try await CommandHarness.withConfiguration(text, body)
    }

    private func profile(_ issuer: String, _ changes: [String: String?] = [:]) -> String {
        CommandHarness.profile(issuer, changes)
    }

    @Test func signsInUsesTheTokensAndSignsOut() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await withConfiguration(profile(emulator.issuer)) { path, _ in
                func command(_ arguments: String...) async throws -> Outcome {
                    try await run(arguments + ["--config", path], environment: ["PASSWORD": "wonderland"])
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

    static let mistakes: [(name: String, changes: [String: String?], status: Int32, words: String)] = [
        ("a missing key", ["client_id": nil], 2, #"the key "client_id" is missing"#),
        ("a misspelt key", ["isuer": #""x""#], 2, #"did you mean "issuer"?"#),
        ("an unknown provider", ["provider": #""oidcc""#], 2, #"did you mean "oidc"?"#),
        ("an unreachable issuer", ["issuer": #""http://127.0.0.1:1""#], 7, "Nothing responds at 127.0.0.1:1"),
        ("a secret in the file", ["client_secret": #""hunter2""#], 2, "never written into the file"),
        ("a scope that cannot be", ["scopes": #"["a b"]"#], 2, "RFC 6749 section 3.3"),
    ]

    @Test(arguments: mistakes) func explainsMistakesInAProfile(
        _ mistake: (name: String, changes: [String: String?], status: Int32, words: String)
    ) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await withConfiguration(profile(emulator.issuer, mistake.changes)) { path, _ in
                let outcome = try await run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
                #expect(outcome.status == mistake.status, "\(outcome.talk)")
                #expect(outcome.talk.contains(mistake.words), "\(outcome.talk)")
                #expect(outcome.output.isEmpty)
                for secret in ["wonderland", "hunter2", "Fatal error", " at /"] {
                    #expect(!outcome.talk.contains(secret))
                }
            }
        }
    }

    @Test func explainsBrokenJSON() async throws {
        try await withConfiguration("{\n  \"profiles\": {,}\n}") { path, _ in
            let outcome = try await run(["login", "--config", path])
            #expect(outcome.status == 2)
            #expect(outcome.talk.contains("authflow.json:2:"))
        }
    }

    @Test func explainsAnIssuerThatDoesNotMatch() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.fault = .metadata(.wrongIssuer)
            try await withConfiguration(profile(emulator.issuer)) { path, _ in
                let outcome = try await run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
                #expect(outcome.status == 7)
                #expect(outcome.talk.contains("identical to the last character"))
            }
        }
    }

    @Test func signsInWithTheDeviceGrant() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.devicePollInterval = 1
            try await withConfiguration(profile(emulator.issuer)) { path, _ in
                @Sendable func decide(_ talk: String) -> Bool {
                    let line = talk.split(separator: "\n").last ?? ""
                    if line.hasPrefix("and enter this code:  ") { emulator.decide(String(line.suffix(9)), as: .bob) }
                    return false
                }
                let login = try await run(
                    ["login", "--device", "--config", path],
                    environment: ["PASSWORD": "x"],
                    interruptWhen: decide
                )
                #expect(login.status == 0, "\(login.talk)")
                #expect(login.output.hasPrefix("Signed in as Bob Example"))
                #expect(login.talk.contains("\(emulator.issuer)/device\n"))
                let stopped = try await run(
                    ["login", "--device", "--config", path],
                    environment: ["PASSWORD": "x"]
                ) { $0.contains("Waiting for you") }
                #expect(stopped.status == 130)
                #expect(stopped.talk.hasSuffix("Cancelled.\n"))
            }
        }
    }

    @Test func theGitHubSampleShowsTheUserAndTheGrantedScopes() async throws {
        for flow in [[], ["--device"]] {
            let sample = try await run(["--emulator"] + flow, program: "github-login")
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
            try await withConfiguration(configuration("mail", emulator.origin)) { mail, folder in
                let calendar = "\(folder)/calendar.json"
                // Nothing can be typed for the second app.
                try configuration("calendar", "https://nowhere.example.com")
                    .write(toFile: calendar, atomically: true, encoding: .utf8)
                var said = ""
                @discardableResult func app(_ command: String, _ path: String, _ status: Int32) async throws -> String {
                    let outcome = try await run(
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
            try await withConfiguration(profile(emulator.issuer, ["user_agent": agent])) { path, _ in
                let outcome = try await run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
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
            try await withConfiguration(profile(emulator.issuer, changes)) { path, _ in
                let outcome = try await run(["login", "--config", path])
                #expect(outcome.status == 1)
                #expect(outcome.talk.contains("is taken by another program"))
            }
        }
    }

    @Test func failsAtOnceWhereNoUserCouldSignIn() async throws {
        // No server listens at this issuer, and no request is sent to it.
        try await withConfiguration(profile("http://127.0.0.1:1", ["user_agent": nil])) { path, _ in
            let outcome = try await run(["login", "--config", path])
            #expect(outcome.status == 4)
            #expect(outcome.talk.contains("no terminal to show the address at"))
            #expect(outcome.talk.contains("paste: there is no terminal to paste at"))
        }
    }

    @Test func usesTheUserAgentOfTheCommandLine() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await withConfiguration(profile(emulator.issuer)) { path, _ in
                for (arguments, status, words) in [
                    (["--user-agent", "headless"], 0, "User agent: headless"),
                    (["--user-agent", "paste"], 4, "no terminal to paste at"),
                    (["--user-agent", "auto"], 4, "no terminal"),
                    (["--user-agent", "tree"], 2, "needs options"),
                    (["--user-agent", "loobpack"], 2, "Did you mean \"loopback\"?"),
                    (["--user-agent", "paste", "--device"], 2, "--device needs no user agent"),
                ] as [([String], Int32, String)] {
                    let all = ["login", "--config", path] + arguments
                    let outcome = try await run(all, environment: ["PASSWORD": "wonderland"])
                    #expect(outcome.status == status, "\(arguments): \(outcome.talk)")
                    #expect(outcome.talk.contains(words), "\(arguments): \(outcome.talk)")
                }
            }
        }
    }

    /// The user's browser is elsewhere: the user copies the URL there, and the one that it ends at back to the
    /// terminal.
    @Test(arguments: [
        (#""redirect_uri": "http://127.0.0.1/callback""#, "loopback"),
        (#""redirect_uri": "com.example.authflow:/callback""#, "paste"),
    ]) func signsInByPasteAfterAWrongURL(_ test: (redirect: String, agent: String)) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let value = String(test.redirect.drop { $0 != ":" }.dropFirst(2))
            let changes = ["user_agent": #""auto""#, "redirect_uri": value]
            try await withConfiguration(profile(emulator.issuer, changes)) { path, _ in
                let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
                    "paste.py"
                )
                let login = [Self.folder.appendingPathComponent("authflow").path, "login", "--config", path]
                let outcome = try await run(
                    ["python3", script.path] + login,
                    program: "/usr/bin/env",
                    environment: ["SSH_CONNECTION": "192.0.2.7 5 192.0.2.1 22", "USER": "alice"]
                )
                #expect(outcome.status == 0, "\(outcome.output)")
                #expect(outcome.output.contains("User agent: \(test.agent), because"))
                #expect(outcome.output.contains("That is not the address that this sign-in waits for."))
                #expect(outcome.output.contains("Signed in as Alice Example"))
                #expect(outcome.output.contains("alice@192.0.2.1") == (test.agent == "loopback"))
            }
        }
    }

    @Test func doctorChecksWhatALoginNeedsWithoutLeakingSecrets() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let changes = [
                "client_secret": #"{"env": "PASSWORD"}"#,
                "redirect_uri": #"["http://127.0.0.1/callback", "com.example.authflow:/callback"]"#,
            ]
            try await withConfiguration(profile(emulator.issuer, changes)) { path, folder in
                let environment = ["PASSWORD": "wonderland", "HOME": folder]
                let outcome = try await run(["doctor", "--config", path], environment: environment)
                #expect(outcome.status == 0, "\(outcome.output)")
                for words in [
                    "without a terminal", "127.0.0.1:", "ok  user agent    headless",
                    "com.example.authflow: is not opened",
                    "ok  store", "ok  clock", "ok  provider      \(emulator.issuer)",
                    "with any port, RFC 8252 section 7.3",
                ] { #expect(outcome.output.contains(words), "\(words)") }
                #expect(!(outcome.output + outcome.talk).contains("wonderland"))
                // Nothing but the provider's metadata was requested.
                #expect(emulator.receivedRequests.map(\.path) == ["/.well-known/openid-configuration"])

                let broken = try await run(["doctor", "--config", "\(folder)/none.json"], environment: environment)
                #expect(broken.status == 1)
                #expect(broken.output.contains("!!  configuration"))
            }
            try await EmulatorServer.run {
                try OIDCEmulator(issuer: $0, now: { Date(timeIntervalSinceNow: 600) })
            } _: { ahead in
                try await withConfiguration(profile(ahead.issuer)) { path, _ in
                    let outcome = try await run(["doctor", "--config", path], environment: ["PASSWORD": "wonderland"])
                    #expect(outcome.status == 1)
                    #expect(outcome.output.contains("!!  clock         "))
                    #expect(outcome.output.contains(" s behind the provider's; set it right"))
                }
            }
            try await withConfiguration(profile("http://127.0.0.1:1")) { path, _ in
                let environment = ["PASSWORD": "wonderland"]
                let outcome = try await run(["doctor", "--config", path], environment: environment)
                #expect(outcome.status == 1)
                #expect(outcome.output.contains("!!  provider"))
            }
        }
    }

    @Test func writesATraceAndATranscriptOfALogin() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let agent = """
                {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": ["\(emulator.issuer)"],
                 "user_agent_string": "Mozilla/5.0 (AuthFlow test)", "transcript": "transcript.txt"}
                """
            try await withConfiguration(profile(emulator.issuer, ["user_agent": agent])) { path, folder in
                let arguments = ["login", "--config", path, "--trace", "\(folder)/login.html"]
                let outcome = try await run(arguments, environment: ["PASSWORD": "wonderland"])
                #expect(outcome.status == 0, "\(outcome.talk)")
                let page = try String(contentsOfFile: "\(folder)/login.html", encoding: .utf8)
                let transcript = try String(contentsOfFile: "\(folder)/transcript.txt", encoding: .utf8)
                #expect(page.contains("ID Token validation: signature"))
                #expect(transcript.contains("> POST \(emulator.issuer)/login"))
                #expect(transcript.contains("    password: (10 characters)"))
                for secret in ["wonderland", "state="] { #expect(!(page + transcript).contains(secret), "\(secret)") }
                for file in ["login.html", "transcript.txt"] {
                    let attributes = try FileManager.default.attributesOfItem(atPath: "\(folder)/\(file)")
                    #expect(attributes[.posixPermissions] as? Int == 0o600)
                }
            }
            let said = emulator.receivedRequests.compactMap { $0.request.headerFields[.userAgent] }
            #expect(said.contains("Mozilla/5.0 (AuthFlow test)"))
        }
    }

    @Test func explainsWhatToDoWhenNoLoginWaitsForARedirect() async throws {
        for (url, folder) in [
            ("com.example.authflow:/callback?code=SECRET&state=x", "/tmp"), ("x", "/tmp"), ("", "/tmp"),
        ] {
            let outcome = try await run(["handle-redirect", url], environment: ["XDG_RUNTIME_DIR": folder])
            #expect(outcome.status == 1)
            #expect(outcome.talk.contains("Start authflow login again"))
            #expect(!outcome.talk.contains("SECRET"))
        }
    }

    @Test func controlCCancelsALoginAndFreesThePort() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let changes = ["user_agent": #"{"name": "loopback", "open_browser": false}"#]
            try await withConfiguration(profile(emulator.issuer, changes)) { path, _ in
                let outcome = try await run(["login", "--config", path]) { $0.contains("Ctrl-C stops") }
                #expect(outcome.status == 130)
                #expect(outcome.talk.hasSuffix("Cancelled.\n"))
                let url = try #require(outcome.talk.split(separator: "\n").first { $0.hasPrefix("http") })
                let redirectURI = try #require(
                    FormURLEncoding.decode(url.drop { $0 != "?" }.dropFirst())?["redirect_uri"]
                )
                let error = await #expect(throws: AuthError.self) {
                    try await SystemTransport().send(TransportRequest(.get, Endpoint(redirectURI)))
                }
                #expect(error?.code == .networkFailed)
            }
        }
    }

    #if os(Linux)
    /// Two processes that end in the same way; of the first, which is unprotected, the system writes a core dump.
    @Test func leavesNoCoreDumpWhenItCrashes() async throws {
        let script = """
            import os, resource, signal, subprocess, sys, tempfile
            signal.alarm(30)
            # The parent may have blocked signals, and children would inherit that.
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
            resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                for command in (["sh", "-c", "echo; exec cat"], [sys.argv[1], "dev-idp"]):
                    # Both wait until they are killed: the first for an input that never comes.
                    streams = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                    process = subprocess.Popen(command, **streams)
                    process.stdout.readline()
                    os.kill(process.pid, signal.SIGABRT)
                    status = os.waitpid(process.pid, 0)[1]
                    print(os.WTERMSIG(status), os.WCOREDUMP(status))
            """
        let program = Self.folder.appendingPathComponent("authflow").path
        // Swift's own report of a crash would take the signal.
        let environment = ["SWIFT_BACKTRACE": "enable=no"]
        let outcome = try await run(["-c", script, program], program: "/usr/bin/python3", environment: environment)
        let (control, ours) = ("\(SIGABRT) True\n", "\(SIGABRT) False\n")
        // Where the system writes no core dumps there is nothing to see.
        #expect([control + ours, ours + ours].contains(outcome.output), "\(outcome.output)\(outcome.talk)")
    }
    #endif

    @Test func reportsThatTheCredentialCannotBeStored() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let store = ["store": #"{"name": "file", "directory": "/proc/nowhere"}"#]
            try await withConfiguration(profile(emulator.issuer, store)) { path, _ in
                let outcome = try await run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
                #expect(outcome.status == 8)
                // The user is not asked to sign in for nothing.
                #expect(!emulator.requests.contains("GET /authorize"))
            }
        }
    }

    @Test(arguments: [["--help"], ["login", "--help"], ["config"]])
    func printsHelp(_ arguments: [String]) async throws {
        let outcome = try await run(arguments)
        #expect(outcome.status == 0)
        #expect(outcome.output.contains("USAGE"))
    }

    @Test(arguments: [
        ["--bogus"], ["login", "--bogus"], ["logni"], ["token", "--min-ttl", "x"], ["dev-idp", "--port", "0"],
    ])
    func refusesInvalidArguments(_ arguments: [String]) async throws {
        let outcome = try await run(arguments)
        #expect(outcome.status == 2)
        #expect(outcome.output.isEmpty)
    }

    @Test func theOIDCSampleShowsTheIDTokenAndItsResources() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await withConfiguration(profile(emulator.issuer, ["store": #""memory""#])) { path, folder in
                let resources = """
                    [{"scope": "profile", "title": "Profile", "url": "\(emulator.issuer)/userinfo"},
                     {"scope": "calendar", "title": "Calendar", "url": "\(emulator.issuer)/calendar"}]
                    """
                try Data(resources.utf8).write(to: URL(fileURLWithPath: "\(folder)/resources.json"))
                let outcome = try await run(
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
            try await withConfiguration("{}") { _, folder in
                let path = "\(folder)/new.json"
                let arguments = [
                    "register", emulator.issuer, "--output", path, "--authentication", method, "--name", "T",
                ]
                let registered = try await run(arguments)
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
                let again = try await run(arguments)
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
                let login = try await run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
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
            let found = try await run(["discover", "acct:alice@\(host)"])
            #expect(found.status == 0, "\(found.talk)")
            let metadata = try JSON(parsing: Array(found.output.utf8))
            #expect(metadata["issuer"]?.string == emulator.issuer)
            let unknown = try await run(["discover", "alice@127.0.0.1"])
            #expect(unknown.status == 7, "\(unknown.talk)")
        }
    }

    // MARK: Token life

    private let longScopes = ["scopes": #"["openid", "profile", "offline_access"]"#]

    private func refreshes(_ emulator: OIDCEmulator) -> Int {
        emulator.receivedRequests.count { $0.form["grant_type"] == "refresh_token" }
    }

    @Test func refreshesOnceForSixteenProcesses() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await withConfiguration(profile(emulator.issuer, longScopes)) { path, _ in
                // The token expires at once; the provider does not accept a refresh token that is used twice.
                emulator.accessTokenLifetime = 0
                let login = try await run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
                #expect(login.status == 0, "\(login.talk)")
                emulator.accessTokenLifetime = 3600
                let outcomes = try await withThrowingTaskGroup(of: Outcome.self) { group in
                    for _ in 0..<16 {
                        group.addTask {
                            try await run(["token", "--config", path], environment: ["PASSWORD": "x"], isAlone: false)
                        }
                    }
                    return try await group.reduce(into: [Outcome]()) { $0.append($1) }
                }
                #expect(outcomes.allSatisfy { $0.status == 0 }, "\(outcomes.map(\.talk))")
                #expect(Set(outcomes.map(\.output)).count == 1)
                #expect(refreshes(emulator) == 1)
                // The session is alive.
                let known = try await run(
                    ["token", "--config", path, "--min-ttl", "86400"],
                    environment: ["PASSWORD": "x"]
                )
                #expect(known.status == 0)
                // No token of an hour lasts for a day: one that is new is not refreshed for that.
                #expect(known.output == outcomes[0].output)
                #expect(refreshes(emulator) == 1)
            }
        }
    }

    @Test func printsATokenThatCannotBeStored() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await withConfiguration(profile(emulator.issuer, longScopes)) { path, folder in
                emulator.accessTokenLifetime = 0
                _ = try await run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
                emulator.accessTokenLifetime = 3600
                let file = try #require(
                    try FileManager.default.contentsOfDirectory(atPath: "\(folder)/store").first {
                        $0.hasSuffix(".json")
                    }
                )
                let before = try Data(contentsOf: URL(fileURLWithPath: "\(folder)/store/\(file)"))
                // A full disk: no file may grow, and the signal that says so is ignored.
                let tool = Self.folder.appendingPathComponent("authflow").path
                let outcome = try await run(
                    ["-c", "trap '' XFSZ; ulimit -f 0; exec '\(tool)' token --min-ttl 86400 --config '\(path)'"],
                    program: "/bin/bash",
                    environment: ["PASSWORD": "x"]
                )
                #expect(outcome.status == 0, "\(outcome.talk)")
                #expect(!outcome.output.isEmpty)
                #expect(outcome.talk.contains("could not be stored"))
                #expect(try Data(contentsOf: URL(fileURLWithPath: "\(folder)/store/\(file)")) == before)
            }
        }
    }

    @Test func reportsWhyTheSessionHasEnded() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await withConfiguration(profile(emulator.issuer, longScopes)) { path, _ in
                emulator.accessTokenLifetime = 0
                _ = try await run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
                emulator.endSessions()
                for command in ["token", "token", "status"] {
                    let outcome = try await run([command, "--config", path], environment: ["PASSWORD": "x"])
                    #expect(outcome.status == 4)
                    #expect(outcome.talk.contains("was ended by the provider"), "\(outcome.talk)")
                }
                #expect(refreshes(emulator) == 1)
            }
        }
    }

    /// Damage to a stored credential: the command that causes it, and a word of the message about it.
    static let damages: [(name: String, command: String, word: String)] = [
        ("truncated", "truncate -s 40 \"$f\"", "is damaged"),
        ("garbage", "head -c 500 /dev/urandom > \"$f\"", "is damaged"),
        ("empty", ": > \"$f\"", "is damaged"),
        ("loose permissions", "chmod 644 \"$f\"", "chmod 600"),
        ("a link", "mv \"$f\" \"$f.real\" && ln -s \"$f.real\" \"$f\"", "cannot be read"),
        ("a directory", "rm \"$f\" && mkdir \"$f\"", "not a plain file"),
        ("open folder", "chmod 777 \"$(dirname \"$f\")\"", "chmod 700"),
    ]

    @Test(arguments: damages) func reportsWhatIsWrongWithTheStore(
        _ damage: (name: String, command: String, word: String)
    ) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await withConfiguration(profile(emulator.issuer, longScopes)) { path, folder in
                emulator.accessTokenLifetime = 0
                _ = try await run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
                let script = "f=$(ls \(folder)/store/*.json) && \(damage.command)"
                #expect(try await run(["-c", script], program: "/bin/bash").status == 0)
                let token = try await run(["token", "--config", path], environment: ["PASSWORD": "x"])
                #expect(token.status == 8, "\(damage.name): \(token.talk)")
                #expect(token.talk.contains(damage.word), "\(damage.name): \(token.talk)")
                #expect(refreshes(emulator) == 0)
                // Nothing that was there is overwritten, and the user does not sign in for nothing.
                let asked = emulator.requests.count { $0 == "GET /authorize" }
                let login = try await run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
                #expect(login.status == 8, "\(damage.name): \(login.talk)")
                #expect(emulator.requests.count { $0 == "GET /authorize" } == asked)
            }
        }
    }

    @Test func storesAndSelectsAccounts() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            func agent(_ user: OIDCEmulator.User) -> [String: String?] {
                [
                    "user_agent": """
                    {"name": "headless", "username": "\(user.username)", "password": {"env": "PASSWORD"}, "origins": ["\(emulator.issuer)"]}
                    """
                ]
            }
            try await withConfiguration(profile(emulator.issuer)) { path, folder in
                let other = "\(folder)/bob.json"
                let bob = profile(emulator.issuer, agent(.bob))
                try Data(bob.utf8).write(to: URL(fileURLWithPath: other))
                _ = try await run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
                let refused = try await run(["login", "--config", other], environment: ["PASSWORD": "builder"])
                #expect(refused.status == 1)
                #expect(refused.talk.contains("another user is signed in already"))
                let added = try await run(
                    ["login", "--add-account", "--config", other],
                    environment: ["PASSWORD": "builder"]
                )
                #expect(added.status == 0, "\(added.talk)")
                let listed = try await run(["accounts", "--config", path], environment: ["PASSWORD": "x"])
                #expect(listed.output == "248289761002  Bob Example\n248289761001  Alice Example\n")
                let alice = try await run(
                    ["status", "--account", "248289761001", "--config", path],
                    environment: ["PASSWORD": "x"]
                )
                #expect(alice.output.contains("Alice Example"))
                _ = try await run(
                    ["accounts", "--select", "248289761001", "--config", path],
                    environment: ["PASSWORD": "x"]
                )
                let out = try await run(["logout", "--config", path], environment: ["PASSWORD": "x"])
                #expect(out.status == 0)
                #expect(out.talk.contains("Alice Example is signed out"))
                #expect(out.talk.contains("The tokens were revoked"))
                let left = try await run(["accounts", "--json", "--config", path], environment: ["PASSWORD": "x"])
                #expect(left.output.contains("Bob Example"))
                #expect(!left.output.contains("Alice"))
            }
        }
    }
}
