import ArgumentParser
import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

struct RegisterCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "register",
        abstract: "Register a client with a provider (RFC 7591), and write the configuration file that uses it.",
        discussion: """
            Secrets go into files of their own beside it, which only you can read. A file that is there already is not \
            touched.
            """
    )

    /// How the client is to authenticate.
    enum Authentication: String, ExpressibleByArgument, CaseIterable {
        case none
        case clientSecretBasic = "client_secret_basic"
        case clientSecretPost = "client_secret_post"
    }

    @Argument(help: "The issuer, or an account such as joe@example.com (WebFinger).")
    var issuer: String

    @Option(name: [.short, .long], help: "The configuration file to write.")
    var output = "authflow.json"

    @Option(name: [.short, .long], help: "The name of the profile in it.")
    var profile = "default"

    @Option(help: "What the client is called on the page that the user signs in at.")
    var name: String?

    @Option(name: .customLong("redirect-uri"), help: "Where the user is sent back to; may be given more than once.")
    var redirectURIs: [String] = ["http://127.0.0.1/callback"]

    @Option(name: .customLong("scope"), help: "A scope to ask for; may be given more than once.")
    var scopes: [String] = ["openid"]

    @Option(help: "How the client authenticates. A program on people's devices cannot keep a secret: none.")
    var authentication = Authentication.none

    @Option(help: "A file with the token that the provider handed out to register with, if it wants one.")
    var initialAccessTokenFile: String?

    func run() async throws {
        // Looked at before anything is registered: the response comes once.
        let secretFile = "\(output).client-secret"
        let registrationFile = "\(output).registration"
        for path in [output, secretFile, registrationFile] where FileManager.default.fileExists(atPath: path) {
            throw AuthError(.invalidConfiguration, "\(path) is there already. Move it, or choose another --output.")
        }
        try requireUsableFolder()
        let token = try initialAccessTokenFile.map { path in
            guard let text = try? String(contentsOfFile: path, encoding: .utf8) else {
                throw AuthError(.invalidConfiguration, "\(path) cannot be read.")
            }
            return Secret(text.trimmingWhitespace())
        }
        let issuer = try await DiscoverCommand.issuer(issuer)
        let registered = try await DynamicRegistration(
            server: AuthorizationServer(issuer: issuer, transport: ToolEnvironment.transport)
        ).register(
            DynamicRegistration.Request(
                redirectURIs: try redirectURIs.map { uri in try RedirectURI(uri) },
                name: name,
                scopes: scopes,
                authenticationMethod: ClientAuthentication.Method(rawValue: authentication.rawValue)
            ),
            initialAccessToken: token
        )
        if let secret = registered.clientSecret {
            try create(secretFile, Array("\(secret.exposed)\n".utf8))
        }
        // With it the registration can be changed or removed (RFC 7592).
        try create(registrationFile, registered.metadata.exposed.serialized(indented: true))
        let configuration = configuration(registered, issuer: issuer, secretFile: secretFile)
        let text = try configuration.serialized(indented: true)
        try create(output, text)
        // What was written here a moment ago needs no second look.
        if URL(fileURLWithPath: output).lastPathComponent == ConfigurationChoice.localName {
            _ = try ConfigurationTrust().trust(output, content: text)
        }
        Terminal.talk("Registered. What the provider said is in \(registrationFile).")
        Terminal.talk("Sign in: authflow login --config \(output)")
        try Terminal.result(configuration)
    }

    /// Passes when files can be created where the configuration is to be, and the configuration will be believed there: what the
    /// provider says about a new client comes once.
    private func requireUsableFolder() throws {
        let probe = PrivateFile(absolute("\(output).probe-\(UUID().uuidString)"))
        guard try probe.create(with: []) else {
            throw AuthError(.storageFailed, "\(output) cannot be created.")
        }
        defer { try? probe.remove() }
        _ = try ConfigurationFile.contents(ofFile: probe.path)
    }

    private func configuration(
        _ registered: DynamicRegistration.Registered,
        issuer: String,
        secretFile: String
    ) -> JSON {
        var profile: [String: JSON] = [
            "provider": "oidc",
            "issuer": .string(issuer),
            "client_id": .string(registered.clientID),
            "redirect_uri": .string(redirectURIs.first ?? ""),
            "scopes": .array(scopes.map(JSON.string)),
        ]
        if registered.clientSecret != nil {
            profile["client_secret"] = ["file": .string(URL(fileURLWithPath: secretFile).lastPathComponent)]
            profile["client_authentication"] = .string(registered.authentication.method.rawValue)
        }
        return ["profiles": .object([self.profile: .object(profile)])]
    }

    /// Creates a file, and leaves one alone that has come meanwhile.
    private func create(_ path: String, _ bytes: [UInt8]) throws {
        guard try PrivateFile(absolute(path)).create(with: bytes) else {
            throw AuthError(.storageFailed, "\(path) is there by now, and was not touched.")
        }
    }

    private func absolute(_ path: String) -> String {
        path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
    }
}
