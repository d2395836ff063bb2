public import AuthFlow
public import AuthFlowJSON
import CLibXML2

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

/// `<OAuth><access_token>...</access_token>...</OAuth>`, read by libxml2.
private enum OAuthDocument {
    static func members(of body: [UInt8]) throws(AuthError) -> JSON {
        // Declarations define entities, which such a reply has no use for.
        guard let text = String(validating: body, as: UTF8.self), !text.contains("<!"), let members = read(body) else {
            throw AuthError(.invalidReply, "GitHub's reply is not XML that can be read.")
        }
        return .object(members.mapValues(JSON.string))
    }

    private static func read(_ body: [UInt8]) -> [String: String]? {
        // XML_PARSE_NONET: a reply must not make its reader fetch things.
        let options = Int32(
            XML_PARSE_NONET.rawValue | XML_PARSE_NOERROR.rawValue | XML_PARSE_NOWARNING.rawValue
                | XML_PARSE_NOCDATA.rawValue
        )
        let document = unsafe body.withUnsafeBytes { buffer in
            unsafe xmlReadMemory(
                buffer.baseAddress?.assumingMemoryBound(to: CChar.self),
                Int32(clamping: buffer.count),
                nil,
                nil,
                options
            )
        }
        guard let document = unsafe document else { return nil }
        defer { unsafe xmlFreeDoc(document) }
        guard let root = unsafe xmlDocGetRootElement(document), unsafe name(root) == "OAuth" else { return nil }
        var members: [String: String] = [:]
        var next = unsafe root.pointee.children
        while let node = unsafe next {
            unsafe next = node.pointee.next
            guard unsafe node.pointee.type == XML_ELEMENT_NODE else { continue }
            let isPlain = unsafe node.pointee.children.map {
                unsafe $0.pointee.next == nil && $0.pointee.type == XML_TEXT_NODE
            }
            // A name that stands twice, or has elements in it, is nothing that GitHub writes.
            guard isPlain != false, unsafe members[name(node)] == nil else { return nil }
            unsafe members[name(node)] = content(node)
        }
        return members
    }

    private static func name(_ node: xmlNodePtr) -> String {
        unsafe node.pointee.name.map { unsafe String(cString: $0) } ?? ""
    }

    private static func content(_ node: xmlNodePtr) -> String {
        guard let value = unsafe xmlNodeGetContent(node) else { return "" }
        defer { unsafe authflow_xml_free(value) }
        return unsafe String(cString: value)
    }
}
