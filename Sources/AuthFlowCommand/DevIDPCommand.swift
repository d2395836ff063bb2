import ArgumentParser
import AuthFlow
import AuthFlowTesting

struct DevIDPCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dev-idp",
        abstract: "Run the bundled test provider on this machine until Ctrl-C, and print its issuer.",
        discussion: "It says who can sign in, and which client to use."
    )

    /// The providers that can be emulated.
    enum Provider: String, ExpressibleByArgument, CaseIterable {
        case oidc
        case github
        case okta
        case forgerock
    }

    @Option(help: "Which provider.")
    var provider = Provider.oidc

    @Option(help: "The port; any free one unless given.")
    var port: Int?

    @Option(help: "How long access tokens last, in seconds.")
    var tokenLifetime: Int64 = 3600

    @Option(
        help: "How long a refresh token that was used may be used again, in seconds; after that it ends the session."
    )
    var refreshLeeway = 0.0

    @Option(help: "How long ForgeRock's persistent cookie lasts, in seconds.")
    var cookieLifetime = 3600

    func validate() throws {
        if let port, !(1...65_535).contains(port) { throw ValidationError("--port takes 1 to 65535.") }
    }

    func run() async throws {
        switch provider {
        case .oidc:
            try await EmulatorServer.run(port: port) {
                try OIDCEmulator(issuer: $0)
            } _: { emulator in
                emulator.accessTokenLifetime = tokenLifetime
                emulator.refreshPolicy = .rotating(leeway: refreshLeeway)
                try await wait(emulator.issuer, "alice / wonderland; client_id authflow-demo.")
            }
        case .okta:
            try await EmulatorServer.run(port: port) {
                try OktaEmulator(origin: $0)
            } _: { emulator in
                emulator.custom.accessTokenLifetime = tokenLifetime
                let apps = OktaEmulator.apps.map(\.id).joined(separator: " and ")
                try await wait(emulator.custom.issuer, "alice / wonderland; the apps are \(apps).")
            }
        case .forgerock:
            try await EmulatorServer.run(port: port) {
                try ForgeRockEmulator(origin: $0)
            } _: { emulator in
                emulator.oauth.accessTokenLifetime = tokenLifetime
                emulator.settings.trees["persistent"] = .persistentCookie(seconds: cookieLifetime)
                let words = "alice / wonderland; realm /alpha, client_id authflow-demo, acr_values persistent-cookie."
                try await wait(emulator.baseURL, words)
            }
        case .github:
            try await EmulatorServer.run(port: port) {
                GitHubEmulator(origin: $0)
            } _: { emulator in
                emulator.settings.accessTokenLifetime = tokenLifetime
                let app = GitHubEmulator.App()
                try await wait(emulator.origin, "octocat / meow; client_id \(app.id), client_secret \(app.secret).")
            }
        }
    }

    private func wait(_ address: String, _ words: String) async throws {
        Terminal.result(address)
        Terminal.talk("The test provider runs. Sign in as \(words) Ctrl-C ends it.")
        while true { try await Task.sleep(for: .seconds(3600)) }
    }
}
