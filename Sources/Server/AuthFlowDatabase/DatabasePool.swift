import AuthFlow
import AuthFlowSystem
import Dispatch
import Synchronization

/// A bounded pool of connections to one database. Each connection has its own thread, on which its calls block.
///
/// A connection is opened when no connection is free for a request, and closed when its idle timeout expires.
final class DatabasePool<Link: DatabaseLink>: Sendable {
    private typealias Job = DatabaseJob<Link>

    /// The idle timeout of a connection.
    private static var idleTimeout: Duration { .seconds(60) }
    /// The maximum number of requests that wait for a connection.
    private static var maximumWaiting: Int { 10_000 }

    private struct State {
        var waiting: ArraySlice<DatabaseJob<Link>> = []
        /// The number of requests in the queue that ended while they were waiting.
        var ended = 0
        /// The number of threads for requests, including those that are opening a connection or wait for a request.
        var threads = 0
        /// The attempts to open a connection, by number, and the number of those that have timed out but not returned.
        var openings: Set<Int> = []
        var stuck = 0
        var lastOpening = 0
        /// The threads that wait for a request. The last one is woken first, because the caches of its connection are warm.
        var idle: [DispatchSemaphore] = []
        /// The number of threads that are about to check the queue for a request.
        var looking = 0
        /// The open connections.
        var links: [Link] = []
        /// Incremented when a request times out: older connections are probably broken, too.
        var generation = 0
        var outage: DatabaseOutage?
        var hasRetryTimer = false
        /// Whether to receive messages from other processes, and the connection that receives them.
        var isListening = false
        var listener: Link?
        var isClosed = false

        var isConnected: Bool { threads > openings.count + stuck }

        /// Wakes an idle thread.
        mutating func wake() {
            guard let thread = idle.popLast() else { return }
            looking += 1
            thread.signal()
        }

        /// Counts a request that has ended while it was waiting. Once at least half of the queued requests have ended,
        /// the ended requests are removed from the queue, so each takes amortized constant time.
        mutating func countEnded() {
            ended += 1
            guard 2 * ended >= waiting.count else { return }
            waiting.removeAll { !$0.isWaiting }
            ended = 0
        }

        /// Adds a thread if a waiting request needs another connection.
        /// - Returns: The number of the attempt to open the connection; nil if no thread was added.
        mutating func addThread(limit: Int) -> Int? {
            guard waiting.count > idle.count + looking + openings.count, threads < limit, !isClosed else { return nil }
            // While the database is unavailable, one attempt at a time is enough.
            if let outage { guard openings.isEmpty, outage.mayRetry else { return nil } }
            threads += 1
            lastOpening += 1
            openings.insert(lastOpening)
            return lastOpening
        }
    }

    private let connections: Int
    private let requestTimeout: Duration
    private let openTimeout: Duration
    private let patience: Duration
    private let open: @Sendable (DatabaseLinkUse) throws(DatabaseFailure) -> Link
    private let onMessage: @Sendable (DatabaseMessage) -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - requestTimeout: The timeout of a request, including the wait for a connection.
    ///   - openTimeout: The timeout for opening a connection, after which another connection may be opened.
    ///   - patience: The time for which requests wait for an unavailable database.
    init(
        connections: Int,
        requestTimeout: Duration = .seconds(5),
        openTimeout: Duration = .seconds(10),
        patience: Duration = .seconds(2),
        open: @escaping @Sendable (DatabaseLinkUse) throws(DatabaseFailure) -> Link,
        onMessage: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        self.connections = connections
        self.requestTimeout = requestTimeout
        self.openTimeout = openTimeout
        self.patience = patience
        self.open = open
        self.onMessage = onMessage
    }

    var pending: Int {
        state.withLock { state in
            state.waiting.count { $0.isWaiting } + state.threads - state.openings.count - state.stuck
                - state.idle.count - state.looking
        }
    }

    /// The number of requests in the queue, including some that have ended.
    var queueCount: Int { state.withLock(\.waiting.count) }

    /// The number of threads for requests.
    var threadCount: Int { state.withLock(\.threads) }

