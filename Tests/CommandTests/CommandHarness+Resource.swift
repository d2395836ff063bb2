import AuthFlow
import AuthFlowTesting
import CommandHarness
import Foundation

extension CommandHarness {
    /// Runs the tool in an environment in which a browser signs the user in.
    struct ResourceCommands: Sendable {
        /// The working directory, whose subdirectory `data` is the user's data directory.
        let folder: String
        fileprivate let browser: String

        func callAsFunction(_ arguments: [String], program: String = "authflow") async throws -> Outcome {
            try await CommandHarness.run(
                arguments,
                program: program,
                environment: [
                    "XDG_DATA_HOME": "\(folder)/data", "XDG_CONFIG_HOME": "\(folder)/config", "BROWSER": browser,
                    "DISPLAY": ":0",
                ],
                folder: folder
            )
        }
    }

    /// A protected resource, and the tool in a directory without files other than an optional `authflow.json`.
    static func withResource(
        _ settings: ResourceSettings = ResourceSettings(),
        localConfiguration: @escaping @Sendable (_ resource: String) -> String? = { _ in nil },
        _ body: @Sendable (_ emulator: ProtectedResourceEmulator, _ run: ResourceCommands) async throws -> Void
    ) async throws {
        try await withConfiguration("{}") { _, folder in
            let browser = "\(folder)/browser"
            try Data("#!/bin/sh\nexec curl -sL -o /dev/null --max-time 20 \"$1\"\n".utf8).write(
                to: URL(fileURLWithPath: browser)
            )
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: browser)
            try await EmulatorServer.run {
                ProtectedResourceEmulator(origin: $0, settings: settings)
            } _: { emulator in
                if let text = localConfiguration(emulator.resource) {
                    try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder)/authflow.json"))
                }
                try await body(emulator, ResourceCommands(folder: folder, browser: browser))
            }
        }
    }
}
