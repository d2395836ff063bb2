public import AuthFlowEssentials
import AuthFlowHTTP
public import AuthFlowOAuth
public import AuthFlowStorage

/// A credential that was found in a ``SessionTokenStore`` by its tag.
public struct TaggedCredential: Sendable, Hashable {
    /// The key of its record. It does not have the session's identifier, but its SHA-256.
    public let key: RecordKey

    /// The credential; nil when it has ended, or cannot be read here.
    public let credential: Credential?

    /// When the session was begun or used last, give or take a minute.
    public let lastUse: Date

    /// Whether the store has said that this call has removed it; false where its answer was lost.
    package var isKnownToBeRemoved = true
}

/// The sessions of many users, in a ``SessionTokenStore``. With another store these methods throw `invalid_configuration`.
extension CredentialManager {
    /// The credential as it was stored last, whether or not its access token is fresh: from memory, when the store was read in the last
    /// ten seconds.
    /// - Throws: ``AuthError`` with `login_required` and the reason, `storage_failed`.
    public func lastCredential(for key: CredentialKey) async throws -> Credential {
        try await using(key) { managed in
            if let known = managed.freshCredential() { return known }
            return try await managed.lastCredential()
        }
    }

    /// Moves the idle end of a session on.
    /// - Returns: Whether the session is there and has not ended.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func touch(_ key: CredentialKey) async throws -> Bool {
        try await sessionStore.touch(recordKey(for: key))
    }

    /// Finds credentials by a tag.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func credentials(tagged tag: RecordTag) async throws -> [TaggedCredential] {
        try await sessionStore.records(tagged: tag).filter { $0.key.kind == .credential }.map(tagged)
    }

    /// Removes credentials in every process, whatever is under way with them: tokens that a refresh brings are dropped. Nothing is
    /// revoked.
    /// - Returns: Those that were there, with the tokens that were good last. Where the store's answer was lost, also those that another
    ///   process may have removed at the same time: to revoke tokens twice does no harm.
    /// - Throws: ``AuthError`` with `storage_failed`.
    @discardableResult
    public func remove(_ keys: [RecordKey]) async throws -> [TaggedCredential] {
        defer { for key in keys { forget(key.digest) } }
        let store = try sessionStore
        // It ends whichever task is cancelled: a user who signs out and leaves is signed out.
        return try await unfinished.finish { [self] in
            // A removal whose answer is lost is repeated, and finds nothing then.
            let before = await withTaskGroup { group in
                for key in keys { group.addTask { (key, try? await self.stored(key)?.credential) } }
                return await group.reduce(into: [RecordKey: Credential]()) { found, next in found[next.0] = next.1 }
            }
            let removed = try await store.remove(keys).map(tagged)
            let missing = before.filter { key, _ in !removed.contains { $0.key == key } }
            return removed
                + keys.compactMap { key in
                    missing[key].map {
                        TaggedCredential(key: key, credential: $0, lastUse: $0.obtainedAt, isKnownToBeRemoved: false)
                    }
                }
        }
    }

    /// Changes the application's data in a session. It completes even if the task is cancelled.
    package func changeApplicationData(
        of key: CredentialKey,
        _ body: @escaping @Sendable (Secret?) throws -> Secret?
    ) async throws -> Credential {
        try await unfinished.finish { [self] in
            try await using(key) { managed in
                do {
                    return try await managed.changeApplicationData(body)
                } catch let error as AuthError where error.isOfLostLease {
                    return try await managed.changeApplicationData(body)
                }
            }
        }
    }

    /// What is stored under a key, whether or not it can be read here; nil when nothing is. It takes no place in memory.
    /// - Throws: ``AuthError`` with `storage_failed`.
    package func stored(_ key: RecordKey) async throws -> (credential: Credential?, key: RecordKey)? {
        do {
            guard let bytes = try await store.bytes(for: key) else { return nil }
            return ((try? StoredAccounts(serialized: bytes))?.entry(nil)?.credential, key)
        } catch let error as AuthError where error.code == .credentialUnusable {
            return (nil, key)
        }
    }

    /// Tokens for one of several resources of a grant.
    package func freshTokens(of key: CredentialKey, for resource: String) async throws -> TokenSet {
        try await using(key) { try await $0.tokens(for: resource, scopes: nil) }
    }

    /// Begins a revocation, or the removal of what is left, for which ``drain(within:)`` waits.
    package func beginCleanup(_ work: @escaping @Sendable () async -> Void) { _ = revocations.begin(work) }

    /// Has the tokens revoked that a refresh in progress returns, in any process. Call it before ``remove(_:)``.
    package func revokeLateTokens(of keys: [RecordKey]) async throws {
        for key in keys { _ = try await sessionStore.claim(key.signOut, for: .seconds(600)) }
    }

    private var sessionStore: any SessionTokenStore {
        get throws {
            guard let sessions = store as? any SessionTokenStore else {
                throw AuthError(
                    .invalidConfiguration,
                    "The store keeps no sessions: its records have no ends and no tags."
                )
            }
            return sessions
        }
    }

    private func tagged(_ record: TaggedRecord) -> TaggedCredential {
        TaggedCredential(
            key: record.key,
            credential: (try? StoredAccounts(serialized: record.bytes))?.entry(nil)?.credential,
            lastUse: record.lastUse
        )
    }
}

extension RecordKey {
    /// The claim that a sign-out leaves for a refresh in progress.
    var signOut: RecordKey {
        RecordKey(name: "signed out\n\(name)", issuer: issuer, clientID: clientID, resource: resource, kind: .claim)
    }
}
