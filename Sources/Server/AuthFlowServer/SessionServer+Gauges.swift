public import AuthFlow
import Synchronization

extension SessionServer {
    /// The present figures of this process, for monitoring. ``/AuthFlow/FlowGauge/description`` is a line that Prometheus reads.
    ///
    /// Those with the label `provider` are the figures of ``/AuthFlow/CredentialManager/gauges``, and:
    ///
    /// | gauge | |
    /// |---|---|
    /// | `authflow_sign_ins_beginning` | at most 32; further ones get 503 |
    /// | `authflow_keys_age_seconds` | since the provider's keys were fetched; absent before that. They are used for a day at most |
    /// | `authflow_is_draining` | 1 when the process is about to end |
    ///
    /// The store adds its own (`authflow_leases_held`, `authflow_lease_waiters`, `authflow_writes_unfinished`, `authflow_store_statements`), and so
    /// does the transport (`authflow_requests_in_progress`, `authflow_requests_waiting`).
    ///
    /// Keep a route that shows them from clients.
    public var gauges: [FlowGauge] {
        let ofProviders = providers.flatMap { provider in
            let own = [FlowGauge("authflow_sign_ins_beginning", provider.signIns.count)]
            return (provider.credentials.gauges + own + provider.client.server.gauges).map { gauge in
                FlowGauge(gauge.name, gauge.value, labels: ["provider": provider.name])
            }
        }
        let sources: [Any] = [store, providers[0].client.server.transport]
        let ofSources = sources.flatMap { ($0 as? any GaugeSource)?.gauges ?? [] }
        return ofProviders + ofSources + [
            FlowGauge("authflow_is_draining", isDraining.load(ordering: .relaxed) ? 1 : 0)
        ]
    }
}
