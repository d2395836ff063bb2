import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Foundation
import Testing

/// Authorization requests that are pushed (RFC 9126), signed (RFC 9101), or rich (RFC 9396).
@Suite struct PushedAuthorizationTests {
    private let key: PrivateKey
    private let environment: EmulatorEnvironment

    init() throws {
        key = try PrivateKey(generatedFor: .es256)
        environment = EmulatorEnvironment(
            try OIDCEmulator(
                issuer: "https://id.example.com",
                clients: [ClientAssertionTests.client(key), .demo]
            )
        )
        environment.emulator.pushedRequests = .automatic
    }

    private func registration(_ change: (inout ClientRegistration.Values) -> Void = { _ in }) throws
        -> ClientRegistration.Values
    {
        var values = try EmulatorEnvironment.registration()
        values.clientID = "machine"
        values.authentication = .privateKeyJWT(SigningKeySource(key))
        values.redirectURIs = ["http://127.0.0.1:8400/callback"]
        change(&values)
        return values
    }

    private func query(_ url: String) -> FormParameters {
        FormURLEncoding.decode(url.drop { $0 != "?" }.dropFirst()) ?? [:]
    }

    private func client(_ change: (inout ClientRegistration.Values) -> Void = { _ in }) throws -> OAuthClient {
        OAuthClient(server: environment.server(), registration: try ClientRegistration(try registration(change)))
    }

    @Test func theBrowserSendsOnlyTheClientIDAndTheRequestURI() async throws {
        _ = try await environment.client(registration: registration()).signIn()
        let visited = try #require(environment.emulator.receivedRequests.first { $0.path == "/authorize" })
        #expect(visited.query.names.sorted() == ["client_id", "request_uri"])
        let pushed = try #require(environment.emulator.receivedRequests.first { $0.path == "/par" })
        #expect(pushed.form["code_challenge_method"] == "S256" && pushed.form["state"] != nil)
        #expect(pushed.form["client_assertion"] != nil)
    }

    @Test func aPublicClientPushesItsAuthorizationRequest() async throws {
        _ = try await environment.client().signIn()
        #expect(environment.emulator.requests.contains("POST /par"))
    }

    struct Choice: CustomTestStringConvertible {
        let client: PushedRequests
        let provider: PushedRequests
        let code: AuthError.Code?
        let isPushed: Bool
        var testDescription: String { "client \(client), provider \(provider)" }
    }

    @Test(arguments: [
        Choice(client: .automatic, provider: .never, code: nil, isPushed: false),
        Choice(client: .automatic, provider: .automatic, code: nil, isPushed: true),
        Choice(client: .automatic, provider: .always, code: nil, isPushed: true),
        Choice(client: .always, provider: .never, code: .unsupported, isPushed: false),
        Choice(client: .always, provider: .automatic, code: nil, isPushed: true),
        Choice(client: .never, provider: .automatic, code: nil, isPushed: false),
        Choice(client: .never, provider: .always, code: .invalidConfiguration, isPushed: false),
    ]) func clientAndProviderSettingsDecideWhetherTheRequestIsPushed(_ choice: Choice) async throws {
        environment.emulator.pushedRequests = choice.provider
        let client = try client { $0.pushedRequests = choice.client }
        do {
            let request = try await client.authorizationRequest()
            #expect(choice.code == nil)
            #expect((query(request.url)["request_uri"] != nil) == choice.isPushed)
        } catch let error as AuthError {
            #expect(error.code == choice.code)
        }
        #expect(environment.emulator.requests.contains("POST /par") == choice.isPushed)
    }

    /// A user who opens a printed URL too late sees only the provider's error page.
    @Test func theTimeoutMessageContainsTheLifetimeOfTheURL() async throws {
        environment.emulator.fault = .pushedAuthorization(.member("expires_in", 20))
        let request = try await client().authorizationRequest()
        #expect(request.urlLifetime == 20)
        let stored = try JSONEncoder().encode(request)
        #expect(try JSONDecoder().decode(AuthorizationRequest.self, from: stored).urlLifetime == 20)
        #expect(AuthClient.advice(urlLifetime: 20, timeout: .seconds(300)).contains("only 20 seconds"))
        #expect(AuthClient.advice(urlLifetime: 300, timeout: .seconds(300)).isEmpty)
        #expect(AuthClient.advice(urlLifetime: .infinity, timeout: .seconds(300)).isEmpty)
    }

