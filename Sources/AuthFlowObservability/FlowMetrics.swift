#if Observability
public import AuthFlow
public import Metrics

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension FlowEvent {
    /// An observer that measures every step with swift-metrics.
    ///
    /// | metric | kind | labels |
    /// |---|---|---|
    /// | `authflow_step_duration` | timer | `step`, `outcome` (`succeeded`, `failed`, `cancelled`), `code` (of the error, or `none`) |
    /// | `authflow_sessions_ended` | counter | `reason` |
    /// | `authflow_leases_lost` | counter | |
    ///
    /// No label has a value that a user or a provider chooses.
    ///
    /// ```swift
    /// let server = try SessionServer(client: client, store: store, options: options, observer: FlowEvent.metrics())
    /// ```
    /// - Parameter factory: Makes the metrics; default: the one that the program has bootstrapped.
    public static func metrics(factory: (any MetricsFactory)? = nil) -> @Sendable (FlowEvent) -> Void {
        let steps = OpenSteps<Date>()
        return { event in
            let factory = factory ?? MetricsSystem.factory
            if event.progress == .began { steps.begin(event) { _ in event.time } }
            if let outcome = event.outcome, let start = steps.end(event) {
                let labels = [("step", event.step.rawValue), ("outcome", outcome.name), ("code", outcome.code)]
                Timer(label: "authflow_step_duration", dimensions: labels, factory: factory)
                    .recordNanoseconds(Int64(max(0, event.time.timeIntervalSince(start)) * 1e9))
            }
            if event.step == .sessionEnd {
                let labels = [("reason", event.details["reason"] ?? "unknown")]
                Counter(label: "authflow_sessions_ended", dimensions: labels, factory: factory).increment()
            }
            if event.details["lease"] == "lost" {
                Counter(label: "authflow_leases_lost", factory: factory).increment()
            }
        }
    }
}
#endif
