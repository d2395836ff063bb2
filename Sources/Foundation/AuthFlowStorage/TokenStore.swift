public import AuthFlowHTTP
import AuthFlowJSON
import Synchronization

/// A type that keeps credentials between runs. It stores bytes and knows nothing about tokens.
///
/// The bytes are secrets. A store keeps them from other users of the machine, and never leaves a key with anything but
/// the old or the new bytes, whenever the process dies. Run `TokenStoreConformance` of `AuthFlowTesting` on your own.
///
/// An actor can be a store too: its `withLease(on:_:)` is then `nonisolated`, and calls the actor's own methods.
public protocol TokenStore: Sendable {
    /// Returns the bytes kept for a key; nil when there are none. Called with and without a lease.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func bytes(for key: RecordKey) async throws -> [UInt8]?

    /// As ``bytes(for:)``, for the key of a lease. Default: whether the lease is still held does not count.
    ///
    /// A store whose leases can be lost refuses to read under one that is not held any more: its holder would use the refresh token that the
    /// next one has stored.
    /// - Throws: ``AuthError`` with `lease_lost` when the lease is not held any more, `storage_failed`.
    func bytes(under lease: Lease) async throws -> [UInt8]?

    /// Keeps bytes for the key of a lease, or removes them when nil. When it returns they are durable.
    /// - Throws: ``AuthError`` with `lease_lost` when the lease is not held any more, `storage_failed` otherwise; the old bytes
    ///   are then still there.
    func write(_ bytes: [UInt8]?, under lease: Lease) async throws

    /// Runs `body` while no other holder, in this process or another, can write the same key.
    ///
    /// `body` may take as long as a provider takes to respond, so a store must hold nothing that others need meanwhile, such as
    /// a database connection. A store whose leases expire renews this one while `body` runs.
    ///
    /// The method and `body` run where their caller runs. A module without the upcoming feature
    /// `NonisolatedNonsendingByDefault` writes `nonisolated(nonsending)` before both.
    /// - Throws: ``AuthError`` with `storage_failed` when the lease is not granted in time, and whatever `body` throws.
    func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: nonisolated(nonsending) (Lease) async throws -> Return
    ) async throws -> Return
}

extension TokenStore {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func bytes(under lease: Lease) async throws -> [UInt8]? { try await bytes(for: lease.key) }
}

/// The right to write one key, for a while. Its fence tells it from every other lease on the key: a store refuses to write
/// under one that was lost, so that a holder who was paused cannot overwrite what another wrote.
public struct Lease: Sendable, Hashable {
    /// The key.
    public let key: RecordKey

    /// A number that the store gives to no other lease on the key.
    public let fence: UInt64

    /// Whether a holder before never gave its lease up, because it was killed or lost it, and none has written since. What it was
    /// doing may be half done.
    public let isAfterUnfinished: Bool

    private let term: Term?
    private let isHeld: (@Sendable () -> Bool)?

    /// The time for which a lease is held, by its holder's clock. The store extends it with every renewal.
    public final class Term: Sendable {
        private let elapsed: @Sendable () -> Duration
        private let end: Mutex<Duration>

        /// Creates a term that begins now. Create it before the store is asked for the lease: the answer may take a long time.
        /// - Parameters:
        ///   - duration: The time for which the lease is granted.
        ///   - clock: The clock to measure it on; default: the system's.
        public init(lasting duration: Duration, clock: any Clock<Duration> = ContinuousClock()) {
            self.elapsed = clock.stopwatch()
            self.end = Mutex(duration)
        }

        /// The time since the term began: take it before the store is asked for a renewal.
        public var now: Duration { elapsed() }

        /// Extends the term.
        /// - Parameter end: The new end, counted from the beginning of the term.
        public func extend(until end: Duration) { self.end.withLock { $0 = end } }

        var hasEnded: Bool { end.withLock { $0 } <= elapsed() }
    }

    /// Creates a lease. For stores.
    /// - Parameters:
    ///   - key: The key.
    ///   - fence: A number that the store gives to no other lease on the key.
    ///   - isAfterUnfinished: Whether a holder before never gave its lease up.
    ///   - term: How long it lasts; default: until it is given up.
    public init(key: RecordKey, fence: UInt64, isAfterUnfinished: Bool = false, term: Term? = nil) {
        self.key = key
        self.fence = fence
        self.isAfterUnfinished = isAfterUnfinished
        self.term = term
        self.isHeld = nil
    }

    /// - Parameter isHeld: Whether the lease is still this holder's, for a lock that another process can take away.
    package init(key: RecordKey, fence: UInt64, isHeld: @escaping @Sendable () -> Bool) {
        self.key = key
        self.fence = fence
        self.isAfterUnfinished = false
        self.term = nil
        self.isHeld = isHeld
    }

    /// Throws when the lease has expired, as far as its holder knows. For the moment before something that cannot be undone: a
    /// process that was paused may find that another has taken over.
    /// - Throws: ``AuthError`` with `lease_lost`.
    public func requireTime() throws(AuthError) {
        if term?.hasEnded == true || isHeld?() == false { throw Self.lost }
    }

    /// Compares the keys and the fences.
    public static func == (left: Lease, right: Lease) -> Bool { left.key == right.key && left.fence == right.fence }

    /// Hashes the key and the fence.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(key)
        hasher.combine(fence)
    }

    /// The error of a write under a lease that is not held any more.
    public static var lost: AuthError {
        AuthError(
            .leaseLost,
            "The credential was not written: another process has taken over while this one was paused."
        )
    }
}

extension AuthError {
    /// Whether another holder has written since, or may have.
    package var isOfLostLease: Bool { code == .leaseLost || code == .outcomeUnknown }
}

/// The key of a record in a ``TokenStore``.
public struct RecordKey: Sendable, Hashable {
    /// The largest record of a credential, in bytes.
    package static let maximumRecordSize = 1024 * 1024

    /// What a record is, as an open set.
    public struct Kind: RawRepresentable, Sendable, Hashable, ExpressibleByStringLiteral {
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public let rawValue: String
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public init(rawValue: String) { self.rawValue = rawValue }
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public init(stringLiteral value: String) { self.rawValue = value }

        /// Credentials of a client.
        public static let credential: Self = "credential"
        /// An authorization request that awaits its response.
        public static let authorizationRequest: Self = "authorization_request"
        /// Something that may happen once.
        public static let claim: Self = "claim"
        /// A mark that a logout token has left.
        public static let logout: Self = "logout"
        /// Something that the apps of one vendor share.
        public static let shared: Self = "shared"
    }

    /// The profile, user or session.
    public let name: String

    /// The issuer. Credentials of one issuer are never sent to another.
    public let issuer: String

    /// The client's identifier. Tokens of one client are of no use to another.
    public let clientID: String

    /// The resource that the access token is for (RFC 8707); nil for none in particular.
    public let resource: String?

    /// What the record is.
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

    /// The parts with their names, for stores that keep attributes. Together they tell the key from every other.
    public var parts: [(name: String, value: String)] {
        [
            ("kind", kind.rawValue), ("name", name), ("issuer", issuer), ("client_id", clientID),
            // An absent resource is not an empty one.
            ("resource", resource.map { "=\($0)" } ?? ""),
        ]
    }

    /// The parts as one string that no other key has: the length before each keeps ("ab", "c") and ("a", "bc") apart.
    public var uniqueName: String { parts.map { "\($0.value.utf8.count):\($0.value)" }.joined() }
}
