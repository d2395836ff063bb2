public import AuthFlow
public import AuthFlowJSON

/// A way for an emulated provider to misbehave, so that a test can see its client refuse it.
///
/// Each fault changes one message and leaves all others right. Make your own, or use one of the named ones:
///
/// ```swift
/// emulator.fault = .idToken { $0["iss"] = "https://elsewhere.example.com" }
/// emulator.fault = .wrongNonce
/// ```
public struct EmulatorFault: Sendable {
    /// A change to the members of a JSON message.
    public typealias Change = @Sendable (inout [String: JSON]) -> Void

    var idTokenClaims: Change = { _ in }
    var idTokenHeader: Change = { _ in }
    var idTokenText: @Sendable (String) -> String = { $0 }
    var metadata: Change = { _ in }
    var tokenReply: Change = { _ in }
    var userInfo: Change = { _ in }
    var callback: @Sendable (inout FormParameters) -> Void = { _ in }

    /// Changes the claims of the ID Token, which is then properly signed.
    public static func idToken(_ change: @escaping Change) -> EmulatorFault {
        changing(\.idTokenClaims, change)
    }

    /// Changes the header of the ID Token, which is then properly signed.
    public static func idTokenHeader(_ change: @escaping Change) -> EmulatorFault {
        changing(\.idTokenHeader, change)
    }

    /// Changes the ID Token after it was signed.
    public static func idTokenText(_ change: @escaping @Sendable (String) -> String) -> EmulatorFault {
        changing(\.idTokenText, change)
    }

    /// Changes the metadata document.
    public static func metadata(_ change: @escaping Change) -> EmulatorFault {
        changing(\.metadata, change)
    }

    /// Changes the reply of the token endpoint.
    public static func tokenReply(_ change: @escaping Change) -> EmulatorFault {
        changing(\.tokenReply, change)
    }

    /// Changes the userinfo reply.
    public static func userInfo(_ change: @escaping Change) -> EmulatorFault {
        changing(\.userInfo, change)
    }

    /// Changes the parameters of the redirect back to the client.
    public static func callback(_ change: @escaping @Sendable (inout FormParameters) -> Void) -> EmulatorFault {
        changing(\.callback, change)
    }

    private static func changing<Part>(_ part: WritableKeyPath<EmulatorFault, Part>, _ change: Part) -> EmulatorFault {
        var fault = EmulatorFault()
        fault[keyPath: part] = change
        return fault
    }

    /// A signature that does not fit: its last bytes are changed.
    public static let badSignature = idTokenText { token in
        let parts = token.split(separator: ".")
        let signature = Base64URL.decode(parts[2]) ?? []
        return "\(parts[0]).\(parts[1]).\(Base64URL.encode(signature.dropLast(4) + [1, 2, 3, 4]))"
    }

    /// An unsigned ID Token.
    public static let unsigned = idTokenText { token in
        let parts = token.split(separator: ".")
        return "\(Base64URL.encode(#"{"alg":"none"}"#.utf8)).\(parts[1])."
    }

    /// The nonce of another sign-in.
    public static let wrongNonce = idToken { $0["nonce"] = "another" }

    /// Another issuer in the ID Token.
    public static let wrongIssuer = idToken { $0["iss"] = .string(($0["iss"]?.string ?? "") + "1") }

    /// Another client in the ID Token.
    public static let wrongAudience = idToken { $0["aud"] = .string(($0["aud"]?.string ?? "") + "1") }

    /// Userinfo about somebody else.
    public static let wrongUserInfoSubject = userInfo { $0["sub"] = .string(($0["sub"]?.string ?? "") + "invalid") }

    /// A metadata document that names another issuer.
    public static let wrongMetadataIssuer = metadata {
        $0["issuer"] = .string(($0["issuer"]?.string ?? "") + "INVALID")
    }
}
