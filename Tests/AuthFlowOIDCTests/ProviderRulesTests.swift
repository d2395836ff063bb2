import AuthFlow
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import ConformanceRows
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Behavior of identity providers that the specifications leave open.
@Suite struct ProviderRulesTests {
    private func environment(clients: [OIDCEmulator.Client] = [.demo]) throws -> EmulatorEnvironment {
        EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: clients))
    }

    // MARK: Settings

    @Test func rejectsInvalidRegistrationChangesAndOverrides() throws {
        let settings = try ClientRegistration(clientID: "c")
        expectError(.invalidConfiguration) { try settings.changing { $0.clockLeeway = .seconds(31_536_000) } }
        expectError(.invalidConfiguration) { try settings.changing { $0.idTokenSigningAlgorithms = [.hs256] } }
        expectError(.invalidConfiguration) {
            try settings.changing { $0.parameters = [.authorization: ["state": "x"]] }
        }
        expectError(.invalidConfiguration) {
            try settings.changing { $0.parameters = [.token: ["redirect_uri": "x"]] }
        }
        expectError(.invalidConfiguration) { try settings.changing { $0.resources = ["api"] } }
        #expect(try settings.changing { $0.scopes = [] }.scopes == [])
        let file = try ConfigurationFile(
            text: Array(
                #"{"profiles": {"a": {"provider": "oidc", "client_id": "c", "issuer": "https://id.example.com"}}}"#.utf8
            )
        )
        expectError(.invalidConfiguration) {
            try AuthClient(profile: try file.profile(), providers: [.oidc], userAgents: [], overrides: .init(flows: []))
        }
    }

    // MARK: Metadata

    @Test func doesNotSendAnAuthorizationRequestIfPARIsRequiredButHasNoEndpoint() async throws {
        let environment = try environment()
        environment.emulator.fault = .metadata(.member("require_pushed_authorization_requests", true))
        let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("pushed authorization request") == true)
        #expect(!environment.emulator.requests.contains { $0.contains("/authorize") })
    }

    @Test func readsMissingEndpointsFromTheRFC8414Metadata() async throws {
        let environment = try environment()
        environment.emulator.fault = .metadata(.member("revocation_endpoint", nil))
        let asked = Mutex(0)
        let transport = ScriptedResponses(base: environment.transport) { call in
            guard call.url == "https://id.example.com/.well-known/oauth-authorization-server" else { return nil }
            asked.withLock { $0 += 1 }
            return .json(["issuer": "https://id.example.com", "revocation_endpoint": "https://id.example.com/revoke"])
        }
        let client = try environment.client(transport: transport)
        _ = try await client.signIn()
        #expect(asked.withLock { $0 } == 0)
        guard case .done = try await client.signOut().revocation else {
            Issue.record("The tokens were not revoked.")
            return
        }
        #expect(environment.emulator.requests.contains("POST /revoke"))
        _ = try await client.signIn()
        _ = try await client.signOut()
        #expect(asked.withLock { $0 } == 1)
    }

    @Test func ignoresRFC8414MetadataOfAnotherIssuer() async throws {
        let environment = try environment()
        environment.emulator.fault = .metadata(.member("revocation_endpoint", nil))
        let transport = ScriptedResponses(base: environment.transport) { call in
            call.url.hasSuffix("/.well-known/oauth-authorization-server")
                ? .json([
                    "issuer": "https://other.example.com", "revocation_endpoint": "https://other.example.com/revoke",
                ]) : nil
        }
        let client = try environment.client(transport: transport)
        _ = try await client.signIn()
        guard case .unsupported = try await client.signOut().revocation else {
            Issue.record("There is no revocation endpoint.")
            return
        }
    }

    @Test(arguments: [
        (["authorization", "token", "jwks"], true), (["token", "jwks"], false), (["authorization", "jwks"], false),
        (["authorization", "token"], false),
    ]) func skipsDiscoveryOnlyIfTheConfiguredEndpointsAreSufficient(
        _ names: [String],
        _ areSufficient: Bool
    ) async throws {
        let environment = try environment()
        let endpoints = names.map { #""\#($0)": "https://id.example.com/\#($0)""# }.joined(separator: ", ")
        let text = """
            {"profiles": {"a": {"provider": "oidc", "issuer": "https://id.example.com", "client_id": "c",
             "endpoints": {\(endpoints)}, "store": "memory"}}}
            """
        let client = try AuthClient(
            profile: try ConfigurationFile(text: Array(text.utf8)).profile(),
            providers: [.oidc],
            userAgents: [],
            transport: environment.transport
        )
        let metadata = try await client.metadata()
        #expect((metadata.userInfoEndpoint == nil) == areSufficient)
        #expect(environment.emulator.requests.isEmpty == areSufficient)
    }

    /// The claim would otherwise be ignored, because an ID Token identifies the user by `sub`.
    @Test(arguments: [(#""subject_claim": "id""#, false), (#""subject_claim": "id", "identity": "userinfo""#, true)])
    func aSubjectClaimRequiresAnIdentityOtherThanTheIDToken(_ keys: String, _ isValid: Bool) throws {
        let text = """
            {"profiles": {"a": {"provider": "oidc", "issuer": "https://id.example.com", "client_id": "c", "store": "memory", \(keys)}}}
            """
        let profile = try ConfigurationFile(text: Array(text.utf8)).profile()
        let result = Result { try AuthClient(profile: profile, providers: [.oidc], userAgents: []) }
        guard !isValid else {
            _ = try result.get()
            return
        }
        let error = #expect(throws: ConfigurationError.self) { try result.get() }
        let issues = "\(error?.issues ?? [])"
        #expect(issues.contains("subject_claim"))
    }

    /// With some of these endpoints, or with the URL of a document, the document would still be requested.
    @Test(arguments: [nil, "https://id.example.com/.well-known/other"] as [Endpoint?])
    func theErrorForMissingMetadataNamesEverySettingThatReplacesIt(_ metadataURL: Endpoint?) async throws {
        let environment = try environment()
        let transport = ScriptedResponses(base: environment.transport) { call in
            call.url.contains("/.well-known/") ? TransportResponse(head: HTTPResponse(status: .notFound)) : nil
        }
        let provider = OIDCProvider(issuer: "https://id.example.com", metadataURL: metadataURL)
        let client = try environment.client(adapter: provider, transport: transport)
        let error = await #expect(throws: AuthError.self) { try await client.metadata() }
        #expect(error?.code == .discoveryFailed)
        let message = error?.message ?? ""
        for name in ["authorization", "token", "jwks"] { #expect(message.contains("\"\(name)\""), "\(message)") }
        #expect(message.contains("metadata_url") == (metadataURL != nil), "\(message)")
    }

    @Test func configuredEndpointsReplaceDiscoveredOnesAndChangeTheBinding() async throws {
        let environment = try environment()
        let store = MemoryTokenStore()
        var endpoints = ProviderMetadata(issuer: "https://id.example.com")
        endpoints.userInfoEndpoint = Endpoint("https://id.example.com/userinfo?x=1")
        let byHand = OIDCProvider(issuer: "https://id.example.com", endpoints: endpoints)
        let client = try environment.client(adapter: byHand, store: store)
        _ = try await client.signIn()
        #expect(environment.emulator.receivedRequests.contains { $0.path == "/userinfo" && $0.query["x"] == "1" })
        _ = try await client.userInfo()
        // A client without the configured endpoint has a different binding, and does not use the stored token.
        let discovered = try environment.client(store: store)
        let requests = environment.emulator.requests.count { $0 == "GET /userinfo" }
        let error = await #expect(throws: AuthError.self) { try await discovered.userInfo() }
        #expect(error?.code == .loginRequired)
        #expect(error?.message.contains("No token was sent") == true)
        #expect(environment.emulator.requests.count { $0 == "GET /userinfo" } == requests)
    }

    @Test func sendsNoStoredTokenWithoutABinding() async throws {
        let environment = try environment()
        let store = MemoryTokenStore()
        let client = try environment.client(store: store)
        _ = try await client.signIn()
        let key = RecordKey(name: "default", issuer: "https://id.example.com", clientID: "authflow-demo")
        let stored = try JSON(parsing: try #require(await store.bytes(for: key)))
        var document = try #require(stored.object)
        var account = try #require(document["accounts"]?.array?.first?.object)
        account["binding"] = nil
        document["accounts"] = .array([.object(account)])
        try await store.set(try JSON.object(document).serialized(), for: key)
        let error = await #expect(throws: AuthError.self) { try await environment.client(store: store).userInfo() }
        #expect(error?.code == .loginRequired)
        let signOut = try await environment.client(store: store).signOut()
        guard case .failed = signOut.revocation else {
            Issue.record("The result must report that nothing was revoked.")
            return
        }
    }

    // MARK: Responses

    @Test(arguments: [
        ("access_denied", AuthError.Code.accessDenied), ("invalid_scope", .providerRejected),
        ("server_error", .issuerMismatch),
        ("invalid_client", .issuerMismatch),
    ])
    func reportsAnErrorResponseWithoutIssAsUnconfirmed(_ error: String, _ code: AuthError.Code) async throws {
        let environment = try environment()
        environment.emulator.fault = .callback(
            .parameters {
                $0["iss"] = nil
                $0["code"] = nil
                $0["error"] = error
            }
        )
        let thrown = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
        #expect(thrown?.code == code)
        #expect(thrown?.providerError?.error == error)
        #expect(thrown?.message.contains("not confirmed") == true)
    }

    /// RFC 6749 section 4.1.2.1: the error codes correspond to the statuses 503 and 500.
    @Test(arguments: ["temporarily_unavailable", "server_error"])
    func reportsAuthorizationServerErrorsAsTemporarilyUnavailable(_ error: String) async throws {
        let environment = try environment()
        environment.emulator.fault = .callback(
            .parameters {
                $0["code"] = nil
                $0["error"] = error
            }
        )
        let thrown = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
        #expect(thrown?.code == .temporarilyUnavailable)
    }

    /// RFC 6749 section 3.1: parameters "MUST NOT be included more than once".
    @Test(arguments: ["state=evil", "a=b&Client_ID=x", "nonce", "state=evil&x=%FF"])
    func rejectsAnAuthorizationEndpointThatContainsARequestParameter(_ query: String) async throws {
        let environment = try environment()
        let page = "\(environment.emulator.issuer)/authorize?\(query)"
        environment.emulator.fault = .metadata(.member("authorization_endpoint", .string(page)))
        let thrown = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
        #expect(
            thrown?.code == .unsupported
                && thrown?.message.contains(query.contains("%") ? "cannot be decoded" : "already has the parameter")
                    == true
        )
    }

    @Test func reportsThatAnEndpointIsNotAnHTTPSURL() async throws {
        let environment = try environment()
        environment.emulator.fault = .metadata(.member("token_endpoint", "http://id.example.com/token"))
        let thrown = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
        #expect(thrown?.code == .discoveryFailed)
        #expect(thrown?.message.contains("https") == true)
        #expect(thrown?.message.contains("private") == false)
    }

    @Test func aDeniedSecondSignInKeepsTheFirstSession() async throws {
        let environment = try environment()
        let store = MemoryTokenStore()
        _ = try await environment.client(store: store).signIn()
        let error = await #expect(throws: AuthError.self) {
            try await environment.client(consent: .deny, store: store).signIn()
        }
        #expect(error?.code == .accessDenied)
        #expect(error?.message.contains("signed in") == false)
        #expect(try await environment.client(store: store).credential() != nil)
    }

    @Test func rejectsLogoutTokensAndAccessTokensAsIDTokens() async throws {
        for fault in [
            IDTokenFault.claim("events", ["http://schemas.openid.net/event/backchannel-logout": [:]]),
            .header { $0["typ"] = "logout+jwt" }, .header { $0["typ"] = "at+jwt" }, .header { $0["typ"] = 5 },
        ] {
            let environment = try environment()
            environment.emulator.fault = .idToken(fault)
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.code == .invalidIDToken)
        }
        let environment = try environment()
        environment.emulator.fault = .idToken(.header { $0["typ"] = "jwt" })
        _ = try await environment.client().signIn()
    }

    @Test(arguments: ["\u{212A}elvin", "é", "1\u{301}"])
    func rejectsASubjectThatIsNotASCII(_ subject: String) async throws {
        let environment = try environment()
        environment.emulator.fault = .idToken(.claim("sub", .string(subject)))
        let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
        #expect(error?.code == .invalidIDToken)
    }

    @Test func errorsContainTheProvidersErrorMessage() async throws {
        let environment = try environment()
        let client = try environment.client()
        _ = try await client.signIn()
        environment.emulator.fault = .userInfo(
            .response {
                $0.head.status = .unauthorized
                $0.head.headerFields[.wwwAuthenticate] =
                    #"Bearer error="invalid_token", error_description="Expired at noon""#
                $0.body = []
            }
        )
        let error = await #expect(throws: AuthError.self) { try await client.userInfo() }
        #expect(error.map { "\($0)" }?.contains("Expired at noon") == true)
        environment.emulator.fault = .metadata(
            .response {
                $0.head.status = .forbidden
                $0.body = Array(#"{"message": "This tenant is suspended."}"#.utf8)
            }
        )
        let discovery = await #expect(throws: AuthError.self) { try await environment.client().metadata() }
        #expect(discovery.map { "\($0)" }?.contains("This tenant is suspended.") == true)
    }

    @Test func discoveryErrorsContainTheAdaptersAdvice() async throws {
        struct Plain: ProviderAdapter {
            let issuer = "https://id.example.com/none"
            func metadata(in context: ServerContext) async throws -> ProviderMetadata {
                try await context.discover()
            }
        }
        let environment = try environment()
        let plain = await #expect(throws: AuthError.self) { try await environment.client(adapter: Plain()).metadata() }
        #expect(plain?.message.contains("explicitly") == false)
        let oidc = await #expect(throws: AuthError.self) {
            try await environment.client(adapter: OIDCProvider(issuer: "https://id.example.com/none")).metadata()
        }
        #expect(oidc?.message.contains("explicitly") == true)
    }

    // MARK: Clients with a secret

    @Test func encodesSpacesAsPercent20InBasicCredentials() async throws {
        let secret = "a b+c:d%é"
        let environment = try environment(clients: [
            .init(id: "my app", secret: secret, authenticationMethod: "client_secret_basic")
        ])
        let settings = try ClientRegistration(clientID: "my app") {
            $0.authentication = .clientSecretBasic(Secret(secret))
        }.values
        _ = try await environment.client(registration: settings).signIn()
        let field = environment.emulator.receivedRequests.first { $0.path == "/token" }?.request.headerFields[
            .authorization
        ]
        let pair = try #require(Data(base64Encoded: String(field?.dropFirst("Basic ".count) ?? "")))
        #expect(String(decoding: pair, as: UTF8.self) == "my%20app:a%20b%2Bc%3Ad%25%C3%A9")
    }

    @Test(arguments: [("right%", true), ("rightone", false)])
    func suggestsClientSecretPostWhenTheSecretHasSpecialCharacters(_ secret: String, _ isAdvised: Bool) async throws {
        let environment = try environment(clients: [
            .init(id: "c", secret: "other", authenticationMethod: "client_secret_basic")
        ])
        let settings = try ClientRegistration(clientID: "c") { $0.authentication = .clientSecretBasic(Secret(secret)) }
            .values
        let error = await #expect(throws: AuthError.self) {
            try await environment.client(registration: settings).signIn()
        }
        #expect(error?.providerError?.error == "invalid_client")
        #expect(error?.message.contains("\"client_secret_post\"") == isAdvised)
        #expect(error?.message.contains(secret) == false)
    }

    @Test(arguments: [true, false]) func fetchesARotatedSigningKey(withTheSameKeyID keepsKeyIDs: Bool) async throws {
        let environment = try environment()
        let client = try environment.client()
        _ = try await client.signIn()
        try environment.emulator.rotateKeys(keepsKeyIDs: keepsKeyIDs)
        _ = try await client.signIn()
        #expect(environment.emulator.requests.count { $0 == "GET /jwks" } == 2)
    }

    // MARK: Signing out

    /// Without `id_token_hint`, the request must contain `client_id`.
    @Test(arguments: [(true, true), (false, true), (true, false), (false, false)])
    func sendsTheClientIDAndTheIDTokenAtSignOutAsConfigured(_ isNamed: Bool, _ hasHint: Bool) async throws {
        let environment = try environment()
        var settings = try EmulatorEnvironment.registration()
        settings.postLogoutRedirectURI = RedirectURI("http://127.0.0.1:8400/callback")
        settings.parameters[.endSession] = ["ui_locales": "de"]
        if !isNamed { settings.sendsClientIDAtSignOut = false }
        if !hasHint { settings.sendsIDTokenAtSignOut = false }
        let client = try environment.client(registration: settings)
        _ = try await client.signIn()
        guard case .done = try await client.signOut(endingSession: true).endSession else {
            Issue.record("The session was not ended.")
            return
        }
        let query = try #require(environment.emulator.receivedRequests.first { $0.path == "/end_session" }?.query)
        #expect((query["id_token_hint"] != nil) == hasHint)
        #expect(query["client_id"] == (isNamed || !hasHint ? "authflow-demo" : nil))
        #expect(query["ui_locales"] == "de")
    }

    @Test func doesNotRevokeExpiredTokens() async throws {
        let time = TestTime()
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", now: { time.now }))
        let client = try environment.client(host: time.host)
        _ = try await client.signIn()
        time.advance(3600)
        #expect(try await client.signOut().revocation == .nothingToDo)
        #expect(!environment.emulator.requests.contains("POST /revoke"))
    }

    /// Yahoo and Mollie require this parameter.
    @Test func sendsAConfiguredRedirectURIInRefreshRequests() async throws {
        let environment = try environment()
        var settings = try EmulatorEnvironment.registration()
        settings.scopes.append("offline_access")
        settings.parameters[.refresh] = ["redirect_uri": "oob"]
        let client = try environment.client(registration: settings)
        _ = try await client.signIn()
        try await client.refresh()
        let requests = environment.emulator.receivedRequests.filter { $0.form["grant_type"] == "refresh_token" }
        #expect(requests.map { $0.form["redirect_uri"] } == ["oob"])
    }

    @Test func sendsTheConfiguredParametersOfRevocationRequests() async throws {
        let environment = try environment()
        var settings = try EmulatorEnvironment.registration()
        settings.parameters[.revocation] = ["client_key": "app"]
        let client = try environment.client(registration: settings)
        _ = try await client.signIn()
        #expect(try await client.signOut().revocation == .done)
        let requests = environment.emulator.receivedRequests.filter { $0.path == "/revoke" }
        #expect(!requests.isEmpty && requests.allSatisfy { $0.form["client_key"] == "app" && $0.form["token"] != nil })
    }
}

/// A transport that responds to some requests itself.
struct ScriptedResponses: HTTPTransport {
    let base: any HTTPTransport
    let respond: @Sendable (TransportRequest) -> TransportResponse?

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        if let response = respond(call) { return response }
        return try await base.send(call)
    }
}

extension TransportResponse {
    fileprivate static func json(_ json: JSON) -> TransportResponse {
        TransportResponse(
            head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
            body: (try? json.serialized()) ?? []
        )
    }
}
