import AuthFlow
import AuthFlowForgeRock
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// The SSO cookie that a vendor's apps share.
@Suite struct SharedCookieTests {
    @Test(arguments: EmulatorEnvironment.Setting.allCases) func signsInTheSecondAppWithSharedCookiesAlone(
        _ setting: EmulatorEnvironment.Setting
    ) async throws {
        let time = VirtualTime(start: Date(timeIntervalSince1970: 1_800_000_000))
        try await ForgeRockEnvironment.with(setting, now: { time.now }) { environment in
            let store = MemoryTokenStore()
            func app(_ handlers: [any CallbackHandler]) throws -> AuthClient {
                try environment.client(
                    handlers: handlers,
                    acrValues: ["persistent-cookie"],
                    cookies: environment.cookies(store),
                    host: time.host
                )
            }
            _ = try await app([ForgeRockEnvironment.alice]).signIn()
            // Without callback handlers, the app cannot prompt the user.
            #expect(try await app([]).signIn().credential.identity?.displayName == "Alice Example")
            // After the cookie has expired, the user must be prompted again, which this app cannot do.
            time.advance(by: .seconds(3600))
            let error = await #expect(throws: AuthError.self) { try await app([]).signIn() }
            #expect(error?.code == .unknownCallback)
            _ = try await app([ForgeRockEnvironment.alice]).signIn()
            _ = try await app([]).signIn()
            // Removing the shared cookie signs out every app in the group.
            try await environment.cookies(store).remove()
            await expectError(AuthError.Code(rawValue: "unknown_callback")) { try await app([]).signIn() }
        }
    }

