import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import Testing

/// `authflow access-token check` with tokens on standard input.
@Suite struct AccessTokenCommandTests {
    @Test func theExitStatusIndicatesWhetherTheAPIWouldAcceptTheToken() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let text =
                #"{"resource_server": {"resource": "https://api.example.com/", "issuers": ["\#(emulator.issuer)"]}}"#
            try await CommandHarness.withConfiguration(text) { path, _ in
                let claims: [String: JSON] = [
                    "aud": "https://api.example.com/", "sub": "alice", "client_id": "app", "jti": "1", "scope": "read",
                ]
                let token = try emulator.assertion(claims, type: "at+jwt")
                let tool = CommandHarness.folder.appendingPathComponent("authflow").path
                for (input, options, status, words) in [
                    (token, [], 0, ""), (token, ["--scope", "read"], 0, ""),
                    (token, ["--scope", "write"], 1, "The API would reject the token."),
                    ("opaque", [], 1, "The API would reject the token."),
                    (" \n", [], 2, "There is no token on standard input."),
                    ("Bearer \(token)", [], 2, "without the header field name or the scheme"),
                ] as [(String, [String], Int32, String)] {
                    let outcome = try await CommandHarness.run(
                        [
                            "-c", #"input=$1; shift; printf %s "$input" | "$0" access-token check "$@""#, tool, input,
                            "--config", path,
                        ] + options,
                        program: "/bin/sh"
                    )
                    #expect(outcome.status == status, "\(options): \(outcome.output)\(outcome.standardError)")
                    #expect(outcome.standardError.contains(words) || words.isEmpty, "\(outcome.standardError)")
                    #expect(outcome.output.isEmpty == (status == 2), "\(outcome.output)")
                }
            }
        }
    }
}
