import AuthFlow
import AuthFlowSystem

/// The user who owns the process at the other end of a local connection.
///
/// Linux lists the owner in `/proc/self/net/tcp` (proc(5)); other systems do not, and a peer in another network namespace is not listed.
struct PeerOwner: Sendable {
    /// The socket of this process.
    private let descriptor: Int32

    init(of descriptor: Int32) { self.descriptor = descriptor }

    /// The owner of the peer's socket.
    enum Owner: Equatable {
        case user(uid_t)
        /// The peer has closed its socket, or reset the connection, and its owner is no longer recorded.
        case gone
        /// The system does not list the socket.
        case unknown
        /// There are too many connections to search; another user may have opened them to prevent the search.
        case hidden

        /// Whether the peer belongs to another user; root does not count, because root has unlimited access anyway. A browser waits for the
        /// response, so a peer that does not wait is treated as belonging to another user.
        var isAnotherUser: Bool {
            switch self {
            case .user(let id): id != geteuid() && id != 0
            case .gone, .hidden: true
            case .unknown: false
            }
        }
    }

    /// The maximum size of a table, in bytes: about 400,000 connections.
    private static let maximumTableSize = 64 * 1024 * 1024

    var owner: Owner {
        #if os(Linux)
        guard let own = unsafe Self.name(of: descriptor, getsockname) else { return .unknown }
        guard let peer = unsafe Self.name(of: descriptor, getpeername) else { return .gone }
        if let owner = Self.owner(of: peer.address, to: own.address, in: own.table) { return owner }
        // A program can also connect to an IPv4 address with an IPv6 socket.
        if own.table == "tcp",
            let owner = Self.owner(of: Self.mapped(peer.address), to: Self.mapped(own.address), in: "tcp6")
        {
            return owner
        }
        // The connection may have been reset in the meantime.
        return unsafe Self.name(of: descriptor, getpeername) == nil ? .gone : .unknown
        #else
        return .unknown
        #endif
    }

    #if os(Linux)
    /// An IPv4 address from a table, as an IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2).
    private static func mapped(_ address: String) -> String { "0000000000000000FFFF0000\(address)" }

    /// The owner of the socket that is bound to `peer` and connected to `own`; nil when the table does not list it.
    ///
    /// The state of the connection is not compared, because a peer that has sent its request may have closed its sending side.
    private static func owner(of peer: String, to own: String, in table: String) -> Owner? {
        let path = "/proc/self/net/\(table)"
        guard let bytes = BoundedFile.contents(atPath: path, maximumSize: maximumTableSize) else {
            return unsafe access(path, R_OK) == 0 ? .hidden : nil
        }
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            let fields = line.split(separator: UInt8(ascii: " "), maxSplits: 10).map {
                String(decoding: $0, as: UTF8.self)
            }
            // sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode
            guard fields.count > 9, fields[1] == peer, fields[2] == own, let id = uid_t(fields[7]) else { continue }
            // A socket that no process has open is listed with the inode 0 and the user ID 0.
            return fields[9] == "0" ? .gone : .user(id)
        }
        return nil
    }

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
