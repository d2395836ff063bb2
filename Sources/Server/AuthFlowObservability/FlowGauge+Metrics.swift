#if Observability
public import AuthFlow
public import Metrics

extension FlowGauge {
    /// Records figures with swift-metrics, each under its name. Call it at the intervals of the metrics' export.
    ///
    /// ```swift
    /// FlowGauge.record(server.gauges)
    /// ```
    /// - Parameters:
    ///   - gauges: The figures.
    ///   - factory: Makes the metrics; default: the one that the program has bootstrapped.
    public static func record(_ gauges: [Self], factory: (any MetricsFactory)? = nil) {
        let factory = factory ?? MetricsSystem.factory
        for gauge in gauges {
            let labels = gauge.labels.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
            Metrics.Gauge(label: gauge.name, dimensions: labels, factory: factory).record(gauge.value)
        }
    }
}
#endif
