import AuthFlow
import AuthFlowTesting
import CommandHarness
import Testing

/// The tool with a provider that is used without OpenID Connect.
@Suite struct PlainOAuthCommandTests {
    private func run(_ arguments: String..., at path: String) async throws -> CommandHarness.Outcome {
        try await CommandHarness.run(arguments + ["--config", path], environment: ["PASSWORD": "wonderland"])
    }

    @Test func signsInAndReportsThatTheUserIsUnknown() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let profile = CommandHarness.profile(emulator.issuer, ["scopes": #"["repo", "offline_access"]"#])
            try await CommandHarness.withConfiguration(profile) { path, _ in
                let check = try await run("config", "check", at: path)
                #expect(
                    check.status == 0 && check.output.contains("the user will not be identified"),
                    "\(check.standardError)"
                )
                let login = try await run("login", at: path)
                #expect(login.status == 0, "\(login.standardError)")
                #expect(login.output.contains("Signed in as an unknown user\n  subject       unknown\n"))
                #expect(login.output.contains("issuer        \(emulator.issuer)"))
                let status = try await run("status", at: path)
                #expect(status.status == 0 && status.output.contains("unknown user"), "\(status.output)")
                #expect(try await run("token", at: path).status == 0)
                let again = try await run("login", at: path)
                #expect(
                    again.status == 1 && again.standardError.contains("does not indicate whether this is the same user")
                )
                #expect(try await run("login", "--replace-account", at: path).status == 0)
                #expect(try await run("logout", at: path).status == 0)
                let gone = try await run("token", at: path)
                #expect(gone.status == 4, "\(gone.standardError)")
            }
        }
    }

    @Test func reportsThatTheSessionOfAnUnknownUserCannotBeRefreshed() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let profile = CommandHarness.profile(emulator.issuer, ["scopes": #"["repo"]"#])
            try await CommandHarness.withConfiguration(profile) { path, _ in
                let login = try await run("login", at: path)
                #expect(login.output.contains(", without a refresh token"), "\(login.output)")
                let status = try await run("status", at: path)
                #expect(status.output.contains(", without a refresh token"), "\(status.output)")
            }
        }
    }

    @Test func identifiesTheUserFromUserinfo() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let profile = CommandHarness.profile(
                emulator.issuer,
                ["scopes": #"["profile"]"#, "identity": #""userinfo""#]
            )
            try await CommandHarness.withConfiguration(profile) { path, _ in
                let login = try await run("login", at: path)
                #expect(
                    login.status == 0 && login.output.contains("Signed in as Alice Example"),
                    "\(login.standardError)"
                )
                #expect(try await run("login", at: path).status == 0)
            }
        }
    }

    /// Stripe, Notion and Dropbox have neither metadata nor keys.
    @Test func signsInWithConfiguredEndpointsWithoutMetadata() async throws {
        try await EmulatorServer.run {
            let emulator = try OIDCEmulator(issuer: $0)
            emulator.fault = .metadata(.response { $0.head.status = .notFound })
            return emulator
        } _: { emulator in
            let endpoints = """
                {"authorization": "\(emulator.issuer)/authorize", "token": "\(emulator.issuer)/token"}
                """
            let profile = CommandHarness.profile(emulator.issuer, ["scopes": #"["repo"]"#, "endpoints": endpoints])
            try await CommandHarness.withConfiguration(profile) { path, _ in
                let login = try await run("login", at: path)
                #expect(login.status == 0, "\(login.standardError)")
                #expect(!emulator.receivedRequests.contains { $0.path.contains(".well-known") })
            }
        }
    }

    /// `token` and `status` agree on whether the user must sign in.
    @Test func statusReportsAnEndedSessionAfterRepeatedRefreshRejections() async throws {
        try await EmulatorServer.run {
            let emulator = try OIDCEmulator(issuer: $0)
            emulator.fault = .tokenResponse(.member("expires_in", 0))
            return emulator
        } _: { emulator in
            let profile = CommandHarness.profile(emulator.issuer, ["scopes": #"["openid", "offline_access"]"#])
            try await CommandHarness.withConfiguration(profile) { path, _ in
                #expect(try await run("login", at: path).status == 0)
                emulator.customResponse = { exchange in
                    exchange.request.path == "/token"
                        ? TransportResponse(head: HTTPResponse(status: .badRequest)) : exchange.response
                }
                #expect(try await run("token", at: path).status != 4)
                #expect(try await run("status", at: path).status == 0)
                #expect(try await run("token", at: path).status == 4)
                let status = try await run("status", at: path)
                #expect(
                    status.status == 4 && status.standardError.contains("could not be refreshed"),
                    "\(status.standardError)"
                )
            }
        }
    }
}
