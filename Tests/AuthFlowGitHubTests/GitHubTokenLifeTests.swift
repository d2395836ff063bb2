import AuthFlow
import AuthFlowGitHub
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Testing

/// Refresh, revocation, and API calls made by the owner of an app.
@Suite struct GitHubTokenLifeTests {
    @Test(arguments: EmulatorEnvironment.Setting.allCases, [GitHubEmulator.App.Kind.expiringOAuthApp, .gitHubApp])
    func refreshesExpiringTokens(_ setting: EmulatorEnvironment.Setting, _ kind: GitHubEmulator.App.Kind) async throws {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await GitHubEnvironment.with(setting, apps: [.init(kind: kind)], now: { time.now }) { environment in
            let client = try environment.client(host: time.host)
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
            #expect(environment.emulator.accessTokens == [second.accessToken.exposed])
            let refresh = environment.emulator.receivedRequests.last
            #expect(refresh?.form["scope"] == nil)
        }
    }

    /// The emulator accepts scopes separated by spaces or commas.
    @Test(arguments: [["gist", "offline_access"], ["gist,offline_access"]], [SignInFlow.authorizationCode, .device])
    func requestsExpiringTokensWithTheOfflineAccessScope(_ scopes: [String], _ flow: SignInFlow) async throws {
        let time = VirtualTime()
        try await GitHubEnvironment.with(.inProcess, now: { time.now }) { environment in
            let settings = try environment.settings(scopes: scopes)
            let client = try environment.client(registration: settings, flows: [flow], host: time.host)
            let tokens = try await client.signIn().credential.tokens
            #expect(tokens.refreshToken != nil)
            #expect(tokens.scopes == ["gist"])
            _ = try await client.refresh()
        }
    }

    @Test(arguments: [200, 400]) func endsTheSessionWhenTheRefreshTokenIsBad(_ status: Int) async throws {
        let time = VirtualTime()
        try await GitHubEnvironment.with(.inProcess, apps: [.init(kind: .gitHubApp)], now: { time.now }) {
            environment in
            environment.emulator.settings.errorStatus = status
            let store = MemoryTokenStore()
            _ = try await environment.client(store: store, host: time.host).signIn()
            // Another client has refreshed with a copy of the credential, so the stored refresh token has already
            // been used.
            let copy = try await environment.client(store: store, host: time.host).credential()
            let thief = MemoryTokenStore()
            let key = RecordKey(name: "default", issuer: environment.issuer, clientID: "Iv23demo")
            try await thief.set(await store.bytes(for: key), for: key)
            _ = try await environment.client(store: thief, host: time.host).refresh()
            time.advance(by: .seconds(28_800))
            let client = try environment.client(store: store, host: time.host)
            let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(error?.code == .loginRequired)
            #expect(error?.providerError?.error == "bad_refresh_token")
            let requests = environment.emulator.requests.count
            await expectError(.loginRequired) { try await client.freshTokens() }
            #expect(environment.emulator.requests.count == requests)
            #expect(copy != nil)
        }
    }

    @Test func worksWhenGitHubRevokesTheOldestOfElevenTokens() async throws {
        try await GitHubEnvironment.with(.inProcess) { environment in
            let client = try environment.client()
            let first = try await client.signIn().credential.tokens
            for _ in 0..<10 { _ = try await client.signIn() }
            #expect(environment.emulator.accessTokens.count == 10)
            #expect(!environment.emulator.accessTokens.contains(first.accessToken.exposed))
            #expect(try await client.userInfo()["login"] == "octocat")
        }
    }

    @Test func reportsThatARevokedTokenIsRejected() async throws {
        try await GitHubEnvironment.with(.inProcess) { environment in
            let client = try environment.client()
            let credential = try await client.signIn().credential
            try await environment.provider().revoke(credential, in: client.providerContext)
            let error = await #expect(throws: AuthError.self) { try await client.userInfo() }
            #expect(error?.code == .accessTokenRejected)
        }
    }

    // MARK: API calls by the app's owner

    @Test(arguments: EmulatorEnvironment.Setting.allCases) func checksAndResetsTokens(
        _ setting: EmulatorEnvironment.Setting
    )
        async throws
    {
        try await GitHubEnvironment.with(setting) { environment in
            let provider = try environment.provider()
            let client = try environment.client()
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
            await expectError(.providerRejected) { try await provider.resetToken(old, in: client.providerContext) }
        }
    }

