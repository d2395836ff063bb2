import CommandHarness
import Foundation
import Testing

/// `authflow config check`.
@Suite struct ConfigCommandTests {
    /// Only an `authflow.json`, which may have been placed in the working directory by others, must be trusted.
    @Test func configCheckReadsAFileWithAnotherNameWithoutTrust() async throws {
        let text = CommandHarness.profile("https://id.example.com", ["user_agent": nil])
        try await CommandHarness.withConfiguration(text) { path, folder in
            let other = "\(folder)/other.json"
            try FileManager.default.moveItem(atPath: path, toPath: other)
            let outcome = try await CommandHarness.run(["config", "check", other], environment: ["HOME": folder])
            #expect(outcome.status == 0 && outcome.output == "  ok  work\n", "\(outcome.standardError)")
        }
    }

    @Test(arguments: ["resource_client", "resource_server", "server"])
    func aFileWithAnUnknownKeyInASectionIsNotTrusted(_ section: String) async throws {
        let text = CommandHarness.profile("https://id.example.com").dropLast() + #", "\#(section)": {"bogus": 1}}"#
        try await CommandHarness.withConfiguration(String(text)) { path, folder in
            for command in ["trust", "check"] {
                let outcome = try await CommandHarness.run(["config", command, path], environment: ["HOME": folder])
                #expect(outcome.status == 2, "\(outcome.standardError)")
                #expect(outcome.standardError.contains(#"unknown key "bogus""#), "\(outcome.standardError)")
            }
        }
    }

    /// A web application uses the store of its profile.
    @Test func configCheckReportsAnUnusableStoreOnce() async throws {
        let text = """
            {
              "profiles": {
                "work": {
                  "provider": "oidc", "issuer": "https://id.example.com", "client_id": "app",
                  "client_secret": {"command": ["echo", "secret"]}, "redirect_uri": "https://app.example.com/callback",
                  "store": {"name": "redis", "url": "redis://db.example.com"}
                }
              },
              "server": {"providers": [{"name": "work", "profile": "work"}]}
            }
            """
        try await CommandHarness.withConfiguration(text) { path, _ in
            let outcome = try await CommandHarness.run(["config", "check", "--config", path])
            #expect(outcome.status == 2, "\(outcome.standardError)")
            let lines = outcome.output.split(separator: "\n")
            #expect(lines.count == 1 && lines.first?.contains("Redis") == true, "\(outcome.output)")
        }
    }
}
