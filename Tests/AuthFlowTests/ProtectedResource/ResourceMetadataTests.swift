import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowResourceClient

@Suite struct ResourceMetadataTests {
    struct Place: CustomTestStringConvertible {
        let address: String
        let places: [String]
        var testDescription: String { address }
    }

    /// A transport for every origin.
    private struct StubTransport: HTTPTransport {
        let response: @Sendable (TransportRequest) -> TransportResponse
        func send(_ call: TransportRequest) async throws -> TransportResponse { response(call) }
    }

    /// RFC 9728 section 3.1.
    static let places: [Place] = [
        Place(
            address: "https://example.com/public/mcp",
            places: [
                "https://example.com/.well-known/oauth-protected-resource/public/mcp",
                "https://example.com/.well-known/oauth-protected-resource",
            ]
        ),
        Place(address: "https://example.com", places: ["https://example.com/.well-known/oauth-protected-resource"]),
        Place(address: "https://example.com/", places: ["https://example.com/.well-known/oauth-protected-resource"]),
        Place(
            address: "https://example.com:8443/mcp?tenant=7",
            places: [
                "https://example.com:8443/.well-known/oauth-protected-resource/mcp?tenant=7",
                "https://example.com:8443/.well-known/oauth-protected-resource",
            ]
        ),
    ]

    @Test(arguments: places) func requestsResourceMetadataFromTheWellKnownURLs(_ place: Place) async throws {
        let urls = Mutex<[String]>([])
        let origin = try Endpoint(place.address).origin
        let transport = InProcessTransport(origin: origin) { request, _ in
            urls.withLock { $0.append("\(origin)\(request.path ?? "")") }
            return TransportResponse(head: HTTPResponse(status: .notFound))
        }
        let discovery = ProtectedResourceDiscovery(
            address: try Endpoint(place.address),
            transport: transport,
            host: .system
        )
        #expect(try await discovery.metadata(named: nil) == nil)
        #expect(urls.withLock { $0 } == place.places)
    }

    private static func discovery(_ transport: any HTTPTransport) -> ProtectedResourceDiscovery {
        ProtectedResourceDiscovery(address: Endpoint("https://a.example/mcp"), transport: transport, host: .system)
    }

    /// A server that doubles the path in the URL of its challenge has a document at the URL that RFC 9728 defines.
    @Test(arguments: [
        ("https://a.example/.well-known/oauth-protected-resource/mcp/mcp", 404, true),
        ("https://a.example/.well-known/oauth-protected-resource/mcp/mcp", 403, false),
        ("https://b.example/.well-known/oauth-protected-resource/mcp", 404, false),
    ])
    func aMissingDocumentInTheChallengeIsLookedUpAtTheWellKnownURLs(
        _ named: String,
        _ status: Int,
        _ isFound: Bool
    ) async throws {
        let transport = StubTransport { request in
            guard request.url == "https://a.example/.well-known/oauth-protected-resource/mcp" else {
                return TransportResponse(head: HTTPResponse(status: HTTPResponse.Status(code: status)))
            }
            let body = #"{"resource": "https://a.example/mcp", "authorization_servers": ["https://id.example"]}"#
            let head = HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"])
            return TransportResponse(head: head, body: Array(body.utf8))
        }
        let discovery = Self.discovery(transport)
        guard isFound else {
            return await expectError(.discoveryFailed) { _ = try await discovery.metadata(named: named) }
        }
        #expect(try await discovery.metadata(named: named)?.authorizationServers == ["https://id.example"])
    }

    /// Without a document anywhere, the URL in the challenge must not be treated as absent.
    @Test func aMissingDocumentInTheChallengeIsAnError() async throws {
        let transport = StubTransport { _ in TransportResponse(head: HTTPResponse(status: .notFound)) }
        let discovery = Self.discovery(transport)
        await expectError(.discoveryFailed) { _ = try await discovery.metadata(named: "https://a.example/prm") }
    }

