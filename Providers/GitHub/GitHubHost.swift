public import AuthFlow

/// Where a GitHub lives: its pages at one address, its API at another.
public struct GitHubHost: Sendable, Hashable {
    /// Where people and the OAuth endpoints are, such as `https://github.com`.
    public let pagesURL: String

    /// Where the REST API is, such as `https://api.github.com`.
    public let apiURL: String

    /// `github.com`.
    public static let dotCom = GitHubHost(pagesURL: "https://github.com", apiURL: "https://api.github.com")

    private init(pagesURL: String, apiURL: String) {
        self.pagesURL = pagesURL
        self.apiURL = apiURL
    }

    /// Reads the name of a host.
    /// - Parameter name: `github.com`, a tenant such as `example.ghe.com`, or the host of a GitHub Enterprise Server; or an
    ///   address such as `https://github.example.com:8443`.
    /// - Throws: ``AuthFlow/AuthError`` with `invalid_configuration` when it is none of these.
    public init(_ name: String) throws(AuthError) {
        let endpoint = try Endpoint(name.contains("://") ? name : "https://\(name)", name: "GitHub host")
        guard endpoint.path.isEmpty || endpoint.path == "/", endpoint.query == nil else {
            throw AuthError(.invalidConfiguration, "The GitHub host \"\(endpoint)\" has more than a host in it.")
        }
        if endpoint.host == "github.com" {
            self = .dotCom
        } else if endpoint.host.hasSuffix(".ghe.com") {
            self.init(pagesURL: endpoint.origin, apiURL: "https://api.\(endpoint.host)")
        } else {
            self.init(pagesURL: endpoint.origin, apiURL: "\(endpoint.origin)/api/v3")
        }
    }
}
