public import AuthFlowOAuth
public import AuthFlowStorage
import Crypto
import Synchronization

/// Keeps stored credentials fresh: for one user or for many, across tasks, processes and crashes.
///
/// One refresh runs at a time for each credential; different credentials refresh concurrently. A new refresh token is
/// stored before the new access token is returned; a failed write is retried in the background.
///
/// ```swift
/// let credentials = CredentialManager(client: client, store: store)
/// try await credentials.save(credential, for: sessionID)
/// let tokens = try await credentials.freshTokens(for: sessionID)  // any process, any machine
/// ```
public final class CredentialManager: Sendable {
    /// The client to which the credentials were issued.
    package let client: OAuthClient

    package let unfinished = UnfinishedWork()
    package let store: any TokenStore
    private let freshnessMargin: Duration
    /// Revocations in progress. No credential is lost if a revocation does not complete.
    let revocations = UnfinishedWork()
    private let outage = SharedOutage()
    private let cacheLimit: Int
    private let renewal: Renewal?
    private let refreshesAhead: Bool
    private let observer: (@Sendable (FlowEvent) -> Void)?
    private let onEnd: (@Sendable (RecordKey, Credential) async -> Void)?
    private let cache = Mutex(Cache())

    /// The cache evicts credentials in generations, and evicted credentials are read from the store again when needed.
    private struct Cache {
        var recent: [CredentialKey: ManagedCredential] = [:]
        var earlier: [CredentialKey: ManagedCredential] = [:]
        /// The credential keys, indexed by the digests of their records, because notifications contain only the digest.
        var keys: [[UInt8]: CredentialKey] = [:]
    }

    /// Obtains a credential that has neither a user nor a refresh token. The second argument is the resource of the credential key; nil if the key has none.
    public typealias Renewal = @Sendable (_ client: OAuthClient, _ resource: String?) async throws -> Credential

    /// Creates a manager.
    /// - Parameters:
    ///   - client: The client to which the credentials were issued.
    ///   - store: Stores the credentials.
    ///   - freshnessMargin: The remaining lifetime below which an access token is treated as expired; default: one minute.
    ///   - cacheLimit: The maximum number of cached credentials, in addition to those in use; default: 20,000.
    ///   - renewal: Obtains a credential if there is none, or if the stored one has expired and has no refresh token:
    ///     for grants without a user, such as ``OAuthClient/clientCredentials(scopes:resources:)``. A stored token is used while it is fresh, even if
    ///     this closure would now request other scopes: use a different key for different scopes. Default: none.
    ///   - refreshesAhead: Whether tokens in use are refreshed in the background before they are treated as expired,
    ///     at a random time in the last 30 seconds, so that busy sessions never wait. Default: no.
    ///   - observer: Receives every event, in order. It must not block.
    ///   - onEnd: Called with the last credential when this process detects that the provider has ended the session; ``drain(within:)`` waits for the
    ///     call.
    public init(
        client: OAuthClient,
        store: any TokenStore,
        freshnessMargin: Duration = .seconds(60),
        cacheLimit: Int = 20_000,
        renewal: Renewal? = nil,
        refreshesAhead: Bool = false,
        observer: (@Sendable (FlowEvent) -> Void)? = nil,
        onEnd: (@Sendable (RecordKey, Credential) async -> Void)? = nil
    ) {
        self.client = client
        self.store = store
        self.freshnessMargin = max(freshnessMargin, .zero)
        self.cacheLimit = max(cacheLimit, 2)
        self.renewal = renewal
        self.refreshesAhead = refreshesAhead
        self.observer = observer
        self.onEnd = onEnd
    }

