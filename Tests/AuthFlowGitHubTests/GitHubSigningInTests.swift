import AuthFlow
import AuthFlowGitHub
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Expectations
import Foundation
import HTTPTypes
import Testing

/// Sign-in with each of GitHub's response formats, errors and limits.
@Suite struct GitHubSigningInTests {
    @Test(arguments: EmulatorEnvironment.Setting.allCases, GitHubEmulator.Format.allCases)
    func signsInWithEveryResponseFormat(_ setting: EmulatorEnvironment.Setting, _ format: GitHubEmulator.Format)
        async throws
    {
        try await GitHubEnvironment.with(setting) { environment in
            environment.emulator.settings.format = format
            let client = try environment.client()
            let credential = try await client.signIn().credential
            #expect(credential.identity?.subject == "583231")
            #expect(credential.identity?.issuer == "\(environment.emulator.origin)/login/oauth")
            #expect(credential.identity?.displayName == "octocat")
            #expect(credential.tokens.scopes == ["user:email", "gist"])
            #expect(credential.tokens.expiresAt == nil)
            #expect(credential.tokens.refreshToken == nil)
            #expect(credential.tokens.accessToken.exposed.hasPrefix("gho_"))
            #expect(try await client.userInfo()["login"] == "octocat")
            #expect(try await client.freshTokens() == credential.tokens)
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases) func sendsTheParametersDocumentedByGitHub(
        _ setting: EmulatorEnvironment.Setting
    ) async throws {
        try await GitHubEnvironment.with(setting) { environment in
            var settings = try environment.settings()
            settings.parameters[.authorization] = [
                "login": "octocat", "allow_signup": "false", "prompt": "select_account",
            ]
            _ = try await environment.client(registration: settings).signIn()
            let requests = environment.emulator.receivedRequests
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
            #expect(user.request.headerFields[HTTPField.Name("X-GitHub-Api-Version")!] == "2022-11-28")
            #expect(user.request.headerFields[.authorization]?.hasPrefix("Bearer gho_") == true)
        }
    }

    #if os(Linux)
    /// On Apple platforms, `URLSession` sends its own field.
    @Test func sendsTheConfiguredProductNameToTheAPI() async throws {
        try await EmulatorServer.run {
            GitHubEmulator(origin: $0)
        } _: { emulator in
            var network = NetworkSettings()
            network.productName = "com.example.app/1.2"
            let environment = GitHubEnvironment(emulator: emulator, transport: SystemTransport(network))
            let client = try environment.client()
            _ = try await client.signIn()
            #expect(try await client.signOut().revocation == .done)
            let calls = emulator.receivedRequests.filter {
                $0.path.hasSuffix("/user") || $0.path.contains("/applications/")
            }
            #expect(calls.count == 2)
            #expect(Set(calls.map { $0.request.headerFields[.userAgent] }) == [network.productName])
        }
    }
    #endif

    @Test func sendsTheLoginHintInGitHubsParameter() async throws {
        try await GitHubEnvironment.with(.inProcess) { environment in
            var settings = try environment.settings()
            settings.parameters[.authorization] = ["login": "octocat"]
            let client = try environment.client(registration: settings, user: .hubot)
            _ = try await client.signIn(options: AuthorizationOptions(loginHint: "hubot"))
            let requests = environment.emulator.receivedRequests
            let authorization = try #require(requests.first { $0.path == "/login/oauth/authorize" }?.query)
            #expect(authorization.values(for: "login") == ["hubot"])
            #expect(authorization["login_hint"] == nil)
        }
    }

    @Test func passesTheProviderConformanceSuite() async throws {
        try await GitHubEnvironment.with(.inProcess) { environment in
            try await ProviderConformance(
                adapter: try environment.provider(),
                client: try environment.client(),
                other: try environment.client(user: .hubot),
                issuesRefreshTokens: false,
                apiOrigins: ["https://api.github.com"]
            ).run()
        }
    }

    @Test func identifiesTheUserByIDAndNotByLogin() async throws {
        var renamed = GitHubEmulator.User.octocat
        renamed.login = "octodog"
        let users = [renamed]
        let store = MemoryTokenStore()
        try await GitHubEnvironment.with(.inProcess) { _ = try await $0.client(store: store).signIn() }
        try await GitHubEnvironment.with(.inProcess, users: users) { environment in
            // The account is the same, so there is no mismatch.
            let signIn = try await environment.client(user: users[0], store: store).signIn()
            #expect(signIn.credential.identity?.displayName == "octodog")
        }
        var impostor = GitHubEmulator.User.octocat
        impostor.id = 99
        let impostors = [impostor]
        try await GitHubEnvironment.with(.inProcess, users: impostors) { environment in
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(user: impostors[0], store: store).signIn()
            }
            #expect(error?.code == .accountMismatch)
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases) func returnsOnlyTheScopesThatTheUserGrants(
        _ setting: EmulatorEnvironment.Setting
    ) async throws {
        try await GitHubEnvironment.with(setting) { environment in
            environment.emulator.settings.refusedScopes = ["gist"]
            let settings = try environment.settings(scopes: ["user", "gist", "user:email"])
            let tokens = try await environment.client(registration: settings).signIn().credential.tokens
            #expect(tokens.scopes == ["user"])
            #expect(GitHubScopes.covers("user:email", granted: tokens.scopes))
            #expect(!GitHubScopes.covers("gist", granted: tokens.scopes))
        }
    }

    @Test func anAppThatRequestsNoScopesReceivesTheScopesThatTheSameUserHasGranted() async throws {
        try await GitHubEnvironment.with(.inProcess) { environment in
            _ = try await environment.client(registration: environment.settings(scopes: ["repo"])).signIn()
            for (user, scopes) in [(GitHubEmulator.User.octocat, ["repo"]), (.hubot, [])] {
                let client = try environment.client(registration: environment.settings(scopes: []), user: user)
                #expect(try await client.signIn().credential.tokens.scopes == scopes)
            }
        }
    }

    /// "Authorizing OAuth apps": an app that requests no scopes receives "the set of scopes the user has authorized for the application".
    @Test func anAppThatRequestsNoScopesReceivesTheScopesOfAllEarlierSignIns() async throws {
        try await GitHubEnvironment.with(.inProcess) { environment in
            let signIns: [(requested: [String], granted: [String])] = [
                (["user"], ["user"]), (["repo"], ["repo"]), ([], ["user", "repo"]),
            ]
            for (requested, granted) in signIns {
                let client = try environment.client(registration: environment.settings(scopes: requested))
                #expect(try await client.signIn().credential.tokens.scopes == granted)
            }
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases) func reportsThatTheUserDeniedAccess(
        _ setting: EmulatorEnvironment.Setting
    )
        async throws
    {
        try await GitHubEnvironment.with(setting) { environment in
            let error = await #expect(throws: AuthError.self) { try await environment.client(consent: .deny).signIn() }
            #expect(error?.code == .accessDenied)
            #expect(error?.providerError?.errorDescription == "The user has denied your application access.")
        }
    }

    @Test func rejectsARedirectToAURIDifferentFromTheRequestedRedirectURI() async throws {
        let app = GitHubEmulator.App(callback: "http://127.0.0.1:8400/callback/other", matchesBelow: true)
        try await GitHubEnvironment.with(.inProcess, apps: [app]) { environment in
            // GitHub redirects to the registered callback URL, which differs from the requested redirect URI, so the
            // response is rejected.
            await expectError(.userAgentFailed) { try await environment.client().signIn() }
            #expect(environment.emulator.accessTokens.isEmpty)
        }
    }

    // MARK: Errors

    @Test(arguments: EmulatorEnvironment.Setting.allCases, GitHubEmulator.Format.allCases)
    func reportsTokenErrorsReturnedWithStatus200(
        _ setting: EmulatorEnvironment.Setting,
        _ format: GitHubEmulator.Format
    )
        async throws
    {
        try await GitHubEnvironment.with(setting) { environment in
            environment.emulator.settings.format = format
            let settings = try environment.settings(secret: "wrong")
            let client = try environment.client(registration: settings)
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
        try await GitHubEnvironment.with(.inProcess, users: users) { environment in
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.providerError?.error == "unverified_user_email")
        }
    }

    struct BadResponse: CustomTestStringConvertible {
        let name: String
        let fault: EmulatorFault
        let code: AuthError.Code
        var testDescription: String { name }
    }

    static let badResponses: [BadResponse] = [
        BadResponse(name: "a proxy's page", fault: .tokenResponse(.brokenGateway), code: .temporarilyUnavailable),
        BadResponse(name: "nothing", fault: .tokenResponse(.empty), code: .invalidResponse),
        BadResponse(name: "an HTML page with status 200", fault: .tokenResponse(.notJSON), code: .invalidResponse),
        BadResponse(
            name: "JSON labeled as a form",
            fault: .tokenResponse(.mediaType("application/x-www-form-urlencoded")),
            code: .invalidResponse
        ),
        BadResponse(
            name: "JSON labeled as XML",
            fault: .tokenResponse(.mediaType("application/xml")),
            code: .invalidResponse
        ),
        BadResponse(name: "too much", fault: .tokenResponse(.oversized), code: .invalidResponse),
        BadResponse(name: "unavailable", fault: .tokenResponse(.unavailable), code: .temporarilyUnavailable),
        BadResponse(name: "elsewhere", fault: .tokenResponse(.redirected), code: .invalidResponse),
        BadResponse(name: "no token_type", fault: .tokenResponse(.member("token_type", nil)), code: .invalidResponse),
        BadResponse(name: "token_type mac", fault: .tokenResponse(.unknownTokenType), code: .unsupported),
        BadResponse(name: "no access_token", fault: .tokenResponse(.missingAccessToken), code: .invalidResponse),
        BadResponse(
            name: "empty access_token",
            fault: .tokenResponse(.member("access_token", "")),
            code: .invalidResponse
        ),
        BadResponse(
            name: "numeric access_token",
            fault: .tokenResponse(.member("access_token", 5)),
            code: .invalidResponse
        ),
        BadResponse(
            name: "expires_in set to a word",
            fault: .tokenResponse(.member("expires_in", "soon")),
            code: .invalidResponse
        ),
        BadResponse(
            name: "expires_in set to NaN",
            fault: .tokenResponse(.member("expires_in", "nan")),
            code: .invalidResponse
        ),
        BadResponse(
            name: "negative expires_in",
            fault: .tokenResponse(.member("expires_in", -1)),
            code: .invalidResponse
        ),
        BadResponse(name: "user without id", fault: .userInfo(.member("id", nil)), code: .invalidUserInfo),
        BadResponse(
            name: "user whose id is a string",
            fault: .userInfo(.member("id", "583231")),
            code: .invalidUserInfo
        ),
        BadResponse(name: "HTML page instead of the user", fault: .userInfo(.notJSON), code: .invalidResponse),
        BadResponse(
            name: "gateway error instead of the user",
            fault: .userInfo(.brokenGateway),
            code: .temporarilyUnavailable
        ),
    ]

    @Test(arguments: badResponses, EmulatorEnvironment.Setting.allCases) func rejectsBadTokenAndUserResponses(
        _ test: BadResponse,
        _ setting: EmulatorEnvironment.Setting
    ) async throws {
        try await GitHubEnvironment.with(setting) { environment in
            environment.emulator.settings.fault = test.fault
            let client = try environment.client()
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == test.code, "\(String(describing: error))")
            #expect(error.map { "\($0)" }?.contains("gho_") == false)
            #expect(try await client.credential() == nil)
        }
    }

    struct Tolerated: CustomTestStringConvertible {
        let name: String
        let fault: EmulatorFault
        let lifetime: TimeInterval?
        var testDescription: String { name }
    }

    static let tolerated: [Tolerated] = [
        Tolerated(
            name: "expires_in as a string",
            fault: .tokenResponse(.member("expires_in", "28800")),
            lifetime: 28_800
        ),
        Tolerated(name: "null expires_in", fault: .tokenResponse(.member("expires_in", .null)), lifetime: nil),
        Tolerated(name: "unknown members", fault: .tokenResponse(.member("new", ["x": 1])), lifetime: nil),
        Tolerated(name: "no scope", fault: .tokenResponse(.missingScope), lifetime: nil),
        Tolerated(
            name: "scopes with spaces",
            fault: .tokenResponse(.member("scope", "user:email, gist")),
            lifetime: nil
        ),
        Tolerated(name: "JSON labeled as text", fault: .tokenResponse(.mediaType("text/plain")), lifetime: nil),
    ]

    @Test(arguments: tolerated) func toleratesUnusualTokenResponses(
        _ test: Tolerated
    ) async throws {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await GitHubEnvironment.with(.inProcess, now: { time.now }) { environment in
            environment.emulator.settings.fault = test.fault
            let tokens = try await environment.client(host: time.host).signIn().credential.tokens
            #expect(tokens.scopes == ["user:email", "gist"])
            #expect(tokens.expiresAt == test.lifetime.map { time.now + $0 })
        }
    }

    static let badXML = [
        "", "<OAuth>", "<html><body/></html>", "<OAuth><a><b>1</b></a></OAuth>", "<OAuth><a>1</a><a>2</a></OAuth>",
        "<!DOCTYPE x [<!ENTITY y \"z\">]><OAuth><access_token>&y;</access_token></OAuth>", "<OAuth/><OAuth/>",
    ]

    /// An element name that is not valid UTF-8, which crashes Foundation's parser, and a wrong encoding declaration.
    private static let badBytes: [[UInt8]] = [
        Array("<O".utf8) + [0xEC] + Array("Auth><access_token>x</access_token></OAuth>".utf8),
        Array(#"<?xml version="1.0" encoding="UTF-16"?><OAuth><access_token>x</access_token></OAuth>"#.utf8),
    ]

    @Test(arguments: badXML.map { Array($0.utf8) } + badBytes) func rejectsXMLThatIsNotATokenResponse(
        _ body: [UInt8]
    ) async throws {
        try await GitHubEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.fault = .tokenResponse(
                .response {
                    $0.head.headerFields[.contentType] = "application/xml"
                    $0.body = body
                }
            )
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.code == .invalidResponse)
        }
    }

    // MARK: Limits

    @Test(arguments: EmulatorEnvironment.Setting.allCases) func reportsTheRetryDelayOfARateLimit(
        _ setting: EmulatorEnvironment.Setting
    )
        async throws
    {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await GitHubEnvironment.with(setting, now: { time.now }) { environment in
            environment.emulator.settings.remainingCalls = 0
            let error = await #expect(throws: AuthError.self) { try await environment.client(host: time.host).signIn() }
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
    ) func distinguishesARateLimitFromAForbiddenRequest(
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
