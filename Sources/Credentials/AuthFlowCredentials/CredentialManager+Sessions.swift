package import AuthFlowEssentials
package import AuthFlowOAuth
package import AuthFlowStorage

/// A credential found by a tag in a ``SessionTokenStore``.
package struct TaggedCredential: Sendable, Hashable {
    /// The key of its record. It contains the SHA-256 hash of the session identifier, not the identifier.
    package let key: RecordKey

    /// The credential; nil when its session has ended, or this process cannot read the record.
    package let credential: Credential?

    /// The time of the session's start or last use, accurate to the minute; without a confirmed removal, the time of the last refresh.
    package let lastUse: Date

    /// Whether the store has confirmed that this call removed the record; false if the response was lost, or another process may have removed it.
    package var isRemovalConfirmed = true
}

/// The sessions of many users, in a ``SessionTokenStore``. Methods that need such a store throw `invalid_configuration` with any other.
extension CredentialManager {
    /// Returns the stored credential, even if its access token has expired. If the store was read in the last ten
    /// seconds, the credential is returned from memory.
    /// - Throws: ``AuthError`` with `login_required` and the reason, or `storage_failed`.
    package func lastCredential(for key: CredentialKey) async throws -> Credential {
        try await using(key) { managed in
            if let known = managed.checkedCredential() { return known }
            return try await managed.lastCredential()
        }
    }

    /// Extends the idle timeout of a session.
    /// - Returns: Whether the session exists and has not ended.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func touch(_ key: CredentialKey) async throws -> Bool {
        try await store.sessions.touch(recordKey(for: key))
    }

    /// Finds credentials by a tag.
    /// - Throws: ``AuthError`` with `storage_failed`.
    package func credentials(tagged tag: RecordTag) async throws -> [TaggedCredential] {
        try await store.sessions.records(tagged: tag).filter { $0.key.kind == .credential }.map(tagged)
    }

    /// Removes credentials in every process, even during a refresh. The new tokens from such a refresh are discarded.
    /// Nothing is revoked.
    /// - Returns: The removed credentials, with the last valid tokens. Because the store's response may be lost, they include
    ///   credentials that another process may have removed at the same time; revoking their tokens again is harmless.
    /// - Throws: ``AuthError`` with `storage_failed`.
    @discardableResult
    package func remove(_ keys: [RecordKey]) async throws -> [TaggedCredential] {
        let store = try store.sessions
        // The removal completes even if the task is cancelled, because a user who signs out and closes the page must be
        // signed out.
        return try await unfinished.finish { [self] in
            // The cache is evicted last, because a request that reads the record before its removal would cache the tokens again.
            defer { for key in keys { evict(key.digest) } }
            // If the response to a removal is lost, the removal is retried, and the retry no longer finds the record.
            let before = await withTaskGroup { group in
                for key in keys { group.addTask { (key, try? await self.stored(key)?.credential) } }
                return await group.reduce(into: [RecordKey: Credential]()) { found, next in found[next.0] = next.1 }
            }
            let removed = try await store.remove(keys).map(tagged)
            let missing = before.filter { key, _ in !removed.contains { $0.key == key } }
            return removed
                + keys.compactMap { key in
                    missing[key].map {
                        TaggedCredential(key: key, credential: $0, lastUse: $0.obtainedAt, isRemovalConfirmed: false)
                    }
                }
        }
    }

    /// Changes the application's data in a session. The change completes even if the task is cancelled.
    package func changeApplicationData(
        of key: CredentialKey,
        _ body: @escaping @Sendable (Secret?) throws -> Secret?
    ) async throws -> Credential {
        try await unfinished.finish { [self] in
            try await using(key) { managed in
                try await managed.retryingAfterLostLease { try await managed.changeApplicationData(body) }
            }
        }
    }

    /// The record under a key, even if this process cannot read it; nil when there is none, in which case a cached copy is also dropped.
    /// The result is not cached.
    /// - Throws: ``AuthError`` with `storage_failed`.
    package func stored(_ key: RecordKey) async throws -> (credential: Credential?, key: RecordKey)? {
        do {
            guard let bytes = try await store.bytes(for: key) else {
                // Another process has removed the record, and the notification may have been lost.
                evict(key.digest)
                return nil
            }
            return ((try? StoredAccounts(serialized: bytes))?.entry(nil)?.credential, key)
        } catch let error as AuthError where error.code == .credentialUnusable {
            return (nil, key)
        }
    }

    /// Tokens for one of several resources of a grant.
    package func freshTokens(of key: CredentialKey, for resource: String) async throws -> TokenSet {
        try await using(key) { try await $0.tokens(for: resource, scopes: nil) }
    }

    /// Tokens that replace an access token that an API has rejected: newer tokens that another task or process has obtained, or the result of a
    /// refresh.
    /// - Parameters:
    ///   - resource: The resource of the access token, one of several resources of the grant; nil for the grant's main access token.
    ///   - age: The minimum age at which the token is refreshed. An API that rejects every token must not cause a refresh for each request.
    /// - Returns: nil when the token is too new, or the grant has no refresh token.
    package func tokens(
        of key: CredentialKey,
        for resource: String?,
        replacing rejected: Secret,
        olderThan age: Duration
    ) async throws -> TokenSet? {
        try await using(key) { managed in
            let grant = try await managed.lastCredential()
            let current: Credential? = if let resource { grant.tokens(for: resource, nil) } else { grant }
            guard let current else { return nil }
            guard current.tokens.accessToken == rejected else { return current.tokens }
            guard grant.tokens.refreshToken != nil,
                client.host.now().timeIntervalSince(current.obtainedAt) >= age.seconds
            else { return nil }
            let newer =
                if let resource {
                    try await managed.tokens(for: resource, scopes: nil, rejected: rejected)
                } else {
                    try await managed.credential(rejected: rejected).tokens
                }
            // During an outage of the provider, the tokens may be unchanged.
            return newer.accessToken == rejected ? nil : newer
        }
    }

    /// Starts a background task: a revocation, the removal of leftover records, or a call of the application's hooks. ``drain(within:)`` waits for
    /// its completion.
    package func beginCleanup(_ work: @escaping @Sendable () async -> Void) { _ = revocations.begin(work) }

    /// Causes the tokens obtained by a refresh in progress in any process to be revoked. Call it before ``remove(_:)``.
    package func revokeLateTokens(of keys: [RecordKey]) async throws {
        for key in keys { try await store.sessions.recordSignOut(of: key) }
    }

    private func tagged(_ record: TaggedRecord) -> TaggedCredential {
        TaggedCredential(
            key: record.key,
            credential: (try? StoredAccounts(serialized: record.bytes))?.entry(nil)?.credential,
            lastUse: record.lastUse
        )
    }
}

