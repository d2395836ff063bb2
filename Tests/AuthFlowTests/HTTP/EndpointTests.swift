import AuthFlow
import Expectations
import Testing

@Suite struct EndpointTests {
    @Test(arguments: [
        "https://id.example.com", "https://id.example.com/path?tenant=1", "http://127.0.0.1:8080/x", "http://[::1]/",
        "http://localhost:1/", "https://xn--bcher-kva.example/",
    ]) func acceptsValidEndpoints(_ url: String) throws {
        #expect(try Endpoint(url).url == url)
    }

    /// RFC 5890: Foundation decodes the A-labels of an internationalized host name, but `Endpoint` must not.
    @Test func anInternationalizedHostNameRemainsEncoded() throws {
        #expect(try Endpoint("https://XN--bcher-kva.example/x").host == "xn--bcher-kva.example")
    }

    @Test(arguments: [
        "http://id.example.com", "http://127.0.0.1.example.com/", "http://127.0.0.2/", "ftp://id.example.com", "/path",
        "https://", "", "https://user@id.example.com/", "https://id.example.com/#fragment",
        "https://id.example.com\\@evil",
        "https://id.example.com/ ", "https://id.exämple.com/", "javascript:alert(1)", "https://id.example.com:99999/",
        "https://id.example.com:99999999999999999999/", "https://id.example.com:99999999999999999999?x",
        "http://localhost.example.com/", "https://id.example.com/\n", "https://%6cocalhost/", "https://127.0.0.%31/",
        "https://192.168.0.%31/", "https://id%2eexample.com/", "https://[fe80::1%25lo]/",
    ]) func rejectsInvalidEndpoints(_ url: String) {
        expectError(.invalidConfiguration) { try Endpoint(url) }
    }

    @Test func addingParametersPreservesTheQueryOfAnEndpoint() throws {
        let endpoint = Endpoint("https://id.example.com/authorize?tenant=1")
        #expect(endpoint.url(adding: ["a": "b c"]) == "https://id.example.com/authorize?tenant=1&a=b%20c")
        #expect(Endpoint("https://id.example.com/x").url(adding: ["a": "b"]) == "https://id.example.com/x?a=b")
    }

    /// WHATWG URL section 3.5.
    @Test(
        "The origin of an endpoint is compared in the browser's notation",
        arguments: [
            ("https://id.example.com:443/a", "https://id.example.com"),
            ("https://192.0.2.1:8443", "https://192.0.2.1:8443"), ("https://[0:0:0:0:0:0:0:1]:443/", "https://[::1]"),
            ("https://[2001:DB8:0:0::1]:8443", "https://[2001:db8::1]:8443"), ("https://[::]", "https://[::]"),
            ("https://[2001:db8:0:1:1:1:1:1]", "https://[2001:db8:0:1:1:1:1:1]"),
            ("https://[2001:0:0:1:0:0:0:1]", "https://[2001:0:0:1::1]"),
            ("https://[2001:db8:0:0:1:0:0:1]", "https://[2001:db8::1:0:0:1]"),
            ("https://[fe80:0:0:0:0:0:0:0]", "https://[fe80::]"),
            ("https://[::ffff:192.0.2.1]", "https://[::ffff:c000:201]"),
        ]
    )
    func derivesTheOriginThatBrowsersSend(_ url: String, _ origin: String) throws {
        #expect(try Endpoint(url).browserOrigin == origin)
    }

    @Test func derivesTheOriginOfAnEndpoint() throws {
        #expect(Endpoint("https://ID.example.com:443/a").origin == "https://id.example.com")
        #expect(Endpoint("https://id.example.com:8443/a").origin == "https://id.example.com:8443")
        #expect(Endpoint("http://[::1]:80/").origin == "http://[::1]")
    }

    /// RFC 3986 section 6.2.3: the default port is equivalent to none.
    @Test(arguments: [
        ("https://id.example.com:443/a", "id.example.com"), ("https://id.example.com:80/a", "id.example.com:80"),
        ("http://[::1]:80/a", "[::1]"), ("http://[::1]:443/a", "[::1]:443"),
        ("https://id.example.com/a", "id.example.com"),
    ]) func aRequestOmitsTheDefaultPort(_ url: String, _ authority: String) throws {
        let endpoint = try Endpoint(url)
        #expect(endpoint.authority == authority)
        #expect(TransportRequest(.get, endpoint).url == "\(endpoint.scheme)://\(authority)/a")
        #expect(endpoint.targetURI == "\(endpoint.scheme)://\(authority)/a")
    }

    @Test func printsNoQueryValues() throws {
        let endpoint = Endpoint("https://id.example.com/x?code=SECRET&flag")
        #expect("\(endpoint)" == "https://id.example.com/x?code=…&…")
    }

    @Test(arguments: [
        ("https://a/b?x=1&y=2#access_token=3", "https://a/b?x=…&y=…#access_token=…"),
        ("https://user:pw@a/b", "https://<redacted>@a/b"),
        ("https://user:p=w@a/b", "https://<redacted>@a/b"),
        ("https://user:p=w@a/b=secret", "https://<redacted>@a/b=…"),
        ("https://user:p/w@a/b", "https://<redacted>@a/b"), ("https://user:p?w@a/b?c=1", "https://<redacted>@a/b?c=…"),
        ("https://user:p#w@a/b", "https://<redacted>@a/b"), ("https://a:8443/b@c", "https://a:8443/b@c"),
        ("https://[::1]/b@c", "https://[::1]/b@c"),
        ("https://[fe80::abcd]/cb?code=A@B", "https://[fe80::abcd]/cb?code=…"),
        ("https://al@corp.example:pa/ss@a/b", "https://<redacted>@a/b"),
        ("https://user@a:8443/b@c", "https://<redacted>@a:8443/b@c"), ("https://a/b@c", "https://a/b@c"),
        ("com.example:/cb?code=1", "com.example:/cb?code=…"),
        ("plain", "plain"),
    ]) func redactsValuesInURLs(_ url: String, _ shown: String) {
        #expect(Redaction.url(url) == shown)
    }
}
