import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import Testing

/// `authflow exec`, which passes a token to another program.
@Suite struct ExecCommandTests {
    private static let program = CommandHarness.folder.appendingPathComponent("authflow").path

    /// Signs alice in, and runs `body` with the directory of the configuration and a function that runs a shell script with a token.
    private func signedIn(
        _ changes: [String: String?] = [:],
        _ body: (
            _ emulator: OIDCEmulator,
            _ folder: String,
            _ exec: (_ options: [String], _ script: String, _ variables: [String: String]) async throws ->
                CommandHarness.Outcome
        ) async throws -> Void
    ) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, changes)) {
                path,
                folder in
                let environment = ["PASSWORD": "wonderland", "XDG_DATA_HOME": "\(folder)/data"]
                let login = try await CommandHarness.run(["login", "--config", path], environment: environment)
                try #require(login.status == 0, "\(login.standardError)")
                try await body(emulator, folder) { options, script, variables in
                    try await CommandHarness.run(
                        ["exec", "--config", path] + options + ["--", "sh", "-c", script],
                        environment: environment.merging(variables) { $1 },
                        folder: folder
                    )
                }
            }
        }
    }

    @Test(arguments: [[], ["--descriptor", "3"], ["--file", "F"]] as [[String]])
    func aDPoPBoundTokenIsNotPassedToAProgram(_ options: [String]) async throws {
        try await signedIn(["dpop": "true"]) { _, _, exec in
            let outcome = try await exec(options, "echo started", [:])
            #expect(outcome.status == 1 && outcome.output.isEmpty)
            #expect(outcome.standardError.contains("bound to a key (DPoP)"), "\(outcome.standardError)")
        }
    }

    /// File names and variables may contain any bytes except NUL.
    @Test(arguments: ["", "--file F"])
    func argumentsAndVariablesThatAreNotUTF8ReachTheProgramUnchanged(_ options: String) async throws {
        try await signedIn { _, _, exec in
            let script = #"""
                X=$(printf '\350') "$TOOL" exec --config authflow.json \#(options) -- \
                  sh -c 'printf "%s%s" "$0" "$X" | od -An -tx1' "$(printf '\351')"
                """#
            let outcome = try await exec([], script, ["TOOL": Self.program])
            #expect(outcome.output == " e9 e8\n", "\(outcome.standardError)")
        }
    }

    /// A write beyond the capacity of the pipe would block, because no program reads from the pipe yet.
    @Test func aTokenOfMoreThan16KiBIsNotWrittenToADescriptor() async throws {
        try await EmulatorServer.run {
            let emulator = try OIDCEmulator(issuer: $0)
            emulator.fault = .tokenResponse(.member("access_token", .string(String(repeating: "t", count: 20_000))))
            return emulator
        } _: { emulator in
            // Without an ID Token, which contains a hash of the access token.
            let profile = CommandHarness.profile(emulator.issuer, ["scopes": #"["profile"]"#])
            try await CommandHarness.withConfiguration(profile) { path, _ in
                let environment = ["PASSWORD": "wonderland"]
                let login = try await CommandHarness.run(["login", "--config", path], environment: environment)
                try #require(login.status == 0, "\(login.standardError)")
                for (options, status, output) in [(["--descriptor", "3"], 8, ""), ([], 0, "20000\n")]
                    as [([String], Int32, String)]
                {
                    let outcome = try await CommandHarness.run(
                        ["exec", "--config", path] + options + ["--", "sh", "-c", "echo ${#ACCESS_TOKEN}"]
                    )
                    #expect(outcome.status == status && outcome.output == output, "\(outcome.standardError)")
                    #expect(outcome.standardError.contains("larger than 16 KiB") == (status == 8))
                }
            }
        }
    }

    @Test func reportsADescriptorBeyondTheLimitOnOpenFiles() async throws {
        try await signedIn { _, folder, _ in
            let script = #"ulimit -n 256; exec "$0" exec --config authflow.json --descriptor 1023 -- echo started"#
            let outcome = try await CommandHarness.run(
                ["-c", script, Self.program],
                program: "/bin/sh",
                folder: folder
            )
            #expect(outcome.status == 8 && outcome.output.isEmpty)
            #expect(outcome.standardError.contains("1023 could not be opened"), "\(outcome.standardError)")
        }
    }

    /// The tool may have been started with a file at the descriptor that passes the token.
    @Test func theConfigurationIsReadFromADescriptorBeforeTheTokenReplacesIt() async throws {
        // The directory of a relative path would be the directory of the descriptor.
        try await signedIn(["store": nil]) { _, folder, exec in
            let token = try await exec([], "echo $ACCESS_TOKEN", [:])
            let script =
                #"exec "$0" exec --config /dev/fd/3 --descriptor 3 -- sh -c 'cat <&3' 3<authflow.json"#
            let outcome = try await CommandHarness.run(
                ["-c", script, Self.program],
                program: "/bin/sh",
                environment: ["XDG_DATA_HOME": "\(folder)/data"],
                folder: folder
            )
            #expect(outcome.status == 0 && outcome.output == token.output, "\(outcome.standardError)")
            #expect(token.output.count > 20)
        }
    }

    #if os(Linux)
    /// systemd starts services with SIGPIPE ignored, and shells start background jobs with SIGINT and SIGQUIT ignored.
    @Test(arguments: ["", "--file F"], ["HUP INT PIPE QUIT TERM USR1", "PIPE", "INT QUIT", "TSTP"])
    func theProgramIgnoresTheSignalsThatWereIgnoredWhenTheToolStarted(_ options: String, _ signals: String) async throws
    {
        try await signedIn { _, _, exec in
            let script = #"""
                trap '' \#(signals)
                grep SigIgn /proc/self/status
                exec "$TOOL" exec --config authflow.json \#(options) -- grep SigIgn /proc/self/status
                """#
            let outcome = try await exec([], script, ["TOOL": Self.program])
            let lines = outcome.output.split(separator: "\n")
            try #require(outcome.status == 0 && lines.count == 2, "\(outcome.standardError)")
            // Without signals 32 and above: 32 and 33 belong to the C library, which ignores 33 in a new process.
            let masks = lines.map { UInt64($0.suffix(16), radix: 16).map { $0 & 0x7FFF_FFFF } }
            #expect(masks[0] != nil && masks[0] == masks[1])
        }
    }

    /// A process manager sends the signal only to the tool, while the terminal sends it to the program, too.
    @Test(arguments: ["INT", "QUIT", "TERM"]) func aSignalThatAProcessSendsOnlyToTheToolReachesTheProgram(
        _ name: String
    )
        async throws
    {
        try await signedIn { _, _, exec in
            // Without the signal, the program exits with status 0 after ten seconds.
            let script = #"""
                exec env --default-signal=\#(name) "$TOOL" exec --config authflow.json --file F -- sh -c '
                  trap "exit 7" \#(name)
                  kill -\#(name) $PPID
                  count=0
                  while [ $count -lt 100 ]; do sleep 0.1; count=$((count + 1)); done'
                """#
            let outcome = try await exec([], script, ["TOOL": Self.program])
            #expect(outcome.status == 7, "\(outcome.standardError)")
        }
    }

    /// Daemons that never wait for their child processes ignore SIGCHLD, and the programs that they start inherit this.
    @Test func exitStatusesAreReadEvenIfSIGCHLDWasIgnoredWhenTheToolStarted() async throws {
        try await signedIn { _, _, exec in
            let script = #"""
                exec env --ignore-signal=CHLD "$TOOL" exec --config authflow.json --file F -- sh -c 'exit 3'
                """#
            let outcome = try await exec([], script, ["TOOL": Self.program])
            #expect(outcome.status == 3, "\(outcome.standardError)")
        }
    }

    @Test func aSecretIsReadFromAProgramEvenIfSIGCHLDWasIgnoredWhenTheToolStarted() async throws {
        let configuration = #"""
            {"profiles": {"work": {
                "provider": "oidc", "issuer": "http://127.0.0.1:1", "client_id": "c", "flow": "client_credentials", "store": "memory",
                "client_authentication": "client_secret_basic", "client_secret": {"command": ["echo", "secret"]}
            }}}
            """#
        try await CommandHarness.withConfiguration(configuration) { path, _ in
            let outcome = try await CommandHarness.run(
                ["--ignore-signal=CHLD", Self.program, "token", "--config", path],
                program: "/usr/bin/env"
            )
            // The secret was read, but there is no provider.
            #expect(outcome.status == 7, "\(outcome.standardError)")
        }
    }
    #endif

    /// XDG Base Directory Specification: a relative path must be ignored.
    @Test func theTokenFileIsOnlyInARuntimeDirectoryThatOtherUsersCannotChange() async throws {
        try await signedIn { _, folder, exec in
            for (name, mode) in [("private", 0o700), ("shared", 0o777), ("locked", 0o500)] {
                try makeDirectory("\(folder)/\(name)", mode)
            }
            // A directory of this user that is not writable. Root can write to all of its directories except those in /proc/sys.
            let locked = geteuid() == 0 ? "/proc/sys" : "\(folder)/locked"
            for (directory, expected) in [
                ("\(folder)/private", "\(folder)/private"), ("\(folder)/shared", "/tmp"), ("private", "/tmp"),
                (locked, "/tmp"),
            ] {
                let script = #"dirname "$(dirname "$F")""#
                let outcome = try await exec(["--file", "F"], script, ["XDG_RUNTIME_DIR": directory])
                #expect(outcome.output == "\(expected)\n", "\(outcome.standardError)")
            }
        }
    }

    @Test(arguments: [
        (#"rm "$F"; mkdir "$F""#, true), (#"rm -r "$XDG_RUNTIME_DIR"; touch "$XDG_RUNTIME_DIR""#, false),
    ]) func reportsATokenFileOnlyIfItRemains(_ script: String, _ remains: Bool) async throws {
        try await signedIn { _, folder, exec in
            try makeDirectory("\(folder)/runtime", 0o700)
            let outcome = try await exec(["--file", "F"], script, ["XDG_RUNTIME_DIR": "\(folder)/runtime"])
            #expect(outcome.status == 0)
            #expect(
                outcome.standardError.contains("could not be removed") == remains,
                "\(outcome.standardError)"
            )
        }
    }

    #if os(Linux)
    /// The program of a killed tool may continue to run, and the next run must not remove its token file.
    @Test func theTokenFileOfAKilledToolIsRemovedAfterItsProgramHasExited() async throws {
        try await signedIn { _, folder, exec in
            let runtime = "\(folder)/runtime"
            try makeDirectory(runtime, 0o700)
            let variables = ["XDG_RUNTIME_DIR": runtime, "TOOL": Self.program]
            let script = #"""
                kill -KILL $PPID
                "$TOOL" exec --config authflow.json --file G -- true
                cat "$F"
                """#
            let killed = try await exec(["--file", "F"], script, variables)
            #expect(killed.status == -SIGKILL && killed.output.count > 20, "\(killed.standardError)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: runtime).count == 1)
            let next = try await exec(["--file", "F"], "true", variables)
            #expect(next.status == 0, "\(next.standardError)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: runtime).isEmpty)
        }
    }
    #endif

    private func makeDirectory(_ path: String, _ mode: Int) throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
    }

    /// The file may be executed, but the system does not recognize its format.
    @Test func aProgramThatCannotBeStartedIsReportedAndLeavesNoTokenFile() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, folder in
                let environment = ["PASSWORD": "wonderland", "XDG_RUNTIME_DIR": "\(folder)/run"]
                try FileManager.default.createDirectory(
                    atPath: "\(folder)/run",
                    withIntermediateDirectories: false,
                    attributes: [.posixPermissions: 0o700]
                )
                let program = "\(folder)/program"
                try Data("not a program\n".utf8).write(to: URL(fileURLWithPath: program))
                try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: program)
                let login = try await CommandHarness.run(["login", "--config", path], environment: environment)
                #expect(login.status == 0, "\(login.standardError)")
                for options in [[], ["--file", "TOKEN_FILE"]] {
                    let outcome = try await CommandHarness.run(
                        ["exec", "--config", path] + options + ["--", program],
                        environment: environment
                    )
                    #expect(outcome.status == 2, "\(options): \(outcome.standardError)")
                    #expect(
                        outcome.standardError.contains("\(program) could not be started: Exec format error."),
                        "\(outcome.standardError)"
                    )
                    #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder)/run").isEmpty)
                }
            }
        }
    }
}
