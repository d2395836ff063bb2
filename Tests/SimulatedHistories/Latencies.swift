import AuthFlowEssentials
package import AuthFlowSimulation
import Foundation

/// Latencies with a lognormal distribution, which approximates the latencies of networks.
package struct Latencies: Sendable {
    private let median: Duration
    private let deviation: Double

    /// - Parameters:
    ///   - median: The median.
    ///   - slow: The 99th percentile.
    package init(median: Duration, slow: Duration) {
        self.median = median
        // 2.326 standard deviations above the mean.
        self.deviation = log(slow / median) / 2.326
    }

    package func draw(_ random: inout SeededGenerator) -> Duration {
        // The Box-Muller transform: a fraction is never 1, so the logarithm is finite.
        let normal = (-2 * log(1 - random.fraction())).squareRoot() * cos(2 * Double.pi * random.fraction())
        return median * exp(deviation * normal)
    }
}
