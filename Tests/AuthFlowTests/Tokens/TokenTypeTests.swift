import AuthFlow
import Testing

@testable import AuthFlowOAuth

/// `token_type` in a token response (RFC 6749 appendix A.13).
@Suite struct TokenTypeTests {
    @Test(arguments: ["", String(repeating: "a", count: 257), "Bear er", "Bear\ner", "\u{E9}"])
    func rejectsATokenTypeThatCannotBeSent(_ type: String) {
        let tokens = TokenSet(accessToken: Secret("token"), tokenType: type)
        let error = #expect(throws: AuthError.self) { try tokens.requireTransportableCharacters() }
        #expect(error?.code == .invalidResponse)
        #expect(error?.message.contains("\"token_type\" is empty, longer than 256 bytes, or contains") == true)
    }

    @Test(arguments: ["Bearer", "urn:example:type", String(repeating: "a", count: 256)])
    func acceptsATokenTypeThatIsANameOrAURI(_ type: String) throws {
        try TokenSet(accessToken: Secret("token"), tokenType: type).requireTransportableCharacters()
    }
}