    @Test func aRequestURICanBeUsedOnlyOnce() async throws {
        let request = try await client().authorizationRequest()
        _ = try await environment.visit(request.url)
        let again = await #expect(throws: (any Error).self) { try await environment.visit(request.url) }
        #expect(again != nil)
    }

    @Test func aPushedRequestIsBoundToTheDPoPKey() async throws {
        environment.emulator.dpop = .requiredWithNonce
        let client = try environment.client(registration: registration { $0.usesDPoP = true })
        #expect(try await client.signIn().credential.tokens.tokenType == "DPoP")
        let pushed = environment.emulator.receivedRequests.filter { $0.path == "/par" }
        #expect(pushed.count == 1 && pushed.first?.form["dpop_jkt"]?.utf8.count == 43)
    }

    struct Broken: CustomTestStringConvertible {
        let name: String
        let fault: PushedAuthorizationFault
        let code: AuthError.Code
        var testDescription: String { name }
    }

    static let broken: [Broken] = [
        Broken(name: "no request_uri", fault: .missingURI, code: .invalidResponse),
        Broken(name: "empty request_uri", fault: .member("request_uri", ""), code: .invalidResponse),
        Broken(name: "request_uri as a number", fault: .member("request_uri", 7), code: .invalidResponse),
        Broken(name: "request_uri with a space", fault: .member("request_uri", "a b"), code: .invalidResponse),
        Broken(
            name: "request_uri of 513 characters",
            fault: .member("request_uri", .string(String(repeating: "u", count: 513))),
            code: .invalidResponse
        ),
        Broken(name: "no expires_in", fault: .missingExpiry, code: .invalidResponse),
        Broken(name: "expires_in of zero", fault: .member("expires_in", 0), code: .invalidResponse),
        Broken(name: "negative expires_in", fault: .member("expires_in", -5), code: .invalidResponse),
        Broken(
            name: "an error",
            fault: .response { $0 = .refusal("invalid_request_object") },
            code: .providerRejected
        ),
        Broken(
            name: "authentication requirements that the provider cannot meet",
            fault: .response { $0 = .refusal("unmet_authentication_requirements") },
            code: .insufficientUserAuthentication
        ),
        Broken(
            name: "a server error with status 201",
            fault: .member("error", "server_error"),
            code: .temporarilyUnavailable
        ),
        Broken(name: "status 202", fault: .response { $0.head.status = .accepted }, code: .invalidResponse),
        Broken(name: "not JSON", fault: .notJSON, code: .invalidResponse),
        Broken(name: "empty", fault: .empty, code: .invalidResponse),
        Broken(name: "unavailable", fault: .unavailable, code: .temporarilyUnavailable),
        Broken(name: "a redirect", fault: .redirected, code: .invalidResponse),
    ]

