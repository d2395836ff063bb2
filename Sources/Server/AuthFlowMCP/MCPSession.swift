import AuthFlow
import AuthFlowJSON
import HTTPTypes

/// The session with a server of a revision up to 2025-11-25, in which client and server agree on one revision.
struct MCPSession: Sendable {
    /// `Mcp-Session-Id`, which is as good as a password; nil where the server has none.
    var id: Secret?
    /// The revision that was agreed on; nil before.
    var version: String?
    /// The host's `initialize`, for a session that the server has lost.
    var initialize: MCPMessage?
    /// The host's `notifications/initialized`; nil before.
    var initialized: MCPMessage?
    /// Counts the sessions: a loss is repaired once, however many requests notice it.
    var number = 0

    /// Takes over what an `initialize` response agrees on.
    mutating func begin(_ head: HTTPResponse, _ response: MCPMessage) {
        version = response.json["result"]?["protocolVersion"]?.string
        // T25: "The session ID MUST only contain visible ASCII characters (ranging from 0x21 to 0x7E)."
        id = head.headerFields[MirroredHeaders.session].flatMap { value in
            !value.isEmpty && value.utf8.count <= 4096 && value.utf8.allSatisfy { (0x21...0x7E).contains($0) }
                ? Secret(value) : nil
        }
        number += 1
    }

    /// The fields that every request of the session has.
    var fields: HTTPFields {
        var fields = HTTPFields()
        if let id { fields[MirroredHeaders.session] = id.exposed }
        // Revisions are dates, and the field came with that of 2025-06-18.
        if let version, version >= "2025-06-18" { fields[MirroredHeaders.version] = MirroredHeaders.encoded(version) }
        return fields
    }
}
