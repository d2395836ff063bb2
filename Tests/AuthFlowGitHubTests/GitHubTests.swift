import AuthFlow
import AuthFlowGitHub
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Foundation
import HTTPTypes
import Synchronization
import Testing

@Suite struct GitHubSigningInTests {
    @Test(arguments: EmulatorScene.Setting.allCases, GitHubEmulator.Format.allCases)
    func signsInWithEveryResponseFormat(_ setting: EmulatorScene.Setting, _ format: GitHubEmulator.Format) async throws
    {
        try await GitHubScene.with(setting) { scene in
            scene.emulator.settings.format = format
            let client = try scene.client()
            let credential = try await client.signIn().credential
            #expect(credential.identity?.subject == "583231")
            #expect(credential.identity?.issuer == "\(scene.emulator.origin)/login/oauth")
            #expect(credential.identity?.displayName == "octocat")
            #expect(credential.tokens.scopes == ["user:email", "gist"])
            #expect(credential.tokens.expiresAt == nil)
            #expect(credential.tokens.refreshToken == nil)
            #expect(credential.tokens.accessToken.exposed.hasPrefix("gho_"))
            #expect(try await client.userInfo()["login"] == "octocat")
            #expect(try await client.freshTokens() == credential.tokens)
        }
    }

    @Test(arguments: EmulatorScene.Setting.allCases) func sendsTheParametersOfGitHubsDocumentation(
        _ setting: EmulatorScene.Setting
    ) async throws {
        try await GitHubScene.with(setting) { scene in
            var settings = try scene.settings()
            settings.parameters[.authorization] = [
                "login": "octocat", "allow_signup": "false", "prompt": "select_account",
            ]
            _ = try await scene.client(registration: settings).signIn()
            let requests = scene.emulator.receivedRequests
            let authorization = try #require(requests.first { $0.path == "/login/oauth/authorize" }?.query)
            #expect(authorization["scope"] == "user:email gist")
            #expect(authorization["code_challenge_method"] == "S256")
            #expect(authorization["login"] == "octocat")
            #expect(authorization["allow_signup"] == "false")
            #expect(authorization["prompt"] == "select_account")
            #expect(authorization["nonce"] == nil)
            let token = try #require(requests.first { $0.path == "/login/oauth/access_token" })
            #expect(token.request.headerFields[.accept] == "application/json")
            #expect(token.form["client_secret"] == "github-demo-secret")
            #expect(token.form["code_verifier"]?.utf8.count == 43)
            let user = try #require(requests.last)
            #expect(user.path.hasSuffix("/user"))
            #expect(user.request.headerFields[.userAgent] == "AuthFlow")
            #expect(user.request.headerFields[HTTPField.Name("X-GitHub-Api-Version")!] == "2022-11-28")
            #expect(user.request.headerFields[.authorization]?.hasPrefix("Bearer gho_") == true)
        }
    }

    @Test func conformsToTheAdapterSuite() async throws {
        try await GitHubScene.with(.inProcess) { scene in
            try await ProviderConformance(adapter: try scene.provider(), client: try scene.client()).run()
        }
    }

