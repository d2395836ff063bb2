import ArgumentParser
import AuthFlow
import AuthFlowTesting

struct DevIDPCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dev-idp",
        abstract: "Run the bundled test provider on this machine until Ctrl-C, and print its issuer.",
        discussion: "Sign in as alice with the password wonderland. The client is authflow-demo, without a secret."
    )

    @Option(help: "The port; any free one unless given.")
    var port: Int?

    func validate() throws {
        if let port, !(1...65_535).contains(port) { throw ValidationError("--port takes 1 to 65535.") }
    }

    func run() async throws {
        try await EmulatorServer.run(port: port) { issuer in
            try OIDCEmulator(issuer: issuer)
        } _: { emulator in
            Terminal.result(emulator.issuer)
            Terminal.talk(
                "The test provider runs. Sign in as alice / wonderland; client_id authflow-demo. Ctrl-C ends it."
            )
            while true { try await Task.sleep(for: .seconds(3600)) }
        }
    }
}
