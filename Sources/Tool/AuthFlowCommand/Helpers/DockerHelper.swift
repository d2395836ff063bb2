import ArgumentParser
import AuthFlow

extension CredentialCommand {
    /// The protocol of Docker's credential helpers (docker-credential-helpers), which Podman and Skopeo also use.
    struct Docker: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "docker",
            abstract: "Docker credential helper, also available as docker-credential-authflow.",
            discussion: """
                To use it, add {"credHelpers": {"registry.example.com": "authflow"}} to ~/.docker/config.json. "helpers" in a \
                profile lists registries that may receive its token.
                """
        )

        @OptionGroup var options: ProfileOptions

        @Argument(help: "The operation that the program requests: get, store, erase or list.")
        var operation: String

        func run() async throws {
            do {
                switch operation {
                case "get": try await get(try await input())
                case "list": try list()
                // Requested after a rejection or by "docker logout": the access token is refreshed, and the user stays signed in.
                case "erase": try await erase(try await input())
                case "store":
                    _ = try await input()
                    try refuse(
                        "authflow does not store passwords: sign in with authflow login, and list the registry in \"helpers\"."
                    )
                default: try refuse("unknown operation")
                }
            } catch let error as HelperDeclined {
                throw error
            } catch {
                try Task.checkCancellation()
                // The calling programs show the error message from standard output.
                try refuse(ExitStatus.message(for: error))
            }
        }

        private func input() async throws -> String {
            String(decoding: try await HelperInput.all(), as: UTF8.self).trimmingWhitespace()
        }

        private func get(_ server: String) async throws {
            guard let found = try profile(for: server) else { return try refuse(Self.notFound) }
            let (token, _) = try await HelperTokens.fresh(.accessToken, of: found.choice.client())
            try Terminal.result([
                "ServerURL": .string(server), "Username": .string(found.docker.username),
                "Secret": .string(token.exposed),
            ])
        }

        private func erase(_ server: String) async throws {
            guard let found = try profile(for: server) else { return }
            let client = try found.choice.client()
            guard let credential = try await client.credential(),
                credential.tokens.refreshToken != nil || client.isWithoutUser
            else { return }
            _ = try await client.credential(replacing: credential.tokens.accessToken)
        }

        private func list() throws {
            var users: [String: JSON] = [:]
            _ = try options.helperChoice.first { settings in
                // As in "get", the first profile that lists a registry is used.
                for registry in settings.docker?.registries ?? [] where users[registry] == nil {
                    users[registry] = .string(settings.docker?.username ?? "")
                }
                return nil as Bool?
            }
            try Terminal.result(.object(users))
        }

        private func profile(for server: String) throws
            -> (choice: ProfileChoice, docker: CredentialHelperSettings.Docker)?
        {
            let names = Self.names(server)
            return try options.helperChoice.first { settings in
                settings.docker.flatMap { docker in
                    docker.registries.contains { !names.isDisjoint(with: Self.names($0)) } ? docker : nil
                }
            }.map { ($0.choice, $0.found) }
        }

        /// The host of a registry, with its port, which some programs give as a URL (`https://index.docker.io/v1/`); empty for other schemes.
        private static func names(_ registry: String) -> Set<String> {
            let text = registry.lowercased()
            let name = text.hasPrefix("https://") ? String(text.dropFirst(8)) : text
            // A URL with a different scheme is not a registry.
            return name.contains("://") ? [] : [String(name.prefix { $0 != "/" }).withoutPort(443)]
        }

        /// The error message for a missing credential, after which the calling programs continue without credentials.
        private static let notFound = "credentials not found in native keychain"

        private func refuse(_ message: String) throws {
            Terminal.result(message)
            throw HelperDeclined()
        }
    }
}
