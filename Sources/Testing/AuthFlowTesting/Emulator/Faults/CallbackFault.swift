public import AuthFlow

/// A fault in a front-channel response: the authorization response, or the redirect after a sign-out.
public struct CallbackFault: Sendable {
    var change: @Sendable (inout FormParameters) -> Void = { _ in }

    /// Changes the parameters.
    public static func parameters(_ change: @escaping @Sendable (inout FormParameters) -> Void) -> CallbackFault {
        CallbackFault(change: change)
    }

    /// Another issuer (row 101).
    public static let wrongIss = parameters { $0["iss"] = "https://elsewhere.example.com" }
    /// No `iss`, although `authorization_response_iss_parameter_supported` in the metadata is true (row 102).
    public static let missingIss = parameters { $0["iss"] = nil }
    /// A different state (rows 61 and 103).
    public static let wrongState = parameters { $0["state"] = "another" }
    /// No state (rows 62 and 104).
    public static let missingState = parameters { $0["state"] = nil }
    /// A second code, with a different value (row O4).
    public static let repeatedCode = parameters { $0.append("code", "another") }
    /// The state twice (row O4).
    public static let repeatedState = parameters { $0.append("state", $0["state"] ?? "") }
    /// The issuer twice (row O4).
    public static let repeatedIss = parameters { $0.append("iss", $0["iss"] ?? "") }
    /// Unknown parameters, which are allowed.
    public static let unknownParameters = parameters { $0.append("session_state", "x") }
}
