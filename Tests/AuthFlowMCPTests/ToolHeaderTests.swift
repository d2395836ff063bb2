import AuthFlow
import AuthFlowJSON
import Testing

@testable import AuthFlowMCP

@Suite struct ToolHeaderTests {
    struct Schema: CustomTestStringConvertible {
        let name: String
        let schema: JSON
        /// The number of mirrored arguments; nil when the tool must be omitted.
        let count: Int?
        var testDescription: String { name }
    }

    private static func property(_ header: String) -> JSON { ["type": "string", "x-mcp-header": .string(header)] }

    private static func object(_ properties: [String: JSON]) -> JSON {
        ["type": "object", "properties": .object(properties)]
    }

    /// A schema with an annotated property at the given depth.
    private static func nested(_ levels: Int) -> JSON {
        (1..<levels).reduce(object(["a": property("A")])) { schema, _ in object(["a": schema]) }
    }

    /// Nested schemas of array elements.
    private static func items(_ levels: Int) -> JSON {
        (0..<levels).reduce(property("A")) { schema, _ in ["items": schema] }
    }

    private static func properties(_ count: Int) -> JSON {
        object(Dictionary(uniqueKeysWithValues: (0..<count).map { ("a\($0)", property("A\($0)")) }))
    }

    static let schemas: [Schema] = [
        Schema(name: "at the root", schema: property("A"), count: nil),
        Schema(name: "in a keyword", schema: ["anyOf": [object(["a": property("A")])]], count: nil),
        Schema(name: "in the elements of an array", schema: object(["a": items(1)]), count: nil),
        Schema(name: "in an example", schema: object(["a": ["examples": [property("A")]]]), count: 0),
        Schema(
            name: "with a name of 64 bytes",
            schema: object(["a": property(String(repeating: "A", count: 64))]),
            count: 1
        ),
        Schema(
            name: "with a name of 65 bytes",
            schema: object(["a": property(String(repeating: "A", count: 65))]),
            count: nil
        ),
        Schema(
            name: "with a path of 1024 bytes",
            schema: object([String(repeating: "a", count: 1024): property("A")]),
            count: 1
        ),
        Schema(
            name: "with a path of 1025 bytes",
            schema: object([String(repeating: "a", count: 1025): property("A")]),
            count: nil
        ),
        Schema(name: "32 times", schema: properties(32), count: 32),
        Schema(name: "33 times", schema: properties(33), count: nil),
        // Annotations of more deeply nested properties are not supported.
        Schema(name: "in 32 nested properties", schema: nested(32), count: 1),
        Schema(name: "in 33 nested properties", schema: nested(33), count: nil),
        Schema(name: "in 63 nested arrays", schema: items(63), count: nil),
    ]

    @Test(arguments: schemas) func mirrorsTheAnnotationsOfAToolOrOmitsIt(_ schema: Schema) {
        let tool: JSON = ["name": "tool", "inputSchema": schema.schema]
        #expect(ToolParameter.parameters(ofTool: tool)?.count == schema.count)
    }

    @Test func toolsWithoutAnnotationsDoNotCountTowardsTheLimit() throws {
        let plain = (0..<10_000).map { JSON.object(["name": .string("tool\($0)")]) }
        let annotated: JSON = ["name": "annotated", "inputSchema": Self.nested(1)]
        let response: JSON = ["jsonrpc": "2.0", "id": 1, "result": ["tools": .array(plain + [annotated])]]
        var list = ToolList()
        _ = list.read(try #require(MCPMessage(response)))
        #expect(list.parameters == ["annotated": [ToolParameter(header: "A", path: ["a"])]])
    }
}
