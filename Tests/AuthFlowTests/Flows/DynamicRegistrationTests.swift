import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// A provider without provider-specific behavior. The tests use only its registration endpoint.
private struct PlainProvider: ProviderAdapter {
    let issuer = "https://id.example.com"
    let change: @Sendable (inout ProviderMetadata) -> Void
    func metadata(in context: ServerContext) throws -> ProviderMetadata {
        var metadata = ProviderMetadata(
            issuer: "https://id.example.com",
            registrationEndpoint: Endpoint("https://id.example.com/register")
        )
        change(&metadata)
        return metadata
    }
}

@Suite struct DynamicRegistrationTests {
    private func register(
        _ response: JSON,
        status: HTTPResponse.Status = .created,
        method: ClientAuthentication.Method? = nil,
        metadata: @escaping @Sendable (inout ProviderMetadata) -> Void = { _ in },
        token: Secret? = nil,
        sent: @escaping @Sendable (HTTPRequest, JSON) -> Void = { _, _ in }
    ) async throws -> DynamicRegistration.Registered {
        let transport = InProcessTransport(origin: "https://id.example.com") { request, body in
            sent(request, try JSON(parsing: body))
            return TransportResponse(head: HTTPResponse(status: status), body: try response.serialized())
        }
        var asked = DynamicRegistration.Request(name: "Test", metadata: ["contacts": ["a@b"]])
        if let method { asked.authenticationMethods = [method] }
        let server = AuthorizationServer(PlainProvider(change: metadata), transport: transport)
        return try await DynamicRegistration(server: server).register(asked, initialAccessToken: token)
    }

    @Test func sendsTheMetadataOfANativeApp() async throws {
        let seen = Mutex<(HTTPRequest, JSON)?>(nil)
        let registered = try await register(["client_id": "c"], token: Secret("initial")) { request, json in
            seen.withLock { $0 = (request, json) }
        }
        #expect(registered.clientID == "c")
        #expect(registered.authentication.method == .none)
        let (request, json) = try #require(seen.withLock { $0 })
        #expect(request.headerFields[.authorization] == "Bearer initial")
        #expect(json["redirect_uris"] == ["http://127.0.0.1/callback"])
        #expect(json["application_type"] == "native")
        #expect(json["grant_types"] == ["authorization_code", "refresh_token"])
        #expect(json["token_endpoint_auth_method"] == "none")
        #expect(json["client_name"] == "Test")
        #expect(json["contacts"] == ["a@b"])
    }

    @Test(
        arguments: [
            ["client_id": "a\u{1B}[31m"], ["client_id": "\u{E9}"],
            ["client_id": .string(String(repeating: "a", count: 5000))],
            ["client_id": "a", "client_secret": "b\nc"],
        ] as [JSON]
    )
    func rejectsIssuedClientCredentialsThatCannotBeSent(_ response: JSON) async throws {
        await #expect(throws: AuthError.self) { try await register(response) }
    }

    /// An error would lead to another registration at the next attempt.
    @Test(arguments: ["javascript:1", "http://127.0.0.1/register/c", "", "https://id.example.com/register/c"])
    func acceptsARegistrationWithAnInvalidClientConfigurationEndpoint(_ url: String) async throws {
        let registered = try await register(["client_id": "c", "registration_client_uri": .string(url)])
        #expect(registered.registrationEndpoint?.url == (url.hasPrefix("https") ? url : nil))
    }

    @Test(arguments: [nil, "none", "client_secret_post"])
    func anEmptyClientSecretMeansAPublicClient(_ method: String?) async throws {
        var response: [String: JSON] = ["client_id": "c", "client_secret": ""]
        response["token_endpoint_auth_method"] = method.map { .string($0) }
        let registered = try await register(.object(response))
        #expect(registered.authentication.method == .none)
    }

    /// Otherwise, the client would register again although it has no secret.
    @Test func ignoresTheExpiryOfAnUnusedSecret() async throws {
        let registered = try await register([
            "client_id": "c", "client_secret": "s3cret", "client_secret_expires_at": 1_900_000_000,
            "token_endpoint_auth_method": "none",
        ])
        #expect(registered.authentication.method == .none && registered.clientSecretExpiresAt == nil)
    }

    @Test func usesTheIssuedClientSecretAndMethod() async throws {
        let registered = try await register(
            [
                "client_id": "c", "client_secret": "s3cret", "client_secret_expires_at": 1_900_000_000,
                "token_endpoint_auth_method": "client_secret_post", "registration_access_token": "t",
                "registration_client_uri": "https://id.example.com/register/c",
            ],
            method: .clientSecretBasic
        )
        #expect(registered.authentication.method == .clientSecretPost)
        #expect(registered.authentication.secret == Secret("s3cret"))
        #expect(registered.clientSecretExpiresAt?.timeIntervalSince1970 == 1_900_000_000)
        #expect(registered.registrationAccessToken == Secret("t"))
        #expect(!"\(registered)".contains("s3cret"))
    }

    @Test(arguments: [
        (["none", "client_secret_basic"], "none"),
        (["client_secret_basic", "client_secret_post"], "client_secret_post"),
        (["client_secret_basic"], "client_secret_basic"), (["private_key_jwt"], "none"),
    ])
    func requestsASupportedClientAuthenticationMethod(_ methods: [String], _ expected: String) async throws {
        let seen = Mutex<JSON?>(nil)
        _ = try await register(
            ["client_id": "c", "client_secret": expected == "none" ? .null : "s"],
            metadata: { $0.tokenEndpointAuthMethods = methods }
        ) { _, json in
            seen.withLock { $0 = json }
        }
        #expect(seen.withLock { $0?["token_endpoint_auth_method"]?.string } == expected)
    }

