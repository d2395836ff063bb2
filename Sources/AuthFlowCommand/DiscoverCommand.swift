import ArgumentParser
import AuthFlow
import AuthFlowLoopback
import AuthFlowOIDC

struct DiscoverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "discover",
        abstract: "Print a provider's metadata document: that of an issuer, or of a profile."
    )

    @Argument(help: "The issuer. Without it, that of the profile.")
    var issuer: String?

    @OptionGroup var options: ProfileOptions

    func run() async throws {
        let client: AuthClient
        if let issuer {
            client = AuthClient(
                settings: try ClientSettings(clientID: "discover"),
                provider: OIDCProvider(issuer: issuer),
                userAgent: LoopbackUserAgent(launcher: nil)
            )
        } else {
            client = try options.client()
        }
        try Terminal.result(try await client.metadata().json)
    }
}