    func response(to request: Link.Request) async throws -> Link.Response {
        let job = Job(request)
        let cancelTimer = ContinuousClock().call({ self.expire(job) }, after: requestTimeout)
        do {
            let response = try await job.result.value { begin(job) }
            cancelTimer()
            return response
        } catch let error as CancellationError {
            // A request that has already been sent still occupies a connection, which is interrupted at the deadline.
            if job.cancel() {
                cancelTimer()
                state.withLock { $0.countEnded() }
            }
            throw error
        } catch {
            cancelTimer()
            throw error
        }
    }

    /// Closes the connections. Only cancelled requests can remain, because the others retain the ``Database``.
    func close() {
        state.withLock { state in
            (state.isClosed, state.waiting, state.ended) = (true, [], 0)
            state.listener?.interrupt()
            for link in state.links { link.interrupt() }
            while !state.idle.isEmpty { state.wake() }
        }
    }

    /// Queues a request.
    func begin(_ job: DatabaseJob<Link>) {
        let (failure, opening) = state.withLock { state -> (DatabaseFailure?, Int?) in
            guard state.waiting.count - state.ended < Self.maximumWaiting else {
                return (DatabaseFailure(.unreachable, "Too many requests are pending."), nil)
            }
            if let outage = state.outage, outage.isLasting(patience), !outage.mayRetry, !state.isConnected,
                state.openings.isEmpty
            {
                return (outage.failure, nil)
            }
            state.waiting.append(job)
            state.wake()
            return (nil, addThread(&state))
        }
        if let failure { job.end(.failure(failure)) }
        if let opening { startThread(opening) }
    }

    /// Ends a request at its deadline.
    func expire(_ job: DatabaseJob<Link>) {
        let reason = state.withLock { $0.outage?.failure.message } ?? "No database connection became available in time."
        switch job.expire(reason) {
        case .ended: break
        case .waiting: state.withLock { $0.countEnded() }
        case .running:
            state.withLock { state in
                state.generation += 1
                while !state.idle.isEmpty { state.wake() }
            }
        }
    }

    // MARK: Threads

    /// Adds a thread if one is needed; the caller must start the thread. If it is too early for another connection attempt, a timer is started.
    private func addThread(_ state: inout State) -> Int? {
        if let opening = state.addThread(limit: connections) { return opening }
        if let outage = state.outage, !state.waiting.isEmpty, state.openings.isEmpty, !state.hasRetryTimer,
            !state.isClosed
        {
            state.hasRetryTimer = true
            _ = ContinuousClock().call({ self.retry() }, after: outage.pause)
        }
        return nil
    }

    private func retry() {
        let opening = state.withLock { state in
            state.hasRetryTimer = false
            return addThread(&state)
        }
        if let opening { startThread(opening) }
    }

    private func startThread(_ opening: Int) {
        guard !DetachedThread.run({ self.serve(opening) }) else { return }
        fail(opening, DatabaseFailure(.unreachable, "The system cannot create another thread."), isStuck: false)
    }

    /// Records that a connection could not be opened.
    /// - Parameter isStuck: Whether the attempt has timed out, and its thread still exists.
    private func fail(_ opening: Int, _ failure: DatabaseFailure, isStuck: Bool) {
        let (jobs, next) = state.withLock { state -> (ArraySlice<Job>, Int?) in
            let isFirst = state.openings.remove(opening) != nil
            if isStuck {
                guard isFirst else { return ([], nil) }
                state.stuck += 1
            } else {
                state.threads -= 1
                if !isFirst { state.stuck -= 1 }
            }
            let outage = DatabaseOutage(failure, after: state.outage)
            state.outage = outage
            guard outage.isLasting(patience), !state.isConnected, state.openings.isEmpty else {
                return ([], addThread(&state))
            }
            defer { (state.waiting, state.ended) = ([], 0) }
            return (state.waiting, nil)
        }
        for job in jobs { job.end(.failure(failure)) }
        if let next { startThread(next) }
    }

