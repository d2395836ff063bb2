import AuthFlowEssentials
import AuthFlowSystem

/// The scope of an address: the public network, a private network, or the local host only.
///
/// An address that a public server specifies is used only if the address is itself public. Otherwise a hostile provider
/// could make a client send codes and secrets to services that trust everything on the same machine or network (SSRF).
package enum NetworkReach: Sendable, Comparable {
    /// A host name or a public address. Whether a name resolves to a non-public address is not known until a connection is made.
    case anywhere
    /// An address in a private or local network, or in another block that is not part of the public network.
    case privateNetwork
    /// A loopback or unspecified address (RFC 1122 section 3.2.1.3, RFC 4291 section 2.5.3), or `localhost` (RFC 6761
    /// section 6.3).
    case loopback

    /// - Parameter address: A numeric address, as formatted by the system.
    package init(address: String) {
        self.init(host: address.contains(":") ? "[\(address)]" : address)
    }

    /// - Parameter host: The host of an ``Endpoint``, in lower case; an IPv6 address is enclosed in brackets.
    init(host: String) {
        let name = host.hasSuffix(".") ? String(host.dropLast()) : host
        if name == "localhost" || name.hasSuffix(".localhost") {
            self = .loopback
        } else if name.hasPrefix("["), let bytes = Self.bytes(ofIPv6: name) {
            self = Self.reach(ofIPv6: bytes)
        } else if let bytes = Self.bytes(ofIPv4: name) {
            self = Self.reach(ofIPv4: bytes)
        } else {
            self = .anywhere
        }
    }

    /// Whether resolvers parse a host as an IPv4 address, because its last label is a number (WHATWG URL section 3.5), although it
    /// is not in dotted-decimal notation: `127.1`, `0x7f000001` and `2130706433` all mean 127.0.0.1.
    static func isNonCanonicalIPv4Address(_ host: String) -> Bool {
        let labels = (host.hasSuffix(".") ? String(host.dropLast()) : host).split(separator: ".")
        guard let last = labels.last else { return false }
        let isNumber = last.allSatisfy(\.isNumber) || last.hasPrefix("0x") && last.dropFirst(2).allSatisfy(\.isHexDigit)
        return isNumber && (bytes(ofIPv4: host) == nil)
    }

    /// Whether a host is an IP address rather than a name.
    package static func isAddress(_ host: String) -> Bool {
        bytes(ofIPv4: host) != nil || host.hasPrefix("[") && bytes(ofIPv6: host) != nil
    }

    private static func bytes(ofIPv4 host: String) -> [UInt8]? {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        let bytes = parts.compactMap { part in
            // Some resolvers parse a number with a leading zero as octal, others as decimal.
            part.count > 1 && part.hasPrefix("0") || !part.allSatisfy(\.isNumber) ? nil : UInt8(part)
        }
        return bytes.count == 4 ? bytes : nil
    }

    private static func bytes(ofIPv6 host: String) -> [UInt8]? {
        // A zone identifier (RFC 6874) identifies a network interface of this machine.
        let text = host.dropFirst().prefix { $0 != "]" && $0 != "%" }
        var address = in6_addr()
        guard unsafe inet_pton(AF_INET6, String(text), &address) == 1 else { return nil }
        return unsafe withUnsafeBytes(of: &address) { unsafe Array($0) }
    }

    /// An IPv6 address as browsers serialize it (WHATWG URL section 3.5), in brackets; nil if the host is not an IPv6 address.
    static func serializedIPv6Address(_ host: String) -> String? {
        guard host.hasPrefix("["), let bytes = bytes(ofIPv6: host) else { return nil }
        let pieces = (0..<8).map { UInt16(bytes[2 * $0]) << 8 | UInt16(bytes[2 * $0 + 1]) }
        // The first of the longest sequences of at least two zeros is compressed.
        var longest = 0..<0
        var start = 0
        for index in 0...8 where index == 8 || pieces[index] != 0 {
            if index - start > max(longest.count, 1) { longest = start..<index }
            start = index + 1
        }
        func text(_ range: Range<Int>) -> String { pieces[range].map { String($0, radix: 16) }.joined(separator: ":") }
        guard !longest.isEmpty else { return "[\(text(0..<8))]" }
        return "[\(text(0..<longest.lowerBound))::\(text(longest.upperBound..<8))]"
    }

    /// An address block that is not part of the public network.
    private struct Block {
        let prefix: [UInt8]
        let length: Int
        let reach: NetworkReach

        init(_ prefix: [UInt8], _ length: Int, _ reach: NetworkReach) {
            (self.prefix, self.length, self.reach) = (prefix, length, reach)
        }

        func contains(_ address: [UInt8]) -> Bool {
            let (whole, rest) = (length / 8, length % 8)
            guard address.prefix(whole).elementsEqual(prefix.prefix(whole)) else { return false }
            return rest == 0 || (address[whole] ^ prefix[whole]) >> (8 - rest) == 0
        }
    }

    /// IANA IPv4 Special-Purpose Address Registry: the blocks that are not globally reachable, and multicast (RFC 5771). The
    /// documentation blocks are omitted, because no host in them is reachable.
    private static let blocksOfIPv4 = [
        Block([0], 8, .loopback),
        Block([127], 8, .loopback),
        Block([10], 8, .privateNetwork),
        Block([100, 64], 10, .privateNetwork),
        Block([169, 254], 16, .privateNetwork),
        Block([172, 16], 12, .privateNetwork),
        Block([192, 0, 0], 24, .privateNetwork),
        Block([192, 168], 16, .privateNetwork),
        Block([198, 18], 15, .privateNetwork),
        Block([224], 4, .privateNetwork),
        Block([240], 4, .privateNetwork),
    ]

    /// The corresponding IPv6 blocks within global unicast (IANA IPv6 Address Space): the IETF protocol assignments,
    /// which include Teredo. Nothing outside 2000::/3 is public, so fc00::/7, fe80::/10, fec0::/10, ff00::/8, 100::/64
    /// and 64:ff9b:1::/48 (RFC 8215) need no entry.
    private static let blocksOfIPv6 = [
        Block([0x20, 0x01, 0x00], 23, .privateNetwork),
        Block([0x20], 3, .anywhere),
        // ::, ::1, and the deprecated IPv4-compatible addresses.
        Block([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 96, .loopback),
    ]

    private static func reach(ofIPv4 bytes: [UInt8]) -> NetworkReach {
        blocksOfIPv4.first { $0.contains(bytes) }?.reach ?? .anywhere
    }

    private static func reach(ofIPv6 bytes: [UInt8]) -> NetworkReach {
        // Addresses that embed an IPv4 address: IPv4-mapped (RFC 4291 section 2.5.5.2), the well-known prefix for translation (RFC 6052),
        // and 6to4 (RFC 3056).
        if bytes.prefix(12).elementsEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF])
            || bytes.prefix(12).elementsEqual([0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0])
        {
            return reach(ofIPv4: Array(bytes.suffix(4)))
        }
        if bytes.prefix(2).elementsEqual([0x20, 0x02]) { return reach(ofIPv4: Array(bytes[2..<6])) }
        return blocksOfIPv6.first { $0.contains(bytes) }?.reach ?? .privateNetwork
    }
}

