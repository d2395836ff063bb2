import AuthFlow
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Testing

/// Files that an attacker can place in the tool's working directory, tested with the real tool.
@Suite struct HostileFileTests {
    private static let password = ["PASSWORD": "wonderland"]

    /// Runs `body` with the path of a separate, temporary home directory.
    private func withHome<Return>(_ body: (_ home: String) async throws -> Return) async throws -> Return {
        let home = NSTemporaryDirectory() + "authflow-home-\(UUID().uuidString)"
        try FileManager.default.createDirectory(
            atPath: home,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        defer { try? FileManager.default.removeItem(atPath: home) }
        return try await body(home)
    }

    private func run(
        _ arguments: [String],
        in folder: String,
        home: String,
        environment: [String: String] = HostileFileTests.password
    ) async throws -> CommandHarness.Outcome {
        try await CommandHarness.run(
            arguments,
            environment: environment.merging(["HOME": home]) { own, _ in own },
            folder: folder
        )
    }

    @Test(arguments: ["login", "token", "logout", "status", "userinfo", "doctor"])
    func rejectsAnUntrustedConfigurationFileInTheWorkingDirectory(_ command: String) async throws {
        try await withHome { home in
            // The configuration names a program that a trusted configuration may start.
            let text = CommandHarness.profile(
                "http://127.0.0.1:1",
                ["user_agent": #"{"name": "loopback", "browser": ["/usr/bin/touch", "%s"]}"#]
            )
            try await CommandHarness.withConfiguration(text) { _, folder in
                let outcome = try await run([command], in: folder, home: home)
                #expect(outcome.status == (command == "doctor" ? 1 : 2), "\(outcome.standardError)")
                #expect((outcome.standardError + outcome.output).contains("authflow config trust"))
                #expect((outcome.standardError + outcome.output).contains("authflow.json"))
            }
        }
    }

    @Test func aDamagedTrustRecordDoesNotHideTheOtherTrustedFiles() async throws {
        try await withHome { home in
            try await CommandHarness.withConfiguration(CommandHarness.profile("http://127.0.0.1:1")) { _, folder in
                #expect(try await run(["config", "trust"], in: folder, home: home).status == 0)
                let data = FileTokenStore.defaultDirectory(for: "authflow", environment: ["HOME": home])
                try write("{", to: "\(data)/trusted-configurations/damaged.json")
                let list = try await run(["config", "trust", "--list"], in: folder, home: home)
                #expect(list.status == 8 && list.output.hasSuffix("/authflow.json\n"), "\(list.output)")
                #expect(list.standardError.contains("damaged.json is damaged"), "\(list.standardError)")
            }
        }
    }

    @Test func trustsAConfigurationFileUntilItChanges() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await withHome { home in
                let text = CommandHarness.profile(emulator.issuer)
                try await CommandHarness.withConfiguration(text) { path, folder in
                    #expect(try await run(["config", "trust"], in: folder, home: home).status == 0)
                    #expect(try await run(["login"], in: folder, home: home).status == 0)
                    let list = try await run(["config", "trust", "--list"], in: folder, home: home)
                    #expect(list.output.contains("/authflow.json\n"))
                    let doctor = try await run(["doctor"], in: folder, home: home)
                    #expect(doctor.output.contains("in the working directory, and trusted"))
                    // One additional byte.
                    try Data((text + " ").utf8).write(to: URL(fileURLWithPath: path))
                    let changed = try await run(["token"], in: folder, home: home)
                    #expect(changed.status == 2)
                    #expect(changed.standardError.contains("has changed since you trusted it"))
                    // A file that the user names explicitly does not need to be trusted.
                    #expect(try await run(["token", "--config", "authflow.json"], in: folder, home: home).status == 0)
                    let environment = Self.password.merging(["AUTHFLOW_CONFIG": path]) { own, _ in own }
                    let named = try await run(["token"], in: folder, home: home, environment: environment)
                    #expect(named.status == 0)
                    #expect(try await run(["config", "trust"], in: folder, home: home).status == 0)
                    #expect(try await run(["token"], in: folder, home: home).status == 0)
                    for words in ["is no longer trusted", "was not trusted"] {
                        let untrusted = try await run(["config", "untrust"], in: folder, home: home)
                        #expect(untrusted.status == 0 && untrusted.standardError.contains(words))
                    }
                    #expect(try await run(["token"], in: folder, home: home).status == 2)
                }
            }
        }
    }

