import ArgumentParser
import Dispatch
import Foundation

/// Turns Ctrl-C and a request to terminate into cancellation, so that ports, locks and children are freed.
struct Signals {
    /// How long cancelled work may take to clean up.
    private static let grace = DispatchTimeInterval.seconds(3)

    private let sources: [any DispatchSourceSignal]

    init(cancel: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "signals")
        sources = [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
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