    @Test func sharesOnlyNamedPersistentCookies() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            let cookies = try environment.cookies(store, names: ["amlbcookie"])
            _ = try await environment.client(acrValues: ["persistent-cookie"], cookies: cookies).signIn()
            let key = RecordKey(name: "acme", issuer: environment.origin, clientID: "", kind: .shared)
            // The named cookie is a session cookie.
            #expect(await store.bytes(for: key) == nil)
        }
    }

    @Test func sharesSessionCookiesOnlyWhenTheAppAcceptsTheRisk() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            for atRisk in [false, true] {
                let store = MemoryTokenStore()
                let cookies = try environment.cookies(store, names: ["iPlanetDirectoryPro"], atRisk: atRisk)
                _ = try await environment.client(cookies: cookies).signIn()
                let second = try environment.client(handlers: [], cookies: cookies)
                if atRisk {
                    _ = try await second.signIn()
                    // The provider has ended the session, so the tree runs again.
                    environment.emulator.endSessions()
                    _ = try await environment.client(cookies: cookies).signIn()
                } else {
                    await expectError(AuthError.Code(rawValue: "unknown_callback")) { try await second.signIn() }
                }
            }
        }
    }

    /// The provider would continue Alice's session without a prompt, and the app would receive her tokens.
    @Test func theCookiesOfAnotherUserAreNotUsed() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            func app(_ user: String?, _ handlers: [any CallbackHandler] = []) throws -> AuthClient {
                let cookies = try environment.cookies(store, names: ["iPlanetDirectoryPro"], atRisk: true, user: user)
                return try environment.client(handlers: handlers, cookies: cookies)
            }
            _ = try await app("alice", [ForgeRockEnvironment.alice]).signIn()
            _ = try await app("alice").signIn()
            // Without a configured user, the cookies of any user are used.
            let anyone = try app(nil)
            _ = try await app("alice", [ForgeRockEnvironment.alice]).signIn()
            await expectError(AuthError.Code(rawValue: "unknown_callback")) { try await app("bob").signIn() }
            // Another user's sign-out leaves the cookies.
            try await environment.cookies(store, names: ["iPlanetDirectoryPro"], atRisk: true, user: "bob").remove()
            #expect(try await anyone.signIn().identity?.displayName == "Alice Example")
            // The owner of these cookies is unknown, so an app with a configured user uses and removes them only at sign-out.
            await expectError(AuthError.Code(rawValue: "unknown_callback")) { try await app("alice").signIn() }
            try await environment.cookies(store, names: ["iPlanetDirectoryPro"], atRisk: true, user: "alice").remove()
            await expectError(AuthError.Code(rawValue: "unknown_callback")) { try await app(nil).signIn() }
        }
    }

    @Test func sharesNoCookiesWithAnotherOrigin() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            _ = try await environment.client(acrValues: ["persistent-cookie"], cookies: environment.cookies(store))
                .signIn()
            // The same cookie names, but for a different origin.
            let elsewhere = SharedCookies(
                store: SharedCredentialStore(group: "acme", store: store),
                origin: Endpoint("https://elsewhere.example.com"),
                names: ["session-jwt"]
            )
            let client = try environment.client(handlers: [], acrValues: ["persistent-cookie"], cookies: elsewhere)
            await expectError(AuthError.Code(rawValue: "unknown_callback")) { try await client.signIn() }
        }
    }

    @Test func signOutAppliesToEveryAppInTheGroup() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            let cookies = try environment.cookies(store)
            let mail = try environment.client(acrValues: ["persistent-cookie"], cookies: cookies)
            _ = try await mail.signIn()
            let signOut = try await mail.signOut(endingSession: true)
            guard case .done = signOut.endSession else {
                Issue.record("\(signOut.endSession)")
                return
            }
            let calendar = try environment.client(handlers: [], acrValues: ["persistent-cookie"], cookies: cookies)
            await expectError(AuthError.Code(rawValue: "unknown_callback")) { try await calendar.signIn() }
        }
    }

    @Test(arguments: [AccountPolicy.sameAccount, .addAccount, .replaceAccount])
    func promptsTheUserUnlessTheSameAccountIsRequested(_ policy: AccountPolicy) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let cookies = try environment.cookies(MemoryTokenStore())
            _ = try await environment.client(acrValues: ["persistent-cookie"], cookies: cookies).signIn()
            let client = try environment.client(handlers: [], acrValues: ["persistent-cookie"], cookies: cookies)
            if policy == .sameAccount {
                _ = try await client.signIn(policy)
            } else {
                await expectError(AuthError.Code(rawValue: "unknown_callback")) { try await client.signIn(policy) }
            }
        }
    }

    @Test func aSignInDoesNotShareCookiesRemovedByAConcurrentSignOut() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            let cookies = try environment.cookies(store)
            _ = try await environment.client(acrValues: ["persistent-cookie"], cookies: cookies).signIn()
            // Another app signs out after this app's sign-in has read the cookies.
            let transport = BeforeFirstRequest(base: environment.transport, to: "/authorize") {
                try await cookies.remove()
            }
            let client = try environment.client(
                handlers: [],
                acrValues: ["persistent-cookie"],
                cookies: cookies,
                transport: transport
            )
            _ = try await client.signIn()
            let key = RecordKey(name: "acme", issuer: environment.origin, clientID: "", kind: .shared)
            #expect(await store.bytes(for: key) == nil)
        }
    }

    @Test(arguments: ["/sessions", "/serverinfo/"])
    func signOutReportsThatTheTreeSessionMayRemainActive(_ path: String) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let cookies = try environment.cookies(MemoryTokenStore(), names: ["iPlanetDirectoryPro"], atRisk: true)
            let transport = UnavailablePath(base: environment.transport, path: path)
            let client = try environment.client(cookies: cookies, transport: transport)
            _ = try await client.signIn()
            transport.isUnavailable.store(true, ordering: .relaxed)
            guard case .failed(let error) = try await client.signOut(endingSession: true).endSession else {
                Issue.record("The tree's session was not ended.")
                return
            }
            #expect(error.message.contains("may remain active"))
            // The other apps no longer use the session, and the end session endpoint was visited.
            let other = try environment.client(handlers: [], cookies: cookies)
            await expectError(AuthError.Code(rawValue: "unknown_callback")) { try await other.signIn() }
            #expect(transport.paths.withLock { $0.contains { $0.contains("endSession") } })
        }
    }

    /// Origins whose cookies could be mistaken for cookies from `https://id.example.com`.
    static let neighbours = [
        "https://id.example.com:8443", "https://sub.id.example.com", "https://id.example.com.evil.example",
        "https://xid.example.com", "https://example.com", "http://127.0.0.1:1",
    ]

    @Test(arguments: neighbours) func sharedCookiesAreNeitherSentToNorOverwrittenByAnotherOrigin(_ neighbour: String)
        async throws
    {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            let cookies = try environment.cookies(store)
            _ = try await environment.client(acrValues: ["persistent-cookie"], cookies: cookies).signIn()
            // The provider now redirects the browser through the other origin, which tries to overwrite the shared
            // cookie with every possible `Domain` attribute.
            let received = Mutex<[String]>([])
            let transport = NeighbourTransport(base: environment.transport, neighbour: neighbour) { cookie in
                received.withLock { $0.append(cookie) }
            }
            let key = RecordKey(name: "acme", issuer: environment.origin, clientID: "", kind: .shared)
            let client = try environment.client(
                handlers: [],
                acrValues: ["persistent-cookie"],
                cookies: cookies,
                transport: transport
            )
            _ = try? await client.signIn()
            // A redirect from a public server to the loopback interface is not followed.
            #expect(received.withLock { $0 } == (neighbour.contains("127.0.0.1") ? [] : [""]))
            // The cookie set by the other origin was not shared.
            let after = await store.bytes(for: key)
            #expect(!String(decoding: after ?? [], as: UTF8.self).contains("tossed"))
        }
    }

    @Test func aSignOutRemovesSharedCookiesThatCannotBeDecrypted() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            func cookies(_ byte: UInt8) throws -> SharedCookies {
                let key = Secret(Base64URL.encode([UInt8](repeating: byte, count: 32)))
                let keys = try EncryptionKeys([("key \(byte)", key)])
                return try environment.cookies(EncryptedTokenStore(store, key: .keys(keys)))
            }
            _ = try await environment.client(acrValues: ["persistent-cookie"], cookies: try cookies(1)).signIn()
            let key = RecordKey(name: "acme", issuer: environment.origin, clientID: "", kind: .shared)
            #expect(await store.bytes(for: key) != nil)
            try await cookies(2).remove()
            #expect(await store.bytes(for: key) == nil)
        }
    }

    @Test func signsInWithoutSharedCookiesWhenTheirStoreIsDamaged() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            try await store.set(
                Array("not JSON".utf8),
                for: RecordKey(name: "acme", issuer: environment.origin, clientID: "", kind: .shared)
            )
            let events = Mutex<[String]>([])
            let client = try environment.client(cookies: environment.cookies(store)) { event in
                events.withLock { $0.append("\(event)") }
            }
            _ = try await client.signIn()
            #expect(events.withLock { $0.contains { $0.contains("damaged") } })
        }
    }
}

