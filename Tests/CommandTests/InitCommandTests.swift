import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Testing

/// Configurations that the tool writes, and sign-in without a configuration.
@Suite struct InitCommandTests {
    /// Runs `body` with a provider, a separate directory, and a function that runs the tool there.
    /// - Parameter realm: The path of the issuer.
    private func newcomer(
        at realm: String = "",
        _ body: (
            _ emulator: OIDCEmulator,
            _ folder: String,
            _ tool: (_ arguments: [String]) async throws -> CommandHarness.Outcome
        ) async throws -> Void
    ) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0 + realm)
        } _: { emulator in
            let folder = NSTemporaryDirectory() + "authflow-init-\(UUID().uuidString)"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(atPath: folder) }
            try await body(emulator, folder) { arguments in
                try await CommandHarness.run(
                    arguments,
                    environment: ["HOME": folder, "PASSWORD": "wonderland"],
                    folder: folder
                )
            }
        }
    }

    @Test func writesAConfigurationThatIsImmediatelyUsable() async throws {
        try await newcomer { emulator, folder, tool in
            let written = try await tool([
                "init", "--issuer", emulator.issuer, "--client-id", "authflow-demo", "--scope", "openid", "--no-login",
            ])
            #expect(written.status == 0, "\(written.standardError)")
            #expect(written.output == "\(folder)/.config/authflow/config.json\n")
            let check = try await tool(["config", "check"])
            #expect(check.status == 0, "\(check.standardError)")
            let token = try await tool(["token"])
            #expect(token.status == 4 && token.standardError.contains("authflow login --profile default"))
        }
    }

    /// Many users store their configuration files in one repository, and replace the programs' configuration directories with links to it.
    @Test func theConfigurationDirectoryMayBeASymbolicLink() async throws {
        try await newcomer { emulator, folder, tool in
            for name in ["dotfiles", ".config"] {
                try FileManager.default.createDirectory(atPath: "\(folder)/\(name)", withIntermediateDirectories: false)
            }
            try FileManager.default.createSymbolicLink(
                atPath: "\(folder)/.config/authflow",
                withDestinationPath: "\(folder)/dotfiles"
            )
            for name in ["first", "second"] {
                let written = try await tool([
                    "init", "--issuer", emulator.issuer, "--client-id", "authflow-demo", "-p", name, "--no-login",
                ])
                #expect(written.status == 0, "\(written.standardError)")
                #expect(
                    written.standardError.hasSuffix("authflow login --profile \(name)\n"),
                    "\(written.standardError)"
                )
                let check = try await tool(["config", "check"])
                #expect(check.status == 0, "\(check.standardError)")
            }
            #expect(FileManager.default.fileExists(atPath: "\(folder)/dotfiles/config.json"))
        }
    }

    @Test func theConfigurationDirectoryMustNotBeWritableByOtherUsers() async throws {
        try await newcomer { emulator, folder, tool in
            try FileManager.default.createDirectory(
                atPath: "\(folder)/.config/authflow",
                withIntermediateDirectories: true
            )
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o777],
                ofItemAtPath: "\(folder)/.config/authflow"
            )
            let written = try await tool(["init", "--issuer", emulator.issuer, "--register", "--no-login"])
            #expect(written.status == 2 && written.standardError.contains("Other users can write to"), "\(written)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder)/.config/authflow").isEmpty)
        }
    }

    /// The file in the working directory takes precedence, and may contain another profile with the same name.
    @Test func theSuggestedSignInUsesTheWrittenFileDespiteAFileInTheWorkingDirectory() async throws {
        try await newcomer { emulator, folder, tool in
            try Data("{}".utf8).write(to: URL(fileURLWithPath: "\(folder)/authflow.json"))
            let written = try await tool([
                "init", "--issuer", emulator.issuer, "--client-id", "authflow-demo", "--no-login",
            ])
            #expect(written.status == 0, "\(written.standardError)")
            let command = "authflow login --config \(folder)/.config/authflow/config.json --profile default\n"
            #expect(written.standardError.hasSuffix(command), "\(written.standardError)")
        }
    }

    /// A secret manager replaces the file that the link names when it updates the secret.
    @Test func theProfileContainsTheSymbolicLinkToTheClientSecretThatTheUserHasNamed() async throws {
        try await newcomer { emulator, folder, tool in
            try Data("secret".utf8).write(to: URL(fileURLWithPath: "\(folder)/secret-1"))
            try FileManager.default.createSymbolicLink(
                atPath: "\(folder)/secret",
                withDestinationPath: "\(folder)/secret-1"
            )
            let written = try await tool([
                "init", "--issuer", emulator.issuer, "--client-id", "c", "--client-secret-file", "secret", "--no-login",
            ])
            #expect(written.status == 0, "\(written.standardError)")
            let path = "\(folder)/.config/authflow/config.json"
            let json = try JSON(parsing: Array(Data(contentsOf: URL(fileURLWithPath: path))))
            #expect(json["profiles"]?["default"]?["client_secret"]?["file"]?.string == "\(folder)/secret")
        }
    }

    /// The profile would name a pipe that exists only while the command runs.
    @Test func aClientSecretFileMustBeARegularFile() async throws {
        try await newcomer { emulator, folder, _ in
            let program = CommandHarness.folder.appendingPathComponent("authflow").path
            let outcome = try await CommandHarness.run(
                [
                    "bash", "-c", #"exec "$0" "$@" --client-secret-file <(echo secret)"#, program,
                    "init", "--issuer", emulator.issuer, "--client-id", "c", "--no-login",
                ],
                program: "/usr/bin/env",
                environment: ["HOME": folder]
            )
            #expect(outcome.status == 2, "\(outcome)")
            #expect(outcome.standardError.contains("is not a regular file"), "\(outcome)")
        }
    }

    @Test func commandsThatWriteOneFileAtTheSameTimeLoseNoProfile() async throws {
        try await newcomer { emulator, folder, tool in
            let names = (0..<4).map { "p\($0)" }
            try await withThrowingTaskGroup(of: Int32.self) { [issuer = emulator.issuer] group in
                for name in names {
                    group.addTask {
                        try await CommandHarness.run(
                            [
                                "init", "--issuer", issuer, "--client-id", "c", "--output", "all.json", "-p", name,
                                "--no-login",
                            ],
                            environment: ["HOME": folder],
                            folder: folder
                        ).status
                    }
                }
                for try await status in group { #expect(status == 0) }
            }
            let json = try JSON(parsing: Array(Data(contentsOf: URL(fileURLWithPath: "\(folder)/all.json"))))
            #expect(json["profiles"]?.object?.keys.sorted() == names)
        }
    }

    /// The completion scripts of shells expand the names.
    @Test func onlyHarmlessProfileNamesAreCompleted() async throws {
        try await newcomer { _, folder, tool in
            let profile = #"{"provider": "oidc", "issuer": "https://a.example", "client_id": "a"}"#
            let names = ["$(touch pwned)", "`x`", "a b", "work-1", "a@b.example"].map { #""\#($0)": \#(profile)"# }
            try Data(#"{"profiles": {\#(names.joined(separator: ","))}}"#.utf8)
                .write(to: URL(fileURLWithPath: "\(folder)/all.json"))
            let completed = try await tool([
                "---completion", "status", "--", "--profile", "4", "0", "authflow", "status", "--config", "all.json",
                "",
            ])
            #expect(completed.output.split(separator: "\n").sorted() == ["a@b.example", "work-1"], "\(completed)")
        }
    }

    @Test(arguments: [["status", "--config"], ["init", "--output"], ["config", "check"], ["keys", "jwks"]])
    func pathsAreCompletedInBash(_ words: [String]) async throws {
        try await newcomer { _, folder, tool in
            try Data().write(to: URL(fileURLWithPath: "\(folder)/all.json"))
            let script = try await tool(["--generate-completion-script", "bash"]).output
            try Data(script.utf8).write(to: URL(fileURLWithPath: "\(folder)/completions"))
            // Bash sets these variables and passes these arguments when the user presses Tab.
            let completion = """
                source completions
                COMP_WORDS=(authflow "$@" a) COMP_CWORD=$(($# + 1)) COMP_LINE="authflow $* a"
                COMP_POINT=${#COMP_LINE}
                _authflow authflow a "${@: -1}"
                printf '%s\\n' "${COMPREPLY[@]}"
                """
            let outcome = try await CommandHarness.run(
                ["bash", "-c", completion, "bash"] + words,
                program: "/usr/bin/env",
                folder: folder
            )
            #expect(outcome.output == "all.json\n", "\(outcome)")
        }
    }

    /// Bash separates the option and its value, and no shell expands the words.
    @Test(arguments: [["--config=all.json"], ["--config", "=", "all.json"], ["-c", "~/all.json"]])
    func profileNamesOfTheSpecifiedFileAreCompleted(_ option: [String]) async throws {
        try await newcomer { _, folder, tool in
            let text = #"{"profiles": {"work": {"provider": "oidc", "issuer": "https://a.example", "client_id": "a"}}}"#
            try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder)/all.json"))
            let line = ["authflow", "status"] + option + ["--profile", ""]
            let completed = try await tool(
                ["---completion", "status", "--", "--profile", "\(line.count - 1)", "0"] + line
            )
            #expect(completed.output.split(separator: "\n") == ["work"], "\(completed)")
        }
    }

    @Test func aProfileNameWithALineBreakIsRejected() async throws {
        try await newcomer { _, folder, tool in
            let text =
                #"{"profiles": {"a\n  ok  b": {"provider": "oidc", "issuer": "https://a.example", "client_id": "a"}}}"#
            try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder)/all.json"))
            let check = try await tool(["config", "check", "--config", "all.json"])
            #expect(check.status == 2)
            #expect(check.standardError.contains("control character"), "\(check.standardError)")
        }
    }

    /// With a relative path, the working directory would determine which file is used, although the file need not be trusted
    /// first.
    @Test func aRelativePathInTheEnvironmentIsRejected() async throws {
        try await newcomer { emulator, folder, tool in
            _ = try await tool([
                "init", "--issuer", emulator.issuer, "--client-id", "c", "--output", "c.json", "--no-login",
            ])
            for (path, status) in [("c.json", 2), ("\(folder)/c.json", 0)] as [(String, Int32)] {
                let check = try await CommandHarness.run(
                    ["config", "check"],
                    environment: ["HOME": folder, "AUTHFLOW_CONFIG": path],
                    folder: folder
                )
                #expect(check.status == status, "\(check.standardError)")
            }
        }
    }

    @Test func anInvalidScopeIsRejectedBeforeTheRegistration() async throws {
        try await newcomer { emulator, _, tool in
            for scope in ["a b", ""] {
                let registered = try await tool(["register", emulator.issuer, "--output", "r.json", "--scope", scope])
                #expect(registered.status == 2, "\(registered.standardError)")
            }
            #expect(emulator.requests.isEmpty)
        }
    }

    @Test func addsAProfileWithoutChangingTheRestOfTheFile() async throws {
        try await newcomer { emulator, folder, tool in
            let text =
                "{  \"profiles\": { \"old\" : {\"provider\":\"oidc\", \"issuer\":\"https://a.example\",\n \"client_id\": \"a\"} } }"
            try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder)/mine.json"))
            let arguments = [
                "init", "--issuer", emulator.issuer, "--client-id", "b", "--output", "mine.json", "--profile",
            ]
            let written = try await tool(arguments + ["new \"one\""])
            #expect(written.status == 0, "\(written.standardError)")
            let changed = try String(contentsOfFile: "\(folder)/mine.json", encoding: .utf8)
            #expect(
                changed.hasSuffix(
                    " \"old\" : {\"provider\":\"oidc\", \"issuer\":\"https://a.example\",\n \"client_id\": \"a\"} } }"
                )
            )
            let json = try JSON(parsing: Array(changed.utf8))
            #expect(
                json["profiles"]?["new \"one\""]?["client_id"] == "b" && json["profiles"]?["old"]?["client_id"] == "a"
            )
            let again = try await tool(arguments + ["old"])
            #expect(again.status == 2 && again.standardError.contains("already has a profile \"old\""))
            #expect(try String(contentsOfFile: "\(folder)/mine.json", encoding: .utf8) == changed)
        }
    }

    /// A service may read the file with another account.
    @Test(arguments: [0o644, 0o640, 0o600])
    func addingAProfilePreservesThePermissionsOfTheFile(_ mode: Int) async throws {
        try await newcomer { emulator, folder, tool in
            let path = "\(folder)/mine.json"
            try Data(CommandHarness.profile("https://a.example").utf8).write(to: URL(fileURLWithPath: path))
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
            let written = try await tool([
                "init", "--issuer", emulator.issuer, "--client-id", "b", "--output", path, "--profile", "new",
            ])
            #expect(written.status == 0, "\(written.standardError)")
            let attributes = try FileManager.default.attributesOfItem(atPath: path)
            #expect(attributes[.posixPermissions] as? Int == mode)
        }
    }

    @Test func registersAClientThroughDynamicRegistration() async throws {
        try await newcomer { emulator, folder, tool in
            let written = try await tool(["init", "--issuer", emulator.issuer, "--register", "--no-login"])
            #expect(written.status == 0, "\(written.standardError)")
            let path = "\(folder)/.config/authflow/config.json"
            let json = try JSON(parsing: Array(try Data(contentsOf: URL(fileURLWithPath: path))))
            let identifier = try #require(json["profiles"]?["default"]?["client_id"]?.string)
            #expect(identifier.hasPrefix("client-"))
            let attributes = try FileManager.default.attributesOfItem(atPath: "\(path).default.registration")
            #expect(attributes[.posixPermissions] as? Int == 0o600)
        }
    }

    /// A server may reject a request for scopes that the client has not registered, as Keycloak does.
    @Test func registersAClientWithTheScopesOfThePreset() async throws {
        try await newcomer(at: "/realms/dev") { emulator, folder, tool in
            let written = try await tool([
                "init", "--preset", "keycloak", "--set", "url=\(emulator.origins[0])", "--set", "realm=dev",
                "--register",
                "--no-login",
            ])
            #expect(written.status == 0, "\(written.standardError)")
            let path = "\(folder)/.config/authflow/config.json.default.registration"
            let response = try JSON(parsing: Array(try Data(contentsOf: URL(fileURLWithPath: path))))
            #expect(response["scope"] == "openid profile email")
        }
    }

    /// The registration access token in the file is needed to change or remove the earlier registration.
    @Test func anEarlierRegistrationIsNotOverwritten() async throws {
        try await newcomer { emulator, folder, tool in
            let path = "\(folder)/all.json.default.registration"
            try Data("old".utf8).write(to: URL(fileURLWithPath: path))
            let outcome = try await tool([
                "init", "--issuer", emulator.issuer, "--register", "--output", "all.json", "--no-login",
            ])
            #expect(outcome.status == 2, "\(outcome.standardError)")
            #expect(outcome.standardError.contains("default.registration already exists"))
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "old")
            #expect(!emulator.requests.contains("POST /register"))
        }
    }

    /// The provider sends its response only once, so the client would remain registered without a record on this machine.
    @Test(arguments: [["init", "--register", "--no-login", "--issuer"], ["register"]])
    func noClientIsRegisteredIfTheDiskIsFull(_ command: [String]) async throws {
        try await newcomer { emulator, folder, _ in
            // Simulates a full disk: the file size limit is 4 KiB, and SIGXFSZ is ignored. Empty files can still be created.
            let outcome = try await CommandHarness.run(
                [
                    "-c", #"trap '' XFSZ; ulimit -f 8; exec "$0" "$@""#,
                    CommandHarness.folder.appendingPathComponent("authflow").path,
                ] + command + [emulator.issuer, "--output", "new.json"],
                program: "/bin/sh",
                environment: ["HOME": folder],
                folder: folder
            )
            #expect(outcome.status == 8 && outcome.standardError.contains("cannot be written"), "\(outcome)")
            #expect(!emulator.requests.contains("POST /register"))
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder).isEmpty)
        }
    }

    /// The provider sends its response only once.
    @Test("no client is registered if the configuration file is a symbolic link to a missing file")
    func noClientIsRegisteredIfTheConfigurationFileIsALinkToAMissingFile() async throws {
        try await newcomer { emulator, folder, tool in
            try FileManager.default.createSymbolicLink(
                atPath: "\(folder)/new.json",
                withDestinationPath: "missing.json"
            )
            let outcome = try await tool([
                "init", "--issuer", emulator.issuer, "--register", "--output", "new.json", "--no-login",
            ])
            #expect(outcome.status == 8, "\(outcome)")
            #expect(outcome.standardError.contains("symbolic link to a file that does not exist"), "\(outcome)")
            #expect(!emulator.requests.contains("POST /register"))
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["new.json"])
        }
    }

    /// A relative path would be a path in the root directory.
    @Test(
        "no file is written if the working directory was removed",
        arguments: [["init", "--register", "--no-login", "--issuer"], ["register"]]
    ) func noFileIsWrittenIfTheWorkingDirectoryWasRemoved(_ command: [String]) async throws {
        try await newcomer { emulator, folder, _ in
            let name = "authflow-\(UUID().uuidString).json"
            let outcome = try await CommandHarness.run(
                [
                    "-c", #"mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@""#,
                    CommandHarness.folder.appendingPathComponent("authflow").path,
                ] + command + [emulator.issuer, "--output", name],
                program: "/bin/sh",
                environment: ["HOME": folder],
                folder: folder
            )
            let written = ["", ".default.registration", ".registration"].map { "/\(name)\($0)" }
                .filter { FileManager.default.fileExists(atPath: $0) }
            for path in written { try FileManager.default.removeItem(atPath: path) }
            #expect(written.isEmpty)
            #expect(outcome.status == 8, "\(outcome)")
            #expect(outcome.standardError.contains("the working directory was removed"), "\(outcome)")
            #expect(!emulator.requests.contains("POST /register"))
        }
    }

    /// The client remains registered at the provider. Here, another command writes a profile with the same name during the registration.
    @Test(arguments: [["init", "--register", "--no-login", "--issuer"], ["register"]])
    func theErrorNamesTheRegisteredClientIfTheProfileCannotBeWritten(_ command: [String]) async throws {
        try await newcomer { emulator, folder, tool in
            emulator.customResponse = { exchange in
                if exchange.request.path == "/register" {
                    let file = URL(fileURLWithPath: "\(folder)/new.json")
                    try? Data(#"{"profiles": {"default": {}}}"#.utf8).write(to: file)
                }
                return exchange.response
            }
            let outcome = try await tool(command + [emulator.issuer, "--output", "new.json"])
            #expect(outcome.status == 8 && outcome.standardError.contains("already has a profile"), "\(outcome)")
            #expect(outcome.standardError.contains("The client client-"), "\(outcome.standardError)")
            // The response was stored, so the client can be used and removed.
            let words = ".registration, but the profile could not be written"
            #expect(outcome.standardError.contains(words), "\(outcome.standardError)")
            let names = try FileManager.default.contentsOfDirectory(atPath: folder)
            #expect(names.contains { $0.hasSuffix(".registration") })
        }
    }

    /// A command that was killed during the request leaves an empty file.
    @Test func anEmptyRegistrationIsReportedAsInterrupted() async throws {
        try await newcomer { emulator, folder, tool in
            let path = "\(folder)/all.json.default.registration"
            try Data().write(to: URL(fileURLWithPath: path))
            let arguments = ["init", "--issuer", emulator.issuer, "--register", "--output", "all.json", "--no-login"]
            let outcome = try await tool(arguments)
            #expect(outcome.status == 2, "\(outcome.standardError)")
            #expect(outcome.standardError.contains("remove the file, and try again"), "\(outcome.standardError)")
            try FileManager.default.removeItem(atPath: path)
            #expect(try await tool(arguments).status == 0)
        }
    }

    /// Otherwise, the secret would be silently ignored.
    @Test func noClientIsRegisteredInsteadOfTheClientWhoseSecretIsGiven() async throws {
        try await newcomer { emulator, folder, _ in
            try Data("secret".utf8).write(to: URL(fileURLWithPath: "\(folder)/secret"))
            // Presses Enter at the first prompt, for the client ID.
            let script = """
                import os, pty, sys
                process, terminal = pty.fork()
                if process == 0:
                    os.execv(sys.argv[1], sys.argv[1:])
                os.write(terminal, b"\\n")
                try:
                    while data := os.read(terminal, 1024):
                        sys.stdout.buffer.write(data)
                except OSError:
                    pass
                sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
                """
            let program = CommandHarness.folder.appendingPathComponent("authflow").path
            let outcome = try await CommandHarness.run(
                ["-c", script, program, "init", "--issuer", emulator.issuer, "--client-secret-file", "secret"],
                program: "/usr/bin/python3",
                environment: ["HOME": folder],
                folder: folder
            )
            #expect(outcome.status == 2 && outcome.output.contains("A client ID is required"), "\(outcome.output)")
            #expect(!emulator.requests.contains("POST /register"))
        }
    }

    /// The steps of a preset describe a public client.
    @Test(arguments: [true, false]) func theStepsOfAPresetMentionTheClientSecretThatIsGiven(_ isGiven: Bool)
        async throws
    {
        try await newcomer(at: "/realms/dev") { emulator, folder, tool in
            try Data("secret".utf8).write(to: URL(fileURLWithPath: "\(folder)/secret"))
            let preset = ["--preset", "keycloak", "--set", "url=\(emulator.origins[0])", "--set", "realm=dev"]
            let outcome = try await tool(["init"] + preset + (isGiven ? ["--client-secret-file", "secret"] : []))
            // The steps precede the prompt for the client ID.
            #expect(outcome.status == 2 && outcome.standardError.contains("Specify --client-id"), "\(outcome)")
            #expect(outcome.standardError.contains("Create an OpenID Connect client"), "\(outcome)")
            #expect(outcome.standardError.contains("register a confidential client") == isGiven, "\(outcome)")
        }
    }

    @Test func requiresAClientIDIfTheProviderDoesNotRegisterClients() async throws {
        try await newcomer { emulator, folder, tool in
            emulator.fault = .metadata(.member("registration_endpoint", nil))
            let outcome = try await tool(["init", "--issuer", emulator.issuer, "--register", "--no-login"])
            #expect(outcome.status == 1, "\(outcome.standardError)")
            #expect(
                outcome.standardError.contains("does not support client registration. Specify --client-id"),
                "\(outcome.standardError)"
            )
            #expect(!FileManager.default.fileExists(atPath: "\(folder)/.config/authflow/config.json"))
        }
    }

    /// A later version of the preset may change its default values and scopes.
    @Test func writesNeitherTheDefaultValuesNorTheScopesOfAPreset() async throws {
        try await newcomer(at: "/oauth2/realms/root/realms/alpha") { emulator, folder, tool in
            let url = emulator.origins[0]
            let written = try await tool([
                "init", "--preset", "forgerock", "--set", "url=\(url)", "--client-id", "c", "--no-login",
            ])
            #expect(written.status == 0, "\(written.standardError)")
            let path = "\(folder)/.config/authflow/config.json"
            let json = try JSON(parsing: Array(Data(contentsOf: URL(fileURLWithPath: path))))
            let expected: JSON = ["preset": ["name": "forgerock", "url": .string(url)], "client_id": "c"]
            #expect(json["profiles"]?["default"] == expected)
        }
    }

    @Test func aSignInFailsIfItsTokensCannotBeStored() async throws {
        try await EmulatorEnvironment.with(.sockets) { provider in
            try await CommandHarness.withConfiguration("{}") { _, folder in
                try FileManager.default.createDirectory(atPath: "\(folder)/data", withIntermediateDirectories: false)
                provider.emulator.customResponse = { exchange in
                    if exchange.request.path == "/token" {
                        // No directory can be created in place of this file, even by root.
                        let store = "\(folder)/data/authflow"
                        try? FileManager.default.removeItem(atPath: store)
                        try? Data().write(to: URL(fileURLWithPath: store))
                    }
                    return exchange.response
                }
                let outcome = try await CommandHarness.signIn(
                    [
                        "init", "--issuer", provider.emulator.issuer, "--client-id", "authflow-demo", "--output",
                        "\(folder)/new.json", "--login",
                    ],
                    at: provider,
                    variables: ["XDG_DATA_HOME": "\(folder)/data"]
                ) { redirect in
                    // The command may exit before it has sent the page.
                    _ = try? await SystemTransport().send(TransportRequest(.get, Endpoint(redirect)))
                }
                #expect(outcome.status == 8, "\(outcome.standardError)")
                #expect(outcome.output.contains("Signed in as Alice Example"))
                #expect(outcome.standardError.contains("data/authflow cannot be created"), "\(outcome.standardError)")
            }
        }
    }

    @Test(arguments: [
        ("no client ID and no terminal", ["--issuer", "ISSUER"], 2, "--client-id"),
        ("no provider and no terminal", [], 2, "--preset or --issuer"),
        ("an unknown preset", ["--preset", "nope"], 2, "gitlab"),
        ("a missing value", ["--preset", "auth0", "--client-id", "a"], 2, "--set domain"),
        ("two missing values", ["--preset", "keycloak", "--client-id", "a"], 2, "--set url=... --set realm=..."),
        (
            "a value that is not a host", ["--preset", "gitlab", "--set", "host=a/b", "--client-id", "a"], 2,
            "not a valid host"
        ),
        (
            "a scope with a quotation mark", ["--issuer", "ISSUER", "--client-id", "a", "--scope", "a\"b"], 2,
            "--scope takes one scope"
        ),
        ("two providers", ["--preset", "gitlab", "--issuer", "ISSUER"], 2, "--preset and --issuer"),
        ("another address", ["--issuer", "ISSUER/other", "--client-id", "a"], 7, "No metadata document"),
    ]) func rejectsInvalidOptionsWithoutWritingAFile(
        _ name: String,
        _ arguments: [String],
        _ status: Int32,
        _ words: String
    ) async throws {
        try await newcomer { emulator, folder, tool in
            let outcome = try await tool(
                ["init"] + arguments.map { $0.replacing("ISSUER", with: emulator.issuer) }
            )
            #expect(outcome.status == status, "\(outcome.standardError)")
            #expect(outcome.standardError.contains(words), "\(outcome.standardError)")
            #expect(!FileManager.default.fileExists(atPath: "\(folder)/.config/authflow/config.json"))
        }
    }

    /// The name is also part of the names of other files.
    @Test(arguments: ["", String(repeating: "p", count: 61), "a/b", "a\u{1}b"])
    func rejectsAnInvalidProfileNameWithoutWritingAFile(_ name: String) async throws {
        try await newcomer { emulator, folder, tool in
            let outcome = try await tool([
                "init", "--issuer", emulator.issuer, "--client-id", "c", "--no-login", "--profile", name,
            ])
            #expect(
                outcome.status == 2 && outcome.standardError.contains("cannot be the name of a profile"),
                "\(outcome.standardError)"
            )
            #expect(!FileManager.default.fileExists(atPath: "\(folder)/.config/authflow/config.json"))
        }
    }

    /// As a separate word, the parser would parse the value as another option.
    @Test("a suggested command contains a value that begins with a hyphen, and can be run")
    func aSuggestedCommandContainsAValueThatBeginsWithAHyphen() async throws {
        try await newcomer { emulator, folder, tool in
            let written = try await tool([
                "init", "--issuer", emulator.issuer, "--client-id", "authflow-demo", "--profile=-work", "--no-login",
            ])
            #expect(written.standardError.hasSuffix("Sign in: authflow login --profile=-work\n"), "\(written)")
            // A base64url-encoded subject may begin with a hyphen.
            let advice = "Run: authflow login --profile=-work --account=-subject\n"
            for arguments in [["--profile=-work", "--account=-subject"], ["--account=-subject"]] {
                let status = try await tool(["status"] + arguments)
                #expect(status.status == 4 && status.standardError.hasSuffix(advice), "\(status)")
            }
            let untrusted = "\(folder)/-other"
            try FileManager.default.createDirectory(atPath: untrusted, withIntermediateDirectories: false)
            try FileManager.default.copyItem(
                atPath: "\(folder)/.config/authflow/config.json",
                toPath: "\(untrusted)/authflow.json"
            )
            let check = try await tool(["config", "check", "--", "-other/authflow.json"])
            let command = "run: authflow config trust ./-other/authflow.json\n"
            #expect(check.status == 2 && check.standardError.hasSuffix(command), "\(check)")
        }
    }

    @Test func aClientConfiguredByOptionsNeedsNoConfigurationFile() async throws {
        try await newcomer { emulator, _, tool in
            let client = ["--issuer", emulator.issuer, "--client-id", "authflow-demo"]
            let token = try await tool(["token"] + client)
            #expect(token.status == 4)
            #expect(
                token.standardError.contains("authflow login --issuer \(emulator.issuer) --client-id authflow-demo")
            )
            // There is no browser. Without the scope, the suggested command would request other scopes.
            let login = try await tool(["login"] + client + ["--scope", "openid"])
            let advice = "authflow login \(client.joined(separator: " ")) --scope openid --no-browser."
            #expect(login.status == 4 && login.standardError.contains(advice), "\(login.standardError)")
            for wrong in [["--issuer", emulator.issuer], client + ["--profile", "a"], client + ["--config", "a"]] {
                let outcome = try await tool(["login"] + wrong)
                #expect(outcome.status == 2)
            }
        }
    }

    @Test func doctorFixesThePermissionsOfTheConfigurationFile() async throws {
        try await newcomer { emulator, folder, tool in
            let path = "\(folder)/mine.json"
            let text =
                #"{"profiles": {"p": {"provider": "oidc", "issuer": "ISSUER", "client_id": "authflow-demo"}}}"#
                .replacing("ISSUER", with: emulator.issuer)
            try Data(text.utf8).write(to: URL(fileURLWithPath: path))
            try FileManager.default.setAttributes([.posixPermissions: 0o666], ofItemAtPath: path)
            let found = try await tool(["doctor", "--config", path])
            #expect(found.status == 1 && found.output.contains("!!  configuration"))
            let mended = try await tool(["doctor", "--config", path, "--fix"])
            #expect(mended.output.contains("fixed") && !mended.output.contains("!!  configuration"))
            let permissions = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
            #expect(permissions as? Int == 0o644)
            // A client that is configured with options is checked like a client that is configured from a file.
            let client = try await tool(["doctor", "--issuer", emulator.issuer, "--client-id", "authflow-demo"])
            #expect(client.output.contains("ok  provider      \(emulator.issuer)"), "\(client.output)")
        }
    }

    @Test func listsThePresets() async throws {
        try await newcomer { _, _, tool in
            let json = try JSON(parsing: Array(try await tool(["config", "presets", "--json"]).output.utf8))
            #expect(
                json.array?.contains { $0["name"] == "entra" && $0["source"]?.string?.hasPrefix("https://") == true }
                    == true
            )
        }
    }
}
