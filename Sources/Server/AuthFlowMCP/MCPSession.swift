import AuthFlow

/// The session with a server that uses revision 2025-11-25 or earlier, in which the client and the server negotiate the
/// revision.
struct MCPSession: Sendable {
    /// `Mcp-Session-Id`, which is as sensitive as a password; nil if the server does not issue one.
    var id: Secret?
    /// The negotiated protocol revision; nil before initialization.
    var version: String?
    /// The host's `initialize`, sent again when the server has lost the session.
    var initialize: MCPMessage?
    /// The number of the host's `initialize`, so that a late response to an earlier one does not replace the session. A host may send the same
    /// message again.
    var initialization = 0
    /// The host's `notifications/initialized`; nil until the host sends it.
    var initialized: MCPMessage?
    /// The last event ID of the rejected listening stream; nil for none.
    var lastEventID: String?
    /// The session number, so that a lost session is replaced only once, however many requests detect the loss.
    var number = 0
    /// The delay before this session is replaced without a request from the host, if the server loses it within a minute.
    var replacementDelay = Duration.seconds(1)

    /// Applies the headers of an `initialize` response. The result may arrive later, in a resumed stream.
    mutating func begin(_ head: HTTPResponse) {
        // MCP 2025-11-25, "Session Management": "The session ID MUST only contain visible ASCII characters (ranging
        // from 0x21 to 0x7E)."
        id = head.headerFields[MirroredHeaders.session].flatMap { value in
            !value.isEmpty && value.utf8.count <= 4096 && value.utf8.allSatisfy { (0x21...0x7E).contains($0) }
                ? Secret(value) : nil
        }
    }

    /// Applies the result of an `initialize` response.
    mutating func begin(_ head: HTTPResponse, _ response: MCPMessage) {
        begin(head)
        lastEventID = nil
        version = response.json["result"]?["protocolVersion"]?.string
        number += 1
    }

    /// The header fields for every request in the session.
    var fields: HTTPFields {
        var fields = HTTPFields()
        if let id { fields[MirroredHeaders.session] = id.exposed }
        // Revisions are dates, and the field was introduced in 2025-06-18.
        if let version, version >= "2025-06-18" { fields[MirroredHeaders.version] = MirroredHeaders.encoded(version) }
        return fields
    }
}
