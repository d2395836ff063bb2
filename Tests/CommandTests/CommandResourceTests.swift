import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import Testing

/// The tool with the URL of a protected resource instead of a profile.
@Suite struct CommandResourceTests {
    @Test func signsInWithOnlyTheURLOfAResource() async throws {
        var settings = ResourceSettings()
        settings.refreshes = true
        try await CommandHarness.withResource(settings) { emulator, run async throws in
            let early = try await run(["token", emulator.resource])
            #expect(early.status == 4 && early.output.isEmpty)
            #expect(!emulator.requests.contains("POST /register"))
            let login = try await run(["login", emulator.resource, "--json"])
            #expect(login.status == 0, "\(login.standardError)")
            let report = try JSON(parsing: Array(login.output.utf8))
            #expect(report["resource"]?.string == emulator.resource)
            #expect(report["scopes"]?.strings == ["mcp:basic"])
            let token = try await run(["token", emulator.resource])
            #expect(token.status == 0 && token.output.count > 20)
            #expect(!login.output.contains(token.output) && !login.standardError.contains(token.output))
            let call = try await run([
                "curl", emulator.resource, "-H", "Accept: application/json, text/event-stream", "-H",
                "MCP-Protocol-Version: 2025-11-25",
                "-d", #"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            ])
            #expect(call.status == 0 && call.output.contains("test-tool"), "\(call.standardError)")
            #expect(try await run(["status", emulator.resource]).status == 0)
            #expect(try await run(["mcp", "status"]).output.contains(emulator.resource))
            #expect(try await run(["register", "show"]).output.contains(emulator.origin))
            let mistyped = try await run(["register", "remove", emulator.resource + "/typo"])
            #expect(mistyped.standardError.contains("There is no such registration"), "\(mistyped.standardError)")
            #expect(try await run(["token", emulator.resource]).status == 0)
            #expect(try await run(["logout", emulator.resource]).standardError.contains("Signed out of"))
            #expect(try await run(["token", emulator.resource]).status == 4)
            let removed = try await run(["register", "remove", emulator.origin])
            #expect(
                removed.status == 0 && removed.standardError.contains("was removed from this machine"),
                "\(removed.standardError)"
            )
            #expect(emulator.violations.isEmpty, "\(emulator.violations)")
        }
    }

    /// The credential, with its refresh token, remains stored.
    @Test func mcpStatusReportsThatALoginIsRequiredAfterRepeatedRefreshRejections() async throws {
        var settings = ResourceSettings()
        settings.refreshes = true
        settings.tokenLifetime = 0
        try await CommandHarness.withResource(settings) { emulator, run async throws in
            #expect(try await run(["login", emulator.resource]).status == 0)
            #expect(try await run(["mcp", "status"]).output.contains("signed in, refreshed when needed"))
            emulator.settings.tokenStatus = 400
            #expect(try await run(["token", emulator.resource]).status != 4)
            #expect(try await run(["token", emulator.resource]).status == 4)
            let status = try await run(["mcp", "status"])
            #expect(status.output == "\(emulator.resource)  login required\n", "\(status.standardError)")
            let json = try await run(["mcp", "status", "--json"]).output
            let report = try JSON(parsing: Array(json.utf8))
            #expect(report.array?.first?["login_required"] == true)
        }
    }

    /// A machine-to-machine client replaces an expired token without a user.
    @Test func statusDoesNotReportAnExpiredMachineTokenAsAnEndedSession() async throws {
        var settings = ResourceSettings()
        settings.registers = false
        settings.grants = ["client_credentials"]
        settings.authenticationMethods = ["client_secret_basic"]
        settings.registeredClients = ["machine": "secret"]
        settings.tokenLifetime = 0
        try await CommandHarness.withResource(settings) { resource in
            let profile: JSON = [
                "provider": "oidc", "issuer": .string(String(resource.dropLast("/mcp".count))), "client_id": "machine",
                "client_secret": ["command": ["echo", "secret"]], "client_authentication": "client_secret_basic",
                "flow": "client_credentials",
            ]
            return try? String(decoding: JSON.object(["profiles": ["robot": profile]]).serialized(), as: UTF8.self)
        } _: { emulator, run async throws in
            let choice = [emulator.resource, "--config", "authflow.json", "--profile", "robot"]
            let before = try await run(["status", "--json"] + choice)
            #expect(before.status == 0 && before.output.contains("No token is stored"), "\(before.standardError)")
            #expect(try JSON(parsing: Array(before.output.utf8))["state"]?.string == "expired")
            #expect(emulator.requests.isEmpty)
            #expect(try await run(["login"] + choice).status == 0)
            let status = try await run(["status"] + choice)
            #expect(
                status.status == 0 && status.output.contains("Signed in to"),
                "\(status.output)\(status.standardError)"
            )
            let report = try await run(["status", "--json"] + choice)
            #expect(try JSON(parsing: Array(report.output.utf8))["state"]?.string == "expired")
            #expect(!report.output.contains("login_required"))
            #expect(try await run(["token"] + choice).status == 0)
        }
    }