    @Test func identifiesTheUserByIDAndNotByLogin() async throws {
        var renamed = GitHubEmulator.User.octocat
        renamed.login = "octodog"
        let users = [renamed]
        let store = MemoryTokenStore()
        try await GitHubScene.with(.inProcess) { _ = try await $0.client(store: store).signIn() }
        try await GitHubScene.with(.inProcess, users: users) { scene in
            // The same account: no mismatch.
            let signIn = try await scene.client(user: users[0], store: store).signIn()
            #expect(signIn.credential.identity?.displayName == "octodog")
        }
        var impostor = GitHubEmulator.User.octocat
        impostor.id = 99
        let impostors = [impostor]
        try await GitHubScene.with(.inProcess, users: impostors) { scene in
            let error = await #expect(throws: AuthError.self) {
                try await scene.client(user: impostors[0], store: store).signIn()
            }
            #expect(error?.code == .accountMismatch)
        }
    }

    @Test(arguments: EmulatorScene.Setting.allCases) func returnsOnlyTheScopesThatTheUserGrants(
        _ setting: EmulatorScene.Setting
    ) async throws {
        try await GitHubScene.with(setting) { scene in
            scene.emulator.settings.refusedScopes = ["gist"]
            let settings = try scene.settings(scopes: ["user", "gist", "user:email"])
            let tokens = try await scene.client(registration: settings).signIn().credential.tokens
            #expect(tokens.scopes == ["user"])
            #expect(GitHubScopes.covers("user:email", granted: tokens.scopes))
            #expect(!GitHubScopes.covers("gist", granted: tokens.scopes))
        }
    }

    @Test(arguments: EmulatorScene.Setting.allCases) func reportsThatTheUserDeniedAccess(
        _ setting: EmulatorScene.Setting
    )
        async throws
    {
        try await GitHubScene.with(setting) { scene in
            let error = await #expect(throws: AuthError.self) { try await scene.client(consent: .deny).signIn() }
            #expect(error?.code == .accessDenied)
            #expect(error?.providerError?.errorDescription == "The user has denied your application access.")
        }
    }

    @Test func refusesTheRedirectWhenTheRedirectURIIsNotRegistered() async throws {
        let app = GitHubEmulator.App(callback: "http://127.0.0.1:8400/callback/other", matchesBelow: true)
        try await GitHubScene.with(.inProcess, apps: [app]) { scene in
            // GitHub redirects to the registered callback, which is not the requested one: nothing is accepted.
            await #expect(throws: AuthError.self) { try await scene.client().signIn() }
            #expect(scene.emulator.accessTokens.isEmpty)
        }
    }

    // MARK: Errors

    @Test(arguments: EmulatorScene.Setting.allCases, GitHubEmulator.Format.allCases)
    func reportsErrorsThatComeWithStatus200(_ setting: EmulatorScene.Setting, _ format: GitHubEmulator.Format)
        async throws
    {
        try await GitHubScene.with(setting) { scene in
            scene.emulator.settings.format = format
            let settings = try scene.settings(secret: "wrong")
            let client = try scene.client(registration: settings)
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .providerRejected)
            #expect(error?.providerError?.error == "incorrect_client_credentials")
            #expect(
                error?.providerError?.errorDescription == "The client_id and/or client_secret passed are incorrect."
            )
            #expect(error?.providerError?.status == 200)
            #expect(try await client.credential() == nil)
        }
    }

    @Test func reportsThatTheEmailAddressIsNotVerified() async throws {
        var user = GitHubEmulator.User.octocat
        user.hasVerifiedEmail = false
        let users = [user]
        try await GitHubScene.with(.inProcess, users: users) { scene in
            let error = await #expect(throws: AuthError.self) { try await scene.client().signIn() }
            #expect(error?.providerError?.error == "unverified_user_email")
        }
    }

    static let badResponses: [(name: String, fault: EmulatorFault, code: AuthError.Code)] = [
        ("a proxy's page", .tokenResponse(.brokenGateway), .temporarilyUnavailable),
        ("nothing", .tokenResponse(.empty), .invalidResponse),
        ("a page with status 200", .tokenResponse(.notJSON), .invalidResponse),
        ("JSON said to be a form", .tokenResponse(.mediaType("application/x-www-form-urlencoded")), .invalidResponse),
        ("JSON said to be XML", .tokenResponse(.mediaType("application/xml")), .invalidResponse),
        ("too much", .tokenResponse(.oversized), .invalidResponse),
        ("unavailable", .tokenResponse(.unavailable), .temporarilyUnavailable),
        ("elsewhere", .tokenResponse(.redirected), .invalidResponse),
        ("no token_type", .tokenResponse(.member("token_type", nil)), .invalidResponse),
        ("token_type mac", .tokenResponse(.unknownTokenType), .unsupported),
        ("no access_token", .tokenResponse(.missingAccessToken), .invalidResponse),
        ("empty access_token", .tokenResponse(.member("access_token", "")), .invalidResponse),
        ("access_token that is a number", .tokenResponse(.member("access_token", 5)), .invalidResponse),
        ("expires_in that is a word", .tokenResponse(.member("expires_in", "soon")), .invalidResponse),
        ("expires_in that is not a number", .tokenResponse(.member("expires_in", "nan")), .invalidResponse),
        ("expires_in below zero", .tokenResponse(.member("expires_in", -1)), .invalidResponse),
        ("expires_in beyond time", .tokenResponse(.member("expires_in", 9e30)), .invalidResponse),
        ("user without id", .userInfo(.member("id", nil)), .invalidUserInfo),
        ("user whose id is a string", .userInfo(.member("id", "583231")), .invalidUserInfo),
        ("user that is a page", .userInfo(.notJSON), .invalidResponse),
        ("user behind a broken gateway", .userInfo(.brokenGateway), .temporarilyUnavailable),
    ]

    @Test(arguments: badResponses, EmulatorScene.Setting.allCases) func refusesBadTokenAndUserResponses(
        _ test: (name: String, fault: EmulatorFault, code: AuthError.Code),
        _ setting: EmulatorScene.Setting
    ) async throws {
        try await GitHubScene.with(setting) { scene in
            scene.emulator.settings.fault = test.fault
            let client = try scene.client()
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == test.code, "\(String(describing: error))")
            #expect(error.map { "\($0)" }?.contains("gho_") == false)
            #expect(try await client.credential() == nil)
        }
    }

    static let tolerated: [(name: String, fault: EmulatorFault, lifetime: TimeInterval?)] = [
        ("expires_in as a string", .tokenResponse(.member("expires_in", "28800")), 28_800),
        ("expires_in that is null", .tokenResponse(.member("expires_in", .null)), nil),
        ("unknown members", .tokenResponse(.member("new", ["x": 1])), nil),
        ("no scope", .tokenResponse(.missingScope), nil),
        ("scopes with spaces", .tokenResponse(.member("scope", "user:email, gist")), nil),
        ("JSON said to be text", .tokenResponse(.mediaType("text/plain")), nil),
    ]

    @Test(arguments: tolerated) func toleratesUnusualTokenResponses(
        _ test: (name: String, fault: EmulatorFault, lifetime: TimeInterval?)
    ) async throws {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await GitHubScene.with(.inProcess, now: { time.now }) { scene in
            scene.emulator.settings.fault = test.fault
            let tokens = try await scene.client(host: time.host).signIn().credential.tokens
            #expect(tokens.scopes == ["user:email", "gist"])
            #expect(tokens.expiresAt == test.lifetime.map { time.now + $0 })
        }
    }

    static let badXML = [
        "", "<OAuth>", "<html><body/></html>", "<OAuth><a><b>1</b></a></OAuth>", "<OAuth><a>1</a><a>2</a></OAuth>",
        "<!DOCTYPE x [<!ENTITY y \"z\">]><OAuth><access_token>&y;</access_token></OAuth>", "<OAuth/><OAuth/>",
    ]

    /// Names that are not UTF-8, which crash Foundation's parser; and an encoding that the document does not have.
    private static let badBytes: [[UInt8]] = [
        Array("<O".utf8) + [0xEC] + Array("Auth><access_token>x</access_token></OAuth>".utf8),
        Array(#"<?xml version="1.0" encoding="UTF-16"?><OAuth><access_token>x</access_token></OAuth>"#.utf8),
    ]

    @Test(arguments: badXML.map { Array($0.utf8) } + badBytes) func refusesXMLThatIsNotATokenResponse(
        _ body: [UInt8]
    ) async throws {
        try await GitHubScene.with(.inProcess) { scene in
            scene.emulator.settings.fault = .tokenResponse(
                .response {
                    $0.head.headerFields[.contentType] = "application/xml"
                    $0.body = body
                }
            )
            let error = await #expect(throws: AuthError.self) { try await scene.client().signIn() }
            #expect(error?.code == .invalidResponse)
        }
    }

    // MARK: Limits

    @Test(arguments: EmulatorScene.Setting.allCases) func reportsHowLongTheRateLimitLasts(
        _ setting: EmulatorScene.Setting
    )
        async throws
    {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await GitHubScene.with(setting, now: { time.now }) { scene in
            scene.emulator.settings.remainingCalls = 0
            let error = await #expect(throws: AuthError.self) { try await scene.client(host: time.host).signIn() }
            #expect(error?.code == .temporarilyUnavailable)
            #expect(error?.retryAfter == .seconds(1800))
        }
    }

    @Test(
        arguments: [
            (403, [:], nil), (403, ["retry-after": "7"], 7), (429, [:], nil as Int?),
            (403, ["X-RateLimit-Remaining": "5"], nil),
            (429, ["x-ratelimit-remaining": "0", "x-ratelimit-reset": "60"], 60),
        ] as [(Int, [String: String], Int?)]
    ) func distinguishesARateLimitFromARefusal(
        _ status: Int,
        _ fields: [String: String],
        _ wait: Int?
    ) throws {
        var response = TransportResponse(head: HTTPResponse(status: .init(code: status)))
        for (name, value) in fields { response.head.headerFields[HTTPField.Name(name)!] = value }
        let now = Date(timeIntervalSince1970: 0)
        guard status == 429 || wait != nil else { return try response.requireAvailable(from: "x", now: now) }
        let limited = response
        let error = #expect(throws: AuthError.self) { try limited.requireAvailable(from: "x", now: now) }
        #expect(error?.retryAfter == wait.map { .seconds($0) })
    }
}