/// Responds to requests for a path with status 503, and with a body that must not be used.
private final class UnavailablePath: HTTPTransport {
    let isUnavailable = Atomic(false)
    let paths = Mutex<[String]>([])
    private let base: any HTTPTransport
    private let path: String

    init(base: any HTTPTransport, path: String) {
        self.base = base
        self.path = path
    }

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        paths.withLock { $0.append(call.head.path ?? "") }
        guard isUnavailable.load(ordering: .relaxed), call.url.contains(path) else { return try await base.send(call) }
        return TransportResponse(
            head: HTTPResponse(status: .serviceUnavailable, headerFields: [.contentType: "application/json"]),
            body: Array(#"{"cookieName": "iPlanetDirectoryPro"}"#.utf8)
        )
    }
}

/// Redirects the first authorization request through another origin and back.
private final class NeighbourTransport: HTTPTransport {
    private let base: any HTTPTransport
    private let neighbour: String
    private let onCookie: @Sendable (String) -> Void
    private let back = Mutex<String?>(nil)

    init(base: any HTTPTransport, neighbour: String, onCookie: @escaping @Sendable (String) -> Void) {
        self.base = base
        self.neighbour = neighbour
        self.onCookie = onCookie
    }

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        if try Endpoint(call.url).origin == neighbour {
            onCookie(call.head.headerFields[.cookie] ?? "")
            var response = TransportResponse(
                head: HTTPResponse(status: .found, headerFields: [.location: back.withLock { $0 } ?? ""])
            )
            for domain in ["", "; Domain=example.com", "; Domain=id.example.com"] {
                let field = "session-jwt=tossed; Path=/; Max-Age=9999\(domain)"
                response.head.headerFields.append(HTTPField(name: .setCookie, value: field))
            }
            return response
        }
        let isFirst = back.withLock { back in
            guard call.url.contains("/authorize?"), back == nil else { return false }
            back = call.url
            return true
        }
        guard isFirst else { return try await base.send(call) }
        return TransportResponse(head: HTTPResponse(status: .found, headerFields: [.location: "\(neighbour)/"]))
    }
}
