import AuthFlowOAuth
import AuthFlowStorage
import Synchronization

extension ManagedCredential {
    /// Writes a refreshed credential. If the write fails, the credential is still valid, but only this process has it.
    /// - Parameters:
    ///   - basis: The basis of the operation that obtained the credential.
    ///   - changesSession: As for ``write(_:_:_:attributes:changesSession:)``.
    func save(
        _ credential: Credential,
        in accounts: inout StoredAccounts,
        _ lease: Lease,
        _ basis: CredentialMachine.Basis,
        changesSession: Bool = false
    ) async {
        let old = accounts.entry(of: credential.account)
        accounts.set(.signedIn(credential), isCurrent: false)
        do {
            try await reporter().step(.storing) { [accounts] in
                try await write(accounts, lease, basis, changesSession: changesSession)
            }
        } catch {
            let hasLostLease = (error as? AuthError).map { $0.indicatesLostLease } ?? false
            if hasLostLease { reportLostLease() }
            state.withLock {
                $0.machine.writeFailed(
                    credential,
                    replacing: .entry(old),
                    isSignIn: false,
                    lostLease: hasLostLease ? lease : nil,
                    basis.epoch
                )
            }
            // Other processes would send the old refresh token, which has already been used.
            if !hasLostLease {
                state.withLock { $0.unwrittenLease = lease }
                retryWrites()
            }
        }
    }

    /// Runs an operation that may refresh tokens under an exclusive lease. If the lease is lost in the meantime, the
    /// tokens are written under a new lease, whether or not the operation succeeds.
    /// - Throws: Any error thrown by `body`; ``Outdated`` when the tokens were not written, because another holder has
    ///   changed the record since.
    func withRefreshLease<Return: Sendable>(_ body: (Lease) async throws -> Return) async throws -> Return {
        let result: Result<Return, any Error>
        var held: Lease?
        do {
            result = .success(
                try await store.withLease(on: key) { lease in
                    held = lease
                    return try await body(lease)
                }
            )
        } catch {
            result = .failure(error)
        }
        let isStored = if let held { await writeAfterLostLease(held) } else { true }
        let value = try result.get()
        guard isStored else { throw Outdated() }
        return value
    }

    /// Writes tokens that were refreshed under a lease that has been lost, unless another holder has refreshed or removed them.
    /// - Returns: false if another holder has refreshed or removed them.
    private func writeAfterLostLease(_ lease: Lease) async -> Bool {
        let lost = state.withLock { $0.machine.takeLostCredential(of: lease) }
        guard let lost else { return true }
        let accounts = try? await store.withLease(on: key) { lease in try await latestAccounts(lease).known }
        if state.withLock({ $0.machine.hasUnsaved }) { retryWrites() }
        guard let accounts else { return true }
        return accounts.entry(of: lost.account)?.credential?.tokens.accessToken == lost.tokens.accessToken
    }

    /// Retries writing the unsaved credentials until a write succeeds or none are left, for as long as this object is
    /// in use.
    func retryWrites() {
        // The attempt is registered and removed under the lock. Otherwise, an attempt that has just saved the last credential could remove the
        // registration of the next attempt.
        let isFirst = state.withLock { state in
            guard !state.isRetrying else { return false }
            unfinished.registerUnsavedWrite(of: self) { [weak self] in await self?.writeUnsaved() ?? true }
            state.isRetrying = true
            return true
        }
        guard isFirst else { return }
        Task { [weak self, clock = client.host.clock] in
            var pause = Duration.seconds(1)
            while true {
                try? await clock.sleep(for: pause)
                pause = min(pause * 2, .seconds(2))
                guard let self else { return }
                guard await self.writeUnsaved() else { continue }
                return
            }
        }
    }

    /// Tries to write the unsaved credentials.
    /// - Returns: Whether no unsaved credentials are left.
    private func writeUnsaved() async -> Bool {
        _ = try? await unfinished.finish { [self] in
            // First try the lease under which the write failed, which the store may still accept. After its expiry,
            // other processes continue and would send the old refresh token.
            if let lease = state.withLock({ $0.unwrittenLease }) {
                do {
                    let (stored, known, basis) = try await read(under: lease)
                    if known != stored { try await write(known, lease, basis) }
                    return state.withLock { $0.unwrittenLease = nil }
                } catch let error as AuthError where error.indicatesLostLease {
                    state.withLock { $0.unwrittenLease = nil }
                }
            }
            try await store.withLease(on: key) { lease in _ = try await latestAccounts(lease) }
        }
        return state.withLock { state in
            guard !state.machine.hasUnsaved else { return false }
            state.isRetrying = false
            unfinished.removeUnsavedWrite(of: self)
            return true
        }
    }
}
