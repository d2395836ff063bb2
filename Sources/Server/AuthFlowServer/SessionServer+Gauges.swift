public import AuthFlow
import Synchronization

extension SessionServer {
    /// The current metrics of this process, for monitoring. ``/AuthFlow/FlowGauge/description`` is a line that Prometheus reads.
    ///
    /// Those with the label `provider` are the metrics of ``/AuthFlow/CredentialManager/gauges``, and:
    ///
    /// | gauge | |
    /// |---|---|
    /// | `authflow_sign_ins_beginning` | at most 32; further ones get 503 |
    /// | `authflow_keys_fetch_failed` | 1 after a fetch of the provider's keys has failed |
    /// | `authflow_keys_age_seconds` | since the provider's keys were fetched; absent before that. They are used for a day at most |
    /// | `authflow_is_draining` | 1 when the process is shutting down |
    ///
    /// The metrics of each provider's transport (`authflow_requests_in_progress`, `authflow_requests_waiting`) have that label, too; the
    /// transports of a process usually share their connections, and then have the same values. The store adds its own (`authflow_leases_held`,
    /// `authflow_lease_waiters`, `authflow_writes_unfinished`, `authflow_store_statements`).
    ///
    /// Do not expose a route with them to clients.
    public var gauges: [FlowGauge] {
        let ofProviders = providers.flatMap { provider in
            let own = [FlowGauge("authflow_sign_ins_beginning", provider.signIns.count)]
            let server = provider.client.server
            let ofTransport = (server.transport as? any GaugeSource)?.gauges ?? []
            return (provider.credentials.gauges + own + server.gauges + ofTransport).map { gauge in
                var gauge = gauge
                gauge.labels["provider"] = provider.name
                return gauge
            }
        }
        let ofStore = (store as? any GaugeSource)?.gauges ?? []
        let own = [FlowGauge("authflow_is_draining", isDraining.load(ordering: .relaxed) ? 1 : 0)]
        // Prometheus' text format requires the lines of one name to be adjacent.
        return (ofProviders + ofStore + own).sorted { $0.name < $1.name }
    }
}
