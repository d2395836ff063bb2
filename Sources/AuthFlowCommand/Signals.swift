import ArgumentParser
import Dispatch
import Foundation
import Synchronization

/// Turns Ctrl-C, a request to terminate and the end of the terminal into cancellation, so that ports, sockets, locks and
/// children are freed, and a refresh under way is written down. A second signal ends the program at once.
struct Signals {
    /// How long cancelled work may take to clean up: what is under way has three seconds, and the rest one.
    private static let grace = DispatchTimeInterval.seconds(4)

    private let sources: [any DispatchSourceSignal]

    init(cancel: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "signals")
        let wasTold = Told()
        sources = [SIGINT, SIGTERM, SIGHUP].compactMap { number in
            // nohup(1) and its kin start a program with the signal ignored, and mean it.
            let before = signal(number, SIG_IGN)
            let wasIgnored = unsafe unsafeBitCast(before, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
            if number == SIGHUP, wasIgnored { return nil }
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler {
                guard !wasTold.again() else { _exit(ExitStatus.cancelled.rawValue) }
                cancel()
                // What does not react to cancellation must not hold the user up.
                queue.asyncAfter(deadline: .now() + Self.grace) { _exit(ExitStatus.cancelled.rawValue) }
            }
            source.resume()
            return source
        }
        signal(SIGPIPE, SIG_IGN)
        // Ctrl-\ ends the program as it ends others. Swift's runtime would take it for a crash, and show its memory.
        signal(SIGQUIT, SIG_DFL)
    }

    /// Whether the program was told to stop before.
    private final class Told: Sendable {
        private let wasTold = Atomic(false)
        func again() -> Bool { wasTold.exchange(true, ordering: .relaxed) }
    }
}
