import AuthFlow

/// An event of an event stream (WHATWG HTML section 9.2).
struct ServerSentEvent: Sendable, Hashable {
    /// The `data` lines, joined by line feeds.
    var data: [UInt8]
    /// The value of `event`; `message` if the stream does not specify a type.
    var type: String
    /// The latest `id` up to and including this event; nil for none.
    var id: String?
}

/// Parses an event stream incrementally.
struct ServerSentEventReader {
    /// The latest `id` of the stream; nil for none. It persists across events.
    private(set) var lastEventID: String?

    /// The reconnection time from `retry`; nil if the stream does not specify it.
    private(set) var retry: Duration?

    private var line: [UInt8] = []
    private var data: [UInt8] = []
    private var hasData = false
    private var type = ""
    /// The `id` of the event that is currently being parsed.
    private var pendingID: String?
    private var endsWithCR = false
    private var isAtStart = true

    /// Parses the next part of the stream.
    /// - Returns: The events that this part completes.
    /// - Throws: ``AuthFlow/AuthError`` with `invalid_response` when an event is too large.
    mutating func read(_ part: [UInt8]) throws(AuthError) -> [ServerSentEvent] {
        var events: [ServerSentEvent] = []
        var rest = part[...]
        while let index = rest.firstIndex(where: { $0 == 0x0A || $0 == 0x0D }) {
            // Lines end with LF, CR or CR LF, and a CR LF may be split across two parts.
            let isSecondHalf = endsWithCR && index == rest.startIndex && rest[index] == 0x0A && line.isEmpty
            if !isSecondHalf {
                try append(rest[..<index])
                if let event = endLine() { events.append(event) }
            }
            endsWithCR = rest[index] == 0x0D
            rest = rest[(index + 1)...]
        }
        if !rest.isEmpty { endsWithCR = false }
        try append(rest)
        return events
    }

    private mutating func append(_ bytes: ArraySlice<UInt8>) throws(AuthError) {
        guard line.count + data.count + bytes.count <= MCPMessage.maximumSize else {
            throw AuthError(
                .invalidResponse,
                "An event in the server's stream exceeds \(MCPMessage.maximumSize >> 20) MiB."
            )
        }
        line += bytes
    }

    private mutating func endLine() -> ServerSentEvent? {
        defer { line.removeAll(keepingCapacity: line.count < 1 << 20) }
        if isAtStart {
            isAtStart = false
            if line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
        }
        guard !line.isEmpty else { return dispatch() }
        let colon = line.firstIndex(of: UInt8(ascii: ":"))
        // The length of the name is checked first, because Swift compares text with many combining marks slowly.
        let name = line[..<(colon ?? line.endIndex)]
        guard name.count <= 16 else { return nil }
        var value = colon.map { line[($0 + 1)...] } ?? []
        if value.first == 0x20 { value = value.dropFirst() }
        switch String(decoding: name, as: UTF8.self) {
        case "data":
            if hasData { data.append(0x0A) }
            data += value
            hasData = true
        case "event": type = Self.name(value) ?? "unknown"
        case "id": if !value.contains(0), let id = Self.name(value) { pendingID = id }
        case "retry":
            if !value.isEmpty, value.allSatisfy({ (0x30...0x39).contains($0) }),
                let milliseconds = Int(String(decoding: value, as: UTF8.self))
            {
                // The time is clamped, so that a server can cause neither continuous polling nor an excessive delay.
                retry = .milliseconds(min(max(milliseconds, 250), 3_600_000))
            }
        default: break  // Comments, too, which keep the connection alive: their field name is empty.
        }
        return nil
    }

    /// Decodes an event type or identifier.
    /// - Returns: nil when the value is too long or has too many combining marks.
    private static func name(_ bytes: ArraySlice<UInt8>) -> String? {
        guard bytes.count <= 4096 else { return nil }
        let text = String(decoding: bytes, as: UTF8.self)
        return text.hasTooManyCombiningMarks ? nil : text
    }

    private mutating func dispatch() -> ServerSentEvent? {
        defer {
            data = []
            hasData = false
            type = ""
        }
        // "Set the last event ID string of the event source to the value of the last event ID buffer": only after the
        // event is complete, because otherwise a resumed stream would skip the rest of the event.
        if let pendingID { lastEventID = pendingID.isEmpty ? nil : pendingID }
        // "If the data buffer is an empty string, set the data buffer and the event type buffer to the empty string and return."
        guard !data.isEmpty else { return nil }
        return ServerSentEvent(data: data, type: type.isEmpty ? "message" : type, id: lastEventID)
    }
}
