import AuthFlow

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The user who owns the process at the other end of a local connection.
///
/// Linux lists the owner in `/proc/self/net/tcp` (proc(5)); other systems do not, and a peer in another network namespace is not listed.
struct PeerOwner: Sendable {
    /// The socket of this process.
    private let descriptor: Int32

    init(of descriptor: Int32) { self.descriptor = descriptor }

    /// Whether the peer is known to belong to a user other than this user and root, who has unlimited access anyway.
    var isAnotherUser: Bool {
        userID.map { $0 != geteuid() && $0 != 0 } ?? false
    }

    /// The maximum size of the table, in bytes: 400,000 connections.
    private static let maximumTableSize = 64 * 1024 * 1024

    /// The user; nil when unknown.
    var userID: uid_t? {
        #if os(Linux)
        guard let own = unsafe Self.name(of: descriptor, getsockname),
            let peer = unsafe Self.name(of: descriptor, getpeername),
            let bytes = BoundedFile.contents(
                atPath: "/proc/self/net/\(own.table)",
                maximumSize: Self.maximumTableSize
            )
        else { return nil }
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            let fields = line.split(separator: UInt8(ascii: " "), maxSplits: 8).map {
                String(decoding: $0, as: UTF8.self)
            }
            // sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid; 01 is an established connection.
            guard fields.count > 7, fields[1] == peer.address, fields[2] == own.address, fields[3] == "01" else {
                continue
            }
            return uid_t(fields[7])
        }
        #endif
        return nil
    }

    #if os(Linux)
    /// The table that lists a socket, and the socket's address in the format of that table: the IP address in 32-bit
    /// words in host byte order, and the port, both in hexadecimal.
    private static func name(
        of descriptor: Int32,
        _ name: (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
    ) -> (table: String, address: String)? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let status = unsafe withUnsafeMutablePointer(to: &storage) { storage in
            unsafe storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe name(descriptor, $0, &length) }
        }
        guard status == 0 else { return nil }
        let bytes = unsafe withUnsafeBytes(of: &storage) { unsafe Array($0) }
        func hexadecimal(_ value: UInt32, _ width: Int) -> String {
            let text = String(value, radix: 16, uppercase: true)
            return String(repeating: "0", count: max(0, width - text.count)) + text
        }
        func words(_ range: Range<Int>) -> String {
            stride(from: range.lowerBound, to: range.upperBound, by: 4).map { start in
                let word = unsafe bytes.withUnsafeBytes {
                    unsafe $0.loadUnaligned(fromByteOffset: start, as: UInt32.self)
                }
                return hexadecimal(word, 8)
            }.joined()
        }
        let port = hexadecimal(UInt32(bytes[2]) << 8 | UInt32(bytes[3]), 4)
        return switch Int32(storage.ss_family) {
        case AF_INET: ("tcp", "\(words(4..<8)):\(port)")
        case AF_INET6: ("tcp6", "\(words(8..<24)):\(port)")
        default: nil
        }
    }
    #endif
}
