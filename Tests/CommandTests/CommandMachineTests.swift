import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import Testing

/// The tool without a user: keys, assertions, and the client credentials grant.
@Suite struct CommandMachineTests {
    /// Runs `body` with a provider at which a new key from `authflow keys new` is registered, and a configuration
    /// with that key.
    private func withRobot(
        _ changes: [String: String?] = [:],
        algorithm: String = "ES256",
        _ body: @Sendable (_ emulator: OIDCEmulator, _ path: String, _ folder: String) async throws -> Void
    ) async throws {
        try await CommandHarness.withConfiguration("{}") { path, folder in
            let made = try await CommandHarness.run(["keys", "new", "\(folder)/key.pem", "--algorithm", algorithm])
            #expect(made.status == 0, "\(made.standardError)")
            let mode = try FileManager.default.attributesOfItem(atPath: "\(folder)/key.pem")[.posixPermissions]
            #expect(mode as? Int == 0o600)
            #expect(!made.output.contains("PRIVATE") && !made.output.contains("\"d\""))
            var client = OIDCEmulator.Client(id: "robot", authenticationMethod: "private_key_jwt")
            client.jwks = try JSON(parsing: Array(made.output.utf8))
            let registered = client
            try await EmulatorServer.run {
                try OIDCEmulator(issuer: $0, clients: [registered])
            } _: { emulator in
                var keys: [String: String?] = [
                    "client_id": #""robot""#, "client_key": #""key.pem""#, "flow": #""client_credentials""#,
                    "scopes": #"["reports"]"#, "user_agent": nil,
                ]
                for (name, value) in changes { keys[name] = value }
                try Data(CommandHarness.profile(emulator.issuer, keys).utf8).write(to: URL(fileURLWithPath: path))
                try await body(emulator, path, folder)
            }
        }
    }

