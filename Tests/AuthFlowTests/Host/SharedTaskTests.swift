import AuthFlow
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct SharedTaskTests {
    /// A client can send any number of concurrent requests with the same token, and all of them wait for one introspection.
    @Test("The time is proportional to the number of waiting tasks", arguments: [false, true])
    func waitsInLinearTime(areCancelled: Bool) async throws {
        let count = 60_000
        let (results, finish) = AsyncStream.makeStream(of: Void.self)
        let shared = SharedTask { for await _ in results {} }
        let arrived = Atomic(0)
        let succeeded = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<count {
                group.addTask {
                    if arrived.add(1, ordering: .relaxed).newValue == count, !areCancelled { finish.finish() }
                    return (try? await shared.value()) != nil
                }
            }
            if areCancelled {
                while arrived.load(ordering: .relaxed) < count { await Task.yield() }
                group.cancelAll()
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        finish.finish()
        #expect(succeeded == (areCancelled ? 0 : count))
    }
}
