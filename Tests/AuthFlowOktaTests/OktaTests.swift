import AuthFlow
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowOkta
import AuthFlowTesting
import ConformanceRows
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// An emulated Okta org, the transport to it, and the apps of one vendor.
struct OktaScene: Sendable {
    let emulator: OktaEmulator
    let transport: any HTTPTransport
    let shared = MemoryTokenStore()

    static func with<Return: Sendable>(
        _ setting: EmulatorScene.Setting,
        now: @escaping @Sendable () -> Date = { Date() },
        _ body: @Sendable (OktaScene) async throws -> Return
    ) async throws -> Return {
        switch setting {
        case .inProcess:
            let emulator = try OktaEmulator(origin: "https://dev-1.okta.com", now: now)
            return try await body(OktaScene(emulator: emulator, transport: InProcessTransport(emulator)))
        case .sockets:
            return try await EmulatorServer.run {
                try OktaEmulator(origin: $0, now: now)
            } _: { emulator in
                try await body(OktaScene(emulator: emulator, transport: SystemTransport()))
            }
        }
    }

    var issuer: String { emulator.custom.issuer }

    func settings(_ app: String) throws -> ClientRegistration.Values {
        try ClientRegistration(clientID: app) {
            $0.redirectURIs = [RedirectURI("http://127.0.0.1:8400/callback")]
            $0.scopes = ["openid", "profile", "device_sso", "offline_access"]
            $0.postLogoutRedirectURI = RedirectURI("http://127.0.0.1:8400/callback")
        }.values
    }

    func provider(_ signOut: OktaProvider.SignOut = .allApps) -> OktaProvider {
        OktaProvider(issuer: issuer, audience: "api://default", signOut: signOut)
    }

    /// An app of the group. Without a user it can sign in only with what another app has shared.
    func app(
        _ name: String,
        settings: ClientRegistration.Values? = nil,
        provider: OktaProvider? = nil,
        user: OIDCEmulator.User? = nil,
        store: any TokenStore = MemoryTokenStore(),
        host: HostServices = .system,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> AuthClient {
        let driver = HTMLFormDriver(
            username: user?.username ?? "",
            password: Secret(user?.password ?? ""),
            origins: user == nil ? [] : [try Endpoint(emulator.origin)]
        )
        return AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(provider ?? self.provider(), transport: transport, host: host),
                registration: try ClientRegistration(try settings ?? self.settings(name)),
                sharedCredentials: SharedCredentialStore(group: "acme", store: shared)
            ),
            methods: [.userAgent(HeadlessUserAgent(driver: driver, transport: transport))],
            store: store,
            options: .named(name),
            observer: observer
        )
    }
}

@Suite struct OktaNativeSSOTests {
    @Test(arguments: EmulatorScene.Setting.allCases) func signsInOnceForAllApps(_ setting: EmulatorScene.Setting)
        async throws
    {
        try await OktaScene.with(setting) { scene in
            let mail = try scene.app("mail", user: .alice)
            let first = try await mail.signIn().credential
            #expect(first.tokens.deviceSecret != nil)
            #expect(first.identity?.displayName == "Alice Example")
            // No password: only what the first app has shared can sign in.
            let steps = Mutex<[FlowEvent.Step]>([])
            let calendar = try scene.app("calendar") { event in steps.withLock { $0.append(event.step) } }
            let second = try await calendar.signIn().credential
            #expect(second.identity?.subject == first.identity?.subject)
            #expect(second.tokens.verifiedIDToken?.audience == ["calendar"])
            #expect(second.tokens.deviceSecret == nil)
            #expect(second.tokens.scopes == ["openid", "profile", "offline_access"])
            #expect(steps.withLock { $0.contains(.tokenExchange) && !$0.contains(.userAgentVisit) })

            // The secret outlives refreshes, which bring none.
            #expect(try await mail.refresh().tokens.deviceSecret == first.tokens.deviceSecret)
            _ = try await calendar.refresh()

            let signOut = try await mail.signOut()
            guard case .done = signOut.revocation else {
                Issue.record("\(signOut.revocation)")
                return
            }
            #expect(scene.emulator.custom.deviceSecrets.isEmpty)
            let error = await #expect(throws: AuthError.self) { try await calendar.refresh() }
            #expect(error?.code == .loginRequired)
            #expect(error?.message.contains("signed out in the app mail") == true)
            #expect(error?.message.contains("The refresh token is invalid or expired.") == true)
            // The shared credential no longer signs a user in.
            await #expect(throws: AuthError.self) { try await scene.app("calendar").signIn() }
        }
    }

