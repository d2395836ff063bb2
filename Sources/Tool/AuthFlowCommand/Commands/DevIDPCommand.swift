import ArgumentParser
import AuthFlow
import AuthFlowEssentials
import AuthFlowTesting

struct DevIDPCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dev-idp",
        abstract: "Run the bundled test provider on this machine until Ctrl-C, and print its issuer.",
        discussion:
            "It prints the test user's credentials and the client to use. Access tokens are JWTs if the request names a resource (\"resources\" in a profile), and opaque otherwise."
    )

    /// The providers that can be emulated.
    enum Provider: String, ExpressibleByArgument, CaseIterable {
        case oidc
        case github
        case okta
        case forgerock
    }

    @Option(help: "The provider to emulate.")
    var provider = Provider.oidc

    @Option(help: "The port; default: any free port.")
    var port: Int?

    @Option(help: "The lifetime of access tokens, in seconds.")
    var tokenLifetime: Int64 = 3600

    @Option(
        help: "The leeway for the reuse of a rotated refresh token, in seconds; later reuse ends the session."
    )
    var refreshLeeway = 0.0

    @Option(help: "The URL of a web application, which is registered as the client authflow-web with a secret.")
    var webClient: String?

    @Option(
        help:
            "A file with the public keys of a machine-to-machine client, as printed by authflow keys new. Its client_id is \"robot\".",
        completion: .file()
    )
    var machineClient: String?

    @Option(help: "The lifetime of ForgeRock's persistent cookie, in seconds.")
    var cookieLifetime = 3600

    @Flag(help: "Emulate a protected resource, which is an MCP server, and its authorization server.")
    var resource = false

    @Option(
        help:
            "With --resource: the behavior to emulate, as the number or the name of a scenario in docs/conformance.md, such as 27 or auth/iss-wrong-issuer."
    )
    var scenario: String?

    func validate() throws {
        guard scenario == nil || resource else { throw ValidationError("--scenario needs --resource.") }
        guard provider == .oidc || !resource else { throw ValidationError("--resource requires --provider oidc.") }
        guard provider == .oidc && !resource || webClient == nil && machineClient == nil else {
            throw ValidationError(
                "--web-client and --machine-client require --provider oidc, and cannot be combined with --resource."
            )
        }
        guard (-315_360_000...315_360_000).contains(tokenLifetime), (0...315_360_000).contains(refreshLeeway),
            (-315_360_000...315_360_000).contains(cookieLifetime)
        else {
            throw ValidationError(
                "--token-lifetime and --cookie-lifetime (negative for tokens and cookies that have expired) and --refresh-leeway are limited to 315360000 seconds."
            )
        }
        if let scenario, ResourceScenario.named(scenario) == nil {
            throw ValidationError(
                "\"\(scenario)\" is not a scenario. Known: \(ResourceScenario.all.map(\.name).joined(separator: ", "))."
            )
        }
        if let webClient {
            guard let url = try? Endpoint(webClient), url.query == nil, !url.path.hasSuffix("/") else {
                throw ValidationError(
                    "--web-client must be a URL without a query or a trailing slash, such as http://127.0.0.1:8400."
                )
            }
        }
        if let port, !(1...65_535).contains(port) { throw ValidationError("--port must be a number from 1 to 65535.") }
    }

    func run() async throws {
        do {
            if resource { try await runResource() } else { try await runProvider() }
        } catch let error as AuthError where error.code == .portBusy {
            throw AuthError(
                .portBusy,
                "Port \(port ?? 0) is in use by another program. Choose another --port, or omit it to use any free port."
            )
        }
    }

    private func runProvider() async throws {
        switch provider {
        case .oidc:
            let machine = try machineClient.map { try Self.machineClient(keys: $0) }
            let clients = [.demo] + (webClient.map { [Self.webClient(of: $0)] } ?? []) + (machine.map { [$0] } ?? [])
            try await serve {
                try OIDCEmulator(issuer: $0, clients: clients)
            } _: { emulator in
                emulator.accessTokenLifetime = tokenLifetime
                emulator.refreshPolicy = .rotating(leeway: refreshLeeway)
                emulator.hasSessionIDs = webClient != nil
                return (
                    emulator.issuer,
                    "alice / wonderland; client_id authflow-demo"
                        + (webClient == nil ? "" : ", or authflow-web with the secret \(Self.webSecret)")
                        + (machine.map { ", or \($0.id) with its key and the client_credentials flow." } ?? ".")
                )
            }
        case .okta:
            try await serve {
                try OktaEmulator(origin: $0)
            } _: { emulator in
                emulator.custom.accessTokenLifetime = tokenLifetime
                let apps = OktaEmulator.apps.map(\.id).joined(separator: " and ")
                return (emulator.custom.issuer, "alice / wonderland; the apps are \(apps).")
            }
        case .forgerock:
            try await serve {
                try ForgeRockEmulator(origin: $0)
            } _: { emulator in
                emulator.oauth.accessTokenLifetime = tokenLifetime
                emulator.settings.trees["persistent"] = .persistentCookie(seconds: cookieLifetime)
                let words = "alice / wonderland; realm /alpha, client_id authflow-demo, acr_values persistent-cookie."
                return (emulator.baseURL, words)
            }
        case .github:
            try await serve {
                GitHubEmulator(origin: $0)
            } _: { emulator in
                emulator.settings.accessTokenLifetime = tokenLifetime
                let app = GitHubEmulator.App()
                return (emulator.origin, "octocat / meow; client_id \(app.id), client_secret \(app.secret).")
            }
        }
    }

    private static let webSecret = "authflow-web-secret"

    private static func webClient(of origin: String) -> OIDCEmulator.Client {
        OIDCEmulator.Client(
            id: "authflow-web",
            secret: webSecret,
            authenticationMethod: "client_secret_basic",
            redirectURIs: ["\(origin)/callback", "\(origin)/"]
        )
    }

    private static func machineClient(keys file: String) throws -> OIDCEmulator.Client {
        var client = OIDCEmulator.Client(id: "robot", authenticationMethod: "private_key_jwt", redirectURIs: [])
        guard let text = FileManager.default.contents(atPath: file), let keys = try? JSON(parsing: Array(text)) else {
            throw ValidationError("\(DisplayText.sanitized(file, limit: 200)) cannot be read, or is not JSON.")
        }
        client.jwks = keys
        return client
    }

    private func runResource() async throws {
        var settings = scenario.flatMap(ResourceScenario.named)?.settings ?? ResourceSettings()
        if scenario == nil {
            settings.toolScopes = ["mcp:write"]
            settings.hasSessions = true
            settings.supportsOnlyPOST = false
        }
        settings.tokenLifetime = Int(tokenLifetime)
        settings.refreshes = scenario == nil
        let stepUp = settings.toolScopes.isEmpty ? "" : " The tool test-tool requires an additional scope (step-up)."
        try await serve { [settings] in
            ProtectedResourceEmulator(origin: $0, settings: settings)
        } _: { emulator in
            (emulator.resource, "any user: every request is approved automatically.\(stepUp)")
        }
    }

    /// Runs an emulator until the task is cancelled.
    /// - Parameter prepare: Changes the settings of the emulator, and returns its URL and the instructions for signing in.
    private func serve<Emulator: ProviderEmulator>(
        _ make: (_ origin: String) throws -> Emulator,
        _ prepare: (Emulator) -> (address: String, words: String)
    ) async throws {
        try await EmulatorServer.run(port: port) {
            LoggedEmulator(try make($0), log: Terminal.printMessage)
        } _: { logged in
            let (address, words) = prepare(logged.base)
            Terminal.result(address)
            Terminal.printMessage("The test provider is running. Sign in as \(words) Press Ctrl-C to stop it.")
            while true { try await Task.sleep(for: .seconds(3600)) }
        }
    }
}
