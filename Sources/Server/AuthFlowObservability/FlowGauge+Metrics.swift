#if Observability
public import AuthFlow
public import Metrics

extension FlowGauge {
    /// Records gauges with swift-metrics, each under its name. Call this method each time you export
    /// metrics.
    ///
    /// ```swift
    /// FlowGauge.record(server.gauges)
    /// ```
    /// - Parameters:
    ///   - gauges: The gauges.
    ///   - factory: Creates the metrics; default: the factory with which `MetricsSystem` was bootstrapped.
    public static func record(_ gauges: [Self], factory: (any MetricsFactory)? = nil) {
        let factory = factory ?? MetricsSystem.factory
        for gauge in gauges {
            let labels = gauge.labels.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
            Metrics.Gauge(label: gauge.name, dimensions: labels, factory: factory).record(gauge.value)
        }
    }
}
#endif