    /// Opens a connection and executes requests over it.
    private func serve(_ opening: Int) {
        BrokenPipeSignal.blockInCurrentThread()
        let cancelTimer = ContinuousClock().call(
            {
                self.fail(
                    opening,
                    DatabaseFailure(.unreachable, "The database accepts connections but does not respond."),
                    isStuck: true
                )
            },
            after: openTimeout
        )
        let link: Link
        do throws(DatabaseFailure) {
            defer { cancelTimer() }
            link = try open(.requests)
        } catch {
            return fail(opening, error, isStuck: false)
        }
        let (generation, next) = state.withLock { state -> (Int, Int?) in
            if state.openings.remove(opening) == nil { state.stuck -= 1 }
            state.outage = nil
            state.links.append(link)
            state.looking += 1
            return (state.generation, addThread(&state))
        }
        if let next { startThread(next) }
        serve(with: link, generation)
        link.close()
        let other = state.withLock { state in
            state.threads -= 1
            state.links.removeAll { $0 === link }
            // Another thread must execute the request for which this thread was woken.
            if !state.waiting.isEmpty { state.wake() }
            return addThread(&state)
        }
        if let other { startThread(other) }
    }

    private func serve(with link: Link, _ generation: Int) {
        let thread = DispatchSemaphore(value: 0)
        var generation = generation
        var isChecked = true
        while let job = nextJob(thread, generation, &isChecked) {
            // A server or middlebox may have closed the connection while it was idle.
            guard isChecked || link.isIdle else {
                return state.withLock { $0.waiting = [job] + $0.waiting }
            }
            guard job.begin(on: link) else {
                state.withLock { state in
                    state.looking += 1
                    state.ended = max(0, state.ended - 1)
                }
                continue
            }
            let response: Result<Link.Response, DatabaseFailure>
            do throws(DatabaseFailure) {
                response = try link.response(to: job.request)
            } catch {
                return job.end(.failure(DatabaseFailure(.unknownOutcome, error.message)))
            }
            isChecked = false
            // This must precede the caller's resumption, so that its next request can use this connection.
            generation = state.withLock { state in
                state.looking += 1
                return state.generation
            }
            job.end(response.mapError { $0 })
        }
    }

    /// Waits for the next request.
    /// - Parameters:
    ///   - thread: Wakes this thread.
    ///   - isChecked: Set to false when the connection has been idle.
    /// - Returns: nil when the connection must be closed.
    private func nextJob(_ thread: DispatchSemaphore, _ generation: Int, _ isChecked: inout Bool) -> Job? {
        // This clock continues to advance while the system is suspended.
        let idleUntil = ContinuousClock.now + Self.idleTimeout
        while true {
            let rest = ContinuousClock.now.duration(to: idleUntil)
            let (job, isOver) = state.withLock { state -> (Job?, Bool) in
                state.looking -= 1
                guard state.generation == generation, !state.isClosed, rest > .zero else { return (nil, true) }
                if let job = state.waiting.popFirst() {
                    // The slice would retain the requests and their responses.
                    if state.waiting.isEmpty { state.waiting = [] }
                    return (job, false)
                }
                state.idle.append(thread)
                return (nil, false)
            }
            if job != nil || isOver { return job }
            isChecked = false
            _ = thread.wait(timeout: .now() + rest.seconds)
            state.withLock { state in
                // Otherwise, ``State/wake()`` has already counted this thread.
                guard let index = state.idle.firstIndex(where: { $0 === thread }) else { return }
                state.idle.remove(at: index)
                state.looking += 1
            }
        }
    }

    // MARK: Messages

    func listen() {
        let isFirst = state.withLock { state in
            defer { state.isListening = true }
            return !state.isListening
        }
        guard isFirst, !DetachedThread.run({ self.receiveMessages() }) else { return }
        state.withLock { $0.isListening = false }
    }

    private func receiveMessages() {
        BrokenPipeSignal.blockInCurrentThread()
        var outage: DatabaseOutage?
        while !state.withLock({ $0.isClosed }) {
            do throws(DatabaseFailure) {
                let link = try open(.messages)
                defer { link.close() }
                outage = nil
                state.withLock { state in
                    state.listener = link
                    if state.isClosed { link.interrupt() }
                }
                onMessage(.connected)
                while true { for message in try link.messages() { onMessage(.message(message)) } }
            } catch {
                let next = DatabaseOutage(error, after: outage)
                outage = next
                usleep(UInt32(next.pause / .microseconds(1)))
            }
        }
    }
}
