import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Testing

/// The tool's error messages.
@Suite struct CommandMistakesTests {
    struct Mistake: CustomTestStringConvertible {
        let name: String
        let changes: [String: String?]
        let status: Int32
        let words: String
        var testDescription: String { name }
    }

    @Test(arguments: [
        (#"{"profiles": {"a": 1,}}"#, "1:22", "Remove the comma before this position"),
        (#"{"a": [1,]}"#, "1:10", "Remove the comma before this position"), (#"{"a": ]}"#, "1:7", "invalid syntax\n"),
        ("{\"a\": 1\n \"b\": 2}", "2:2", "A comma is missing before this position"),
        (#"{"a": {} "b": 2}"#, "1:10", "A comma is missing before this position"),
        (#"{"issuer" "https://x"}"#, "1:11", "A colon is missing before this position"),
        (#"{"a": 1} "x""#, "1:10", "continues after the end"), ("{'a': 1}", "1:2", "in double quotes"),
        ("{\"a\": \"http://127.0.0.1/\n}", "1:25", "no closing quote"),
        ("{\u{201C}a\u{201D}: 1}", "1:2", "in straight double quotes"),
        ("{\"a\": 1 // no\n}", "1:9", "JSON has no comments"), ("{\n  // no\n}", "2:3", "JSON has no comments"),
        ("\u{FEFF}{}", "1:1", "without a byte order mark"), (" \n", ":", "The file is empty"),
        (#"{"a": 1, "b": 2, "a": 3}"#, "1:18", #"duplicate key: "a""#),
        (#"{"a": tru}"#, "1:10", "invalid syntax\n"), ("{\"", "1:3", "ends too early\n"),
        ("\u{201C}", "1:1", "in straight double quotes"), ("}", "1:1", "invalid syntax\n"),
        ("\"", "1:2", "ends too early\n"),
        (#"{"a": "it\'s"}"#, "1:11", "A backslash in a string must be escaped with another backslash"),
        (#"{"a": "\u12"}"#, "1:12", "A backslash in a string must be escaped with another backslash"),
        (#"{"a": 060}"#, "1:8", "must not have leading zeros"),
        (#"{"a": 8_455}"#, "1:8", "put other values in quotes"),
        ("{\n\"a\": 12345678901234567890}", "2:6", "out of range"),
    ])
    func configCheckExplainsJSONSyntaxErrors(_ text: String, _ position: String, _ words: String) async throws {
        try await CommandHarness.withConfiguration(text) { path, _ in
            let outcome = try await CommandHarness.run(["config", "check", "--config", path])
            #expect(outcome.status == 2)
            #expect(
                outcome.standardError.contains(position) && outcome.standardError.contains(words),
                "\(outcome.standardError)"
            )
        }
    }

    @Test func configCheckRejectsAURLAsAHost() async throws {
        let changes: [String: String?] = [
            "helpers": #"{"git": {"hosts": ["https://git.example.com"]}}"#, "user_agent": nil,
        ]
        try await CommandHarness.withConfiguration(CommandHarness.profile("https://id.example.com", changes)) {
            path,
            _ in
            let outcome = try await CommandHarness.run(["config", "check", "--config", path])
            #expect(
                outcome.status == 2 && outcome.standardError.contains("neither a scheme nor a path"),
                "\(outcome.standardError)"
            )
        }
    }

    /// All profiles are checked, even if a store cannot be opened. A store that can be opened but is unsuitable for a
    /// web application is also reported.
    @Test func configCheckContinuesAfterAStoreThatCannotBeOpened() async throws {
        func profile(_ store: String, _ client: String) -> String {
            #"{"provider": "oidc", "issuer": "https://id.example.com", "client_id": "\#(client)", "client_secret": {"command": ["echo", "secret"]}, "redirect_uri": "https://app.example.com/callback", "store": \#(store)}"#
        }
        let broken = profile(#"{"name": "redis", "url": "redis://db.example.com"}"#, "a")
        let work = profile(#"{"name": "file", "directory": "tokens"}"#, "b")
        let text =
            #"{"profiles": {"broken": \#(broken), "work": \#(work)}, "server": {"providers": [{"name": "work", "profile": "work"}]}}"#
        try await CommandHarness.withConfiguration(text) { path, _ in
            let all = try await CommandHarness.run(["config", "check", "--config", path])
            #expect(all.output.contains("  !!  broken: ") && all.output.contains("  ok  work"), "\(all.output)")
            #expect(
                all.status == 2 && all.standardError.contains("cannot store the sessions of many users"),
                "\(all.standardError)"
            )
            let one = try await CommandHarness.run(["config", "check", "--config", path, "--profile", "broken"])
            #expect(
                one.status == 2 && one.standardError.contains("see the lines marked with !!"),
                "\(one.standardError)"
            )
        }
    }

    static let mistakes: [Mistake] = [
        Mistake(
            name: "a missing key",
            changes: ["client_id": nil],
            status: 2,
            words: #"the key "client_id" is missing"#
        ),
        Mistake(name: "a misspelled key", changes: ["isuer": #""x""#], status: 2, words: #"Did you mean "issuer"?"#),
        Mistake(
            name: "an unknown provider",
            changes: ["provider": #""oidcc""#],
            status: 2,
            words: #"Did you mean "oidc"?"#
        ),
        Mistake(
            name: "an unreachable issuer",
            changes: ["issuer": #""http://127.0.0.1:1""#],
            status: 7,
            words: "Could not connect to 127.0.0.1:1"
        ),
        Mistake(
            name: "an issuer with a query",
            changes: ["issuer": #""https://id.example.com/?tenant=1""#],
            status: 2,
            words: "issuer: The issuer \"https://id.example.com/?tenant=…\" cannot be used: it has a query"
        ),
        Mistake(
            name: "the URL of the metadata as the issuer",
            changes: ["issuer": #""https://id.example.com/.well-known/openid-configuration""#],
            status: 2,
            words: "usually https://id.example.com."
        ),
        Mistake(
            name: "a secret in the file",
            changes: ["client_secret": #""hunter2""#],
            status: 2,
            words: "must not be written in the file"
        ),
        Mistake(
            name: "a path in an API's origin",
            changes: ["api_origins": #"["https://api.example.com/v1"]"#],
            status: 2,
            words: "an origin must not have a path or a query: use https://api.example.com"
        ),
        Mistake(
            name: "an invalid scope",
            changes: ["scopes": #"["a b"]"#],
            status: 2,
            words: "RFC 6749 section 3.3"
        ),
    ]

    @Test(arguments: mistakes) func explainsMistakesInAProfile(
        _ mistake: Mistake
    ) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, mistake.changes)) {
                path,
                _ in
                let outcome = try await CommandHarness.run(
                    ["login", "--config", path],
                    environment: ["PASSWORD": "wonderland"]
                )
                #expect(outcome.status == mistake.status, "\(outcome.standardError)")
                #expect(outcome.standardError.contains(mistake.words), "\(outcome.standardError)")
                #expect(outcome.output.isEmpty)
                for secret in ["wonderland", "hunter2", "Fatal error", " at /"] {
                    #expect(!outcome.standardError.contains(secret))
                }
            }
        }
    }

    @Test func explainsBrokenJSON() async throws {
        try await CommandHarness.withConfiguration("{\n  \"profiles\": {,}\n}") { path, _ in
            let outcome = try await CommandHarness.run(["login", "--config", path])
            #expect(outcome.status == 2)
            #expect(outcome.standardError.contains("authflow.json:2:"))
        }
    }

    @Test func explainsAnIssuerThatDoesNotMatch() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.fault = .metadata(.wrongIssuer)
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, _ in
                let outcome = try await CommandHarness.run(
                    ["login", "--config", path],
                    environment: ["PASSWORD": "wonderland"]
                )
                #expect(outcome.status == 7)
                #expect(outcome.standardError.contains("match character for character"))
            }
        }
    }

    /// The user's browser is on another machine, so the user copies the URL there, and pastes the final URL into the
    /// terminal.
    @Test(arguments: [
        (#""redirect_uri": "http://127.0.0.1/callback""#, "loopback"),
        (#""redirect_uri": "com.example.authflow:/callback""#, "paste"),
    ]) func signsInWithAPastedURLAfterAWrongURL(_ redirect: String, _ agent: String) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let value = String(redirect.drop { $0 != ":" }.dropFirst(2))
            let changes = ["user_agent": #""auto""#, "redirect_uri": value]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, changes)) { path, _ in
                let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
                    "paste.py"
                )
                let login = [CommandHarness.folder.appendingPathComponent("authflow").path, "login", "--config", path]
                let outcome = try await CommandHarness.run(
                    ["python3", script.path] + login,
                    program: "/usr/bin/env",
                    environment: ["SSH_CONNECTION": "192.0.2.7 5 192.0.2.1 22", "USER": "alice"]
                )
                #expect(outcome.status == 0, "\(outcome.output)")
                #expect(outcome.output.contains("User agent: \(agent), because"))
                #expect(outcome.output.contains("That is not the URL that this sign-in is waiting for."))
                #expect(outcome.output.contains("Signed in as Alice Example"))
                #expect(outcome.output.contains("alice@192.0.2.1") == (agent == "loopback"))
            }
        }
    }

    /// `authflow login` is not the only command that signs in.
    @Test(arguments: ["init", "curl"]) func everyCommandThatSignsInAcceptsAPastedURL(_ command: String) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let issuer = emulator.issuer
            let changes: [String: String?] = ["user_agent": nil, "api_origins": "[\"\(issuer)\"]"]
            try await CommandHarness.withConfiguration(CommandHarness.profile(issuer, changes)) { path, folder in
                let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
                    "paste.py"
                )
                let tool = CommandHarness.folder.appendingPathComponent("authflow").path
                let arguments =
                    command == "init"
                    ? ["--issuer", issuer, "--client-id", "authflow-demo", "--scope", "openid", "--login"]
                    : ["--config", path, "--profile", "work", "--sign-in", "\(issuer)/userinfo"]
                let outcome = try await CommandHarness.run(
                    ["python3", script.path, tool, command] + arguments,
                    program: "/usr/bin/env",
                    environment: ["HOME": folder, "SSH_CONNECTION": "192.0.2.7 5 192.0.2.1 22"]
                )
                #expect(outcome.status == 0, "\(outcome.output)")
                #expect(outcome.output.contains("248289761001"), "\(outcome.output)")
            }
        }
    }

    @Test(arguments: [["login"], ["curl", "--sign-in", "-d", #"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#]])
    func aSignInToAResourceAcceptsAPastedURL(_ command: [String]) async throws {
        try await EmulatorServer.run {
            ProtectedResourceEmulator(origin: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration("{}") { _, folder in
                let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
                    "paste.py"
                )
                let tool = CommandHarness.folder.appendingPathComponent("authflow").path
                let outcome = try await CommandHarness.run(
                    ["python3", script.path, tool] + command + [emulator.resource],
                    program: "/usr/bin/env",
                    environment: ["HOME": folder, "SSH_CONNECTION": "192.0.2.7 5 192.0.2.1 22"]
                )
                #expect(outcome.status == 0, "\(outcome.output)")
                #expect(emulator.requests.contains("POST /token"), "\(outcome.output)")
            }
        }
    }

    @Test func doctorChecksLoginRequirementsWithoutLeakingSecrets() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let changes = [
                "client_secret": #"{"env": "PASSWORD"}"#,
                "redirect_uri": #"["http://127.0.0.1/callback", "com.example.authflow:/callback"]"#,
            ]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, changes)) {
                path,
                folder in
                let environment = ["PASSWORD": "wonderland", "HOME": folder]
                let outcome = try await CommandHarness.run(["doctor", "--config", path], environment: environment)
                #expect(outcome.status == 0, "\(outcome.output)")
                for words in [
                    "without a terminal", "127.0.0.1:", "ok  user agent    headless",
                    "com.example.authflow: URLs are not handled",
                    "ok  store", "ok  clock", "ok  provider      \(emulator.issuer)",
                    "with any port, RFC 8252 section 7.3",
                ] { #expect(outcome.output.contains(words), "\(words)") }
                #expect(!(outcome.output + outcome.standardError).contains("wonderland"))
                // Only the provider's metadata and keys were requested.
                #expect(emulator.receivedRequests.map(\.path) == ["/.well-known/openid-configuration", "/jwks"])

                emulator.fault = .jwks(.response { $0.head.status = .serviceUnavailable })
                let keyless = try await CommandHarness.run(["doctor", "--config", path], environment: environment)
                #expect(keyless.status == 1 && keyless.output.contains("!!  keys"), "\(keyless.output)")
                // Every sign-in would fail although the keys can be fetched.
                for (fault, words) in [
                    (EmulatorFault.jwks(.response { $0.body = Array(#"{"keys":[]}"#.utf8) }), "no usable key for"),
                    (.metadata(.member("id_token_signing_alg_values_supported", ["HS256"])), "neither its metadata"),
                ] {
                    emulator.fault = fault
                    let useless = try await CommandHarness.run(["doctor", "--config", path], environment: environment)
                    #expect(useless.status == 1 && useless.output.contains(words), "\(useless.output)")
                }
                emulator.fault = nil

                let broken = try await CommandHarness.run(
                    ["doctor", "--config", "\(folder)/none.json"],
                    environment: environment
                )
                #expect(broken.status == 1)
                #expect(broken.output.contains("!!  configuration"))
            }
            try await EmulatorServer.run {
                try OIDCEmulator(issuer: $0, now: { Date(timeIntervalSinceNow: 600) })
            } _: { ahead in
                try await CommandHarness.withConfiguration(CommandHarness.profile(ahead.issuer)) { path, _ in
                    let outcome = try await CommandHarness.run(
                        ["doctor", "--config", path],
                        environment: ["PASSWORD": "wonderland"]
                    )
                    #expect(outcome.status == 1)
                    #expect(outcome.output.contains("!!  clock         "))
                    #expect(outcome.output.contains(" s behind the provider's; correct it"))
                }
            }
            try await CommandHarness.withConfiguration(CommandHarness.profile("http://127.0.0.1:1")) { path, _ in
                let environment = ["PASSWORD": "wonderland"]
                let outcome = try await CommandHarness.run(["doctor", "--config", path], environment: environment)
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
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, ["user_agent": agent])) {
                path,
                folder in
                let arguments = ["login", "--config", path, "--trace", "\(folder)/login.html"]
                let outcome = try await CommandHarness.run(arguments, environment: ["PASSWORD": "wonderland"])
                #expect(outcome.status == 0, "\(outcome.standardError)")
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
            let userAgents = emulator.receivedRequests.compactMap { $0.request.headerFields[.userAgent] }
            #expect(userAgents.contains("Mozilla/5.0 (AuthFlow test)"))
        }
    }

    @Test func explainsWhatToDoWhenNoLoginWaitsForARedirect() async throws {
        for (url, folder) in [
            ("com.example.authflow:/callback?code=SECRET&state=x", "/tmp"), ("x", "/tmp"), ("", "/tmp"),
        ] {
            let outcome = try await CommandHarness.run(
                ["handle-redirect", url],
                environment: ["XDG_RUNTIME_DIR": folder]
            )
            #expect(outcome.status == 1)
            #expect(outcome.standardError.contains("Run authflow login again"))
            #expect(!outcome.standardError.contains("SECRET"))
        }
    }

    @Test func controlCCancelsALoginAndFreesThePort() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let changes = ["user_agent": #"{"name": "loopback", "open_browser": false}"#]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, changes)) { path, _ in
                let outcome = try await CommandHarness.run(
                    ["login", "--config", path],
                    interruptWhen: { $0.contains("Ctrl-C to stop") }
                )
                #expect(outcome.status == 130)
                #expect(outcome.standardError.hasSuffix("Cancelled.\n"))
                let url = try #require(outcome.standardError.split(separator: "\n").first { $0.hasPrefix("http") })
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
    @Test func saysThatLibcurlIsMissing() async throws {
        try await CommandHarness.withConfiguration(CommandHarness.profile("http://127.0.0.1:9")) { path, _ in
            try await CommandHarness.withoutLibraries(["libcurl.so.4", "libcurl-gnutls.so.4"]) { environment in
                let outcome = try await CommandHarness.run(
                    ["login", "--config", path],
                    environment: environment.merging(["PASSWORD": "wonderland"]) { $1 }
                )
                #expect(outcome.status == 7)
                #expect(
                    outcome.standardError.contains("libcurl is required for network access, but is not installed."),
                    "\(outcome.standardError)"
                )
            }
        }
    }

    /// Two processes crash in the same way. The system writes a core dump of the first, unprotected process, but not
    /// of the second.
    @Test func leavesNoCoreDumpWhenItCrashes() async throws {
        let script = """
            import os, resource, signal, subprocess, sys, tempfile
            signal.alarm(30)
            # The parent may have blocked signals, and children inherit the signal mask.
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
            resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                for command in (["sh", "-c", "echo; exec cat"], [sys.argv[1], "dev-idp"]):
                    # Both run until they are killed: the first waits for input that never arrives.
                    streams = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                    process = subprocess.Popen(command, **streams)
                    process.stdout.readline()
                    os.kill(process.pid, signal.SIGABRT)
                    status = os.waitpid(process.pid, 0)[1]
                    print(os.WTERMSIG(status), os.WCOREDUMP(status))
            """
        let program = CommandHarness.folder.appendingPathComponent("authflow").path
        // Swift's own crash reporter would handle the signal.
        let environment = ["SWIFT_BACKTRACE": "enable=no"]
        let outcome = try await CommandHarness.run(
            ["-c", script, program],
            program: "/usr/bin/python3",
            environment: environment
        )
        let (control, ours) = ("\(SIGABRT) True\n", "\(SIGABRT) False\n")
        // On a system that writes no core dumps, the test cannot check anything.
        #expect([control + ours, ours + ours].contains(outcome.output), "\(outcome.output)\(outcome.standardError)")
    }
    #endif

    @Test func reportsThatTheCredentialCannotBeStored() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let store = ["store": #"{"name": "file", "directory": "/proc/nowhere"}"#]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, store)) { path, _ in
                let outcome = try await CommandHarness.run(
                    ["login", "--config", path],
                    environment: ["PASSWORD": "wonderland"]
                )
                #expect(outcome.status == 8)
                // The user is not asked to sign in unnecessarily.
                #expect(!emulator.requests.contains("GET /authorize"))
            }
        }
    }

    @Test(arguments: [#"{"nokey": 1}"#, #"{"store": {"name": "file", "directory": "/etc/passwd/store"}}"#])
    func doctorReportsSettingsForResourcesThatCannotWork(_ settings: String) async throws {
        try await CommandHarness.withConfiguration(#"{"resource_client": \#(settings)}"#) { path, _ in
            let doctor = try await CommandHarness.run(["doctor", "--config", path])
            #expect(doctor.status == 1 && doctor.output.contains("!!  resources"), "\(doctor.output)")
        }
    }

    @Test(arguments: [["--help"], ["login", "--help"], ["exec", "--help"], ["config"]])
    func printsHelp(_ arguments: [String]) async throws {
        let outcome = try await CommandHarness.run(arguments)
        #expect(outcome.status == 0)
        #expect(outcome.output.contains("USAGE"))
    }

    @Test(arguments: [
        ["--bogus"], ["login", "--bogus"], ["logni"], ["token", "--min-ttl", "x"], ["dev-idp", "--port", "0"],
    ])
    func rejectsInvalidArguments(_ arguments: [String]) async throws {
        let outcome = try await CommandHarness.run(arguments)
        #expect(outcome.status == 2)
        #expect(outcome.output.isEmpty)
    }

    /// A missing file has the same exit status, so the message is checked as well.
    @Test(arguments: [
        (["access-token", "check", "--scope", "read write"], "is not a scope"),
        (["keys", "jwks", "--kid", "1", "one", "two"], "requires a single key file"),
    ])
    func saysWhyAnArgumentIsInvalid(_ arguments: [String], _ words: String) async throws {
        let outcome = try await CommandHarness.run(arguments)
        #expect(outcome.status == 2 && outcome.output.isEmpty)
        #expect(outcome.standardError.contains(words), "\(outcome.standardError)")
    }
}
