import ArgumentParser
import AuthFlow
import AuthFlowEssentials

struct ClientMetadataCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "client-metadata",
        abstract: "Create or check a client ID metadata document.",
        discussion: """
            A client with such a document needs no registration at servers that fetch it. Serve it at a dedicated https URL, and \
            set resource_client.client_id in the configuration to that URL.
            """,
        subcommands: [Make.self, Check.self],
        defaultSubcommand: Make.self
    )

    struct Make: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "make",
            abstract: "Print a client ID metadata document."
        )

        @Argument(help: "The URL at which the document will be served, which is also the client_id.")
        var url: String

        @Option(help: "The client name that authorization servers show to the user.")
        var name = "AuthFlow"

        @Option(
            name: .customLong("redirect-uri"),
            help: "A redirect URI; may be given more than once. Many servers also compare the port."
        )
        var redirectURIs: [String] = ["http://127.0.0.1/callback"]

        func run() async throws {
            let document = try ClientMetadataDocument(
                clientID: url,
                name: name,
                redirectURIs: try redirectURIs.map { uri in try RedirectURI(uri) }
            )
            try Terminal.result(document.json)
        }
    }

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check",
            abstract: "Fetch a document as an authorization server does, or read it from a file, and check it."
        )

        @Argument(help: "The URL of the document, which is also the client_id.")
        var url: String

        @Option(help: "A file that contains the document, to check it before it is served.", completion: .file())
        var file: String?

        func run() async throws {
            if let file {
                // The file may be a pipe, such as <(command) in a shell.
                let bytes = try await BlockingInput.read {
                    BoundedFile.contents(atPath: file, maximumSize: 1024 * 1024)
                }
                guard let bytes, let json = try? JSON(parsing: bytes) else {
                    throw AuthError(.invalidConfiguration, "\(file) is not a readable JSON file of at most 1 MiB.")
                }
                _ = try ClientMetadataDocument(checking: json, at: url)
            } else {
                _ = try await ClientMetadataDocument.fetch(
                    url,
                    transport: ToolEnvironment.transport,
                    host: ToolEnvironment.host
                )
            }
            Terminal.printMessage("Authorization servers can use this document.")
        }
    }
}