    /// Returns tokens with a fresh access token: from the cache, or from a refresh.
    ///
    /// Call this method before each use; do not store the result. The store is read at most every ten seconds to
    /// check whether another process has ended the session; in between, the cache is trusted.
    ///
    /// If the key has a resource, the access token is for that resource. The grant may be for this resource only, or
    /// for several resources that share a refresh token (RFC 8707).
    /// - Throws: ``AuthError`` with `login_required` when no user is signed in under this key or the session has ended; any error
    ///   from the refresh; `CancellationError` when the task is cancelled (the refresh continues for other tasks).
    public func freshTokens(for key: CredentialKey) async throws -> TokenSet {
        // Nothing is awaited and no refresh starts, so the credential object may be evicted at any time.
        if !refreshesAhead, let fresh = cache.withLock({ $0.recent[key] })?.cachedTokens() {
            return fresh.credential.tokens
        }
        do {
            return try await using(key) { managed in
                if let fresh = managed.cachedTokens() {
                    if refreshesAhead { managed.refreshAhead(fresh) }
                    return fresh.credential.tokens
                }
                let tokens = try await managed.credential().tokens
                if refreshesAhead, let known = managed.cachedTokens() { managed.refreshAhead(known) }
                return tokens
            }
        } catch let error as AuthError where error.code == .loginRequired {
            // The grant may be for several resources, including this one.
            let whole = CredentialKey(key.session)
            guard let resource = key.resource,
                try await credential(for: whole)?.resources.contains(where: { $0.isIdentical(to: resource) }) == true
            else { throw error }
            return try await using(whole) { try await $0.tokens(for: resource, scopes: nil) }
        }
    }

    /// Like ``freshTokens(for:)-(CredentialKey)``, but for a subset of the granted scopes.
    /// - Parameters:
    ///   - session: The identifier of the user or session.
    ///   - resource: One of the resources that were requested at sign-in.
    ///   - scopes: The scopes of the access token.
    public func freshTokens(for session: String, resource: String, scopes: [String]) async throws -> TokenSet {
        try await using(CredentialKey(session)) { try await $0.tokens(for: resource, scopes: scopes) }
    }

    /// Like ``freshTokens(for:)``, but takes the identifier of a user or session.
    public func freshTokens(for session: String, resource: String? = nil) async throws -> TokenSet {
        try await freshTokens(for: CredentialKey(session, resource: resource))
    }

    /// Stores the credential from a sign-in, and replaces the previous credential under this key. The operation
    /// completes even if the task is cancelled.
    ///
    /// A one-time refresh token must be stored under one key only, so a credential that was granted for exactly one
    /// resource (RFC 8707) requires a key with that resource, and any other credential requires a key without a
    /// resource.
    /// - Parameters:
    ///   - credential: The credential.
    ///   - key: The key of the user or session.
    ///   - attributes: The expiry and the tags, for a ``SessionTokenStore``; default: unchanged, and for a new record no expiry and no tags.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the key's resource does not match
    ///   the grant's, or the store does not support attributes; `storage_failed`.
    public func save(
        _ credential: Credential,
        for key: CredentialKey,
        attributes: RecordAttributes? = nil
    ) async throws {
        let granted = credential.resources.count == 1 ? credential.resources.first : nil
        guard key.resource == granted else {
            throw AuthError(
                .invalidConfiguration,
                "The credential was granted for \(credential.resources.isEmpty ? "no specific resource" : credential.resources.joined(separator: ", ")), but the credential key specifies \(key.resource ?? "no resource")."
            )
        }
        try await unfinished.finish { [self] in
            try await using(key) { managed in
                try await managed.save(credential, .replaceAccount, reporter(), attributes: attributes)
            }
        }
    }

    /// Like ``save(_:for:attributes:)-(Credential,CredentialKey,RecordAttributes?)``, but takes the identifier of a
    /// user or session.
    public func save(
        _ credential: Credential,
        for session: String,
        attributes: RecordAttributes? = nil
    ) async throws {
        try await save(credential, for: CredentialKey(session), attributes: attributes)
    }

    /// The key of a credential's record in the store, for ``SessionTokenStore/remove(_:)`` and ``SessionTokenStore/touch(_:)``. The
    /// key contains the SHA-256 hash of the session identifier.
    public func recordKey(for key: CredentialKey) -> RecordKey {
        recordKey(named: Self.recordName(of: key.session), resource: key.resource)
    }

    /// The name of a session's record. It is a hash, because session identifiers are secret in many applications and
    /// record names are not.
    package static func recordName(of session: String) -> String {
        Base64URL.encode(SHA256.hash(data: Array(session.utf8)))
    }

    package func recordKey(named name: String, resource: String?) -> RecordKey {
        RecordKey(
            name: name,
            issuer: client.server.issuer,
            clientID: client.registration.clientID,
            resource: resource
        )
    }