    @Test(arguments: broken) func opensNoBrowserAfterAFailedPushedAuthorizationRequest(_ broken: Broken) async throws {
        environment.emulator.fault = .pushedAuthorization(broken.fault)
        let error = await #expect(throws: AuthError.self) {
            try await environment.client(registration: registration()).signIn()
        }
        #expect(error?.code == broken.code, "\(error?.message ?? "")")
        #expect(!environment.emulator.requests.contains { $0.contains("/authorize") })
    }

    // MARK: Signed requests

    @Test(arguments: [PushedRequests.always, .never]) func signsTheAuthorizationRequest(_ pushes: PushedRequests)
        async throws
    {
        let values = try registration {
            $0.requestObjectKey = SigningKeySource(key)
            $0.pushedRequests = pushes
            $0.resources = ["https://a.example.com", "https://b.example.com"]
        }
        let client = try environment.client(registration: values)
        let options = AuthorizationOptions(maxAge: .seconds(3600))
        #expect(try await client.signIn(options: options).credential.identity != nil)
        let path = pushes == .always ? "/par" : "/authorize"
        let received = try #require(environment.emulator.receivedRequests.first { $0.path == path })
        let sent = pushes == .always ? received.form : received.query
        #expect(sent["code_challenge"] == nil && sent["state"] == nil && sent["redirect_uri"] == nil)
        let parts = (sent["request"] ?? "").split(separator: ".")
        let claims = try #require(
            parts.dropFirst().first.flatMap { Base64URL.decode($0) }.flatMap { try? JSON(parsing: $0) }
        )
        #expect(claims["max_age"] == 3600)
        #expect(claims["resource"]?.strings == ["https://a.example.com", "https://b.example.com"])
        #expect(claims["aud"]?.string == environment.emulator.issuer && claims["sub"] == nil)
        #expect((claims["exp"]?.number ?? 0) - (claims["nbf"]?.number ?? 0) == 330)
    }

    @Test(arguments: [PushedRequests.always, .never], [false, true])
    func anAdapterConformsIfItsRequestsArePushedOrSigned(_ pushes: PushedRequests, _ isSigned: Bool) async throws {
        let values = try registration {
            $0.scopes.append("offline_access")
            $0.pushedRequests = pushes
            if isSigned { $0.requestObjectKey = SigningKeySource(key) }
        }
        try await ProviderConformance(
            adapter: OIDCProvider(issuer: environment.emulator.issuer),
            client: try environment.client(registration: values),
            other: try environment.client(registration: values, user: .bob)
        ).run()
    }

    /// RFC 9126 section 5: "the authorization server accepts authorization request data only via PAR".
    @Test(arguments: [(PushedRequests.automatic, false, 200), (.always, false, 400), (.automatic, true, 400)])
    func aRequestObjectFromTheClientsServerIsNotAPushedRequest(
        _ pushedRequests: PushedRequests,
        _ mustPush: Bool,
        _ status: Int
    ) async throws {
        let client = try client {
            $0.requestObjectKey = SigningKeySource(key)
            $0.pushedRequests = .never
        }
        let request = try await client.authorizationRequest()
        let object = try #require(query(request.url)["request"])
        var registered = ClientAssertionTests.client(key)
        registered.mustPushRequests = mustPush
        let emulator = try OIDCEmulator(issuer: environment.emulator.issuer, clients: [registered])
        emulator.pushedRequests = pushedRequests
        emulator.fetchesRequestObjects = { _ in object }
        let uri = FormURLEncoding.encode("https://client.example.com/request.jwt")
        let response = try await InProcessTransport(emulator).send(
            TransportRequest(.get, Endpoint("\(emulator.issuer)/authorize?client_id=machine&request_uri=\(uri)"))
        )
        #expect(response.status == status)
        #expect(String(decoding: response.body, as: UTF8.self).contains("must be pushed") == (status == 400))
    }

    /// RFC 9101 section 10.8: a request object must not be usable as another kind of JWT.
    @Test func configuredParametersCannotOverrideReservedRequestObjectClaims() async throws {
        let client = try client {
            $0.requestObjectKey = SigningKeySource(key)
            $0.pushedRequests = .never
            $0.parameters[.authorization] = [
                "iss": "other", "sub": "machine", "aud": "other", "exp": "1", "jti": "1", "ui_locales": "de",
            ]
        }
        let request = try await client.authorizationRequest()
        let parts = (query(request.url)["request"] ?? "").split(separator: ".")
        let claims = try #require(
            parts.dropFirst().first.flatMap { Base64URL.decode($0) }.flatMap { try? JSON(parsing: $0) }
        )
        #expect(
            claims["iss"] == "machine" && claims["aud"]?.string == environment.emulator.issuer && claims["sub"] == nil
        )
        #expect((claims["exp"]?.number ?? 0) > 1_700_000_000 && claims["jti"] != "1" && claims["ui_locales"] == "de")
    }

    @Test func failsWithoutAKeyIfTheProviderRequiresSignedRequestObjects() async throws {
        environment.emulator.fault = .metadata(.member("require_signed_request_object", true))
        let error = await #expect(throws: AuthError.self) { try await client().authorizationRequest() }
        #expect(error?.code == .unsupported && error?.message.contains("RFC 9101") == true)
    }

    /// The provider could report the error only on its own page, because the redirect URI is inside the request object.
    @Test func doesNotSendARequestObjectThatTheProviderDoesNotSupport() async throws {
        environment.emulator.fault = .metadata(.member("request_parameter_supported", false))
        func signingClient(_ pushedRequests: PushedRequests) throws -> OAuthClient {
            try client {
                $0.requestObjectKey = SigningKeySource(key)
                $0.pushedRequests = pushedRequests
            }
        }
        let error = await #expect(throws: AuthError.self) { try await signingClient(.never).authorizationRequest() }
        #expect(error?.code == .unsupported && error?.message.contains("request_parameter_supported") == true)
        // The member does not apply to pushed requests.
        let pushed = try await signingClient(.always).authorizationRequest()
        #expect(query(pushed.url)["request_uri"] != nil)
    }

    // MARK: Requests by reference

    @Test(arguments: [
        "http://client.example.com/x", "nothing", "",
        "https://client.example.com/" + String(repeating: "x", count: 500),
    ])
    func rejectsAnInvalidRequestObjectURL(_ url: String) async throws {
        var values = try registration()
        values.pushedRequests = .automatic
        values.requestObjectReference = RequestObjectReference.publishingUnsigned { _ in url }
        environment.emulator.pushedRequests = .never
        let client = OAuthClient(server: environment.server(), registration: try ClientRegistration(values))
        let error = await #expect(throws: AuthError.self) { try await client.authorizationRequest() }
        #expect(error?.code == .invalidConfiguration)
    }

    /// OIDC Core section 6.2: the fragment contains the hash of the request object.
    @Test func theRequestObjectURLMayHaveAFragment() async throws {
        let url = "https://client.example.com/request.jwt#GkurKxf5T0Y-mnPFCHqWOMiZi4VS138cQO_V7PZHAdM"
        var values = try registration()
        values.pushedRequests = .automatic
        values.requestObjectReference = RequestObjectReference.publishingUnsigned { _ in url }
        environment.emulator.pushedRequests = .never
        let client = OAuthClient(server: environment.server(), registration: try ClientRegistration(values))
        let request = try await client.authorizationRequest()
        let query = request.url.drop { $0 != "?" }.dropFirst()
        #expect(FormURLEncoding.decode(query)?["request_uri"] == url)
        #expect(!request.url.contains("#"))
    }

    @Test func unsignedRequestObjectsRequireExplicitOptIn() throws {
        var values = try registration()
        values.pushedRequests = .automatic
        values.requestObjectReference = RequestObjectReference { _ in "https://client.example.com/x" }
        expectError(.invalidConfiguration) { try ClientRegistration(values) }
    }

    @Test func doesNotPublishARequestObjectThatTheProviderWouldNotFetch() async throws {
        var values = try registration()
        values.pushedRequests = .automatic
        values.requestObjectReference = .publishingUnsigned { _ in
            Issue.record("It was published.")
            return "https://client.example.com/x"
        }
        environment.emulator.fault = .metadata(.member("require_pushed_authorization_requests", true))
        let client = OAuthClient(server: environment.server(), registration: try ClientRegistration(values))
        await expectError(.unsupported) { try await client.authorizationRequest() }
        environment.emulator.pushedRequests = .never
        for member: (String, JSON) in [
            ("request_uri_parameter_supported", false), ("require_signed_request_object", true),
        ] {
            environment.emulator.fault = .metadata(.member(member.0, member.1))
            let other = OAuthClient(server: environment.server(), registration: try ClientRegistration(values))
            await expectError(.unsupported) { try await other.authorizationRequest() }
        }
    }

    // MARK: Rich requests

    private static let payment: JSON = [["type": "payment", "actions": ["initiate"], "amount": ["currency": "EUR"]]]

    @Test func sendsTheRequestedAndReturnsTheGrantedAuthorizationDetails() async throws {
        let granted: JSON = [["type": "payment", "actions": ["initiate"], "id": "7"]]
        environment.emulator.fault = .tokenResponse(.member("authorization_details", granted))
        var options = AuthorizationOptions()
        options.authorizationDetails = Self.payment
        let credential = try await environment.client(registration: registration()).signIn(options: options).credential
        let pushed = try #require(environment.emulator.receivedRequests.first { $0.path == "/par" })
        #expect(try JSON(parsing: Array((pushed.form["authorization_details"] ?? "").utf8)) == Self.payment)
        #expect(credential.tokens.authorizationDetails == granted)
    }

    /// RFC 9396 section 6: a refresh request without `authorization_details` requests those of the grant.
    @Test(arguments: [nil, .null] as [JSON?])
    func aRefreshKeepsTheAuthorizationDetailsOfTheGrant(_ refreshed: JSON?) async throws {
        environment.emulator.fault = .tokenResponse(.member("authorization_details", Self.payment))
        var values = try registration()
        values.scopes.append("offline_access")
        values.authorizationDetails = Self.payment
        let client = try environment.client(registration: values)
        let first = try await client.signIn().credential
        #expect(client.coversAuthorizationDetails(first) == true)
        environment.emulator.fault = .tokenResponse(.member("authorization_details", refreshed))
        let second = try await client.refresh()
        #expect(second.tokens.accessToken != first.tokens.accessToken)
        #expect(client.coversAuthorizationDetails(second) == true)
    }

    @Test func aClientThatRequiresAnExactMatchRejectsRefreshedTokensWithOtherAuthorizationDetails() async throws {
        environment.emulator.fault = .tokenResponse(.member("authorization_details", Self.payment))
        var values = try registration()
        values.scopes.append("offline_access")
        values.authorizationDetails = Self.payment
        let lenient = try environment.client(registration: values)
        values.requiresExactAuthorizationDetails = true
        let strict = try environment.client(registration: values)
        let first = try await strict.signIn().credential
        _ = try await lenient.signIn()
        _ = try await strict.refresh()
        let other: JSON = [["type": "account"]]
        environment.emulator.fault = .tokenResponse(.member("authorization_details", other))
        await expectError(.providerRejected) { try await strict.refresh() }
        #expect(try await strict.credential()?.tokens.authorizationDetails == first.tokens.authorizationDetails)
        _ = try await lenient.refresh()
    }

    /// Some servers also require the pushed parameters in the authorization request; otherwise they show an error page.
    @Test func anErrorPageAfterAnAutomaticPushSuggestsTheSettingToChange() async throws {
        for mode in [PushedRequests.automatic, .always] {
            var values = try registration()
            values.pushedRequests = mode
            let client = AuthClient(
                client: OAuthClient(server: environment.server(), registration: try ClientRegistration(values)),
                methods: [.userAgent(RefusingAgent())],
                store: MemoryTokenStore()
            )
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.message.contains("par_repeats") == (mode == .automatic), "\(error as Any)")
        }
    }

    /// The metadata of a provider lists the endpoint for every client, including clients that may not use it.
    @Test(arguments: [
        (#"{"error": "unauthorized_client"}"#, 400, true), ("", 403, true), ("", 404, true),
        (#"{"error": "invalid_scope"}"#, 400, false),
    ])
    func suggestsDisablingPushedRequestsIfTheClientMayNotUseThem(_ body: String, _ status: Int, _ isHint: Bool)
        async throws
    {
        environment.emulator.customResponse = { exchange in
            guard exchange.request.path == "/par" else { return exchange.response }
            return TransportResponse(
                head: HTTPResponse(status: .init(code: status), headerFields: [.contentType: "application/json"]),
                body: Array(body.utf8)
            )
        }
        let client = try environment.client(registration: try registration())
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.message.contains(#""par" to "never""#) == isHint, "\(error as Any)")
    }

    private struct RefusingAgent: UserAgent {
        func withRedirectSession<Return: Sendable>(
            _ options: RedirectOptions,
            _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
        ) async throws -> Return {
            try await body(
                RedirectSession(redirectURI: "http://127.0.0.1:1/callback") { _ in
                    throw AuthError(.userAgentFailed, "The page has status 400.", status: 400)
                }
            )
        }
    }

    struct Grant: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let granted: JSON?
        let isCovered: Bool
        var isExact = false
        /// The requested details; default: a payment.
        var requested = payment
    }

    private static let accountPayment: JSON = [
        [
            "type": "payment", "actions": ["initiate"], "amount": ["currency": "EUR"],
            "account": 9_007_199_254_740_993,
        ]
    ]

    private static let grants = [
        Grant(testDescription: "exactly that", granted: payment, isCovered: true, isExact: true),
        Grant(
            testDescription: "the same members in a different order",
            granted: [["amount": ["currency": "EUR"], "actions": ["initiate"], "type": "payment"]],
            isCovered: true,
            isExact: true
        ),
        Grant(
            testDescription: "more actions and an identifier",
            granted: [["type": "payment", "actions": ["status", "initiate"], "amount": ["currency": "EUR"], "id": 7]],
            isCovered: true
        ),
        Grant(
            testDescription: "the same element twice",
            granted: .array((payment.array ?? []) + (payment.array ?? [])),
            isCovered: true
        ),
        Grant(
            testDescription: "another amount",
            granted: [["type": "payment", "actions": ["initiate"], "amount": ["currency": "USD"]]],
            isCovered: false
        ),
        Grant(
            testDescription: "another number of more than 53 bits",
            granted: [
                [
                    "type": "payment", "actions": ["initiate"], "amount": ["currency": "EUR"],
                    "account": 9_007_199_254_740_992,
                ]
            ],
            isCovered: false,
            requested: accountPayment
        ),
        Grant(
            testDescription: "the same number in another notation",
            granted: [["type": "payment", "limit": 100]],
            isCovered: true,
            isExact: true,
            requested: [["type": "payment", "limit": .double(100)]]
        ),
        Grant(
            testDescription: "the same elements in a different order",
            granted: [["type": "payment", "actions": ["read", "write"]], ["type": "payment", "actions": ["read"]]],
            isCovered: true,
            isExact: true,
            requested: [["type": "payment", "actions": ["read"]], ["type": "payment", "actions": ["read", "write"]]]
        ),
        Grant(
            testDescription: "one element for two",
            granted: [["type": "payment", "actions": ["read", "write"]], ["type": "account"]],
            isCovered: false,
            requested: [["type": "payment", "actions": ["read"]], ["type": "payment", "actions": ["write"]]]
        ),
        Grant(testDescription: "fewer actions", granted: [["type": "payment", "actions": []]], isCovered: false),
        Grant(testDescription: "another type", granted: [["type": "account"]], isCovered: false),
        Grant(
            testDescription: "a list instead of one action",
            granted: [["type": "payment", "actions": ["status"]]],
            isCovered: false,
            requested: [["type": "payment", "actions": "initiate"]]
        ),
        Grant(
            testDescription: "an action instead of an empty list",
            granted: [["type": "payment", "actions": "initiate"]],
            isCovered: false,
            requested: [["type": "payment", "actions": []]]
        ),
        Grant(testDescription: "nothing", granted: [], isCovered: false),
        Grant(testDescription: "no member", granted: nil, isCovered: false),
        Grant(testDescription: "not an array", granted: "payment", isCovered: false),
    ]

    @Test(arguments: grants) func comparesGrantedWithRequestedAuthorizationDetails(_ grant: Grant) async throws {
        environment.emulator.fault = .tokenResponse(.member("authorization_details", grant.granted))
        var options = AuthorizationOptions()
        options.authorizationDetails = grant.requested
        let plain = OAuthClient(server: environment.server(), registration: try ClientRegistration(registration()))
        let request = try await plain.authorizationRequest(options)
        let credential = try await plain.exchange(try await environment.visit(request.url), for: request)
        #expect(request.missingAuthorizationDetails(in: credential.tokens).isEmpty == grant.isCovered)
        // A client that requires an exact match rejects any other grant.
        var values = try registration()
        values.requiresExactAuthorizationDetails = true
        let strict = OAuthClient(server: environment.server(), registration: try ClientRegistration(values))
        let again = try await strict.authorizationRequest(options)
        let callback = try await environment.visit(again.url)
        if grant.isExact {
            _ = try await strict.exchange(callback, for: again)
        } else {
            let error = await #expect(throws: AuthError.self) { try await strict.exchange(callback, for: again) }
            #expect(error?.code == .providerRejected)
        }
    }

    @Test(arguments: [["type": "payment"], [], ["payment"], [["type": ""]], [["actions": ["read"]]]] as [JSON])
    func rejectsMalformedAuthorizationDetails(_ details: JSON) async throws {
        var options = AuthorizationOptions()
        options.authorizationDetails = details
        let error = await #expect(throws: AuthError.self) { try await client().authorizationRequest(options) }
        #expect(error?.code == .invalidConfiguration)
    }

    @Test func rejectsAnUnsupportedAuthorizationDetailsType() async throws {
        var options = AuthorizationOptions()
        options.authorizationDetails = [["type": "unheard of"]]
        let error = await #expect(throws: AuthError.self) { try await client().authorizationRequest(options) }
        #expect(error?.code == .unsupported)
    }

    /// RFC 9396 section 10: the list of supported types is optional.
    @Test func requestsAnyAuthorizationDetailsTypeIfTheProviderListsNone() async throws {
        environment.emulator.fault = .metadata(.member("authorization_details_types_supported", nil))
        var options = AuthorizationOptions()
        options.authorizationDetails = [["type": "unheard of"]]
        let request = try await client { $0.pushedRequests = .never }.authorizationRequest(options)
        #expect(query(request.url)["authorization_details"]?.contains("unheard of") == true)
    }
}

extension TransportResponse {
    /// An error response according to RFC 6749 section 5.2.
    fileprivate static func refusal(_ name: String) -> TransportResponse {
        TransportResponse(
            head: .init(status: .badRequest, headerFields: [.contentType: "application/json"]),
            body: Array(#"{"error": "\#(name)"}"#.utf8)
        )
    }
}