    @Test(arguments: EmulatorScene.Setting.allCases) func sendsTheTokenExchangeOfOktasGuide(
        _ setting: EmulatorScene.Setting
    ) async throws {
        try await OktaScene.with(setting) { scene in
            let first = try await scene.app("mail", user: .alice).signIn().credential
            _ = try await scene.app("calendar").signIn()
            let form = try #require(
                scene.emulator.custom.receivedRequests.last { $0.form["subject_token"] != nil }?.form
            )
            #expect(form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange")
            #expect(form["actor_token"] == first.tokens.deviceSecret?.exposed)
            #expect(form["actor_token_type"] == "urn:x-oath:params:oauth:token-type:device-secret")
            #expect(form["subject_token"] == first.tokens.idToken?.exposed)
            #expect(form["subject_token_type"] == "urn:ietf:params:oauth:token-type:id_token")
            #expect(form["scope"] == "openid profile offline_access")
            #expect(form["audience"] == "api://default")
            #expect(form["client_id"] == "calendar")
            #expect(form["redirect_uri"] == nil)
            #expect(form["requested_token_type"] == nil)
        }
    }

    @Test func sendsTheTokenTypeOfTheNativeSSODraftWhenConfigured() async throws {
        try await OktaScene.with(.inProcess) { scene in
            scene.emulator.custom.nativeSSO?.audience = nil
            _ = try await scene.app("mail", user: .alice).signIn()
            let draft = OktaProvider(issuer: scene.issuer, secretType: .deviceSecret)
            _ = try await scene.app("calendar", provider: draft).signIn()
            let form = scene.emulator.custom.receivedRequests.last { $0.form["subject_token"] != nil }?.form
            #expect(form?["actor_token_type"] == "urn:openid:params:token-type:device-secret")
            #expect(form?["audience"] == nil)
        }
    }

    /// Facts 1.6: Okta's error responses to a token exchange. The user is then asked, and the reason is in an event.
    static let exchangeErrors: [(error: String, words: String, status: Int)] = [
        ("invalid_request", "'actor_token' is invalid.", 400),
        ("invalid_request", "'actor_token_type' is invalid or not supported.", 400),
        ("invalid_request", "When 'actor_token_type' is 'x', 'subject_token_type' must be 'y'.", 400),
        ("invalid_request", "'subject_token' is invalid.", 400),
        ("invalid_request", "'subject_token_type' is invalid or not supported.", 400),
        ("invalid_request", "'requested_token_type' is invalid or not supported.", 400),
        ("invalid_grant", "The 'subject_token' either expired or the session associated with it was terminated.", 400),
        ("invalid_request", "'subject_token' is invalid: the session associated with it is no longer active.", 400),
        ("invalid_grant", "The client's assurance requirements are not met.", 400),
        ("invalid_target", "Token Exchange requests must include a valid audience of the authorization server.", 400),
        ("invalid_request", "A service client may not use the native sso flow.", 400),
        ("unauthorized_client", "The client is not authorized to use the provided grant type.", 400),
        ("unsupported_grant_type", "The grant type is not supported.", 400),
        ("consent_required", "The following scopes require user consent: [x].", 400),
        ("access_denied", "User is not assigned to the client application.", 400),
        ("access_denied", "The 'subject_token' issuer isn't a trusted authorization server.", 403),
    ]

    @Test(arguments: exchangeErrors) func asksTheUserWhenTheTokenExchangeFails(
        _ failure: (error: String, words: String, status: Int)
    ) async throws {
        try await OktaScene.with(.inProcess) { scene in
            _ = try await scene.app("mail", user: .alice).signIn()
            scene.emulator.custom.nativeSSO?.exchangeError = (failure.error, failure.words, failure.status)
            let events = Mutex<[FlowEvent]>([])
            let calendar = try scene.app("calendar", user: .alice) { event in events.withLock { $0.append(event) } }
            let signIn = try await calendar.signIn()
            #expect(signIn.credential.tokens.deviceSecret != nil)
            let reason = events.withLock { $0.first { $0.step == .flowChoice }?.details["reason"] }
            #expect(reason?.contains(failure.error) == true)
            #expect(reason?.contains(failure.words) == true)
        }
    }

    @Test(arguments: ["invalid_request", "invalid_grant"])
    func replacesADeviceSecretThatIsNoLongerValid(_ error: String) async throws {
        try await OktaScene.with(.inProcess) { scene in
            scene.emulator.custom.nativeSSO?.unknownSecretError = error
            let mail = try scene.app("mail", user: .alice)
            let first = try await mail.signIn().credential
            // An administrator has ended the session.
            let secret = try #require(first.tokens.deviceSecret)
            let context = mail.providerContext
            try await context.revoke([RevocableToken(secret, typeHint: "device_secret")])
            let calendar = try scene.app("calendar", user: .alice)
            #expect(try await calendar.signIn().credential.tokens.deviceSecret != first.tokens.deviceSecret)
            _ = try await scene.app("mail").signIn()
        }
    }

    @Test func asksTheUserWhenAnotherAccountIsRequested() async throws {
        try await OktaScene.with(.inProcess) { scene in
            _ = try await scene.app("mail", user: .alice).signIn()
            let calendar = try scene.app("calendar", user: .bob)
            #expect(try await calendar.signIn(.addAccount).credential.identity?.displayName == "Bob Example")
        }
    }

    @Test func sharesNoCredentialThatWasRefused() async throws {
        try await OktaScene.with(.inProcess) { scene in
            let store = MemoryTokenStore()
            let first = try await scene.app("mail", user: .alice, store: store).signIn().credential
            // Another user, where alice is signed in: refused, and nothing of that user is shared.
            let shared = SharedCredentialStore(group: "acme", store: scene.shared)
            let before = try await shared.value(for: scene.issuer)
            try await shared.change(for: scene.issuer) { _ in nil }
            let error = await #expect(throws: AuthError.self) {
                try await scene.app("mail", user: .bob, store: store).signIn()
            }
            #expect(error?.code == .accountMismatch)
            #expect(try await shared.value(for: scene.issuer) == nil)
            #expect(before?.exposed["sub"]?.string == first.identity?.subject)
        }
    }

    @Test(arguments: [
        EmulatorFault.idToken(.claim("ds_hash", "AAAAAAAAAAAAAAAAAAAAAA")),
        .idToken(.claim("ds_hash", 5)),
    ]) func refusesAnIDTokenWithAWrongDSHash(_ fault: EmulatorFault) async throws {
        try await OktaScene.with(.inProcess) { scene in
            scene.emulator.custom.fault = fault
            let mail = try scene.app("mail", user: .alice)
            let error = await #expect(throws: AuthError.self) { try await mail.signIn() }
            #expect(error?.code == .invalidIDToken)
            #expect(error?.message.contains("ds_hash") == true)
            #expect(try await mail.credential() == nil)
            #expect(
                await scene.shared.bytes(
                    for: RecordKey(name: "acme", issuer: scene.issuer, clientID: "", kind: .shared)
                ) == nil
            )
        }
    }

    @Test func acceptsAnIDTokenWithoutDSHash() async throws {
        try await OktaScene.with(.inProcess) { scene in
            scene.emulator.custom.nativeSSO?.secretHash = { _ in nil }
            _ = try await scene.app("mail", user: .alice).signIn()
            _ = try await scene.app("calendar").signIn()
        }
    }

    @Test(arguments: [
        ("exampleDeviceSecret", "5PuHaT28DJPEaOveu9ZCmg"),
        ("+oUXe6pnhkDOTTjR5ZGFQoZGVBrQPiDsUWIk27ioyhM=", "NnBjKfSGdSu_54hyC6ymWQ"),
        ("the_device_secret", "CQA955--8peYcNpnDuWS8g"),
    ]) func hashesDeviceSecretsAsOktaDoes(_ secret: String, _ hash: String) async throws {
        #expect(OIDCEmulator.secretHash(secret) == hash)
        try await OktaScene.with(.inProcess) { scene in
            let idToken = try await scene.app("mail", user: .alice).signIn().credential.tokens.verifiedIDToken
            #expect(idToken?.leftHash(of: Secret(secret)) == hash)
        }
    }

    @Test(arguments: [
        EmulatorFault.idToken(.claim("sub", "248289761002")), .idToken(.claim("sid", "another")),
        .idToken(.wrongAudience),
        .idToken(.badSignature),
    ]) func asksTheUserWhenTheTokenExchangeReturnsAWrongIDToken(_ fault: EmulatorFault) async throws {
        try await OktaScene.with(.inProcess) { scene in
            _ = try await scene.app("mail", user: .alice).signIn()
            scene.emulator.custom.fault = fault
            let calendar = try scene.app("calendar")
            // No user can be asked.
            await #expect(throws: AuthError.self) { try await calendar.signIn() }
            #expect(try await calendar.credential() == nil)
        }
    }

    @Test func acceptsTheNonceOfTheFirstSignInInAnExchangedIDToken() async throws {
        // Defect 7 of the facts: an ID Token of an exchange may carry the nonce of the sign-in it comes from.
        try await OktaScene.with(.inProcess) { scene in
            scene.emulator.custom.nativeSSO?.repeatsNonce = true
            _ = try await scene.app("mail", user: .alice).signIn()
            let tokens = try await scene.app("calendar").signIn().credential.tokens
            #expect(tokens.verifiedIDToken?.claims["nonce"] != nil)
        }
    }

    @Test func exchangesAnExpiredIDToken() async throws {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await OktaScene.with(.inProcess, now: { time.now }) { scene in
            _ = try await scene.app("mail", user: .alice, host: time.host).signIn()
            time.advance(by: .seconds(86_400))
            _ = try await scene.app("calendar", host: time.host).signIn()
        }
    }

    @Test(arguments: [OktaProvider.SignOut.thisApp, .allAppsWithSecretInAddress])
    func signsOutOfThisAppOrAllAppsAsConfigured(_ signOut: OktaProvider.SignOut) async throws {
        try await OktaScene.with(.inProcess) { scene in
            let mail = try scene.app("mail", provider: scene.provider(signOut), user: .alice)
            let secret = try await mail.signIn().credential.tokens.deviceSecret
            let calendar = try scene.app("calendar")
            _ = try await calendar.signIn()
            let outcome = try await mail.signOut(revokingTokens: signOut == .thisApp, endingSession: true)
            guard case .done = outcome.endSession else {
                Issue.record("\(outcome.endSession)")
                return
            }
            let logout = scene.emulator.custom.receivedRequests.last { $0.path.hasSuffix("/end_session") }
            if signOut == .thisApp {
                #expect(logout?.query["device_secret"] == nil)
                _ = try await calendar.refresh()
            } else {
                #expect(logout?.query["device_secret"] == secret?.exposed)
                await #expect(throws: AuthError.self) { try await calendar.refresh() }
            }
        }
    }

    @Test func signsNoUserInAgainAfterASignOutThatDidNotReachOkta() async throws {
        try await OktaScene.with(.inProcess) { scene in
            let mail = try scene.app("mail", user: .alice)
            _ = try await mail.signIn()
            scene.emulator.remainingCalls = 0
            let signOut = try await mail.signOut()
            guard case .failed = signOut.revocation else {
                Issue.record("\(signOut.revocation)")
                return
            }
            scene.emulator.remainingCalls = nil
            await #expect(throws: AuthError.self) { try await scene.app("calendar").signIn() }
        }
    }

    @Test(arguments: EmulatorScene.Setting.allCases) func introspectsDeviceSecrets(_ setting: EmulatorScene.Setting)
        async throws
    {
        try await OktaScene.with(setting) { scene in
            let mail = try scene.app("mail", user: .alice)
            let tokens = try await mail.signIn().credential.tokens
            let description = try await mail.introspect(tokens.deviceSecret, typeHint: "device_secret")
            #expect(description["active"] == true)
            #expect(description["sid"] == tokens.verifiedIDToken?.claims["sid"])
            _ = try await mail.signOut()
            #expect(
                try await scene.app("mail").introspect(tokens.deviceSecret, typeHint: "device_secret")["active"]
                    == false
            )
        }
    }

    @Test func introspectsTokensOnlyAtTheServerThatIssuedThem() async throws {
        try await OktaScene.with(.inProcess) { scene in
            let store = MemoryTokenStore()
            let client = try scene.app("mail", user: .alice, store: store)
            _ = try await client.signIn()
            #expect(try await client.introspect()["active"] == true)
            var settings = try scene.settings("mail")
            settings.scopes = ["openid"]
            let org = OktaProvider(issuer: scene.emulator.origin)
            let other = try scene.app("mail", settings: settings, provider: org, store: store)
            let error = await #expect(throws: AuthError.self) { try await other.introspect() }
            #expect(error?.code == .loginRequired)
            #expect(!scene.emulator.org.requests.contains { $0.hasSuffix("/introspect") })
        }
    }

    @Test func bindsTheTokensOfEveryAppWithDPoP() async throws {
        try await OktaScene.with(.inProcess) { scene in
            scene.emulator.custom.dpop = .requiredWithNonce
            for (name, user) in [("mail", OIDCEmulator.User.alice), ("calendar", nil)] {
                var settings = try scene.settings(name)
                settings.usesDPoP = true
                let app = try scene.app(name, settings: settings, user: user)
                #expect(try await app.signIn().credential.tokens.tokenType == "DPoP")
                _ = try await app.refresh()
                _ = try await app.userInfo()
            }
        }
    }

    @Test func signsInManyAppsAtOnceWithTheSharedCredential() async throws {
        try await OktaScene.with(.inProcess) { scene in
            _ = try await scene.app("mail", user: .alice).signIn()
            let subjects = try await withThrowingTaskGroup(of: String?.self) { group in
                for _ in 0..<20 {
                    group.addTask { try await scene.app("calendar").signIn().identity?.subject }
                }
                return try await group.reduce(into: Set<String?>()) { $0.insert($1) }
            }
            #expect(subjects == ["248289761001"])
        }
    }
}

