import AuthFlow
import AuthFlowGitHub

/// An API endpoint, and the scope that it requires.
struct Resource {
    let scope: String
    let title: String
    let path: String
    let name: String

    static let all = [
        Resource(scope: "user:email", title: "E-mail addresses", path: "/user/emails", name: "email"),
        Resource(scope: "read:org", title: "Organizations", path: "/user/orgs", name: "login"),
        Resource(scope: "gist", title: "Gists", path: "/gists", name: "description"),
    ]

    /// Calls the API if the scope was granted, and describes the response.
    func call(_ client: AuthClient, _ host: GitHubHost) async throws -> String {
        let granted = try await client.freshTokens().scopes
        guard GitHubScopes.covers(scope, granted: granted) else { return "not available: the scope was not granted" }
        let call = TransportRequest(
            .get,
            try Endpoint(host.apiURL + path),
            headerFields: [.accept: "application/vnd.github+json", .userAgent: "github-login"]
        )
        let response = try await client.send(call)
        guard response.status == 200 else { return "status \(response.status)" }
        let names = (try JSON(parsing: response.body).array ?? []).compactMap { $0[name]?.string }
        return names.map { DisplayText.sanitized($0) }.joined(separator: ", ")
    }
}
