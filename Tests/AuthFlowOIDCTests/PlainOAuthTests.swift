import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// OAuth 2.0 without OpenID Connect: no `openid` scope, no ID Token, and a user who may be unknown.
@Suite struct PlainOAuthTests {
    private static func registration() throws -> ClientRegistration.Values {
        var values = try EmulatorEnvironment.registration()
        values.scopes = ["repo", "offline_access"]
        return values
    }

    @Test func theErrorNamesTheMissingClientSecretSetting() async throws {
        let confidential = OIDCEmulator.Client(
            id: "authflow-demo",
            secret: "the secret",
            authenticationMethod: "client_secret_basic",
            redirectURIs: OIDCEmulator.Client.demo.redirectURIs
        )
        try await EmulatorEnvironment.with(.inProcess, clients: [confidential]) { environment in
            environment.emulator.fault = .metadata(
                .member("token_endpoint_auth_methods_supported", ["client_secret_basic"])
            )
            let client = try environment.client(registration: Self.registration())
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.message.contains("\"client_secret\"") == true, "\(error as Any)")
        }
    }

    @Test func aRefreshThatReturnsAnotherUsersTokensEndsTheSession() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let adapter = OIDCProvider(issuer: environment.emulator.issuer, identitySource: .userInfo)
            let client = try environment.client(registration: Self.registration(), adapter: adapter)
            _ = try await client.signIn()
            let bob = try environment.client(registration: Self.registration(), adapter: adapter, user: .bob)
            let stolen = try await bob.signIn().credential.tokens.accessToken.exposed
            environment.emulator.fault = .tokenResponse(.member("access_token", .string(stolen)))
            let error = await #expect(throws: AuthError.self) { try await client.refresh() }
            #expect(error?.code == .loginRequired)
            #expect((error?.underlyingError as? AuthError)?.code == .invalidUserInfo)
            #expect(try await client.credential() == nil)
        }
    }

    /// A process that is killed while the provider identifies the user loses no refresh token.
    @Test func aRotatedRefreshTokenIsStoredBeforeTheUserIsIdentified() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let adapter = OIDCProvider(issuer: environment.emulator.issuer, identitySource: .userInfo)
            let store = MemoryTokenStore()
            let other = try environment.client(registration: Self.registration(), adapter: adapter, store: store)
            let first = try await other.signIn().credential.tokens
            let observer = UserInfoObserver(base: environment.transport) { try await other.credential()?.tokens }
            let client = try environment.client(
                registration: Self.registration(),
                adapter: adapter,
                store: store,
                transport: observer
            )
            let refreshed = try await client.refresh().tokens
            let stored = try #require(observer.stored.withLock { $0 })
            #expect(refreshed.refreshToken != first.refreshToken && refreshed.accessToken != first.accessToken)
            // The access token is not used until its user is known.
            #expect(stored.refreshToken == refreshed.refreshToken && stored.accessToken == first.accessToken)
            #expect(try await other.credential()?.tokens == refreshed)
        }
    }

    /// Reads the stored tokens when a userinfo request is sent.
    private final class UserInfoObserver: HTTPTransport {
        private let base: any HTTPTransport
        private let read: @Sendable () async throws -> TokenSet?
        let stored = Mutex<TokenSet?>(nil)

        init(base: any HTTPTransport, read: @escaping @Sendable () async throws -> TokenSet?) {
            (self.base, self.read) = (base, read)
        }

        func send(_ call: TransportRequest) async throws -> TransportResponse {
            if call.head.path == "/userinfo" {
                let tokens = try await read()
                stored.withLock { $0 = tokens }
            }
            return try await base.send(call)
        }
    }

    private static let userInfoFaults: [(String, EmulatorFault)] = [
        ("unavailable", .userInfo(.unavailable)),
        ("rejects the token", .userInfo(.response { $0.head.status = .unauthorized })),
        ("forbidden", .userInfo(.response { $0.head.status = .forbidden })),
        ("over its quota", .userInfo(.response { $0.head.status = .tooManyRequests })),
        // Slack sends every error with status 200.
        ("unavailable, with status 200", .userInfo(.response { $0.body = Array(#"{"error": "fatal_error"}"#.utf8) })),
        (
            "rejects the token, with status 200",
            .userInfo(.response { $0.body = Array(#"{"ok": false, "error": "token_revoked"}"#.utf8) })
        ),
        (
            "requires a scope, with status 200",
            .userInfo(.response { $0.body = Array(#"{"ok": false, "error": "missing_scope"}"#.utf8) })
        ),
    ]

    /// The refresh token belongs to the user's grant, and the provider may have invalidated the old tokens.
    @Test(arguments: userInfoFaults) func refreshedTokensAreUsedEvenIfTheUserCannotBeDetermined(
        _ name: String,
        _ fault: EmulatorFault
    ) async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let adapter = OIDCProvider(issuer: environment.emulator.issuer, identitySource: .userInfo)
            let client = try environment.client(registration: Self.registration(), adapter: adapter)
            let first = try await client.signIn().credential
            environment.emulator.fault = fault
            let refreshed = try await client.refresh()
            #expect(refreshed.tokens.accessToken != first.tokens.accessToken, "\(name)")
            #expect(refreshed.tokens.refreshToken != first.tokens.refreshToken && refreshed.identity == first.identity)
            #expect(try await client.credential()?.tokens == refreshed.tokens)
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases) func signsInAUserWithAnUnknownIdentity(
        _ setting: EmulatorEnvironment.Setting
    ) async throws {
        try await EmulatorEnvironment.with(setting) { environment in
            let store = MemoryTokenStore()
            let client = try environment.client(registration: Self.registration(), store: store)
            let signIn = try await client.signIn()
            #expect(signIn.identity == nil && signIn.storageError == nil)
            #expect("\(signIn)" == "Signed in as an unknown user with the scopes repo offline_access")
            let again = try environment.client(registration: Self.registration(), store: store)
            #expect(try await again.credential()?.tokens == signIn.credential.tokens)
            #expect(try await again.refresh().tokens.accessToken != signIn.credential.tokens.accessToken)
            #expect(try await again.accounts().isEmpty)
            // Two unknown users cannot be distinguished, so neither replaces the other.
            let before = environment.emulator.requests.count
            for policy in [AccountPolicy.sameAccount, .addAccount] {
                let error = await #expect(throws: AuthError.self) { try await again.signIn(policy) }
                #expect(error?.code == .accountMismatch)
            }
            // The sign-in is rejected before the user is prompted, because its tokens would be lost.
            #expect(environment.emulator.requests.count == before)
            _ = try await again.signIn(.replaceAccount)
            guard case .done = try await again.signOut().revocation else {
                Issue.record("The tokens were not revoked.")
                return
            }
            #expect(try await again.credential() == nil)
        }
    }

    @Test func anUnknownUserCanSignInAgainAfterTheSessionHasEnded() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let client = try environment.client(registration: Self.registration())
            _ = try await client.signIn()
            environment.emulator.endSessions()
            await expectError(.loginRequired) { try await client.refresh() }
            #expect(try await client.signIn().identity == nil)
        }
    }

    /// The user may be the same one.
    @Test func anUnknownUserDoesNotReplaceAKnownUser() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            let adapter = OIDCProvider(issuer: environment.emulator.issuer, identitySource: .userInfo)
            let known = try environment.client(registration: Self.registration(), adapter: adapter, store: store)
            let alice = try await known.signIn()
            let unknown = try environment.client(registration: Self.registration(), store: store)
            await expectError(.accountMismatch) { try await unknown.signIn() }
            #expect(try await known.credential()?.identity == alice.identity)
        }
    }

    /// Contrary to its declaration, the adapter does not identify users.
    @Test func aSecondSignInOfAnUnexpectedlyUnknownUserIsRejected() async throws {
        struct NamelessProvider: ProviderAdapter, UserInfoProviding {
            let base: OIDCProvider
            var issuer: String { base.issuer }
            func metadata(in context: ServerContext) async throws -> ProviderMetadata {
                try await base.metadata(in: context)
            }
            func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity? { nil }
            func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON { [:] }
        }
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let adapter = NamelessProvider(base: OIDCProvider(issuer: environment.emulator.issuer))
            let client = try environment.client(registration: Self.registration(), adapter: adapter)
            let first = try await client.signIn().credential
            await expectError(.accountMismatch) { try await client.signIn() }
            #expect(try await client.credential()?.tokens == first.tokens)
        }
    }

    @Test func signsInAnUnknownUserWithTheDeviceFlow() async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            let client = try environment.client(
                registration: Self.registration(),
                devicePresenter: DecidingPresenter { emulator.decide($0.userCode, as: .alice) },
                flows: [.device],
                host: time.host
            )
            #expect(try await client.signIn().identity == nil)
            #expect(try await client.freshTokens().scopes == ["repo", "offline_access"])
        }
    }

    @Test func obtainsTheIdentityFromUserInfo() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let adapter = OIDCProvider(issuer: environment.emulator.issuer, identitySource: .userInfo)
            let client = try environment.client(registration: Self.registration(), adapter: adapter)
            #expect(try await client.signIn().identity?.subject == "248289761001")
            #expect(try await client.userInfo()["sub"] == "248289761001")
            // Another user has a different subject.
            let bob = try environment.client(registration: Self.registration(), adapter: adapter, user: .bob)
            #expect(try await bob.signIn().identity?.subject != "248289761001")
        }
    }

    @Test func obtainsTheSubjectFromACustomUserInfoClaim() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .userInfo(.members { $0 = ["id": 42, "username": "alice"] })
            let issuer = environment.emulator.issuer
            let adapter = OIDCProvider(issuer: issuer, identitySource: .userInfo, subjectClaim: "id")
            let signIn = try await environment.client(registration: Self.registration(), adapter: adapter).signIn()
            #expect(signIn.identity?.subject == "42")
            let other = OIDCProvider(issuer: issuer, identitySource: .userInfo)
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(registration: Self.registration(), adapter: other).signIn()
            }
            #expect(error?.code == .invalidUserInfo)
        }
    }

    @Test(arguments: [JSON.string(""), .null, .bool(true), .double(4.5)])
    func doesNotIdentifyAUserByAClaimWithoutAnIdentifier(_ value: JSON) async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .userInfo(.members { $0 = ["id": value, "username": "alice"] })
            let adapter = OIDCProvider(
                issuer: environment.emulator.issuer,
                identitySource: .userInfo,
                subjectClaim: "id"
            )
            let client = try environment.client(registration: Self.registration(), adapter: adapter)
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .invalidUserInfo)
            #expect(error?.message.contains("do not contain \"id\"") == true)
            #expect(try await client.credential() == nil)
        }
    }

    /// X and Naver nest the user's claims in a member of the response.
    @Test func obtainsTheSubjectFromANestedUserInfoClaim() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .userInfo(.members { $0 = ["data": ["id": "42", "ids": ["a/b", "c"]]] })
            for (pointer, subject) in [
                ("/data/id", "42"), ("/data/ids/1", "c"), ("/data/none", nil), ("/data/ids/2", nil),
            ] {
                let adapter = OIDCProvider(
                    issuer: environment.emulator.issuer,
                    identitySource: .userInfo,
                    subjectClaim: pointer
                )
                let client = try environment.client(registration: Self.registration(), adapter: adapter)
                let found = try? await client.signIn().identity?.subject
                #expect(found == subject, "\(pointer)")
            }
        }
    }

    @Test func obtainsTheIdentityFromIntrospection() async throws {
        let client = OIDCEmulator.Client(id: "c", secret: "s", authenticationMethod: "client_secret_basic")
        try await EmulatorEnvironment.with(.inProcess, clients: [client]) { environment in
            var values = try Self.registration()
            values.clientID = "c"
            values.authentication = .clientSecretBasic(Secret("s"))
            let adapter = OIDCProvider(issuer: environment.emulator.issuer, identitySource: .introspection)
            let signIn = try await environment.client(registration: values, adapter: adapter).signIn()
            #expect(signIn.identity?.subject == "248289761001")
        }
    }

    /// A provider that issues JWT access tokens.
    private struct JWTProvider {
        let keys: EmulatorKeys
        let issuer = "https://id.example.com"

        func transport(_ claims: [String: JSON], type: String = "at+jwt", signedBy signer: EmulatorKeys? = nil) throws
            -> InProcessTransport
        {
            let header: JSON = [
                "alg": "ES256", "typ": .string(type), "kid": .string(keys.keyID(for: .es256)),
            ]
            let token = try (signer ?? keys).sign(.object(claims), header: header, with: .es256)
            let (jwks, issuer) = (try keys.jwks(), issuer)
            return InProcessTransport(origin: issuer) { request, _ in
                let body: JSON =
                    switch request.path {
                    case "/jwks": jwks
                    case "/token": ["access_token": .string(token), "token_type": "Bearer", "expires_in": 60]
                    default:
                        [
                            "issuer": .string(issuer), "jwks_uri": .string("\(issuer)/jwks"),
                            "authorization_endpoint": .string("\(issuer)/authorize"),
                            "token_endpoint": .string("\(issuer)/token"),
                        ]
                    }
                return TransportResponse(
                    head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                    body: try body.serialized()
                )
            }
        }

        func client(_ transport: any HTTPTransport) throws -> OAuthClient {
            let server = AuthorizationServer(
                OIDCProvider(issuer: issuer, identitySource: .accessToken),
                transport: transport
            )
            var values = try PlainOAuthTests.registration()
            values.scopes = ["repo"]
            return OAuthClient(server: server, registration: try ClientRegistration(values))
        }

        func credential(_ transport: InProcessTransport) async throws -> Credential {
            let client = try client(transport)
            let request = try await client.authorizationRequest()
            let state = FormURLEncoding.decode(request.url.drop { $0 != "?" }.dropFirst())?["state"] ?? ""
            let callback = "\(request.redirectURI)?code=c&state=\(state)"
            return try await client.exchange(callback, for: request)
        }

        func subject(_ transport: InProcessTransport) async throws -> String? {
            try await credential(transport).identity?.subject
        }
    }

    /// Such a token may belong to another user.
    @Test func aRefreshRejectsAnAccessTokenThatFailsACheck() async throws {
        let provider = JWTProvider(keys: try EmulatorKeys())
        let now = Int64(Date().timeIntervalSince1970)
        let good: [String: JSON] = [
            "iss": .string(provider.issuer), "sub": "alice", "aud": "https://api.example.com",
            "exp": .integer(now + 60),
        ]
        var credential = try await provider.credential(try provider.transport(good))
        credential.tokens.refreshToken = Secret("refresh")
        let refreshed = try await provider.client(provider.transport(good)).refresh(credential).get()
        #expect(refreshed.identity?.subject == "alice")
        for transport in [
            try provider.transport(good, signedBy: EmulatorKeys()),
            try provider.transport(good.merging(["iss": "https://evil.example.com"]) { $1 }),
            try provider.transport(good.merging(["sub": "bob"]) { $1 }),
            try provider.transport(good.merging(["exp": .integer(now - 600)]) { $1 }),
        ] {
            let client = try provider.client(transport)
            await expectError(.invalidUserInfo) { try await client.refresh(credential).get() }
        }
    }

    private struct WithoutKeys: HTTPTransport {
        let base: any HTTPTransport
        let status: HTTPResponse.Status

        func send(_ call: TransportRequest) async throws -> TransportResponse {
            guard call.url.hasSuffix("/jwks") else { return try await base.send(call) }
            return TransportResponse(head: HTTPResponse(status: status))
        }
    }

    /// An access token that cannot be verified may belong to another user.
    @Test(arguments: [HTTPResponse.Status.serviceUnavailable, .notFound, .tooManyRequests, .ok])
    func aRefreshDoesNotUseAnAccessTokenThatCannotBeVerified(_ status: HTTPResponse.Status) async throws {
        let provider = JWTProvider(keys: try EmulatorKeys())
        let claims: [String: JSON] = [
            "iss": .string(provider.issuer), "sub": "alice", "exp": .integer(Int64(Date().timeIntervalSince1970) + 60),
        ]
        var credential = try await provider.credential(try provider.transport(claims))
        credential.tokens.refreshToken = Secret("refresh")
        let other = try provider.transport(claims.merging(["sub": "bob"]) { $1 })
        let client = try provider.client(WithoutKeys(base: other, status: status))
        await expectError(.temporarilyUnavailable) { try await client.refresh(credential).get() }
    }

    @Test func obtainsTheIdentityOnlyFromAValidJWTAccessToken() async throws {
        let provider = JWTProvider(keys: try EmulatorKeys())
        let now = Int64(Date().timeIntervalSince1970)
        let good: [String: JSON] = [
            "iss": .string(provider.issuer), "sub": "alice", "aud": "https://api.example.com",
            "exp": .integer(now + 60),
        ]
        #expect(try await provider.subject(try provider.transport(good)) == "alice")
        let wrong: [[String: JSON]] = [
            good.merging(["iss": "https://evil.example.com"]) { $1 }, good.merging(["exp": .integer(now - 600)]) { $1 },
            good.merging(["nbf": .integer(now + 600)]) { $1 }, good.filter { $0.key != "sub" },
        ]
        for claims in wrong {
            let error = await #expect(throws: AuthError.self) {
                try await provider.subject(try provider.transport(claims))
            }
            #expect(error?.code == .invalidUserInfo, "\(claims)")
        }
        let forged = try provider.transport(good, signedBy: EmulatorKeys())
        await expectError(.invalidUserInfo) { try await provider.subject(forged) }
        let logout = try provider.transport(good, type: "logout+jwt")
        await expectError(.invalidUserInfo) { try await provider.subject(logout) }
    }
}