    /// GitHub: after a refresh, "the old access token and refresh token will no longer work".
    @Test func aRefreshAfterAResetRevokesTheTokenFromTheReset() async throws {
        try await GitHubEnvironment.with(.inProcess, apps: [.init(kind: .gitHubApp)]) { environment in
            let provider = try environment.provider()
            let client = try environment.client()
            _ = try await client.signIn()
            _ = try await client.replaceTokens { try await provider.resetToken($0, in: $1) }
            let tokens = try await client.refresh().tokens
            #expect(environment.emulator.accessTokens == [tokens.accessToken.exposed])
        }
    }

    @Test(arguments: ["{}", #"{"token": null}"#, #"{"token": ""}"#])
    func rejectsATokenResetResponseWithoutAToken(_ body: String) async throws {
        let transport = InProcessTransport(origin: "https://api.github.com") { _, _ in
            TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                body: Array(body.utf8)
            )
        }
        let provider = GitHubProvider()
        let client = OAuthClient(
            server: AuthorizationServer(provider, transport: transport),
            registration: try ClientRegistration(clientID: "c") {
                $0.authentication = .clientSecretPost(Secret("s"))
                $0.scopes = []
            }
        )
        let error = await #expect(throws: AuthError.self) {
            try await provider.resetToken(TokenSet(accessToken: Secret("t")), in: client.providerContext)
        }
        #expect(error?.code == .invalidResponse)
        #expect(error?.message.contains("contains no token") == true)
    }

