package import AuthFlow

/// A database's operations on records. Each change to a record is atomic, and times are from a clock that all processes share.
package protocol RecordTable: Sendable {
    /// Reads the bytes of an unexpired record.
    func bytes(of digest: [UInt8]) async throws -> [UInt8]?

    /// Like ``bytes(of:)``, for the record of a lease.
    /// - Throws: ``AuthError`` with `lease_lost` when another owner has since acquired the lease, or the record was removed.
    func bytes(under lease: HeldLease) async throws -> [UInt8]?

    /// Acquires the lease on a record, and creates the record if it does not exist. The same owner may repeat the call.
    func take(_ key: RecordKey, by owner: [UInt8], for duration: Duration) async throws -> TakenLease

    /// Renews a lease.
    /// - Returns: Whether the lease is still held.
    func renew(_ lease: HeldLease, for duration: Duration) async throws -> Bool

    /// Writes under a lease, even if it has expired, unless another owner has since acquired it.
    /// - Parameters:
    ///   - attributes: The new expiry, idle timeout and tags; nil leaves the record's attributes unchanged.
    ///   - number: The number of this write, from 1: greater than those of the holder's earlier writes, and the same if a write is repeated. A write that
    ///     the database executes late, after its connection was lost, must not overwrite a later write of the same holder.
    /// - Returns: Whether the record was written.
    func write(
        _ bytes: [UInt8]?,
        _ attributes: RecordAttributes?,
        number: Int64,
        under lease: HeldLease
    ) async throws -> Bool

    /// Releases a lease, removes a record without bytes, and notifies waiting processes.
    func release(_ lease: HeldLease) async throws

    /// Restarts the idle timeout of a record.
    func touch(_ digest: [UInt8]) async throws -> Bool

    /// Finds records by tag.
    func records(tagged tag: [UInt8]) async throws -> [TaggedRecord]

    /// Removes records, and notifies other processes.
    func remove(_ digests: [[UInt8]]) async throws -> [TaggedRecord]

    /// Creates a record with the given lifetime, unless it already exists.
    func claim(_ key: RecordKey, for lifetime: Duration) async throws -> Bool

    /// The keys of records, sorted by digest.
    func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey]

    /// Removes some of the expired records.
    func removeEnded() async throws -> Int

    /// Starts receiving messages from other processes.
    func listen()

    /// The number of unfinished statements, including those that are waiting for a connection.
    var pending: Int { get }

    /// Whether messages are pushed to this process. If not, it polls for them.
    var pushesMessages: Bool { get }

    /// Whether ``remove(_:)`` removes either all of the records or none of them.
    var removesAtomically: Bool { get }
}

/// The result of an attempt to acquire a lease.
package enum TakenLease: Sendable {
    /// - isAfterAbandonedLease: Whether an earlier holder never released its lease, and no holder has written since.
    case taken(fence: UInt64, isAfterAbandonedLease: Bool)
    /// Another owner holds the lease. The duration is the lease's remaining lifetime, unless the lease is renewed.
    case busy(Duration)
}

/// A lease as stored in the table.
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

/// A message from one process to the others. It consists of a letter and the digest of a record.
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

    /// Encodes a digest in hexadecimal.
    package static func hex(_ digest: [UInt8]) -> String {
        String(decoding: digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// Decodes a hexadecimal digest; nil when it is invalid.
    package static func digest(ofHex text: some Sequence<UInt8>) -> [UInt8]? {
        var values: [Int] = []
        for character in text {
            guard let value = Self.digits.firstIndex(of: character), values.count < 64 else { return nil }
            values.append(value)
        }
        guard values.count == 64 else { return nil }
        return stride(from: 0, to: 64, by: 2).map { UInt8(values[$0] * 16 + values[$0 + 1]) }
    }
}

extension Duration {
    /// The duration in milliseconds, rounded up; at most a century, which every database can add to a timestamp.
    package var milliseconds: Int64 {
        Int64(min(max(self / .milliseconds(1), -Self.century), Self.century).rounded(.up))
    }

    private static var century: Double { 100 * 365 * 86_400 * 1000 }
}
