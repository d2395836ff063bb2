import AuthFlow
import AuthFlowDatabase
import Synchronization

/// Runs calls to a connection one after another, on a thread that lives for as long as there are some: a call may wait for the disk.
final class SQLiteLane: Sendable {
    private struct State {
        var jobs: ArraySlice<@Sendable () -> Void> = []
        var isRunning = false
        var connection: (SQLiteConnection, FileIdentity)?
    }

    private let state = Mutex(State())
    private let file: SQLiteFile

    init(file: SQLiteFile) { self.file = file }

    /// Runs a call. It is made, whatever becomes of the caller.
    func run<Value: Sendable>(
        _ call: @escaping @Sendable (SQLiteConnection) throws(DatabaseFailure) -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            add {
                continuation.resume(
                    with: Result { () throws(DatabaseFailure) in try call(try self.connection()) }.mapError {
                        $0 as any Error
                    }
                )
            }
        }
    }

    private func add(_ job: @escaping @Sendable () -> Void) {
        let isFirst = state.withLock { state in
            state.jobs.append(job)
            defer { state.isRunning = true }
            return !state.isRunning
        }
        // Without another thread the caller's own has to do.
        if isFirst, !DetachedThread.run({ self.work() }) { work() }
    }

    private func work() {
        while let job = next() { job() }
    }

    private func next() -> (@Sendable () -> Void)? {
        state.withLock { state in
            guard let job = state.jobs.popFirst() else {
                state.isRunning = false
                return nil
            }
            return job
        }
    }

    /// The connection to the file that is at the path now: what is written to one that was removed is in no other process's sight, and
    /// gone with this one. Called by the thread alone.
    private func connection() throws(DatabaseFailure) -> SQLiteConnection {
        if let (connection, identity) = state.withLock({ $0.connection }), identity == file.identity {
            return connection
        }
        // Closed here, and not under the lock.
        let outdated = state.withLock { $0.connection.take() }
        _ = consume outdated
        let opened = try file.open()
        guard let identity = file.identity else {
            throw DatabaseFailure(.unreachable, "The file of the database was removed while it was opened.")
        }
        state.withLock { $0.connection = (opened, identity) }
        return opened
    }
}