@Suite struct GitHubTokenLifeTests {
    @Test(arguments: EmulatorScene.Setting.allCases, [GitHubEmulator.App.Kind.expiringOAuthApp, .gitHubApp])
    func refreshesExpiringTokens(_ setting: EmulatorScene.Setting, _ kind: GitHubEmulator.App.Kind) async throws {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await GitHubScene.with(setting, apps: [.init(kind: kind)], now: { time.now }) { scene in
            let client = try scene.client(host: time.host)
            let first = try await client.signIn().credential.tokens
            #expect(first.expiresAt == time.now + 28_800)
            #expect(first.parameters.exposed["refresh_token_expires_in"]?.integer == 15_897_600)
            #expect(first.scopes == (kind == .gitHubApp ? [] : ["user:email", "gist"]))
            #expect(first.accessToken.exposed.hasPrefix(kind == .gitHubApp ? "ghu_" : "gho_"))
            time.advance(by: .seconds(28_800))
            let second = try await client.freshTokens()
            #expect(second.accessToken != first.accessToken)
            #expect(second.refreshToken != first.refreshToken)
            #expect(second.scopes == first.scopes)
            #expect(scene.emulator.accessTokens == [second.accessToken.exposed])
            let refresh = scene.emulator.receivedRequests.last
            #expect(refresh?.form["scope"] == nil)
        }
    }

