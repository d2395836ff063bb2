#if Observability
public import AuthFlow
import AuthFlowEssentials
public import Metrics

extension FlowEvent {
    /// An observer that uses swift-metrics to measure every step whose start and end are reported (not `forwarding`).
    ///
    /// | metric | kind | labels |
    /// |---|---|---|
    /// | `authflow_step_duration` | timer | `step`, `outcome` (`succeeded`, `failed`, `cancelled`), `code` (of the error, `unknown`, or `none`) |
    /// | `authflow_sessions_ended` | counter | `reason` |
    /// | `authflow_leases_lost` | counter | |
    ///
    /// Label values are never chosen by a user or a provider.
    ///
    /// ```swift
    /// let server = try SessionServer(client: client, store: store, options: options, observer: FlowEvent.metrics())
    /// ```
    /// - Parameter factory: Creates the metrics; default: the factory with which `MetricsSystem` was bootstrapped.
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
                // The provider chooses the code, so only known codes become labels.
                let known = [
                    "invalid_grant", "invalid_client", "unauthorized_client", "access_denied", "interaction_required",
                    "another_user",
                ]
                let labels = [("reason", known.first { $0 == event.details["reason"] } ?? "other")]
                Counter(label: "authflow_sessions_ended", dimensions: labels, factory: factory).increment()
            }
            if event.details["lease"] == "lost" {
                Counter(label: "authflow_leases_lost", factory: factory).increment()
            }
        }
    }
}
#endif
