import AuthFlowJSON
import Testing

@Suite struct JSONParsingTests {
    private func parse(_ text: String, limits: JSONLimits = JSONLimits()) throws -> JSON {
        try JSON(parsing: text.utf8, limits: limits)
    }

    @Test func parsesEveryKindOfValue() throws {
        let json = try parse(#"{"a":[1,-2.5,true,false,null,"é\n\u00e9😀"],"":{}}"#)
        #expect(json == ["a": [1, -2.5, true, false, .null, "é\né😀"], "": [:]])
    }

    @Test func acceptsAnyValueAtTheRoot() throws {
        #expect(try parse("3") == 3)
        #expect(try parse(#""text""#) == "text")
        #expect(try parse(" null ") == .null)
    }

    @Test func distinguishesIntegersFromDoubles() throws {
        #expect(try parse("[9223372036854775807, 1.0]") == [.integer(.max), .double(1)])
    }

    struct Fault: CustomTestStringConvertible {
        let text: String
        let code: JSONError.Code
        var testDescription: String { text }
    }

    static let faults: [Fault] = [
        Fault(text: "", code: .prematureEndOfInput),
        Fault(text: "   ", code: .prematureEndOfInput),
        Fault(text: "[1", code: .prematureEndOfInput),
        Fault(text: #"{"a":"#, code: .prematureEndOfInput),
        Fault(text: "{} {}", code: .invalidSyntax),
        Fault(text: "[1,]", code: .invalidSyntax),
        Fault(text: "{'a':1}", code: .invalidSyntax),
        Fault(text: "[NaN]", code: .invalidSyntax),
        Fault(text: "[Infinity]", code: .invalidSyntax),
        Fault(text: "[01]", code: .invalidSyntax),
        Fault(text: "[\"\u{01}\"]", code: .invalidSyntax),
        Fault(text: "// comment\n{}", code: .invalidSyntax),
        Fault(text: #"{"a":1,"a":2}"#, code: .duplicateKey),
        Fault(text: #"{"a":1,"\u0061":2}"#, code: .duplicateKey),
        Fault(text: #"{"x":{"sub":"me","sub":"you"}}"#, code: .duplicateKey),
        Fault(text: #"["a\u0000b"]"#, code: .nullCharacter),
        Fault(text: #"{"a\u0000b":1}"#, code: .nullCharacter),
        Fault(text: "[12345678901234567890]", code: .numberOutOfRange),
        Fault(text: "[-12345678901234567890]", code: .numberOutOfRange),
        Fault(text: "[1e999]", code: .numberOutOfRange),
    ]

    @Test(arguments: faults) func rejectsInvalidJSON(_ fault: Fault) throws {
        let error = try #require(throws: JSONError.self) { try parse(fault.text) }
        #expect(error.code == fault.code)
    }

    @Test func rejectsRawNULBytes() throws {
        let error = try #require(throws: JSONError.self) { try JSON(parsing: [0x22, 0x61, 0x00, 0x62, 0x22]) }
        #expect(error.code == .invalidSyntax || error.code == .nullCharacter)
    }

    @Test(arguments: [[0x22, 0xFF, 0x22], [0x22, 0xC0, 0x80, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22]] as [[UInt8]])
    func rejectsInvalidUTF8(_ text: [UInt8]) throws {
        let error = try #require(throws: JSONError.self) { try JSON(parsing: text) }
        #expect(error.code == .invalidUTF8)
    }

    @Test(arguments: [65, 3000, 200_000]) func rejectsNestingBeyondTheLimit(_ depth: Int) throws {
        let text = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        let error = try #require(throws: JSONError.self) { try parse(text) }
        #expect(error.code == .depthLimitExceeded)
    }

    @Test func acceptsNestingUpToTheLimit() throws {
        let text = String(repeating: "[", count: 64) + String(repeating: "]", count: 64)
        _ = try parse(text)
    }

    @Test func rejectsInputBeyondTheSizeLimit() throws {
        let text = "\"" + String(repeating: "a", count: 10_000_000) + "\""
        let error = try #require(throws: JSONError.self) { try parse(text) }
        #expect(error.code == .sizeLimitExceeded)
        #expect(try parse(text, limits: JSONLimits(maximumBytes: 11_000_000)).string?.utf8.count == 10_000_000)
    }

    @Test func errorsNeverQuoteTheInput() throws {
        let error = try #require(throws: JSONError.self) { try parse(#"{"access_token": gho_SECRET}"#) }
        #expect("\(error)".contains("line 1"))
        #expect(!"\(error)".contains("gho"))
    }

    @Test func errorsNameTheLineOfTheFault() throws {
        let error = try #require(throws: JSONError.self) { try parse("{\n  \"a\": 1,\n  \"b\": x\n}") }
        #expect(error.line == 3)
    }
}
