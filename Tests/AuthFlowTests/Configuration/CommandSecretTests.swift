import AuthFlow
import AuthFlowJSON
import Foundation
import Testing

#if os(Linux)
/// A secret that is read from a command's standard output.
@Suite struct CommandSecretTests {
    private static let word = ConfigurationKey("word", required: .secret, "The secret word.")

    private func secret(
        _ command: String,
        _ environment: [String: String] = ["PATH": "/usr/bin:/bin"],
        in directory: String = "."
    ) throws -> Secret {
        let text = #"{"profiles": {"p": {"provider": "fake", "client_id": "c", "word": {"command": COMMAND}}}}"#
            .replacing("COMMAND", with: command)
        let found = Found()
        let factory = ProviderFactory("fake", keys: [Self.word]) { profile in
            found.secret = try profile[Self.word]
            throw AuthError(.unsupported, "The word is read.")
        }
        let profile = try ConfigurationFile(text: Array(text.utf8), directory: directory).profile()
        do {
            _ = try AuthClient(
                profile: profile,
                providers: [factory],
                userAgents: [],
                host: HostServices(environment: environment)
            )
        } catch let error as AuthError where error.code == .unsupported {}
        return try #require(found.secret)
    }

    private final class Found: @unchecked Sendable {  // Used by one thread, before and after the call.
        var secret: Secret?
    }

    @Test func aCommandSecretIsTheStandardOutputWithoutItsFinalNewline() throws {
        #expect(try secret(#"["printf", "a b\n"]"#) == Secret("a b"))
        #expect(
            try secret(#"["sh", "-c", "echo $WORD"]"#, ["PATH": "/usr/bin:/bin", "WORD": "open"]) == Secret("open")
        )
        // The arguments are not interpreted by a shell.
        #expect(try secret(#"["echo", "$HOME; `id`"]"#) == Secret("$HOME; `id`"))
    }

    @Test func aSecretThatIsNotUTF8IsRejectedInsteadOfChanged() throws {
        let error = #expect(throws: ConfigurationError.self) { try secret(#"["printf", "\\377x"]"#) }
        #expect(error?.description.contains("is not UTF-8 text") == true, "\(error?.description ?? "")")
    }

    /// A program in the working directory, which may be an attacker's repository, is never run.
    @Test func aRelativeProgramPathIsResolvedInTheConfigurationDirectory() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("beside-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: "\(folder)/bin", withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        for name in ["get", "bin/get"] {
            _ = FileManager.default.createFile(
                atPath: "\(folder)/\(name)",
                contents: Data("#!/bin/sh\necho \(name)\n".utf8),
                attributes: [.posixPermissions: 0o700]
            )
        }
        #expect(try secret(#"["./get"]"#, in: folder) == Secret("get"))
        #expect(try secret(#"["bin/get"]"#, in: folder) == Secret("bin/get"))
        // Relative directories in PATH are not searched either.
        #expect(throws: ConfigurationError.self) { try secret(#"["get"]"#, ["PATH": ".:bin"], in: folder) }
    }

    @Test func aSecretCommandsStandardInputIsEmptyAndNotATerminal() throws {
        #expect(try secret(#"["sh", "-c", "cat; test -t 0 || echo none"]"#) == Secret("none"))
    }

    @Test func errorsDoNotContainTheOutputOfAFailedSecretCommand() throws {
        let error = #expect(throws: ConfigurationError.self) {
            try secret(#"["sh", "-c", "echo hunter2; echo hunter3 >&2; exit 3"]"#)
        }
        #expect(error.map { "\($0)" }?.contains("status 3") == true)
        #expect(error.map { "\($0)" }?.contains("hunter") == false)
    }
}
#endif
