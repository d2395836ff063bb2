import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import Testing

/// Runs the programs of the package in `Samples` as a user would.
@Suite struct SampleTests {
    @Test func theGitHubSampleShowsTheUserAndTheGrantedScopes() async throws {
        for flow in [[], ["--device"]] {
            let sample = try await CommandHarness.run(["--emulator"] + flow, program: "github-login")
            #expect(sample.status == 0, "\(sample.standardError)")
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
            try await CommandHarness.withConfiguration(configuration("mail", emulator.origin)) { mail, folder in
                let calendar = "\(folder)/calendar.json"
                // The second app cannot enter credentials, because the provider's origin is not in its list of origins.
                try configuration("calendar", "https://nowhere.example.com")
                    .write(toFile: calendar, atomically: true, encoding: .utf8)
                var printed = ""
                @discardableResult func app(_ command: String, _ path: String, _ status: Int32) async throws -> String {
                    let outcome = try await CommandHarness.run(
                        [command, path, "--verbose"],
                        program: "okta-native-sso",
                        environment: ["PASSWORD": "wonderland"]
                    )
                    #expect(outcome.status == status, "\(outcome.output)\(outcome.standardError)")
                    printed += outcome.output + outcome.standardError
                    return outcome.output
                }
                try await app("login", mail, 0)
                #expect(try await app("login", calendar, 0).contains("without a prompt"))
                try await app("status", calendar, 0)
                let deviceSecret = try #require(custom.deviceSecrets.first)
                // Only the user can read the files, and they are unreadable without the key.
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
                for secret in secrets + ["wonderland"] { #expect(!printed.contains(secret)) }
            }
        }
    }

    @Test func theOIDCSampleShowsTheIDTokenAndItsResources() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, ["store": #""memory""#]))
            { path, folder in
                let resources = """
                    [{"scope": "profile", "title": "Profile", "url": "\(emulator.issuer)/userinfo"},
                     {"scope": "calendar", "title": "Calendar", "url": "\(emulator.issuer)/calendar"}]
                    """
                try Data(resources.utf8).write(to: URL(fileURLWithPath: "\(folder)/resources.json"))
                let outcome = try await CommandHarness.run(
                    [path, "\(folder)/resources.json"],
                    program: "oidc-login",
                    environment: ["PASSWORD": "wonderland"]
                )
                #expect(outcome.status == 0, "\(outcome.standardError)")
                #expect(outcome.output.contains("Hello, Alice Example."))
                #expect(outcome.output.contains("ES256"))
                #expect(outcome.output.contains("Calendar (calendar): not available"))
                #expect(outcome.output.contains("Profile (profile): {"))
            }
        }
    }
}
