import AuthFlowJSON
import Testing

@Suite struct JSONParsingTests {
    private func parse(_ text: String, limits: JSONLimits = JSONLimits()) throws -> JSON {
        try JSON(parsing: text.utf8, limits: limits)
    }

    @Test func readsEveryKindOfValue() throws {
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

    static let faults: [(text: String, code: JSONError.Code)] = [
        ("", .prematureEndOfInput),
        ("   ", .prematureEndOfInput),
        ("[1", .prematureEndOfInput),
        (#"{"a":"#, .prematureEndOfInput),
        ("{} {}", .invalidSyntax),
        ("[1,]", .invalidSyntax),
        ("{'a':1}", .invalidSyntax),
        ("[NaN]", .invalidSyntax),
        ("[Infinity]", .invalidSyntax),
        ("[01]", .invalidSyntax),
        ("[\"\u{01}\"]", .invalidSyntax),
        ("// comment\n{}", .invalidSyntax),
        (#"{"a":1,"a":2}"#, .duplicateKey),
        (#"{"a":1,"\u0061":2}"#, .duplicateKey),
        (#"{"x":{"sub":"me","sub":"you"}}"#, .duplicateKey),
        (#"["a\u0000b"]"#, .nullCharacter),
        (#"{"a\u0000b":1}"#, .nullCharacter),
        ("[12345678901234567890]", .numberOutOfRange),
        ("[-12345678901234567890]", .numberOutOfRange),
        ("[1e999]", .numberOutOfRange),
    ]

    @Test(arguments: faults) func refusesInvalidJSON(_ fault: (text: String, code: JSONError.Code)) throws {
        let error = try #require(throws: JSONError.self) { try parse(fault.text) }
        #expect(error.code == fault.code)
    }

    @Test func refusesRawNULBytes() throws {
        let error = try #require(throws: JSONError.self) { try JSON(parsing: [0x22, 0x61, 0x00, 0x62, 0x22]) }
        #expect(error.code == .invalidSyntax || error.code == .nullCharacter)
    }

    @Test(arguments: [[0x22, 0xFF, 0x22], [0x22, 0xC0, 0x80, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22]] as [[UInt8]])
    func refusesInvalidUTF8(_ text: [UInt8]) throws {
        let error = try #require(throws: JSONError.self) { try JSON(parsing: text) }
        #expect(error.code == .invalidUTF8)
    }

    @Test(arguments: [65, 3000, 200_000]) func refusesDeepNesting(_ depth: Int) throws {
        let text = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        let error = try #require(throws: JSONError.self) { try parse(text) }
        #expect(error.code == .depthLimitExceeded)
    }

    @Test func acceptsNestingUpToTheLimit() throws {
        let text = String(repeating: "[", count: 64) + String(repeating: "]", count: 64)
        _ = try parse(text)
    }

    @Test func refusesTenMegabytes() throws {
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
