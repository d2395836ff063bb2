import HTTPTypes
import Testing

@testable import AuthFlowTransport

/// Header sections line by line, including those that some versions of libcurl reject themselves.
@Suite struct ResponseHeadTests {
    struct Malformed: CustomTestStringConvertible {
        let testDescription: String
        let lines: [String]
        let reason: String
    }

    private static let statusLine = "its status line cannot be parsed"

    static let malformed = [
        Malformed(testDescription: "no status", lines: ["HTTP/1.1"], reason: statusLine),
        Malformed(testDescription: "another protocol", lines: ["ICY 200 OK"], reason: statusLine),
        Malformed(testDescription: "a status of four digits", lines: ["HTTP/1.1 0200 OK"], reason: statusLine),
        Malformed(testDescription: "a status below 100", lines: ["HTTP/1.1 099 OK"], reason: statusLine),
        Malformed(
            testDescription: "a folded first line",
            lines: ["HTTP/1.1 200 OK", " folded"],
            reason: "its header section begins with a folded line"
        ),
        Malformed(
            testDescription: "a length with a sign",
            lines: ["HTTP/1.1 200 OK", "Content-Length: +2", ""],
            reason: "its Content-Length is not a valid number"
        ),
    ]

    @Test(arguments: malformed) func rejectsAMalformedHeaderSection(_ test: Malformed) {
        var head = ResponseHead()
        let fault = #expect(throws: ResponseHead.Fault.self) {
            for line in test.lines { try head.read("\(line)\r\n".utf8) }
        }
        #expect(fault == .malformed(test.reason))
    }

    @Test func trailersDoNotAffectAResponse() throws {
        var head = ResponseHead()
        let fields = ["Content-Type: application/json", ""]
        let trailers = ["Content-Type: text/html", "a line without a colon", ""]
        for line in ["HTTP/1.1 200 OK"] + fields + trailers { try head.read("\(line)\r\n".utf8) }
        #expect(head.response?.headerFields[values: .contentType] == ["application/json"])
    }
}
