import AuthFlow
import AuthFlowDatabase
import Synchronization

/// Runs calls to a connection one after another, on a thread that lives for as long as there are some: a call may wait for the disk.
final class SQLiteLane: Sendable {
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var isRunning = false
        /// The jobs that the thread has taken out and not done.
        var taken = 0
        var opened: Opened?
    }

    private struct Opened {
        let connection: SQLiteConnection
        let file: FileIdentity
        /// The log beside it, once there is one.
        var log: FileIdentity?
    }

    private let state = Mutex(State())
    private let file: SQLiteFile

    init(file: SQLiteFile) { self.file = file }

    deinit {
        // Closing may write to the disk.
        if let connection = state.withLock({ $0.opened?.connection }) { DetachedThread.run { _ = connection } }
    }

    /// How many calls are in progress or wait.
    var pending: Int { state.withLock { $0.jobs.count + $0.taken } }

    /// Runs a call. It is made, whatever becomes of the caller.
    func run<Value: Sendable>(
        _ call: @escaping @Sendable (SQLiteConnection) throws(DatabaseFailure) -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            let isAdded = add {
                continuation.resume(
                    with: Result { () throws(DatabaseFailure) in try call(try self.connection()) }.mapError {
                        $0 as any Error
                    }
                )
            }
            guard !isAdded else { return }
            continuation.resume(
                throwing: DatabaseFailure(.unreachable, "More than \(Self.mostWaiting) calls wait for the database.")
            )
        }
    }

    /// The most calls that wait until the thread takes them up.
    private static let mostWaiting = 10_000

    /// - Returns: Whether there was room for it.
    private func add(_ job: @escaping @Sendable () -> Void) -> Bool {
        let (isAdded, isFirst) = state.withLock { state in
            guard state.jobs.count < Self.mostWaiting else { return (false, false) }
            state.jobs.append(job)
            defer { state.isRunning = true }
            return (true, !state.isRunning)
        }
        // Without another thread the caller's own has to do.
        if isFirst, !DetachedThread.run({ self.work() }) { work() }
        return isAdded
    }

    private func work() {
        while true {
            // Taken out whole: a job that is done, with what it wrote, stays in no array.
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

    /// The connection to the file that is at the path now: what is written to one that was removed is in no other process's sight, and
    /// gone with this one. Called by the thread alone.
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
            // SQLite would put the writes of the old file, which are in its log, into the new one.
            guard !isReplaced || found == nil || log == nil || log != opened.log else {
                throw DatabaseFailure(
                    .unusable,
                    "The file \(file.path) was replaced while it was in use. Stop every process that uses it, and remove \(file.path)-wal and \(file.path)-shm, which belong to the old one."
                )
            }
            state.withLock { $0.opened = nil }
        }
        let connection = try file.open()
        guard let before = file.identity, found == nil || before == found else {
            throw DatabaseFailure(.unreachable, "The file of the database was replaced while it was opened.")
        }
        state.withLock { $0.opened = Opened(connection: connection, file: before, log: nil) }
        return connection
    }
}
