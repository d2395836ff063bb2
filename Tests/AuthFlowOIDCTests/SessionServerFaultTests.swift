import AuthFlow
import AuthFlowOIDC
import AuthFlowTesting
import ConformanceRows
import Expectations
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowServer

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A store that counts writes and can lose the responses to removals.
private final class WatchedStore: ForwardingSessionStore {
    enum Loss: CaseIterable, Sendable {
        /// The records are removed, but the caller receives an error.
        case failed
        /// The removal is retried, and the second attempt finds nothing.
        case repeated
        /// Half of the records are removed.
        case halfDone
    }

    let base = MemoryTokenStore()
    private let state = Mutex<(writes: Int, loss: Loss?, removed: [RecordKey])>((0, nil, []))

    private struct Meeting {
        var size = 0
        var rounds = 0
        var waiting: [AsyncStream<Void>.Continuation] = []
    }
    private let meeting = Mutex(Meeting())

    var writes: Int { state.withLock { $0.writes } }
    var removed: [RecordKey] { state.withLock { $0.removed } }
    func lose(_ loss: Loss?) { state.withLock { $0.loss = loss } }
    private func count() { state.withLock { $0.writes += 1 } }

    func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        count()
        try await base.write(bytes, under: lease)
    }
    func write(_ bytes: [UInt8], _ attributes: RecordAttributes, under lease: Lease) async throws {
        count()
        try await base.write(bytes, attributes, under: lease)
    }
    func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return {
        count()
        return try await base.withLease(on: key, body)
    }
    /// Whether the store rejects changes, as Redis does when its memory is full.
    let isReadOnly = Atomic(false)
    func touch(_ key: RecordKey) async throws -> Bool {
        if isReadOnly.load(ordering: .relaxed) { throw AuthError(.storageFailed, "The memory is full.") }
        return await base.touch(key)
    }
    /// Makes `size` concurrent record lookups wait for one another, both before and after reading.
    func meet(_ size: Int) { meeting.withLock { $0 = Meeting(size: size, rounds: 2) } }
    /// The number of lookups that wait for the others.
    var waiting: Int { meeting.withLock { $0.waiting.count } }
    func records(tagged tag: RecordTag) async throws -> [TaggedRecord] {
        await arrive()
        let found = await base.records(tagged: tag)
        await arrive()
        return found
    }
    private func arrive() async {
        let (arrivals, arrival) = AsyncStream<Void>.makeStream()
        let released = meeting.withLock { meeting -> [AsyncStream<Void>.Continuation] in
            guard meeting.rounds > 0 else { return [arrival] }
            meeting.waiting.append(arrival)
            guard meeting.waiting.count == meeting.size else { return [] }
            meeting.rounds -= 1
            defer { meeting.waiting = [] }
            return meeting.waiting
        }
        for one in released { one.finish() }
        for await _ in arrivals {}
    }
    func remove(_ keys: [RecordKey]) async throws -> [TaggedRecord] {
        count()
        state.withLock { $0.removed = keys }
        let failure = AuthError(.storageFailed, "The connection broke.")
        switch state.withLock({ $0.loss }) {
        case nil: return await base.remove(keys)
        case .failed:
            _ = await base.remove(keys)
            throw failure
        case .repeated:
            _ = await base.remove(keys)
            return await base.remove(keys)
        case .halfDone:
            _ = await base.remove(Array(keys.prefix(keys.count / 2)))
            throw failure
        }
    }
    func claim(_ key: RecordKey, for lifetime: Duration) async throws -> Bool {
        count()
        return await base.claim(key, for: lifetime)
    }
}

/// A store that can become unreadable.
private final class UnreadableStore: ForwardingSessionStore {
    let base = MemoryTokenStore()
    let isUnreadable = Atomic(false)

    func bytes(for key: RecordKey) async throws -> [UInt8]? {
        if isUnreadable.load(ordering: .relaxed) { throw AuthError(.storageFailed, "The database cannot be reached.") }
        return await base.bytes(for: key)
    }
}

/// A store whose first removal of expired records fails. The second one waits until it is cancelled.
private final class FailingSweepStore: ForwardingSessionStore {
    let base = MemoryTokenStore()
    let secondSweep = AsyncStream<Void>.makeStream()
    private let sweeps = Atomic(0)

