import AuthFlow
import Testing

@Suite struct Base64URLTests {
    // RFC 4648 section 10 without padding, and RFC 7515 Appendix C.
    @Test(
        arguments: [
            ([], ""), (Array("f".utf8), "Zg"), (Array("fo".utf8), "Zm8"), (Array("foo".utf8), "Zm9v"),
            (Array("foob".utf8), "Zm9vYg"), (Array("fooba".utf8), "Zm9vYmE"), (Array("foobar".utf8), "Zm9vYmFy"),
            ([3, 236, 255, 224, 193], "A-z_4ME"),
        ] as [([UInt8], String)]
    ) func encodesAndDecodesBase64URL(_ bytes: [UInt8], _ text: String) {
        #expect(Base64URL.encode(bytes) == text)
        #expect(Base64URL.decode(text) == bytes)
    }

    @Test(arguments: ["Zg==", "Zm 9v", "Zm9v\n", "Zm+v", "Zm/v", "Z", "Zm9vY", "Zh", "Zm9v_x", "é"])
    func rejectsNonCanonicalBase64URL(_ text: String) {
        #expect(Base64URL.decode(text) == nil)
    }
}
