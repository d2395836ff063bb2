package import AuthFlowHTTP
import Synchronization

/// The `state` values whose authorization responses were accepted, so that none is accepted twice in this process.
package final class UsedStates: Sendable {
    /// The maximum number of stored values; the oldest are removed first. A code is valid for only a few minutes.
    private static let limit = 8192

    private let states = Mutex<(recent: Set<Secret>, earlier: Set<Secret>)>(([], []))

    /// Marks a state as used.
    /// - Returns: false when it was already used.
    package func use(_ state: Secret) -> Bool {
        states.withLock { states in
            guard !states.earlier.contains(state), states.recent.insert(state).inserted else { return false }
            if states.recent.count >= Self.limit / 2 { states = ([], states.recent) }
            return true
        }
    }
}
