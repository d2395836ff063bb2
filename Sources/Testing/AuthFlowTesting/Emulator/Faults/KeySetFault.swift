public import AuthFlow

/// A fault in the key set or in its rotation. Most of these faults are allowed, and a client must handle them.
public struct KeySetFault: Sendable {
    /// The time at which the keys are replaced with new keys.
    enum Rotation: Sendable {
        case never
        case beforeSigning
        case atAuthorization
    }

    var document = DocumentFault<KeySetDocument>()
    var rotation = Rotation.never
    /// The number of keys of each kind: one signing key, and decoys.
    var copies = 1
    /// Whether ID Tokens omit the ID of their signing key (`kid`).
    var omitsKeyIDs = false

    /// Changes members of the document.
    public static func members(_ change: @escaping EmulatorFault.Change) -> KeySetFault {
        KeySetFault(document: .members(change))
    }

    /// Changes the HTTP response.
    public static func response(_ change: @escaping @Sendable (inout TransportResponse) -> Void) -> KeySetFault {
        KeySetFault(document: .response(change))
    }

    // MARK: Named

    /// All keys are replaced (the RSA key: only its ID) just before each ID Token is signed (row 18).
    public static let rotateBeforeSigning = KeySetFault(rotation: .beforeSigning)
    /// All keys are replaced (the RSA key: only its ID) at each authorization request (row 19).
    public static let rotateAtAuthorization = KeySetFault(rotation: .atAuthorization)
    /// Neither ID Tokens nor signing keys have a key ID, and the set also has encryption keys and keys on unknown curves (rows 6 and O9).
    public static let withoutKeyIDs = KeySetFault(
        document: .members { $0["keys"] = .array(others + anonymous($0["keys"])) },
        omitsKeyIDs: true
    )
    /// Like ``withoutKeyIDs``, with three keys of each kind (row 7).
    public static let severalWithoutKeyIDs = KeySetFault(
        document: withoutKeyIDs.document,
        copies: 3,
        omitsKeyIDs: true
    )
    /// Other keys with the same IDs precede and follow the valid keys (row O7).
    public static let decoys = KeySetFault(copies: 3)
    /// Unusable and malformed keys together with valid keys (row O8).
    public static let unreadableKeys = members {
        $0["keys"] = .array(others + [5, .null, [:]] + ($0["keys"]?.array ?? []))
    }
    /// No keys.
    public static let empty = members { $0["keys"] = [] }
    /// A thousand keys.
    public static let tooManyKeys = members { members in
        members["keys"] = .array((0..<1000).map { ["kty": "oct", "kid": .string("\($0)"), "k": "AAAA"] })
    }
    /// A redirect to another host (row O11).
    public static let redirected = KeySetFault(document: .redirected)
    /// A body of two megabytes (row O10).
    public static let oversized = KeySetFault(document: .oversized)
    /// Status 503.
    public static let unavailable = KeySetFault(document: .unavailable)

    /// Keys that no client can use to verify signatures.
    private static let others: [JSON] = [
        ["kty": "EC", "crv": "secp256k1", "x": "AAAA", "y": "AAAA"],
        ["kty": "RSA", "use": "enc", "alg": "RSA-OAEP", "kid": "enc-1", "n": "AAAA", "e": "AQAB"],
        ["kty": "EC", "use": "enc", "alg": "ECDH-ES", "kid": "enc-2", "crv": "P-256", "x": "AAAA", "y": "AAAA"],
        ["kty": "OKP", "crv": "X25519", "x": "AAAA"],
        ["kty": "new"],
    ]

    private static func anonymous(_ keys: JSON?) -> [JSON] {
        (keys?.array ?? []).map { .object(($0.object ?? [:]).filter { !["kid", "alg"].contains($0.key) }) }
    }
}

/// A marker type for the key set.
public enum KeySetDocument: Sendable {}
