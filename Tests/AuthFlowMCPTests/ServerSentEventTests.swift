import AuthFlow
import Expectations
import Testing

@testable import AuthFlowMCP

@Suite struct ServerSentEventTests {
    struct Stream: CustomTestStringConvertible {
        let name: String
        let text: String
        let data: [String]
        var testDescription: String { name }
    }

    static let streams: [Stream] = [
        Stream(name: "line feeds", text: "data: a\n\ndata: b\n\n", data: ["a", "b"]),
        Stream(name: "carriage returns", text: "data: a\r\rdata: b\r\r", data: ["a", "b"]),
        Stream(name: "both", text: "data: a\r\n\r\ndata: b\r\n\r\n", data: ["a", "b"]),
        Stream(name: "byte order mark", text: "\u{FEFF}data: a\n\n", data: ["a"]),
        Stream(name: "comments", text: ": ping\n\n:\n\ndata: a\n\n", data: ["a"]),
        Stream(name: "several lines", text: "data: {\ndata: }\n\n", data: ["{\n}"]),
        Stream(name: "no space after the colon", text: "data:a\n\n", data: ["a"]),
        Stream(name: "only one space is removed", text: "data:  a\n\n", data: [" a"]),
        Stream(name: "priming event", text: "id: 1\ndata:\n\ndata: a\n\n", data: ["a"]),
        Stream(name: "unknown fields", text: "foo: x\nfoo\ndata: a\n\n", data: ["a"]),
        Stream(name: "not ended", text: "data: a\n\ndata: b\n", data: ["a"]),
    ]

    @Test(arguments: streams, [1, 2, 3, 1000])
    func parsesAnEventStreamRegardlessOfChunkBoundaries(_ stream: Stream, _ size: Int) throws {
        var reader = ServerSentEventReader()
        var events: [ServerSentEvent] = []
        var rest = Array(stream.text.utf8)[...]
        while !rest.isEmpty {
            events += try reader.read(Array(rest.prefix(size)))
            rest = rest.dropFirst(size)
        }
        #expect(events.map { String(decoding: $0.data, as: UTF8.self) } == stream.data)
    }

    @Test(arguments: [("0", 250), ("500", 500), ("99999999", 3_600_000)])
    func clampsTheReconnectionTimeSetByTheServer(_ retry: String, _ milliseconds: Int) throws {
        var reader = ServerSentEventReader()
        _ = try reader.read(Array("retry: \(retry)\ndata: a\n\n".utf8))
        #expect(reader.retry == .milliseconds(milliseconds))
    }

    @Test func storesTheLastValidEventIDAndReconnectionTime() throws {
        var reader = ServerSentEventReader()
        let events = try reader.read(
            Array("id: 7\nretry: 500\nevent: other\ndata: a\n\nid: a\0b\nretry: 5x\ndata: b\n\n".utf8)
        )
        #expect(reader.lastEventID == "7")
        #expect(reader.retry == .milliseconds(500))
        #expect(events.map(\.type) == ["other", "message"])
        #expect(events.map(\.id) == ["7", "7"])
    }

    @Test(arguments: [(4096, true), (4097, false)])
    func ignoresAnEventIDLongerThan4096Bytes(_ length: Int, _ isStored: Bool) throws {
        var reader = ServerSentEventReader()
        let id = String(repeating: "x", count: length)
        _ = try reader.read(Array("id: \(id)\ndata: a\n\n".utf8))
        #expect(reader.lastEventID == (isStored ? id : nil))
    }

    @Test func anIncompleteEventDoesNotUpdateTheLastEventID() throws {
        var reader = ServerSentEventReader()
        _ = try reader.read(Array("id: 1\ndata: a\n\nid: 2\ndata: b\n".utf8))
        #expect(reader.lastEventID == "1")
        _ = try reader.read(Array("\n".utf8))
        #expect(reader.lastEventID == "2")
    }

    @Test func rejectsAnEventThatExceedsTheMaximumSize() throws {
        var reader = ServerSentEventReader()
        let part = [UInt8](repeating: UInt8(ascii: "x"), count: 1 << 20)
        expectError(.invalidResponse) { for _ in 0..<65 { _ = try reader.read(part) } }
    }

    /// Comparing text with many combining marks takes quadratic time.
    @Test(.timeLimit(.minutes(1)), arguments: ["", "event: ", "id: "])
    func parsesALineOfCombiningMarksInLinearTime(_ field: String) throws {
        let marks = String(repeating: "\u{301}", count: 200_000) + String(repeating: "\u{323}", count: 200_000)
        var reader = ServerSentEventReader()
        let events = try reader.read(Array("\(field)\(marks)\ndata: a\n\ndata: b\n\n".utf8))
        #expect(events.count { $0.type == "message" } == (field == "event: " ? 1 : 2))
        #expect(events.allSatisfy { $0.id == nil })
    }
}
