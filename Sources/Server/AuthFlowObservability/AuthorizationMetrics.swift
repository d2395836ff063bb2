#if Observability
public import AuthFlowResourceServer
public import Metrics

extension AuthorizationDecision {
    /// An observer that measures an API's authorization decisions with swift-metrics. It records the timer
    /// `authflow_authorization_duration` with the `outcome` label (`authorized`, `unauthenticated`, or the error code
    /// of the response).
    ///
    /// ```swift
    /// let api = try ResourceServer(resource, issuers: issuers, observer: AuthorizationDecision.metrics())
    /// ```
    /// - Parameter factory: Creates the metrics; default: the factory with which `MetricsSystem` was bootstrapped.
    public static func metrics(
        factory: (any MetricsFactory)? = nil
    ) -> @Sendable (AuthorizationDecision) -> Void {
        { decision in
            let factory = factory ?? MetricsSystem.factory
            let labels = [("outcome", decision.outcome)]
            Timer(label: "authflow_authorization_duration", dimensions: labels, factory: factory)
                .recordNanoseconds(Int64(decision.duration / .nanoseconds(1)))
        }
    }
}
#endif