extension Endpoint {
    /// The origin as browsers send it in `Origin`. It differs from ``origin`` if the host is an IPv6 address that is not written canonically.
    package var browserOrigin: String {
        guard let address = NetworkReach.serializedIPv6Address(host) else { return origin }
        return "\(scheme)://\(address)\(authority.dropFirst(host.count))"
    }

    /// The scope of the host.
    package var reach: NetworkReach { NetworkReach(host: host) }

    /// Limits the scope of the addresses that the host may resolve to, for a URL that another server specifies.
    /// - Parameters:
    ///   - reach: The scope of the peer's address in the connection to that server; nil when it is unknown, in which
    ///     case the limit does not change.
    ///   - home: The URL of that server. The host of that server is exempt, because the server's certificate authenticates it.
    package mutating func limitReach(to reach: NetworkReach?, unlessAt home: Endpoint?) {
        guard let reach, host != home?.host else { return }
        allowedReach = min(allowedReach, max(reach, self.reach))
    }

    /// Whether a server at this URL may refer the client to another URL. The other URL must not be more
    /// local than this URL, and may use plain http only if this URL does, on a loopback address.
    package func mayReferTo(_ other: Endpoint) -> Bool {
        other.reach <= reach && (other.scheme == "https" || scheme == "http")
    }
}
