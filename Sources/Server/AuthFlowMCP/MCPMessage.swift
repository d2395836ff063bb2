import AuthFlow

/// A JSON-RPC message of the Model Context Protocol, with its original bytes.
struct MCPMessage: Sendable {
    /// The kind of a message.
    enum Kind: Sendable, Hashable {
        case request(id: JSON, method: String)
        case notification(method: String)
        case response(id: JSON)
        /// A JSON-RPC batch, which only revision 2025-03-26 supports.
        case batch
    }

    /// The key of the protocol revision in a request's `_meta`, starting with revision 2026-07-28.
    static let versionKey = "io.modelcontextprotocol/protocolVersion"

    let kind: Kind
    let json: JSON
    /// The message on one line, without the newline.
    let bytes: [UInt8]

    /// The maximum size of a message, in bytes.
    static let maximumSize = 64 * 1024 * 1024

    static let limits = JSONLimits(maximumBytes: maximumSize, maximumDepth: 512, maximumValues: 1_000_000)

    /// Parses a message.
    /// - Returns: nil when the bytes are not a JSON-RPC message.
    init?(_ bytes: [UInt8]) {
        let bytes = Self.withoutByteOrderMark(bytes)
        // The bytes pass through unchanged, unless an ID is replaced or a tool is removed: the message is then serialized from the parsed JSON.
        guard
            let json = (try? JSON(parsing: bytes, limits: Self.limits))
                ?? (try? JSON(parsing: ReadableJSON.bytes(bytes), limits: Self.limits))
        else { return nil }
        self.init(json, bytes)
    }

    /// RFC 8259 section 8.1: a parser "MAY ignore the presence of a byte order mark rather than treating it as an error", but no message
    /// may begin with one.
    static func withoutByteOrderMark(_ bytes: [UInt8]) -> [UInt8] {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        return bytes.starts(with: mark) ? Array(bytes.dropFirst(mark.count)) : bytes
    }

    /// Creates a message from JSON.
    init?(_ json: JSON) {
        guard let bytes = try? json.serialized() else { return nil }
        self.init(json, bytes)
    }

    private init?(_ json: JSON, _ bytes: [UInt8]) {
        if json.array != nil {
            kind = .batch
        } else if json.object != nil, let method = json["method"]?.string {
            kind = json["id"].map { .request(id: $0, method: method) } ?? .notification(method: method)
        } else if json["jsonrpc"]?.string == "2.0", json["result"] != nil || json["error"]?.object != nil {
            kind = .response(id: json["id"] ?? .null)
        } else {
            return nil
        }
        self.json = json
        // JSON strings contain no raw line breaks, so any line break is insignificant whitespace.
        self.bytes =
            bytes.contains { $0 == 0x0A || $0 == 0x0D } ? bytes.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 } : bytes
    }

    var method: String? {
        switch kind {
        case .request(_, let method), .notification(let method): method
        case .response, .batch: nil
        }
    }

    /// The revision named in the request (2026-07-28 and later); nil for older revisions, which are negotiated per session.
    var version: String? { json["params"]?["_meta"]?[Self.versionKey]?.string }

    /// The IDs of the requests to which the message responds; several for a batch.
    var answeredIDs: [JSON] {
        switch kind {
        case .response(let id): [id]
        case .batch: (json.array ?? []).filter { $0["method"] == nil }.map { $0["id"] ?? .null }
        case .request, .notification: []
        }
    }

    /// The IDs of the requests in a batch.
    var requestIDs: [JSON] { (json.array ?? []).filter { $0["method"] != nil }.compactMap { $0["id"] } }

    /// Whether the message is the response to a request, either by itself or in a batch without other responses.
    func answers(_ id: JSON) -> Bool {
        switch kind {
        // Some servers omit the request's id from an error.
        case .response(let other): Self.areEqual(other, id) || other == .null && json["error"] != nil
        case .batch: answeredIDs.count == 1 && responding(to: [id]) != nil
        case .request, .notification: false
        }
    }

    /// Whether two IDs are equal, however a number is written: some servers send 5 as "5" or 5.0.
    static func areEqual(_ left: JSON, _ right: JSON) -> Bool {
        func text(_ id: JSON) -> String? {
            id.string ?? id.wholeNumber.map(String.init)
        }
        guard let own = text(left), let other = text(right) else { return left == right }
        return own.isIdentical(to: other)
    }

    /// Matches the responses in the message to requests.
    /// - Returns: The message with the IDs of the requests, which the server may have reformatted, and these IDs; nil unless each response is
    ///   to a different request.
    func responding(to requests: [JSON]) -> (message: MCPMessage, ids: [JSON])? {
        var ids: [JSON] = []
        // The requests without a response. Only they are searched, so that a large batch does not take cubic time.
        var open = requests
        for answered in answeredIDs {
            // JSON-RPC distinguishes 1 and "1".
            guard let id = open.first(where: { $0 == answered }) ?? open.first(where: { Self.areEqual($0, answered) })
            else { return nil }
            ids.append(id)
            open.removeAll { $0 == id }
        }
        guard ids != answeredIDs else { return (self, ids) }
        guard let elements = json.array else {
            return ids.first.flatMap(replacingID).map { ($0, ids) }
        }
        var rest = ids[...]
        let corrected = elements.map { element in
            guard element["method"] == nil, var members = element.object, let id = rest.popFirst() else {
                return element
            }
            members["id"] = id
            return JSON.object(members)
        }
        return MCPMessage(.array(corrected)).map { ($0, ids) }
    }

    /// The same message with a different `id`.
    func replacingID(by id: JSON) -> MCPMessage? {
        guard var members = json.object else { return nil }
        members["id"] = id
        return MCPMessage(.object(members))
    }

    /// The code of an error response; nil for every other message.
    var errorCode: Int64? { json["error"]?["code"]?.integer }

    /// The response to a line that is not a valid message (JSON-RPC 2.0 section 5.1).
    static let parseError = MCPMessage([
        "jsonrpc": "2.0", "id": .null,
        "error": ["code": -32700, "message": "The line is not a JSON-RPC message."],
    ])

    /// An error response from the bridge itself.
    ///
    /// MCP ("Error Codes") reserves -32768 to -32000 for itself and JSON-RPC, so the error code is the HTTP status,
    /// or 1 if there is none.
    static func failure(of id: JSON, _ message: String, status: Int? = nil, cause: String) -> MCPMessage? {
        var data: [String: JSON] = ["cause": .string(cause)]
        data["status"] = status.map { .integer(Int64($0)) }
        return MCPMessage([
            "jsonrpc": "2.0", "id": id,
            "error": [
                "code": .integer(Int64(status ?? 1)), "message": .string(DisplayText.sanitized(message, limit: 1000)),
                "data": .object(data),
            ],
        ])
    }
}
