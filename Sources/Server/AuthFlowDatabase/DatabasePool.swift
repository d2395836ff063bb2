import AuthFlow
import AuthFlowSystem
import Dispatch
import Synchronization

/// A bounded pool of connections to one database. Each connection has its own thread, on which its calls block.
///
/// A connection is opened when no connection is free for a request, and closed when it has been idle for a while.
final class DatabasePool<Link: DatabaseLink>: Sendable {
    private typealias Job = DatabaseJob<Link>

    /// The idle timeout of a connection, in seconds.
    private static var idleTimeout: Double { 60 }
    /// The maximum number of requests that wait for a connection.
    private static var maximumWaiting: Int { 10_000 }

    private struct State {
        var waiting: ArraySlice<DatabaseJob<Link>> = []
        /// The threads for requests: those that are opening a connection, those that wait for a request, and the others.
        var (threads, opening, idle) = (0, 0, 0)
        /// Increased when a request has timed out: older connections are probably broken, too.
        var generation = 0
        var outage: DatabaseOutage?
        var hasRetryTimer = false
        /// Whether to receive messages from other processes, and the connection that receives them.
        var isListening = false
        var listener: Link?
        var isClosed = false

        var isConnected: Bool { threads > opening }

        /// Adds a thread if a waiting request needs another connection.
        mutating func addThread(limit: Int) -> Bool {
            guard waiting.count > idle + opening, threads < limit else { return false }
            // While the database is unavailable, one attempt at a time is enough.
            if let outage { guard opening == 0, outage.mayRetry else { return false } }
            (threads, opening) = (threads + 1, opening + 1)
            return true
        }
    }

    private let connections: Int
    private let requestTimeout: Duration
    private let open: @Sendable (DatabaseLinkUse) throws(DatabaseFailure) -> Link
    private let onMessage: @Sendable (DatabaseMessage) -> Void
    private let state = Mutex(State())
    /// Signalled once for each request that an idle thread should take.
    private let available = DispatchSemaphore(value: 0)

    /// - Parameter requestTimeout: The timeout of a request, including the wait for a connection.
    init(
        connections: Int,
        requestTimeout: Duration = .seconds(5),
        open: @escaping @Sendable (DatabaseLinkUse) throws(DatabaseFailure) -> Link,
        onMessage: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        self.connections = connections
        self.requestTimeout = requestTimeout
        self.open = open
        self.onMessage = onMessage
    }

    var pending: Int { state.withLock { $0.waiting.count { $0.isWaiting } + $0.threads - $0.opening - $0.idle } }

    func response(to request: Link.Request) async throws -> Link.Response {
        let job = Job(request)
        let cancelTimer = ContinuousClock().call({ self.expire(job) }, after: requestTimeout)
        defer { cancelTimer() }
        return try await job.result.value {
            begin(job)
        }
    }

    /// Closes the connections. There are no requests, because each of them retains the ``Database``.
    func close() {
        state.withLock { state in
            state.isClosed = true
            state.listener?.interrupt()
            for _ in 0..<state.idle { available.signal() }
        }
    }

    private func begin(_ job: Job) {
        let (failure, isAdded) = state.withLock { state -> (DatabaseFailure?, Bool) in
            guard state.waiting.count < Self.maximumWaiting else {
                return (DatabaseFailure(.unreachable, "Too many requests are pending."), false)
            }
            if let outage = state.outage, outage.isLasting, !outage.mayRetry, !state.isConnected, state.opening == 0 {
                return (outage.failure, false)
            }
            state.waiting.append(job)
            if state.idle > 0 { available.signal() }
            return (nil, addThread(&state))
        }
        if let failure { job.end(.failure(failure)) }
        if isAdded { startThread() }
    }

    private func expire(_ job: Job) {
        let reason = state.withLock { $0.outage?.failure.message } ?? "The database has no free connection."
        guard job.expire(reason) else { return }
        state.withLock { state in
            state.generation += 1
            for _ in 0..<state.idle { available.signal() }
        }
    }

    // MARK: Threads

    /// Adds a thread, which the caller must start, if it is needed. If it is too early for another attempt to connect, a timer is started.
    private func addThread(_ state: inout State) -> Bool {
        if state.addThread(limit: connections) { return true }
        if let outage = state.outage, !state.waiting.isEmpty, state.opening == 0, !state.hasRetryTimer {
            state.hasRetryTimer = true
            _ = ContinuousClock().call({ self.retry() }, after: outage.pause)
        }
        return false
    }

    private func retry() {
        let isAdded = state.withLock { state in
            state.hasRetryTimer = false
            return addThread(&state)
        }
        if isAdded { startThread() }
    }

    private func startThread() {
        guard !DetachedThread.run({ self.serve() }) else { return }
        fail(DatabaseFailure(.unreachable, "The system cannot create another thread."))
    }

    /// Records that no connection could be opened.
    private func fail(_ failure: DatabaseFailure) {
        let (jobs, isAdded) = state.withLock { state -> (ArraySlice<Job>, Bool) in
            (state.threads, state.opening) = (state.threads - 1, state.opening - 1)
            let outage = DatabaseOutage(failure, after: state.outage)
            state.outage = outage
            guard outage.isLasting, !state.isConnected, state.opening == 0 else { return ([], addThread(&state)) }
            defer { state.waiting = [] }
            return (state.waiting, false)
        }
        for job in jobs { job.end(.failure(failure)) }
        if isAdded { startThread() }
    }

    /// Opens a connection, and serves requests with it.
    private func serve() {
        BrokenPipeSignal.blockInCurrentThread()
        let link: Link
        do throws(DatabaseFailure) { link = try open(.requests) } catch { return fail(error) }
        var generation = state.withLock { state in
            (state.opening, state.outage) = (state.opening - 1, nil)
            return state.generation
        }
        var isNew = true
        while let job = nextJob(generation) {
            // A server or middlebox may have closed the connection while it was idle.
            guard isNew || link.isIdle else {
                state.withLock { $0.waiting = [job] + $0.waiting }
                break
            }
            guard job.begin(on: link) else { continue }
            do throws(DatabaseFailure) {
                job.end(try link.response(to: job.request).mapError { $0 })
            } catch {
                job.end(.failure(DatabaseFailure(.unknownOutcome, error.message)))
                break
            }
            isNew = false
            generation = state.withLock { $0.generation }
        }
        link.close()
        let isAdded = state.withLock { state in
            state.threads -= 1
            return addThread(&state)
        }
        if isAdded { startThread() }
    }

    /// Waits for the next request.
    /// - Returns: nil when the connection must be closed.
    private func nextJob(_ generation: Int) -> Job? {
        var isIdleForTooLong = false
        while true {
            let (job, isOver) = state.withLock { state -> (Job?, Bool) in
                guard state.generation == generation, !state.isClosed else { return (nil, true) }
                if let job = state.waiting.popFirst() { return (job, false) }
                guard !isIdleForTooLong else { return (nil, true) }
                state.idle += 1
                return (nil, false)
            }
            if job != nil || isOver { return job }
            isIdleForTooLong = available.wait(timeout: .now() + Self.idleTimeout) == .timedOut
            state.withLock { $0.idle -= 1 }
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
