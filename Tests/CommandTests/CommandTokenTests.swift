import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// The tool and the tokens that it stores.
@Suite struct CommandTokenTests {
    private let longScopes = ["scopes": #"["openid", "profile", "offline_access"]"#]

    private func refreshes(_ emulator: OIDCEmulator) -> Int {
        emulator.receivedRequests.count { $0.form["grant_type"] == "refresh_token" }
    }

    @Test func refreshesOnceForSixteenProcesses() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, longScopes)) { path, _ in
                // The token expires immediately, and the provider rejects a reused refresh token.
                emulator.accessTokenLifetime = 0
                let login = try await CommandHarness.run(
                    ["login", "--config", path],
                    environment: ["PASSWORD": "wonderland"]
                )
                #expect(login.status == 0, "\(login.standardError)")
                emulator.accessTokenLifetime = 3600
                let outcomes = try await withThrowingTaskGroup(of: CommandHarness.Outcome.self) { group in
                    for _ in 0..<16 {
                        group.addTask {
                            try await CommandHarness.run(
                                ["token", "--config", path],
                                isAlone: false
                            )
                        }
                    }
                    return try await group.reduce(into: [CommandHarness.Outcome]()) { $0.append($1) }
                }
                #expect(outcomes.allSatisfy { $0.status == 0 }, "\(outcomes.map(\.standardError))")
                #expect(Set(outcomes.map(\.output)).count == 1)
                #expect(refreshes(emulator) == 1)
                // The session is still valid.
                let known = try await CommandHarness.run(
                    ["token", "--config", path, "--min-ttl", "86400"]
                )
                #expect(known.status == 0)
                // A one-hour token can never be valid for a day, so a newly issued token is not refreshed again.
                #expect(known.output == outcomes[0].output)
                #expect(refreshes(emulator) == 1)
                let renewed = try await CommandHarness.run(
                    ["token", "--config", path, "--refresh"]
                )
                #expect(renewed.status == 0 && renewed.output != known.output, "\(renewed.standardError)")
                #expect(refreshes(emulator) == 2)
            }
        }
    }

    /// A signed-in user whose access token has expired.
    private func withExpiredToken(
        _ body: @escaping @Sendable (_ emulator: OIDCEmulator, _ path: String, _ folder: String) async throws -> Void
    ) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { [longScopes] emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, longScopes)) {
                path,
                folder in
                emulator.accessTokenLifetime = 0
                _ = try await CommandHarness.run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
                emulator.accessTokenLifetime = 3600
                try await body(emulator, path, folder)
            }
        }
    }

    private static func storedFiles(_ folder: String) throws -> Set<String> {
        Set(try FileManager.default.contentsOfDirectory(atPath: "\(folder)/store"))
    }

    @Test func curlSendsAProfilesTokenOnlyToItsAPIs() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            // A client for one account cannot be used for protected resources, but it can be used for APIs.
            let changes = ["api_origins": "[\"\(emulator.issuer)\"]", "account": #""248289761001""#]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, changes)) { path, _ in
                func curl(_ arguments: String...) async throws -> CommandHarness.Outcome {
                    try await CommandHarness.run(
                        ["curl", "--config", path, "--profile", "work"] + arguments,
                        environment: ["PASSWORD": "wonderland"]
                    )
                }
                let userInfo = "\(emulator.issuer)/userinfo"
                let early = try await curl(userInfo)
                #expect(
                    early.status == 4 && early.standardError.contains("authflow login --config"),
                    "\(early.standardError)"
                )
                let first = try await curl(userInfo, "--sign-in")
                #expect(first.status == 0 && first.output.contains("248289761001"), "\(first.standardError)")
                let second = try await curl(userInfo, "-i")
                #expect(second.status == 0 && second.output.hasPrefix("HTTP 200"), "\(second.standardError)")
                let missing = try await curl("\(emulator.issuer)/nothing")
                #expect(missing.status == 1 && missing.standardError.contains("status 404"), "\(missing.standardError)")
                let other = try await curl(userInfo.replacing("127.0.0.1", with: "localhost"))
                #expect(other.status > 0 && !other.output.contains("248289761001"), "\(other.standardError)")
            }
        }
    }

    @Test(arguments: ["Host: evil.example", "content-length: 1", "Transfer-Encoding: chunked", "Connection: close"])
    func curlRejectsHeadersThatTheTransportManages(_ field: String) async throws {
        let outcome = try await CommandHarness.run(["curl", "https://api.example.com", "-H", field])
        #expect(outcome.status == 2 && outcome.standardError.contains("cannot be set"), "\(outcome.standardError)")
    }

    @Test(arguments: ["X-A: a\r\nX-B: b", "X-A: a\nb", "X-A: a\u{1}b"])
    func curlRejectsHeaderFieldValuesWithControlCharacters(_ field: String) async throws {
        let outcome = try await CommandHarness.run(["curl", "https://api.example.com", "-H", field])
        #expect(outcome.status == 2 && outcome.standardError.contains("control character"), "\(outcome.standardError)")
    }

    @Test func printsTheProvidersOwnParametersWithTheTokenAsJSON() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.fault = .tokenResponse(
                .members {
                    $0["instance_url"] = "https://acme.example.com"
                    $0["session_token"] = "secret"
                    $0["user"] = ["name": "alice"]
                    $0["roles"] = ["admin"]
                }
            )
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, folder in
                let variables = ["PASSWORD": "wonderland"]
                let login = try await CommandHarness.run(
                    ["login", "--config", path],
                    environment: variables,
                    folder: folder
                )
                #expect(login.status == 0, "\(login.standardError)")
                let token = try await CommandHarness.run(
                    ["token", "--format", "json", "--config", path],
                    environment: variables
                )
                let json = try JSON(parsing: Array(token.output.utf8))
                #expect(json["parameters"] == ["instance_url": "https://acme.example.com"])
                #expect(
                    json["access_token"] != nil && json["refresh_token"] == nil && !token.output.contains("id_token")
                )
            }
        }
    }

    @Test func loginReportsThatTheTokensWereNotStored() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let text = CommandHarness.profile(emulator.issuer, ["store": #""memory""#])
            try await CommandHarness.withConfiguration(text) { path, _ in
                let login = try await CommandHarness.run(
                    ["login", "--config", path],
                    environment: ["PASSWORD": "wonderland"]
                )
                #expect(
                    login.status == 0 && login.standardError.contains("The tokens were not stored"),
                    "\(login.standardError)"
                )
            }
        }
    }

    /// After a refresh, the command would lose the new refresh token when it exits.
    @Test func doesNotRefreshOnAFullDisk() async throws {
        try await withExpiredToken { emulator, path, folder in
            let before = try Self.storedFiles(folder)
            // Simulates a full disk: the file size limit is zero, and SIGXFSZ is ignored.
            let tool = CommandHarness.folder.appendingPathComponent("authflow").path
            let outcome = try await CommandHarness.run(
                ["-c", "trap '' XFSZ; ulimit -f 0; exec '\(tool)' token --config '\(path)'"],
                program: "/bin/bash"
            )
            #expect(outcome.status == 8, "\(outcome.standardError)")
            #expect(outcome.output.isEmpty)
            #expect(outcome.standardError.contains("could not be stored"), "\(outcome.standardError)")
            #expect(!emulator.receivedRequests.contains { $0.form["grant_type"] == "refresh_token" })
            #expect(try Self.storedFiles(folder) == before)
            #expect(try await CommandHarness.run(["token", "--config", path]).status == 0)
        }
    }

    @Test func printsATokenThatCannotBeStored() async throws {
        try await withExpiredToken { emulator, path, folder in
            let name = try #require(try Self.storedFiles(folder).first { $0.hasSuffix(".json") })
            let file = "\(folder)/store/\(name)"
            emulator.customResponse = { exchange in
                if exchange.request.form["grant_type"] == "refresh_token" {
                    // The file can no longer be replaced, even by root.
                    try? FileManager.default.moveItem(atPath: file, toPath: "\(folder)/moved")
                    try? FileManager.default.createDirectory(
                        atPath: "\(file)/full",
                        withIntermediateDirectories: true
                    )
                }
                return exchange.response
            }
            let outcome = try await CommandHarness.run(["token", "--config", path])
            #expect(outcome.status == 0, "\(outcome.standardError)")
            #expect(!outcome.output.isEmpty)
            // The warning states the cause, and is printed once, although the command tries again before it exits.
            #expect(outcome.standardError.components(separatedBy: "could not be stored").count == 2)
            #expect(outcome.standardError.contains("\(name) cannot be replaced: "), "\(outcome.standardError)")
            #expect(try Self.storedFiles(folder) == [name])
        }
    }

    @Test func loginFailsIfItsTokensCannotBeStored() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, folder in
                emulator.customResponse = { exchange in
                    if exchange.request.path == "/token" {
                        // No directory can be created in place of this file, even by root.
                        try? FileManager.default.removeItem(atPath: "\(folder)/store")
                        try? Data().write(to: URL(fileURLWithPath: "\(folder)/store"))
                    }
                    return exchange.response
                }
                let login = try await CommandHarness.run(
                    ["login", "--config", path],
                    environment: ["PASSWORD": "wonderland"]
                )
                #expect(login.status == 8 && login.output.hasPrefix("Signed in as Alice Example\n"))
                #expect(login.standardError.contains("/store cannot be created"), "\(login.standardError)")
            }
        }
    }

    /// A message that a request did not finish in time would be wrong.
    @Test func loginReportsOnlyThatTheStoredCredentialWasDamagedDuringTheSignIn() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, folder in
                let variables = ["PASSWORD": "wonderland"]
                _ = try await CommandHarness.run(["login", "--config", path], environment: variables)
                let name = try #require(try Self.storedFiles(folder).first { $0.hasSuffix(".json") })
                emulator.customResponse = { exchange in
                    if exchange.request.path == "/token" {
                        try? Data("{".utf8).write(to: URL(fileURLWithPath: "\(folder)/store/\(name)"))
                    }
                    return exchange.response
                }
                let login = try await CommandHarness.run(["login", "--config", path], environment: variables)
                #expect(login.status == 8 && login.standardError.contains("is damaged"), "\(login.standardError)")
                #expect(!login.standardError.contains("did not finish"), "\(login.standardError)")
            }
        }
    }

    /// The program was started for the first user.
    @Test func theTokenFileNeverReceivesTheTokenOfAnotherUser() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { [longScopes] emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, longScopes)) {
                path,
                folder in
                let agent = """
                    {"name": "headless", "username": "bob", "password": {"env": "BOB"}, "origins": ["\(emulator.issuer)"]}
                    """
                let bob = CommandHarness.profile(emulator.issuer, longScopes.merging(["user_agent": agent]) { $1 })
                try Data(bob.utf8).write(to: URL(fileURLWithPath: "\(folder)/bob.json"))
                emulator.accessTokenLifetime = 1
                let variables = ["PASSWORD": "wonderland", "BOB": "builder"]
                _ = try await CommandHarness.run(["login", "--config", path], environment: variables)
                // The program runs until the tool has reported the other user.
                try #require(unsafe mkfifo("\(folder)/reported", 0o600) == 0)
                let hasReported = Atomic(false)
                let script = """
                    "$0" login --replace-account --config bob.json || exit 3
                    read line < reported
                    [ "$(cat "$F")" != "$("$0" token --config bob.json)" ] || exit 5
                    """
                let tool = CommandHarness.folder.appendingPathComponent("authflow").path
                let outcome = try await CommandHarness.run(
                    ["exec", "--config", path, "--file", "F", "--", "sh", "-c", script, tool],
                    environment: variables,
                    folder: folder,
                    interruptWhen: { text in
                        // The script has opened the pipe for reading, or opens it soon.
                        if text.contains("Another user may have signed in"),
                            !hasReported.exchange(true, ordering: .relaxed)
                        {
                            Thread.detachNewThread {
                                try? Data("\n".utf8).write(to: URL(fileURLWithPath: "\(folder)/reported"))
                            }
                        }
                        return false
                    }
                )
                #expect(outcome.status == 0, "\(outcome.standardError)")
                #expect(outcome.standardError.contains("Another user may have signed in"), "\(outcome.standardError)")
            }
        }
    }

    @Test func reportsWhyTheSessionHasEnded() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, longScopes)) { path, _ in
                emulator.accessTokenLifetime = 0
                _ = try await CommandHarness.run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
                emulator.endSessions()
                for command in ["token", "token", "status"] {
                    let outcome = try await CommandHarness.run(
                        [command, "--config", path]
                    )
                    #expect(outcome.status == 4)
                    #expect(outcome.standardError.contains("was ended by the provider"), "\(outcome.standardError)")
                }
                #expect(refreshes(emulator) == 1)
                // The first sign-out removes the record of the ended session; afterward, the account is unknown.
                for status in [0, 4] as [Int32] {
                    let outcome = try await CommandHarness.run(
                        ["logout", "--account", "248289761001", "--config", path]
                    )
                    #expect(outcome.status == status, "\(outcome.standardError)")
                    #expect(!outcome.standardError.contains("authflow login"), "\(outcome.standardError)")
                }
            }
        }
    }

    struct Damage: CustomTestStringConvertible {
        let name: String
        let command: String
        let word: String
        var testDescription: String { name }
    }

    /// Damage to a stored credential: the command that damages it, and a phrase from the resulting message.
    static let damages: [Damage] = [
        Damage(name: "truncated", command: "truncate -s 40 \"$f\"", word: "is damaged"),
        Damage(name: "garbage", command: "head -c 500 /dev/urandom > \"$f\"", word: "is damaged"),
        Damage(name: "empty", command: ": > \"$f\"", word: "is damaged"),
        Damage(name: "loose permissions", command: "chmod 644 \"$f\"", word: "chmod 600"),
        Damage(name: "a link", command: "mv \"$f\" \"$f.real\" && ln -s \"$f.real\" \"$f\"", word: "cannot be read"),
        Damage(name: "a directory", command: "rm \"$f\" && mkdir \"$f\"", word: "not a regular file"),
        Damage(name: "open folder", command: "chmod 777 \"$(dirname \"$f\")\"", word: "chmod 700"),
    ]

    @Test(arguments: damages) func reportsAnUnusableStoreBeforeRefreshingOrSigningIn(
        _ damage: Damage
    ) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, longScopes)) {
                path,
                folder in
                emulator.accessTokenLifetime = 0
                _ = try await CommandHarness.run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
                let script = "f=$(ls \(folder)/store/*.json) && \(damage.command)"
                #expect(try await CommandHarness.run(["-c", script], program: "/bin/bash").status == 0)
                let token = try await CommandHarness.run(["token", "--config", path])
                #expect(token.status == 8, "\(damage.name): \(token.standardError)")
                #expect(token.standardError.contains(damage.word), "\(damage.name): \(token.standardError)")
                #expect(refreshes(emulator) == 0)
                // No existing data is overwritten, and the user is not prompted to sign in unnecessarily.
                let asked = emulator.requests.count { $0 == "GET /authorize" }
                let login = try await CommandHarness.run(
                    ["login", "--config", path],
                    environment: ["PASSWORD": "wonderland"]
                )
                #expect(login.status == 8, "\(damage.name): \(login.standardError)")
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
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, folder in
                let other = "\(folder)/bob.json"
                let bob = CommandHarness.profile(emulator.issuer, agent(.bob))
                try Data(bob.utf8).write(to: URL(fileURLWithPath: other))
                _ = try await CommandHarness.run(["login", "--config", path], environment: ["PASSWORD": "wonderland"])
                let refused = try await CommandHarness.run(
                    ["login", "--config", other],
                    environment: ["PASSWORD": "builder"]
                )
                #expect(refused.status == 1)
                #expect(refused.standardError.contains("another user is already signed in"))
                let added = try await CommandHarness.run(
                    ["login", "--add-account", "--config", other],
                    environment: ["PASSWORD": "builder"]
                )
                #expect(added.status == 0, "\(added.standardError)")
                #expect(!added.standardError.contains("No account was added"), "\(added.standardError)")
                let again = try await CommandHarness.run(
                    ["login", "--add-account", "--config", other],
                    environment: ["PASSWORD": "builder"]
                )
                #expect(again.status == 0, "\(again.standardError)")
                #expect(
                    again.standardError.contains("No account was added, because Bob Example was already signed in."),
                    "\(again.standardError)"
                )
                let listed = try await CommandHarness.run(
                    ["accounts", "--config", path]
                )
                #expect(listed.output == "248289761002  Bob Example\n248289761001  Alice Example\n")
                let alice = try await CommandHarness.run(
                    ["status", "--account", "248289761001", "--config", path]
                )
                #expect(alice.output.contains("Alice Example"))
                // A sign-out with a misspelled account name fails.
                let mistyped = try await CommandHarness.run(
                    ["logout", "--account", "alice", "--config", path]
                )
                #expect(mistyped.status == 4)
                #expect(
                    mistyped.standardError.contains(#"The account "alice" is not signed in"#),
                    "\(mistyped.standardError)"
                )
                _ = try await CommandHarness.run(
                    ["accounts", "--select", "248289761001", "--config", path]
                )
                let out = try await CommandHarness.run(["logout", "--config", path])
                #expect(out.status == 0)
                #expect(out.standardError.contains("Alice Example is signed out"))
                #expect(out.standardError.contains("The tokens were revoked"))
                let left = try await CommandHarness.run(
                    ["accounts", "--json", "--config", path]
                )
                #expect(left.output.contains("Bob Example"))
                #expect(!left.output.contains("Alice"))
            }
        }
    }
}
