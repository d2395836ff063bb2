import AuthFlow
import AuthFlowEssentials
import Synchronization

/// Whether a process can serve users now, for the readiness check of a load balancer.
public struct Readiness: Sendable, Hashable {
    /// What is not ready, each a sentence for the operator; empty when the process is ready.
    public let problems: [String]

    /// Whether the process is ready.
    public var isReady: Bool { problems.isEmpty }
}

extension SessionServer {
    /// Looks whether the store can be read, whether each provider's metadata is known, and whether the process is not about to end.
    ///
    /// Metadata that was fetched before counts while the provider is away: users who are signed in need it less than the process. Give the
    /// check a route that only the load balancer reaches, or a limit of its own: each call reads the store.
    public func readiness() async -> Readiness {
        var problems: [String] = []
        if isDraining.load(ordering: .relaxed) { problems.append("The process is about to end.") }
        let key = RecordKey(name: "readiness", issuer: providers[0].client.server.issuer, clientID: "", kind: .claim)
        do {
            _ = try await store.bytes(for: key)
        } catch {
            problems.append("The store cannot be read: \(DisplayText.sanitized("\(error)"))")
        }
        for provider in providers {
            do {
                _ = try await provider.client.metadata()
            } catch {
                let name = provider.name.isEmpty ? "the provider" : "the provider \(provider.name)"
                problems.append("The metadata of \(name) is not known: \(DisplayText.sanitized("\(error)"))")
            }
        }
        return Readiness(problems: problems)
    }
}
