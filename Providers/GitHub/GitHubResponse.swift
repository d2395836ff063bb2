public import AuthFlow
import AuthFlowMarkup

// GitHub responds in the format that `Accept` requests, such as XML, and with a form-encoded body if an intermediary
// drops that header field.

extension GitHubProvider: ResponseParsing {
    /// Parses JSON, forms and XML. Scopes are separated by commas, instead of the spaces of RFC 6749 section 3.3.
    public func parameters(of response: ProviderResponse) throws -> JSON {
        let isXML = ["application/xml", "text/xml"].contains(response.http.mediaType)
        let parameters = isXML ? try Self.members(of: response.http.body) : try response.parameters()
        guard var members = parameters.object, let scope = members["scope"]?.string else { return parameters }
        members["scope"] = .string(scope.replacing(",", with: " "))
        return .object(members)
    }

    /// The members of `<OAuth><access_token>...</access_token>...</OAuth>`.
    private static func members(of body: [UInt8]) throws(AuthError) -> JSON {
        let root = try XMLElement.root(of: body, from: "GitHub")
        var members: [String: JSON] = [:]
        for element in root.children {
            // GitHub's XML has no repeated or nested elements.
            guard element.children.isEmpty, members[element.name] == nil else {
                throw AuthError(.invalidResponse, "GitHub's XML response has an unexpected structure.")
            }
            members[element.name] = .string(element.text)
        }
        guard root.name == "OAuth" else { throw AuthError(.invalidResponse, "GitHub's XML has an unexpected root.") }
        return .object(members)
    }
}
