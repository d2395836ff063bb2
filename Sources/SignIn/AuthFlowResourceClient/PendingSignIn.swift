import AuthFlowEssentials
import AuthFlowOAuth
import AuthFlowSignIn
import AuthFlowStorage
import Synchronization

/// A sign-in whose outcome the resource's record does not contain yet. It is recorded by the sign-in itself, or after an interruption.
struct PendingSignIn: Sendable {
    let unfinished: ResourceRecord.Unfinished
    let client: AuthClient
    /// The registration to store if the sign-in has succeeded; nil for a registration that is stored already.
    var registration: StoredRegistration?
    /// The record at the start of the sign-in.
    let previous: ResourceRecord
    var hasEnded = false
    /// Whether the sign-in has succeeded and is recorded, but its tokens are not stored yet.
    var isUnsaved = false
}

extension ResourceClient {
    /// Whether an operation that must complete is in progress: ``drain(within:)`` waits for such operations.
    package var hasUnfinishedWork: Bool { state.withLock { $0.clients }.contains(where: \.hasUnfinishedWork) }

    /// See ``AuthClient/stopSending()``.
    package func stopSending() {
        let clients = state.withLock { state in
            state.isStopping = true
            return state.clients
        }
        for client in clients { client.stopSending() }
    }

    /// See ``AuthClient/hasPendingResponse``.
    package var hasPendingResponse: Bool { state.withLock { $0.clients }.contains(where: \.hasPendingResponse) }

    /// See ``AuthClient/drain(within:)``.
    public func drain(within waitTimeout: Duration = .seconds(3)) async -> Bool {
        let elapsed = host.clock.stopwatch()
        let clients = state.withLock { $0.clients }
        // Run concurrently, so that a slow server of one client does not use up the time in which the tokens of the others are stored.
        let isDone = await clients.concurrentMap { await $0.drain(within: waitTimeout) }.allSatisfy(\.self)
        guard isDone, state.withLock({ !$0.pendingSignIns.isEmpty }) else { return isDone }
        try? await withDeadline(max(.zero, waitTimeout - elapsed()), clock: host.clock) {
            AuthError(.timedOut, "The outcome of the sign-in was not recorded in time.")
        } _: { [self] in
            await finishPendingSignIns()
        }
        return state.withLock(\.endedSignIns.isEmpty)
    }

    /// Records the sign-ins whose tokens have been stored since.
    func finishUnsavedSignIns() async {
        let isPossible = state.withLock { state in
            state.pendingSignIns.contains { $0.isUnsaved && !$0.client.hasUnfinishedWork }
        }
        if isPossible { await finishPendingSignIns() }
    }

    /// Records the outcomes of sign-ins that have ended. A code exchange that was cancelled is completed first, and its tokens are stored.
    func finishPendingSignIns() async {
        let (all, ended) = state.withLock { ($0.pendingSignIns, Set($0.endedSignIns.map(\.unfinished.id))) }
        for pending in all where !pending.client.hasUnfinishedWork {
            do {
                let unfinished = pending.unfinished
                let stored = try await pending.client.credential()
                let hasTokens = stored.map { $0.signedInAt >= unfinished.start } ?? false
                guard hasTokens || ended.contains(unfinished.id) else { continue }
                if hasTokens, let registration = pending.registration {
                    try await registrations.save(registration, for: redirectURI)
                }
                let record = try await changeRecord {
                    if pending.isUnsaved, stored == nil {
                        $0.discard(unfinished.id)
                    } else {
                        $0.finish(unfinished, hasTokens: hasTokens, replacing: pending.previous)
                    }
                }
                state.withLock { state in
                    state.pendingSignIns.removeAll { $0.unfinished.id == unfinished.id }
                    if pending.isUnsaved { state.storageError = nil }
                    if hasTokens { (state.known, state.isLoaded) = (record.current, true) }
                }
            } catch {
                // The sign-in remains unfinished, so that a sign-out finds its tokens.
            }
        }
    }
}
