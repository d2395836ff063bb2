import AuthFlow
import Expectations
import Testing

/// The identifiers of resources in requests (RFC 8707 section 2).
@Suite struct ResourceIdentifierTests {
    @Test(arguments: [
        "https://api.example.com/v1", "http://localhost:8080/", "urn:example:api", "api+x.1-y:z",
        "urn:" + String(repeating: "a", count: 2044),
    ])
    func acceptsAnAbsoluteURI(_ text: String) throws {
        #expect(try ResourceIdentifier.checked(text) == text)
    }

    @Test(arguments: [
        "1urn:example", ":example", "u_rn:example", "\u{E9}rn:example", "urn:example#part", "urn:exa mple",
        "urn:\u{E9}", "urn:example\n", "urn:\"example\"", "urn:", "urn:" + String(repeating: "a", count: 2045),
    ])
    func rejectsTextThatIsNotAnAbsoluteURI(_ text: String) {
        let error = #expect(throws: AuthError.self) { try ResourceIdentifier.checked(text) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains("is not an absolute URI without a fragment") == true)
    }

    /// A token for such a resource would be sent without encryption.
    @Test(arguments: ["http://api.example.com/", "HTTP://api.example.com/"])
    func anHTTPResourceMustBeALoopbackURL(_ text: String) {
        let error = #expect(throws: AuthError.self) { try ResourceIdentifier.checked(text) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains("only https is safe") == true)
    }

    @Test(arguments: ["", "api", "https://", "https://user@api.example.com/", "HTTPS://api.example.com/#part"])
    func rejectsAnInvalidURL(_ text: String) {
        expectError(.invalidConfiguration) { try ResourceIdentifier.checked(text) }
    }
}
