import AuthFlow
import Synchronization

/// Whether a process can currently serve users, for a load balancer's readiness check.
public struct Readiness: Sendable, Hashable {
    /// The problems, each described for the operator; empty when the process is ready.
    public let problems: [String]

    /// Whether the process is ready.
    public var isReady: Bool { problems.isEmpty }
}

extension SessionServer {
    /// Checks that the store can be read, that the metadata of at least one provider is available, and that the process
    /// is not shutting down.
    ///
    /// Cached metadata suffices during a provider outage, and with several providers the metadata of one provider
    /// suffices, because users who are already signed in do not need the providers immediately. Each call reads the
    /// store, so do not expose the route to clients.
    public func readiness() async -> Readiness {
        var problems: [String] = []
        if isDraining.load(ordering: .relaxed) { problems.append("The process is shutting down.") }
        let key = RecordKey(name: "readiness", issuer: providers[0].client.server.issuer, clientID: "", kind: .claim)
        do {
            _ = try await store.bytes(for: key)
        } catch {
            problems.append("The store cannot be read: \(DisplayText.sanitized("\(error)"))")
        }
        var unknown: [String] = []
        for provider in providers {
            do {
                _ = try await provider.client.server.metadataWhileRevalidating()
            } catch {
                let name = provider.name.isEmpty ? "the provider" : "the provider \(provider.name)"
                unknown.append("The metadata of \(name) is not available: \(DisplayText.sanitized("\(error)"))")
            }
        }
        if unknown.count == providers.count { problems += unknown }
        return Readiness(problems: problems)
    }
}