    @Test func requestsExpiringTokensWithTheOfflineAccessScope() async throws {
        try await GitHubScene.with(.inProcess) { scene in
            let settings = try scene.settings(scopes: ["gist", "offline_access"])
            let tokens = try await scene.client(registration: settings).signIn().credential.tokens
            #expect(tokens.refreshToken != nil)
            #expect(tokens.scopes == ["gist"])
        }
    }

    @Test(arguments: [200, 400]) func endsTheSessionWhenTheRefreshTokenIsBad(_ status: Int) async throws {
        let time = VirtualTime()
        try await GitHubScene.with(.inProcess, apps: [.init(kind: .gitHubApp)], now: { time.now }) { scene in
            scene.emulator.settings.errorStatus = status
            let store = MemoryTokenStore()
            _ = try await scene.client(store: store, host: time.host).signIn()
            // Another client has refreshed with a copy: the stored refresh token is used up.
            let copy = try await scene.client(store: store, host: time.host).credential()
            let thief = MemoryTokenStore()
            let key = RecordKey(name: "default", issuer: scene.issuer, clientID: "Iv23demo")
            try await thief.set(await store.bytes(for: key), for: key)
            _ = try await scene.client(store: thief, host: time.host).refresh()
            time.advance(by: .seconds(28_800))
            let client = try scene.client(store: store, host: time.host)
            let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(error?.code == .loginRequired)
            #expect(error?.providerError?.error == "bad_refresh_token")
            let requests = scene.emulator.requests.count
            await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(scene.emulator.requests.count == requests)
            #expect(copy != nil)
        }
    }

    @Test func worksWhenGitHubRevokesTheOldestOfElevenTokens() async throws {
        try await GitHubScene.with(.inProcess) { scene in
            let client = try scene.client()
            let first = try await client.signIn().credential.tokens
            for _ in 0..<10 { _ = try await client.signIn() }
            #expect(scene.emulator.accessTokens.count == 10)
            #expect(!scene.emulator.accessTokens.contains(first.accessToken.exposed))
            #expect(try await client.userInfo()["login"] == "octocat")
        }
    }

