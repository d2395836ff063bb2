public import AuthFlow

/// The URLs of a GitHub instance: one for the pages, and one for the API.
public struct GitHubHost: Sendable, Hashable {
    /// The URL of the pages and the OAuth endpoints, such as `https://github.com`.
    public let webURL: String

    /// The URL of the REST API, such as `https://api.github.com`.
    public let apiURL: String

    /// `github.com`.
    public static let dotCom = GitHubHost(webURL: "https://github.com", apiURL: "https://api.github.com")

    private init(webURL: String, apiURL: String) {
        self.webURL = webURL
        self.apiURL = apiURL
    }

    /// Parses the name of a host.
    /// - Parameter name: `github.com`, a tenant such as `example.ghe.com`, or the host of a GitHub Enterprise Server; or a
    ///   URL such as `https://github.example.com:8443`.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration` when the name is not valid.
    public init(_ name: String) throws(AuthError) {
        let endpoint = try Endpoint(name.contains("://") ? name : "https://\(name)", name: "GitHub host")
        guard endpoint.path.isEmpty || endpoint.path == "/", endpoint.query == nil else {
            throw AuthError(
                .invalidConfiguration,
                "The GitHub host \"\(endpoint)\" must be a host name, without a path or query."
            )
        }
        // Users may copy the host of the API or of a gist.
        let isPublic = ["github.com", "www.github.com", "api.github.com", "gist.github.com"].contains(endpoint.host)
        let labels = endpoint.host.split(separator: ".")
        if isPublic {
            self = .dotCom
        } else if endpoint.host.hasSuffix(".github.com") || endpoint.host == "ghe.com" {
            throw AuthError(
                .invalidConfiguration,
                "\(endpoint.host) is not a GitHub instance that users can sign in to. Use github.com, NAME.ghe.com, or the host of an Enterprise Server."
            )
        } else if endpoint.host.hasSuffix(".ghe.com") {
            // "api.NAME.ghe.com", like every other subdomain, belongs to the tenant "NAME.ghe.com".
            guard let tenant = labels.dropLast(2).last, !["api", "www"].contains(tenant) else {
                throw AuthError(.invalidConfiguration, "\(endpoint.host) does not name a tenant. Use NAME.ghe.com.")
            }
            self.init(webURL: "https://\(tenant).ghe.com", apiURL: "https://api.\(tenant).ghe.com")
        } else {
            self.init(webURL: endpoint.origin, apiURL: "\(endpoint.origin)/api/v3")
        }
    }
}
