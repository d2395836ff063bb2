public import AuthFlowHTTP
import AuthFlowJSON
import Synchronization

/// A type that stores credentials between runs. It stores opaque bytes, not tokens.
///
/// The bytes are secrets. A store must protect them from other users of the machine. Writes must be atomic: a key has
/// either the old or the new bytes, even after a crash. Test custom stores with `TokenStoreConformance` in `AuthFlowTesting`.
///
/// An actor can be a store too: its `withLease(on:_:)` must then be `nonisolated`, and call the actor's other methods.
public protocol TokenStore: Sendable {
    /// Returns the bytes stored for a key; nil when there are none. Called with and without a lease.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func bytes(for key: RecordKey) async throws -> [UInt8]?

    /// Returns the bytes stored for a lease's key; nil when there are none. The default implementation does not
    /// check that the lease is still held.
    ///
    /// A store whose leases can be lost must reject reads under a lost lease, because the former holder would otherwise
    /// use the refresh token that the next holder has stored.
    /// - Throws: ``AuthError`` with `lease_lost` when the lease is no longer held, `storage_failed` otherwise.
    func bytes(under lease: Lease) async throws -> [UInt8]?

    /// Reserves space for a write under the same lease. Called before a request whose response must not be lost, such as a
    /// refresh with a rotating refresh token. The default implementation does nothing, which is sufficient for a store
    /// that cannot grant a lease when its disk is full. A file system that reports a full disk only when data is
    /// synced, such as NFS, can still make the write fail.
    /// - Parameter size: The maximum size of the record, in bytes.
    /// - Throws: ``AuthError`` with `storage_failed` when a record of this size could not be written, or `lease_lost`.
    func reserve(_ size: Int, under lease: Lease) async throws

    /// Stores bytes for the key of a lease, or removes them if nil. The write is durable when the method returns.
    /// - Throws: ``AuthError`` with `lease_lost` when the lease is no longer held, `storage_failed` otherwise; the old bytes
    ///   are then unchanged, unless the connection to a database was lost (`outcome_unknown` when another holder has written since).
    func write(_ bytes: [UInt8]?, under lease: Lease) async throws

    /// Runs `body` while no other holder, in this process or another, can write the same key.
    ///
    /// `body` may wait for a response from the provider, so a store must not hold shared resources, such as a database
    /// connection, while it runs. A store whose leases expire must renew the lease while `body` runs.
    ///
    /// The method and `body` run in their caller's isolation. A module that does not enable the upcoming feature
    /// `NonisolatedNonsendingByDefault` must declare both as `nonisolated(nonsending)`.
    /// - Throws: ``AuthError`` with `lease_busy` when the lease is not granted in time, `storage_failed` when the store
    ///   fails, or any error thrown by `body`.
    func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: nonisolated(nonsending) (Lease) async throws -> Return
    ) async throws -> Return
}

extension TokenStore {
    public func bytes(under lease: Lease) async throws -> [UInt8]? { try await bytes(for: lease.key) }

    public func reserve(_ size: Int, under lease: Lease) async throws {}
}

/// A time-limited exclusive right to write one key. Its fence (fencing token) is unique for the key: a store rejects
/// writes under a lost lease, so that a holder that was paused cannot overwrite the data of another holder.
public struct Lease: Sendable, Hashable {
    /// The key.
    public let key: RecordKey

    /// A number that is unique among all leases on the key.
    public let fence: UInt64

    /// Whether a previous holder was killed or lost its lease before releasing it, and no holder has written since.
    /// That holder's operation may be incomplete.
    public let isAfterAbandonedLease: Bool

    private let expiry: Expiry?
    private var isHeld: (@Sendable () -> Bool)?

    /// The expiry of a lease, measured by its holder's clock. The store extends it with every renewal.
    public final class Expiry: Sendable {
        private let elapsed: @Sendable () -> Duration
        private let end: Mutex<Duration>
        /// The period before the expiry during which no request is sent, because another holder could take
        /// over before the request reaches the provider.
        private let margin: Duration

        /// Creates the expiry of a lease that starts now. Call this before requesting the lease, because the response may take a long time.
        /// - Parameters:
        ///   - duration: The duration of the lease. If the request has to wait for another holder, extend the expiry once
        ///     the lease is granted.
        ///   - clock: The clock that measures the time; default: the system's.
        public init(lasting duration: Duration, clock: any Clock<Duration> = ContinuousClock()) {
            self.elapsed = clock.stopwatch()
            self.end = Mutex(duration)
            self.margin = duration / 3
        }

        /// The time since the start of the lease. Read it before requesting a renewal.
        public var now: Duration { elapsed() }

