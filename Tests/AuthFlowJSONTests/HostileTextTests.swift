import Testing

@testable import AuthFlowJSON

/// Short texts that would consume excessive memory or time.
@Suite struct HostileTextTests {
    private func code(_ text: String, _ limits: JSONLimits = JSONLimits()) -> JSONError.Code? {
        do throws(JSONError) {
            _ = try JSON(parsing: Array(text.utf8), limits: limits)
            return nil
        } catch {
            return error.code
        }
    }

    /// Swift sorts a run of combining marks in quadratic time whenever it hashes or compares the string.
    @Test(arguments: ["{\"%\": 1}", "{\"a\": \"%\"}", "[\"%\"]"])
    func rejectsLongRunsOfCombiningMarks(_ form: String) {
        let marks = String(repeating: "\u{301}\u{323}", count: 500)
        #expect(code(form.replacing("%", with: "e" + marks)) == .tooManyMarks)
        #expect(code(form.replacing("%", with: "e" + marks.unicodeScalars.prefix(30).map(String.init).joined())) == nil)
    }

    /// Escaped marks appear only after decoding. The scanner is used when libjansson is not.
    @Test(arguments: ["{\"%\": 1}", "{\"a\": \"%\"}", "[\"%\"]"])
    func rejectsLongRunsOfEscapedCombiningMarks(_ form: String) {
        let text = form.replacing("%", with: "e" + String(repeating: #"\u0301\u0323"#, count: 500))
        #expect(code(text) == .tooManyMarks)
        var scanner = JSONScanner(Array(text.utf8), limits: JSONLimits())
        #expect(throws: JSONError.self) { try scanner.scan { _, _ in } }
    }

    /// The scanner hashes the path of each number that has a fraction, and a source map hashes the path of each value.
    @Test func theScannerRejectsManyValuesInALongName() throws {
        func scan(_ name: Int) throws(JSONError) {
            let values = String(repeating: "1.0,", count: 2000)
            let text = "{\"" + String(repeating: "a", count: name) + "\":[" + values + "1.0]}"
            var scanner = JSONScanner(Array(text.utf8), limits: JSONLimits())
            try scanner.scan { _, _ in }
        }
        try scan(1000)
        let error = try #require(throws: JSONError.self) { try scan(50_000) }
        #expect(error.code == .sizeLimitExceeded)
    }

    @Test func rejectsMoreValuesThanTheLimit() {
        let limits = JSONLimits(maximumValues: 1000)
        #expect(code("[" + String(repeating: "{},", count: 999) + "0]", limits) == .valueLimitExceeded)
        #expect(code("[" + String(repeating: "0,", count: 900) + "0]", limits) == nil)
        // Braces and commas inside a string do not count as values.
        #expect(code("[\"" + String(repeating: "{,\\\"", count: 2000) + "\"]", limits) == nil)
    }
}
