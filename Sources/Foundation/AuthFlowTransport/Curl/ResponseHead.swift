import AuthFlowJSON
import HTTPTypes

/// The status line and the header section of a response (RFC 9112 sections 4 and 5), read line by line as they arrive.
///
/// Informational responses before them are skipped, and trailers after the body are dropped, so neither can affect
/// a sign-in.
struct ResponseHead {
    /// The maximum size of the header section, including informational responses and trailers, in bytes.
    static let maximumSize = 64 * 1024

    /// The reason why a header section is rejected.
    enum Fault: Error, Hashable {
        case tooLarge
        case malformed(String)
    }

    /// The response, once its header section has ended.
    private(set) var response: HTTPResponse?

    /// Whether no line has arrived yet.
    var isEmpty: Bool { size == 0 }

    private var size = 0
    private var status: Int?
    private var fields: [(name: HTTPField.Name, value: [UInt8])] = []

    /// Parses one line, with or without its line break.
    mutating func read(_ line: some Collection<UInt8>) throws(Fault) {
        size += line.count
        guard size <= Self.maximumSize else { throw .tooLarge }
        guard response == nil else { return }
        var line = Array(line)
        if line.last == UInt8(ascii: "\n") { line.removeLast() }
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        guard let status else {
            self.status = try Self.status(of: line)
            return
        }
        switch line.first {
        case nil: try endSection(status)
        // RFC 9112 section 5.2: a client "MUST replace each received obs-fold with one or more SP octets".
        case UInt8(ascii: " "), UInt8(ascii: "\t"): try continueField(line)
        default: try readField(line)
        }
    }

    /// `status-line = HTTP-version SP status-code SP [ reason-phrase ]`
    private static func status(of line: [UInt8]) throws(Fault) -> Int {
        let parts = line.split(separator: UInt8(ascii: " "), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2, parts[0].starts(with: "HTTP/".utf8), parts[1].count == 3,
            let code = Int(String(decoding: parts[1], as: UTF8.self)), (100...999).contains(code)
        else { throw .malformed("its status line cannot be parsed") }
        // RFC 9110 section 15: a client "that receives a response with an invalid status code SHOULD process the response as if it had a 5xx
        // (Server Error) status code". Every status from 500 on is processed as such.
        // RFC 9110 section 15.2.2: 101 (Switching Protocols) is the response to an `Upgrade` field, which is never sent here.
        guard code != 101 else { throw .malformed("it switches to another protocol") }
        return code
    }

    private mutating func endSection(_ code: Int) throws(Fault) {
        guard code >= 200 else {
            status = nil
            fields = []
            return
        }
        try requireSingleContentLength()
        var headerFields = HTTPFields()
        for field in fields {
            let value = Self.text(field.value)
            guard !value.hasTooManyCombiningMarks else {
                throw .malformed("a header field has too many combining marks")
            }
            headerFields.append(HTTPField(name: field.name, value: value))
        }
        response = HTTPResponse(status: .init(code: code), headerFields: headerFields)
    }

    private mutating func readField(_ line: [UInt8]) throws(Fault) {
        // RFC 9112 section 5.1: "No whitespace is allowed between the field name and colon."
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")),
            let name = HTTPField.Name(String(decoding: line[..<colon], as: UTF8.self))
        else { throw .malformed("a header field has no valid name") }
        fields.append((name, try Self.value(line[(colon + 1)...])))
    }

    private mutating func continueField(_ line: [UInt8]) throws(Fault) {
        guard !fields.isEmpty else { throw .malformed("its header section begins with a folded line") }
        fields[fields.count - 1].value += [UInt8(ascii: " ")] + (try Self.value(line[...]))
    }

    /// RFC 9110 section 5.5: "Field values containing CR, LF, or NUL characters are invalid and dangerous".
    private static func value(_ bytes: ArraySlice<UInt8>) throws(Fault) -> [UInt8] {
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
        guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else {
            throw .malformed("a header field contains a control character")
        }
        var value = bytes.drop(while: isSpace)
        while let last = value.last, isSpace(last) { value.removeLast() }
        return Array(value)
    }

    /// RFC 9112 section 6.3: conflicting lengths are "an unrecoverable error", and a length together with a
    /// `Transfer-Encoding` "ought to be handled as an error": both allow response splitting.
    private mutating func requireSingleContentLength() throws(Fault) {
        // RFC 9112 section 6.3: a list of identical values is processed as that value.
        let lengths = fields.filter { $0.name == .contentLength }.flatMap { field in
            field.value.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false).map { item in
                (try? Self.value(item)) ?? []
            }
        }
        guard let first = lengths.first else { return }
        guard Set(lengths).count == 1 else { throw .malformed("it has conflicting Content-Length values") }
        guard first.allSatisfy(\.isDigit), Int(String(decoding: first, as: UTF8.self)) != nil else {
            throw .malformed("its Content-Length is not a valid number")
        }
        if fields.count(where: { $0.name == .contentLength }) > 1 || lengths.count > 1 {
            fields.removeAll { $0.name == .contentLength }
            fields.append((.contentLength, Array(first)))
        }
        guard !fields.contains(where: { $0.name == .transferEncoding }) else {
            throw .malformed("it has both Content-Length and Transfer-Encoding")
        }
    }

    /// Decodes UTF-8, or else ISO 8859-1, the historical encoding in RFC 9110 section 5.5.
    private static func text(_ bytes: [UInt8]) -> String {
        String(validating: bytes, as: UTF8.self)
            ?? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    }
}
