public import AuthFlowEssentials
public import AuthFlowHTTP
import Crypto

/// A token store for the sessions of many users. It expires records, finds a user's records, and sends
/// notifications when records have been removed, in this process or another.
///
/// All times are measured by the store's clock, which all processes share. Test custom stores with `SessionStoreConformance` in
/// `AuthFlowTesting`.
public protocol SessionTokenStore: TokenStore {
    /// Writes a record, as ``TokenStore/write(_:under:)`` does, and sets its expiry and tags. A write without
    /// attributes preserves the expiry and the tags.
    /// - Throws: The same errors as ``TokenStore/write(_:under:)``.
    func write(_ bytes: [UInt8], _ attributes: RecordAttributes, under lease: Lease) async throws

    /// Restarts the idle timeout of a record.
    /// - Returns: Whether the record exists and has not expired.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func touch(_ key: RecordKey) async throws -> Bool

    /// Returns the unexpired records with a tag.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func records(tagged tag: RecordTag) async throws -> [TaggedRecord]

    /// Removes records, even if leases on them are held: the holders can then no longer write.
    /// - Returns: The removed records.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func remove(_ keys: [RecordKey]) async throws -> [TaggedRecord]

    /// Creates a record without bytes unless it already exists, for events that must happen only once. ``touch(_:)`` finds it, and a write under a
    /// lease replaces its lifetime.
    /// - Parameters:
    ///   - key: The key.
    ///   - lifetime: The lifetime of the record.
    /// - Returns: Whether this call created it.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func claim(_ key: RecordKey, for lifetime: Duration) async throws -> Bool

    /// Returns the keys of records in the order of their ``RecordKey/digest``, possibly including expired records.
    /// - Parameters:
    ///   - digest: The digest of the last key of the previous page; nil for the first page.
    ///   - limit: The maximum number of keys.
    /// - Returns: The next keys; empty when there are no more.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey]

    /// Removes a batch of expired records.
    /// - Returns: The number of removed records; zero when none are left.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func removeEnded() async throws -> Int

    /// Calls an observer when ``remove(_:)`` has removed a record, in this or another process.
    ///
    /// Notifications between processes may be lost, so they are only an optimization and do not replace reading the
    /// store.
    /// - Parameter observer: Receives the ``RecordKey/digest`` of the record; nil when notifications may have been lost. It
    ///   must not block.
    func observeRemovals(_ observer: @escaping @Sendable (_ digest: [UInt8]?) -> Void)
}

/// The expiry and the tags of a record.
public struct RecordAttributes: Sendable, Hashable {
    /// The lifetime of the record, counted from the write; nil for no limit.
    public var lifetime: Duration?

    /// The idle timeout, counted from the last use (``SessionTokenStore/touch(_:)``); nil for none.
    public var idleTime: Duration?

    /// The tags; at most two.
    public var tags: [RecordTag]

    /// Creates attributes.
    public init(lifetime: Duration? = nil, idleTime: Duration? = nil, tags: [RecordTag] = []) {
        self.lifetime = lifetime
        self.idleTime = idleTime
        self.tags = Array(tags.prefix(2))
    }
}

/// A property that several records share, such as their user. The bytes are visible to the store, so use a keyed hash
/// if the store must not be able to identify the users.
public struct RecordTag: Sendable, Hashable {
    /// The 32 bytes of the tag.
    public let bytes: [UInt8]

    /// Creates a tag from its stored bytes. For use by stores.
    public init(bytes: [UInt8]) { self.bytes = bytes }

    /// Creates a tag for values: their SHA-256 hash, or their HMAC-SHA-256 if a key is given.
    /// - Parameters:
    ///   - values: The values, such as an issuer and a subject. Their order and boundaries are significant.
    ///   - key: The HMAC key, which prevents readers of the store from guessing the values; default: none.
    public init(_ values: [String], key: Secret? = nil) {
        let text = Array(values.map { "\($0.utf8.count):\($0)" }.joined().utf8)
        if let key {
            let code = HMAC<SHA256>.authenticationCode(
                for: text,
                using: SymmetricKey(data: Array(key.exposed.utf8))
            )
            self.bytes = Array(code)
        } else {
            self.bytes = Array(SHA256.hash(data: text))
        }
    }
}

/// A record found by its tag.
public struct TaggedRecord: Sendable, Hashable {
    /// The key of the record.
    public let key: RecordKey

    /// The bytes of the record, which are secret.
    public let bytes: [UInt8]

    /// The time of its last write with attributes, or of its last touch.
    public let lastUse: Date

    /// Creates a record. For use by stores.
    public init(key: RecordKey, bytes: [UInt8], lastUse: Date) {
        self.key = key
        self.bytes = bytes
        self.lastUse = lastUse
    }
}

extension TaggedRecord: CustomStringConvertible, NonReflectable {
    /// The name of the key, without the bytes.
    public var description: String { "record \(key.name)" }
}

extension RecordKey {
    /// The SHA-256 of ``uniqueName``: for stores whose names must be short or opaque.
    public var digest: [UInt8] { Array(SHA256.hash(data: Array(uniqueName.utf8))) }

    /// Parses a ``uniqueName``; nil when it is malformed. For stores that list keys.
    public init?(uniqueName: [UInt8]) {
        var rest = uniqueName[...]
        var values: [String] = []
        while !rest.isEmpty {
            guard let colon = rest.prefix(8).firstIndex(of: UInt8(ascii: ":")),
                let count = Int(String(decoding: rest[..<colon], as: UTF8.self)), count >= 0,
                rest.count - (colon - rest.startIndex) - 1 >= count
            else { return nil }
            let start = colon + 1
            guard let value = String(validating: rest[start..<(start + count)], as: UTF8.self) else { return nil }
            values.append(value)
            rest = rest[(start + count)...]
        }
        guard values.count == 5, values[4].isEmpty || values[4].hasPrefix("=") else { return nil }
        self.init(
            name: values[1],
            issuer: values[2],
            clientID: values[3],
            resource: values[4].isEmpty ? nil : String(values[4].dropFirst()),
            kind: Kind(rawValue: values[0])
        )
    }
}
