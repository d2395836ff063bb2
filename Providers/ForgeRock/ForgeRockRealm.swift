public import AuthFlow

/// A realm of a ForgeRock (PingAM) server: the URLs of its trees and of its OAuth 2.0 provider.
public struct ForgeRockRealm: Sendable, Hashable {
    /// The scheme, host and port of the server.
    public let origin: String

    /// The URL of the realm's REST API.
    let restURL: String

    /// The URL of the realm's OAuth 2.0 provider, which is also its default issuer.
    let oauthURL: String

    /// Creates a realm.
    /// - Parameters:
    ///   - baseURL: The server's URL with its context path, such as `https://id.example.com/am`.
    ///   - path: The realm, such as `/` or `/alpha/sales`.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration`.
    public init(baseURL: String, path: String = "/") throws(AuthError) {
        let base = try Endpoint(baseURL, name: "base_url")
        let names = path.split(separator: "/").map(String.init)
        let isName = names.allSatisfy {
            $0.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } && !$0.contains { "?#%\\".contains($0) }
        }
        guard base.query == nil, isName, !names.contains("..") else {
            throw AuthError(
                .invalidConfiguration,
                "The realm \"\(DisplayText.sanitized(path))\" of \(base) is not valid. Use a base URL without a query, and a path such as / or /alpha/sales."
            )
        }
        let context = base.url.hasSuffix("/") ? String(base.url.dropLast()) : base.url
        let realm = (["root"] + names).map { "realms/\($0)" }.joined(separator: "/")
        self.origin = base.origin
        self.restURL = "\(context)/json/\(realm)"
        self.oauthURL = "\(context)/oauth2/\(realm)"
    }
}