    func removeEnded() async throws -> Int {
        guard sweeps.add(1, ordering: .relaxed).newValue > 1 else {
            throw AuthError(.storageFailed, "The permission is missing.")
        }
        secondSweep.continuation.yield()
        try await Task<Never, Never>.never()
        return 0
    }
}

/// A store that can stop granting leases.
private final class LeaselessStore: ForwardingSessionStore {
    let base = MemoryTokenStore()
    let hasNoLeases = Atomic(false)

    func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return {
        if hasNoLeases.load(ordering: .relaxed) { throw AuthError(.storageFailed, "The database cannot be written.") }
        return try await base.withLease(on: key, body)
    }
}

/// A web application with a failing database, and requests without a session.
@Suite struct SessionServerFaultTests {
    private func withWeb(
        _ body: @escaping @Sendable (WebEnvironment, SessionServer, WatchedStore) async throws -> Void
    ) async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [WebEnvironment.client]) { environment in
            let store = WatchedStore()
            let web = WebEnvironment(environment, store: store)
            try await body(web, try web.process(), store)
        }
    }

    private func revokedRefreshTokens(_ web: WebEnvironment) -> Int {
        web.environment.emulator.receivedRequests.count {
            $0.path == "/revoke" && $0.form["token_type_hint"] == "refresh_token"
        }
    }

    @Test(arguments: ["/logout", "/logout?everywhere=1"])
    func aSignOutWithAForgedCookieWritesNothingToTheStore(_ target: String) async throws {
        try await withWeb { web, server, store in
            let browser = WebBrowser()
            browser.cookies["__Host-Http-authflow"] = String(repeating: "A", count: 43)
            let before = store.writes
            _ = try await browser.send(.post, target, to: server, WebBrowser.ownPage)
            #expect(store.writes == before)
            #expect(browser.session == nil)
        }
    }

    @Test(arguments: WatchedStore.Loss.allCases, [1, 3])
    private func aSignOutRevokesTheTokensEvenIfTheRemovalResultIsLost(
        _ loss: WatchedStore.Loss,
        _ browsers: Int
    ) async throws {
        try await withWeb { web, server, store in
            let laptop = WebBrowser()
            for browser in [laptop] + (1..<browsers).map({ _ in WebBrowser() }) {
                try await browser.signIn(web, at: server)
            }
            let own = try #require(try await laptop.session(at: server))
            store.lose(loss)
            let target = browsers == 1 ? "/logout" : "/logout?everywhere=1"
            let response = try await laptop.send(.post, target, to: server, WebBrowser.ownPage)
            #expect(response.status == (loss == .repeated ? 303 : 503))
            #expect(await server.drain(within: .seconds(20)))
            #expect(revokedRefreshTokens(web) == browsers)
            // The session that sent the request is removed last, so that the request can be retried.
            #expect(store.removed.last?.name == own.name)
        }
    }

    /// The tokens of both sessions may belong to the same grant, and profile claims can change.
    @Test func signingInAgainWithChangedClaimsDoesNotRevokeTheGrant() async throws {
        try await withWeb { web, server, _ in
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let first = try #require(try await browser.session(at: server)?.identity)
            web.environment.emulator.fault = .idToken(.claims { $0["updated_at"] = 1_700_000_000 })
            try await browser.signIn(web, at: server)
            let second = try #require(try await browser.session(at: server)?.identity)
            #expect(first != second && first.subject == second.subject)
            #expect(await server.drain(within: .seconds(20)))
            #expect(revokedRefreshTokens(web) == 0)
        }
    }

    @Test func aUserHasALimitedNumberOfSessions() async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [WebEnvironment.client]) { environment in
            let web = WebEnvironment(environment)
            let server = try web.process { $0.sessionsPerUser = 2 }
            let browsers = (0..<3).map { _ in WebBrowser() }
            for browser in browsers { try await browser.signIn(web, at: server) }
            let last = try #require(try await browsers[2].session(at: server))
            #expect(try await server.sessions(ofUserOf: last).count == 2)
            // The least recently used session has been removed.
            #expect(try await browsers[0].session(at: server) == nil)
            #expect(try await browsers[1].session(at: server) != nil)
        }
    }

    /// Comparing text with many combining marks takes quadratic time.
    @Test func ignoresNonASCIIPathsAndCookies() async throws {
        let marks = String(repeating: "\u{301}", count: 100) + String(repeating: "\u{323}", count: 100)
        var request = HTTPRequest(method: .get, scheme: "https", authority: "app.example.com", path: "/\(marks)?a=1")
        request.headerFields[.cookie] = "\(marks)=x; a=\(marks); b=1"
        #expect(SessionServer.path(of: request) == nil)
        let cookies = RequestCookies(request)
        #expect(cookies.named("").map(\.name) == ["a", "b"])
        #expect(cookies.named("b").map(\.name) == ["b"])
        #expect(cookies["a"] == "" && cookies["b"] == "1")
        request.path = "/a?\(marks)"
        #expect(SessionServer.path(of: request) == "/a")
    }

    @Test(.timeLimit(.minutes(1))) func concurrentSignInsLeaveOneSessionIfTheLimitIsOne() async throws {
        try await withWeb { web, _, store in
            let server = try web.process { $0.sessionsPerUser = 1 }
            let browsers = [WebBrowser(), WebBrowser()]
            // Both sign-ins store their sessions before either checks for excess sessions.
            store.meet(browsers.count)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for browser in browsers { group.addTask { try await browser.signIn(web, at: server) } }
                try await group.waitForAll()
            }
            var signedIn = 0
            for browser in browsers where try await browser.session(at: server) != nil { signedIn += 1 }
            #expect(signedIn == 1)
        }
    }

    @Test func aSessionIsFoundWhileItsIdleTimeoutCannotBeExtended() async throws {
        try await withWeb { web, _, store in
            let events = Mutex<[FlowEvent]>([])
            let server = try web.process(observer: { event in events.withLock { $0.append(event) } })
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            store.isReadOnly.store(true, ordering: .relaxed)
            let session = try #require(try await browser.session(at: server))
            _ = try await server.freshTokens(for: session)
            // The failure is reported once in the interval between two extensions.
            #expect(try await browser.session(at: server) != nil)
            let failures = events.withLock { $0.filter { $0.progress == .failed(.storageFailed) } }
            #expect(failures.map(\.step) == [.storing])
        }
    }

    /// At a multi-tenant server, users of two tenants may have the same subject. Without the cache, the result of a refresh in progress would be lost,
    /// too.
    @Test("A sign-out everywhere does not drop the cached session of another tenant's user")
    func aSignOutEverywhereDoesNotDropTheSessionOfAnotherTenant() async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [WebEnvironment.client]) { environment in
            let emulator = environment.emulator
            let template = "\(emulator.issuer)/{tenant}"
            let rule = try TokenIssuerTemplate(template, claim: "tid", tenants: ["first", "second"])
            let store = UnreadableStore()
            let web = WebEnvironment(environment, store: store)
            let server = try web.process(OIDCProvider(issuer: emulator.issuer, tokenIssuer: rule))
            let (first, second) = (WebBrowser(), WebBrowser())
            emulator.tenancy = .init(template: template, claim: "tid", tenant: "first")
            try await first.signIn(web, at: server)
            emulator.tenancy = .init(template: template, claim: "tid", tenant: "second")
            try await second.signIn(web, at: server)
            let identities = [
                try await first.session(at: server)?.identity, try await second.session(at: server)?.identity,
            ]
            #expect(identities[0]?.subject == identities[1]?.subject)
            #expect(identities[0]?.issuer != identities[1]?.issuer)
            let response = try await first.send(.post, "/logout?everywhere=1", to: server, WebBrowser.ownPage)
            #expect(response.status == 303)
            store.isUnreadable.store(true, ordering: .relaxed)
            #expect(try await second.session(at: server) != nil)
        }
    }

    enum Unusable: CaseIterable { case encryptedWithAnotherKey, damaged }

    /// An application whose records are encrypted with the key of these bytes.
    private static func web(
        _ environment: EmulatorEnvironment,
        _ base: MemoryTokenStore,
        _ byte: UInt8
    ) throws -> WebEnvironment {
        let key = Secret(Base64URL.encode([UInt8](repeating: byte, count: 32)))
        let keys = try EncryptionKeys([("key \(byte)", key)])
        return WebEnvironment(environment, store: EncryptedSessionStore(base, keys: keys))
    }

    /// The key was removed too early, or the database was damaged: an error on every page would prevent the user from signing in again.
    @Test(arguments: Unusable.allCases) func aSessionWhoseRecordIsUnusableIsReportedAndReplacedByASignIn(
        _ unusable: Unusable
    ) async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [WebEnvironment.client]) { environment in
            let base = MemoryTokenStore()
            func web(_ byte: UInt8) throws -> WebEnvironment { try Self.web(environment, base, byte) }
            let browser = WebBrowser()
            try await browser.signIn(try web(1), at: try web(1).process())
            func sessions() async -> [RecordKey] {
                await base.keys(after: nil, limit: 10).filter { $0.kind == .credential }
            }
            let record = try #require(await sessions().first)
            if unusable == .damaged {
                try await base.withLease(on: record) { try await base.write([1], under: $0) }
            }
            let failures = Mutex<[AuthError.Code?]>([])
            let other = try web(unusable == .damaged ? 1 : 2)
            let time = VirtualTime()
            let server = try other.process(
                host: HostServices(clock: time.host.clock),
                options: { $0.idleTime = .seconds(60) },
                observer: { event in
                    if case .failed(let code) = event.progress { failures.withLock { $0.append(code) } }
                }
            )
            for _ in 0..<2 { #expect(try await browser.session(at: server) == nil) }
            #expect(try await browser.send(.get, "/session", to: server, WebBrowser.ownPage).status == 401)
            #expect(failures.withLock { $0 } == [.credentialUnusable])
            // At most once a minute, even if the idle timeout is extended more often.
            for (pause, count) in [(50, 1), (10, 2)] {
                time.advance(by: .seconds(pause))
                #expect(try await browser.session(at: server) == nil)
                #expect(failures.withLock { $0.count } == count)
            }
            #expect(await sessions() == [record])
            try await browser.signIn(other, at: server)
            #expect(try await browser.session(at: server) != nil)
            let left = await sessions()
            #expect(left.count == 1 && left != [record])
        }
    }

    /// The responses contain only a status, so the operator must learn the cause from an event. A browser or provider that has closed its connection
    /// does not even receive the status.
    @Test(arguments: [
        ("/logout", false), ("/session", false), ("/backchannel-logout", false), ("/ended", false),
        ("/forward-auth", false), ("/logout", true), ("/backchannel-logout", true), ("/ended", true),
    ])
    func aRequestThatFailsBecauseOfTheStoreIsReported(_ path: String, _ isCancelled: Bool) async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [WebEnvironment.client]) { environment in
            let store = UnreadableStore()
            let web = WebEnvironment(environment, store: store)
            let browser = WebBrowser()
            try await browser.signIn(web, at: try web.process())
            let events = Mutex<[FlowEvent]>([])
            // Another process, which has not cached the session.
            let server = try web.process(
                options: { $0.frontChannelLogoutPath = "/ended" },
                observer: { event in events.withLock { $0.append(event) } }
            )
            // A sign-in fetches the provider's metadata and keys.
            try await WebBrowser().signIn(web, at: server)
            let token = try environment.emulator.logoutToken(for: WebEnvironment.client.id, subject: "248289761001")
            let query = FormURLEncoding.encodeQuery(["iss": environment.emulator.issuer, "sid": "any"])
            store.isUnreadable.store(true, ordering: .relaxed)
            let request = Task { () async throws -> Int? in
                // The loop ends when the task is cancelled.
                while isCancelled, !Task.isCancelled { await Task.yield() }
                switch path {
                case "/logout": return try await browser.send(.post, path, to: server, WebBrowser.ownPage).status
                case "/session": return try await browser.send(.get, path, to: server, WebBrowser.ownPage).status
                case "/backchannel-logout": return try await web.logOut(token, at: server).status
                case "/ended": return try await browser.send(.get, "\(path)?\(query)", to: server).status
                default:
                    let auth = ForwardAuth(server: server, fields: [:])
                    return await auth.response(to: browser.request(.get, path))?.status
                }
            }
            if isCancelled { request.cancel() }
            #expect(try await request.value == 503)
            #expect(await server.drain(within: .seconds(20)))
            let failures = events.withLock { $0.filter { $0.progress == .failed(.storageFailed) } }
            #expect(failures.count == 1)
            #expect(failures.first?.details["message"] == "The database cannot be reached.")
            #expect(events.withLock { !$0.contains { $0.progress == .cancelled } })
        }
    }

    /// A cancelled caller no longer waits for the result, so it cannot report the failure.
    @Test(arguments: [false, true])
    func aFailedEndOfAUsersSessionsIsReported(_ isCancelled: Bool) async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [WebEnvironment.client]) { environment in
            let store = UnreadableStore()
            let web = WebEnvironment(environment, store: store)
            let events = Mutex<[FlowEvent]>([])
            let server = try web.process(observer: { event in events.withLock { $0.append(event) } })
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let session = try #require(try await browser.session(at: server))
            store.isUnreadable.store(true, ordering: .relaxed)
            let request = Task {
                // The loop ends when the task is cancelled.
                while isCancelled, !Task.isCancelled { await Task.yield() }
                try await server.endSessions(ofUserOf: session)
            }
            if isCancelled { request.cancel() }
            await #expect(throws: (any Error).self) { try await request.value }
            #expect(await server.drain(within: .seconds(20)))
            let failures = events.withLock { $0.filter { $0.progress == .failed(.storageFailed) } }
            #expect(failures.map(\.step) == [.endSession])
        }
    }

    @Test(.timeLimit(.minutes(1))) func aFailedRemovalOfExpiredRecordsIsReportedAndRepeated() async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [WebEnvironment.client]) { environment in
            let store = FailingSweepStore()
            let events = Mutex<[FlowEvent]>([])
            // Waits complete immediately.
            let server = try WebEnvironment(environment, store: store).process(
                host: VirtualTime().host,
                observer: { event in events.withLock { $0.append(event) } }
            )
            let sweeping = Task { await server.removeEndedSessions() }
            for await _ in store.secondSweep.stream { break }
            sweeping.cancel()
            await sweeping.value
            #expect(events.withLock { $0.map(\.progress) } == [.failed(.storageFailed)])
        }
    }

    /// The session can be read, but its access token has expired.
    @Test func forwardAuthReportsAStoreThatPreventsARefresh() async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [WebEnvironment.client]) { environment in
            let store = LeaselessStore()
            let web = WebEnvironment(environment, store: store)
            let browser = WebBrowser()
            try await browser.signIn(web, at: try web.process())
            let events = Mutex<[FlowEvent]>([])
            let server = try web.process(
                host: HostServices(now: { Date() + 86_400 }),
                observer: { event in events.withLock { $0.append(event) } }
            )
            store.hasNoLeases.store(true, ordering: .relaxed)
            let auth = ForwardAuth(server: server, fields: [.authorization: .accessToken])
            #expect(await auth.response(to: browser.request(.get, "/forward-auth"))?.status == 503)
            let failures = events.withLock { $0.filter { $0.progress == .failed(.storageFailed) } }
            #expect(failures.map(\.step) == [.storing])
            #expect(failures.first?.details["message"] == "The database cannot be written.")
        }
    }

    /// The record of a logout is stored for twenty minutes, in which the keys may change.
    @Test(arguments: Unusable.allCases) func anUnusableRecordOfALogoutEndsOneSignInAndPreventsNoLogout(
        _ unusable: Unusable
    ) async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [WebEnvironment.client]) { environment in
            let base = MemoryTokenStore()
            func web(_ byte: UInt8) throws -> WebEnvironment { try Self.web(environment, base, byte) }
            let (earlier, later) = (try web(1), try web(unusable == .damaged ? 1 : 2))
            // By the provider's clock, the second ID Token is issued after the first sign-in was rejected.
            let server = try later.process(host: HostServices(now: { Date() - 30 }))
            func logOut() async throws -> Int {
                let client = WebEnvironment.client.id
                let token = try environment.emulator.logoutToken(for: client, subject: "248289761001")
                return try await earlier.logOut(token, at: try earlier.process()).status
            }
            func damageLogoutRecords() async throws {
                guard unusable == .damaged else { return }
                for key in await base.keys(after: nil, limit: 100) where key.kind != .credential {
                    try await base.withLease(on: key) { try await base.write([1], under: $0) }
                }
            }
            #expect(try await logOut() == 200)
            try await damageLogoutRecords()
            let browser = WebBrowser()
            #expect(try await browser.signIn(later, at: server).status == 400)
            #expect(try await browser.session(at: server) == nil)
            try await browser.signIn(later, at: server)
            #expect(try await browser.session(at: server) != nil)
            try await damageLogoutRecords()
            #expect(try await logOut() == 200)
            #expect(try await browser.session(at: server) == nil)
        }
    }

    @Test func endingAUsersSessionsRevokesTokensEvenIfTheRemovalResultIsLost() async throws {
        try await withWeb { web, server, store in
            let (laptop, phone) = (WebBrowser(), WebBrowser())
            try await laptop.signIn(web, at: server)
            try await phone.signIn(web, at: server)
            let session = try #require(try await laptop.session(at: server))
            store.lose(.repeated)
            try await server.endSessions(ofUserOf: session)
            #expect(await server.drain(within: .seconds(20)))
            #expect(revokedRefreshTokens(web) == 2)
        }
    }

    @Test(arguments: ["image", "iframe", "empty", "script"])
    func rejectsALoginRequestThatIsNotATopLevelNavigation(_ destination: String) async throws {
        try await withWeb { _, server, store in
            var fields: HTTPFields = [:]
            fields[try #require(HTTPField.Name("Sec-Fetch-Dest"))] = destination
            let before = store.writes
            #expect(try await WebBrowser().send(.get, "/login", to: server, fields).status == 403)
            #expect(store.writes == before)
        }
    }

    @Test func limitsConcurrentLoginRequestsPerProcess() async throws {
        try await withWeb { web, _, _ in
            let held = HeldRequests(base: web.environment.transport, path: "/.well-known/openid-configuration")
            let server = try web.process(transport: held)
            try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<40 {
                    group.addTask { try await WebBrowser().send(.get, "/login", to: server).status }
                }
                for _ in 0..<8 { #expect(try await group.next() == 503) }
                held.released.continuation.finish()
                for try await status in group { #expect(status == 303) }
            }
        }
    }

    /// Anyone can send such requests, and each of them writes to the store.
    @Test(.timeLimit(.minutes(10))) func limitsConcurrentFrontChannelLogoutsPerProcess() async throws {
        try await withWeb { web, _, store in
            let path = "/frontchannel-logout"
            let server = try web.process { $0.frontChannelLogoutPath = path }
            let issuer = web.environment.emulator.issuer
            @Sendable func logOut(_ session: Int) async throws -> TransportResponse {
                let query = FormURLEncoding.encodeQuery(["iss": issuer, "sid": "\(session)"])
                return try await WebBrowser().send(.get, "\(path)?\(query)", to: server)
            }
            // The lookups of 32 requests wait for one more lookup.
            store.meet(33)
            try await withThrowingTaskGroup(of: Int.self) { group in
                for session in 0..<32 { group.addTask { try await logOut(session).status } }
                while store.waiting < 32 {
                    try Task.checkCancellation()
                    await Task.yield()
                }
                let rejected = try await logOut(32)
                #expect(rejected.status == 503)
                #expect(rejected.head.headerFields[.retryAfter] == "2")
                _ = try await store.records(tagged: RecordTag(["another lookup"]))
                for try await status in group { #expect(status == 200) }
            }
        }
    }

    /// The record of a logout that arrived during the sign-in may have expired.
    @Test(arguments: [(599.0, 200), (600.0, 400)])
    func aSignInIsRejectedIfTheProcessWasPausedForTooLong(_ pause: Double, _ status: Int) async throws {
        let time = TestTime()
        try await EmulatorEnvironment.with(
            .inProcess,
            clients: [WebEnvironment.client],
            now: { time.now }
        ) { environment in
            let web = WebEnvironment(environment)
            let server = try web.process(
                host: time.host,
                options: { options in
                    options.hooks.onSignIn = { _ in
                        time.advance(pause)
                        return .accept
                    }
                }
            )
            let browser = WebBrowser()
            #expect(try await browser.signIn(web, at: server).status == status)
            #expect((browser.session != nil) == (status == 200))
        }
    }

    @Test func rejectsACookieNameWithoutTheHostPrefix() async throws {
        try await withWeb { web, _, _ in
            let error = #expect(throws: AuthError.self) { _ = try web.process { $0.cookieName = "session" } }
            #expect(error?.code == .invalidConfiguration)
            _ = try web.process { $0.cookieName = "__Host-session" }
        }
    }
}