    @Test func aFileWithErrorsIsNotTrusted() async throws {
        try await withHome { home in
            // If the program in the configuration were run, it would create a file.
            let trace = "\(home)/trace"
            let text = CommandHarness.profile(
                "http://127.0.0.1:1",
                ["client_secret": #"{"command": ["/usr/bin/touch", "\#(trace)"]}"#, "scope": #"["openid"]"#]
            )
            try await CommandHarness.withConfiguration(text) { _, folder in
                for arguments in [["config", "trust"], ["config", "check", "authflow.json"]] {
                    let outcome = try await run(arguments, in: folder, home: home)
                    #expect(outcome.status == 2)
                    #expect(outcome.standardError.contains(#"unknown key "scope". Did you mean "scopes"?"#))
                }
                let list = try await run(["config", "trust", "--list"], in: folder, home: home)
                #expect(list.status == 0 && list.output.isEmpty, "\(list.standardError)")
                #expect(!FileManager.default.fileExists(atPath: trace))
            }
        }
    }

    /// A record for another file, and records without one of their members.
    @Test(
        arguments: [
            (#""path": ""#, #""path": "/other"#, 2, "is not trusted yet"), (#""path""#, #""other""#, 8, "is damaged"),
            (#""sha256""#, #""other""#, 8, "is damaged"),
        ] as [(String, String, Int32, String)]
    )
    func aTrustRecordThatIsDamagedOrForAnotherFileIsNotAccepted(
        _ old: String,
        _ new: String,
        _ status: Int32,
        _ words: String
    ) async throws {
        try await withHome { home in
            try await CommandHarness.withConfiguration(CommandHarness.profile("http://127.0.0.1:1")) { _, folder in
                #expect(try await run(["config", "trust"], in: folder, home: home).status == 0)
                #expect(try await run(["status"], in: folder, home: home).status == 4)
                let records = "\(home)/.local/share/authflow/trusted-configurations"
                let names = try FileManager.default.contentsOfDirectory(atPath: records)
                let name = try #require(names.first { $0.hasSuffix(".json") })
                let record = "\(records)/\(name)"
                let text = try String(contentsOfFile: record, encoding: .utf8)
                try #require(text.contains(old))
                try Data(text.replacing(old, with: new).utf8).write(to: URL(fileURLWithPath: record))
                let outcome = try await run(["status"], in: folder, home: home)
                #expect(outcome.status == status, "\(outcome.standardError)")
                #expect(outcome.standardError.contains(words), "\(outcome.standardError)")
            }
        }
    }

    @Test func saysThatOthersCanWriteToTheFileInTheWorkingDirectory() async throws {
        try await withHome { home in
            try await CommandHarness.withConfiguration(CommandHarness.profile("http://127.0.0.1:1")) { path, folder in
                try FileManager.default.setAttributes([.posixPermissions: 0o666], ofItemAtPath: path)
                let outcome = try await run(["status"], in: folder, home: home)
                #expect(outcome.status == 2)
                #expect(outcome.standardError.contains("chmod go-w authflow.json"), "\(outcome.standardError)")
            }
        }
    }

    /// A symbolic link and the file that it points to count as the same file, even if their names differ.
    @Test(arguments: ["authflow.json", "other.json", "AUTHFLOW.JSON"])
    func configCheckRunsNoCommandFromAnUntrustedFile(_ name: String) async throws {
        try await withHome { home in
            let trace = "\(home)/trace"
            let text = CommandHarness.profile(
                "http://127.0.0.1:1",
                ["client_secret": #"{"command": ["/usr/bin/touch", "\#(trace)"]}"#]
            )
            try await CommandHarness.withConfiguration(text) { _, folder in
                if name != "authflow.json" {
                    let (file, link) = name == "other.json" ? ("authflow.json", name) : ("hidden.json", name)
                    if file != "authflow.json" {
                        try FileManager.default.moveItem(atPath: "\(folder)/authflow.json", toPath: "\(folder)/\(file)")
                    }
                    try FileManager.default.createSymbolicLink(
                        atPath: "\(folder)/\(link)",
                        withDestinationPath: file
                    )
                }
                let outcome = try await run(["config", "check", name], in: folder, home: home)
                #expect(outcome.status == 2)
                #expect(outcome.standardError.contains("not trusted"))
                #expect(!FileManager.default.fileExists(atPath: trace))
            }
        }
    }

    @Test func usesTheUsersOwnConfigurationFileWithoutTrust() async throws {
        try await withHome { home in
            let folder = "\(home)/.config/authflow"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try Data(CommandHarness.profile("http://127.0.0.1:1").utf8)
                .write(to: URL(fileURLWithPath: "\(folder)/config.json"))
            #expect(try await run(["status"], in: home, home: home).status == 4)
        }
    }

    /// Relative paths in a trusted file are relative to its directory, not to that of a symbolic link to the file.
    @Test func relativePathsInALinkedFileResolveAgainstTheTargetsDirectory() async throws {
        try await withHome { home in
            let text = CommandHarness.profile(
                "http://127.0.0.1:1",
                ["client_secret": #"{"file": "secret"}"#]
            )
            try await CommandHarness.withConfiguration(text) { path, folder in
                try write("own", to: "\(folder)/secret")
                #expect(try await run(["config", "trust"], in: folder, home: home).status == 0)
                let elsewhere = "\(home)/checkout"
                try FileManager.default.createDirectory(atPath: elsewhere, withIntermediateDirectories: false)
                try FileManager.default.createSymbolicLink(
                    atPath: "\(elsewhere)/authflow.json",
                    withDestinationPath: path
                )
                #expect(try await run(["config", "check"], in: elsewhere, home: home).status == 0)
                try FileManager.default.removeItem(atPath: "\(folder)/secret")
                try write("planted", to: "\(elsewhere)/secret")
                for arguments in [[], ["authflow.json"], ["--config", "authflow.json"]] {
                    #expect(try await run(["config", "check"] + arguments, in: elsewhere, home: home).status == 2)
                }
            }
        }
    }

    private func write(_ text: String, to path: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
    }

    @Test func aRemovedFileInALinkedDirectoryCanBeUntrusted() async throws {
        try await withHome { home in
            let folder = "\(home)/project"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            try FileManager.default.createSymbolicLink(atPath: "\(home)/link", withDestinationPath: folder)
            try write(CommandHarness.profile("http://127.0.0.1:1"), to: "\(folder)/authflow.json")
            #expect(try await run(["config", "trust", "\(home)/link/authflow.json"], in: home, home: home).status == 0)
            try FileManager.default.removeItem(atPath: "\(folder)/authflow.json")
            let outcome = try await run(["config", "untrust", "\(home)/link/authflow.json"], in: home, home: home)
            #expect(outcome.standardError.contains("is no longer trusted"), "\(outcome.standardError)")
            #expect(try await run(["config", "trust", "--list"], in: home, home: home).output.isEmpty)
        }
    }

    @Test func concurrentTrustChangesAreNotLost() async throws {
        try await withHome { home in
            let folders = (0..<6).map { "\(home)/\($0)" }
            for folder in folders {
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
                try write(CommandHarness.profile("http://127.0.0.1:1"), to: "\(folder)/authflow.json")
            }
            for command in ["trust", "untrust"] {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for folder in folders {
                        group.addTask {
                            let outcome = try await run(["config", command], in: folder, home: home)
                            #expect(outcome.status == 0)
                        }
                    }
                    try await group.waitForAll()
                }
                let list = try await run(["config", "trust", "--list"], in: home, home: home)
                #expect(list.output.split(separator: "\n").count == (command == "trust" ? 6 : 0))
            }
        }
    }

    @Test(arguments: [">/dev/full", ">&-"]) func failsIfTheOutputCannotBeWritten(_ redirection: String)
        async throws
    {
        let program = CommandHarness.folder.appendingPathComponent("authflow").path
        let outcome = try await CommandHarness.run(
            ["-c", "'\(program)' config schema \(redirection)"],
            program: "/bin/sh"
        )
        #expect(outcome.status == 1)
        #expect(outcome.standardError.contains("could not be written"))
    }

    @Test func registersNoClientIfTheOutputFileCannotBeWritten() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await withHome { home in
                let arguments = ["register", emulator.issuer, "--output", "none/new.json"]
                let outcome = try await run(arguments, in: home, home: home)
                #expect(outcome.status > 0)
                #expect(!emulator.requests.contains("POST /register"))
                #expect(!FileManager.default.fileExists(atPath: "\(home)/none"))
            }
        }
    }

    struct Modes: CustomTestStringConvertible {
        let file: Int
        let folder: Int
        var testDescription: String { "\(String(file, radix: 8)) in \(String(folder, radix: 8))" }
    }

    static let modes: [Modes] = [
        Modes(file: 0o666, folder: 0o755), Modes(file: 0o646, folder: 0o755), Modes(file: 0o644, folder: 0o777),
        Modes(file: 0o600, folder: 0o702),
    ]

    @Test(arguments: modes)
    func rejectsConfigurationFilesThatOtherUsersCanModify(_ mode: Modes) async throws {
        try await withHome { home in
            try await CommandHarness.withConfiguration(CommandHarness.profile("http://127.0.0.1:1")) { path, folder in
                try FileManager.default.setAttributes([.posixPermissions: mode.file], ofItemAtPath: path)
                try FileManager.default.setAttributes([.posixPermissions: mode.folder], ofItemAtPath: folder)
                for arguments in [["status", "--config", path], ["config", "trust", path]] {
                    let outcome = try await run(arguments, in: "/", home: home)
                    #expect(outcome.status == 2, "\(outcome.standardError)")
                    #expect(outcome.standardError.contains("chmod go-w /"))
                }
                try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
                try FileManager.default.setAttributes([.posixPermissions: 0o1777], ofItemAtPath: folder)
                // The directory has the sticky bit set, as /tmp does, so only the owner of a file can replace it.
                #expect(try await run(["status", "--config", path], in: "/", home: home).status == 4)
            }
        }
    }

    @Test func rejectsPipesAndDevicesAsConfigurationFiles() async throws {
        try await withHome { home in
            try #require(unsafe mkfifo("\(home)/pipe", 0o600) == 0)
            for path in ["\(home)/pipe", "/dev/zero", home] {
                let outcome = try await run(["status", "--config", path], in: "/", home: home)
                #expect(outcome.status == 2, "\(outcome.standardError)")
            }
            // Files without an end: a device that returns unlimited data, and a FIFO.
            for file in ["/dev/zero", "\(home)/pipe"] {
                let text = CommandHarness.profile("http://127.0.0.1:1", ["client_secret": #"{"file": "\#(file)"}"#])
                try await CommandHarness.withConfiguration(text) { path, folder in
                    let outcome = try await run(["config", "check", "--config", path], in: folder, home: home)
                    #expect(outcome.status == 2)
                    #expect(outcome.standardError.contains("not a regular file"))
                }
            }
        }
    }

    /// A configuration with the real server's issuer and another server's endpoints. Tokens that are stored for the
    /// issuer are not sent to the other server.
    @Test(arguments: ["token --min-ttl 86400", "userinfo", "logout", "logout --browser"])
    func sendsNoStoredTokenToOtherEndpointsOfTheSameIssuer(_ command: String) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await EmulatorServer.run {
                Witness($0) { _, _ in .text(#"{"access_token": "stolen", "token_type": "Bearer"}"#) }
            } _: { thief in
                let changes: [String: String?] = ["scopes": #"["openid", "profile", "offline_access"]"#]
                try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, changes)) {
                    path,
                    _ in
                    emulator.accessTokenLifetime = 0
                    let login = try await CommandHarness.run(["login", "--config", path], environment: Self.password)
                    #expect(login.status == 0, "\(login.standardError)")
                    let names = [
                        "authorization", "token", "jwks", "userinfo", "end_session", "revocation", "introspection",
                    ]
                    let endpoints = names.map { "\"\($0)\": \"\(thief.origin)/\($0)\"" }.joined(separator: ", ")
                    let own = changes.merging([
                        "endpoints": "{\(endpoints)}", "post_logout_redirect_uri": #""http://127.0.0.1/callback""#,
                    ]) { own, _ in own }
                    try Data(CommandHarness.profile(emulator.issuer, own).utf8).write(to: URL(fileURLWithPath: path))
                    let outcome = try await CommandHarness.run(
                        command.split(separator: " ").map(String.init) + ["--config", path],
                        environment: Self.password
                    )
                    #expect(outcome.status > 0, "\(outcome.standardError)")
                    // A rejected configuration (status 2) would send no requests either, but would not test the credential binding.
                    #expect(outcome.status != 2, "\(outcome.standardError)")
                    #expect(thief.requests.isEmpty, "\(thief.requests)")
                }
            }
        }
    }

    struct Target: CustomTestStringConvertible {
        let name: String
        let change: @Sendable (_ issuer: String) -> [String: String?]
        var testDescription: String { name }
    }

    static let targets: [Target] = [
        Target(
            name: "transcript",
            change: { issuer in
                [
                    "user_agent": """
                    {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": ["\(issuer)"],
                     "transcript": "precious"}
                    """
                ]
            }
        ),
        Target(
            name: "key_file",
            change: { _ in ["store": #"{"name": "encrypted-file", "directory": "store", "key_file": "precious"}"#] }
        ),
    ]

    @Test(arguments: targets) func doesNotOverwriteAnExistingFileNamedInAConfiguration(
        _ target: Target
    ) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let text = CommandHarness.profile(emulator.issuer, target.change(emulator.issuer))
            try await CommandHarness.withConfiguration(text) { path, folder in
                let precious = "\(folder)/precious"
                try Data("ssh-ed25519 AAAA\n".utf8).write(to: URL(fileURLWithPath: precious))
                try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: precious)
                _ = try await CommandHarness.run(["login", "--config", path], environment: Self.password)
                #expect(try String(contentsOfFile: precious, encoding: .utf8) == "ssh-ed25519 AAAA\n")
            }
        }
    }

    @Test func overwritesOnlyItsOwnTranscriptsAndTraces() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let agent = """
                {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": ["\(emulator.issuer)"],
                 "transcript": "visit.txt"}
                """
            try await CommandHarness.withConfiguration(
                CommandHarness.profile(emulator.issuer, ["user_agent": agent])
            ) { path, folder in
                let notes = "\(folder)/notes.html"
                try Data("mine".utf8).write(to: URL(fileURLWithPath: notes))
                for _ in 0..<2 {
                    let login = try await CommandHarness.run(
                        ["login", "--config", path, "--trace", "\(folder)/login.html"],
                        environment: Self.password
                    )
                    #expect(
                        login.status == 0 && login.standardError.contains("was written to"),
                        "\(login.standardError)"
                    )
                }
                let visit = try String(contentsOfFile: "\(folder)/visit.txt", encoding: .utf8)
                #expect(visit.contains("POST") && !visit.contains("wonderland"))
                let before = emulator.requests.count
                for (trace, words) in [
                    (notes, "was not written by AuthFlow"), (folder, "was not written by AuthFlow"),
                    ("\(folder)/no/such/page.html", "No such file or directory"),
                ] {
                    let refused = try await CommandHarness.run(
                        ["login", "--config", path, "--trace", trace],
                        environment: Self.password
                    )
                    #expect(refused.status == 8 && refused.standardError.contains(words), "\(refused.standardError)")
                }
                // The sign-in fails before it begins.
                #expect(emulator.requests.count == before)
                #expect(try String(contentsOfFile: notes, encoding: .utf8) == "mine")
                // An earlier trace is not replaced by a command that cannot begin.
                let trace = "\(folder)/login.html"
                let size = try Data(contentsOf: URL(fileURLWithPath: trace)).count
                let typo = ["login", "--config", path, "--profile", "typo", "--trace", trace]
                #expect(try await CommandHarness.run(typo, environment: Self.password).status == 2)
                #expect(try Data(contentsOf: URL(fileURLWithPath: trace)).count == size)
            }
        }
    }

    @Test func doesNotTruncateAnUnrelatedFileWithTheNameOfALockFile() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, folder in
                _ = try await CommandHarness.run(["login", "--config", path], environment: Self.password)
                let store = "\(folder)/store"
                let names = try FileManager.default.contentsOfDirectory(atPath: store)
                #expect(names.count == 1, "No lock is left behind: \(names)")
                let lock = try #require(names.first).replacing(".json", with: ".lock")
                let text = "a note that is longer than a process ID"
                try Data(text.utf8).write(to: URL(fileURLWithPath: "\(store)/\(lock)"))
                let login = try await CommandHarness.run(["login", "--config", path], environment: Self.password)
                #expect(login.status == 8, "\(login.standardError)")
                #expect(try String(contentsOfFile: "\(store)/\(lock)", encoding: .utf8) == text)
            }
        }
    }

    @Test func aFailedLoginLeavesNoLockFile() async throws {
        try await CommandHarness.withConfiguration(CommandHarness.profile("http://127.0.0.1:1")) { path, folder in
            let login = try await CommandHarness.run(["login", "--config", path], environment: Self.password)
            #expect(login.status == 7, "\(login.standardError)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder)/store") == [])
        }
    }
}
