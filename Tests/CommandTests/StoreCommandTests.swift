import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import Testing

/// `authflow store`: checks of a shared store, rotation of its keys, and a damaged database.
@Suite struct StoreCommandTests {
    private struct Fixture {
        let emulator: OIDCEmulator
        let folder: String

        /// Runs a command for a profile whose SQLite store has the given keys.
        func run(_ arguments: [String], keys: [(id: String, file: String)]?) async throws -> CommandHarness.Outcome {
            let list = keys.map { keys in
                let items = keys.map { #"{"id": "\#($0.id)", "key": {"file": "\#(folder)/\#($0.file)"}}"# }
                return #", "encryption_keys": [\#(items.joined(separator: ", "))]"#
            }
            let store = #"{"name": "sqlite", "path": "\#(folder)/sessions.sqlite"\#(list ?? "")}"#
            let path = "\(folder)/config.json"
            try Data(CommandHarness.profile(emulator.issuer, ["store": store]).utf8).write(
                to: URL(fileURLWithPath: path)
            )
            return try await CommandHarness.run(
                arguments + ["--config", path],
                environment: ["PASSWORD": "wonderland"]
            )
        }

        var database: String { "\(folder)/sessions.sqlite" }
    }

    private func withFixture(_ body: @Sendable (Fixture) async throws -> Void) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration("{}") { _, folder in
                for name in ["one", "two"] {
                    let key = try await CommandHarness.run(["store", "new-key", "\(folder)/\(name)"])
                    #expect(key.status == 0, "\(key.standardError)")
                }
                try await body(Fixture(emulator: emulator, folder: folder))
            }
        }
    }

    @Test func aKeyIsRotatedWithoutLosingASession() async throws {
        try await withFixture { fixture in
            let old: [(String, String)] = [("1", "one")]
            let both: [(String, String)] = [("2", "two"), ("1", "one")]
            #expect(try await fixture.run(["login"], keys: old).status == 0)
            let rewrap = try await fixture.run(["store", "rewrap"], keys: both)
            #expect(rewrap.status == 0 && rewrap.standardError.contains("rewrapped with the first key: 1"))
            let check = try await fixture.run(["store", "check"], keys: [("2", "two")])
            #expect(check.status == 0 && check.output.contains("1 in the store; all can be read"), "\(check.output)")
            #expect(try await fixture.run(["status"], keys: [("2", "two")]).status == 0)
        }
    }

    /// The configured keys: none, a key with a different ID, or a different key with the same ID.
    @Test(arguments: [nil, [("2", "two")], [("1", "two")]] as [[(String, String)]?])
    func recordsThatCannotBeReadFailTheCheckAndAreNotRewrapped(_ keys: [(String, String)]?) async throws {
        try await withFixture { fixture in
            #expect(try await fixture.run(["login"], keys: [("1", "one")]).status == 0)
            let check = try await fixture.run(["store", "check"], keys: keys)
            #expect(check.status == 8 && check.output.contains("1 of 1 records cannot be read"), "\(check.output)")
            if keys != nil {
                let rewrap = try await fixture.run(["store", "rewrap"], keys: keys)
                #expect(rewrap.status == 8 && rewrap.standardError.contains("were not rewrapped: 1"))
                #expect(rewrap.standardError.contains("authflow store check --config"))
            }
            #expect(try await fixture.run(["status"], keys: [("1", "one")]).status == 0)
        }
    }

    @Test(arguments: [#""memory""#, #"{"name": "file", "directory": "tokens"}"#])
    func aStoreWithoutSharedSessionsFailsTheCheck(_ store: String) async throws {
        let text = CommandHarness.profile("https://id.example.com", ["store": store])
        try await CommandHarness.withConfiguration(text) { path, _ in
            let check = try await CommandHarness.run(
                ["store", "check", "--config", path],
                environment: ["PASSWORD": "wonderland"]
            )
            #expect(check.status == 1 && check.output.isEmpty, "\(check.output)")
            #expect(check.standardError.contains("does not support sessions shared by several processes"))
        }
    }

    /// Without `--profile` and `default_profile`, the profile of the first provider is used, as by the application.
    @Test func theStoreOfAWebApplicationWithSeveralProvidersNeedsNoProfileName() async throws {
        try await CommandHarness.withConfiguration("{}") { path, folder in
            let profile = #""provider": "oidc", "client_id": "app", "redirect_uri": "https://app.example.com/callback""#
            let store = #"{"name": "sqlite", "path": "\#(folder)/sessions.sqlite"}"#
            let text = #"""
                {
                  "profiles": {
                    "one": {\#(profile), "issuer": "https://one.example.com", "store": \#(store)},
                    "two": {\#(profile), "issuer": "https://two.example.com", "store": "memory"}
                  },
                  "server": {"providers": [{"name": "1", "profile": "one"}, {"name": "2", "profile": "two"}]}
                }
                """#
            try Data(text.utf8).write(to: URL(fileURLWithPath: path))
            let check = try await CommandHarness.run(["store", "check", "--config", path])
            #expect(check.status == 0, "\(check.output)\(check.standardError)")
        }
    }

    @Test func aKeyFileIsNotOverwritten() async throws {
        try await withFixture { fixture in
            let before = try Data(contentsOf: URL(fileURLWithPath: "\(fixture.folder)/one"))
            let again = try await CommandHarness.run(["store", "new-key", "\(fixture.folder)/one"])
            #expect(again.status == 8 && again.standardError.contains("already exists"))
            #expect(try Data(contentsOf: URL(fileURLWithPath: "\(fixture.folder)/one")) == before)
        }
    }

    /// A second damaged database does not replace the first one.
    @Test func resetKeepsEachDamagedDatabase() async throws {
        try await withFixture { fixture in
            for text in ["first", "second"] {
                let garbage = Data(String(repeating: text, count: 1000).utf8)
                let file = URL(fileURLWithPath: fixture.database)
                try garbage.write(to: file)
                try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
                let reset = try await fixture.run(["store", "reset"], keys: nil)
                #expect(reset.status == 0 && reset.standardError.contains("Renamed to"), "\(reset.standardError)")
            }
            let names = try FileManager.default.contentsOfDirectory(atPath: fixture.folder)
            #expect(names.count { $0.contains(".damaged-") } == 2)
            #expect(try await fixture.run(["login"], keys: nil).status == 0)
        }
    }

    /// The store of "resource_client" may belong to a file without profiles.
    @Test func resetIsSuggestedOnlyForTheStoreOfAProfile() async throws {
        try await withFixture { fixture in
            let file = URL(fileURLWithPath: fixture.database)
            try Data(String(repeating: "garbage", count: 1000).utf8).write(to: file)
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
            let status = try await fixture.run(["status"], keys: nil)
            #expect(status.status == 8, "\(status.standardError)")
            #expect(status.standardError.contains("Run: authflow store reset --config"), "\(status.standardError)")
            let text = #"{"resource_client": {"store": {"name": "sqlite", "path": "\#(fixture.database)"}}}"#
            try await CommandHarness.withConfiguration(text) { path, _ in
                for command in [["status", "https://mcp.example.com"], ["mcp", "status"]] {
                    let status = try await CommandHarness.run(command + ["--config", path])
                    #expect(status.status == 8, "\(status.standardError)")
                    #expect(status.standardError.contains("is damaged"), "\(status.standardError)")
                    #expect(!status.standardError.contains("store reset"), "\(status.standardError)")
                }
            }
        }
    }

    @Test(arguments: ["intact", "readable by everyone", "missing"])
    func resetLeavesADatabaseThatIsNotDamagedUnchanged(_ state: String) async throws {
        try await withFixture { fixture in
            #expect(try await fixture.run(["login"], keys: nil).status == 0)
            switch state {
            case "missing": try FileManager.default.removeItem(atPath: fixture.database)
            case "readable by everyone":
                try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: fixture.database)
            default: break
            }
            let reset = try await fixture.run(["store", "reset"], keys: nil)
            let words = [
                "intact": "is not damaged", "missing": "is missing", "readable by everyone": "could not be examined",
            ]
            #expect(reset.status == 8 && reset.standardError.contains(words[state] ?? ""), "\(reset.standardError)")
            let names = try FileManager.default.contentsOfDirectory(atPath: fixture.folder)
            #expect(!names.contains { $0.contains(".damaged-") })
            #expect(names.contains("sessions.sqlite") == (state != "missing"))
        }
    }
}
