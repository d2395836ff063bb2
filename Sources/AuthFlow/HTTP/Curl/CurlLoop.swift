#if os(Linux)
import CCurl
import Synchronization

/// The one thread that drives all transfers of a process, by libcurl's multi interface (libcurl-multi(3)).
///
/// It begins with the first transfer, sleeps until a socket or another thread wakes it up, and ends with its
/// connections when it has had no work for a while.
final class CurlLoop: Sendable {
    static let shared = CurlLoop()

    /// How many connections there may be to one server, and in total. Further requests wait for a free one.
    private static let (maximumPerHost, maximumConnections) = (64, 256)

    /// How long the thread stays without work. Servers close idle connections after about as long.
    private static let idleTime = Duration.seconds(60)

    private struct State {
        var added: [CurlTransfer] = []
        var cancelled: [CurlTransfer] = []
        var isRunning = false
        var multi: CurlMulti?
    }

    private let state = Mutex(State())

    /// Begins a transfer, from any thread.
    func begin(_ transfer: CurlTransfer) {
        let mustStart = state.withLock { state in
            state.added.append(transfer)
            state.multi?.wakeUp()
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if mustStart, !DetachedThread.run({ self.run() }) {
            end(AuthError(.networkFailed, "The system refuses another thread, which the network needs."))
        }
    }

    /// Ends a transfer whose caller no longer waits, from any thread.
    func cancel(_ transfer: CurlTransfer) {
        state.withLock { state in
            // Without the thread there is no transfer: it has ended, or does not begin, because it has its result.
            guard state.isRunning else { return }
            state.cancelled.append(transfer)
            state.multi?.wakeUp()
        }
    }

    /// Ends all transfers that wait for a thread that cannot be started.
    private func end(_ error: AuthError) {
        let added = state.withLock { state in
            defer { state = State() }
            return state.added
        }
        for transfer in added { transfer.end(error) }
    }

    private func run() {
        let opened = authflow_curl_open()
        guard opened == AUTHFLOW_CURL_READY, let multi = CurlMulti() else {
            return end(CurlFailure.unavailable(opened))
        }
        multi.set(AUTHFLOW_CURL_MAX_HOST_CONNECTIONS, Self.maximumPerHost)
        multi.set(AUTHFLOW_CURL_MAX_TOTAL_CONNECTIONS, Self.maximumConnections)
        multi.set(AUTHFLOW_CURL_MAX_CONNECTS, Self.maximumConnections)
        state.withLock { $0.multi = multi }
        var transfers = RunningTransfers(multi: multi)
        var idleSince = ContinuousClock.now
        while true {
            let (added, cancelled) = state.withLock { state in
                defer { (state.added, state.cancelled) = ([], []) }
                return (state.added, state.cancelled)
            }
            for transfer in added { transfers.begin(transfer) }
            for transfer in cancelled { transfers.cancel(transfer) }
            multi.perform()
            transfers.endFinished()
            if transfers.isEmpty {
                let isOver = state.withLock { state in
                    guard state.added.isEmpty, state.cancelled.isEmpty, idleSince.duration(to: .now) >= Self.idleTime
                    else { return false }
                    state = State()
                    return true
                }
                if isOver { return }
                multi.wait(Self.idleTime)
            } else {
                // Once a second is often enough to look for silent servers.
                multi.wait(.seconds(1))
                idleSince = .now
                transfers.endSilent()
            }
        }
    }
}

/// The transfers that libcurl works on. It belongs to the loop's thread.
private struct RunningTransfers {
    private struct Running {
        let transfer: CurlTransfer
        let easy: CurlEasy
    }

    private let multi: CurlMulti
    private var running: [UInt: Running] = [:]
    private var handles: [ObjectIdentifier: UInt] = [:]
    private var lastLook = ContinuousClock.now

    init(multi: CurlMulti) { self.multi = multi }

    var isEmpty: Bool { running.isEmpty }

    mutating func begin(_ transfer: CurlTransfer) {
        guard !transfer.result.isFinished else { return }
        // A new handle each time. Before libcurl 8, a reused one keeps a dangling pointer to a header field, which is
        // read when a response begins with a folded line.
        guard let easy = CurlEasy() else {
            return transfer.end(AuthError(.networkFailed, "There is no memory for another request."))
        }
        do throws(AuthError) {
            try transfer.prepare(easy)
        } catch {
            return transfer.end(error)
        }
        guard multi.add(easy) else {
            return transfer.end(AuthError(.networkFailed, "libcurl does not accept another request."))
        }
        running[easy.identifier] = Running(transfer: transfer, easy: easy)
        handles[ObjectIdentifier(transfer)] = easy.identifier
    }

    mutating func cancel(_ transfer: CurlTransfer) {
        guard let identifier = handles[ObjectIdentifier(transfer)], let entry = remove(identifier) else { return }
        entry.transfer.end(CancellationError())
    }

    mutating func endFinished() {
        while let (identifier, result) = multi.nextEnded() {
            guard let entry = running[identifier] else { continue }
            // Before the handle is removed: it knows how the transfer ended.
            entry.transfer.end(result)
            remove(identifier)
        }
    }

    /// Ends the transfers whose servers have sent nothing for too long.
    mutating func endSilent() {
        let now = ContinuousClock.now
        guard lastLook.duration(to: now) >= .seconds(1) else { return }
        lastLook = now
        for (identifier, entry) in running {
            guard entry.transfer.isTooSilent(at: now) else {
                continue
            }
            remove(identifier)
            entry.transfer.end(entry.transfer.silenceError)
        }
    }

    @discardableResult private mutating func remove(_ identifier: UInt) -> Running? {
        guard let entry = running.removeValue(forKey: identifier) else { return nil }
        handles[ObjectIdentifier(entry.transfer)] = nil
        multi.remove(entry.easy)
        return entry
    }
}
#endif
