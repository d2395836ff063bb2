import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import HTTPTypes
import Testing

@testable import AuthFlowOAuth

@Suite struct WebFingerTests {
    // The examples of OpenID Connect Discovery section 2.2, and variants of them.
    @Test(arguments: [
        ("joe@example.com", "acct:joe@example.com", "https://example.com"),
        ("acct:joe@example.com", "acct:joe@example.com", "https://example.com"),
        ("ACCT:joe@example.com", "acct:joe@example.com", "https://example.com"),
        (
            "acct:juliet%40capulet.example@shopping.example.com", "acct:juliet%40capulet.example@shopping.example.com",
            "https://shopping.example.com"
        ),
        ("a@b@example.com", "acct:a@b@example.com", "https://example.com"),
        ("example.com", "https://example.com/", "https://example.com"),
        ("example.com:8080", "https://example.com:8080/", "https://example.com:8080"),
        ("https://example.com/joe", "https://example.com/joe", "https://example.com"),
        ("https://example.com", "https://example.com", "https://example.com"),
        ("example.com/joe#fragment", "https://example.com/joe", "https://example.com"),
        ("acct:alice@127.0.0.1:8400", "acct:alice@127.0.0.1:8400", "http://127.0.0.1:8400"),
        ("acct:alice@[::1]:8400", "acct:alice@[::1]:8400", "http://[::1]:8400"),
    ]) func normalizesWebFingerIdentifiers(_ identifier: String, _ resource: String, _ origin: String) throws {
        let result = try WebFinger.normalized(identifier)
        #expect(result.resource == resource)
        #expect(result.origin == origin)
    }

    @Test(arguments: [
        "", "acct:", "acct:@example.com", "acct:joe", "joe@", "acct:joe@a/b", "http://example.com/joe", "a b",
    ])
    func rejectsInvalidWebFingerIdentifiers(_ identifier: String) {
        expectError(.invalidConfiguration) { try WebFinger.normalized(identifier) }
    }

    private func find(_ response: TransportResponse) async throws -> String {
        let transport = InProcessTransport(origin: "https://example.com") { _, _ in response }
        return try await WebFinger(transport: transport).issuer(of: "joe@example.com")
    }

    @Test(arguments: [
        (404, #"{"links":[]}"#), (200, #"{"links":[]}"#), (200, "{}"),
        (200, #"{"links":[{"rel":"other","href":"https://a"}]}"#),
        (200, #"{"links":[{"rel":"http://openid.net/specs/connect/1.0/issuer"}]}"#),
        (
            404,
            #"{"links":[{"rel":"http://openid.net/specs/connect/1.0/issuer","href":"https://op.example.com"}]}"#
        ),
    ]) func reportsThatNoIssuerWasFound(_ status: Int, _ body: String) async {
        let response = TransportResponse(head: HTTPResponse(status: .init(code: status)), body: Array(body.utf8))
        let error = await #expect(throws: AuthError.self) { try await find(response) }
        #expect(error?.code == .discoveryFailed)
    }

    /// RFC 7033 section 4.4.4.3: `href` is optional.
    @Test func skipsIssuerLinksWithoutAnHref() async throws {
        let relation = "http://openid.net/specs/connect/1.0/issuer"
        let body = #"{"links":[{"rel":"\#(relation)"},{"rel":"\#(relation)","href":"https://op.example.com"}]}"#
        let response = TransportResponse(head: HTTPResponse(status: .ok), body: Array(body.utf8))
        #expect(try await find(response) == "https://op.example.com")
    }

    @Test(arguments: [429, 500, 503]) func reportsThatTheServerIsUnavailable(_ status: Int) async {
        let response = TransportResponse(head: HTTPResponse(status: .init(code: status)))
        let error = await #expect(throws: AuthError.self) { try await find(response) }
        #expect(error?.code == .temporarilyUnavailable)
    }

    @Test func followsNoRedirect() async {
        let response = TransportResponse(
            head: HTTPResponse(status: .found, headerFields: [.location: "https://a.example.com"])
        )
        let error = await #expect(throws: AuthError.self) { try await find(response) }
        #expect(error?.code == .discoveryFailed)
    }
}
