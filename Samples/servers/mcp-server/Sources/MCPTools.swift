import AuthFlowJSON
import AuthFlowResourceServerConfiguration
import HTTPTypes
import Hummingbird

/// Handles the messages of a stateless MCP server, whose only tool returns the caller's identity.
struct MCPTools {
    /// The maximum size of a message, in bytes.
    static let maximumSize = 1024 * 1024
    /// The supported protocol versions, newest first. In each of these versions, a client starts with `initialize`. Version 2025-03-26 would require
    /// support for message batching.
    private static let revisions = ["2025-11-25", "2025-06-18"]

    /// The server's origin.
    let origin: String

    /// The response to a POST request from an authorized client.
    func response(to body: [UInt8], _ fields: HTTPFields, from client: Authorization) -> Response {
        // Streamable HTTP: "Servers MUST validate the Origin header on all incoming connections to prevent DNS rebinding attacks."
        guard fields[.origin].map({ $0 == origin }) ?? true else { return Response(status: .forbidden) }
        if let name = HTTPField.Name("MCP-Protocol-Version"), let revision = fields[name] {
            guard Self.revisions.contains(revision) else {
                return Self.error(.null, -32022, "This protocol version is not supported.", status: .badRequest)
            }
        }
        guard let message = try? JSON(parsing: body) else {
            return Self.error(.null, -32700, "This is not JSON.", status: .badRequest)
        }
        // "Requests MUST include a string or integer ID", which "MUST NOT be null".
        let hasValidID = message["id"].map { $0.string != nil || $0.integer != nil } ?? true
        guard message["jsonrpc"]?.string == "2.0", hasValidID else {
            return Self.error(.null, -32600, "This is not a JSON-RPC 2.0 message.", status: .badRequest)
        }
        guard let id = message["id"], let method = message["method"]?.string else {
            // "If the input is a JSON-RPC response or notification ... the server MUST return HTTP status code 202 Accepted with no body."
            return Response(status: .accepted)
        }
        switch method {
        case "initialize": return Self.result(id, initialization(message["params"]))
        case "ping": return Self.result(id, [:])
        case "tools/list": return Self.result(id, ["tools": [Self.tool]])
        case "tools/call":
            guard message["params"]?["name"]?.string == "whoami" else {
                return Self.error(id, -32602, "There is no such tool.")
            }
            let scopes = client.scopes.sorted().joined(separator: " ")
            let text = "\(client.subject ?? "no user"), by \(client.clientID ?? "no client"), with \(scopes)"
            return Self.result(id, ["content": [["type": "text", "text": .string(text)]], "isError": false])
        default: return Self.error(id, -32601, "There is no such method.")
        }
    }

    private func initialization(_ params: JSON?) -> JSON {
        // Lifecycle: "If the server supports the requested protocol version, it MUST respond with the same version. Otherwise, the
        // server MUST respond with another protocol version it supports."
        let asked = params?["protocolVersion"]?.string ?? ""
        return [
            "protocolVersion": .string(Self.revisions.contains(asked) ? asked : Self.revisions[0]),
            "capabilities": ["tools": [:]], "serverInfo": ["name": "authflow-sample", "version": "1"],
        ]
    }

    private static let tool: JSON = [
        "name": "whoami", "description": "Returns the caller's identity and the token's scopes.",
        "inputSchema": ["type": "object", "properties": [:], "additionalProperties": false],
    ]

    private static func result(_ id: JSON, _ result: JSON) -> Response {
        response(["jsonrpc": "2.0", "id": id, "result": result], .ok)
    }

    private static func error(
        _ id: JSON,
        _ code: Int64,
        _ text: String,
        status: HTTPResponse.Status = .ok
    ) -> Response {
        let error: JSON = ["code": .integer(code), "message": .string(text)]
        return response(["jsonrpc": "2.0", "id": id, "error": error], status)
    }

    private static func response(_ message: JSON, _ status: HTTPResponse.Status) -> Response {
        guard let bytes = try? message.serialized() else { return Response(status: .internalServerError) }
        return Response(
            status: status,
            headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes))
        )
    }
}
