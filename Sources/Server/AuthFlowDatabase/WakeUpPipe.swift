import AuthFlowSystem

/// Wakes a thread that is polling file descriptors.
final class WakeUpPipe: Sendable {
    /// The descriptor to poll.
    let readEnd: Int32
    private let writeEnd: Int32

    /// - Returns: nil when the process has no file descriptors left.
    init?() {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { return nil }
        (readEnd, writeEnd) = (ends[0], ends[1])
        for end in ends {
            _ = fcntl(end, F_SETFL, fcntl(end, F_GETFL) | O_NONBLOCK)
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
        }
    }

    deinit {
        close(readEnd)
        close(writeEnd)
    }

    /// Wakes the thread. If the pipe is full, the thread wakes anyway.
    func wakeUp() {
        var byte: UInt8 = 0
        _ = unsafe write(writeEnd, &byte, 1)
    }

    /// Drains the pipe before the thread checks for new work.
    func empty() {
        var bytes = [UInt8](repeating: 0, count: 256)
        while unsafe read(readEnd, &bytes, bytes.count) > 0 {}
    }
}
