#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif
#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// What can be reached at an address: any host, a private network, or only this machine.
///
/// An address that a public server names is used only when it is public itself. Otherwise a hostile provider could have
/// a client send codes and secrets to services that trust everything on the same machine or network.
enum NetworkReach: Int, Sendable, Comparable {
    /// A name, or a public address. What a name resolves to is not checked: providers inside a company have names, too.
    case anywhere
    /// An address of a private or local network (RFC 1918, RFC 4193, RFC 6598, RFC 3927, RFC 4291 section 2.5.6).
    case privateNetwork
    /// This machine (RFC 1122 section 3.2.1.3, RFC 4291 section 2.5.3, RFC 6761 section 6.3).
    case thisMachine

    static func < (left: NetworkReach, right: NetworkReach) -> Bool { left.rawValue < right.rawValue }

    /// - Parameter host: The host of an ``Endpoint``, in lower case; an IPv6 address stands in brackets.
    init(host: String) {
        let name = host.hasSuffix(".") ? String(host.dropLast()) : host
        if name == "localhost" || name.hasSuffix(".localhost") {
            self = .thisMachine
        } else if name.hasPrefix("["), let bytes = Self.bytes(ofIPv6: name) {
            self = Self.reach(ofIPv6: bytes)
        } else if let bytes = Self.bytes(ofIPv4: name) {
            self = Self.reach(ofIPv4: bytes)
        } else {
            self = .anywhere
        }
    }

    /// Whether the last label of a host is a number, by which resolvers take the whole for an IPv4 address (WHATWG URL section
    /// 3.5), and it is not written with four decimal numbers: `127.1`, `0x7f000001` and `2130706433` all mean this machine.
    static func isObscureAddress(_ host: String) -> Bool {
        guard !host.hasPrefix("[") else { return false }
        let labels = (host.hasSuffix(".") ? String(host.dropLast()) : host).split(separator: ".")
        guard let last = labels.last else { return false }
        let isNumber = last.allSatisfy(\.isNumber) || last.hasPrefix("0x") && last.dropFirst(2).allSatisfy(\.isHexDigit)
        return isNumber && (bytes(ofIPv4: host) == nil)
    }

    /// Whether a host is an address, and not a name.
    static func isAddress(_ host: String) -> Bool {
        bytes(ofIPv4: host) != nil || host.hasPrefix("[") && bytes(ofIPv6: host) != nil
    }

    private static func bytes(ofIPv4 host: String) -> [UInt8]? {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        let bytes = parts.compactMap { part in
            // A leading zero means an octal number to some resolvers and a decimal one to others.
            part.count > 1 && part.hasPrefix("0") || !part.allSatisfy(\.isNumber) ? nil : UInt8(part)
        }
        return bytes.count == 4 ? bytes : nil
    }

    private static func bytes(ofIPv6 host: String) -> [UInt8]? {
        // A zone (RFC 6874) is one of this machine's interfaces.
        let text = host.dropFirst().prefix { $0 != "]" && $0 != "%" }
        var address = in6_addr()
        guard unsafe inet_pton(AF_INET6, String(text), &address) == 1 else { return nil }
        return unsafe withUnsafeBytes(of: &address) { unsafe Array($0) }
    }

    private static func reach(ofIPv4 bytes: [UInt8]) -> NetworkReach {
        switch (bytes[0], bytes[1]) {
        case (127, _), (0, _): .thisMachine
        case (10, _), (172, 16...31), (192, 168), (100, 64...127), (169, 254): .privateNetwork
        default: .anywhere
        }
    }

    private static func reach(ofIPv6 bytes: [UInt8]) -> NetworkReach {
        let isMapped = bytes.prefix(10).allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
        // 64:ff9b::/96 (RFC 6052) leads to an IPv4 address as well.
        let isTranslated = bytes.prefix(12).elementsEqual([0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0])
        if isMapped || isTranslated { return reach(ofIPv4: Array(bytes.suffix(4))) }
        // :: and ::1, and the addresses compatible with IPv4 that are not in use any more.
        if bytes.prefix(12).allSatisfy({ $0 == 0 }) { return .thisMachine }
        switch (bytes[0], bytes[1]) {
        case (0xFC...0xFD, _), (0xFE, 0x80...0xBF): return .privateNetwork
        default: return .anywhere
        }
    }
}

extension Endpoint {
    /// What can be reached at this address.
    var reach: NetworkReach { NetworkReach(host: host) }

    /// Whether a server at this address may name another one to send something to: never one that is nearer to this
    /// machine than itself, and plain http only when it is at a loopback address by plain http itself.
    package func mayName(_ other: Endpoint) -> Bool {
        other.reach <= reach && (other.scheme == "https" || scheme == "http")
    }
}
