import AuthFlowHTTP

/// The DER-encoded algorithm identifiers in PEM private keys (RFC 5480 section 2.1.1, RFC 8410 section 3).
///
/// swift-crypto does not check them, and would interpret the scalar of a key for a different curve as a key for the
/// requested curve.
enum KeyAlgorithm {
    /// 1.2.840.10045.2.1, id-ecPublicKey
    private static let ecPublicKeyOID: [UInt8] = [0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01]
    /// 1.2.840.10045.3.1.7
    static let p256 = ecPublicKeyOID + [0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]
    /// 1.3.132.0.34
    static let p384 = ecPublicKeyOID + [0x06, 0x05, 0x2B, 0x81, 0x04, 0x00, 0x22]
    /// 1.3.132.0.35
    static let p521 = ecPublicKeyOID + [0x06, 0x05, 0x2B, 0x81, 0x04, 0x00, 0x23]
    /// 1.3.101.112
    static let ed25519: [UInt8] = [0x06, 0x03, 0x2B, 0x65, 0x70]

    /// The algorithm identifier in a private key; nil when the key does not contain one.
    static func of(_ block: PEMBlock) -> [UInt8]? {
        guard let bytes = block.content else { return nil }
        var file = DERReader(bytes[...])
        guard let key = file.next(0x30) else { return nil }
        var members = DERReader(key)
        // The version.
        guard members.next(0x02) != nil else { return nil }
        switch block.label {
        // RFC 5958 section 2: privateKeyAlgorithm.
        case "PRIVATE KEY": return members.next(0x30).map { Array($0) }
        case "EC PRIVATE KEY":
            // RFC 5915 section 3: "implementations that conform to this document MUST always include the parameters field".
            guard members.next(0x04) != nil else { return nil }
            return members.next(0xA0).map { ecPublicKeyOID + $0 }
        default: return nil
        }
    }
}
