public import AuthFlow

/// A fault in a signed authorization (JARM) or introspection response. The signature is valid unless the name of the fault indicates otherwise.
public struct SignedResponseFault: Sendable {
    var claims: EmulatorFault.Change = { _ in }
    var header: EmulatorFault.Change = { _ in }
    var text: @Sendable (String) -> String = { $0 }
    var unsignedParameters: @Sendable (inout FormParameters) -> Void = { _ in }
    var algorithm: SignatureAlgorithm?

    /// Changes claims.
    public static func claims(_ change: @escaping EmulatorFault.Change) -> SignedResponseFault {
        SignedResponseFault(claims: change)
    }

    /// Changes header parameters.
    public static func header(_ change: @escaping EmulatorFault.Change) -> SignedResponseFault {
        SignedResponseFault(header: change)
    }

    /// Sets a claim to a different value, or removes it.
    public static func claim(_ name: String, _ value: JSON?) -> SignedResponseFault { claims { $0[name] = value } }

    /// Changes the parameters of the redirect, including `response`.
    public static func redirect(
        _ change: @escaping @Sendable (inout FormParameters) -> Void
    ) -> SignedResponseFault {
        SignedResponseFault(unsignedParameters: change)
    }

    /// Signs with a different algorithm.
    public static func signed(with algorithm: SignatureAlgorithm) -> SignedResponseFault {
        SignedResponseFault(algorithm: algorithm)
    }

    /// No `iss` (module F23).
    public static let missingIssuer = claim("iss", nil)
    /// Another issuer (F24).
    public static let wrongIssuer = claims { $0.append("1", to: "iss") }
    /// No `aud` (F25).
    public static let missingAudience = claim("aud", nil)
    /// Another client as the audience (F26).
    public static let wrongAudience = claims { $0.append("1", to: "aud") }
    /// No `exp` (F27).
    public static let missingExpiry = claim("exp", nil)
    /// Expired six minutes ago (F28).
    public static let expired = claims { $0["exp"] = .integer(($0["exp"]?.integer ?? 0) - 960) }
    /// An invalid signature (F29).
    public static let badSignature = SignedResponseFault(text: IDTokenFault.badSignature.text)
    /// `alg` is `none`, without a signature (F30).
    public static let unsigned = SignedResponseFault(
        header: { $0["alg"] = "none" },
        text: { $0.split(separator: ".", omittingEmptySubsequences: false).prefix(2).joined(separator: ".") + "." }
    )
    /// The code is sent together with the signed response, unsigned.
    public static let unsignedCode = redirect { $0.append("code", "stolen") }
    /// The response is not signed at all.
    public static let plain = redirect { parameters in
        parameters["response"] = nil
        parameters.append("code", "stolen")
        parameters.append("state", "guessed")
    }
}

/// A marker type for the response to a pushed authorization request.
public enum PushedAuthorizationDocument: Sendable {}
/// A fault in the response to a pushed authorization request.
public typealias PushedAuthorizationFault = DocumentFault<PushedAuthorizationDocument>

extension DocumentFault<PushedAuthorizationDocument> {
    /// No `request_uri`.
    public static var missingURI: Self { member("request_uri", nil) }
    /// No `expires_in`.
    public static var missingExpiry: Self { member("expires_in", nil) }
}
