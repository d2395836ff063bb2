public import AuthFlow
public import AuthFlowJSON
import Foundation

#if canImport(FoundationXML)
import FoundationXML
#endif

// GitHub answers as `Accept` asks, and in forms when something on the way has lost it.

extension GitHubProvider {
    /// Reads JSON, a form or XML, as `Content-Type` says.
    public func parameters(of reply: ProviderReply) throws -> JSON {
        switch reply.http.mediaType {
        case "application/x-www-form-urlencoded":
            guard let form = String(validating: reply.http.body, as: UTF8.self).flatMap({ FormURLEncoding.decode($0) }),
                form.names.count == form.pairs.count
            else {
                throw AuthError(.invalidReply, "The reply of \(reply.endpoint.host) is not a form that can be read.")
            }
            return .object(Dictionary(uniqueKeysWithValues: form.pairs.map { ($0.name, .string($0.value)) }))
        case "application/xml", "text/xml":
            guard let members = OAuthDocument.members(of: reply.http.body) else {
                throw AuthError(.invalidReply, "The reply of \(reply.endpoint.host) is not XML that can be read.")
            }
            return .object(members.mapValues(JSON.string))
        default:
            return try reply.json()
        }
    }

    /// Reads the tokens. Scopes come with commas between them; an error comes with status 200.
    public func tokens(from reply: ProviderReply, in context: ProviderContext) throws -> TokenSet {
        try requireWithinRateLimit(reply.http, now: context.host.now())
        var tokens = try standardTokens(from: reply, in: context)
        tokens.scopes = tokens.scopes.flatMap { $0.split(separator: ",").map(String.init) }
        return tokens
    }
}

/// `<OAuth><access_token>...</access_token>...</OAuth>`.
private final class OAuthDocument: NSObject, XMLParserDelegate {
    private var path: [String] = []
    private var members: [String: String] = [:]
    private var isWrong = false

    /// - Returns: nil when the document is anything else.
    static func members(of body: [UInt8]) -> [String: String]? {
        // Declarations define entities, which such a reply has no use for.
        guard let text = String(validating: body, as: UTF8.self), !text.contains("<!") else { return nil }
        let document = OAuthDocument()
        let parser = XMLParser(data: Data(body))
        parser.delegate = document
        return parser.parse() && !document.isWrong ? document.members : nil
    }

    func parser(
        _ parser: XMLParser,
        didStartElement name: String,
        namespaceURI: String?,
        qualifiedName: String?,
        attributes: [String: String]
    ) {
        path.append(name)
        if path.first != "OAuth" || path.count > 2 || path.count == 2 && members[name] != nil { isWrong = true }
        if path.count == 2 { members[name] = members[name] ?? "" }
    }

    func parser(_ parser: XMLParser, foundCharacters text: String) {
        if path.count == 2, let name = path.last { members[name]? += text }
    }

    func parser(_ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?) {
        path.removeLast()
    }
}