        /// Extends the lease. Renew the lease before two thirds of its duration have elapsed.
        /// - Parameter end: The new expiry, measured from the start of the lease.
        public func extend(until end: Duration) { self.end.withLock { $0 = end } }

        var isNear: Bool { end.withLock { $0 } - margin <= elapsed() }
    }

    /// Creates a lease. For use by stores.
    /// - Parameters:
    ///   - key: The key.
    ///   - fence: A number that is unique among all leases on the key.
    ///   - isAfterAbandonedLease: Whether a previous holder never released its lease.
    ///   - expiry: The expiry of the lease; default: until it is released.
    public init(key: RecordKey, fence: UInt64, isAfterAbandonedLease: Bool = false, expiry: Expiry? = nil) {
        self.key = key
        self.fence = fence
        self.isAfterAbandonedLease = isAfterAbandonedLease
        self.expiry = expiry
    }

    /// - Parameter isHeld: Returns whether the lease is still held, for a lock that another process can take over.
    package init(key: RecordKey, fence: UInt64, isHeld: @escaping @Sendable () -> Bool) {
        self.init(key: key, fence: fence)
        self.isHeld = isHeld
    }

    /// Throws when the lease has expired according to its holder's clock, or less than a third of its duration remains. Call it before
    /// an irreversible operation: while a process was paused, another holder may have acquired the lease, or may acquire
    /// it before the request reaches the provider.
    /// - Throws: ``AuthError`` with `lease_lost`.
    package func requireRemainingTime() throws(AuthError) {
        if expiry?.isNear == true || isHeld?() == false { throw Self.lost }
    }

    /// Compares the keys and the fences.
    public static func == (left: Lease, right: Lease) -> Bool { left.key == right.key && left.fence == right.fence }

    /// Hashes the key and the fence.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(key)
        hasher.combine(fence)
    }

    /// The error for an operation under a lease that is no longer held.
    public static var lost: AuthError {
        AuthError(
            .leaseLost,
            "The lease on the credential was lost: another process may have taken over while this process was paused."
        )
    }
}

extension AuthError {
    /// Whether another holder has written, or may have written, the record since this lease was lost.
    package var indicatesLostLease: Bool { code == .leaseLost || code == .outcomeUnknown }
}

/// The key of a record in a ``TokenStore``.
public struct RecordKey: Sendable, Hashable {
    /// The maximum size of a credential's record, in bytes.
    package static let maximumRecordSize = 1024 * 1024

    /// The kind of a record, from an extensible set.
    public struct Kind: RawRepresentable, Sendable, Hashable, ExpressibleByStringLiteral {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public init(stringLiteral value: String) { self.rawValue = value }

        /// Credentials of a client.
        public static let credential: Self = "credential"
        /// An authorization request that awaits its response.
        package static let authorizationRequest: Self = "authorization_request"
        /// A one-time event.
        package static let claim: Self = "claim"
        /// The record of a logout token.
        package static let logout: Self = "logout"
        /// A document that the apps of one vendor share.
        package static let shared: Self = "shared"
    }

    /// The profile, user or session.
    public let name: String

    /// The issuer. Credentials of one issuer are never sent to another issuer.
    public let issuer: String

    /// The client's identifier. One client's tokens cannot be used by another client.
    public let clientID: String

    /// The resource for which the access token is issued (RFC 8707); nil for a token without a particular resource.
    public let resource: String?

    /// The kind of the record.
    public let kind: Kind

    /// Creates a key.
    public init(name: String, issuer: String, clientID: String, resource: String? = nil, kind: Kind = .credential) {
        self.name = name
        self.issuer = issuer
        self.clientID = clientID
        self.resource = resource
        self.kind = kind
    }

    /// Compares two keys code point by code point, as a store compares the names of its records.
    public static func == (left: RecordKey, right: RecordKey) -> Bool {
        left.name.isIdentical(to: right.name) && left.issuer.isIdentical(to: right.issuer)
            && left.clientID.isIdentical(to: right.clientID) && left.resource.isIdentical(to: right.resource)
            && left.kind.rawValue.isIdentical(to: right.kind.rawValue)
    }

    /// The parts and their names, for stores that support attributes. Together they identify the key uniquely.
    package var parts: [(name: String, value: String)] {
        [
            ("kind", kind.rawValue), ("name", name), ("issuer", issuer), ("client_id", clientID),
            // The prefix distinguishes an empty resource from an absent one.
            ("resource", resource.map { "=\($0)" } ?? ""),
        ]
    }

    /// The parts as one unique string: a length prefix distinguishes ("ab", "c") from ("a", "bc").
    public var uniqueName: String { parts.map { "\($0.value.utf8.count):\($0.value)" }.joined() }
}