    @Test(arguments: ["dpop", "signed_introspection", "signed_requests"])
    func rejectsASettingThatDisablesASecurityProfileRequirement(_ name: String) async throws {
        let changes: [String: String?] = ["security_profile": #""fapi2-message-signing""#, name: "false"]
        try await withRobot(changes) { emulator, path, _ in
            let outcome = try await CommandHarness.run(["token", "--config", path])
            #expect(outcome.status == 2)
            #expect(outcome.standardError.contains(name), "\(outcome.standardError)")
            #expect(emulator.requests.isEmpty)
        }
    }

    /// No browser is opened.
    @Test func aMachineToMachineClientIgnoresTheRequestForAPrivateWindow() async throws {
        try await withRobot { _, path, _ in
            let outcome = try await CommandHarness.run(["login", "--private", "--config", path])
            #expect(outcome.status == 0, "\(outcome.standardError)")
        }
    }

    #if os(Linux)
    /// Each token is from a new token request, but for the same client.
    @Test func theTokenFileReceivesEveryTokenOfAMachineToMachineClient() async throws {
        try await withRobot { emulator, path, _ in
            emulator.accessTokenLifetime = 1
            let script = #"""
                first=$(cat "$F")
                for i in $(seq 300); do [ "$(cat "$F")" = "$first" ] || exit 0; sleep 0.1; done
                exit 5
                """#
            let outcome = try await CommandHarness.run(
                ["exec", "--config", path, "--file", "F", "--", "sh", "-c", script]
            )
            #expect(outcome.status == 0, "\(outcome.standardError)")
        }
    }
    #endif

    /// The member applies to the authorization endpoint, not to the endpoint for pushed requests.
    @Test(arguments: [(nil, false), (#""never""#, true)] as [(String?, Bool)])
    func doctorReportsUnsupportedSignedRequestsUnlessTheyArePushed(_ pushed: String?, _ isReported: Bool) async throws {
        try await withRobot(["flow": nil, "signed_requests": "true", "par": pushed]) { emulator, path, _ in
            let endpoint = JSON.string("\(emulator.issuer)/par")
            emulator.fault = .metadata(
                .members {
                    $0["request_parameter_supported"] = false
                    $0["pushed_authorization_request_endpoint"] = endpoint
                }
            )
            let outcome = try await CommandHarness.run(["doctor", "--config", path])
            #expect(outcome.output.contains("request_parameter_supported") == isReported, "\(outcome.output)")
            #expect(outcome.output.contains("device grant"), "\(outcome.output)")
        }
    }

    @Test func doctorDoesNotRequirePKCEOfAMachineToMachineClient() async throws {
        try await withRobot { emulator, path, _ in
            emulator.fault = .metadata(.member("code_challenge_methods_supported", .array(["plain"])))
            let outcome = try await CommandHarness.run(["doctor", "--config", path])
            #expect(outcome.status == 0, "\(outcome.standardError)")
            #expect(!outcome.output.contains("PKCE"), "\(outcome.output)")
        }
    }

    /// The default token of this helper is the ID Token, which a client without a user never receives.
    @Test func aHelperThatNeedsAnIDTokenDoesNotSuggestASignInToAMachineToMachineClient() async throws {
        try await withRobot(["helpers": #"{"kubernetes": {}}"#]) { emulator, path, _ in
            let outcome = try await CommandHarness.run(["credential", "kubernetes", "--config", path])
            #expect(outcome.status == 1 && outcome.output.isEmpty)
            #expect(outcome.standardError.contains(#"Set "token" to "access_token""#), "\(outcome.standardError)")
            #expect(!outcome.standardError.contains("authflow login"), "\(outcome.standardError)")
            #expect(emulator.requests.isEmpty)
        }
    }

    @Test(arguments: ["ES256", "ES384", "ES512", "PS256", "RS256", "EdDSA"])
    func printsAClientCredentialsTokenWithoutASignIn(_ algorithm: String) async throws {
        try await withRobot(algorithm: algorithm) { emulator, path, _ in
            let outcomes = try await withThrowingTaskGroup(of: CommandHarness.Outcome.self) { group in
                for _ in 0..<4 {
                    group.addTask { try await CommandHarness.run(["token", "--config", path], isAlone: false) }
                }
                return try await group.reduce(into: [CommandHarness.Outcome]()) { $0.append($1) }
            }
            #expect(outcomes.allSatisfy { $0.status == 0 }, "\(outcomes.map(\.standardError))")
            // All callers share one request and one token.
            #expect(Set(outcomes.map(\.output)).count == 1 && outcomes[0].output.count > 20)
            #expect(emulator.requests.count { $0 == "POST /token" } == 1)
            let status = try await CommandHarness.run(["status", "--config", path])
            #expect(status.status == 0, "\(status.standardError)")
        }
    }

    /// A machine has neither a browser nor a terminal, and does not need them.
    @Test func doctorAndConfigCheckRequireNoUserAgent() async throws {
        try await withRobot { _, path, _ in
            let doctor = try await CommandHarness.run(["doctor", "--config", path])
            #expect(doctor.status == 0, "\(doctor.output)\(doctor.standardError)")
            #expect(doctor.output.contains("client_credentials") && !doctor.output.contains("redirect URI"))
            let check = try await CommandHarness.run(["config", "check", "--config", path])
            #expect(check.status == 0 && !check.standardError.contains("not be identified"), "\(check.standardError)")
        }
    }

    /// The grant involves no user, so neither `status` nor `token` requires a sign-in.
    @Test(arguments: [false, true]) func clientCredentialsYieldASeparateTokenForEachResource(_ usesDPoP: Bool)
        async throws
    {
        let resources = ["https://a.example.com", "https://b.example.com"]
        let changes: [String: String?] = [
            "resources": "[\"\(resources[0])\", \"\(resources[1])\"]", "dpop": usesDPoP ? "true" : nil,
        ]
        try await withRobot(changes) { emulator, path, _ in
            let early = try await CommandHarness.run(["status", "--config", path])
            #expect(early.status == 0 && early.output.contains("No token is stored"), "\(early.standardError)")
            var tokens: [String] = []
            for resource in resources + resources {
                let token = try await CommandHarness.run(["token", "--resource", resource, "--config", path])
                #expect(token.status == 0, "\(token.standardError)")
                tokens.append(token.output)
            }
            #expect(Set(tokens).count == 2 && Array(tokens[..<2]) == Array(tokens[2...]))
            func requests(_ path: String) -> Int { emulator.receivedRequests.filter { $0.path == path }.count }
            #expect(requests("/token") == 2)
            // The token without a resource is separate, and does not replace the tokens for the resources.
            #expect(try await CommandHarness.run(["token", "--refresh", "--config", path]).status == 0)
            let again = try await CommandHarness.run(["token", "--resource", resources[0], "--config", path])
            #expect(again.output == tokens[0])
            #expect(requests("/token") == 3)
            let new = try await CommandHarness.run(["token", "--resource", resources[0], "--refresh", "--config", path])
            #expect(new.status == 0 && new.output != tokens[0] && requests("/token") == 4, "\(new.standardError)")
            let out = try await CommandHarness.run(["logout", "--config", path])
            #expect(out.status == 0 && requests("/revoke") == 3, "\(out.standardError)")
            let empty = try await CommandHarness.run(["logout", "--config", path])
            #expect(
                empty.status == 0 && empty.standardError.contains("No tokens were stored."),
                "\(empty.standardError)"
            )
            let other = try await CommandHarness.run(["token", "--resource", "https://c.example.com", "--config", path])
            #expect(other.status == 2, "\(other.standardError)")
        }
    }

    /// Without a user, there is no session at the provider.
    @Test func logoutWithABrowserOnlyRevokesClientCredentialsTokens() async throws {
        try await withRobot { emulator, path, _ in
            #expect(try await CommandHarness.run(["token", "--config", path]).status == 0)
            for words in ["The tokens were revoked.", "No tokens were stored."] {
                let out = try await CommandHarness.run(["logout", "--browser", "--config", path])
                #expect(out.status == 0 && out.standardError.contains(words), "\(out.standardError)")
                #expect(!out.standardError.contains("session"), "\(out.standardError)")
            }
            #expect(emulator.requests.count { $0 == "POST /revoke" } == 1)
        }
    }

    @Test func statusSucceedsForAnExpiredClientCredentialsToken() async throws {
        try await withRobot { emulator, path, _ in
            emulator.accessTokenLifetime = 0
            #expect(try await CommandHarness.run(["token", "--config", path]).status == 0)
            let stored = try await CommandHarness.run(["status", "--json", "--config", path])
            #expect(stored.status == 0, "\(stored.standardError)")
            let state = try JSON(parsing: Array(stored.output.utf8))["state"]?.string
            #expect(state == "expired")
        }
    }

    /// The client credentials grant involves no user.
    @Test func clientCredentialsTokensAreNeverAttributedToAUser() async throws {
        try await withRobot { emulator, path, _ in
            let first = try await CommandHarness.run(["token", "--refresh", "--config", path])
            #expect(first.status == 0 && first.output.count > 20, "\(first.standardError)")
            let status = try await CommandHarness.run(["status", "--config", path])
            #expect(status.output.hasPrefix("Tokens of the client robot, which do not belong to a user\n"))
            let claims = try await CommandHarness.run(["userinfo", "--config", path])
            #expect(claims.status > 0 && claims.standardError.contains("belong to a user"), "\(claims.standardError)")
            let out = try await CommandHarness.run(["logout", "--config", path])
            #expect(
                out.standardError.contains("tokens of the client robot, which do not belong to a user, were removed."),
                "\(out.standardError)"
            )
            for outcome in [status, claims, out] { #expect(!outcome.standardError.contains("unknown user")) }
        }
    }

    /// RFC 6749 section 4.4: the grant is for confidential clients only.
    @Test func configCheckReportsMissingClientAuthentication() async throws {
        try await withRobot(["client_key": nil]) { emulator, path, _ in
            let check = try await CommandHarness.run(["config", "check", "--config", path])
            #expect(check.status == 2)
            #expect(
                check.standardError.contains(#"needs a "client_secret", a "client_key", a "client_assertion", or a"#),
                "\(check.standardError)"
            )
            #expect(emulator.requests.isEmpty)
        }
    }

    @Test func replacesAnExpiredClientCredentialsToken() async throws {
        try await withRobot { emulator, path, _ in
            emulator.accessTokenLifetime = 0
            let first = try await CommandHarness.run(["token", "--config", path])
            emulator.accessTokenLifetime = 3600
            let second = try await CommandHarness.run(["token", "--config", path])
            #expect(first.output != second.output && second.status == 0, "\(second.standardError)")
        }
    }

    @Test func reportsInvalidClientForAnUnregisteredKey() async throws {
        try await withRobot { _, path, folder in
            try FileManager.default.removeItem(atPath: "\(folder)/key.pem")
            _ = try await CommandHarness.run(["keys", "new", "\(folder)/key.pem"])
            let outcome = try await CommandHarness.run(["token", "--config", path])
            #expect(outcome.status > 0 && outcome.output.isEmpty)
            #expect(outcome.standardError.contains("invalid_client"), "\(outcome.standardError)")
        }
    }

    @Test func aKeyFileThatOthersCanReadIsAConfigurationError() async throws {
        try await withRobot { emulator, path, folder in
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: "\(folder)/key.pem")
            let outcome = try await CommandHarness.run(["token", "--config", path])
            #expect(outcome.status == 2)
            #expect(
                outcome.standardError.contains("chmod 600") && outcome.standardError.contains("client_key"),
                "\(outcome.standardError)"
            )
            #expect(emulator.requests.isEmpty)
        }
    }

    @Test func signsInWithFAPI2MessageSigningByConfigurationAlone() async throws {
        let changes: [String: String?] = [
            "flow": nil, "security_profile": #""fapi2-message-signing""#, "scopes": #"["openid", "profile"]"#,
        ]
        try await withRobot(changes) { emulator, path, _ in
            emulator.pushedRequests = .always
            emulator.dpop = .requiredWithNonce
            let text = try String(contentsOfFile: path, encoding: .utf8)
            let agent = """
                "user_agent": {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, \
                "origins": ["\(emulator.issuer)"]},
                """
            try text.replacing("\"client_id\"", with: "\(agent)\n\"client_id\"")
                .write(toFile: path, atomically: true, encoding: .utf8)
            let login = try await CommandHarness.run(
                ["login", "--config", path],
                environment: ["PASSWORD": "wonderland"]
            )
            #expect(login.status == 0, "\(login.standardError)")
            let visited = emulator.receivedRequests.first { $0.path == "/authorize" }
            #expect(visited?.query.names.sorted() == ["client_id", "request_uri"])
        }
    }

    /// The file of a key contains no algorithm.
    @Test(arguments: ["RSA-OAEP", "ECDH-ES+A256KW"])
    func publishesAndShowsADecryptionKeyForItsAlgorithm(_ algorithm: String) async throws {
        try await CommandHarness.withConfiguration("{}") { _, folder in
            let path = "\(folder)/key.pem"
            let made = try await CommandHarness.run(["keys", "new", path, "--algorithm", algorithm])
            let arguments = ["keys", "jwks", path, "--decryption", "--algorithm"]
            let set = try await CommandHarness.run(arguments + [algorithm])
            #expect(set.status == 0 && set.output == made.output, "\(set.output)\(set.standardError)")
            #expect(try await CommandHarness.run(arguments + ["RSA1_5"]).status == 2)
            #expect(try await CommandHarness.run(["keys", "jwks", path, "--algorithm", algorithm]).status == 2)
            let show = ["keys", "show", path, "--algorithm", algorithm]
            let shown = try await CommandHarness.run(show + ["--decryption"])
            #expect(shown.status == 0 && shown.output.hasSuffix("\nalgorithms  \(algorithm)\n"), "\(shown.output)")
            #expect(try await CommandHarness.run(show).status == 2)
        }
    }

    @Test(arguments: [("ES256", []), ("ECDH-ES", ["--decryption"])] as [(String, [String])])
    func showsAndPublishesAKeyAndRejectsTheSameKeyTwice(_ algorithm: String, _ options: [String]) async throws {
        try await CommandHarness.withConfiguration("{}") { _, folder in
            let path = "\(folder)/key.pem"
            let made = try await CommandHarness.run(["keys", "new", path, "--algorithm", algorithm])
            let kid = try #require(try JSON(parsing: Array(made.output.utf8))["keys"]?.array?.first?["kid"]?.string)
            let shown = try await CommandHarness.run(["keys", "show", path] + options)
            #expect(shown.status == 0 && shown.output.contains(algorithm), "\(shown.output)\(shown.standardError)")
            #expect(shown.output.hasPrefix("kid         \(kid)\n"))
            let set = try await CommandHarness.run(["keys", "jwks", path] + options)
            #expect(set.status == 0 && set.output.contains("\"kid\": \"\(kid)\""), "\(set.standardError)")
            let twice = try await CommandHarness.run(["keys", "jwks", path, path] + options)
            #expect(twice.status == 2 && twice.output.isEmpty)
            #expect(twice.standardError.contains("Two of the keys have the same kid"), "\(twice.standardError)")
        }
    }

    @Test func anExistingFileIsNotReplacedByANewKey() async throws {
        try await CommandHarness.withConfiguration("{}") { path, _ in
            let outcome = try await CommandHarness.run(["keys", "new", path])
            #expect(outcome.status == 2 && outcome.standardError.contains("already exists"))
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "{}")
        }
    }
}
