public import AuthFlow

/// A fault that an emulated provider injects, so that a test can check how its client handles the faulty message.
///
/// Each fault changes one message and leaves all others correct. Use one of the predefined faults, or define your own:
///
/// ```swift
/// emulator.fault = .idToken(.wrongIssuer)
/// emulator.fault = .jwks(.rotateBeforeSigning)
/// emulator.fault = .callback(.missingIss)
/// emulator.fault = .idToken(.claims { $0["acr"] = "weak" })
/// ```
public struct EmulatorFault: Sendable {
    var idToken = IDTokenFault()
    var keySet = KeySetFault()
    var metadata = MetadataFault()
    var tokenResponse = TokenResponseFault()
    var userInfo = UserInfoFault()
    var callback = CallbackFault()
    var deviceAuthorization = DeviceAuthorizationFault()
    var pushedAuthorization = PushedAuthorizationFault()
    var signedResponse = SignedResponseFault()
    var introspection = SignedResponseFault()

    /// A fault in the ID Token.
    public static func idToken(_ fault: IDTokenFault) -> EmulatorFault { with(\.idToken, fault) }

    /// A fault in the key set.
    public static func jwks(_ fault: KeySetFault) -> EmulatorFault { with(\.keySet, fault) }

    /// A fault in the metadata document.
    public static func metadata(_ fault: MetadataFault) -> EmulatorFault { with(\.metadata, fault) }

    /// A fault in the token endpoint's response.
    public static func tokenResponse(_ fault: TokenResponseFault) -> EmulatorFault { with(\.tokenResponse, fault) }

    /// A fault in the userinfo endpoint's response.
    public static func userInfo(_ fault: UserInfoFault) -> EmulatorFault { with(\.userInfo, fault) }

    /// A fault in a front-channel response.
    public static func callback(_ fault: CallbackFault) -> EmulatorFault { with(\.callback, fault) }

    /// A fault in the device authorization endpoint's response.
    public static func deviceAuthorization(_ fault: DeviceAuthorizationFault) -> EmulatorFault {
        with(\.deviceAuthorization, fault)
    }

    /// A fault in the response to a pushed authorization request.
    public static func pushedAuthorization(_ fault: PushedAuthorizationFault) -> EmulatorFault {
        with(\.pushedAuthorization, fault)
    }

    /// A fault in a signed authorization response.
    public static func signedResponse(_ fault: SignedResponseFault) -> EmulatorFault { with(\.signedResponse, fault) }

    /// A fault in a signed introspection response.
    public static func introspection(_ fault: SignedResponseFault) -> EmulatorFault { with(\.introspection, fault) }

    private static func with<Part>(_ part: WritableKeyPath<EmulatorFault, Part>, _ value: Part) -> EmulatorFault {
        var fault = EmulatorFault()
        fault[keyPath: part] = value
        return fault
    }

    /// A change to the members of a JSON object.
    public typealias Change = @Sendable (inout [String: JSON]) -> Void
}

extension [String: JSON] {
    /// Appends text to a string member.
    mutating func append(_ text: String, to name: String) {
        self[name] = .string((self[name]?.string ?? "") + text)
    }
}
