package import AuthFlow
import FlyingSocks

/// Reads one HTTP/1.1 request (RFC 9112) of limited size from a connection.
///
/// Any page in the user's browser and any process on the machine can send arbitrary data. A genuine request is a few
/// hundred bytes that arrive together; a request that is malformed or exceeds these limits is not an authorization
/// response.
package struct HTTPMessageReader {
    /// The maximum size of the request line and header fields, in bytes: an authorization response in the query fits easily.
    static let maximumHeadSize = 64 * 1024

    /// The maximum size of a body, in bytes.
    package static let maximumBodySize = 256 * 1024

    /// The rejection of a request, with the status of the response.
    package struct Refusal: Error {
        package let status: HTTPResponse.Status
    }

    /// Reads a request. Any further data on the connection is ignored, because the connection is closed after one response.
    /// - Throws: ``Refusal``, or any error from reading the socket.
    static func request(from socket: AsyncSocket) async throws -> (request: HTTPRequest, body: [UInt8]) {
        var bytes: [UInt8] = []
        var end: Int?
        while end == nil {
            // The searches overlap by three bytes, because the empty line may be split across two reads.
            let searched = max(0, bytes.count - 3)
            bytes += try await socket.read(atMost: 4096)
            end = endOfHead(in: bytes, from: searched)
            guard end ?? bytes.count <= maximumHeadSize else {
                throw Refusal(status: .requestHeaderFieldsTooLarge)
            }
        }
        let headSize = end ?? bytes.count
        let request = try head(bytes[..<headSize])
        let length = try bodySize(of: request)
        var body = Array(bytes[(headSize + 4)...].prefix(length))
        while body.count < length { body += try await socket.read(atMost: min(4096, length - body.count)) }
        return (request, body)
    }

    /// The offset of the first CRLF CRLF, which ends the header section.
    private static func endOfHead(in bytes: [UInt8], from start: Int) -> Int? {
        guard bytes.count >= start + 4 else { return nil }
        return (start...bytes.count - 4).first {
            bytes[$0] == 13 && bytes[$0 + 1] == 10 && bytes[$0 + 2] == 13 && bytes[$0 + 3] == 10
        }
    }

    package static func head(_ bytes: ArraySlice<UInt8>) throws(Refusal) -> HTTPRequest {
        // RFC 9110 section 5.5: field values may contain obs-text, which is opaque. Browsers send the cookies of all servers on this host, and
        // an older server may set a cookie that is not UTF-8.
        let text =
            String(validating: bytes, as: UTF8.self)
            ?? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
        guard !text.hasTooManyCombiningMarks else { throw Refusal(status: .badRequest) }
        var lines = text.split(separator: "\r\n", omittingEmptySubsequences: false)[...]
        // RFC 9112 section 3: request-line = method SP request-target SP HTTP-version
        let words = (lines.popFirst() ?? "").split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3, let method = HTTPRequest.Method(rawValue: String(words[0])) else {
            throw Refusal(status: .badRequest)
        }
        // RFC 3986 section 2: a target consists of printable ASCII.
        guard words[1].utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { throw Refusal(status: .badRequest) }
        guard words[2] == "HTTP/1.1" || words[2] == "HTTP/1.0" else { throw Refusal(status: .badRequest) }

        var fields = HTTPFields()
        for line in lines {
            // RFC 9112 section 5: field-line = field-name ":" OWS field-value OWS, and no space before the colon.
            guard let colon = line.firstIndex(of: ":"), let name = HTTPField.Name(String(line[..<colon])) else {
                throw Refusal(status: .badRequest)
            }
            let value = line[line.index(after: colon)...].trimmingSpaces()
            guard HTTPField.isValidValue(value) else { throw Refusal(status: .badRequest) }
            fields.append(HTTPField(name: name, value: value))
        }
        // RFC 9112 section 3.2: "A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1 request message
        // that lacks a Host header field and to any request message that contains more than one Host header field line".
        let hosts = fields[values: host]
        guard hosts.count == 1 else { throw Refusal(status: .badRequest) }
        fields[values: host] = []
        // RFC 9112 section 3.2.2: "A server MUST accept the absolute-form in requests".
        let origin = "http://\(hosts[0])"
        let target = words[1].hasPrefix("\(origin)/") ? words[1].dropFirst(origin.count) : words[1]
        guard target.hasPrefix("/") else { throw Refusal(status: .badRequest) }
        return HTTPRequest(
            method: method,
            scheme: "http",
            authority: hosts[0],
            path: String(target),
            headerFields: fields
        )
    }

    /// The length of the body (RFC 9112 section 6).
    package static func bodySize(of request: HTTPRequest) throws(Refusal) -> Int {
        // Browsers send forms with a `Content-Length`; without transfer codings, the length of a body is unambiguous.
        guard request.headerFields[.transferEncoding] == nil else { throw Refusal(status: .lengthRequired) }
        let lengths = Set(request.headerFields[values: .contentLength])
        guard let text = lengths.first else { return 0 }
        // RFC 9110 section 8.6: Content-Length = 1*DIGIT, so a sign is not allowed.
        guard lengths.count == 1, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let length = UInt32(text) else {
            throw Refusal(status: .badRequest)
        }
        guard length <= maximumBodySize else { throw Refusal(status: .contentTooLarge) }
        return Int(length)
    }

    /// The bytes of a response, after which the connection is closed.
    static func bytes(of response: TransportResponse, to method: HTTPRequest.Method?) -> [UInt8] {
        let status = response.head.status
        var head = "HTTP/1.1 \(status.code) \(status.reasonPhrase)\r\n"
        for field in response.head.headerFields { head += "\(field.name.rawName): \(field.value)\r\n" }
        head += "Content-Length: \(response.body.count)\r\nConnection: close\r\n\r\n"
        // RFC 9110 section 9.3.2: for HEAD, "the server MUST NOT send content in the response".
        return Array(head.utf8) + (method == .head ? [] : response.body)
    }

    private static var host: HTTPField.Name { HTTPField.Name(known: "Host") }
}
