import AuthFlow
import Testing

@Suite struct FormURLEncodingTests {
    // RFC 6749 Appendix B and the vectors of AppAuth's tests.
    @Test(arguments: [
        (" %&+£€", "+%25%26%2B%C2%A3%E2%82%AC"),
        ("t _9V-F*I+Z1Lk.u7:2/8L+w=", "t+_9V-F*I%2BZ1Lk.u7%3A2%2F8L%2Bw%3D"),
        ("", ""),
        ("abc-._*", "abc-._*"),
        ("~", "%7E"),
        ("\u{0}\n", "%00%0A"),
    ]) func encodesAndDecodesFormValues(_ plain: String, _ encoded: String) {
        #expect(FormURLEncoding.encode(plain) == encoded)
        #expect(FormURLEncoding.decode("x=\(encoded)")?["x"] == plain)
    }

    @Test func encodesSpacesInQueriesAsPercentTwenty() {
        #expect(FormURLEncoding.encodeQuery(["scope": "openid profile", "x": "+"]) == "scope=openid%20profile&x=%2B")
    }

    @Test(arguments: ["%20", "+"]) func decodesBothEncodingsOfASpace(_ space: String) {
        #expect(FormURLEncoding.decode("a=1\(space)2")?["a"] == "1 2")
    }

    @Test(arguments: ["a=%", "a=%2", "a=%zz", "a=%FF", "a=%C0%80"]) func rejectsInvalidPercentEncoding(_ text: String) {
        #expect(FormURLEncoding.decode(text) == nil)
    }

    @Test func keepsRepeatedParameters() throws {
        let parameters = try #require(FormURLEncoding.decode("a=1&b=&a=2&c"))
        #expect(parameters.values(for: "a") == ["1", "2"])
        #expect(parameters["b"] == "" && parameters["c"] == "" && parameters["d"] == nil)
        #expect(parameters.names == ["a", "b", "c"])
    }

    @Test func settingAParameterReplacesAllItsValues() {
        var parameters: FormParameters = ["a": "1", "b": "2", "a": "3"]
        parameters["a"] = "4"
        #expect(FormURLEncoding.encodeForm(parameters) == "a=4&b=2")
        parameters["a"] = nil
        #expect(FormURLEncoding.encodeForm(parameters) == "b=2")
    }

    @Test func redactsParameterValuesInDescriptions() {
        let parameters: FormParameters = ["code": "SECRET"]
        #expect("\(parameters)" == "code=<redacted>")
        var dumped = ""
        dump(parameters, to: &dumped)
        #expect(!dumped.contains("SECRET"))
    }
}