    /// Evicts credentials as soon as another process removes them from a ``SessionTokenStore``, instead of at the
    /// next read of the store. This method has no effect with other stores.
    package func observeRemovedRecords() {
        (store as? any SessionTokenStore)?.observeRemovals { [weak self] digest in self?.evict(digest) }
    }

    /// Forces the next call for a credential to read the store.
    /// - Parameter digest: The digest of the record; nil when any record may have been removed.
    func evict(_ digest: [UInt8]?) {
        guard let digest else {
            let all = cache.withLock { Array($0.recent.values) + Array($0.earlier.values) }
            for managed in all { managed.invalidate() }
            return
        }
        cache.withLock { cache in
            cache.keys[digest].flatMap { cache.recent[$0] ?? cache.earlier[$0] }
        }?.beginEpoch()
    }

    /// Drops the matching cached credentials that a lookup did not find in the store, and discards the results of their operations in progress.
    /// - Parameter found: The result of the lookup.
    package func evict(except found: [TaggedCredential], where matches: (Credential) -> Bool) {
        let all = cache.withLock { Array($0.recent.values) + Array($0.earlier.values) }
        let stored = Set(found.map(\.key.digest))
        for managed in all where !stored.contains(managed.digest) {
            switch managed.cachedCredential.map(matches) {
            case true?: managed.beginEpoch()
            case false?: break
            // The first read may be in progress, and may have found the credential before it was removed.
            case nil: managed.discardPendingReads()
            }
        }
    }

    /// The stored credential, even if its access token has expired; nil when no user is signed in under this key.
    /// - Throws: ``AuthError`` with `storage_failed`, or `credential_unusable` when the record cannot be read.
    public func credential(for key: CredentialKey) async throws -> Credential? {
        try await using(key) { try await $0.accounts().entry(nil)?.credential }
    }

    /// Exchanges the refresh token for new tokens, even if the old ones are still valid, and stores them. With a renewal, new tokens are
    /// obtained even if there are none yet.
    /// - Throws: The same errors as ``freshTokens(for:)``.
    @discardableResult
    public func refresh(_ key: CredentialKey) async throws -> Credential {
        try await using(key) { managed in
            // Without a user, there may be no tokens yet.
            let known =
                renewal == nil
                ? try await managed.lastCredential() : try await managed.accounts().entry(nil)?.credential
            return try await managed.credential(rejected: known?.tokens.accessToken)
        }
    }

    /// Removes a credential after any refresh in progress, in this or another process, has completed. Nothing is
    /// revoked.
    /// - Returns: The last valid credential, for ``OAuthClient/revoke(_:)-(Credential)`` and
    ///   ``OAuthClient/endSessionRequest(for:)``; nil when there was none.
    /// - Throws: ``AuthError`` with `storage_failed`, or `credential_unusable` when the record cannot be read.
    @discardableResult
    public func remove(_ key: CredentialKey) async throws -> Credential? {
        try await unfinished.finish { [self] in try await using(key) { try await $0.remove()?.credential } }
    }

    /// The states of a credential, starting with the current one, for views and logs. A slow reader may miss some
    /// states. Changes by other processes are detected when the store is read, at the latest by the first ``freshTokens(for:)-(CredentialKey)``
    /// ten seconds after the last read.
    /// - Throws: ``AuthError`` with `storage_failed`, or `credential_unusable` when the record cannot be read.
    public func states(of key: CredentialKey) async throws -> AsyncStream<CredentialState> {
        try await using(key) { try await $0.states() }
    }

    /// Waits for operations that must complete, such as refreshes, until their results are stored. These operations
    /// complete even if tasks are cancelled, but not if the process exits, so call this method before the process
    /// exits.
    /// - Parameter waitTimeout: The maximum time to wait; default: three seconds.
    /// - Returns: Whether all results are stored. The method also waits for revocations, which do not affect the result.
    public func drain(within waitTimeout: Duration = .seconds(3)) async -> Bool {
        let elapsed = client.host.clock.stopwatch()
        let isStored = await unfinished.drain(within: waitTimeout, clock: client.host.clock)
        // Revocations are awaited last, because a refresh in progress may start one.
        _ = await revocations.drain(within: max(waitTimeout - elapsed(), .zero), clock: client.host.clock)
        return isStored
    }

    /// The number of credentials in memory.
    var cachedCount: Int { cache.withLock { $0.recent.count + $0.earlier.keys.count } }

