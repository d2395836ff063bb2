import AuthFlowHTTP
import Dispatch
import Synchronization
import Testing

@testable import AuthFlowDatabase

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The connections to a database, and the requests that wait for them.
@Suite struct DatabasePoolTests {
    /// A database in this process.
    private final class Server: Sendable {
        struct State {
            var failures: [DatabaseFailure] = []
            var links: [Link] = []
            var requests: [String] = []
            var running = 0
            var maximumRunning = 0
        }
        let state = Mutex(State())
        /// Blocks each request "block" until it is signalled.
        let gate = DispatchSemaphore(value: 0)

        func open(_ use: DatabaseLinkUse) throws(DatabaseFailure) -> Link {
            let failure = state.withLock { $0.failures.popLast() }
            if let failure { throw failure }
            let link = Link(self)
            state.withLock { $0.links.append(link) }
            return link
        }

        var links: [Link] { state.withLock { $0.links } }

        func database(connections: Int = 2, onMessage: @escaping @Sendable (DatabaseMessage) -> Void = { _ in })
            -> Database<Link>
        {
            Database(
                connections: connections,
                open: { (use) throws(DatabaseFailure) in try self.open(use) },
                onMessage: onMessage
            )
        }
    }

    private final class Link: DatabaseLink {
        private let server: Server
        let isBroken = Atomic(false)
        let isClosed = Atomic(false)
        let isInterrupted = Atomic(false)
        private let messagesOrEnd = DispatchSemaphore(value: 0)

        init(_ server: Server) { self.server = server }

        var isIdle: Bool { !isBroken.load(ordering: .sequentiallyConsistent) }

        func response(to request: String) throws(DatabaseFailure) -> Result<String, DatabaseFailure> {
            server.state.withLock { state in
                state.requests.append(request)
                state.running += 1
                state.maximumRunning = max(state.maximumRunning, state.running)
            }
            defer { server.state.withLock { $0.running -= 1 } }
            switch request {
            case "block": server.gate.wait()
            case "hang":
                messagesOrEnd.wait()
                throw DatabaseFailure(.unknownOutcome, "The connection was lost.")
            case "refuse": return .failure(DatabaseFailure(.refused, "No."))
            case "lose": throw DatabaseFailure(.unknownOutcome, "The connection was lost.")
            default: break
            }
            return .success(request)
        }

        func messages() throws(DatabaseFailure) -> [String] {
            messagesOrEnd.wait()
            throw DatabaseFailure(.unknownOutcome, "The connection was lost.")
        }

        func interrupt() {
            isInterrupted.store(true, ordering: .sequentiallyConsistent)
            messagesOrEnd.signal()
        }

        func close() { isClosed.store(true, ordering: .sequentiallyConsistent) }
    }

    private static func kind(_ body: () async throws -> some Sendable) async -> DatabaseFailure.Kind? {
        do {
            _ = try await body()
            return nil
        } catch {
            return (error as? DatabaseFailure)?.kind
        }
    }

