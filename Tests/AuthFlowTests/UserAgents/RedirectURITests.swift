import AuthFlow
import Expectations
import Testing

@Suite struct RedirectURITests {
    @Test func acceptsAnyPortWhenALoopbackRedirectURIHasNone() throws {
        // RFC 8252 section 7.3: the port is not part of the registered redirect URI.
        for uri in ["http://127.0.0.1/callback", "http://127.0.0.1:0/callback"] {
            let redirect = try RedirectURI(uri)
            #expect(redirect.kind == .loopback(host: "127.0.0.1", port: nil, path: "/callback"))
            #expect(redirect.uri(port: 4321) == "http://127.0.0.1:4321/callback")
        }
        #expect(RedirectURI("http://[::1]:8400/cb").uri(port: 1) == "http://[::1]:8400/cb")
    }

    @Test(arguments: [
        ("http://localhost", "http://localhost:4321"), ("http://127.0.0.1:0", "http://127.0.0.1:4321"),
        ("http://127.0.0.1/", "http://127.0.0.1:4321/"), ("http://[::1]", "http://[::1]:4321"),
    ]) func addsOnlyThePortToALoopbackRedirectURI(_ uri: String, _ expected: String) throws {
        // RFC 9700 section 2.1: "exact string matching except for port numbers in localhost redirection URIs of native apps".
        #expect(try RedirectURI(uri).uri(port: 4321) == expected)
    }

    @Test(arguments: [
        ("http://127.0.0.1:0", "http://127.0.0.1"), ("http://[::1]:0/a", "http://[::1]/a"),
        ("http://127.0.0.1:8080/a:0/b", "http://127.0.0.1:8080/a:0/b"),
    ]) func ignoresOnlyPortZero(_ uri: String, _ expected: String) throws {
        #expect(try RedirectURI(uri).uri == expected)
    }

    @Test func classifiesTheThreeKindsOfRedirectURI() throws {
        #expect(RedirectURI("com.example.app:/callback").kind == .privateUse(scheme: "com.example.app"))
        #expect(RedirectURI("https://app.example.com/callback").kind == .https)
        #expect(
            try RedirectURI("http://localhost:8400/callback").kind
                == .loopback(host: "localhost", port: 8400, path: "/callback")
        )
    }

    @Test(arguments: [
        "http://example.com/callback", "http://0.0.0.0/callback", "myapp:/callback", "http://127.0.0.1/callback#x",
        "http://127.0.0.1/callback?x=1", "", "callback", "http://192.168.0.1/", "com.example.app:/callback#x",
    ]) func rejectsInvalidRedirectURIs(_ uri: String) {
        expectError(.invalidConfiguration) { try RedirectURI(uri) }
    }
}
