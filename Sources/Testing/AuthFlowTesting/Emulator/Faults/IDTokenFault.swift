public import AuthFlow

/// A fault in an ID Token. Unless stated otherwise, the token has a valid signature.
public struct IDTokenFault: Sendable {
    /// An attacker's method of signing a token.
    enum Forgery: Sendable {
        case none
        /// HMAC keyed with the PEM of the provider's public key: the algorithm confusion attack of RFC 8725 section
        /// 2.1.
        case publicKeyAsSecret
    }

    var claims: EmulatorFault.Change = { _ in }
    var header: EmulatorFault.Change = { _ in }
    var text: @Sendable (String) -> String = { $0 }
    var algorithm: SignatureAlgorithm?
    var forgery = Forgery.none

    /// Changes claims.
    public static func claims(_ change: @escaping EmulatorFault.Change) -> IDTokenFault { IDTokenFault(claims: change) }

    /// Changes header parameters.
    public static func header(_ change: @escaping EmulatorFault.Change) -> IDTokenFault { IDTokenFault(header: change) }

    /// Changes the token after it has been signed.
    public static func text(_ change: @escaping @Sendable (String) -> String) -> IDTokenFault {
        IDTokenFault(text: change)
    }

    /// Sets a claim to a different value, or removes it.
    public static func claim(_ name: String, _ value: JSON?) -> IDTokenFault { claims { $0[name] = value } }

    /// A valid signature with an algorithm other than the registered algorithm.
    public static func signed(with algorithm: SignatureAlgorithm) -> IDTokenFault {
        IDTokenFault(algorithm: algorithm)
    }

    // MARK: Named

    /// `iss` with an extra character (rows 2, 57 and 89).
    public static let wrongIssuer = claims { $0.append("1", to: "iss") }
    /// No `iss` (row 97).
    public static let missingIssuer = claim("iss", nil)
    /// No `sub` (row 3).
    public static let missingSubject = claim("sub", nil)
    /// Another `sub` (row 58).
    public static let wrongSubject = claims { $0.append("1", to: "sub") }
    /// `aud` with an extra character (rows 4 and 90).
    public static let wrongAudience = claims { $0.append("1", to: "aud") }
    /// No `aud` (rows 41 and 96).
    public static let missingAudience = claim("aud", nil)
    /// A second audience, which the client does not trust (row 91).
    public static let secondAudience = claims { $0["aud"] = [$0["aud"] ?? .null, "other"] }
    /// `aud` as an array with one element, which is valid (row 98).
    public static let audienceAsArray = claims { $0["aud"] = [$0["aud"] ?? .null] }
    /// `azp` of another client (row O1).
    public static let wrongAuthorizedParty = claim("azp", "other")
    /// No `exp` (row 95).
    public static let missingExpiry = claim("exp", nil)
    /// Expired this many seconds ago (rows 94 and O2).
    public static func expired(secondsAgo: Int64) -> IDTokenFault {
        claims { $0["exp"] = .integer(($0["iat"]?.integer ?? 0) - secondsAgo) }
    }
    /// No `iat` (row 5).
    public static let missingIssuedAt = claim("iat", nil)
    /// Issued a week ago (row 120).
    public static let issuedLongAgo = claims { $0["iat"] = .integer(($0["iat"]?.integer ?? 0) - 604_800) }
    /// The nonce with an extra character (rows 12 and 99).
    public static let wrongNonce = claims { $0.append("1", to: "nonce") }
    /// No nonce (row 100).
    public static let missingNonce = claim("nonce", nil)
    /// A nonce, whether or not one was sent (row O6).
    public static let unexpectedNonce = claim("nonce", "unexpected")
    /// `at_hash` of another access token (row O3).
    public static let wrongAccessTokenHash = claim("at_hash", "AAAAAAAAAAAAAAAAAAAAAA")
    /// `c_hash` of another code.
    public static let wrongCodeHash = claim("c_hash", "AAAAAAAAAAAAAAAAAAAAAA")
    /// No `auth_time` (row O14).
    public static let missingAuthenticationTime = claim("auth_time", nil)
    /// `auth_time` an hour before the token was issued (row O14).
    public static let authenticatedAnHourAgo = claims {
        $0["auth_time"] = .integer(($0["iat"]?.integer ?? 0) - 3600)
    }
    /// A weak `acr`.
    public static let weakAuthentication = claim("acr", "0")
    /// An unknown critical header parameter (row O5).
    public static let criticalHeader = header {
        $0["crit"] = ["x"]
        $0["x"] = 1
    }
    /// No `kid` in the header (rows 6 and 7).
    public static let missingKeyID = header { $0["kid"] = nil }
    /// A `kid` that no key set contains (row O12).
    public static let unknownKeyID = header { $0["kid"] = "unknown" }
    /// `alg` is `none`, without a signature (rows 9 and 92).
    public static let unsigned = text { token in
        let parts = token.split(separator: ".")
        return "\(Base64URL.encode(#"{"alg":"none"}"#.utf8)).\(parts[1])."
    }
    /// A signature whose last bytes were changed (rows 10, 42, 43 and 125).
    public static let badSignature = text { token in
        let parts = token.split(separator: ".")
        let signature = Base64URL.decode(parts[2]) ?? []
        return "\(parts[0]).\(parts[1]).\(Base64URL.encode(signature.dropLast(4) + [1, 2, 3, 4]))"
    }
    /// HS256 with the provider's public key as the secret (row O15).
    public static let publicKeyAsSecret = IDTokenFault(algorithm: .hs256, forgery: .publicKeyAsSecret)
}
