import ArgumentParser
import AuthFlow
import AuthFlowEssentials

extension CredentialCommand {
    /// Git's credential helper protocol (gitcredentials(7), git-credential(1)).
    struct Git: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "git",
            abstract: "Git credential helper. Setup: git config --global credential.helper '!authflow credential git'",
            discussion: """
                "helpers" in a profile lists hosts that may receive its token. For other hosts, Git tries its next helper.
                """
        )

        @OptionGroup var options: ProfileOptions

        @Argument(help: "The operation that Git requests: get, store, erase or capability.")
        var operation: String

        func run() async throws {
            switch operation {
            case "get": try await get(try await GitCredential.read())
            case "erase": try await erase(try await GitCredential.read())
            case "capability": Terminal.result("version 0\ncapability authtype")
            // "store" reports that the credential was accepted. gitcredentials(7): a helper should ignore operations that it does not support.
            default: break
            }
        }

        private func get(_ asked: GitCredential) async throws {
            guard let found = try profile(for: asked) else { return }
            let (token, end) = try await HelperTokens.fresh(.accessToken, of: found.choice.client())
            var lines = try asked.lines(token, found.git)
            if let end { lines.append("password_expiry_utc=\(Int(end.timeIntervalSince1970))") }
            guard lines.allSatisfy({ !$0.utf8.contains(UInt8(ascii: "\n")) && !$0.utf8.contains(0) }) else {
                throw AuthError(
                    .invalidResponse,
                    "The user name or the access token contains a newline or a NUL byte, which Git does not accept."
                )
            }
            Terminal.result(lines.joined(separator: "\n"))
        }

        /// Git erases a credential that a server has rejected. The token is then refreshed; the user stays signed in.
        private func erase(_ refused: GitCredential) async throws {
            guard let found = try profile(for: refused), let token = refused["password"] ?? refused["credential"] else {
                return
            }
            let client = try found.choice.client()
            guard let credential = try await client.credential(), credential.tokens.accessToken == Secret(token),
                credential.tokens.refreshToken != nil || client.isWithoutUser
            else { return }
            _ = try await client.credential(replacing: Secret(token))
        }

        private func profile(for asked: GitCredential) throws
            -> (choice: ProfileChoice, git: CredentialHelperSettings.Git)?
        {
            guard let host = asked["host"]?.lowercased(), let scheme = asked["protocol"],
                // A token is sent only over TLS, or to the loopback interface.
                scheme == "https" || scheme == "http" && (try? Endpoint("http://\(host)/")) != nil
            else { return nil }
            // Git includes the port whenever the URL contains it.
            let port = scheme == "https" ? 443 : 80
            let name = host.withoutPort(port)
            return try options.helperChoice.first { settings in
                settings.git.flatMap { git in
                    let isAsked = asked["username"].map { $0 == git.username } ?? true
                    return git.hosts.contains { $0.withoutPort(port) == name } && isAsked ? git : nil
                }
            }.map { ($0.choice, $0.found) }
        }
    }
}

/// Git's description of the credential that it requests: lines of `key=value`, up to the first empty line.
private struct GitCredential {
    private let attributes: [String: String]
    private let capabilities: [String]

    static func read() async throws -> GitCredential {
        try GitCredential(
            await HelperInput.all { bytes in bytes.starts(with: [0x0A]) || bytes.suffix(2).elementsEqual([0x0A, 0x0A]) }
        )
    }

    init(_ bytes: [UInt8]) throws(AuthError) {
        var attributes: [String: String] = [:]
        var capabilities: [String] = []
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false) {
            guard !line.isEmpty else { break }
            let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else {
                throw AuthError(.invalidConfiguration, "A line of Git's request has no equals sign.")
            }
            if parts[0] == "capability[]" { capabilities.append(String(parts[1])) }
            attributes[String(parts[0])] = String(parts[1])
        }
        self.attributes = attributes
        self.capabilities = capabilities
    }

    /// The lines of the response that contain the token.
    func lines(_ token: Secret, _ settings: CredentialHelperSettings.Git) throws(AuthError) -> [String] {
        guard settings.scheme == .bearer else { return ["username=\(settings.username)", "password=\(token.exposed)"] }
        // git-credential(1): a helper should not send "authtype" unless the request contains the capability "authtype".
        guard capabilities.contains("authtype") else {
            throw AuthError(
                .unsupported,
                "This version of Git does not support the Bearer scheme: update Git to 2.46 or later, or set \"scheme\" to \"basic\"."
            )
        }
        return ["capability[]=authtype", "authtype=Bearer", "credential=\(token.exposed)", "ephemeral=1"]
    }

    subscript(name: String) -> String? { attributes[name] }
}
