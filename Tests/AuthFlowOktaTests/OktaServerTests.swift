import AuthFlow
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowOkta
import AuthFlowTesting
import ConformanceRows
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Okta's two kinds of authorization server, and their errors.
@Suite struct OktaServerTests {
    @Test func rejectsNativeSSOOnTheOrgAuthorizationServer() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let provider = OktaProvider(issuer: environment.emulator.origin)
            let error = await #expect(throws: AuthError.self) {
                try await environment.app("mail", provider: provider, user: .alice).signIn()
            }
            #expect(error?.code == .unsupported)
            #expect(error?.message.contains("org authorization server") == true)
            #expect(environment.emulator.org.requests == ["GET /.well-known/openid-configuration"])
        }
    }

    @Test(arguments: [["openid", "device_sso"], ["device_sso", "offline_access"], ["device_sso"]])
    func requiresOpenIDDeviceSSOAndOfflineAccessTogether(_ scopes: [String]) async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            var settings = try environment.settings("mail")
            settings.scopes = scopes
            let error = await #expect(throws: AuthError.self) {
                try await environment.app("mail", settings: settings, user: .alice).signIn()
            }
            #expect(error?.code == .invalidConfiguration)
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases) func signsInAtTheOrgServer(
        _ setting: EmulatorEnvironment.Setting
    )
        async throws
    {
        try await OktaEnvironment.with(setting) { environment in
            var settings = try environment.settings("mail")
            settings.scopes = ["openid", "profile", "offline_access"]
            let provider = OktaProvider(issuer: environment.emulator.origin)
            let client = try environment.app("mail", settings: settings, provider: provider, user: .alice)
            let first = try await client.signIn().credential
            #expect(first.identity?.issuer == environment.emulator.origin)
            #expect(first.tokens.deviceSecret == nil)
            // Refresh tokens of native apps are not rotated, and refreshed ID Tokens are verified.
            let second = try await client.refresh()
            #expect(second.tokens.refreshToken == first.tokens.refreshToken)
            #expect(second.tokens.verifiedIDToken != first.tokens.verifiedIDToken)
            environment.emulator.org.fault = .idToken(.badSignature)
            let error = await #expect(throws: AuthError.self) { try await client.refresh() }
            #expect(error?.code == .invalidIDToken)
        }
    }

    @Test func conformsToTheAdapterSuite() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let client = try environment.app("mail", user: .alice)
            // With the shared store, the other user would be signed in as this user.
            let apart = OktaEnvironment(emulator: environment.emulator, transport: environment.transport)
            let other = try apart.app("mail", user: .bob)
            try await ProviderConformance(adapter: environment.provider(), client: client, other: other).run()
        }
    }

    @Test func rotatesRefreshTokensWithLeewayWhenConfigured() async throws {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await OktaEnvironment.with(.inProcess, now: { time.now }) { environment in
            environment.emulator.custom.refreshPolicy = .rotating(leeway: 30)
            let client = try environment.app("mail", user: .alice, host: time.host)
            let first = try await client.signIn().credential.tokens
            #expect(try await client.refresh().tokens.refreshToken != first.refreshToken)
        }
    }

    // MARK: Errors

    struct TokenError: CustomTestStringConvertible {
        let failure: OktaEmulator.Failure
        let code: AuthError.Code
        let words: String
        var testDescription: String { "\(failure)" }
    }

    /// Token endpoint errors in both formats, and the resulting error codes.
    static let errors: [TokenError] = [
        TokenError(
            failure: .init("invalid_grant", "The refresh token is invalid or expired."),
            code: .loginRequired,
            words: "is invalid or expired"
        ),
        TokenError(
            failure: .init("invalid_client", "No client credentials found.", status: 401),
            code: .providerRejected,
            words: "No client credentials"
        ),
        TokenError(
            failure: .init("invalid_request", "The required parameter 'x' is missing."),
            code: .providerRejected,
            words: "is missing"
        ),
        TokenError(
            failure: .init("invalid_scope", "One or more scopes are not configured."),
            code: .providerRejected,
            words: "not configured"
        ),
        TokenError(
            failure: .init("access_denied", "Denied scopes: x", status: 403),
            code: .providerRejected,
            words: "Denied scopes"
        ),
        TokenError(
            failure: .init("unauthorized_client", "Configured grant types: [x]."),
            code: .providerRejected,
            words: "Configured grant types"
        ),
        TokenError(
            failure: .init("server_error", "Something broke.", status: 500),
            code: .temporarilyUnavailable,
            words: "Something broke"
        ),
        TokenError(
            failure: .init("temporarily_unavailable", "Come back."),
            code: .temporarilyUnavailable,
            words: "Come back"
        ),
        // A rate-limit response that has the format and error code of an ended session must not end the session.
        TokenError(
            failure: .init("invalid_grant", "API call exceeded rate limit due to too many requests.", status: 429),
            code: .temporarilyUnavailable,
            words: ""
        ),
        TokenError(
            failure: .init("E0000047", "API call exceeded rate limit.", status: 429, shape: .okta),
            code: .temporarilyUnavailable,
            words: ""
        ),
        TokenError(
            failure: .init("invalid_client", "Invalid value for `client_id` parameter", shape: .okta),
            code: .providerRejected,
            words: "Invalid value"
        ),
        TokenError(
            failure: .init(
                "E0000001",
                "Api validation failed: x",
                shape: .okta,
                causes: ["first cause", "second cause"]
            ),
            code: .providerRejected,
            words: "first cause; second cause"
        ),
        TokenError(
            failure: .init("E0000009", "Internal Server Error", status: 500, shape: .okta),
            code: .temporarilyUnavailable,
            words: "Internal Server Error"
        ),
        TokenError(
            failure: .init("E0000010", "Service is in read only mode", status: 503, shape: .okta),
            code: .temporarilyUnavailable,
            words: ""
        ),
    ]

    @Test(arguments: errors, EmulatorEnvironment.Setting.allCases) func mapsEveryTokenEndpointError(
        _ test: TokenError,
        _ setting: EmulatorEnvironment.Setting
    ) async throws {
        let time = VirtualTime()
        try await OktaEnvironment.with(setting, now: { time.now }) { environment in
            let client = try environment.app("mail", user: .alice, host: time.host)
            _ = try await client.signIn()
            time.advance(by: .seconds(3600))
            environment.emulator.tokenError = test.failure
            let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(error?.code == test.code, "\(String(describing: error))")
            #expect(error?.description.contains(test.words) == true || test.words.isEmpty)
            #expect(test.code == .temporarilyUnavailable || error?.providerError?.error == test.failure.code)
            // The session ends only if the provider has ended it.
            #expect((try await client.credential() == nil) == (test.code == .loginRequired))
        }
    }

    @Test func theStandardErrorCodeTakesPrecedenceOverTheErrorCodeOfOkta() throws {
        let body = #"{"error": "invalid_grant", "errorCode": "E0000001", "errorSummary": "Api validation failed"}"#
        let response = ProviderResponse(
            purpose: .token,
            endpoint: Endpoint("https://dev-1.okta.com/oauth2/default/v1/token"),
            http: TransportResponse(
                head: HTTPResponse(status: .badRequest, headerFields: [.contentType: "application/json"]),
                body: Array(body.utf8)
            )
        )
        let provider = OktaProvider(issuer: "https://dev-1.okta.com/oauth2/default")
        #expect(try provider.parameters(of: response)["error"] == "invalid_grant")
    }

    /// An ID Token from an exchange whose `ds_hash` does not match the exchanged device secret.
    @Test func rejectsAnExchangedIDTokenWithAWrongDeviceSecretHash() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            _ = try await environment.app("mail", user: .alice).signIn()
            environment.emulator.custom.fault = .idToken(.claim("ds_hash", "AAAAAAAAAAAAAAAAAAAAAA"))
            let skipReasons = Mutex<[String]>([])
            let calendar = try environment.app("calendar") { event in
                if let reason = event.details["reason"] { skipReasons.withLock { $0.append(reason) } }
            }
            await expectError(.userAgentFailed) { try await calendar.signIn() }
            #expect(skipReasons.withLock { $0 }.contains { $0.contains("ds_hash") })
            environment.emulator.custom.fault = nil
            _ = try await environment.app("calendar").signIn()
        }
    }

    @Test(arguments: [
        ("https://acme.okta.com/oauth2/aus1", "", false), ("https://acme.okta.com/oauth2/default", "", true),
        ("https://acme.okta.com/oauth2/aus1", #""audience": "api://acme","#, true),
    ]) func requiresAnAudienceForACustomServer(_ issuer: String, _ keys: String, _ isGood: Bool) throws {
        let text = """
            {"profiles": {"a": {"provider": "okta", "issuer": "\(issuer)", "client_id": "c", \(keys)
             "scopes": ["openid", "device_sso", "offline_access"], "store": "memory"}}}
            """
        func client() throws -> AuthClient {
            try AuthClient(
                profile: try ConfigurationFile(text: Array(text.utf8)).profile(),
                providers: [.okta],
                userAgents: []
            )
        }
        if isGood { _ = try client() } else { #expect(throws: ConfigurationError.self) { try client() } }
    }

    /// Error responses from the authorization endpoint, most with Okta's original texts.
    @Test(arguments: [
        ("access_denied", "User is not assigned to the client application.", AuthError.Code.accessDenied),
        ("access_denied", "Policy evaluation failed for this request", .accessDenied),
        ("invalid_scope", "No scopes were requested.", .providerRejected),
        ("login_required", "The client specified not to prompt, but the user is not logged in.", .loginRequired),
        ("consent_required", "The following scopes require user consent: [x]", .accessDenied),
        ("invalid_request", "PKCE code challenge is required by the application.", .providerRejected),
        ("unsupported_response_mode", "x", .providerRejected),
    ]) func mapsEveryAuthorizationErrorResponse(_ error: String, _ words: String, _ code: AuthError.Code) async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            environment.emulator.custom.fault = .callback(
                .parameters {
                    $0["code"] = nil
                    $0["error"] = error
                    $0["error_description"] = words
                }
            )
            let thrown = await #expect(throws: AuthError.self) {
                try await environment.app("mail", user: .alice).signIn()
            }
            #expect(thrown?.code == code)
            #expect(thrown?.providerError?.error == error)
            #expect(thrown?.providerError?.errorDescription == words)
        }
    }

    @Test func sendsEveryConfiguredAuthorizationParameter() async throws {
        // okta-mobile-swift silently drops ui_locales and claims_locales.
        try await OktaEnvironment.with(.inProcess) { environment in
            var settings = try environment.settings("mail")
            settings.parameters[.authorization] = ["ui_locales": "de", "claims_locales": "fr", "acr_values": "urn:x"]
            _ = try await environment.app("mail", settings: settings, user: .alice).signIn()
            let query = environment.emulator.custom.receivedRequests.first { $0.path.hasSuffix("/authorize") }?.query
            #expect(query?["ui_locales"] == "de" && query?["claims_locales"] == "fr" && query?["acr_values"] == "urn:x")
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases) func doesNotSendRequestsUntilTheRateLimitResets(
        _ setting: EmulatorEnvironment.Setting
    )
        async throws
    {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await OktaEnvironment.with(setting, now: { time.now }) { environment in
            let client = try environment.app("mail", user: .alice, host: time.host)
            _ = try await client.signIn()
            time.advance(by: .seconds(3600))
            environment.emulator.remainingCalls = 0
            let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(error?.retryAfter == .seconds(60))
            // No request is sent before the rate limit is reset.
            let requests = environment.emulator.custom.requests.count
            environment.emulator.remainingCalls = nil
            await expectError(.temporarilyUnavailable) { try await client.freshTokens() }
            #expect(environment.emulator.custom.requests.count == requests)
            time.advance(by: .seconds(80))
            _ = try await client.freshTokens()
        }
    }

    @Test func sendsNoMoreRequestsAfterTheSessionHasEnded() async throws {
        // okta-mobile-swift sends thousands of requests per second here.
        let time = VirtualTime()
        try await OktaEnvironment.with(.inProcess, now: { time.now }) { environment in
            let client = try environment.app("mail", user: .alice, host: time.host)
            _ = try await client.signIn()
            time.advance(by: .seconds(3600))
            environment.emulator.custom.endSessions()
            let before = environment.emulator.custom.requests.count { $0.hasSuffix("/token") }
            for _ in 0..<1000 { await #expect(throws: AuthError.self) { try await client.freshTokens() } }
            #expect(environment.emulator.custom.requests.count { $0.hasSuffix("/token") } == before + 1)
        }
    }

    @Test func signsInWithTheDeviceGrant() async throws {
        let time = VirtualTime()
        try await OktaEnvironment.with(.inProcess, now: { time.now }) { environment in
            let settings = try environment.settings("mail")
            let custom = environment.emulator.custom
            // slow_down must delay the very next poll.
            custom.devicePollResponses = [.slowDown(interval: nil)]
            let client = AuthClient(
                client: OAuthClient(
                    server: AuthorizationServer(
                        environment.provider(),
                        transport: environment.transport,
                        host: time.host
                    ),
                    registration: try ClientRegistration(settings)
                ),
                methods: [.device(DecidingPresenter { custom.decide($0.userCode, as: .alice) })]
            )
            _ = try await client.signIn()
            let polls = custom.receivedRequests.filter { $0.path.hasSuffix("/token") }.map(\.time)
            #expect(polls.count == 2 && polls[1].timeIntervalSince(polls[0]) >= 10)
        }
    }

    /// The page has the code from the link, or asks for it.
    @Test(arguments: [true, false], [true, false]) func signsInWithTheDeviceGrantThroughThePagesOfBothServers(
        _ isCustom: Bool,
        _ hasLink: Bool
    ) async throws {
        let time = VirtualTime()
        try await OktaEnvironment.with(.inProcess, now: { time.now }) { environment in
            let server = isCustom ? environment.emulator.custom : environment.emulator.org
            if !hasLink { server.fault = .deviceAuthorization(.member("verification_uri_complete", nil)) }
            var settings = try environment.settings("mail")
            settings.scopes = ["openid", "profile"]
            let driver = HTMLFormDriver(
                username: OIDCEmulator.User.alice.username,
                password: Secret(OIDCEmulator.User.alice.password),
                origins: [try Endpoint(environment.emulator.origin)]
            )
            let client = AuthClient(
                client: OAuthClient(
                    server: AuthorizationServer(
                        OktaProvider(issuer: server.issuer),
                        transport: environment.transport,
                        host: time.host
                    ),
                    registration: try ClientRegistration(settings)
                ),
                methods: [.device(HeadlessDevicePresenter(driver: driver, transport: environment.transport))]
            )
            #expect(try await client.signIn().credential.identity?.issuer == server.issuer)
        }
    }

    // MARK: Configuration

    @Test(arguments: [
        (#""scopes": ["openid", "device_sso", "offline_access"]"#, true),
        (#""audience": "api://acme", "device_secret_type": "urn:openid:params:token-type:device-secret""#, true),
        (#""sign_out": "all_apps_with_secret_in_address", "dpop": true"#, true),
        (#""shared": {"group": "acme", "store": {"name": "file", "directory": "shared"}}"#, true),
        (#""shared": {"group": "acme"}"#, false), (#""shared": {"store": "memory"}"#, false),
        (#""sign_out": "everything""#, false),
    ]) func readsTheOktaConfiguration(_ more: String, _ isGood: Bool) throws {
        let text = """
            {"profiles": {"mail": {"provider": "okta", "issuer": "https://dev-1.okta.com/oauth2/default", "client_id": "m",
            "user_agent": {"name": "headless", "username": "a", "password": {"env": "P"}, "origins": ["https://a.example.com"]},
            \(more)}}}
            """
        func make() throws {
            _ = try AuthClient(
                profile: try ConfigurationFile(text: Array(text.utf8)).profile(),
                providers: [.okta],
                userAgents: [.headless],
                host: HostServices(environment: ["P": "x"])
            )
        }
        if isGood { try make() } else { #expect(throws: ConfigurationError.self) { try make() } }
    }
}
