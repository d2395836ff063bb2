import ArgumentParser
import AuthFlow
import AuthFlowJSON

extension CredentialCommand {
    /// The protocol of Docker's credential helpers (docker-credential-helpers), which Podman and Skopeo use as well.
    struct Docker: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Docker's credential helper, by its name docker-credential-authflow.",
            discussion: """
                {"credHelpers": {"registry.example.com": "authflow"}} in ~/.docker/config.json uses it. A profile lists in "helpers" \
                the registries that its token is for.
                """
        )

        @OptionGroup var options: ProfileOptions

        @Argument(help: "What the program wants: get, store, erase or list.")
        var operation: String

        func run() async throws {
            do {
                switch operation {
                case "get": try await get(input())
                case "list": try list()
                // The access token that was handed out is not kept twice, and a refused one is not the end of the sign-in.
                case "erase": try await erase(input())
                case "store":
                    _ = try input()
                    try refuse(
                        "authflow keeps no passwords: sign in with authflow login, and list the registry in \"helpers\"."
                    )
                default: try refuse("unknown operation")
                }
            } catch let error as HelperAnswered {
                throw error
            } catch {
                // Programs show what is on standard output.
                try refuse(ExitStatus.message(for: error))
            }
        }

        private func input() throws -> String {
            String(decoding: try HelperInput.all(), as: UTF8.self).trimmingWhitespace()
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
            guard let credential = try await client.credential(), credential.tokens.refreshToken != nil else { return }
            _ = try await client.credential(replacing: credential.tokens.accessToken)
        }

        private func list() throws {
            var users: [String: JSON] = [:]
            _ = try options.helperChoice.first { settings in
                for registry in settings.docker?.registries ?? [] {
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

        /// A registry, as a host or by the address that some programs name it by: `https://index.docker.io/v1/`.
        private static func names(_ registry: String) -> Set<String> {
            let text = registry.lowercased()
            let name = text.hasPrefix("https://") ? String(text.dropFirst(8)) : text
            // Another scheme names no registry.
            return name.contains("://") ? [] : [String(name.prefix { $0 != "/" })]
        }

        /// The words by which the programs know that there is no credential, and go on without one.
        private static let notFound = "credentials not found in native keychain"

        private func refuse(_ message: String) throws {
            Terminal.result(message)
            throw HelperAnswered()
        }
    }
}