    @Test func requestsShareALimitedNumberOfConnections() async throws {
        let server = Server()
        let database = server.database(connections: 3)
        let responses = try await withThrowingTaskGroup(of: String.self) { group in
            for number in 0..<500 { group.addTask { try await database.response(to: "\(number)") } }
            return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(responses.count == 500)
        #expect((1...3).contains(server.links.count))
        #expect(server.state.withLock { $0.maximumRunning } <= 3)
        while database.pending > 0 { await Task.yield() }
    }

    @Test(.timeLimit(.minutes(1))) func oneRequestAtATimeNeedsOnlyOneConnection() async throws {
        let server = Server()
        let pool = Self.pool(server, connections: 4)
        for _ in 0..<1000 { _ = try await pool.response(to: "a") }
        #expect(pool.pending == 0)
        #expect(server.links.count == 1)
        #expect(pool.threadCount == 1)
        pool.close()
    }

    /// A client may cancel its requests faster than the database responds.
    @Test(.timeLimit(.minutes(1)), arguments: ["cancelled", "expired"])
    func requestsThatHaveEndedDoNotCountAsPending(_ end: String) async throws {
        let server = Server()
        let pool = Self.pool(server, connections: 1)
        let first = Task { try await pool.response(to: "block") }
        while server.state.withLock({ $0.running }) == 0 { await Task.yield() }
        for _ in 0..<30 {
            if end == "expired" {
                let requests = (0..<1000).map { _ in Self.send("a", pool) }
                while pool.pending < 1001 { await Task.yield() }
                for (job, _) in requests { pool.expire(job) }
                for (_, outcome) in requests { #expect(await outcome.value == .unreachable) }
            } else {
                let requests = (0..<1000).map { _ in Task { try await pool.response(to: "a") } }
                while pool.pending < 1001 { await Task.yield() }
                for request in requests { request.cancel() }
                for request in requests { await #expect(throws: CancellationError.self) { try await request.value } }
            }
            #expect(pool.queueCount <= 1000)
        }
        let last = Task { try await pool.response(to: "a") }
        while pool.pending < 2 { await Task.yield() }
        server.gate.signal()
        #expect(try await first.value == "block")
        #expect(try await last.value == "a")
        pool.close()
    }

    @Test(.timeLimit(.minutes(1))) func aConnectionThatCannotBeOpenedInTimeIsNotWaitedFor() async throws {
        let server = Server()
        let isFirst = Atomic(true)
        let pool = DatabasePool<Link>(
            connections: 2,
            requestTimeout: .seconds(60),
            openTimeout: .milliseconds(50),
            patience: .seconds(60),
            open: { (use) throws(DatabaseFailure) in
                if isFirst.exchange(false, ordering: .sequentiallyConsistent) { server.gate.wait() }
                return try server.open(use)
            },
            onMessage: { _ in }
        )
        #expect(try await pool.response(to: "a") == "a")
        // The thread is still counted, so that there are never more threads than connections.
        #expect(pool.threadCount == 2)
        server.gate.signal()
        while server.links.count < 2 { await Task.yield() }
        pool.close()
        while pool.threadCount > 0 { await Task.yield() }
    }

    @Test func aRejectedRequestKeepsItsConnectionAndALostConnectionIsReplaced() async throws {
        let server = Server()
        let database = server.database(connections: 1)
        #expect(await Self.kind { try await database.response(to: "refuse") } == .refused)
        #expect(try await database.response(to: "a") == "a")
        #expect(server.links.count == 1)
        #expect(await Self.kind { try await database.response(to: "lose") } == .unknownOutcome)
        #expect(try await database.response(to: "b") == "b")
        #expect(server.links.count == 2)
    }

    /// Opens several connections, which are idle afterward.
    private static func warm(_ server: Server, _ pool: DatabasePool<Link>, _ count: Int) async throws {
        let requests = (0..<count).map { _ in Task { try await pool.response(to: "block") } }
        while server.state.withLock({ $0.running }) < count { await Task.yield() }
        for _ in 0..<count { server.gate.signal() }
        for request in requests { _ = try await request.value }
        while pool.pending > 0 { await Task.yield() }
    }

    private static func pool(_ server: Server, connections: Int, timeout: Duration = .seconds(60)) -> DatabasePool<Link>
    {
        DatabasePool(
            connections: connections,
            requestTimeout: timeout,
            patience: .seconds(60),
            open: { (use) throws(DatabaseFailure) in try server.open(use) },
            onMessage: { _ in }
        )
    }

    @Test(.timeLimit(.minutes(1)), arguments: [1, 3])
    func connectionsThatWereClosedWhileIdleAreReplacedBeforeTheRequestIsSent(_ count: Int) async throws {
        let server = Server()
        let pool = Self.pool(server, connections: count)
        try await Self.warm(server, pool, count)
        for link in server.links { link.isBroken.store(true, ordering: .sequentiallyConsistent) }
        #expect(try await pool.response(to: "b") == "b")
        #expect((count + 1...2 * count).contains(server.links.count))
        pool.close()
    }

    /// Sends a request whose deadline the test determines.
    private static func send(_ request: String, _ pool: DatabasePool<Link>) -> (
        DatabaseJob<Link>, Task<DatabaseFailure.Kind?, Never>
    ) {
        let job = DatabaseJob<Link>(request)
        return (job, Task { await kind { try await job.result.value { pool.begin(job) } } })
    }

    @Test(.timeLimit(.minutes(1)))
    func aRequestWithoutAResponseEndsAtItsDeadlineAndIdleConnectionsAreClosed() async throws {
        let server = Server()
        let pool = Self.pool(server, connections: 2)
        try await Self.warm(server, pool, 2)
        let (job, outcome) = Self.send("hang", pool)
        while server.state.withLock({ $0.running }) == 0 { await Task.yield() }
        pool.expire(job)
        #expect(await outcome.value == .unknownOutcome)
        while !server.links.allSatisfy({ $0.isClosed.load(ordering: .sequentiallyConsistent) }) { await Task.yield() }
        #expect(try await pool.response(to: "a") == "a")
        pool.close()
    }

    @Test(.timeLimit(.minutes(1))) func aRequestThatFindsNoConnectionIsNotSent() async throws {
        let server = Server()
        let pool = Self.pool(server, connections: 1)
        let (first, firstOutcome) = Self.send("block", pool)
        while server.state.withLock({ $0.running }) == 0 { await Task.yield() }
        let (second, secondOutcome) = Self.send("b", pool)
        while pool.pending < 2 { await Task.yield() }
        for job in [second, first] { pool.expire(job) }
        #expect(await firstOutcome.value == .unknownOutcome)
        #expect(await secondOutcome.value == .unreachable)
        server.gate.signal()
        pool.close()
    }

    @Test(.timeLimit(.minutes(1))) func aCancelledRequestIsInterruptedAtItsDeadline() async throws {
        let server = Server()
        let pool = Self.pool(server, connections: 1, timeout: .seconds(3))
        let request = Task { try await pool.response(to: "hang") }
        while server.state.withLock({ $0.running }) == 0 { await Task.yield() }
        request.cancel()
        // On a slow machine, the deadline may be reached before the cancellation.
        _ = try? await request.value
        while !server.links[0].isClosed.load(ordering: .sequentiallyConsistent) { await Task.yield() }
        #expect(try await pool.response(to: "a") == "a")
        pool.close()
    }

    @Test(.timeLimit(.minutes(1))) func aClosedPoolOpensNoConnections() async throws {
        let server = Server()
        let pool = Self.pool(server, connections: 1)
        let requests = (0..<3).map { _ in Task { try await pool.response(to: "hang") } }
        while server.state.withLock({ $0.running }) == 0 { await Task.yield() }
        for request in requests { request.cancel() }
        for request in requests { await #expect(throws: CancellationError.self) { try await request.value } }
        pool.close()
        while pool.threadCount > 0 { await Task.yield() }
        #expect(server.links.count == 1)
    }

    @Test(.timeLimit(.minutes(1))) func aRequestAfterThePoolWasClosedOpensNoConnection() async throws {
        let server = Server()
        let pool = Self.pool(server, connections: 1)
        pool.close()
        let (job, outcome) = Self.send("a", pool)
        while pool.pending < 1 { await Task.yield() }
        #expect(pool.threadCount == 0)
        pool.expire(job)
        #expect(await outcome.value == .unreachable)
        #expect(server.links.isEmpty)
    }

    @Test(.timeLimit(.minutes(1))) func aRequestThatEndedWhileItWasWaitingIsNotSent() async throws {
        let server = Server()
        let pool = Self.pool(server, connections: 1)
        let first = Task { try await pool.response(to: "block") }
        while server.state.withLock({ $0.running }) == 0 { await Task.yield() }
        let (cancelled, answered) = (DatabaseJob<Link>("cancelled"), DatabaseJob<Link>("answered"))
        for job in [cancelled, answered] { pool.begin(job) }
        #expect(cancelled.cancel())
        // The caller was cancelled, and is about to end the request.
        answered.result.finish(.failure(CancellationError()))
        server.gate.signal()
        #expect(try await pool.response(to: "last") == "last")
        #expect(try await first.value == "block")
        #expect(server.state.withLock { $0.requests } == ["block", "last"])
        pool.close()
    }

    @Test(.timeLimit(.minutes(1))) func rejectsARequestWhileTenThousandAreWaiting() async throws {
        let server = Server()
        let pool = Self.pool(server, connections: 1)
        let first = Task { try await pool.response(to: "block") }
        while server.state.withLock({ $0.running }) == 0 { await Task.yield() }
        for _ in 0..<10_000 { pool.begin(DatabaseJob<Link>("a")) }
        let job = DatabaseJob<Link>("one more")
        pool.begin(job)
        #expect(job.result.isFinished)
        server.gate.signal()
        #expect(await Self.kind { try await job.result.value(begin: {}) } == .unreachable)
        _ = try await first.value
        pool.close()
    }

    @Test func aCancelledRequestReturnsImmediately() async throws {
        let server = Server()
        let database = server.database(connections: 1)
        let request = Task { try await database.response(to: "block") }
        while server.state.withLock({ $0.running }) == 0 { await Task.yield() }
        request.cancel()
        await #expect(throws: CancellationError.self) { try await request.value }
        server.gate.signal()
        #expect(try await database.response(to: "a") == "a")
    }

    @Test func requestsWaitForADatabaseThatRestarts() async throws {
        let server = Server()
        server.state.withLock { $0.failures = Array(repeating: DatabaseFailure(.unreachable, "Refused."), count: 3) }
        let pool = Self.pool(server, connections: 4)
        #expect(try await pool.response(to: "a") == "a")
        pool.close()
    }

    /// A pool whose requests do not wait for an unavailable database.
    private static func impatientPool(
        open: @escaping @Sendable (DatabaseLinkUse) throws(DatabaseFailure) -> Link
    ) -> DatabasePool<Link> {
        DatabasePool(
            connections: 2,
            requestTimeout: .seconds(60),
            openTimeout: .seconds(60),
            patience: .zero,
            open: open,
            onMessage: { _ in }
        )
    }

    @Test(.timeLimit(.minutes(1))) func aRequestWaitsWhileAnotherConnectionIsOpen() async throws {
        let server = Server()
        let pool = Self.impatientPool { (use) throws(DatabaseFailure) in try server.open(use) }
        let first = Task { try await pool.response(to: "block") }
        while server.state.withLock({ $0.running }) == 0 { await Task.yield() }
        server.state.withLock { $0.failures = [DatabaseFailure(.unreachable, "Refused.")] }
        #expect(await Self.kind { try await pool.response(to: "a") } == nil)
        #expect(server.state.withLock { $0.failures.isEmpty })
        server.gate.signal()
        #expect(try await first.value == "block")
        pool.close()
    }

    @Test(.timeLimit(.minutes(1))) func aRequestWaitsForAConnectionThatIsBeingOpenedWhenAnotherFails() async throws {
        let server = Server()
        let failing = DispatchSemaphore(value: 0)
        let isFirst = Atomic(true)
        let pool = Self.impatientPool { (use) throws(DatabaseFailure) in
            if isFirst.exchange(false, ordering: .sequentiallyConsistent) {
                failing.wait()
                throw DatabaseFailure(.unreachable, "Refused.")
            }
            server.gate.wait()
            return try server.open(use)
        }
        let requests = ["a", "b"].map { text in Task { try await pool.response(to: text) } }
        while pool.threadCount < 2 { await Task.yield() }
        failing.signal()
        while pool.threadCount > 1 { await Task.yield() }
        for _ in 0..<2 { server.gate.signal() }
        for (request, text) in zip(requests, ["a", "b"]) { #expect(try await request.value == text) }
        pool.close()
    }

    @Test(.timeLimit(.minutes(1))) func oneConnectionAtATimeIsOpenedWhileTheDatabaseIsUnavailable() async throws {
        let server = Server()
        let attempts = Atomic(0)
        let pool = DatabasePool<Link>(
            connections: 4,
            requestTimeout: .seconds(60),
            openTimeout: .seconds(60),
            patience: .seconds(60),
            open: { (use) throws(DatabaseFailure) in
                guard attempts.add(1, ordering: .sequentiallyConsistent).oldValue > 0 else {
                    throw DatabaseFailure(.unreachable, "Refused.")
                }
                server.gate.wait()
                return try server.open(use)
            },
            onMessage: { _ in }
        )
        let first = Task { try await pool.response(to: "a") }
        while attempts.load(ordering: .sequentiallyConsistent) < 2 { await Task.yield() }
        let second = Task { try await pool.response(to: "b") }
        while pool.pending < 2 { await Task.yield() }
        #expect(pool.threadCount == 1)
        for _ in 0..<4 { server.gate.signal() }
        #expect(try await first.value == "a")
        #expect(try await second.value == "b")
        pool.close()
    }

    @Test func requestsFailImmediatelyIfOnlyAConfigurationChangeCouldHelp() async throws {
        let server = Server()
        server.state.withLock { $0.failures = Array(repeating: DatabaseFailure(.unusable, "No such user."), count: 5) }
        let database = server.database()
        for _ in 0..<3 { #expect(await Self.kind { try await database.response(to: "a") } == .unusable) }
    }

    @Test(.timeLimit(.minutes(1))) func connectionsAreClosedWithTheDatabase() async throws {
        let server = Server()
        try await {
            let database = server.database()
            database.listen()
            _ = try await database.response(to: "a")
            while server.links.count < 2 { await Task.yield() }
        }()
        while !server.links.allSatisfy({ $0.isClosed.load(ordering: .sequentiallyConsistent) }) { await Task.yield() }
    }

    @Test(.timeLimit(.minutes(1))) func severalListenersShareOneConnection() async throws {
        let server = Server()
        let connected = AsyncStream<Void>.makeStream()
        let database = server.database { if case .connected = $0 { connected.continuation.yield() } }
        for _ in 0..<20 { database.listen() }
        var events = connected.stream.makeAsyncIterator()
        _ = await events.next()
        _ = try await database.response(to: "a")
        // Further threads would need time to open their connections.
        for _ in 0..<5000 { await Task.yield() }
        #expect(server.links.count == 2)
        withExtendedLifetime(database) {}
    }

    @Test func aSocketThatCannotBeDuplicatedIsRejected() {
        let failure = #expect(throws: DatabaseFailure.self) { try DatabaseSocket(-1) }
        #expect(failure?.kind == .unreachable)
        #expect(failure?.message.contains("too many open files") == true)
    }

    /// The connection for messages is idle for hours, and a firewall may drop it without notice.
    @Test func anIdleConnectionIsProbedAfterHalfAMinute() throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        try DatabaseSocket(descriptor).keepAlive()
        func option(_ name: Int32, at level: Int32) -> Int32 {
            var (value, size) = (Int32(-1), socklen_t(MemoryLayout<Int32>.size))
            _ = unsafe getsockopt(descriptor, level, name, &value, &size)
            return value
        }
        #expect(option(SO_KEEPALIVE, at: SOL_SOCKET) == 1)
        #expect(option(TCP_KEEPIDLE, at: Int32(IPPROTO_TCP)) == 30)
        #expect(option(TCP_KEEPINTVL, at: Int32(IPPROTO_TCP)) == 10)
        #expect(option(TCP_KEEPCNT, at: Int32(IPPROTO_TCP)) == 3)
    }

    @Test(.timeLimit(.minutes(1))) func aLostListeningConnectionIsReplaced() async throws {
        let server = Server()
        let connected = AsyncStream<Void>.makeStream()
        let database = server.database { if case .connected = $0 { connected.continuation.yield() } }
        database.listen()
        var events = connected.stream.makeAsyncIterator()
        _ = await events.next()
        server.links[0].interrupt()
        _ = await events.next()
        #expect(server.links.count == 2)
        _ = database
    }
}
