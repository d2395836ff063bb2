public import AuthFlow
public import AuthFlowJSON
import CMarkup

// GitHub responds in the format of `Accept`, which can be XML, and with a form when an intermediary drops the field.

extension GitHubProvider: ResponseParsing {
    /// Reads JSON, forms and XML. Scopes come with commas between them, where RFC 6749 section 3.3 has spaces.
    public func parameters(of response: ProviderResponse) throws -> JSON {
        let isXML = ["application/xml", "text/xml"].contains(response.http.mediaType)
        let parameters = isXML ? try OAuthDocument.members(of: response.http.body) : try response.parameters()
        guard var members = parameters.object, let scope = members["scope"]?.string else { return parameters }
        members["scope"] = .string(scope.replacing(",", with: " "))
        return .object(members)
    }
}

/// `<OAuth><access_token>...</access_token>...</OAuth>`, read by libxml2.
private enum OAuthDocument {
    static func members(of body: [UInt8]) throws(AuthError) -> JSON {
        guard authflow_markup_open() else {
            throw AuthError(
                .invalidResponse,
                "GitHub's response is XML, which cannot be read without libxml2 (Debian: libxml2)."
            )
        }
        // Declarations define entities, which such a response has no use for.
        guard let text = String(validating: body, as: UTF8.self), !text.contains("<!"), let members = read(body) else {
            throw AuthError(.invalidResponse, "GitHub's response is not valid XML.")
        }
        return .object(members.mapValues(JSON.string))
    }

    private static func read(_ body: [UInt8]) -> [String: String]? {
        let document = unsafe body.withUnsafeBytes { buffer in
            unsafe authflow_markup_read_xml(buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
        }
        guard let document = unsafe document else { return nil }
        defer { unsafe authflow_markup_free(document) }
        guard let root = unsafe authflow_markup_root(document), unsafe name(root) == "OAuth" else { return nil }
        var members: [String: String] = [:]
        var next = unsafe authflow_markup_first_child(root)
        while let node = unsafe next {
            unsafe next = authflow_markup_next(node)
            guard unsafe authflow_markup_is_element(node) else { continue }
            let isPlain = unsafe authflow_markup_first_child(node).map {
                unsafe authflow_markup_next($0) == nil && authflow_markup_is_text($0)
            }
            // GitHub writes no name twice, and no elements inside one.
            guard isPlain != false, unsafe members[name(node)] == nil else { return nil }
            unsafe members[name(node)] = content(node)
        }
        return members
    }

    private static func name(_ node: OpaquePointer) -> String {
        unsafe authflow_markup_name(node).map { unsafe String(cString: $0) } ?? ""
    }

    private static func content(_ node: OpaquePointer) -> String {
        guard let value = unsafe authflow_markup_text(node) else { return "" }
        defer { unsafe authflow_markup_free_text(value) }
        return unsafe String(cString: value)
    }
}
