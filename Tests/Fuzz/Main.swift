import Foundation
import Synchronization

/// Feeds every target with inputs made from a seed, and says so when one is accepted that must not be, or takes too long.
///
///     fuzz [count of inputs in all] [seed] [target]
@main enum Main {
    /// What is being fed, for the watchman and for whoever wants to see it again.
    private static let current = Mutex<(target: String, seed: UInt64, number: Int)>(("", 0, 0))

    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        let count = arguments.first.flatMap { Int($0) } ?? 100_000
        let seed = arguments.dropFirst().first.flatMap { UInt64($0) } ?? 1
        let targets = try Target.all().filter { arguments.count < 3 || $0.name == arguments.last }
        watch()
        for target in targets {
            let start = ContinuousClock.now
            let share = max(1, count / targets.count)
            for number in 0..<share {
                // Each input has a seed of its own, so that any of them can be made again alone.
                let own = seed &* 1_000_003 &+ UInt64(number)
                current.withLock { $0 = (target.name, own, number) }
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
    }

    /// Ends the run when one input takes longer than any may.
    private static func watch() {
        Thread.detachNewThread {
            var last = current.withLock { $0 }
            while true {
                Thread.sleep(forTimeInterval: 20)
                let now = current.withLock { $0 }
                if now.number == last.number, now.target == last.target {
                    print("fuzz: \(now.target), input \(now.number) hangs")
                    exit(2)
                }
                last = now
            }
        }
    }
}
