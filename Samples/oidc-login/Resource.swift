import AuthFlow
import Foundation

/// A protected resource, and the scope that it requires.
struct Resource {
    let scope: String
    let title: String
    let endpoint: Endpoint

    /// Reads `resources.json`: an array of objects with `scope`, `title` and `url`.
    static func list(in path: String) throws -> [Resource] {
        guard let data = FileManager.default.contents(atPath: path) else { return [] }
        return try (JSON(parsing: data).array ?? []).map { entry in
            Resource(
                scope: entry["scope"]?.string ?? "",
                title: entry["title"]?.string ?? "",
                endpoint: try Endpoint(entry["url"]?.string ?? "", name: "url of \(path)")
            )
        }
    }

    /// Calls the resource if its scope was granted, and describes the response.
    func call(with tokens: TokenSet) async throws -> String {
        guard tokens.scopes.contains(scope) else { return "not available: the scope was not granted" }
        let call = TransportRequest(
            .get,
            endpoint,
            headerFields: [.authorization: "Bearer \(tokens.accessToken.exposed)", .accept: "application/json"]
        )
        let response = try await SystemTransport().send(call)
        guard response.status == 200 else { return "status \(response.status)" }
        return try text(try response.json(from: title))
    }
}

/// A JSON value as text, with one member per line.
func text(_ json: JSON) throws -> String {
    String(decoding: try json.serialized(indented: true), as: UTF8.self)
}
