import AuthFlow
import AuthFlowOIDC
import AuthFlowPostgreSQL
import AuthFlowRedis
import AuthFlowSQLite
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Whether SIGTERM has been received, for example from a service manager.
private let isEnding = Atomic(false)

/// The roles of the test's processes.
struct SessionSoak: Sendable {
    let issuer: String
    let store: String
    let sessions: Int

    private static func address(_ name: String) -> Secret { Secret(ProcessInfo.processInfo.environment[name] ?? "") }

    func makeStore() throws -> any TokenStore {
        switch store {
        case "postgresql":
            try PostgreSQLTokenStore(url: Self.address("AUTHFLOW_POSTGRESQL"), lease: .seconds(5))
        case "redis":
            try RedisTokenStore(url: Self.address("AUTHFLOW_REDIS"), lease: .seconds(5))
        case let path where path.hasSuffix(".sqlite"): try SQLiteTokenStore(path: path, lease: .seconds(5))
        default: FileTokenStore(directory: store)
        }
    }

    func manager(
        over store: (any TokenStore)? = nil,
        _ observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> CredentialManager {
        let client = OAuthClient(
            server: AuthorizationServer(issuer: issuer),
            registration: try ClientRegistration(clientID: "soak") {
                $0.redirectURIs = ["https://app.example.com/callback"]
                $0.scopes = ["api"]
                $0.authentication = .clientSecretBasic(Secret("soak-secret"))
            }
        )
        return CredentialManager(client: client, store: try store ?? makeStore(), observer: observer)
    }

    static func session(_ number: Int) -> String { "session-\(number)" }

    /// Runs `body` for every session, several at a time.
    func forEachSession(_ body: @escaping @Sendable (_ session: String) async throws -> Void) async throws {
        let next = Counter()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<16 {
                group.addTask {
                    while let index = next.next(below: sessions) { try await body(Self.session(index)) }
                }
            }
            try await group.waitForAll()
        }
    }

    private final class Counter: Sendable {
        private let value = Atomic(0)
        func next(below limit: Int) -> Int? {
            let index = value.add(1, ordering: .relaxed).oldValue
            return index < limit ? index : nil
        }
    }

    /// Signs the users in.
    func seed() async throws {
        if store == "postgresql" { try await PostgreSQLTokenStore(url: Self.address("AUTHFLOW_POSTGRESQL")).migrate() }
        let credentials = try manager()
        try await forEachSession { session in
            try await credentials.save(try await Self.signIn(credentials.client), for: session)
        }
        say("\(sessions)")
    }

    /// Signs a user in, and simulates the browser's redirect.
    static func signIn(_ client: OAuthClient) async throws -> Credential {
        let request = try await client.authorizationRequest()
        let query = request.url.drop { $0 != "?" }.dropFirst()
        let state = FormURLEncoding.decode(String(query))?["state"] ?? ""
        return try await client.exchange("\(request.redirectURI)?code=code&state=\(state)", for: request)
    }

    /// Requests fresh tokens of sessions, as users' requests do.
    func serve(tasks: Int, for duration: Duration) async throws {
        signal(SIGTERM) { _ in isEnding.store(true, ordering: .relaxed) }
        let counts = SoakCounts()
        let credentials = try manager { counts.count($0) }
        let end = ContinuousClock.now + duration
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<tasks {
                group.addTask {
                    while ContinuousClock.now < end, !isEnding.load(ordering: .relaxed) {
                        // A third of the requests use a few busy sessions, so that several processes share them.
                        let range = Int.random(in: 0..<3) == 0 ? min(sessions, 20) : sessions
                        let session = Self.session(Int.random(in: 0..<range))
                        await counts.request { try await credentials.freshTokens(for: session) }
                    }
                }
            }
            group.addTask {
                while ContinuousClock.now < end, !isEnding.load(ordering: .relaxed) {
                    try? await Task.sleep(for: .seconds(1))
                    say(counts.line)
                }
            }
        }
        _ = await credentials.drain(within: .seconds(20))
        say(counts.line)
    }

    /// Requests fresh tokens of all sessions concurrently, and again after the backoff of failed refreshes.
    func storm() async throws {
        // The tokens of the sign-in have expired.
        try await Task.sleep(for: .seconds(2))
        let counts = SoakCounts()
        let credentials = try manager { counts.count($0) }
        for _ in 0..<2 {
            await withTaskGroup(of: Void.self) { group in
                for index in 0..<sessions {
                    group.addTask {
                        await counts.request { try await credentials.freshTokens(for: Self.session(index)) }
                    }
                }
            }
            say(counts.line)
            try await Task.sleep(for: .seconds(10))
        }
        _ = await credentials.drain(within: .seconds(20))
    }

    /// Requests the tokens of every session, and prints the counts.
    func check() async throws {
        let counts = SoakCounts()
        let credentials = try manager()
        try await forEachSession { session in
            await counts.request { try await credentials.freshTokens(for: session) }
            let states = try await credentials.states(of: CredentialKey(session))
            if case .ended(let ended)? = await states.first(where: { _ in true }) { counts.count(ended) }
        }
        say(counts.line)
    }
}
