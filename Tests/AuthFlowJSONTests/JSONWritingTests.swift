import AuthFlowJSON
import Testing

@Suite struct JSONWritingTests {
    private func text(_ json: JSON, indented: Bool = false) throws -> String {
        String(decoding: try json.serialized(indented: indented), as: UTF8.self)
    }

    @Test func sortsKeys() throws {
        #expect(try text(["b": 1, "a": [true, .null, "x/y"], "": "é"]) == #"{"":"é","a":[true,null,"x/y"],"b":1}"#)
    }

    @Test func escapesQuotesBackslashesAndControlCharacters() throws {
        let json: JSON = .string("\"\\\n\u{1}")
        #expect(try JSON(parsing: try json.serialized()) == json)
        #expect(try text("a\nb") == #""a\nb""#)
    }

    @Test(arguments: [JSON.null, "", 0, -1, 1.5, true, [], [:], ["": [[[:]]]], .integer(.min), .string("\u{0}")])
    func serializedValuesRoundTripExceptNUL(_ json: JSON) throws {
        let bytes = try json.serialized()
        // A NUL is escaped when written, but the parser always rejects it.
        if json == .string("\u{0}") {
            #expect(throws: JSONError.self) { try JSON(parsing: bytes) }
        } else {
            #expect(try JSON(parsing: bytes) == json)
        }
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity]) func rejectsNonFiniteNumbers(_ number: Double) throws {
        let error = try #require(throws: JSONError.self) { try JSON.array([1, ["n": .double(number)]]).serialized() }
        #expect(error.code == .numberOutOfRange)
    }

    @Test(arguments: [
        JSON.null, "", "a", "\u{1}\u{1F}\u{0}\"\\/", "Ä€😀\u{7F}\u{2028}", .integer(.min), .integer(.max), 0, 1.5, true,
        false, [],
        [:], [[], [[:]]], ["\u{1}\u{2}": ["a", "b", 1, .null]], .double(-Double.greatestFiniteMagnitude),
        .double(-.leastNonzeroMagnitude), .double(-1.7976931348623157e-308), .double(-0.1), .double(.pi * -1e100),
    ]) func serializedTextDoesNotExceedMaximumSerializedSize(_ json: JSON) throws {
        for json in [json, [json, json], ["name": json, "\u{3}": [json]]] {
            #expect(try json.serialized().count <= json.maximumSerializedSize)
        }
    }

    @Test func nonFiniteNumbersHaveAnUnlimitedMaximumSerializedSize() {
        #expect(
            JSON.array([.double(.nan), ["a": .double(.infinity)], .double(.nan)]).maximumSerializedSize >= .max / 2
        )
    }
}