    /// The profile's own token would not be restricted to the resource.
    @Test(arguments: ["", "?q=1", "/", "/part", "/p%61rt"])
    func curlPrefersATokenForTheResourceToTheTokenOfTheProfile(_ suffix: String) async throws {
        var settings = ResourceSettings()
        settings.registers = false
        settings.grants = ["client_credentials"]
        settings.authenticationMethods = ["client_secret_basic"]
        settings.registeredClients = ["machine": "secret"]
        try await CommandHarness.withResource(settings) { resource in
            let origin = String(resource.dropLast("/mcp".count))
            let profile: JSON = [
                "provider": "oidc", "issuer": .string(origin), "client_id": "machine",
                "client_secret": ["command": ["echo", "secret"]], "client_authentication": "client_secret_basic",
                "flow": "client_credentials", "api_origins": [.string(origin)],
            ]
            return try? String(decoding: JSON.object(["profiles": ["robot": profile]]).serialized(), as: UTF8.self)
        } _: { emulator, run async throws in
            let choice = ["--config", "authflow.json", "--profile", "robot"]
            #expect(try await run(["login", emulator.resource] + choice).status == 0)
            let call = ["-d", #"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, emulator.resource + suffix]
            let outcome = try await run(["curl"] + choice + call)
            #expect(!suffix.isEmpty || outcome.status == 0, "\(outcome.standardError)")
            #expect(emulator.requests.last == "POST /mcp\(suffix.prefix { $0 != "?" })", "\(outcome.standardError)")
            #expect(emulator.requests.count { $0 == "POST /token" } == 1)
            // The meaning of such a path depends on the server.
            for path in ["/mcp/../part", "/public/../mcp", "/./mcp", "/%2e%2e/mcp", "/x/..;/mcp"] {
                let dots = try await run(["curl", emulator.origin + path] + choice)
                #expect(
                    dots.status == 2 && dots.standardError.contains("dot segments"),
                    "\(path) \(dots.standardError)"
                )
            }
            // A server may treat these paths as below the resource, and the resource's token must not be sent to them.
            for path in ["/mcp%2Fx", "/mcp;v=1/x"] {
                let outcome = try await run(["curl", emulator.origin + path] + choice)
                #expect(outcome.status == 2 && outcome.standardError.contains("not below"), "\(outcome.standardError)")
            }
            #expect(emulator.requests.count { $0 == "POST /token" } == 1)
        }
    }

