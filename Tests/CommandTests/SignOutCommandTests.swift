import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import Testing

/// `authflow logout --browser`, which also shows the provider's sign-out page.
@Suite struct SignOutCommandTests {
    struct Obstacle: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let changes: [String: String?]
        var environment: [String: String] = [:]
        let words: String
        var status: Int32 = 1
    }

    private static let redirect = #""http://127.0.0.1/callback""#

    static let obstacles = [
        Obstacle(testDescription: "no redirect URI", changes: [:], words: "post_logout_redirect_uri", status: 2),
        Obstacle(
            testDescription: "no display and no terminal",
            changes: ["post_logout_redirect_uri": redirect, "user_agent": #""loopback""#],
            words:
                "Nothing was removed, because the provider's sign-out page cannot be shown here"
        ),
        Obstacle(
            testDescription: "the port of the redirect URI is in use",
            changes: ["post_logout_redirect_uri": #""ISSUER/callback""#, "user_agent": #""loopback""#],
            environment: ["DISPLAY": ":9"],
            words: "Nothing was removed, because the provider's sign-out page cannot be shown here"
        ),
    ]

    private func withUser(
        _ changes: [String: String?],
        environment: [String: String] = [:],
        interruptWhen: (@Sendable (String) -> Bool)? = nil,
        _ body: @Sendable (_ run: @Sendable ([String]) async throws -> CommandHarness.Outcome) async throws -> Void
    ) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, folder in
                let login = try await CommandHarness.run(
                    ["login", "--config", path],
                    environment: ["PASSWORD": "wonderland"],
                    folder: folder
                )
                #expect(login.status == 0, "\(login.standardError)")
                // Another configuration file, in another directory, that specifies the same store.
                try await CommandHarness.withConfiguration(
                    CommandHarness.profile(
                        emulator.issuer,
                        changes.mapValues { $0?.replacingOccurrences(of: "ISSUER", with: emulator.issuer) }
                            .merging(["store": #"{"name": "file", "directory": "\#(folder)/store"}"#]) { $1 }
                    )
                ) { path, _ in
                    try await body { arguments in
                        try await CommandHarness.run(
                            arguments + ["--config", path],
                            environment: ["PASSWORD": "wonderland"].merging(environment) { $1 },
                            interruptWhen: interruptWhen
                        )
                    }
                }
            }
        }
    }

    @Test(arguments: obstacles) func removesNothingIfTheSignOutPageCannotBeShown(_ obstacle: Obstacle) async throws {
        try await withUser(obstacle.changes, environment: obstacle.environment) { run in
            let logout = try await run(["logout", "--browser"])
            #expect(
                logout.status == obstacle.status && logout.standardError.contains(obstacle.words),
                "\(logout.standardError)"
            )
            #expect(try await run(["status"]).status == 0)
        }
    }

    /// The tokens are removed before the page is shown.
    @Test func anInterruptedSignOutPageIsReported() async throws {
        let changes = [
            "post_logout_redirect_uri": Self.redirect,
            "user_agent": #"{"name": "loopback", "browser": ["/bin/true", "%s"]}"#,
        ]
        try await withUser(changes, interruptWhen: { $0.hasSuffix("(Ctrl-C to stop).\n") }) { run in
            let logout = try await run(["logout", "--browser"])
            #expect(logout.status == 130, "\(logout.standardError)")
            let words = "You are signed out on this machine, but your session at the provider may still be active.\n"
            #expect(logout.standardError.hasSuffix("\(words)Cancelled.\n"), "\(logout.standardError)")
            #expect(try await run(["status"]).status == 4)
        }
    }

    @Test func aLocalSignOutOfAnUnknownAccountFailsAndRemovesNothing() async throws {
        try await withUser([:]) { run in
            let logout = try await run(["logout", "--local", "--account", "nobody"])
            #expect(logout.status == 4, "\(logout.standardError)")
            #expect(logout.standardError.contains(#"The account "nobody" is not signed in."#))
            #expect(try await run(["status"]).status == 0)
        }
    }

    /// The files were removed, or the variable was unset, after the sign-in.
    @Test(
        arguments: [
            ["client_secret": #"{"file": "/nonexistent"}"#], ["client_secret": #"{"env": "NO_SUCH_VARIABLE"}"#],
            ["client_key": #""/nonexistent""#, "signed_requests": "true"], ["dpop_key": #""/nonexistent""#],
            ["decryption_key": #""/nonexistent""#, "encrypted_responses": #"["id_token"]"#],
            ["client_certificate": #""/nonexistent""#, "client_authentication": #""tls_client_auth""#],
            ["ca_file": #""/nonexistent""#], ["client_key": #""/nonexistent""#, "security_profile": #""fapi2""#],
        ]
    )
    func aLocalSignOutNeedsNeitherTheSecretNorTheKeysOfTheProfile(_ changes: [String: String]) async throws {
        try await withUser(changes) { run in
            let unusable = try await run(["status"])
            #expect(unusable.status == 2, "\(unusable.standardError)")
            let logout = try await run(["logout", "--local"])
            #expect(logout.status == 0, "\(logout.standardError)")
            #expect(logout.standardError == "Signed out on this machine.\n")
            #expect(try await run(["logout", "--local"]).standardError == "No user was signed in.\n")
        }
    }

    @Test func theSessionAtTheProviderMayRemainIfNoUserIsSignedIn() async throws {
        try await withUser(["post_logout_redirect_uri": Self.redirect]) { run in
            #expect(try await run(["logout", "--local"]).status == 0)
            #expect(try await run(["logout"]).status == 0)
            let logout = try await run(["logout", "--browser"])
            #expect(
                logout.status == 9 && logout.standardError.contains("may still be active"),
                "\(logout.standardError)"
            )
        }
    }
}
