import AuthFlow
import AuthFlowSystem
import Synchronization

/// A bounded pool of connections to one database, driven by one thread.
///
/// A connection serves one request at a time. It is opened when no connection is free for a request, and closed when
/// it has been idle for a while. Connections are opened on a separate thread, because a DNS lookup may block.
package final class DatabaseLoop<Link: DatabaseLink>: Sendable {
    package typealias Open = @Sendable (DatabaseLinkUse) throws(DatabaseFailure) -> Link

    package struct Limits: Sendable {
        /// The maximum number of connections for requests. Further requests wait for a free connection.
        package var connections = 4
        /// The maximum number of pending requests.
        package var waiting = 10_000
        /// The timeout of a request, including the wait for a connection.
        package var request = Duration.seconds(5)
        /// The time for which the database may be unavailable before requests fail immediately.
        package var outage = Duration.seconds(2)
        /// The idle timeout of a connection.
        package var idle = Duration.seconds(60)

        package init(connections: Int = 4) { self.connections = connections }
    }

    final class Job: Sendable {
        let request: Link.Request
        let deadline: ContinuousClock.Instant
        let result = FirstResult<Link.Response>()

        init(_ request: Link.Request, deadline: ContinuousClock.Instant) {
            self.request = request
            self.deadline = deadline
        }
    }

    private struct State {
        var added: [Job] = []
        /// The results, since the loop's last iteration, of attempts to open a connection.
        var opened: [(use: DatabaseLinkUse, result: Result<Link, DatabaseFailure>)] = []
        var pipe: WakeUpPipe?
        /// Whether to receive messages from other processes.
        var isListening = false
        var isClosed = false
        /// The number of requests that the loop has not completed.
        var pending = 0
    }

    private let limits: Limits
    private let open: Open
    private let onMessage: @Sendable (DatabaseMessage) -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - limits: The limits.
    ///   - open: Opens a connection, and blocks until it is established.
    ///   - onMessage: Receives the messages from other processes, on the loop's thread. It must not block.
    package init(
        limits: Limits,
        open: @escaping Open,
        onMessage: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        self.limits = limits
        self.open = open
        self.onMessage = onMessage
    }

    /// The number of pending requests, including those that wait for a connection.
    package var pending: Int { state.withLock(\.pending) }

    /// Sends a request and waits for the response. If the task is cancelled, the method returns immediately; the
    /// request may or may not be executed.
    /// - Throws: ``DatabaseFailure`` or `CancellationError`.
    package func response(to request: Link.Request) async throws -> Link.Response {
        let job = Job(request, deadline: .now + limits.request)
        return try await job.result.value {
            begin(job)
        } onCancel: {
        }
    }

    /// Starts receiving messages from other processes.
    package func listen() {
        let pipe = state.withLock { state -> WakeUpPipe?? in
            guard !state.isListening, !state.isClosed else { return nil }
            state.isListening = true
            return wake(&state)
        }
        if let pipe { start(pipe) }
    }

    /// Closes the connections. Requests in progress fail.
    package func close() {
        state.withLock { state in
            state.isClosed = true
            state.pipe?.wakeUp()
        }
    }

    private func begin(_ job: Job) {
        let (accepted, pipe) = state.withLock { state -> (Bool, WakeUpPipe??) in
            guard !state.isClosed, state.pending < limits.waiting else { return (false, nil) }
            state.pending += 1
            state.added.append(job)
            return (true, wake(&state))
        }
        guard accepted else {
            return job.result.finish(
                .failure(DatabaseFailure(.unreachable, "Too many requests are pending, or the store was closed."))
            )
        }
        if let pipe { start(pipe) }
    }

    /// - Returns: The wake-up pipe for the thread that the caller must start (an inner nil if no pipe could be
    ///   created); nil if the thread is already running.
    private func wake(_ state: inout State) -> WakeUpPipe?? {
        if let pipe = state.pipe {
            pipe.wakeUp()
            return nil
        }
        state.pipe = WakeUpPipe()
        return .some(state.pipe)
    }

    private func start(_ pipe: WakeUpPipe?) {
        guard let pipe, DetachedThread.run({ self.run(pipe) }) else {
            let added = state.withLock { state in
                defer { (state.added, state.pipe, state.pending, state.isListening) = ([], nil, 0, false) }
                return state.added
            }
            let failure = DatabaseFailure(.unreachable, "The system lacks the resources to open a database connection.")
            for job in added { job.result.finish(.failure(failure)) }
            return
        }
    }

    private func run(_ pipe: WakeUpPipe) {
        BrokenPipeSignal.blockInCurrentThread()
        var work = DatabaseWork<Link>(limits: limits, wakeUp: pipe)
        while true {
            pipe.empty()
            let (added, opened, isListening, isClosed) = state.withLock { state in
                defer { (state.added, state.opened) = ([], []) }
                return (state.added, state.opened, state.isListening, state.isClosed)
            }
            work.add(added)
            for connection in opened { work.add(connection.result, for: connection.use, report: onMessage) }
            work.isListening = isListening
            let finished = work.advance(onMessage)
            let isOver = state.withLock { state in
                state.pending -= finished
                guard state.added.isEmpty, state.opened.isEmpty, state.isListening == isListening,
                    isClosed || work.isIdle
                else { return false }
                state.pipe = nil
                return true
            }
            if isOver { return work.end() }
            for use in work.connectionsToOpen() {
                let hasThread = DetachedThread.run { [open] in
                    BrokenPipeSignal.blockInCurrentThread()
                    let result = Result { () throws(DatabaseFailure) in try open(use) }
                    let isLate = self.state.withLock { state -> Bool in
                        // The loop that requested the connection may have exited in the meantime.
                        guard state.pipe === pipe else { return true }
                        state.opened.append((use, result))
                        pipe.wakeUp()
                        return false
                    }
                    if isLate, case .success(let link) = result { link.close() }
                }
                if !hasThread {
                    let failure = DatabaseFailure(.unreachable, "The system cannot create another thread.")
                    work.add(.failure(failure), for: use, report: onMessage)
                }
            }
            work.wait()
        }
    }
}

/// An event on a listening connection.
package enum DatabaseMessage: Sendable {
    /// The connection is new: messages may have been missed.
    case connected
    case message(String)
}

/// The database connections of a store. They are closed when the last reference to this object is released.
package final class Database<Link: DatabaseLink>: Sendable {
    private let loop: DatabaseLoop<Link>

    /// Creates the pool without opening a connection. The parameters are the same as for ``DatabaseLoop``.
    package init(
        connections: Int,
        open: @escaping DatabaseLoop<Link>.Open,
        onMessage: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        loop = DatabaseLoop(limits: .init(connections: connections), open: open, onMessage: onMessage)
    }

    deinit { loop.close() }

    /// Sends a request and waits for the response.
    package func response(to request: Link.Request) async throws -> Link.Response {
        try await loop.response(to: request)
    }

    /// The number of pending requests, including those that wait for a connection.
    package var pending: Int { loop.pending }

    /// Starts receiving messages from other processes.
    package func listen() { loop.listen() }
}