    @Test func reportsThatARevokedTokenIsRejected() async throws {
        try await GitHubScene.with(.inProcess) { scene in
            let client = try scene.client()
            let credential = try await client.signIn().credential
            try await scene.provider().revoke(credential.tokens, in: client.providerContext)
            let error = await #expect(throws: AuthError.self) { try await client.userInfo() }
            #expect(error?.code == .accessTokenRejected)
        }
    }

    // MARK: Calls of the app's owner

    @Test(arguments: EmulatorScene.Setting.allCases) func checksAndResetsTokens(_ setting: EmulatorScene.Setting)
        async throws
    {
        try await GitHubScene.with(setting) { scene in
            let provider = try scene.provider()
            let client = try scene.client()
            let old = try await client.signIn().credential.tokens
            let description = try await provider.checkToken(old, in: client.providerContext)
            #expect(description?["scopes"]?.strings == ["user:email", "gist"])
            let new = try await client.replaceTokens { try await provider.resetToken($0, in: $1) }.tokens
            #expect(new.accessToken != old.accessToken)
            #expect(try await client.freshTokens() == new)
            #expect(try await client.credential()?.tokens == new)
            let stale = try await provider.checkToken(old, in: client.providerContext)
            #expect(stale == nil)
            #expect(try await client.userInfo()["login"] == "octocat")
            await #expect(throws: AuthError.self) { try await provider.resetToken(old, in: client.providerContext) }
        }
    }

    @Test func sendsNoTokenToAnotherHostThanItsOwn() async throws {
        try await GitHubScene.with(.inProcess) { scene in
            let store = MemoryTokenStore()
            _ = try await scene.client(store: store).signIn()
            let elsewhere = GitHubProvider(host: try GitHubHost("git.example.com"))
            let client = try scene.client(adapter: elsewhere, store: store)
            let error = await #expect(throws: AuthError.self) {
                try await client.replaceTokens { tokens, _ in
                    Issue.record("The token was passed on.")
                    return tokens
                }
            }
            #expect(error?.code == .loginRequired)
            await #expect(throws: AuthError.self) { try await client.userInfo() }
        }
    }

    @Test(arguments: GitHubProvider.SignOut.allCases, EmulatorScene.Setting.allCases)
    func revokesTheTokenOrTheGrantAsConfigured(_ what: GitHubProvider.SignOut, _ setting: EmulatorScene.Setting)
        async throws
    {
        try await GitHubScene.with(setting) { scene in
            let elsewhere = try scene.client(adapter: scene.provider(signOut: what))
            _ = try await elsewhere.signIn()
            let client = try scene.client(adapter: scene.provider(signOut: what))
            _ = try await client.signIn()
            let signOut = try await client.signOut(endingSession: true)
            guard case .done = signOut.revocation else {
                Issue.record("\(signOut.revocation)")
                return
            }
            #expect(scene.emulator.accessTokens.count == (what == .grant ? 0 : 1))
            #expect(try await client.credential() == nil)
            guard case .unsupported(let advice) = signOut.endSession else {
                Issue.record("GitHub has no sign-out page.")
                return
            }
            #expect(advice.contains("select_account"))
        }
    }

    @Test func explainsHowToRevokeWithoutAClientSecret() async throws {
        let time = VirtualTime()
        try await GitHubScene.with(.inProcess, now: { time.now }) { scene in
            let settings = try scene.settings(secret: nil)
            let client = try scene.client(registration: settings, flows: [.device], host: time.host)
            _ = try await client.signIn()
            let signOut = try await client.signOut()
            guard case .unsupported(let advice) = signOut.revocation else {
                Issue.record("\(signOut.revocation)")
                return
            }
            #expect(advice.contains("https://github.com/settings/connections/applications/Iv23demo"))
            #expect(try await client.credential() == nil)
        }
    }
}

