import AuthFlow
import Synchronization

/// Writes lines for the user to a file descriptor on a separate thread. The output is rate-limited, because a server
/// can trigger it, and buffered, so that a host that does not read it cannot block the bridge.
package final class LogOutput: Sendable {
    /// The maximum number of lines per minute, and the maximum number of bytes that are buffered for a host that does
    /// not read.
    package static let (linesPerMinute, bufferSize) = (60, 64 * 1024)

    private struct State {
        var buffer: [UInt8] = []
        var isWriting = false
        var minute: ContinuousClock.Instant
        var lines = 0
        var omitted = 0
    }

    private let descriptor: Int32
    private let now: @Sendable () -> ContinuousClock.Instant
    private let state: Mutex<State>

    /// - Parameter now: The clock; default: the system's.
    package init(descriptor: Int32, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.descriptor = descriptor
        self.now = now
        self.state = Mutex(State(minute: now()))
    }

    /// Writes a line, or omits and counts it if a limit is exceeded.
    package func write(_ line: String) {
        let now = now()
        let mustStart = state.withLock { state -> Bool in
            if state.minute.duration(to: now) >= .seconds(60) { (state.minute, state.lines) = (now, 0) }
            guard state.lines < Self.linesPerMinute, state.buffer.count + line.utf8.count < Self.bufferSize else {
                state.omitted += 1
                return false
            }
            if state.omitted > 0 {
                state.buffer += "authflow: \(state.omitted) more messages were omitted.\n".utf8
                state.omitted = 0
            }
            state.lines += 1
            state.buffer += line.utf8
            state.buffer.append(0x0A)
            defer { state.isWriting = true }
            return !state.isWriting
        }
        // If no thread can be started, the line is written together with the next one.
        if mustStart, !DetachedThread.run({ self.drain() }) { state.withLock { $0.isWriting = false } }
    }

    private func drain() {
        while true {
            let part = state.withLock { state -> [UInt8] in
                defer { state.buffer = [] }
                state.isWriting = !state.buffer.isEmpty
                return state.buffer
            }
            if part.isEmpty { return }
            _ = SystemCall.write(part, to: descriptor)
        }
    }

    /// Waits only briefly for all output to be written, because the host may have stopped reading.
    package func finish() async {
        for _ in 0..<40 where state.withLock({ $0.isWriting }) { try? await Task.sleep(for: .milliseconds(5)) }
    }
}