    /// The current metrics of this process, for monitoring:
    ///
    /// | gauge | |
    /// |---|---|
    /// | `authflow_credentials_in_memory` | at most the cache limit, plus the credentials in use |
    /// | `authflow_credential_work_in_progress` | refreshes, sign-ins and sign-outs |
    /// | `authflow_credentials_unsaved` | refreshed or obtained, but not yet stored: the only copies |
    /// | `authflow_provider_is_held_back` | 1 while the provider is unavailable and refreshes are throttled |
    public var gauges: [FlowGauge] {
        let (work, now) = (unfinished.counts, client.host.now())
        return [
            FlowGauge("authflow_credentials_in_memory", cachedCount),
            FlowGauge("authflow_credential_work_in_progress", work.running),
            FlowGauge("authflow_credentials_unsaved", work.unsavedWrites),
            FlowGauge("authflow_provider_is_held_back", outage.use { $0.isThrottled(at: now) } ? 1 : 0),
        ]
    }

    /// Runs a call with the credential under a key. The credential object remains in memory during the call, because two
    /// objects for one record would each refresh it.
    func using<Return: Sendable>(
        _ key: CredentialKey,
        _ body: (ManagedCredential) async throws -> Return
    ) async throws -> Return {
        let managed = cache.withLock { cache in
            let managed = cached(key, &cache)
            managed.beginUse()
            return managed
        }
        return try await managed.withUse { try await body(managed) }
    }

    private func cached(_ key: CredentialKey, _ cache: inout Cache) -> ManagedCredential {
        if let known = cache.recent[key] { return known }
        let managed =
            cache.earlier.removeValue(forKey: key)
            ?? managed(recordKey(for: key), account: nil, label: nil)
        cache.recent[key] = managed
        cache.keys[managed.digest] = key
        if cache.recent.count >= cacheLimit / 2 {
            // An entry with unsaved data is never evicted.
            let needed = cache.earlier.filter { $0.value.isNeeded }
            cache.earlier = cache.recent.merging(needed) { recent, _ in recent }
            cache.recent = [:]
            cache.keys = Dictionary(cache.earlier.map { ($1.digest, $0) }) { first, _ in first }
        }
        return managed
    }

    /// An uncached credential, for a caller that retains it.
    /// - Parameters:
    ///   - key: The key of its record.
    ///   - account: The name of the account to use when several are signed in (``AccountID/isNamed(_:)``); nil for the current one.
    ///   - label: The client's name, for error messages; nil to omit it.
    ///   - renewal: Obtains a credential without a user; default: the manager's renewal.
    package func managed(
        _ key: RecordKey,
        account: String?,
        label: String?,
        renewal: Renewal? = nil
    ) -> ManagedCredential {
        ManagedCredential(
            client: client,
            store: store,
            key: key,
            account: account,
            label: label,
            freshnessMargin: freshnessMargin,
            unfinished: unfinished,
            revocations: revocations,
            outage: outage,
            renewal: renewal ?? self.renewal,
            onEnd: onEnd,
            reporter: { [host = client.host, observer] in FlowReporter(host: host, observer: observer) }
        )
    }

    func reporter() -> FlowReporter { FlowReporter(host: client.host, observer: observer) }
}

/// The key that identifies a credential among the credentials of one client.
public struct CredentialKey: Sendable, Hashable {
    /// The identifier of the user, session or profile, which the application chooses.
    public let session: String

    /// The access token's resource (RFC 8707); nil for a token without a particular resource.
    public let resource: String?

    /// Creates a key.
    public init(_ session: String, resource: String? = nil) {
        self.session = session
        self.resource = resource
    }

    /// Compares two keys by code point. Names that differ only in Unicode normalization identify different users.
    public static func == (left: CredentialKey, right: CredentialKey) -> Bool {
        left.session.isIdentical(to: right.session) && left.resource.isIdentical(to: right.resource)
    }
}

/// The state of a credential.
public enum CredentialState: Sendable, Hashable {
    /// No user is signed in.
    case signedOut
    /// A user is signed in; the identity is nil when unknown.
    case signedIn(Identity?)
    /// The tokens were refreshed.
    case refreshed
    /// The access token has expired, was rejected or is not bound to a required key, and cannot be refreshed. The user must sign in again.
    case expired
    /// The provider has ended the session.
    case ended(EndedSession)
}
