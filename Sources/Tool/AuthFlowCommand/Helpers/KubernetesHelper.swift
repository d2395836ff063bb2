import ArgumentParser
import AuthFlow
import AuthFlowEssentials

extension CredentialCommand {
    /// The exec credential plugin of client-go (client.authentication.k8s.io).
    struct Kubernetes: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "kubernetes",
            abstract: "The exec credential plugin for kubectl and other Kubernetes clients.",
            discussion: """
                In a kubeconfig file: {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "authflow", "args": ["credential", \
                "kubernetes", "--profile", "NAME"], "provideClusterInfo": true, "interactiveMode": "Never"}}
                """
        )

        @OptionGroup var options: ProfileOptions

        func run() async throws {
            func refusal(_ reason: String) -> AuthError { AuthError(.invalidConfiguration, reason) }
            let asked = try ExecInformation(ToolEnvironment.host.environment["KUBERNETES_EXEC_INFO"])
            let choice = options.helperChoice
            let profile = try choice.file().profile(options.profile)
            guard let settings = try profile.helpers().kubernetes else {
                throw refusal(
                    "The profile \"\(profile.name)\" has no \"kubernetes\" in its \"helpers\", so its tokens must not be sent to API servers."
                )
            }
            if !settings.servers.isEmpty {
                let servers = settings.servers
                guard !asked.skipsVerification else {
                    throw refusal(
                        "The kubeconfig file disables verification of the server's certificate, so the server is not authenticated."
                    )
                }
                // A proxy or a different TLS server name can direct the request to a server that is not listed.
                guard !asked.redirectsConnection else {
                    throw refusal(
                        "The kubeconfig file specifies a proxy or a different TLS server name (proxy-url, tls-server-name), so other servers could receive the token."
                    )
                }
                // A certificate authority from the kubeconfig file could issue a certificate for any server.
                guard try asked.names(authoritiesOf: settings.certificateAuthorities) else {
                    throw refusal(
                        "The kubeconfig file names a certificate authority that is not in the profile's \"ca_file\", so the connection may be to a different server. Add the cluster's certificate authority to that file if you trust it."
                    )
                }
                guard let server = asked.server else {
                    throw refusal(
                        "The profile lists the servers that may receive its token, but the kubeconfig file does not provide the URL of the server: set \"provideClusterInfo\": true."
                    )
                }
                guard let endpoint = try? Endpoint(server), servers.contains(where: { $0.isSame(as: endpoint) }) else {
                    throw refusal(
                        "The server \(DisplayText.sanitized(server)) is not listed in \"servers\", so it may not receive the profile's token."
                    )
                }
            }
            let (token, end) = try await HelperTokens.fresh(settings.token, of: choice.client())
            var status: [String: JSON] = ["token": .string(token.exposed)]
            // Without an expiry, the token is used until the server rejects it, and the rejected request fails.
            if let end {
                // A token's expiry can be arbitrarily far in the future, but years in RFC 3339 have only four digits.
                let now = ToolEnvironment.host.now()
                let last = min(max(now, end.addingTimeInterval(-30)), now.addingTimeInterval(86_400 * 365))
                status["expirationTimestamp"] = .string(last.formatted(.iso8601))
            }
            try Terminal.result([
                "apiVersion": .string(asked.version), "kind": "ExecCredential", "status": .object(status),
            ])
        }
    }
}

/// The information that client-go passes to its plugin in an environment variable.
private struct ExecInformation {
    private static let versions = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"]

    /// The API version of the response.
    let version: String
    /// The URL of the API server; nil unless the kubeconfig file provides it.
    let server: String?
    /// Whether verification of the server's certificate is disabled.
    let skipsVerification: Bool
    /// Whether the connection goes through a proxy, or the server's certificate is checked against a different name.
    let redirectsConnection: Bool
    /// The CA certificates for the server, in PEM format; nil for the system's certificate authorities.
    private let authorities: String?

    init(_ text: String?) throws(AuthError) {
        guard let text, !text.isEmpty else {
            // Called manually.
            (version, server, skipsVerification, redirectsConnection) = (Self.versions[0], nil, false, false)
            authorities = nil
            return
        }
        guard let json = try? JSON(parsing: Array(text.utf8)), json["kind"] == "ExecCredential",
            let version = json["apiVersion"]?.string
        else { throw AuthError(.invalidConfiguration, "KUBERNETES_EXEC_INFO is not a valid ExecCredential.") }
        guard Self.versions.contains(version) else {
            throw AuthError(
                .invalidConfiguration,
                "\(DisplayText.sanitized(version)) is not supported: use \(Self.versions.joined(separator: " or "))."
            )
        }
        self.version = version
        self.server = json["spec"]?["cluster"]?["server"]?.string
        self.skipsVerification = json["spec"]?["cluster"]?["insecure-skip-tls-verify"] == true
        self.authorities = json["spec"]?["cluster"]?["certificate-authority-data"].map { value in
            value.string.flatMap { Data(base64Encoded: $0) }.map { String(decoding: $0, as: UTF8.self) } ?? ""
        }
        self.redirectsConnection = ["proxy-url", "tls-server-name"].contains { json["spec"]?["cluster"]?[$0] != nil }
    }

    /// Whether every certificate authority in the kubeconfig file is also in the profile's file.
    /// - Throws: ``AuthFlow/AuthError`` with `invalid_configuration` when the file cannot be read.
    func names(authoritiesOf path: String?) throws(AuthError) -> Bool {
        guard let authorities else { return true }
        guard let path else { return false }
        guard let bytes = BoundedFile.contents(ofPlainFile: path, maximumSize: 1024 * 1024) else {
            throw AuthError(.invalidConfiguration, "\(DisplayText.sanitized(path)) cannot be read, or is too large.")
        }
        let trusted = Set(PEMBlock.blocks(in: String(decoding: bytes, as: UTF8.self)).compactMap(\.content))
        let named = PEMBlock.blocks(in: authorities).map(\.content)
        return !named.isEmpty && named.allSatisfy { $0.map(trusted.contains) ?? false }
    }
}

extension Endpoint {
    /// Whether two API server URLs identify the same server. Behind one host, the path may select the cluster.
    fileprivate func isSame(as other: Endpoint) -> Bool {
        origin == other.origin && path.droppingTrailingSlash == other.path.droppingTrailingSlash && query == other.query
    }
}
