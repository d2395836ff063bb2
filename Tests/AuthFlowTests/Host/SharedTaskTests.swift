import AuthFlow
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct SharedTaskTests {
    private final class Arrivals: Sendable {
        private let value = Atomic(0)
        var count: Int { value.load(ordering: .relaxed) }
        func add() -> Int { value.add(1, ordering: .relaxed).newValue }
    }

    /// A client can send any number of concurrent requests with the same token, and all of them wait for one introspection.
    @Test("The time is proportional to the number of waiting tasks", arguments: [false, true])
    func waitsInLinearTime(areCancelled: Bool) async throws {
        let count = 60_000
        let (results, finish) = AsyncStream.makeStream(of: Void.self)
        let shared = SharedTask { for await _ in results {} }
        let arrivals = Arrivals()
        let succeeded = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<count {
                group.addTask {
                    if arrivals.add() == count, !areCancelled { finish.finish() }
                    return (try? await shared.value()) != nil
                }
            }
            if areCancelled {
                while arrivals.count < count { await Task.yield() }
                group.cancelAll()
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        finish.finish()
        #expect(succeeded == (areCancelled ? 0 : count))
    }
}
