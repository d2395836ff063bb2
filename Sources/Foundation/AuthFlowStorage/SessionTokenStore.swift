public import AuthFlowEssentials
public import AuthFlowHTTP
import Crypto

/// A token store for the sessions of many users: it ends records when their time has come, finds those of one user, and tells
/// when others have removed them.
///
/// All times are by the clock of the store, which every process that uses it shares. Run `SessionStoreConformance` of
/// `AuthFlowTesting` on your own.
public protocol SessionTokenStore: TokenStore {
    /// As ``TokenStore/write(_:under:)``, and gives the record its ends and tags. Later writes keep them.
    /// - Throws: As ``TokenStore/write(_:under:)``.
    func write(_ bytes: [UInt8], _ attributes: RecordAttributes, under lease: Lease) async throws

    /// Moves the idle end of a record on.
    /// - Returns: Whether the record is there and has not ended.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func touch(_ key: RecordKey) async throws -> Bool

    /// Returns the records with a tag that have not ended.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func records(tagged tag: RecordTag) async throws -> [TaggedRecord]

    /// Removes records, whether or not a lease on them is held: its holder then writes nothing.
    /// - Returns: Those that were there.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func remove(_ keys: [RecordKey]) async throws -> [TaggedRecord]

    /// Makes a record without bytes, unless there is one: for what may happen once.
    /// - Parameters:
    ///   - key: The key.
    ///   - lifetime: How long it is remembered.
    /// - Returns: Whether this call has made it.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func claim(_ key: RecordKey, for lifetime: Duration) async throws -> Bool

    /// Returns the keys of records in the order of their ``RecordKey/digest``, also of some that have ended.
    /// - Parameters:
    ///   - digest: The digest of the last key before; nil to begin.
    ///   - limit: The most keys.
    /// - Returns: The next ones; none when there are no more.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey]

    /// Removes records that have ended, some at a time.
    /// - Returns: How many were removed; zero when none is left.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func removeEnded() async throws -> Int

    /// Calls an observer when ``remove(_:)`` has removed a record, here or in another process.
    ///
    /// Messages between processes can be lost, so it saves time and is no substitute for reading.
    /// - Parameter observer: Receives the ``RecordKey/digest`` of the record; nil when messages may have been missed. It must not
    ///   block.
    func observeRemovals(_ observer: @escaping @Sendable (_ digest: [UInt8]?) -> Void)
}

/// When a record ends, and how it is found.
public struct RecordAttributes: Sendable, Hashable {
    /// How long after the write the record ends; nil: never.
    public var lifetime: Duration?

    /// How long after its last use (``SessionTokenStore/touch(_:)``) the record ends; nil: never.
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

/// What several records have in common, such as their user. A store sees the bytes, so they are a keyed hash where it shall not
/// know users.
public struct RecordTag: Sendable, Hashable {
    /// The bytes; 32 of them.
    public let bytes: [UInt8]

    /// Creates a tag from the bytes that a store keeps. For stores.
    public init(bytes: [UInt8]) { self.bytes = bytes }

    /// Creates a tag for values: their SHA-256, with a key when there is one.
    /// - Parameters:
    ///   - values: The values, such as an issuer and a subject. Their order and their bounds count.
    ///   - key: Keeps those who can read the store from guessing the values; default: none.
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

/// A record that was found by its tag.
public struct TaggedRecord: Sendable, Hashable {
    /// Its key.
    public let key: RecordKey

    /// Its bytes. They are secret.
    public let bytes: [UInt8]

    /// When it was written with its attributes or touched last.
    public let lastUse: Date

    /// Creates a record. For stores.
    public init(key: RecordKey, bytes: [UInt8], lastUse: Date) {
        self.key = key
        self.bytes = bytes
        self.lastUse = lastUse
    }
}

extension TaggedRecord: CustomStringConvertible, WithoutReflection {
    /// The key without the bytes.
    public var description: String { "record \(key.name)" }
}

extension RecordKey {
    /// The SHA-256 of ``uniqueName``: a name for stores whose names are short or must not be read.
    public var digest: [UInt8] { Array(SHA256.hash(data: Array(uniqueName.utf8))) }

    /// Reads what ``uniqueName`` wrote; nil when it is something else. For stores that list keys.
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
