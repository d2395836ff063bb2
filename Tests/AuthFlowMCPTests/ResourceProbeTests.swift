import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Expectations
import HTTPTypes
import Synchronization
import Testing

/// Requests that a client of a protected resource sends without user interaction: before it opens the authorization page, and to
/// obtain the resource's challenge.
@Suite struct ResourceProbeTests {
    private let time = VirtualTime()
    private let store = MemoryTokenStore()
    private let environment: ResourceEnvironment
    private let interceptor: Interceptor

    init() { (interceptor, environment) = Interceptor.environment() }

    private func client(_ change: (inout ResourceClient.Options) -> Void = { _ in }) throws -> ResourceClient {
        var options = ResourceClient.Options()
        change(&options)
        return try environment.client(store: store, options: options, host: time.host)
    }

    private func page(_ status: HTTPResponse.Status) -> TransportResponse {
        TransportResponse(
            head: HTTPResponse(status: status, headerFields: [.contentType: "text/html"]),
            // Bytes are compared: as Swift characters, the name would differ because of the combining mark.
            body: Array("<p>The Client_ID\u{301} is x.</p>".utf8)
        )
    }

    private func list(_ client: ResourceClient) async throws -> Int {
        let request = TransportRequest(
            .post,
            client.address,
            headerFields: [.contentType: "application/json", .accept: "application/json, text/event-stream"],
            body: Array(#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#.utf8)
        )
        return try await client.send(request).status
    }

    /// Only an error page with status 400, 401 or 422 indicates that the server does not recognize the client, because a sign-in page may
    /// also contain the client ID.
    @Test(arguments: [(200, 1), (403, 1), (500, 1), (503, 1), (400, 2), (401, 2), (422, 2)])
    func onlyAnErrorPageWithOneOfTheseStatusesCausesANewRegistration(_ status: Int, _ registrations: Int) async throws {
        let response = page(HTTPResponse.Status(code: status))
        #expect(try await registrationsAfterProbe(response) == registrations)
    }

    /// Some servers redirect to an error page, because the redirect URI of an unknown client cannot be verified.
    @Test(arguments: [
        ("https://api.example.com/error?error=invalid_client&error_description=client+not+found", 2),
        ("/error?error=invalid_client#top", 2), ("/error?error=server_error", 1),
        ("/error?error=invalid_client&error_description=100%+ung%FCltig", 2),
        ("/login?client_id=x&next=%3Ferror%3Dinvalid_client", 1), ("/login#?error=invalid_client", 1), ("/login", 1),
    ])
    func aRedirectToAnErrorPageForAnUnknownClientCausesANewRegistration(
        _ location: String,
        _ registrations: Int
    ) async throws {
        let head = HTTPResponse(status: .found, headerFields: [.location: location])
        #expect(try await registrationsAfterProbe(TransportResponse(head: head)) == registrations)
    }

    /// Pydantic returns the complete input in an error about a missing parameter.
    @Test(
        "An error that contains all parameters of the request does not cause a new registration",
        arguments: [
            (#"{"detail": [{"loc": ["query", "tenant"], "input": {"client_id": "c", "code_challenge": "x"}}]}"#, 1),
            (#"{"detail": [{"loc": ["query", "client_id"], "input": "c"}]}"#, 2),
            (#"{"error": "invalid_request", "error_description": "The client_id is unknown."}"#, 2),
            (#"<p>Unknown client_id</p><a href="?lang=de&client_id=c&code_challenge=x">Deutsch</a>"#, 2),
        ]
    )
    func aCompleteEchoCausesNoNewRegistration(_ body: String, _ registrations: Int) async throws {
        let type = body.hasPrefix("{") ? "application/json" : "text/html"
        let head = HTTPResponse(status: .init(code: 422), headerFields: [.contentType: type])
        let response = TransportResponse(head: head, body: Array(body.utf8))
        #expect(try await registrationsAfterProbe(response) == registrations)
    }

    /// The clock was a day ahead when the client was registered.
    @Test func anUnknownClientIsRegisteredAgainAfterTheClockWasSetBack() async throws {
        #expect(try await registrationsAfterProbe(page(.badRequest), after: .seconds(-86_400)) == 2)
    }

    /// Signs in a second time, with this response to the request before the authorization page is opened.
    /// - Parameter pause: The time between the two sign-ins.
    /// - Returns: The number of registrations.
    private func registrationsAfterProbe(
        _ response: TransportResponse,
        after pause: Duration = .seconds(120)
    ) async throws -> Int {
        let client = try client()
        _ = try await client.signIn()
        _ = try await client.signOut()
        time.advance(by: pause)
        let isFirst = Mutex(true)
        interceptor.respond { call in
            guard (call.head.path ?? "").hasPrefix("/authorize?"),
                isFirst.withLock({ isFirst in
                    defer { isFirst = false }
                    return isFirst
                })
            else { return nil }
            return response
        }
        _ = try await client.signIn()
        return environment.emulator.registrations
    }

    @Test func aRecentRegistrationIsNotProbedBeforeASignIn() async throws {
        let client = try client()
        _ = try await client.signIn()
        for (seconds, requests) in [(30, 2), (60, 4)] {
            _ = try await client.signOut()
            time.advance(by: .seconds(seconds))
            _ = try await client.signIn()
            #expect(interceptor.authorizations.count == requests)
        }
    }

    /// A server with pushed authorization requests rejects an unknown client before it shows a page, so the request is sent only once.
    @Test func aPushedAuthorizationRequestIsSentWithoutAProbe() async throws {
        let client = try client()
        _ = try await client.signIn()
        _ = try await client.signOut()
        time.advance(by: .seconds(120))
        interceptor.respond { [interceptor, environment] call in
            switch call.head.path {
            case "/.well-known/oauth-authorization-server":
                let origin = environment.emulator.origin
                return jsonResponse(
                    .ok,
                    [
                        "issuer": .string(origin), "authorization_endpoint": .string(origin + "/authorize"),
                        "token_endpoint": .string(origin + "/token"),
                        "registration_endpoint": .string(origin + "/register"),
                        "pushed_authorization_request_endpoint": .string(origin + "/par"),
                        "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                        "token_endpoint_auth_methods_supported": ["none"],
                    ]
                )
            case "/par":
                let isFirst = interceptor.requests(to: "/par").count == 1
                return isFirst
                    ? jsonResponse(.unauthorized, ["error": "invalid_client"])
                    : jsonResponse(.badRequest, ["error": "access_denied"])
            default: return nil
            }
        }
        let again = try self.client()
        _ = try? await again.signIn()
        #expect(interceptor.requests(to: "/par").count == 2)
        #expect(environment.emulator.registrations == 2)
    }

    /// RFC 7591 section 2: `scope` is optional. Keycloak rejects a registration with a scope that its policy does not allow (`insufficient_scope`), and
    /// other servers a registration with a scope that they do not know.
    @Test(
        arguments: [
            ("insufficient_scope", 403), ("invalid_scope", 400), ("invalid_client_metadata", 400), (nil, 400),
        ] as [(String?, Int)]
    )
    func aClientWhoseScopesTheServerRejectsIsRegisteredWithoutScopes(_ error: String?, _ status: Int) async throws {
        interceptor.respond { call in
            guard call.head.path == "/register", (try? JSON(parsing: call.body))?["scope"] != nil else { return nil }
            let members: [String: JSON] = error.map { ["error": .string($0)] } ?? [:]
            return jsonResponse(HTTPResponse.Status(code: status), .object(members))
        }
        _ = try await client().signIn()
        #expect(interceptor.requests(to: "/register").count == 2)
        #expect(environment.emulator.authorizations == [["mcp:basic"]])
    }

    /// Another registration without scopes would remain at the server, and the user would see the same error twice.
    @Test func aClientIsNotRegisteredAgainIfTheServerRejectsItsScopesInBothRequests() async throws {
        interceptor.respond { call in
            guard call.head.path == "/register", (try? JSON(parsing: call.body))?["scope"] != nil else { return nil }
            return jsonResponse(.forbidden, ["error": "insufficient_scope"])
        }
        environment.emulator.settings.unknownScopes = ["mcp:basic"]
        await expectError(.providerRejected) { _ = try await client().signIn() }
        #expect(environment.emulator.registrations == 1)
        #expect(environment.emulator.authorizations == [["mcp:basic"]])
    }

    @Test func aRegistrationThatIsRejectedForAnotherReasonIsNotRepeatedWithoutScopes() async throws {
        interceptor.respond { call in
            guard call.head.path == "/register" else { return nil }
            return jsonResponse(.badRequest, ["error": "invalid_redirect_uri"])
        }
        await expectError(.providerRejected) { _ = try await client().signIn() }
        #expect(interceptor.requests(to: "/register").count == 1)
    }

    /// A POST request could have side effects at a resource that responds to GET.
    @Test(arguments: [(200, 0), (204, 0), (500, 0), (403, 0), (405, 1), (404, 1)])
    func probesWithPostOnlyAfterGetReturns404Or405(_ status: Int, _ posts: Int) async throws {
        let address = environment.emulator.resource
        interceptor.respond { call in
            guard call.url == address, call.head.method == .get else { return nil }
            return TransportResponse(head: HTTPResponse(status: HTTPResponse.Status(code: status)))
        }
        _ = try await client().signIn()
        #expect(interceptor.requests(to: "/mcp").filter { $0.head.method == .post }.count == posts)
    }

    @Test(arguments: [ResourceSettings.MetadataPlace.path, .root, .custom("/metadata.json")])
    func theEmulatorsChallengeContainsTheURLOfItsMetadata(_ place: ResourceSettings.MetadataPlace) async throws {
        environment.emulator.settings.metadataPlace = place
        let address = try Endpoint(environment.emulator.resource)
        let refusal = try await environment.transport.send(TransportRequest(.post, address))
        let challenge = try #require(refusal.head.headerFields[.wwwAuthenticate])
        let url = try #require(challenge.split(separator: "\"").first { $0.hasPrefix("https://") })
        let metadata = try await environment.transport.send(TransportRequest(.get, Endpoint(String(url))))
        #expect(metadata.status == 200)
    }

    /// The requests have the protocol version 2025-11-25.
    @Test(arguments: [("2025-11-25", 200), ("2026-07-28", 400)])
    func theEmulatorRejectsRequestsInAProtocolVersionThatItDoesNotSupport(_ version: String, _ status: Int) async throws
    {
        environment.emulator.settings.version = version
        #expect(try await listTools(client()) == status)
    }

    /// Without metadata, only the options identify the token's resource.
    @Test func aTokenForAPreviouslyConfiguredResourceIsNotSent() async throws {
        environment.emulator.settings.endpoint = "/v1/mcp"
        environment.emulator.settings.challengeNamesMetadata = false
        interceptor.respond { call in
            guard (call.head.path ?? "").hasPrefix("/.well-known/oauth-protected-resource") else { return nil }
            return TransportResponse(head: HTTPResponse(status: .notFound))
        }
        let first = try client {
            $0.resource = "https://api.example.com/v1"
            $0.assumesAuthorizationServerAtOrigin = true
        }
        _ = try await first.signIn()
        let before = interceptor.requests(to: "/v1/mcp").count
        #expect(try await list(try client { $0.assumesAuthorizationServerAtOrigin = true }) == 200)
        #expect(interceptor.requests(to: "/v1/mcp")[before].head.headerFields[.authorization] == nil)
        #expect(interceptor.authorizations.count == 2)
    }

    /// RFC 9728 section 5.2: the metadata may have changed when a token is rejected.
    @Test func aRefreshTokenIsNotUsedAfterTheAuthorizationServerChanges() async throws {
        let client = try client()
        #expect(try await list(client) == 200)
        environment.emulator.settings.issuerPaths = ["/tenant", ""]
        environment.emulator.revokeAccessTokens()
        #expect(try await list(client) == 200)
        #expect(try await client.issuer() == "https://api.example.com/tenant")
        #expect(environment.emulator.refreshes.used == 0)
    }
}
