import AuthFlowHTTP

#if os(Linux)
import CCurl
import Synchronization

/// A thread that drives the transfers of one or more transports, via libcurl's multi interface (libcurl-multi(3)).
///
/// It starts with the first transfer and sleeps until a socket or another thread wakes it up. After the idle
/// timeout, it closes its connections and exits.
final class CurlLoop: Sendable {
    static let shared = CurlLoop()

    /// The maximum number of idle connections.
    private static let maximumIdleConnections = 256

    /// The idle timeout of the thread. Servers close idle connections after a similar time.
    private static let idleTime = Duration.seconds(60)

    private struct State {
        var added: [CurlTransfer] = []
        var cancelled: [CurlTransfer] = []
        var resumed: [CurlTransfer] = []
        var isRunning = false
        var multi: CurlMulti?
        /// The load that the thread recorded before it went to sleep.
        var load: [ConnectionPool: (running: Int, waiting: Int)] = [:]
    }

    private let state = Mutex(State())

    /// The number of transfers in progress, and the number of transfers waiting for a connection, for each pool.
    var load: [ConnectionPool: (running: Int, waiting: Int)] { state.withLock(\.load) }

    /// Starts a transfer; callable from any thread.
    func begin(_ transfer: CurlTransfer) {
        let mustStart = state.withLock { state in
            state.added.append(transfer)
            state.multi?.wakeUp()
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if mustStart, !DetachedThread.run({ self.run() }) {
            end(AuthError(.networkFailed, "The system could not create the thread that network access requires."))
        }
    }

    /// Cancels a transfer whose caller is no longer waiting; callable from any thread.
    func cancel(_ transfer: CurlTransfer) {
        state.withLock { state in
            // If the thread is not running, the transfer has ended, or will not start because it already has a result.
            guard state.isRunning else { return }
            state.cancelled.append(transfer)
            state.multi?.wakeUp()
        }
    }

    /// Resumes a paused transfer; callable from any thread.
    func resume(_ transfer: CurlTransfer) {
        state.withLock { state in
            guard state.isRunning else { return }
            state.resumed.append(transfer)
            state.multi?.wakeUp()
        }
    }

    /// Fails all pending transfers, because the thread or libcurl is unavailable.
    private func end(_ error: AuthError) {
        let added = state.withLock { state in
            defer { state = State() }
            return state.added
        }
        for transfer in added { transfer.end(error) }
    }

    private func run() {
        BrokenPipeSignal.blockInCurrentThread()
        let opened = authflow_curl_open()
        guard opened == AUTHFLOW_CURL_READY, let multi = CurlMulti() else {
            return end(CurlFailure.unavailable(opened))
        }
        // If too many files are open, libcurl creates no sockets for this, and does not report it. Every later request would wait for up to a minute,
        // for as long as the thread runs.
        guard multi.wakeUp() else {
            return end(
                AuthError(
                    .networkFailed,
                    "The system could not create the sockets that network access requires. Too many files may be open."
                )
            )
        }
        // Requests wait in ``TransferQueue``, never in libcurl, which would send them even after their timeouts.
        multi.set(AUTHFLOW_CURL_MAX_CONNECTS, Self.maximumIdleConnections)
        state.withLock { $0.multi = multi }
        var transfers = RunningTransfers(multi: multi)
        var idleSince = ContinuousClock.now
        while true {
            let (added, cancelled, resumed) = state.withLock { state in
                defer { (state.added, state.cancelled, state.resumed) = ([], [], []) }
                return (state.added, state.cancelled, state.resumed)
            }
            for transfer in added { transfers.add(transfer) }
            for transfer in cancelled { transfers.cancel(transfer) }
            for transfer in resumed { transfer.resume() }
            let now = ContinuousClock.now
            multi.perform()
            transfers.completeFinishedTransfers()
            // Only now, and as of a time before `perform`: a response that arrived while the process or the system was suspended is not discarded,
            // because it may contain a rotated refresh token.
            transfers.failTransfers(timedOutAt: now)
            transfers.resumeRejectedUploads()
            let load = transfers.load
            state.withLock { $0.load = load }
            if transfers.isEmpty {
                let isOver = state.withLock { state in
                    guard state.added.isEmpty, state.cancelled.isEmpty, state.resumed.isEmpty,
                        idleSince.duration(to: .now) >= Self.idleTime
                    else { return false }
                    state = State()
                    return true
                }
                if isOver { return }
                multi.wait(Self.idleTime)
            } else {
                multi.wait(transfers.timeUntilTimeoutCheck)
                idleSince = .now
            }
        }
    }
}

/// The transfers that are waiting, and the transfers that libcurl is processing. Only the loop's thread uses them.
private struct RunningTransfers {
    private struct Running {
        let transfer: CurlTransfer
        let easy: CurlEasy
    }

