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

    @Option(help: "How long access tokens last, in seconds.")
    var tokenLifetime: Int64 = 3600

    @Option(
        help: "How long a refresh token that was used may be used again, in seconds; after that it ends the session."
    )
    var refreshLeeway = 0.0

    func validate() throws {
        if let port, !(1...65_535).contains(port) { throw ValidationError("--port takes 1 to 65535.") }
    }

    func run() async throws {
        try await EmulatorServer.run(port: port) { issuer in
            try OIDCEmulator(issuer: issuer)
        } _: { emulator in
            emulator.accessTokenLifetime = tokenLifetime
            emulator.refreshPolicy = .rotating(leeway: refreshLeeway)
            Terminal.result(emulator.issuer)
            Terminal.talk(
                "The test provider runs. Sign in as alice / wonderland; client_id authflow-demo. Ctrl-C ends it."
            )
            while true { try await Task.sleep(for: .seconds(3600)) }
        }
    }
}
