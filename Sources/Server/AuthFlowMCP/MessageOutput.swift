import AuthFlow
import AuthFlowSystem
import Synchronization

/// Writes messages to a file descriptor, one complete line at a time, on a separate thread, because a host that does
/// not read must not block the cooperative thread pool.
///
/// Small messages are written before pending large messages. A task waits until its own large message is written, so
/// the messages from one stream remain in order. After a failed write, for example because
/// the host has closed its end, all messages are discarded.
package final class MessageOutput: Sendable {
    private struct State {
        var small: [UInt8] = []
        var large: [(number: Int, line: [UInt8])] = []
        var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
        var last = 0
        var isWriting = false
        var hasFailed = false
    }

    /// The minimum size of a large message, and the total size of the buffered small messages above which their writers
    /// also wait, in bytes.
    private static let (largeSize, limit) = (64 * 1024, 16 * 1024 * 1024)

    private let descriptor: Int32
    private let onFailure: @Sendable (_ number: Int32) -> Void
    private let state = Mutex(State())

    /// - Parameter onFailure: Called once, with the error number of the first failed write.
    package init(descriptor: Int32, onFailure: @escaping @Sendable (_ number: Int32) -> Void = { _ in }) {
        self.descriptor = descriptor
        self.onFailure = onFailure
    }

    /// The number of large messages that are being written or waiting to be written.
    package var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// - Parameter line: The message, without a newline.
    @Sendable package func write(_ line: [UInt8]) async {
        guard line.count >= Self.largeSize else { return await writeSmall(line) }
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let mustStart = state.withLock { state -> Bool? in
                    guard !Task.isCancelled, !state.hasFailed else { return nil }
                    state.large.append((number, line))
                    state.waiting[number] = continuation
                    return start(&state)
                }
                guard let mustStart else { return continuation.resume() }
                if mustStart { beginDraining() }
            }
        } onCancel: {
            // A message whose write has started is written completely.
            let waiter = state.withLock { state in
                state.large.removeAll { $0.number == number }
                return state.waiting.removeValue(forKey: number)
            }
            waiter?.resume()
        }
    }

    private func writeSmall(_ line: [UInt8]) async {
        // Polling is sufficient, because the buffer is full only while a host does not read.
        while state.withLock({ $0.small.count > Self.limit }) {
            guard (try? await Task.sleep(for: .milliseconds(5))) != nil else { return }
        }
        let mustStart = state.withLock { state in
            guard !state.hasFailed else { return false }
            state.small += line
            state.small.append(0x0A)
            return start(&state)
        }
        if mustStart { beginDraining() }
    }

    private func start(_ state: inout State) -> Bool {
        defer { state.isWriting = true }
        return !state.isWriting
    }

    private func beginDraining() {
        if !DetachedThread.run({ self.drain() }) { drain() }
    }

    private func drain() {
        while true {
            let (small, large) = state.withLock { state -> ([UInt8], (number: Int, line: [UInt8])?) in
                defer { state.small = [] }
                guard state.small.isEmpty else { return (state.small, nil) }
                guard state.large.isEmpty else { return ([], state.large.removeFirst()) }
                state.isWriting = false
                return ([], nil)
            }
            var failure: Int32?
            if let large {
                if !SystemCall.write(large.line, to: descriptor) || !SystemCall.write([0x0A], to: descriptor) {
                    failure = errno
                }
                state.withLock { $0.waiting.removeValue(forKey: large.number) }?.resume()
            } else if small.isEmpty {
                return
            } else {
                if !SystemCall.write(small, to: descriptor) { failure = errno }
            }
            if let failure { return fail(failure) }
        }
    }

    private func fail(_ number: Int32) {
        // Before `isWriting` is reset: `finish` must not return earlier.
        onFailure(number)
        let waiting = state.withLock { state in
            defer { (state.small, state.large, state.waiting) = ([], [], [:]) }
            (state.isWriting, state.hasFailed) = (false, true)
            return Array(state.waiting.values)
        }
        for waiter in waiting { waiter.resume() }
    }

    /// Waits at most two seconds for all output to be written, because the host may have stopped reading.
    package func finish() async {
        for _ in 0..<400 where state.withLock({ $0.isWriting }) { try? await Task.sleep(for: .milliseconds(5)) }
    }
}