    /// RFC 7591 section 2: the default is client_secret_basic.
    @Test func aClientSecretWithoutAMethodDefaultsToClientSecretBasic() async throws {
        let registered = try await register(["client_id": "c", "client_secret": "s"], method: .clientSecretPost)
        #expect(registered.authentication.method == .clientSecretBasic)
    }

    @Test func nullMembersOfARegistrationResponseCountAsAbsent() async throws {
        let registered = try await register([
            "client_id": "c", "client_secret": .null, "redirect_uris": .null, "token_endpoint_auth_method": .null,
        ])
        #expect(registered.clientID == "c" && registered.authentication.method == .none)
    }

    @Test func anExplicitMethodIsNotReplaced() async throws {
        let seen = Mutex<JSON?>(nil)
        _ = try await register(
            ["client_id": "c"],
            method: ClientAuthentication.Method.none,
            metadata: { $0.tokenEndpointAuthMethods = ["client_secret_basic"] }
        ) { _, json in
            seen.withLock { $0 = json }
        }
        #expect(seen.withLock { $0?["token_endpoint_auth_method"]?.string } == "none")
    }

    @Test func theErrorMentionsAMissingInitialAccessToken() async throws {
        for (status, token) in [(HTTPResponse.Status.unauthorized, nil), (.unauthorized, Secret("t"))] {
            let error = await #expect(throws: AuthError.self) {
                try await register(["error": "invalid_token"], status: status, token: token)
            }
            #expect(error?.message.contains("initial access token") == (token == nil))
        }
    }

    struct Refused: CustomTestStringConvertible {
        let response: JSON
        let status: HTTPResponse.Status
        let code: AuthError.Code
        var testDescription: String { "\(response)" }
    }

    static let refused: [Refused] = [
        Refused(response: [:], status: .created, code: .invalidResponse),
        Refused(response: ["client_id": ""], status: .created, code: .invalidResponse),
        Refused(response: ["client_id": 5], status: .created, code: .invalidResponse),
        Refused(
            response: ["client_id": "c", "redirect_uris": ["https://evil.example.com"]],
            status: .created,
            code: .invalidResponse
        ),
        Refused(response: ["client_id": "c", "redirect_uris": "x"], status: .created, code: .invalidResponse),
        Refused(
            response: ["client_id": "c", "token_endpoint_auth_method": "private_key_jwt"],
            status: .created,
            code: .unsupported
        ),
        Refused(
            response: ["client_id": "c", "token_endpoint_auth_method": "client_secret_basic"],
            status: .created,
            code: .unsupported
        ),
        Refused(response: ["error": "invalid_redirect_uri"], status: .badRequest, code: .providerRejected),
        Refused(response: ["client_id": "c"], status: .badRequest, code: .providerRejected),
        Refused(response: ["client_id": "c", "error": "invalid_request"], status: .ok, code: .providerRejected),
    ]

    @Test(arguments: refused)
    func rejectsInvalidRegistrationResponses(_ test: Refused)
        async
    {
        let error = await #expect(throws: AuthError.self) { try await register(test.response, status: test.status) }
        #expect(error?.code == test.code)
    }

    /// Each further attempt would register another client.
    @Test(
        "A client whose registration response is rejected is deleted",
        arguments: [
            ["redirect_uris": ["https://evil.example.com"]], ["token_endpoint_auth_method": "private_key_jwt"],
            ["client_secret": "b\nc"],
        ] as [[String: JSON]],
        [HTTPResponse.Status.noContent, .methodNotAllowed]
    )
    func deletesARejectedRegistration(_ members: [String: JSON], _ status: HTTPResponse.Status) async throws {
        let deleted = Mutex<[HTTPRequest]>([])
        let transport = InProcessTransport(origin: "https://id.example.com") { request, _ in
            guard request.method != .delete else {
                deleted.withLock { $0.append(request) }
                return TransportResponse(head: HTTPResponse(status: status))
            }
            let response: [String: JSON] = [
                "client_id": "c", "registration_client_uri": "https://id.example.com/register/c",
                "registration_access_token": "t0ken",
            ]
            let body = try JSON.object(response.merging(members) { $1 }).serialized()
            return TransportResponse(head: HTTPResponse(status: .created), body: body)
        }
        let server = AuthorizationServer(PlainProvider { _ in }, transport: transport)
        let error = await #expect(throws: AuthError.self) {
            try await DynamicRegistration(server: server).register(DynamicRegistration.Request())
        }
        let code = try #require(error?.code)
        #expect(code == .invalidResponse || code == .unsupported)
        let requests = deleted.withLock { $0 }
        #expect(requests.map(\.path) == ["/register/c"])
        #expect(requests.first?.headerFields[.authorization] == "Bearer t0ken")
    }

    /// The registration access token must not be sent to a server that the provider must not refer to.
    @Test(arguments: ["http://127.0.0.1/register/c", "http://id.example.com/register/c", "", nil])
    func doesNotDeleteARejectedRegistrationWithoutAnAcceptableEndpoint(_ url: String?) async throws {
        let methods = Mutex<[HTTPRequest.Method]>([])
        var response: [String: JSON] = [
            "client_id": "c", "redirect_uris": "x", "registration_access_token": "t0ken",
        ]
        response["registration_client_uri"] = url.map { .string($0) }
        let body = try JSON.object(response).serialized()
        let transport = InProcessTransport(origin: "https://id.example.com") { request, _ in
            methods.withLock { $0.append(request.method) }
            return TransportResponse(head: HTTPResponse(status: .created), body: body)
        }
        let server = AuthorizationServer(PlainProvider { _ in }, transport: transport)
        await #expect(throws: AuthError.self) {
            try await DynamicRegistration(server: server).register(DynamicRegistration.Request())
        }
        #expect(methods.withLock { $0 } == [.post])
    }
}
