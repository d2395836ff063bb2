import AuthFlow
import AuthFlowTesting
import CommandHarness
import Foundation
import Testing

/// `authflow handle-redirect`, which the desktop runs for a private-use URI scheme.
@Suite struct RedirectCommandTests {
    private static let changes: [String: String?] = [
        "user_agent": nil, "redirect_uri": #""com.example.authflow:/callback""#,
    ]

    /// Writes the desktop entry for the scheme into the user's data directory.
    private func registerScheme(_ folder: String) throws {
        let directory = "\(folder)/data/applications"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        try Data().write(to: URL(fileURLWithPath: "\(directory)/authflow-com.example.authflow.desktop"))
    }

    @Test func theWaitingLoginTakesOnlyTheRedirectThatItExpects() async throws {
        try await EmulatorEnvironment.with(.sockets) { provider in
            let profile = CommandHarness.profile(provider.emulator.issuer, Self.changes)
            try await CommandHarness.withConfiguration(profile) { path, folder in
                try registerScheme(folder)
                // Short, because the path of a socket is limited to about a hundred characters.
                let runtime = "/tmp/authflow-\(UUID().uuidString.prefix(8))"
                try FileManager.default.createDirectory(
                    atPath: runtime,
                    withIntermediateDirectories: false,
                    attributes: [.posixPermissions: 0o700]
                )
                defer { try? FileManager.default.removeItem(atPath: runtime) }
                let variables = ["XDG_RUNTIME_DIR": runtime, "XDG_DATA_HOME": "\(folder)/data"]
                let login = try await CommandHarness.signIn(
                    ["login", "--config", path],
                    at: provider,
                    variables: variables
                ) { redirect in
                    func handle(_ url: String) async throws -> CommandHarness.Outcome {
                        try await CommandHarness.run(
                            ["handle-redirect", url],
                            environment: variables,
                            isAlone: false
                        )
                    }
                    let other = try await handle(redirect.replacing("authflow:", with: "other:"))
                    #expect(other.status == 1 && other.standardError.contains("waiting, but not for this redirect"))
                    // A pasted URL may be surrounded by spaces.
                    let taken = try await handle(" \(redirect) ")
                    #expect(taken.status == 0, "\(taken.standardError)")
                }
                #expect(login.status == 0, "\(login.standardError)")
                #expect(login.standardError.contains("User agent: system-browser"), "\(login.standardError)")
            }
        }
    }

    @Test func anEmptyLineOnStandardInputIsNotARedirect() async throws {
        let outcome = try await CommandHarness.run(
            ["-c", #"echo | "$0" handle-redirect"#, CommandHarness.folder.appendingPathComponent("authflow").path],
            program: "/bin/sh",
            environment: ["XDG_RUNTIME_DIR": "/tmp"]
        )
        #expect(outcome.status == 1 && outcome.standardError.contains("No URL was given."), "\(outcome.standardError)")
    }

    /// Another program may have made the pipe or the terminal non-blocking. The URL arrives later than the first attempt to read it.
    @Test func aRedirectIsReadFromANonBlockingStandardInput() async throws {
        let script = #"""
            import fcntl, os, select, subprocess, sys
            reader, writer = os.pipe()
            fcntl.fcntl(reader, fcntl.F_SETFL, os.O_NONBLOCK)
            tool = subprocess.Popen([sys.argv[1], "handle-redirect"], stdin=reader, stderr=subprocess.PIPE)
            # Ends early if the tool reports that there is no URL.
            if not select.select([tool.stderr], [], [], 1)[0]: os.write(writer, b"com.example:/callback?state=s\n")
            print(tool.stderr.read().decode(), end="")
            """#
        let outcome = try await CommandHarness.run(
            ["-c", script, CommandHarness.folder.appendingPathComponent("authflow").path],
            program: "/usr/bin/python3",
            environment: ["XDG_RUNTIME_DIR": "/tmp"]
        )
        #expect(outcome.output.contains("No login of this user on this machine is waiting"), "\(outcome)")
    }

    @Test(arguments: [false, true])
    func loginSaysHowToRegisterTheSchemeUnlessItIsRegistered(_ isRegistered: Bool) async throws {
        // No server is listening at this issuer's URL, and no request is sent to it.
        let profile = CommandHarness.profile("http://127.0.0.1:1", Self.changes)
        try await CommandHarness.withConfiguration(profile) { path, folder in
            if isRegistered { try registerScheme(folder) }
            let login = try await CommandHarness.run(
                ["login", "--config", path],
                environment: ["XDG_DATA_HOME": "\(folder)/data"]
            )
            #expect(login.status == 4, "\(login.standardError)")
            let command = "authflow scheme install com.example.authflow"
            #expect(login.standardError.contains(command) == !isRegistered, "\(login.standardError)")
        }
    }
}
