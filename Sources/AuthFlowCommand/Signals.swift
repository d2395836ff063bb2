import ArgumentParser
import Dispatch
import Foundation

/// Turns Ctrl-C, a request to terminate and the end of the terminal into cancellation, so that ports, sockets, locks and
/// children are freed.
struct Signals {
    /// How long cancelled work may take to clean up.
    private static let grace = DispatchTimeInterval.seconds(3)

    private let sources: [any DispatchSourceSignal]

    init(cancel: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "signals")
        sources = [SIGINT, SIGTERM, SIGHUP].compactMap { number in
            // nohup(1) and its kin start a program with the signal ignored, and mean it.
            let before = signal(number, SIG_IGN)
            let wasIgnored = unsafe unsafeBitCast(before, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
            if number == SIGHUP, wasIgnored { return nil }
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler {
                cancel()
                // What does not react to cancellation must not hold the person up.
                queue.asyncAfter(deadline: .now() + Self.grace) { _exit(ExitStatus.cancelled.rawValue) }
            }
            source.resume()
            return source
        }
        signal(SIGPIPE, SIG_IGN)
    }
}