@Suite struct GitHubDeviceFlowTests {
    @Test(arguments: EmulatorScene.Setting.allCases, GitHubEmulator.Format.allCases)
    func signsInWithTheDeviceFlowWithoutASecret(_ setting: EmulatorScene.Setting, _ format: GitHubEmulator.Format)
        async throws
    {
        let time = VirtualTime()
        try await GitHubScene.with(setting, apps: [.init(kind: .expiringOAuthApp)], now: { time.now }) { scene in
            scene.emulator.settings.format = format
            let settings = try scene.settings(secret: nil)
            let client = try scene.client(registration: settings, flows: [.device], host: time.host)
            let credential = try await client.signIn().credential
            #expect(credential.identity?.subject == "583231")
            #expect(credential.tokens.scopes == ["user:email", "gist"])
            // Tokens of the device flow are refreshed without a secret too.
            let refreshed = try await client.refresh()
            #expect(refreshed.tokens.accessToken != credential.tokens.accessToken)
        }
    }

    @Test(arguments: GitHubEmulator.Format.allCases)
    func readsTheNewPollingIntervalInEveryFormat(_ format: GitHubEmulator.Format) async throws {
        // Timers that run fast: the emulator's interval is 10, 15, 20 ... and each response says so.
        let time = VirtualTime(drift: 1.5)
        try await GitHubScene.with(.inProcess, now: { time.now }) { scene in
            scene.emulator.settings.format = format
            let client = try scene.client(flows: [.device], host: time.host)
            _ = try await client.signIn()
            let polls = scene.emulator.requests.count { $0 == "POST /login/oauth/access_token" }
            #expect((2...6).contains(polls))
        }
    }

    static let endings: [(name: String, code: AuthError.Code, error: String?)] = [
        ("denied", .accessDenied, "access_denied"), ("expired", .timedOut, nil),
    ]

    @Test(arguments: endings)
    func stopsADeniedOrExpiredDeviceFlow(_ test: (name: String, code: AuthError.Code, error: String?)) async throws {
        let time = VirtualTime()
        try await GitHubScene.with(.inProcess, now: { time.now }) { scene in
            let emulator = scene.emulator
            let client = AuthClient(
                client: OAuthClient(
                    server: AuthorizationServer(try scene.provider(), transport: scene.transport, host: time.host),
                    registration: try ClientRegistration(try scene.settings())
                ),
                methods: [
                    .device(
                        DecidingPresenter {
                            if test.name == "denied" { emulator.decide($0.userCode, as: nil) }
                        }
                    )
                ]
            )
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == test.code)
            #expect(error?.providerError?.error == test.error)
            #expect(try await client.credential() == nil)
        }
    }

    /// Both spellings that the documentation has for the same error, and the others that end a device flow.
    @Test(arguments: [
        ("expired_token", AuthError.Code.timedOut), ("token_expired", .timedOut), ("access_denied", .accessDenied),
        ("incorrect_device_code", .providerRejected), ("unsupported_grant_type", .providerRejected),
        ("incorrect_client_credentials", .providerRejected), ("device_flow_disabled", .providerRejected),
    ]) func mapsEveryErrorThatEndsTheDeviceFlow(_ error: String, _ code: AuthError.Code) async throws {
        let time = VirtualTime()
        try await GitHubScene.with(.inProcess, now: { time.now }) { scene in
            scene.emulator.settings.fault = .tokenResponse(
                .members { $0 = ["error": .string(error), "error_description": "words"] }
            )
            let client = try scene.client(flows: [.device], host: time.host)
            let thrown = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(thrown?.code == code)
            #expect(thrown?.providerError?.error == error)
        }
    }

    @Test(arguments: [200, 400])
    func fallsBackToTheAuthorizationCodeGrantWhenTheDeviceFlowIsDisabled(_ status: Int) async throws {
        try await GitHubScene.with(.inProcess, apps: [.init(hasDeviceFlow: false)]) { scene in
            scene.emulator.settings.errorStatus = status
            let signIn = try await scene.client(flows: [.device, .authorizationCode]).signIn()
            #expect(signIn.identity?.subject == "583231")
        }
    }

    @Test func fallsBackToTheAuthorizationCodeGrantOnAnOldServerWithoutDeviceFlow() async throws {
        try await GitHubScene.with(.sockets) { scene in
            scene.emulator.settings.hasDeviceFlow = false
            let signIn = try await scene.client(flows: [.device, .authorizationCode]).signIn()
            #expect(signIn.identity?.subject == "583231")
        }
    }
}

