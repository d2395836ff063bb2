import AuthFlow
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Testing

/// `authflow curl` with the token of a profile.
@Suite struct CurlCommandTests {
    /// Signs in with a profile whose APIs are at the provider's origin, and runs `body` with a function that runs the
    /// tool with this profile.
    private func signedIn(
        _ body: (
            _ emulator: OIDCEmulator,
            _ folder: String,
            _ tool: (_ arguments: [String]) async throws -> CommandHarness.Outcome
        ) async throws -> Void
    ) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let origins = ["api_origins": "[\"\(emulator.issuer)\"]"]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, origins)) {
                path,
                folder in
                let tool: (_ arguments: [String]) async throws -> CommandHarness.Outcome = { arguments in
                    try await CommandHarness.run(
                        arguments + ["--config", path, "--profile", "work"],
                        environment: ["PASSWORD": "wonderland"]
                    )
                }
                let login = try await tool(["login"])
                #expect(login.status == 0, "\(login.standardError)")
                try await body(emulator, folder, tool)
            }
        }
    }

    /// The profile's own token is not restricted to the resource.
    @Test func anOptionForAResourceExcludesTheTokenOfTheProfile() async throws {
        try await signedIn { emulator, _, tool in
            let userInfo = "\(emulator.issuer)/userinfo"
            let own = try await tool(["curl", userInfo])
            #expect(own.status == 0 && own.output.contains("248289761001"), "\(own.standardError)")
            for options in [
                ["--at", emulator.issuer], ["--resource", emulator.issuer], ["--scope", "orders"], ["--assume-origin"],
            ] {
                let outcome = try await tool(["curl", userInfo] + options)
                #expect(outcome.status == 4 && outcome.output.isEmpty, "\(options): \(outcome.output)")
                #expect(
                    outcome.standardError.contains("No user is signed in to \(emulator.issuer)"),
                    "\(options): \(outcome.standardError)"
                )
            }
        }
    }

    @Test(
        "The message about an invalid header field does not contain the field",
        arguments: ["X-Key s3cr3t", "X Key: s3cr3t"]
    )
    func doesNotShowAnInvalidHeaderField(_ field: String) async throws {
        try await signedIn { emulator, _, tool in
            let outcome = try await tool(["curl", "\(emulator.issuer)/orders", "-H", "Accept: */*", "-H", field])
            #expect(outcome.status == 2 && outcome.output.isEmpty)
            #expect(
                outcome.standardError.contains("Header field 2 (-H) is not of the form"),
                "\(outcome.standardError)"
            )
            #expect(!outcome.standardError.contains("s3cr3t"), "\(outcome.standardError)")
        }
    }

    @Test func aSignInToAnotherResourceDoesNotReplaceTheTokenOfTheProfile() async throws {
        try await signedIn { emulator, _, tool in
            let login = try await tool(["login", "\(emulator.issuer)/orders"])
            #expect(login.status == 0, "\(login.standardError)")
            let outcome = try await tool(["curl", "\(emulator.issuer)/userinfo"])
            #expect(outcome.status == 0 && outcome.output.contains("248289761001"), "\(outcome.standardError)")
        }
    }

    @Test func theAdviceAfterARejectedTokenDependsOnTheChallenge() async throws {
        try await signedIn { emulator, _, tool in
            for (challenge, words) in [
                (#"Bearer error="invalid_token""#, "status 401. Sign in again: authflow login --config"),
                (
                    #"Bearer error="insufficient_user_authentication", acr_values="mfa""#,
                    "The API requires stronger or more recent authentication. Repeat the request with --sign-in"
                ),
            ] {
                emulator.customResponse = { exchange in
                    guard exchange.request.path == "/api" else { return exchange.response }
                    return TransportResponse(
                        head: HTTPResponse(status: .unauthorized, headerFields: [.wwwAuthenticate: challenge])
                    )
                }
                let outcome = try await tool(["curl", "\(emulator.issuer)/api"])
                #expect(outcome.status == 4, "\(outcome.standardError)")
                #expect(outcome.standardError.contains(words), "\(outcome.standardError)")
            }
        }
    }

    /// The request would be sent with tokens that are lost when the program exits.
    @Test func noRequestIsSentIfTheTokensOfTheSignInCannotBeStored() async throws {
        try await signedIn { emulator, folder, tool in
            let names = try FileManager.default.contentsOfDirectory(atPath: "\(folder)/store")
            let name = try #require(names.first { $0.hasSuffix(".json") })
            let file = "\(folder)/store/\(name)"
            emulator.customResponse = { exchange in
                if exchange.request.path == "/api" {
                    return TransportResponse(head: HTTPResponse(status: .unauthorized))
                }
                if exchange.request.path == "/token" {
                    // The file can no longer be replaced, even by root.
                    try? FileManager.default.removeItem(atPath: file)
                    try? FileManager.default.createDirectory(
                        atPath: "\(file)/full",
                        withIntermediateDirectories: true
                    )
                }
                return exchange.response
            }
            let outcome = try await tool(["curl", "\(emulator.issuer)/api", "--sign-in"])
            #expect(
                outcome.status == 8 && outcome.standardError.contains("is not a regular file"),
                "\(outcome.standardError)"
            )
            // Only the request before the sign-in.
            #expect(emulator.requests.count { $0 == "GET /api" } == 1)
        }
    }
}