    /// The command that the message suggests yields a token that the resource accepts.
    @Test func theSuggestedStepUpCommandIncludesTheMissingScopes() async throws {
        var settings = ResourceSettings()
        settings.toolScopes = ["mcp:write"]
        settings.supportedScopes = ["mcp:basic", "mcp:write"]
        try await CommandHarness.withResource(settings) { emulator, run async throws in
            let call = [
                "curl", emulator.resource, "-H", "Accept: application/json, text/event-stream", "-H",
                "MCP-Protocol-Version: 2025-11-25",
                "-d", #"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test-tool","arguments":{}}}"#,
            ]
            #expect(try await run(["login", emulator.resource]).status == 0)
            let refused = try await run(call)
            #expect(refused.status == 4)
            let advice = "authflow login \(emulator.resource) --scope=mcp:write"
            #expect(refused.standardError.contains(advice), "\(refused.standardError)")
            #expect(!refused.standardError.contains("No user is signed in"))
            let login = try await run(advice.split(separator: " ").dropFirst().map(String.init))
            #expect(login.status == 0, "\(login.standardError)")
            let accepted = try await run(call)
            #expect(accepted.status == 0, "\(accepted.standardError)")
        }
    }

    /// Scopes that begin with a dash, and more scopes than fit on a command line.
    @Test(arguments: [
        (["--local", "-x"], "--scope=--local --scope=-x" as String?), ((0..<500).map { "scope-\($0)" }, nil),
    ])
    func theSuggestedCommandForHostileScopesIsSafeToCopy(_ scopes: [String], _ advice: String?) async throws {
        var settings = ResourceSettings()
        settings.toolScopes = scopes
        try await CommandHarness.withResource(settings) { emulator, run async throws in
            #expect(try await run(["login", emulator.resource]).status == 0)
            let refused = try await run([
                "curl", emulator.resource, "-d",
                #"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test-tool","arguments":{}}}"#,
            ])
            #expect(
                refused.status == 4 && refused.standardError.contains("requires more scopes"),
                "\(refused.standardError)"
            )
            #expect(refused.standardError.utf8.count < 2000)
            if let advice {
                #expect(
                    refused.standardError.contains("authflow login \(emulator.resource) \(advice)"),
                    "\(refused.standardError)"
                )
            } else {
                #expect(!refused.standardError.contains("Run:"))
            }
        }
    }

    /// RFC 9470: the command in the message requests the authentication that the resource requires.
    @Test func theSuggestedStepUpCommandRequestsTheRequiredAuthentication() async throws {
        try await CommandHarness.withResource { emulator, run async throws in
            #expect(try await run(["login", emulator.resource]).status == 0)
            emulator.settings.requiredACR = "mfa phr"
            let call = ["curl", emulator.resource, "-d", #"{"jsonrpc":"2.0","id":1,"method":"ping"}"#]
            let refused = try await run(call)
            #expect(refused.status == 4, "\(refused.standardError)")
            let options = ["--acr-values=mfa", "--acr-values=phr", "--max-age=300"]
            let command = ["login", emulator.resource] + options
            #expect(
                refused.standardError.contains("authflow \(command.joined(separator: " "))"),
                "\(refused.standardError)"
            )
            #expect(try await run(command).status == 0)
            let accepted = try await run(call + ["-H", "Accept: application/json, text/event-stream"])
            #expect(accepted.status == 0, "\(accepted.standardError)")
        }
    }

    @Test func aRegistrationThatTheServerNoLongerRecognizesRequiresASignIn() async throws {
        var settings = ResourceSettings()
        settings.refreshes = true
        settings.tokenLifetime = 0
        try await CommandHarness.withResource(settings) { emulator, run async throws in
            #expect(try await run(["login", emulator.resource]).status == 0)
            emulator.removeClients()
            let token = try await run(["token", emulator.resource])
            #expect(token.status == 4, "\(token.standardError)")
            try #require(token.standardError.contains("no longer recognizes the client"), "\(token.standardError)")
            #expect(try await run(["login", emulator.resource]).status == 0)
        }
    }

    @Test func theErrorNamesBothAuthorizationServersOfAMigratedResource() async throws {
        var settings = ResourceSettings()
        settings.issuerPaths = ["/one", "/two"]
        settings.migratesAfterFirstCall = true
        try await CommandHarness.withResource(settings) { emulator, run async throws in
            let call = [
                "curl", emulator.resource, "-d",
                #"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test-tool","arguments":{}}}"#,
            ]
            #expect(try await run(["login", emulator.resource]).status == 0)
            _ = try await run(call)
            let moved = try await run(call)
            #expect(moved.status == 4, "\(moved.standardError)")
            #expect(
                moved.standardError.contains("/two") && moved.standardError.contains("/one"),
                "\(moved.standardError)"
            )
        }
    }

    @Test func aTokenThatTheResourceRejectsIsNotReportedAsMissing() async throws {
        var settings = ResourceSettings()
        settings.refreshes = true
        try await CommandHarness.withResource(settings) { emulator, run async throws in
            #expect(try await run(["login", emulator.resource]).status == 0)
            emulator.settings.rejectsTokens = true
            let refused = try await run(["curl", emulator.resource, "-d", "{}"])
            #expect(refused.status == 4)
            #expect(refused.standardError.contains("does not accept the access token"), "\(refused.standardError)")
        }
    }

    @Test func theSuggestedLoginCommandIncludesTheResourceURLAndTheProfile() async throws {
        try await EmulatorServer.run {
            ProtectedResourceEmulator(origin: $0)
        } _: { emulator in
            let text = CommandHarness.profile(emulator.origin, ["resources": "[\"\(emulator.resource)\"]"])
            try await CommandHarness.withConfiguration(text) { path, folder in
                let token = try await CommandHarness.run(
                    ["token", emulator.resource, "--config", path, "--profile", "work"],
                    environment: ["HOME": folder],
                    folder: folder
                )
                #expect(token.status == 4)
                let advice = "authflow login \(emulator.resource) --config \(path) --profile work"
                #expect(token.standardError.contains(advice), "\(token.standardError)")
            }
        }
    }

    /// For a resource without a profile, `authflow doctor` would show the redirect URIs of an unrelated profile.
    @Test(arguments: [false, true]) func loginSuggestsDoctorOnlyForAResourceOfAProfile(_ isListed: Bool) async throws {
        try await EmulatorServer.run {
            ProtectedResourceEmulator(origin: $0)
        } _: { emulator in
            let text = CommandHarness.profile(
                emulator.origin,
                [
                    "resources": isListed ? "[\"\(emulator.resource)\"]" : nil, "scopes": #"["mcp:basic"]"#,
                    "user_agent": nil,
                ]
            )
            try await CommandHarness.withConfiguration(text) { path, folder in
                let login = try await CommandHarness.run(
                    ["login", emulator.resource, "--config", path],
                    environment: ["HOME": folder, "DISPLAY": ":0", "BROWSER": "/bin/true"],
                    interruptWhen: { $0.contains("Waiting for you") }
                )
                #expect(login.status == 130, "\(login.standardError)")
                let advice = "see what to register: authflow doctor --config \(path) --profile work\n"
                #expect(login.standardError.contains(advice) == isListed, "\(login.standardError)")
                #expect(login.standardError.contains("authflow doctor") == isListed, "\(login.standardError)")
            }
        }
    }

    @Test(arguments: ["@-", "@/dev/stdin"]) func readsTheRequestBodyFromAPipe(_ argument: String) async throws {
        try await CommandHarness.withResource { emulator, run async throws in
            #expect(try await run(["login", emulator.resource]).status == 0)
            let tool = "\(CommandHarness.folder.path)/authflow"
            let message = #"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#
            let outcome = try await run(
                [
                    "-c", "printf %s \"$2\" | \"$0\" curl \"$3\" -H \"$4\" -d \"$1\"", tool, argument, message,
                    emulator.resource, "Accept: application/json, text/event-stream",
                ],
                program: "/bin/sh"
            )
            #expect(outcome.status == 0 && outcome.output.contains("test-tool"), "\(outcome.standardError)")
        }
    }

    /// The host shows the message of an error to the user. The bridge exits at the end of its input.
    @Test func theBridgeSuggestsASignInOnlyIfASignInIsRequired() async throws {
        try await CommandHarness.withResource { emulator, run async throws in
            let tool = "\(CommandHarness.folder.path)/authflow"
            let message = #"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#
            for (address, words, isRequired) in [
                (emulator.resource, "No user is signed in", true),
                ("http://127.0.0.1:1/mcp", "Could not connect", false),
            ] {
                let script = #"printf '%s\n' "$1" | timeout 60 "$0" mcp connect "$2" --no-browser"#
                let outcome = try await run(["-c", script, tool, message, address], program: "/bin/sh")
                #expect(outcome.status == 0 && outcome.output.contains(words), "\(outcome.standardError)")
                #expect(outcome.output.contains("Run: authflow login \(address)") == isRequired, "\(outcome.output)")
            }
        }
    }

    /// After a host has crashed, other programs that it started may have inherited the other end of the bridge's input.
    @Test func theBridgeExitsIfItsOutputCannotBeWrittenAlthoughItsInputIsOpen() async throws {
        try await CommandHarness.withResource { emulator, run async throws in
            let tool = "\(CommandHarness.folder.path)/authflow"
            let message = #"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#
            let script = #"""
                mkfifo input
                exec 3<>input
                printf '%s\n' "$1" >&3
                timeout 60 "$0" mcp connect "$2" --no-browser <input >/dev/full
                """#
            let outcome = try await run(["-c", script, tool, message, emulator.resource], program: "/bin/sh")
            #expect(outcome.status == 1, "\(outcome.standardError)")
            #expect(outcome.standardError.contains("could not be written"), "\(outcome.standardError)")
        }
    }

    /// A registration that is never used would remain at the server.
    @Test func noClientIsRegisteredIfNoUserAgentWorks() async throws {
        try await CommandHarness.withResource { emulator, run async throws in
            let login = try await CommandHarness.run(
                ["login", emulator.resource],
                environment: ["XDG_DATA_HOME": "\(run.folder)/data", "XDG_CONFIG_HOME": "\(run.folder)/config"],
                folder: run.folder
            )
            #expect(login.status == 4, "\(login.standardError)")
            #expect(login.standardError.contains("No user agent works here."), "\(login.standardError)")
            #expect(!emulator.requests.contains("POST /register"))
        }
    }

    @Test func localLogoutRemovesTheStoredCredential() async throws {
        try await CommandHarness.withResource { emulator, run async throws in
            #expect(try await run(["login", emulator.resource]).status == 0)
            #expect(try await run(["logout", emulator.resource, "--local"]).status == 0)
            #expect(try await run(["token", emulator.resource]).status == 4)
        }
    }

    /// A local sign-out sends no request.
    @Test func localLogoutDoesNotReadTheCertificatesOfTheResourceClient() async throws {
        try await CommandHarness.withResource { emulator, run async throws in
            #expect(try await run(["login", emulator.resource]).status == 0)
            let config = "\(run.folder)/config.json"
            try Data(#"{"profiles": {}, "resource_client": {"ca_file": "missing.pem"}}"#.utf8).write(
                to: URL(fileURLWithPath: config)
            )
            let arguments = ["logout", emulator.resource, "--config", config]
            #expect(try await run(arguments).status == 2)
            let logout = try await run(arguments + ["--local"])
            #expect(logout.status == 0, "\(logout.standardError)")
            #expect(logout.standardError.contains("Signed out on this machine."), "\(logout.standardError)")
            #expect(try await run(["token", emulator.resource]).status == 4)
        }
    }

    @Test func rejectsANonconformingServerWithASpecificError() async throws {
        for (scenario, words) in [
            ("17", "is for the resource"), ("24", "RFC 9207"), ("27", "match character for character"),
        ] {
            let settings = try #require(ResourceScenario.named(scenario)).settings
            try await CommandHarness.withResource(settings) { emulator, run async throws in
                let login = try await run(["login", emulator.resource])
                #expect(login.status > 0 && login.standardError.contains(words), "\(login.standardError)")
                #expect(try await run(["token", emulator.resource]).status == 4)
            }
        }
    }

    @Test func theErrorForTheIssuerOfAProviderSaysThatAResourceIsExpected() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration("{}") { _, folder in
                let login = try await CommandHarness.run(["login", emulator.issuer], environment: ["HOME": folder])
                #expect(login.status == 7, "\(login.standardError)")
                #expect(login.standardError.contains("not the issuer of a provider?"), "\(login.standardError)")
            }
        }
    }

    @Test func anUntrustedConfigurationFileIsIgnored() async throws {
        // A file that another user has placed in the directory specifies a different client for the resource.
        try await CommandHarness.withResource(localConfiguration: { resource in
            #"{"profiles": {"x": {"provider": "oidc", "issuer": "https://evil.example.com", "client_id": "x", "resources": ["\#(resource)"]}}}"#
        }) { emulator, run async throws in
            let login = try await run(["login", emulator.resource])
            #expect(login.status == 0, "\(login.standardError)")
            #expect(login.standardError.contains("not trusted"))
            // This command looks for the file several times.
            let list = try await run(["mcp", "status"])
            let lines = list.standardError.split(separator: "\n")
            #expect(lines.count { $0.contains("not trusted") } == 1, "\(list.standardError)")
        }
    }

    @Test func aResourceOfSeveralProfilesIsUsedOnlyWithAProfileName() async throws {
        try await CommandHarness.withResource { emulator, run async throws in
            #expect(try await run(["login", emulator.resource]).status == 0)
            let profile = """
                {"provider": "oidc", "issuer": "http://127.0.0.1:1", "client_id": "a", "resources": ["\(emulator.resource)"]}
                """
            let path = "\(run.folder)/several.json"
            try Data(#"{"profiles": {"a": \#(profile), "b": \#(profile)}}"#.utf8).write(to: URL(fileURLWithPath: path))
            let token = try await run(["token", emulator.resource, "--config", path])
            #expect(token.status == 2, "\(token.standardError)")
            #expect(token.standardError.contains("a, b. Select one with --profile."), "\(token.standardError)")
            // The list contains the sign-ins without a profile.
            let list = try await run(["mcp", "status", "--config", path])
            #expect(list.status == 0 && list.output.contains("\(emulator.resource)  "), "\(list.standardError)")
        }
    }

    @Test(arguments: [([], true), (["--quiet"], false)] as [([String], Bool)])
    func loginNamesTheAuthorizationServerOfTheResourceUnlessQuiet(_ options: [String], _ isNamed: Bool) async throws {
        try await CommandHarness.withResource { emulator, run async throws in
            let login = try await run(["login", emulator.resource] + options)
            #expect(login.status == 0, "\(login.standardError)")
            let words = "Signing in at \(emulator.origin) for \(emulator.resource), scopes: mcp:basic."
            #expect(login.standardError.contains(words) == isNamed, "\(login.standardError)")
        }
    }

    @Test(arguments: [
        ["login", "work"], ["token", "work"], ["login", "--scope", "a"], ["logout", "--resource", "https://a.example"],
        ["token", "https://a.example", "--account", "x"], ["token", "https://a.example", "--scope", "x"],
        ["logout", "https://a.example", "--browser"], ["login", "https://a.example", "--device"], ["mcp", "connect"],
        ["curl"],
        ["dev-idp", "--scenario", "27"], ["dev-idp", "--resource", "--scenario", "nonsense"],
        ["client-metadata", "https://a.example/"],
    ]) func rejectsInvalidArgumentsAndOptionsWithoutEffect(_ arguments: [String]) async throws {
        try await CommandHarness.withResource { _, run async throws in
            let outcome = try await run(arguments)
            #expect(outcome.status == 2, "\(outcome.standardError)")
            #expect(outcome.output.isEmpty)
        }
    }
}
