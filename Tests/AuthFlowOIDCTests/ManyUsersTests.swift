import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// One client of one authorization server, for many users in one process.
@Suite struct ManyUsersTests {
    private let time = VirtualTime()

    private func users(_ count: Int) -> [OIDCEmulator.User] {
        (0..<count).map { .init(userName: "user\($0)", password: "", claims: ["sub": .string("subject-\($0)")]) }
    }

    private func registration() throws -> ClientRegistration {
        var values = try EmulatorScene.registration()
        values.scopes = ["openid", "offline_access"]
        return try ClientRegistration(values)
    }

    @Test func tenThousandUsersCostOneMetadataFetchOneKeyFetchAndOneRefreshEach() async throws {
        let count = 10_000
        let time = self.time
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", users: users(count), now: { time.now })
        emulator.accessTokenLifetime = 300
        let scene = EmulatorScene(emulator)
        let client = OAuthClient(server: scene.server(host: time.host), registration: try registration())
        let credentials = CredentialManager(client: client, store: MemoryTokenStore())
        try await forEach(count) { number in
            let request = try await client.authorizationRequest()
            let callback = try emulator.redirect(for: request.url, as: "user\(number)")
            let credential = try await client.exchange(callback, for: request)
            #expect(credential.identity?.subject == "subject-\(number)")
            try await credentials.save(credential, for: "session-\(number)")
        }
        #expect(emulator.requests.count { $0.contains("openid-configuration") } == 1)
        #expect(emulator.requests.count { $0 == "GET /jwks" } == 1)

        time.advance(by: .seconds(299))
        try await forEach(count) { number in
            async let first = credentials.freshTokens(for: "session-\(number)")
            async let second = credentials.freshTokens(for: "session-\(number)")
            let tokens = try await (first, second)
            #expect(tokens.0 == tokens.1)
        }
        let refreshes = emulator.receivedRequests.compactMap { $0.form["refresh_token"] }
        #expect(refreshes.count == count)
        #expect(Set(refreshes).count == count)
        #expect(emulator.requests.count { $0.contains("openid-configuration") } == 1)
        #expect(emulator.requests.count { $0 == "GET /jwks" } == 1)
    }

    /// Runs `body` for each number, a few at a time.
    private func forEach(_ count: Int, _ body: @escaping @Sendable (Int) async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<count {
                if number >= 16 { try await group.next() }
                group.addTask { try await body(number) }
            }
            try await group.waitForAll()
        }
    }

    /// Holds the refresh of one user until it is told to go on.
    private struct HoldingTransport: HTTPTransport {
        let base: any HTTPTransport
        let held: @Sendable (String) async -> Void
        func send(_ request: TransportRequest) async throws -> TransportResponse {
            await held(FormURLEncoding.decode(String(decoding: request.body, as: UTF8.self))?["refresh_token"] ?? "")
            return try await base.send(request)
        }
    }

    @Test func aSlowRefreshOfOneUserHoldsUpNoOther() async throws {
        let time = self.time
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", users: users(2), now: { time.now })
        let (gate, open) = AsyncStream<Void>.makeStream()
        let slow = Mutex("")
        let transport = HoldingTransport(base: InProcessTransport(emulator)) { token in
            guard !token.isEmpty, token == slow.withLock({ $0 }) else { return }
            for await _ in gate {}
        }
        let server = EmulatorScene(emulator).server(transport: transport, host: time.host)
        let client = OAuthClient(server: server, registration: try registration())
        let credentials = CredentialManager(client: client, store: MemoryTokenStore())
        for number in 0..<2 {
            let request = try await client.authorizationRequest()
            let callback = try emulator.redirect(for: request.url, as: "user\(number)")
            try await credentials.save(try await client.exchange(callback, for: request), for: "\(number)")
        }
        let waiting = try #require(try await credentials.credential(for: CredentialKey("0"))?.tokens.refreshToken)
        slow.withLock { $0 = waiting.exposed }
        time.advance(by: .seconds(3600))
        async let first = credentials.freshTokens(for: "0")
        let second = try await credentials.freshTokens(for: "1")
        #expect(second.expiresAt ?? .distantPast > time.now)
        open.finish()
        #expect(try await first.expiresAt ?? .distantPast > time.now)
    }

    @Test func keepsOnlySoManyCredentialsInMemory() async throws {
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", users: users(50))
        let scene = EmulatorScene(emulator)
        let client = OAuthClient(server: scene.server(), registration: try registration())
        let store = MemoryTokenStore()
        let credentials = CredentialManager(client: client, store: store, cacheLimit: 10)
        for number in 0..<50 {
            let request = try await client.authorizationRequest()
            let callback = try emulator.redirect(for: request.url, as: "user\(number)")
            try await credentials.save(try await client.exchange(callback, for: request), for: "\(number)")
        }
        for number in 0..<50 {
            #expect(
                try await credentials.credential(for: CredentialKey("\(number)"))?.identity?.subject
                    == "subject-\(number)"
            )
        }
    }

    @Test func aFailedDiscoveryIsNotRepeatedForEveryUser() async throws {
        let time = self.time
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", now: { time.now })
        emulator.fault = .metadata(.unavailable)
        let client = OAuthClient(
            server: EmulatorScene(emulator).server(host: time.host),
            registration: try registration()
        )
        for _ in 0..<100 {
            let error = await #expect(throws: AuthError.self) { try await client.authorizationRequest() }
            #expect(error?.code == .temporarilyUnavailable)
        }
        #expect(emulator.requests.count == 1)
        emulator.fault = nil
        time.advance(by: .seconds(1))
        _ = try await client.authorizationRequest()
        #expect(emulator.requests.count == 2)
    }

    @Test func oldMetadataIsUsedWhileItCannotBeFetchedAgain() async throws {
        let time = self.time
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", now: { time.now })
        let server = EmulatorScene(emulator).server(host: time.host)
        _ = try await server.metadata()
        emulator.fault = .metadata(.unavailable)
        time.advance(by: .seconds(7200))
        _ = try await server.metadata()
        #expect(emulator.requests.count == 2)
        time.advance(by: .seconds(86_400))
        await #expect(throws: AuthError.self) { try await server.metadata() }
    }

    // MARK: States

    @Test func tellsTheStatesOfACredential() async throws {
        let time = self.time
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", users: users(1), now: { time.now })
        let client = OAuthClient(
            server: EmulatorScene(emulator).server(host: time.host),
            registration: try registration()
        )
        let credentials = CredentialManager(client: client, store: MemoryTokenStore())
        var states = try await credentials.states(of: CredentialKey("s")).makeAsyncIterator()
        #expect(await states.next() == .signedOut)
        let request = try await client.authorizationRequest()
        let credential = try await client.exchange(try emulator.redirect(for: request.url, as: "user0"), for: request)
        try await credentials.save(credential, for: "s")
        #expect(await states.next() == .signedIn(credential.identity))
        time.advance(by: .seconds(3600))
        _ = try await credentials.freshTokens(for: "s")
        #expect(await states.next() == .refreshed)
        emulator.endSessions()
        time.advance(by: .seconds(3600))
        await #expect(throws: AuthError.self) { try await credentials.freshTokens(for: "s") }
        guard case .ended(let session) = await states.next() else {
            Issue.record("The end of the session is not published.")
            return
        }
        #expect(session.reason.contains("invalid_grant"))
        try await credentials.remove(CredentialKey("s"))
        #expect(await states.next() == .signedOut)
    }
}
