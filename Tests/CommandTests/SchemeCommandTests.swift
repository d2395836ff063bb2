import CommandHarness
import Foundation
import Testing

/// `authflow scheme`, on a desktop with one default handler.
@Suite struct SchemeCommandTests {
    @Test func statusFailsUnlessTheSchemeOpensWithAProgramThatCanBeExecuted() async throws {
        try await CommandHarness.withConfiguration("{}") { _, folder in
            let handler = URL(fileURLWithPath: "\(folder)/handler")
            func setHandler(_ name: String) throws { try Data("\(name)\n".utf8).write(to: handler) }
            let desktop = """
                #!/bin/sh
                if [ "$1" = query ]; then cat '\(handler.path)'; else echo "$2" > '\(handler.path)'; fi
                """
            try Data(desktop.utf8).write(to: URL(fileURLWithPath: "\(folder)/xdg-mime"))
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: "\(folder)/xdg-mime")
            func scheme(_ command: String, _ name: String = "com.example.app") async throws -> CommandHarness.Outcome {
                try await CommandHarness.run(
                    ["scheme", command, name],
                    environment: ["PATH": "\(folder):/usr/bin:/bin", "HOME": folder, "XDG_DATA_HOME": folder]
                )
            }
            func expectFailure(_ words: String) async throws {
                let status = try await scheme("status")
                #expect(status.status == 1 && status.output.isEmpty, "\(status.output)")
                #expect(status.standardError.contains(words), "\(status.standardError)")
                #expect(status.standardError.contains("Run: authflow scheme install com.example.app"))
            }

            try setHandler("")
            try await expectFailure("has no registered handler")
            let install = try await scheme("install", "com.Example.App")
            #expect(install.status == 0, "\(install.standardError)")
            let status = try await scheme("status")
            #expect(status.status == 0 && status.output.contains("opens with /"), "\(status.standardError)")

            // Another program has taken over the scheme, but the entry still exists.
            try setHandler("other.desktop")
            try await expectFailure("opens with other.desktop")
            let taken = try await scheme("install")
            let advice = "from other.desktop, run: authflow scheme install com.example.app --replace\n"
            #expect(taken.status == 2 && taken.standardError.contains(advice), "\(taken.standardError)")
            // With --replace, this scheme would be rejected, too.
            let invalid = try await scheme("install", "https")
            #expect(invalid.status == 2 && !invalid.standardError.contains("--replace"), "\(invalid.standardError)")

            // The program has been removed.
            try setHandler("authflow-com.example.app.desktop")
            let entry = URL(fileURLWithPath: "\(folder)/applications/authflow-com.example.app.desktop")
            try Data("[Desktop Entry]\nExec=\(folder)/removed handle-redirect %u\n".utf8).write(to: entry)
            try await expectFailure("which cannot be executed")
        }
    }
}
