import AuthFlowHTTP
package import Crypto
import Synchronization

/// A cache of stretched keys by salt, because key stretching is deliberately slow (a tenth of a second, and 32 MiB of memory).
package final class DerivedKeys: Sendable {
    private struct State {
        /// The finished and the running derivations.
        var tasks: [[UInt8]: SharedTask<SymmetricKey>] = [:]
        var trustedSalt: [UInt8]?
    }

    /// The maximum number of keys. A new record reuses the salt of any record that this process has
    /// read or written before, so there are usually few salts.
    private static let limit = 64

    private let state = Mutex(State())

    package init() {}

    /// The key for a salt. Concurrent callers share one derivation, which continues if a caller is cancelled.
    /// - Throws: Any error thrown by `derive`, which the next call repeats, or `CancellationError`.
    package func key(
        for salt: [UInt8],
        derive: @escaping @Sendable () async throws -> SymmetricKey
    ) async throws -> SymmetricKey {
        let task = state.withLock { state -> SharedTask<SymmetricKey> in
            if let task = state.tasks[salt] { return task }
            if state.tasks.count >= Self.limit { state.tasks.removeAll() }
            let task = SharedTask { [self] in
                do {
                    return try await derive()
                } catch {
                    self.state.withLock { $0.tasks[salt] = nil }
                    throw error
                }
            }
            state.tasks[salt] = task
            return task
        }
        return try await task.value()
    }

    /// Sets the salt for new records: the random salt of a record that this passphrase encrypts. An attacker who can write to the base store
    /// could choose the salt of any other record.
    func trust(_ salt: [UInt8]) { state.withLock { $0.trustedSalt = salt } }

    /// The salt for new records.
    /// - Parameter new: The random salt to use if this process has neither read nor written a record that this passphrase encrypts.
    func trustedSalt(orNew new: [UInt8]) -> [UInt8] {
        state.withLock { state in
            let salt = state.trustedSalt ?? new
            state.trustedSalt = salt
            return salt
        }
    }
}
