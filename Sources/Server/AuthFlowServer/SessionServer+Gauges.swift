public import AuthFlow
import Synchronization

extension SessionServer {
    /// The current metrics of this process, for monitoring. ``/AuthFlow/FlowGauge/description`` is a line in
    /// Prometheus' text format.
    ///
    /// The ``/AuthFlow/CredentialManager/gauges`` and these metrics, except the last, have the `provider` label:
    ///
    /// | gauge | |
    /// |---|---|
    /// | `authflow_sign_ins_beginning` | sign-ins that are being started: at most 32; the rest are rejected (503) |
    /// | `authflow_sign_ins_ending` | authorization responses that are being handled: at most 32; the rest are rejected (503) |
    /// | `authflow_keys_fetch_failed` | 1 if the last fetch of the provider's keys failed |
    /// | `authflow_keys_age_seconds` | age of the keys, used for at most a day; absent before the first fetch |
    /// | `authflow_is_draining` | 1 when the process is shutting down |
    ///
    /// The metrics of each provider's transport (`authflow_requests_in_progress`, `authflow_requests_waiting`) also
    /// have this label. The transports of a process usually share their connections, and then report the same values.
    /// The store adds further metrics (`authflow_leases_held`, `authflow_lease_waiters`, `authflow_writes_unfinished`,
    /// `authflow_store_statements`).
    ///
    /// Do not expose a route with these metrics to clients.
    public var gauges: [FlowGauge] {
        let ofProviders = providers.flatMap { provider in
            let own = [
                FlowGauge("authflow_sign_ins_beginning", provider.signIns.count),
                FlowGauge("authflow_sign_ins_ending", provider.callbacks.count),
            ]
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
        // Prometheus' text format requires all lines of a metric to be adjacent.
        return (ofProviders + ofStore + own).sorted { $0.name < $1.name }
    }
}
