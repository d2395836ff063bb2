import AuthFlowTesting
import CommandHarness
import Foundation
import Testing

/// Programs that `authflow exec` starts.
@Suite struct AttachedProcessTests {
    /// The file may be executed, but the system does not recognize its format.
    @Test func aProgramThatCannotBeStartedIsReportedAndLeavesNoTokenFile() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, folder in
                let environment = ["PASSWORD": "wonderland", "XDG_RUNTIME_DIR": "\(folder)/run"]
                try FileManager.default.createDirectory(
                    atPath: "\(folder)/run",
                    withIntermediateDirectories: false,
                    attributes: [.posixPermissions: 0o700]
                )
                let program = "\(folder)/program"
                try Data("not a program\n".utf8).write(to: URL(fileURLWithPath: program))
                try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: program)
                let login = try await CommandHarness.run(["login", "--config", path], environment: environment)
                #expect(login.status == 0, "\(login.standardError)")
                for options in [[], ["--file", "TOKEN_FILE"]] {
                    let outcome = try await CommandHarness.run(
                        ["exec", "--config", path] + options + ["--", program],
                        environment: environment
                    )
                    #expect(outcome.status == 2, "\(options): \(outcome.standardError)")
                    #expect(
                        outcome.standardError.contains("\(program) could not be started: Exec format error."),
                        "\(outcome.standardError)"
                    )
                    #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder)/run").isEmpty)
                }
            }
        }
    }
}