    private let multi: CurlMulti
    private var queue = TransferQueue()
    private var running: [UInt: Running] = [:]
    private var handles: [ObjectIdentifier: UInt] = [:]
    private var uploads: [UInt: CurlTransfer] = [:]
    /// The time of the next check for expired transfers. No deadline is earlier than this time.
    private var nextTimeoutCheck = ContinuousClock.now + maximumPollTimeout

    private static let maximumPollTimeout = Duration.seconds(60)
    private static let rejectedUploadPollTimeout = Duration.milliseconds(50)

    init(multi: CurlMulti) { self.multi = multi }

    var isEmpty: Bool { running.isEmpty && queue.isEmpty }

    var load: [ConnectionPool: (running: Int, waiting: Int)] { queue.load }

    mutating func add(_ transfer: CurlTransfer) {
        guard !transfer.result.isFinished else { return }
        // Regardless of state changes, the transfer's first deadline is not earlier than this time.
        nextTimeoutCheck = min(nextTimeoutCheck, .now + transfer.minimumTimeout)
        if let next = queue.add(transfer) { begin(next) }
    }

    /// Starts a transfer to which the queue has assigned a slot.
    private mutating func begin(_ transfer: CurlTransfer) {
        do throws(AuthError) {
            try start(transfer)
        } catch {
            transfer.end(error)
            releaseSlot(transfer)
        }
    }

    /// Releases the slot of a transfer, and starts the waiting transfers that now have slots.
    private mutating func releaseSlot(_ transfer: CurlTransfer) {
        for next in queue.releaseSlot(transfer) { begin(next) }
    }

    private mutating func start(_ transfer: CurlTransfer) throws(AuthError) {
        // Each transfer gets a new handle: before libcurl 8, a reused handle retains a dangling pointer to a header
        // field, which is read when a response begins with a folded line.
        guard let easy = CurlEasy() else {
            throw AuthError(.networkFailed, "There is not enough memory for another request.")
        }
        try transfer.prepare(easy)
        guard multi.add(easy) else {
            throw AuthError(.networkFailed, "libcurl could not accept another request.")
        }
        running[easy.identifier] = Running(transfer: transfer, easy: easy)
        handles[ObjectIdentifier(transfer)] = easy.identifier
        if transfer.isUpload { uploads[easy.identifier] = transfer }
    }

    mutating func cancel(_ transfer: CurlTransfer) {
        end(transfer, CancellationError())
    }

    /// Aborts a transfer that libcurl has not completed, or that has not started.
    private mutating func end(_ transfer: CurlTransfer, _ error: any Error) {
        if let identifier = handles[ObjectIdentifier(transfer)] {
            remove(identifier)
        } else if !queue.remove(transfer) {
            return
        }
        transfer.end(error)
    }

    mutating func completeFinishedTransfers() {
        while let (identifier, result) = multi.nextEnded() {
            guard let entry = running[identifier] else { continue }
            // The transfer ends before its handle is removed, because the handle contains the details of the result.
            entry.transfer.end(result)
            remove(identifier)
        }
    }

    /// Resumes rejected uploads, because libcurl detects the end of the response only while sending is not paused.
    func resumeRejectedUploads() {
        for transfer in uploads.values where transfer.isRejected { transfer.resume() }
    }

    var timeUntilTimeoutCheck: Duration {
        let pause =
            uploads.values.contains(where: \.isRejected) ? Self.rejectedUploadPollTimeout : Self.maximumPollTimeout
        return min(max(.zero, ContinuousClock.now.duration(to: nextTimeoutCheck)), pause)
    }

    /// Ends the transfers that have timed out while waiting for a connection or a response.
    /// - Parameter now: A time before libcurl last read from the sockets.
    mutating func failTransfers(timedOutAt now: ContinuousClock.Instant) {
        guard now >= nextTimeoutCheck else { return }
        nextTimeoutCheck = now + Self.maximumPollTimeout
        for transfer in running.values.map(\.transfer) + queue.waiting {
            let next = transfer.deadline
            if let (deadline, error) = next, deadline <= now {
                end(transfer, error)
            } else {
                // A state change, such as the start of a waiting transfer, may be followed by an earlier deadline.
                nextTimeoutCheck = min(nextTimeoutCheck, next?.0 ?? nextTimeoutCheck, now + transfer.minimumTimeout)
            }
        }
    }

    private mutating func remove(_ identifier: UInt) {
        guard let entry = running.removeValue(forKey: identifier) else { return }
        handles[ObjectIdentifier(entry.transfer)] = nil
        uploads[identifier] = nil
        multi.remove(entry.easy)
        releaseSlot(entry.transfer)
    }
}
#endif
