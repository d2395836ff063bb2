import ArgumentParser
import AuthFlow
import AuthFlowHeadless
import AuthFlowLoopback
import AuthFlowTesting

struct TryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "try",
        abstract: "Sign in against the bundled test provider, over real sockets, and show each step.",
        discussion:
            "Needs no configuration and stores nothing. With --user-agent loopback, you sign in with your browser."
    )

    /// The user agents that can be tried.
    enum Agent: String, ExpressibleByArgument, CaseIterable {
        case headless
        case loopback
    }

    @Option(help: "The user agent for the sign-in.")
    var userAgent = Agent.headless

    @Flag(name: [.short, .long], help: "Show every event.")
    var verbose = false

    func run() async throws {
        let (userAgent, verbose) = (userAgent, verbose)
        let signIn = try await EmulatorServer.run { issuer in
            try OIDCEmulator(issuer: issuer)
        } _: { emulator in
            Terminal.printMessage(
                "The test provider is running at \(emulator.issuer). Sign in as alice with the password wonderland."
            )
            let registration = try ClientRegistration(clientID: OIDCEmulator.Client.demo.id) {
                $0.scopes = ["openid", "profile", "email"]
            }
            let server = AuthorizationServer(issuer: emulator.issuer)
            let client = AuthClient(
                client: OAuthClient(server: server, registration: registration),
                methods: [.userAgent(try agent(userAgent, issuer: emulator.issuer))],
                observer: Progress(isVerbose: verbose).callAsFunction
            )
            return try await client.signIn()
        }
        try Report.print(signIn.credential, asJSON: false, coversDetails: nil)
    }

    private func agent(_ agent: Agent, issuer: String) throws -> any UserAgent {
        switch agent {
        case .loopback:
            return LoopbackUserAgent()
        case .headless:
            let alice = OIDCEmulator.User.alice
            return HeadlessUserAgent(
                driver: HTMLFormDriver(
                    username: alice.username,
                    password: Secret(alice.password),
                    origins: [try Endpoint(issuer)]
                )
            )
        }
    }
}
