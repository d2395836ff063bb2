public import AuthFlow
public import AuthFlowJSON
import Foundation

#if canImport(FoundationXML)
import FoundationXML
#endif

// GitHub answers as `Accept` asks, which can be XML, and with a form when something on the way has lost the field.

extension GitHubProvider {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func parameters(of reply: ProviderReply) throws -> JSON {
        guard ["application/xml", "text/xml"].contains(reply.http.mediaType) else { return try reply.parameters() }
        return try OAuthDocument.members(of: reply.http.body)
    }

    /// Reads the tokens. Scopes come with commas between them.
    public func tokens(from reply: ProviderReply, in context: ProviderContext) throws -> TokenSet {
        var tokens = try standardTokens(from: reply, in: context)
        tokens.scopes = tokens.scopes.flatMap { $0.split(separator: ",").map(String.init) }
        return tokens
    }
}

/// `<OAuth><access_token>...</access_token>...</OAuth>`.
private final class OAuthDocument: NSObject, XMLParserDelegate {
    private var path: [String] = []
    private var members: [String: String] = [:]

    static func members(of body: [UInt8]) throws(AuthError) -> JSON {
        let document = OAuthDocument()
        let parser = XMLParser(data: Data(body))
        parser.delegate = document
        // Declarations define entities, which such a reply has no use for. Foundation on Linux crashes on names that are not
        // UTF-8.
        guard let text = String(validating: body, as: UTF8.self), !text.contains("<!"), parser.parse() else {
            throw AuthError(.invalidReply, "GitHub's reply is not XML that can be read.")
        }
        return .object(document.members.mapValues(JSON.string))
    }

    func parser(
        _ parser: XMLParser,
        didStartElement name: String,
        namespaceURI: String?,
        qualifiedName: String?,
        attributes: [String: String]
    ) {
        path.append(name)
        guard path.first == "OAuth", path.count < 3, members[name] == nil else { return parser.abortParsing() }
        if path.count == 2 { members[name] = "" }
    }

    func parser(_ parser: XMLParser, foundCharacters text: String) {
        if path.count == 2, let name = path.last { members[name]? += text }
    }

    func parser(_ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?) {
        path.removeLast()
    }
}
