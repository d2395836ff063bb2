import AuthFlow
import AuthFlowEssentials

/// The header fields that mirror parts of a request's body, starting with MCP revision 2026-07-28.
enum MirroredHeaders {
    static let method = HTTPField.Name(known: "Mcp-Method")
    static let name = HTTPField.Name(known: "Mcp-Name")
    static let version = HTTPField.Name(known: "MCP-Protocol-Version")
    static let session = HTTPField.Name(known: "Mcp-Session-Id")
    static let lastEventID = HTTPField.Name(known: "Last-Event-ID")

    /// The header fields for a message: the revision, the method, the name of the target, and the annotated arguments of a tool.
    static func fields(of message: MCPMessage, version: String, tools: [String: [ToolParameter]]) -> HTTPFields {
        var fields = HTTPFields()
        fields[Self.version] = encoded(version)
        guard let method = message.method else { return fields }
        fields[Self.method] = encoded(method)
        let params = message.json["params"]
        switch method {
        case "tools/call", "prompts/get": fields[name] = params?["name"]?.string.map(encoded)
        case "resources/read": fields[name] = params?["uri"]?.string.map(encoded)
        // SEP-2663: for these "the client MUST set the Mcp-Name header ... to the value of params.taskId".
        case "tasks/get", "tasks/update", "tasks/cancel": fields[name] = params?["taskId"]?.string.map(encoded)
        default: break
        }
        if method == "tools/call", let tool = params?["name"]?.string {
            for parameter in tools[tool] ?? [] {
                guard let value = parameter.value(in: params?["arguments"]),
                    let name = HTTPField.Name("Mcp-Param-\(parameter.header)")
                else { continue }
                fields[name] = encoded(value)
            }
        }
        return fields
    }

    /// A value encoded for a header field: unchanged if that is unambiguous, otherwise in Base64.
    static func encoded(_ value: String) -> String {
        let isPlain = value.utf8.allSatisfy { (0x20...0x7E).contains($0) }
        let hasBlankEnd = value.hasPrefix(" ") || value.hasSuffix(" ")
        let looksEncoded = value.hasPrefix("=?base64?") && value.hasSuffix("?=")
        guard !isPlain || hasBlankEnd || looksEncoded else { return value }
        return "=?base64?\(Data(value.utf8).base64EncodedString())?="
    }
}

/// An argument that the schema of its tool mirrors to a header field (`x-mcp-header`).
struct ToolParameter: Sendable, Hashable {
    /// The part of the field name after `Mcp-Param-`.
    let header: String
    /// The property names on the path to the argument.
    let path: [String]

    /// The argument as text; nil if it is not a string, an integer or a Boolean, in which case no field is sent.
    func value(in arguments: JSON?) -> String? {
        var value = arguments
        for name in path { value = value?[name] }
        switch value {
        case .string(let text)?: return text
        case .integer(let number)?: return "\(number)"
        case .bool(let flag)?: return flag ? "true" : "false"
        case .double(let number)?: return Int64(exactly: number).map { "\($0)" }
        default: return nil
        }
    }

    /// Parses a tool's annotations.
    /// - Returns: The arguments; nil when an annotation is invalid: the tool "MUST" then be excluded from the list.
    static func parameters(ofTool tool: JSON) -> [ToolParameter]? {
        var found: [ToolParameter] = []
        guard let schema = tool["inputSchema"] else { return [] }
        guard collect(schema, [], into: &found, depth: 0) else { return nil }
        // "unique without case"
        guard Set(found.map { $0.header.lowercased() }).count == found.count else { return nil }
        return found
    }

    private static func collect(_ schema: JSON, _ path: [String], into found: inout [ToolParameter], depth: Int) -> Bool
    {
        guard let members = schema.object else { return true }
        // Annotations of more deeply nested properties are not supported.
        guard depth < 32 else {
            return !members.contains { isSchema($0.key) && hasAnnotation($0.value, depth: depth + 1) }
        }
        // An annotation on the root schema has no property path.
        guard !path.isEmpty || members["x-mcp-header"] == nil else { return false }
        for (keyword, value) in members {
            if keyword == "properties", let properties = value.object {
                for (name, property) in properties {
                    guard note(property, path + [name], into: &found),
                        collect(property, path + [name], into: &found, depth: depth + 1)
                    else { return false }
                }
            } else if isSchema(keyword) {
                // An annotation whose path contains any keyword other than `properties` cannot be resolved.
                guard !hasAnnotation(value, depth: depth + 1) else { return false }
            }
        }
        return true
    }

    /// Whether a keyword's value can contain annotations.
    private static func isSchema(_ keyword: String) -> Bool {
        !["x-mcp-header", "enum", "const", "default", "examples"].contains(keyword)
    }

    private static func note(_ property: JSON, _ path: [String], into found: inout [ToolParameter]) -> Bool {
        guard let annotation = property["x-mcp-header"] else { return true }
        guard let name = annotation.string, !name.isEmpty, name.utf8.count <= maximumName,
            name.utf8.allSatisfy(\.isTokenCharacter), found.count < maximumParameters,
            path.reduce(0, { $0 + $1.utf8.count }) <= maximumPath, let type = property["type"]?.string,
            ["string", "integer", "boolean"].contains(type)
        else { return false }
        found.append(ToolParameter(header: name, path: path))
        return true
    }

    /// The maximum length of a header name, in bytes.
    private static let maximumName = 64
    /// The maximum length of a property path, in bytes.
    private static let maximumPath = 1024
    /// The maximum number of annotations per tool.
    private static let maximumParameters = 32

    private static func hasAnnotation(_ value: JSON, depth: Int) -> Bool {
        // The parser does not accept more deeply nested values.
        guard depth < 512 else { return true }
        if let members = value.object {
            return members["x-mcp-header"] != nil
                || members.contains { hasAnnotation($0.value, depth: depth + 1) }
        }
        return value.array?.contains { hasAnnotation($0, depth: depth + 1) } ?? false
    }
}

/// The `x-mcp-header` annotations of the tools that a server has listed.
struct ToolList: Sendable {
    private(set) var parameters: [String: [ToolParameter]] = [:]

    /// The maximum number of stored tools, and the maximum length of their names, in bytes.
    private static let (limit, maximumName) = (10_000, 256)

    /// Stores the annotations in a `tools/list` response, and removes tools with invalid annotations, and annotated tools with overlong names.
    /// - Returns: The response for the host, and the names of the removed tools.
    mutating func read(_ response: MCPMessage) -> (response: MCPMessage, removed: [String]) {
        guard let tools = response.json["result"]?["tools"]?.array else { return (response, []) }
        var kept: [JSON] = []
        var removed: [String] = []
        for tool in tools {
            let name = tool["name"]?.string ?? ""
            if let found = ToolParameter.parameters(ofTool: tool),
                found.isEmpty || name.utf8.count <= Self.maximumName
            {
                kept.append(tool)
                // A tool without annotations needs no entry.
                guard !found.isEmpty else {
                    parameters[name] = nil
                    continue
                }
                if parameters.count < Self.limit || parameters[name] != nil { parameters[name] = found }
            } else {
                removed.append(name)
                parameters[name] = nil
            }
        }
        guard !removed.isEmpty, var members = response.json.object, var result = members["result"]?.object else {
            return (response, [])
        }
        result["tools"] = .array(kept)
        members["result"] = .object(result)
        return (MCPMessage(.object(members)) ?? response, removed)
    }
}
