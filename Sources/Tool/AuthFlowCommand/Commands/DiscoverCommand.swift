import ArgumentParser
import AuthFlow

struct DiscoverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "discover",
        abstract: "Print the metadata document of a provider, identified by an issuer, an account or a profile."
    )

    @Argument(help: "The issuer, or an account such as joe@example.com (WebFinger); default: the profile's issuer.")
    var issuer: String?

    @OptionGroup var options: ProfileOptions

    func run() async throws {
        let server: AuthorizationServer
        if let issuer {
            server = AuthorizationServer(
                issuer: try await Self.issuer(issuer),
                transport: ToolEnvironment.transport,
                host: ToolEnvironment.host
            )
        } else {
            server = try options.choice.client().server
        }
        try Terminal.result(try await server.metadata().json)
    }

    /// The issuer itself, or the issuer that WebFinger finds for an account.
    static func issuer(_ text: String) async throws -> String {
        guard text.contains("@") else { return text }
        let issuer = try await WebFinger(transport: ToolEnvironment.transport).issuer(of: text)
        Terminal.printMessage("The issuer of \(DisplayText.sanitized(text)) is \(issuer).")
        return issuer
    }
}