extension TokenStore {
    /// The store, which must support sessions.
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    var sessions: any SessionTokenStore {
        get throws(AuthError) {
            guard let sessions = self as? any SessionTokenStore else {
                throw AuthError(
                    .invalidConfiguration,
                    "The store does not support sessions: its records have no expiry and no tags."
                )
            }
            return sessions
        }
    }
}

extension SessionTokenStore {
    /// Records a sign-out for ten minutes, so that the tokens obtained by a refresh in progress are revoked. A store does not repeat a claim whose
    /// response was lost, because it could not determine which attempt succeeded. For this claim, it makes no difference, and a lost connection
    /// must not make the sign-out fail.
    func recordSignOut(of key: RecordKey) async throws {
        let (record, lifetime) = (key.signOut, Duration.seconds(600))
        let isNew: Bool
        do {
            isNew = try await claim(record, for: lifetime)
        } catch let error as AuthError where error.code == .storageFailed {
            isNew = try await claim(record, for: lifetime)
        }
        guard !isNew else { return }
        // The record is that of an earlier sign-out, and may be about to expire. If it cannot be extended, the sign-out continues.
        try? await withLease(on: record) { lease in
            try await write([1], RecordAttributes(lifetime: lifetime), under: lease)
        }
    }
}

extension RecordKey {
    /// The key of the claim that indicates a sign-out to a refresh in progress.
    var signOut: RecordKey {
        RecordKey(name: "signed out\n\(name)", issuer: issuer, clientID: clientID, resource: resource, kind: .claim)
    }
}