    /// The host's metadata document describes a broader resource.
    @Test(arguments: [#"{"resource": "https://a.example/mcp", "resource": "x"}"#, "{", "[]", "\u{0}", ""])
    func malformedResourceMetadataDoesNotFallBackToTheHostsMetadata(_ document: String) async throws {
        let transport = InProcessTransport(origin: "https://a.example") { request, _ in
            let isOwn = request.path?.hasSuffix("/mcp") == true
            let body =
                isOwn
                ? document : #"{"resource": "https://a.example", "authorization_servers": ["https://id.example"]}"#
            let head = HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"])
            return TransportResponse(head: head, body: Array(body.utf8))
        }
        let discovery = Self.discovery(transport)
        await expectError(.discoveryFailed) { _ = try await discovery.metadata(named: nil) }
    }

    @Test(arguments: [
        ("https://a.example/.well-known/oauth-protected-resource", true),
        ("https://a.example/.well-known/oauth-protected-resource/mallory/mcp", true),
        ("https://a.example/mallory/prm", false),
        ("https://a.example/.well-known/oauth-protected-resource/..%2f..%2fmallory/prm", false),
        ("https://b.example/.well-known/oauth-protected-resource", false),
    ]) func aResourcePrefixIsAcceptedOnlyFromAWellKnownURLOfTheHost(_ place: String, _ counts: Bool) throws {
        let json: JSON = ["resource": "https://a.example", "authorization_servers": ["https://id.example"]]
        let address = Endpoint("https://a.example/mallory/mcp")
        let metadata = try? ProtectedResourceMetadata(json, of: address, at: try Endpoint(place))
        #expect((metadata?.fit == .prefix) == counts)
    }

    struct Fit: CustomTestStringConvertible {
        let resource: String
        let address: String
        let fit: ProtectedResourceMetadata.Fit?
        var testDescription: String { "\(resource) for \(address)" }
    }

    static let fits: [Fit] = [
        Fit(resource: "https://a.example/mcp", address: "https://a.example/mcp", fit: .identical),
        Fit(resource: "https://a.example/mcp/", address: "https://a.example/mcp", fit: .identical),
        Fit(resource: "https://a.example", address: "https://a.example/", fit: .identical),
        Fit(resource: "HTTPS://A.example/mcp", address: "https://a.example/mcp", fit: .identical),
        Fit(resource: "https://a.example", address: "https://a.example/mcp", fit: .prefix),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/mcp", fit: .prefix),
        Fit(resource: "https://a.example/mcp", address: "https://a.example/mcp?tenant=7", fit: .prefix),
        Fit(resource: "https://a.example/api", address: "https://a.example/api123", fit: nil),
        Fit(resource: "https://a.example/mcp/x", address: "https://a.example/mcp", fit: nil),
        Fit(resource: "https://a.example/MCP", address: "https://a.example/mcp", fit: nil),
        Fit(resource: "https://a.example:8443/mcp", address: "https://a.example/mcp", fit: nil),
        Fit(resource: "http://a.example/mcp", address: "https://a.example/mcp", fit: nil),
        Fit(resource: "https://a.example.evil.example", address: "https://a.example/mcp", fit: nil),
        Fit(resource: "https://a.example@evil.example", address: "https://a.example/mcp", fit: nil),
        Fit(resource: "https://a.example/mcp#x", address: "https://a.example/mcp", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/../admin", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/%2E%2e/admin", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/..%2Fadmin", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/a%5C..%5C..%5Cadmin", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/..;v=1/admin", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/..%3Bv=1/admin", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/%252e%252E/admin", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/%25252e./admin", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/%252%65./admin", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/..%3Fx", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/..%23x", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/.%09./admin", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/..%00/admin", fit: nil),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/group%2Fproject", fit: .prefix),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/100%25", fit: .prefix),
        Fit(resource: "https://a.example/api", address: "https://a.example/api/..x/a;v=1", fit: .prefix),
        Fit(resource: "a.example", address: "https://a.example/mcp", fit: nil),
    ]

    @Test(arguments: fits) func aResourceIdentifierMatchesItsURLAndNestedURLs(_ test: Fit) throws {
        let address = try Endpoint(test.address)
        #expect(ProtectedResourceMetadata.fit(of: test.resource, to: address) == test.fit)
    }

    @Test func invalidScopesInResourceMetadataAreIgnored() throws {
        let json: JSON = [
            "resource": "https://a.example/mcp", "authorization_servers": ["https://id.example"],
            "scopes_supported": ["read write", "read", "", "a\"b"],
        ]
        let address = Endpoint("https://a.example/mcp")
        #expect(try ProtectedResourceMetadata(json, of: address, at: address).scopes == ["read"])
    }

    @Test func resourceMetadataWithScopesOfTheWrongTypeIsUsedWithoutThem() throws {
        let address = Endpoint("https://a.example/mcp")
        var json: [String: JSON] = [
            "resource": "https://a.example/mcp", "authorization_servers": ["https://id.example"],
            "scopes_supported": "read write",
        ]
        let metadata = try ProtectedResourceMetadata(.object(json), of: address, at: address)
        #expect(metadata.scopes == nil && metadata.authorizationServers == ["https://id.example"])
        // This list determines the authorization server, so a wrong type is an error.
        json["authorization_servers"] = "https://id.example"
        expectError(.discoveryFailed) { try ProtectedResourceMetadata(.object(json), of: address, at: address) }
    }

    @Test func unknownMembersOfMetadataAreIgnored() throws {
        let json: JSON = [
            "resource": "https://a.example/mcp", "authorization_servers": ["https://id.example"], "x": ["y": 1],
            "resource_name": "A",
            "scopes_supported": .null, "bearer_methods_supported": ["header"],
        ]
        let address = Endpoint("https://a.example/mcp")
        let metadata = try ProtectedResourceMetadata(json, of: address, at: address)
        #expect(metadata.fit == .identical)
        #expect(metadata.scopes == nil)
        #expect(!metadata.requiresDPoP)
    }
}

@Suite struct ClientMetadataDocumentTests {
    private static let address = "https://client.example.com/tools/cli.json"

    @Test func aGeneratedClientMetadataDocumentIsValid() throws {
        let document = try ClientMetadataDocument(clientID: Self.address, name: "Tool")
        #expect(document.json["client_id"]?.string == Self.address)
        #expect(document.json["token_endpoint_auth_method"]?.string == "none")
        #expect(document.json["application_type"]?.string == "native")
        #expect(try ClientMetadataDocument(checking: document.json, at: Self.address) == document)
    }

    @Test(arguments: [
        "http://client.example.com/cli.json", "https://client.example.com", "https://client.example.com/",
        "http://127.0.0.1/cli.json",
        "https://client.example.com/a/../cli.json", "https://client.example.com/./cli.json",
        "https://client.example.com/cli.json#x",
        "https://user@client.example.com/cli.json", "not an address",
    ]) func rejectsAnInvalidClientMetadataDocumentURL(_ address: String) {
        expectError(.invalidConfiguration) { try ClientMetadataDocument(clientID: address, name: "Tool") }
    }

    @Test(arguments: [
        ("client_id", JSON.string("https://client.example.com/tools/cli.json/")), ("client_name", .null),
        ("redirect_uris", JSON.array([])),
        ("client_secret", "x"), ("client_secret_expires_at", 0), ("token_endpoint_auth_method", "client_secret_basic"),
        // RFC 7591 section 2: the default is client_secret_basic.
        ("token_endpoint_auth_method", .null), ("redirect_uris", JSON.array(["http://evil.example.com/callback"])),
        ("padding", .string(String(repeating: "x", count: 6000))),
    ]) func rejectsAnInvalidClientMetadataDocument(_ member: String, _ value: JSON) throws {
        var members = try ClientMetadataDocument(clientID: Self.address, name: "Tool").json.object ?? [:]
        members[member] = value
        let json = JSON.object(members)
        expectError(.invalidConfiguration) { try ClientMetadataDocument(checking: json, at: Self.address) }
    }

    /// The document is about to be published.
    @Test(
        "A client metadata document contains no private keys",
        arguments: [
            (["keys": [["kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"]]], nil),
            (["keys": [["kty": "EC", "x": "AA", "y": "AA", "d": "s3cret"]]], "a private or symmetric key"),
            (["keys": [["kty": "OKP", "x": "AA"], ["kty": "oct", "k": "s3cret"]]], "a private or symmetric key"),
            (["keys": [["kty": "RSA", "n": "AA", "e": "AQAB", "p": "s3cret"]]], "a private or symmetric key"),
            (["keys": []], "contains no keys"), ([["kty": "EC"]], "contains no keys"),
            (.null, "neither \"jwks\" nor \"jwks_uri\""),
        ] as [(JSON, String?)]
    )
    func checksTheKeysOfAClientMetadataDocument(_ keys: JSON, _ message: String?) throws {
        var members = try ClientMetadataDocument(clientID: Self.address, name: "Tool").json.object ?? [:]
        members["token_endpoint_auth_method"] = "private_key_jwt"
        members["jwks"] = keys
        let json = JSON.object(members)
        guard let message else {
            #expect(try ClientMetadataDocument(checking: json, at: Self.address).json == json)
            return
        }
        let error = #expect(throws: AuthError.self) { try ClientMetadataDocument(checking: json, at: Self.address) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains(message) == true)
        #expect(error?.message.contains("s3cret") == false)
    }

    @Test func aClientMetadataDocumentMayReferToItsKeys() throws {
        var members = try ClientMetadataDocument(clientID: Self.address, name: "Tool").json.object ?? [:]
        members["token_endpoint_auth_method"] = "private_key_jwt"
        members["jwks_uri"] = "https://client.example.com/jwks.json"
        #expect(throws: Never.self) { try ClientMetadataDocument(checking: .object(members), at: Self.address) }
    }

    @Test(arguments: [(200, true), (404, false), (302, false), (201, false)])
    func aClientMetadataDocumentIsAcceptedOnlyWithStatus200(_ status: Int, _ isRead: Bool) async throws {
        let document = try ClientMetadataDocument(clientID: Self.address, name: "Tool")
        let transport = InProcessTransport(origin: "https://client.example.com") { _, _ in
            let head = HTTPResponse(status: .init(code: status), headerFields: [.contentType: "application/json"])
            return TransportResponse(head: head, body: try document.json.serialized())
        }
        let found = try? await ClientMetadataDocument.fetch(Self.address, transport: transport)
        #expect((found == document) == isRead)
    }

    /// Authorization servers must treat any other content type as an error, so a check that accepts it would be misleading.
    @Test(
        arguments: [
            ("application/json", true), ("Application/JSON; charset=utf-8", true),
            ("application/oauth-client-id-metadata+json", true), (nil, false), ("", false), ("text/plain", false),
            ("application/octet-stream", false), ("text/html", false), ("text/x+json", false),
            ("application/jsonp", false),
        ] as [(String?, Bool)]
    )
    func aClientMetadataDocumentIsAcceptedOnlyWithAJSONMediaType(_ type: String?, _ isRead: Bool) async throws {
        let document = try ClientMetadataDocument(clientID: Self.address, name: "Tool")
        let transport = InProcessTransport(origin: "https://client.example.com") { _, _ in
            var head = HTTPResponse(status: .ok)
            head.headerFields[.contentType] = type
            return TransportResponse(head: head, body: try document.json.serialized())
        }
        guard !isRead else {
            #expect(try await ClientMetadataDocument.fetch(Self.address, transport: transport) == document)
            return
        }
        let error = await #expect(throws: AuthError.self) {
            try await ClientMetadataDocument.fetch(Self.address, transport: transport)
        }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains("Serve it as application/json") == true)
    }
}
