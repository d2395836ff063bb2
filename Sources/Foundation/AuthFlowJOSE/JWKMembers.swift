package import AuthFlowEssentials
import AuthFlowHTTP
package import AuthFlowJSON

/// The members of a key in JWK form (RFC 7518 section 6).
package enum JWKMembers {
    /// The public members of an elliptic key, from its two coordinates side by side.
    package static func curve(_ name: String, _ point: Data) -> [String: JSON] {
        [
            "kty": "EC", "crv": .string(name), "x": .string(Base64URL.encode(point.prefix(point.count / 2))),
            "y": .string(Base64URL.encode(point.suffix(point.count / 2))),
        ]
    }

    /// A member that is a number, in its full length; nil when it is missing or too long. RFC 7518 sections 6.2.1.2 and 6.2.2.1: the length
    /// "MUST be the full size"; some leave leading zeros out (one key of P-256 in 128), which makes it no other number.
    static func number(_ json: JSON, _ name: String, _ size: Int) -> [UInt8]? {
        guard let bytes = json[name]?.string.flatMap({ Base64URL.decode($0) }), 1...size ~= bytes.count else {
            return nil
        }
        return [UInt8](repeating: 0, count: size - bytes.count) + bytes
    }

    /// The point of an elliptic key. The initializers of the keys refuse one that is not on the curve.
    static func point(_ json: JSON, _ size: Int) -> [UInt8]? {
        number(json, "x", size).flatMap { x in number(json, "y", size).map { x + $0 } }
    }

    /// The private member `d`.
    static func scalar(_ json: JSON, _ size: Int) -> [UInt8]? { number(json, "d", size) }

    /// Whether the public members that a key has are those of the public key that was derived from its private part.
    static func fits(_ json: JSON, _ derived: JSON) -> Bool {
        ["x", "y", "n", "e"].allSatisfy { name in
            guard json[name] != nil else { return true }
            guard let own = json[name]?.string.flatMap({ Base64URL.decode($0) }),
                let other = derived[name]?.string.flatMap({ Base64URL.decode($0) })
            else { return false }
            // As numbers: some leave zeros out, which section 6.2.1.2 does not allow.
            return own.drop { $0 == 0 }.elementsEqual(other.drop { $0 == 0 })
        }
    }
}
