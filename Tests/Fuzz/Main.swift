import Dispatch
import Foundation
import Synchronization

/// Feeds every target inputs that are generated from a seed, and reports an input that is wrongly accepted or takes
/// too long.
///
///     fuzz [total number of inputs] [seed] [target]
@main enum Main {
    /// The current input.
    private static let current = Mutex<(target: String, number: Int)>(("", 0))

    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        let count = arguments.first.flatMap { Int($0) } ?? 100_000
        let seed = arguments.dropFirst().first.flatMap { UInt64($0) } ?? 1
        let targets = try Target.all().filter { arguments.count < 3 || $0.name == arguments.last }
        guard !targets.isEmpty else {
            print("fuzz: there is no target \(arguments.last ?? "")")
            exit(2)
        }
        let watch = watch()
        for target in targets {
            let start = ContinuousClock.now
            let share = max(1, count / targets.count)
            for number in 0..<share {
                // Each input has a separate seed, so that it can be reproduced individually.
                let own = seed &* 1_000_003 &+ UInt64(number)
                current.withLock { $0 = (target.name, number) }
                alarm(inputTimeout)
                var mutator = Mutator(generator: SeededGenerator(seed: own))
                do {
                    try await target.feed(&mutator)
                } catch {
                    print("fuzz: \(target.name), input \(number) of seed \(seed): \(error)")
                    exit(1)
                }
            }
            print(
                "\(target.name): \(share) inputs in \((ContinuousClock.now - start).formatted(.units(allowed: [.seconds, .milliseconds])))"
            )
        }
        withExtendedLifetime(watch) {}
    }

    /// The maximum time for an input, in seconds.
    private static let inputTimeout: UInt32 = 20

    /// Reports a hanging input and terminates the run when the input's alarm (`SIGALRM`) expires.
    private static func watch() -> any DispatchSourceSignal {
        signal(SIGALRM, SIG_IGN)
        let source = DispatchSource.makeSignalSource(signal: SIGALRM)
        source.setEventHandler {
            let (target, number) = current.withLock { $0 }
            print("fuzz: \(target), input \(number) hangs")
            exit(2)
        }
        source.resume()
        return source
    }
}
