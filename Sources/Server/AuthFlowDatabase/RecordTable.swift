package import AuthFlow

/// The operations of a database on its records, each of which it carries out whole or not at all, by its own clock.
package protocol RecordTable: Sendable {
    /// Reads the bytes of a record that has not ended.
    func bytes(of digest: [UInt8]) async throws -> [UInt8]?

    /// As ``bytes(of:)``, of the record of a lease.
    /// - Throws: ``AuthError`` with `lease_lost` when another owner has taken the lease since, or the record was removed.
    func bytes(under lease: HeldLease) async throws -> [UInt8]?

    /// Takes the lease on a record, and makes the record when there is none. The same owner may ask again.
    func take(_ key: RecordKey, by owner: [UInt8], for duration: Duration) async throws -> TakenLease

    /// Makes a lease last longer.
    /// - Returns: Whether it is still held.
    func renew(_ lease: HeldLease, for duration: Duration) async throws -> Bool

    /// Writes under a lease, expired or not, that no other owner has taken since.
    /// - Parameter attributes: New ends and tags; nil keeps those that the record has.
    /// - Returns: Whether it was written.
    func write(_ bytes: [UInt8]?, _ attributes: RecordAttributes?, under lease: HeldLease) async throws -> Bool

    /// Gives a lease up, removes a record without bytes, and tells those who wait.
    func release(_ lease: HeldLease) async throws

    /// Moves the idle end on.
    func touch(_ digest: [UInt8]) async throws -> Bool

    /// Finds records by a tag.
    func records(tagged tag: [UInt8]) async throws -> [TaggedRecord]

    /// Removes records, and tells other processes.
    func remove(_ digests: [[UInt8]]) async throws -> [TaggedRecord]

    /// Makes a record that ends after a while, unless there is one.
    func claim(_ key: RecordKey, for lifetime: Duration) async throws -> Bool

    /// The keys of records in the order of their digests.
    func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey]

    /// Removes some of the records that have ended.
    func removeEnded() async throws -> Int

    /// Begins to receive messages.
    func listen()

    /// How many statements have not come to their end, those that wait for a connection included.
    var pending: Int { get }

    /// Whether messages are pushed to this process. If not, it polls for them.
    var pushesMessages: Bool { get }
}

/// The result of asking for a lease.
package enum TakenLease: Sendable {
    /// - isAfterUnfinished: Whether a holder never gave its lease up, and none has written since.
    case taken(fence: UInt64, isAfterUnfinished: Bool)
    /// Another owner has it, for this long unless it is renewed.
    case busy(Duration)
}

/// A lease as the table knows it.
package struct HeldLease: Sendable, Hashable {
    package let digest: [UInt8]
    package let owner: [UInt8]
    package let fence: UInt64

    package init(digest: [UInt8], owner: [UInt8], fence: UInt64) {
        self.digest = digest
        self.owner = owner
        self.fence = fence
    }
}

/// A message of one process to the others: a letter and the digest of a record.
package enum RecordMessage: Sendable, Hashable {
    case released([UInt8])
    case removed([UInt8])

    package init?(_ text: String) {
        guard let digest = Self.digest(ofHex: text.dropFirst(2).utf8), text.dropFirst().first == " " else { return nil }
        switch text.first {
        case "r": self = .released(digest)
        case "g": self = .removed(digest)
        default: return nil
        }
    }

    package var text: [UInt8] {
        switch self {
        case .released(let digest): Array("r \(Self.hex(digest))".utf8)
        case .removed(let digest): Array("g \(Self.hex(digest))".utf8)
        }
    }

    private static let digits = Array("0123456789abcdef".utf8)

    /// Writes a digest in hexadecimal digits.
    package static func hex(_ digest: [UInt8]) -> String {
        String(decoding: digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// Reads a digest in hexadecimal digits; nil when it is none.
    package static func digest(ofHex text: some Sequence<UInt8>) -> [UInt8]? {
        let values = text.compactMap { Self.digits.firstIndex(of: $0) }
        guard values.count == 64 else { return nil }
        return stride(from: 0, to: 64, by: 2).map { UInt8(values[$0] * 16 + values[$0 + 1]) }
    }
}

extension Duration {
    /// The duration in milliseconds, rounded up; a century at most, which every database can add to a time.
    package var milliseconds: Int64 {
        Int64(min(max(self / .milliseconds(1), -Self.century), Self.century).rounded(.up))
    }

    private static var century: Double { 100 * 365 * 86_400 * 1000 }
}
