#if canImport(CAllocationCounter)
import CAllocationCounter
#endif

/// Times two pieces of work against each other in one run: batches of each in turn, so that whatever else the machine
/// does affects both alike.
struct Comparison {
    /// Median nanoseconds of one piece of the work under test.
    let subject: Double
    /// Median nanoseconds of one piece of what it is compared with.
    let baseline: Double
    /// The median of the ratios of neighbouring batches.
    let ratio: Double

    static func of(
        batches: Int = 101,
        size: Int = 50,
        subject: () async throws -> Void,
        baseline: () async throws -> Void
    ) async rethrows -> Comparison {
        let clock = ContinuousClock()
        var pairs: [(Double, Double)] = []
        for _ in 0..<batches {
            let start = clock.now
            for _ in 0..<size { try await subject() }
            let middle = clock.now
            for _ in 0..<size { try await baseline() }
            let end = clock.now
            pairs.append(((middle - start) / .nanoseconds(size), (end - middle) / .nanoseconds(size)))
        }
        return Comparison(
            subject: median(pairs.map(\.0)),
            baseline: median(pairs.map(\.1)),
            ratio: median(pairs.map { $0.0 / $0.1 })
        )
    }

    private static func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
}

/// Allocations of one piece of work, on average over many; nil where they cannot be counted.
func allocations(of work: () async throws -> Void) async rethrows -> Double? {
    #if canImport(CAllocationCounter)
    for _ in 0..<20 { try await work() }
    let before = allocation_count()
    for _ in 0..<1000 { try await work() }
    return Double(allocation_count() - before) / 1000
    #else
    return nil
    #endif
}
