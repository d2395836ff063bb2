import AuthFlow
import AuthFlowDatabase
import Synchronization

/// Runs calls to a connection serially on a separate thread, because a call may block on disk I/O. The thread exists
/// only while calls are pending.
final class SQLiteExecutor: Sendable {
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var isRunning = false
        /// The number of jobs that the thread has dequeued but not completed.
        var taken = 0
        var opened: Opened?
    }

    private struct Opened {
        let connection: SQLiteConnection
        let file: FileIdentity
        /// The write-ahead log, once it exists.
        var log: FileIdentity?
    }

    private let state = Mutex(State())
    private let file: SQLiteFile

    init(file: SQLiteFile) { self.file = file }

    deinit {
        // Closing the connection may write to the disk, so it happens on a separate thread.
        if let connection = state.withLock({ $0.opened?.connection }) { DetachedThread.run { _ = connection } }
    }

    /// The number of calls that are in progress or queued.
    var pending: Int { state.withLock { $0.jobs.count + $0.taken } }

    /// Runs a call. The call completes even if the caller is cancelled.
    /// - Parameter isEssential: Whether the call runs however long it has waited in the queue, because it writes data that exists only in this
    ///   process, or renews or ends a lease.
    func run<Value: Sendable>(
        isEssential: Bool = false,
        _ call: @escaping @Sendable (SQLiteConnection) throws(DatabaseFailure) -> Value
    ) async throws -> Value {
        let queuedAt = ContinuousClock.now
        return try await withCheckedThrowingContinuation { continuation in
            let isAdded = add {
                // Each call ahead of this one may have waited for another program to release its lock on the database. This call is not
                // retried, because a retry would have to wait as well.
                let isLate = queuedAt.duration(to: .now) >= Self.maximumWait
                guard isEssential || !isLate else {
                    let failure = DatabaseFailure(.refused, "The database was busy for too long. Try again later.")
                    return continuation.resume(throwing: failure)
                }
                continuation.resume(
                    with: Result { () throws(DatabaseFailure) in
                        let connection = try self.connection()
                        // A late call waits only briefly for the lock, so that the calls behind it are not delayed further. It is retried.
                        if isLate { connection.setBusyTimeout(SQLiteConnection.shortBusyTimeout) }
                        defer { if isLate { connection.setBusyTimeout(SQLiteConnection.busyTimeout) } }
                        return try call(connection)
                    }
                    .mapError { $0 as any Error }
                )
            }
            guard !isAdded else { return }
            continuation.resume(
                throwing: DatabaseFailure(.unreachable, "\(Self.mostWaiting) database calls are already queued.")
            )
        }
    }

    /// The maximum time that a call may spend in the queue, unless it is essential.
    private static let maximumWait = Duration.seconds(5)

    /// The maximum number of queued calls.
    private static let mostWaiting = 10_000

    /// - Returns: Whether the job was added to the queue; false if the queue is full.
    private func add(_ job: @escaping @Sendable () -> Void) -> Bool {
        let (isAdded, isFirst) = state.withLock { state in
            guard state.jobs.count < Self.mostWaiting else { return (false, false) }
            state.jobs.append(job)
            defer { state.isRunning = true }
            return (true, !state.isRunning)
        }
        // If no thread can be created, the caller's thread runs the jobs.
        if isFirst, !DetachedThread.run({ self.work() }) { work() }
        return isAdded
    }

    private func work() {
        while true {
            // All jobs are dequeued in one step, so that the queue's storage does not retain completed jobs and the
            // data that they wrote.
            let jobs = state.withLock { state in
                defer { state.jobs = [] }
                state.isRunning = !state.jobs.isEmpty
                state.taken = state.jobs.count
                return state.jobs
            }
            guard !jobs.isEmpty else { return }
            for job in jobs {
                job()
                state.withLock { $0.taken -= 1 }
            }
        }
    }

    /// Returns a connection to the file that is currently at the path. Data written to a removed file would be
    /// invisible to other processes, and lost when this process exits. Called only on the executor's thread.
    private func connection() throws(DatabaseFailure) -> SQLiteConnection {
        let (found, log) = (file.identity, file.logIdentity)
        if var opened = state.withLock({ $0.opened }) {
            let isReplaced = opened.file != found
            if !isReplaced, !opened.connection.isBroken, opened.log == nil || opened.log == log {
                if opened.log != log {
                    opened.log = log
                    state.withLock { $0.opened = opened }
                }
                return opened.connection
            }
            // SQLite would replay the log of the old file into the new one.
            guard !isReplaced || found == nil || log == nil || log != opened.log else {
                throw DatabaseFailure(
                    .unusable,
                    "The file \(file.path) was replaced while it was in use. Stop every process that uses it, and remove \(file.path)-wal and \(file.path)-shm, which belong to the old file."
                )
            }
            state.withLock { $0.opened = nil }
        }
        let connection = try file.open()
        guard let before = file.identity, found == nil || before == found else {
            throw DatabaseFailure(.unreachable, "The database file was replaced while it was being opened.")
        }
        state.withLock { $0.opened = Opened(connection: connection, file: before, log: nil) }
        return connection
    }
}