@Suite struct OktaServerTests {
    @Test func refusesNativeSSOOnTheOrgServer() async throws {
        try await OktaScene.with(.inProcess) { scene in
            let provider = OktaProvider(issuer: scene.emulator.origin)
            let error = await #expect(throws: AuthError.self) {
                try await scene.app("mail", provider: provider, user: .alice).signIn()
            }
            #expect(error?.code == .unsupported)
            #expect(error?.message.contains("org authorization server") == true)
            #expect(scene.emulator.org.requests == ["GET /.well-known/openid-configuration"])
        }
    }

    @Test(arguments: [["openid", "device_sso"], ["device_sso", "offline_access"], ["device_sso"]])
    func requiresOpenIDDeviceSSOAndOfflineAccessTogether(_ scopes: [String]) async throws {
        try await OktaScene.with(.inProcess) { scene in
            var settings = try scene.settings("mail")
            settings.scopes = scopes
            let error = await #expect(throws: AuthError.self) {
                try await scene.app("mail", settings: settings, user: .alice).signIn()
            }
            #expect(error?.code == .invalidConfiguration)
        }
    }

    @Test(arguments: EmulatorScene.Setting.allCases) func signsInAtTheOrgServer(_ setting: EmulatorScene.Setting)
        async throws
    {
        try await OktaScene.with(setting) { scene in
            var settings = try scene.settings("mail")
            settings.scopes = ["openid", "profile", "offline_access"]
            let provider = OktaProvider(issuer: scene.emulator.origin)
            let client = try scene.app("mail", settings: settings, provider: provider, user: .alice)
            let first = try await client.signIn().credential
            #expect(first.identity?.issuer == scene.emulator.origin)
            #expect(first.tokens.deviceSecret == nil)
            // Refresh tokens of native apps are not rotated, and refreshed ID Tokens are verified (defect 6).
            let second = try await client.refresh()
            #expect(second.tokens.refreshToken == first.tokens.refreshToken)
            #expect(second.tokens.verifiedIDToken != first.tokens.verifiedIDToken)
            scene.emulator.org.fault = .idToken(.badSignature)
            let error = await #expect(throws: AuthError.self) { try await client.refresh() }
            #expect(error?.code == .invalidIDToken)
        }
    }

    @Test func conformsToTheAdapterSuite() async throws {
        try await OktaScene.with(.inProcess) { scene in
            let client = try scene.app("mail", user: .alice)
            try await ProviderConformance(adapter: scene.provider(), client: client).run()
        }
    }

    @Test func rotatesRefreshTokensWithLeewayWhenConfigured() async throws {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await OktaScene.with(.inProcess, now: { time.now }) { scene in
            scene.emulator.custom.refreshPolicy = .rotating(leeway: 30)
            let client = try scene.app("mail", user: .alice, host: time.host)
            let first = try await client.signIn().credential.tokens
            #expect(try await client.refresh().tokens.refreshToken != first.refreshToken)
        }
    }

    // MARK: Errors

    /// Facts 1.2, 1.5 and 1.7 to 1.9: errors of the token endpoint in both formats, and the resulting error codes.
    static let errors: [(failure: OktaEmulator.Failure, code: AuthError.Code, words: String)] = [
        (.init("invalid_grant", "The refresh token is invalid or expired."), .loginRequired, "is invalid or expired"),
        (
            .init("invalid_client", "No client credentials found.", status: 401), .providerRejected,
            "No client credentials"
        ),
        (.init("invalid_request", "The required parameter 'x' is missing."), .providerRejected, "is missing"),
        (.init("invalid_scope", "One or more scopes are not configured."), .providerRejected, "not configured"),
        (.init("access_denied", "Denied scopes: x", status: 403), .providerRejected, "Denied scopes"),
        (.init("unauthorized_client", "Configured grant types: [x]."), .providerRejected, "Configured grant types"),
        (.init("server_error", "Something broke.", status: 500), .temporarilyUnavailable, "Something broke"),
        (.init("temporarily_unavailable", "Come back."), .providerRejected, "Come back"),
        // A rate limit in the format, and with the code, of an ended session: it must not end one.
        (
            .init("invalid_grant", "API call exceeded rate limit due to too many requests.", status: 429),
            .temporarilyUnavailable, ""
        ),
        (
            .init("E0000047", "API call exceeded rate limit.", status: 429, shape: .okta), .temporarilyUnavailable, ""
        ),
        (
            .init("invalid_client", "Invalid value for `client_id` parameter", shape: .okta), .providerRejected,
            "Invalid value"
        ),
        (
            .init("E0000001", "Api validation failed: x", shape: .okta, causes: ["first cause", "second cause"]),
            .providerRejected, "first cause; second cause"
        ),
        (
            .init("E0000009", "Internal Server Error", status: 500, shape: .okta), .temporarilyUnavailable,
            "Internal Server Error"
        ),
        (.init("E0000010", "Service is in read only mode", status: 503, shape: .okta), .temporarilyUnavailable, ""),
    ]

    @Test(arguments: errors, EmulatorScene.Setting.allCases) func mapsEveryTokenEndpointError(
        _ test: (failure: OktaEmulator.Failure, code: AuthError.Code, words: String),
        _ setting: EmulatorScene.Setting
    ) async throws {
        let time = VirtualTime()
        try await OktaScene.with(setting, now: { time.now }) { scene in
            let client = try scene.app("mail", user: .alice, host: time.host)
            _ = try await client.signIn()
            time.advance(by: .seconds(3600))
            scene.emulator.tokenError = test.failure
            let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(error?.code == test.code, "\(String(describing: error))")
            #expect(error?.description.contains(test.words) == true || test.words.isEmpty)
            #expect(test.code == .temporarilyUnavailable || error?.providerError?.error == test.failure.code)
            // Only a session that the provider has ended is over.
            #expect((try await client.credential() == nil) == (test.code == .loginRequired))
        }
    }

    /// An exchanged ID Token that names another secret than the one that was exchanged.
    @Test func comparesAnExchangedIDTokenWithTheSharedDeviceSecret() async throws {
        try await OktaScene.with(.inProcess) { scene in
            _ = try await scene.app("mail", user: .alice).signIn()
            scene.emulator.custom.fault = .idToken(.claim("ds_hash", "AAAAAAAAAAAAAAAAAAAAAA"))
            let passedOver = Mutex<[String]>([])
            let calendar = try scene.app("calendar") { event in
                if let reason = event.details["reason"] { passedOver.withLock { $0.append(reason) } }
            }
            await #expect(throws: AuthError.self) { try await calendar.signIn() }
            #expect(passedOver.withLock { $0 }.contains { $0.contains("ds_hash") })
            scene.emulator.custom.fault = nil
            _ = try await scene.app("calendar").signIn()
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

    /// Facts 1.4: error responses of the authorization endpoint, with Okta's texts as data.
    @Test(arguments: [
        ("access_denied", "User is not assigned to the client application.", AuthError.Code.accessDenied),
        ("access_denied", "Policy evaluation failed for this request", .accessDenied),
        ("invalid_scope", "No scopes were requested.", .providerRejected),
        ("login_required", "The client specified not to prompt, but the user is not logged in.", .loginRequired),
        ("consent_required", "The following scopes require user consent: [x]", .accessDenied),
        ("invalid_request", "PKCE code challenge is required by the application.", .providerRejected),
        ("unsupported_response_mode", "x", .providerRejected),
    ]) func mapsEveryAuthorizationErrorResponse(_ error: String, _ words: String, _ code: AuthError.Code) async throws {
        try await OktaScene.with(.inProcess) { scene in
            scene.emulator.custom.fault = .callback(
                .parameters {
                    $0["code"] = nil
                    $0["error"] = error
                    $0["error_description"] = words
                }
            )
            let thrown = await #expect(throws: AuthError.self) { try await scene.app("mail", user: .alice).signIn() }
            #expect(thrown?.code == code)
            #expect(thrown?.providerError?.error == error)
            #expect(thrown?.providerError?.errorDescription == words)
        }
    }

    @Test func sendsEveryConfiguredAuthorizationParameter() async throws {
        // Defect 10: some were dropped.
        try await OktaScene.with(.inProcess) { scene in
            var settings = try scene.settings("mail")
            settings.parameters[.authorization] = ["ui_locales": "de", "claims_locales": "fr", "acr_values": "urn:x"]
            _ = try await scene.app("mail", settings: settings, user: .alice).signIn()
            let query = scene.emulator.custom.receivedRequests.first { $0.path.hasSuffix("/authorize") }?.query
            #expect(query?["ui_locales"] == "de" && query?["claims_locales"] == "fr" && query?["acr_values"] == "urn:x")
        }
    }

    @Test(arguments: EmulatorScene.Setting.allCases) func waitsAsLongAsTheRateLimitLasts(
        _ setting: EmulatorScene.Setting
    )
        async throws
    {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await OktaScene.with(setting, now: { time.now }) { scene in
            let client = try scene.app("mail", user: .alice, host: time.host)
            _ = try await client.signIn()
            time.advance(by: .seconds(3600))
            scene.emulator.remainingCalls = 0
            let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(error?.retryAfter == .seconds(60))
            // No request is sent before (defects 1 and 3).
            let requests = scene.emulator.custom.requests.count
            scene.emulator.remainingCalls = nil
            await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(scene.emulator.custom.requests.count == requests)
            time.advance(by: .seconds(80))
            _ = try await client.freshTokens()
        }
    }

    @Test func sendsNoMoreRequestsAfterTheSessionHasEnded() async throws {
        // Defect 1: thousands of requests in a second.
        let time = VirtualTime()
        try await OktaScene.with(.inProcess, now: { time.now }) { scene in
            let client = try scene.app("mail", user: .alice, host: time.host)
            _ = try await client.signIn()
            time.advance(by: .seconds(3600))
            scene.emulator.custom.endSessions()
            let before = scene.emulator.custom.requests.count { $0.hasSuffix("/token") }
            for _ in 0..<1000 { await #expect(throws: AuthError.self) { try await client.freshTokens() } }
            #expect(scene.emulator.custom.requests.count { $0.hasSuffix("/token") } == before + 1)
        }
    }

    @Test func signsInWithTheDeviceGrant() async throws {
        let time = VirtualTime()
        try await OktaScene.with(.inProcess, now: { time.now }) { scene in
            let settings = try scene.settings("mail")
            let custom = scene.emulator.custom
            // Defect 2: slow_down must slow the very next poll.
            custom.devicePollResponses = [.slowDown(interval: nil)]
            let client = AuthClient(
                client: OAuthClient(
                    server: AuthorizationServer(scene.provider(), transport: scene.transport, host: time.host),
                    registration: try ClientRegistration(settings)
                ),
                methods: [.device(DecidingPresenter { custom.decide($0.userCode, as: .alice) })]
            )
            _ = try await client.signIn()
            let polls = custom.receivedRequests.filter { $0.path.hasSuffix("/token") }.map(\.time)
            #expect(polls.count == 2 && polls[1].timeIntervalSince(polls[0]) >= 10)
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