    @Test func sendsATokenOnlyToTheHostThatIssuedIt() async throws {
        try await GitHubEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            _ = try await environment.client(store: store).signIn()
            let elsewhere = GitHubProvider(host: try GitHubHost("git.example.com"))
            let client = try environment.client(adapter: elsewhere, store: store)
            let error = await #expect(throws: AuthError.self) {
                try await client.replaceTokens { tokens, _ in
                    Issue.record("The token was passed to the closure.")
                    return tokens
                }
            }
            #expect(error?.code == .loginRequired)
            await expectError(.loginRequired) { try await client.userInfo() }
        }
    }

    @Test(arguments: GitHubProvider.SignOut.allCases, EmulatorEnvironment.Setting.allCases)
    func revokesTheTokenOrTheGrantAsConfigured(_ what: GitHubProvider.SignOut, _ setting: EmulatorEnvironment.Setting)
        async throws
    {
        try await GitHubEnvironment.with(setting) { environment in
            let elsewhere = try environment.client(adapter: environment.provider(signOut: what))
            _ = try await elsewhere.signIn()
            let client = try environment.client(adapter: environment.provider(signOut: what))
            _ = try await client.signIn()
            let signOut = try await client.signOut(endingSession: true)
            guard case .done = signOut.revocation else {
                Issue.record("\(signOut.revocation)")
                return
            }
            #expect(environment.emulator.accessTokens.count == (what == .grant ? 0 : 1))
            #expect(try await client.credential() == nil)
            guard case .unsupported(let advice) = signOut.endSession else {
                Issue.record("GitHub has no sign-out page.")
                return
            }
            #expect(advice.contains("select_account"))
        }
    }

    /// The tokens of GitHub's OAuth apps do not expire. The user's other session has a token of the same grant.
    @Test(arguments: GitHubProvider.SignOut.allCases)
    func revokesOnlyTheTokenOfARejectedSignIn(_ what: GitHubProvider.SignOut) async throws {
        try await GitHubEnvironment.with(.inProcess) { environment in
            _ = try await environment.client(user: .hubot).signIn()
            let store = MemoryTokenStore()
            _ = try await environment.client(store: store).signIn()
            let other = try environment.client(adapter: environment.provider(signOut: what), user: .hubot, store: store)
            await expectError(.accountMismatch) { try await other.signIn() }
            #expect(environment.emulator.accessTokens.count == 2)
        }
    }

    /// GitHub responds with 404 both to unknown tokens and to wrong client credentials.
    @Test(arguments: GitHubProvider.SignOut.allCases)
    func reportsAFailedRevocationIfTheClientSecretIsWrong(_ what: GitHubProvider.SignOut) async throws {
        try await GitHubEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            _ = try await environment.client(store: store).signIn()
            let settings = try environment.settings(secret: "an earlier secret")
            let client = try environment.client(
                registration: settings,
                adapter: environment.provider(signOut: what),
                store: store
            )
            guard case .failed(let error) = try await client.signOut().revocation else {
                Issue.record("The token is still valid.")
                return
            }
            #expect(error.code == .providerRejected)
            #expect(environment.emulator.accessTokens.count == 1)
        }
    }

    @Test func aTokenThatTheUserHasRevokedNeedsNoRevocation() async throws {
        try await GitHubEnvironment.with(.inProcess) { environment in
            let client = try environment.client()
            let credential = try await client.signIn().credential
            try await environment.provider().revoke(credential, in: client.providerContext)
            #expect(try await client.signOut().revocation == .done)
        }
    }

    /// GitHub documents status 422 for DELETE: "Validation failed, or the endpoint has been spammed."
    @Test(arguments: [true, false])
    func aTokenThatFailsValidationIsRevokedOnlyIfTheAPIRejectsIt(_ isRevoked: Bool) async throws {
        struct Validating: HTTPTransport {
            let base: any HTTPTransport
            let isRevoked: Bool
            func send(_ call: TransportRequest) async throws -> TransportResponse {
                guard call.head.method == .delete else { return try await base.send(call) }
                // The token becomes invalid, but the first response is lost.
                if isRevoked { _ = try await base.send(call) }
                return TransportResponse(
                    head: HTTPResponse(status: .unprocessableContent),
                    body: Array(#"{"message": "Validation Failed"}"#.utf8)
                )
            }
        }
        try await GitHubEnvironment.with(.inProcess) { environment in
            let transport = Validating(base: environment.transport, isRevoked: isRevoked)
            let client = try GitHubEnvironment(emulator: environment.emulator, transport: transport).client()
            _ = try await client.signIn()
            let revocation = try await client.signOut().revocation
            guard !isRevoked else { return #expect(revocation == .done) }
            guard case .failed(let error) = revocation else {
                Issue.record("The token is still valid.")
                return
            }
            #expect(error.code == .providerRejected && error.status == 422)
        }
    }

    /// A client whose sign-out revokes the grant, and whose access token has expired.
    private func withExpiredToken(_ body: @Sendable (GitHubEnvironment, AuthClient) async throws -> Void) async throws {
        let time = VirtualTime()
        try await GitHubEnvironment.with(.inProcess, apps: [.init(kind: .gitHubApp)], now: { time.now }) {
            environment in
            let client = try environment.client(adapter: environment.provider(signOut: .grant), host: time.host)
            _ = try await client.signIn()
            time.advance(by: .seconds(30_000))
            try await body(environment, client)
        }
    }

    @Test func revokesTheGrantOfAnExpiredToken() async throws {
        try await withExpiredToken { environment, client in
            let signOut = try await client.signOut()
            #expect(signOut.revocation == .done)
            #expect(environment.emulator.accessTokens.isEmpty)
            #expect(environment.emulator.requests.last?.contains("DELETE") == true)
            #expect(environment.emulator.requests.last?.hasSuffix("/grant") == true)
        }
    }

    @Test func reportsThatAnExpiredTokenWasNotRefreshedToRevokeItsGrant() async throws {
        let time = VirtualTime()
        try await GitHubEnvironment.with(.inProcess, apps: [.init(kind: .gitHubApp)], now: { time.now }) {
            environment in
            let store = MemoryTokenStore()
            _ = try await environment.client(store: store, host: time.host).signIn()
            time.advance(by: .seconds(30_000))
            let client = try environment.client(
                registration: environment.settings(secret: "an earlier secret"),
                adapter: environment.provider(signOut: .grant),
                store: store,
                host: time.host
            )
            guard case .failed(let error) = try await client.signOut().revocation else {
                Issue.record("The sign-out did not report that the grant is still valid.")
                return
            }
            #expect(error.code == .providerRejected)
            #expect(error.message.contains("did not refresh the token"))
            #expect(error.providerError?.error == "incorrect_client_credentials")
        }
    }

    @Test func sendsNoRevocationRequestWithoutATokenIfARefreshReturnsNone() async throws {
        try await withExpiredToken { environment, client in
            environment.emulator.settings.fault = .tokenResponse(.missingAccessToken)
            guard case .unsupported(let advice) = try await client.signOut().revocation else {
                Issue.record("The sign-out did not report that the grant is still valid.")
                return
            }
            #expect(advice.contains("No valid token remains"))
            #expect(!environment.emulator.requests.contains { $0.hasSuffix("/grant") })
        }
    }

    /// A refresh would only replace the tokens, because the revocation of the new ones also requires the client secret.
    @Test(arguments: GitHubProvider.SignOut.allCases)
    func doesNotRefreshAnExpiredTokenToRevokeItWithoutAClientSecret(_ what: GitHubProvider.SignOut) async throws {
        let time = VirtualTime()
        try await GitHubEnvironment.with(.inProcess, apps: [.init(kind: .gitHubApp)], now: { time.now }) {
            environment in
            let client = try environment.client(
                registration: environment.settings(secret: nil),
                adapter: environment.provider(signOut: what),
                flows: [.device],
                host: time.host
            )
            _ = try await client.signIn()
            time.advance(by: .seconds(30_000))
            guard case .unsupported(let advice) = try await client.signOut().revocation else {
                Issue.record("The sign-out did not report that the refresh token remains valid.")
                return
            }
            #expect(advice.contains("requires the client secret"))
            #expect(environment.emulator.receivedRequests.allSatisfy { $0.form["grant_type"] != "refresh_token" })
        }
    }

    @Test(arguments: [Duration.zero, .seconds(30_000)])
    func signOutReportsThatTheRefreshTokenRemainsValid(_ age: Duration) async throws {
        let time = VirtualTime()
        try await GitHubEnvironment.with(.inProcess, apps: [.init(kind: .gitHubApp)], now: { time.now }) {
            environment in
            let client = try environment.client(host: time.host)
            _ = try await client.signIn()
            time.advance(by: age)
            guard case .unsupported(let advice) = try await client.signOut().revocation else {
                Issue.record("The sign-out did not report that the refresh token remains valid.")
                return
            }
            #expect(advice.contains("refresh token"))
            #expect(advice.contains("/settings/connections/applications/"))
        }
    }

    @Test func anExpiredTokenWithoutARefreshTokenNeedsNoRevocation() async throws {
        let time = VirtualTime()
        try await GitHubEnvironment.with(.inProcess, now: { time.now }) { environment in
            let settings = try environment.settings(secret: nil)
            let client = try environment.client(registration: settings, flows: [.device], host: time.host)
            var credential = try await client.signIn().credential
            credential.tokens.expiresAt = time.now - 1
            try await environment.provider().revoke(credential, in: client.providerContext)
        }
    }

    @Test func explainsHowToRevokeWithoutAClientSecret() async throws {
        let time = VirtualTime()
        try await GitHubEnvironment.with(.inProcess, now: { time.now }) { environment in
            let settings = try environment.settings(secret: nil)
            let client = try environment.client(registration: settings, flows: [.device], host: time.host)
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

    /// GitHub sends errors with status 200: in XML if `Accept` requests XML, and form-encoded if an intermediary drops `Accept`.
    @Test(arguments: ["application/x-www-form-urlencoded", "application/xml"])
    func anErrorContainsNoSecretOfTheRequest(_ type: String) async throws {
        struct Echo: HTTPTransport {
            let base: any HTTPTransport
            let type: String

            func send(_ call: TransportRequest) async throws -> TransportResponse {
                guard call.url.hasSuffix("/access_token") else { return try await base.send(call) }
                let echo = FormURLEncoding.decode(String(decoding: call.body, as: UTF8.self))?["client_secret"] ?? ""
                let first = echo.unicodeScalars.first.map { String($0.value, radix: 16) } ?? ""
                let text =
                    type == "application/xml"
                    ? "<OAuth><error>incorrect</error><error_description>bad &#x\(first);\(echo.dropFirst())</error_description></OAuth>"
                    : "error=incorrect&error_description=bad+\(FormURLEncoding.encode(echo))"
                return TransportResponse(
                    head: HTTPResponse(status: .ok, headerFields: [.contentType: type]),
                    body: Array(text.utf8)
                )
            }
        }
        try await GitHubEnvironment.with(.inProcess) { environment in
            let echo = Echo(base: environment.transport, type: type)
            let client = try GitHubEnvironment(emulator: environment.emulator, transport: echo).client()
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.providerError?.errorDescription == "bad <redacted>", "\(error as Any)")
        }
    }
}
