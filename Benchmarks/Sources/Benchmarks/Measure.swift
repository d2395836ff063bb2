#if canImport(CAllocationCounter)
import CAllocationCounter
#endif

/// Compares the times of two operations in one run. Batches of both alternate, so that other load on the machine
/// affects both equally.
struct Comparison {
    /// The median time of the measured operation, in nanoseconds.
    let subject: Double
    /// The median time of the reference operation, in nanoseconds.
    let baseline: Double
    /// The median of the ratios of adjacent batches.
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

/// The average number of allocations per operation; nil where allocations cannot be counted.
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