@Suite struct GitHubConfigurationTests {
    @Test(arguments: [
        ("github.com", "https://github.com", "https://api.github.com"),
        ("https://github.com/", "https://github.com", "https://api.github.com"),
        ("Octo.GHE.com", "https://octo.ghe.com", "https://api.octo.ghe.com"),
        ("git.example.com", "https://git.example.com", "https://git.example.com/api/v3"),
        ("https://git.example.com:8443", "https://git.example.com:8443", "https://git.example.com:8443/api/v3"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080", "http://127.0.0.1:8080/api/v3"),
        ("notgithub.com", "https://notgithub.com", "https://notgithub.com/api/v3"),
    ]) func derivesTheAPIAddressFromTheHost(_ name: String, _ pages: String, _ api: String) throws {
        let host = try GitHubHost(name)
        #expect(host.pagesURL == pages)
        #expect(host.apiURL == api)
    }

    @Test(arguments: ["", "http://git.example.com", "github.com/login", "github.com?x=1", "user@github.com", "a b"])
    func refusesInvalidHosts(_ name: String) {
        #expect(throws: AuthError.self) { try GitHubHost(name) }
    }

    @Test func signsInFromAConfigurationFile() async throws {
        let app = GitHubEmulator.App()
        try await GitHubScene.with(.sockets) { scene in
            let file = try ConfigurationFile(
                text: Array(
                    """
                    {"profiles": {"work": {
                      "provider": "github", "host": "\(scene.emulator.origin)", "client_id": "\(app.id)",
                      "client_secret": {"env": "GITHUB_SECRET"}, "scopes": ["gist"],
                      "parameters": {"authorization": {"prompt": "select_account"}}, "sign_out": "grant", "store": "memory",
                      "user_agent": {
                        "name": "headless", "username": "octocat", "password": {"env": "PASSWORD"},
                        "origins": ["\(scene.emulator.origin)"]
                      }
                    }}}
                    """.utf8
                )
            )
            let client = try AuthClient(
                profile: try file.profile(),
                providers: [.gitHub],
                userAgents: [.headless],
                host: HostServices(environment: ["GITHUB_SECRET": app.secret, "PASSWORD": "meow"])
            )
            #expect(try await client.signIn().credential.identity?.subject == "583231")
            // As GitHub's documentation says: among the form parameters.
            let exchange = scene.emulator.receivedRequests.first { $0.path == "/login/oauth/access_token" }
            #expect(exchange?.form["client_secret"] == app.secret)
            #expect(exchange?.request.headerFields[.authorization] == nil)
        }
    }

    @Test(arguments: [
        ("user:email", ["user"], true), ("read:org", ["admin:org"], true), ("public_repo", ["repo"], true),
        ("repo", ["public_repo"], false), ("gist", [], false), ("user", ["user"], true),
        ("read:enterprise", ["admin:enterprise"], true),
    ]) func knowsWhichScopesIncludeAScope(_ scope: String, _ granted: [String], _ isCovered: Bool) {
        #expect(GitHubScopes.covers(scope, granted: granted) == isCovered)
    }

    @Test(arguments: [
        ("https://example.com/path", true), ("https://example.com/path/subdir/other", true),
        ("https://oauth.example.com/path", true), ("https://oauth.example.com/path/subdir/other", true),
        ("https://example.com/bar", false), ("https://example.com/", false), ("https://example.com:8080/path", false),
        ("https://oauth.example.com:8080/path", false), ("https://example.org", false),
    ]) func emulatesGitHubsRedirectURIMatching(_ uri: String, _ isAccepted: Bool) async throws {
        let app = GitHubEmulator.App(callback: "https://example.com/path", matchesBelow: true)
        let emulator = GitHubEmulator(apps: [app])
        let query = FormURLEncoding.encodeQuery(["client_id": app.id, "redirect_uri": uri, "state": "s"])
        let request = HTTPRequest(
            method: .get,
            scheme: "https",
            authority: "github.com",
            path: "/login/oauth/authorize?\(query)"
        )
        let response = await emulator.handle(request, body: [])
        #expect((response.status == 200) == isAccepted)
    }
}
