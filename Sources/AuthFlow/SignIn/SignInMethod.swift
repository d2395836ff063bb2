/// A method of signing a user in: a grant, with what it shows the user.
public enum SignInMethod: Sendable {
    /// The authorization code grant, in a user agent on this machine (RFC 6749 section 4.1).
    case userAgent(any UserAgent)

    /// The device authorization grant, on another screen (RFC 8628).
    case device(any DevicePresenter)

    /// No user: the client itself (RFC 6749 section 4.4). Tokens are asked for again whenever they have expired.
    case clientCredentials

    /// The flow, by the name that configurations use.
    public var flow: SignInFlow {
        switch self {
        case .userAgent: .authorizationCode
        case .device: .device
        case .clientCredentials: .clientCredentials
        }
    }
}

/// A flow that signs a user in, by the name that configurations use.
public enum SignInFlow: String, Sendable, Hashable, CaseIterable {
    /// In a user agent on this machine: the authorization code grant (RFC 6749 section 4.1).
    case authorizationCode = "authorization_code"

    /// On another screen: the device authorization grant (RFC 8628).
    case device

    /// Without a user, as the client itself: the client credentials grant (RFC 6749 section 4.4).
    case clientCredentials = "client_credentials"
}

/// The methods of a client in the order in which they are tried, resolved before anything is shown.
struct SignInMethods: Sendable {
    var methods: [SignInMethod]

    /// Whether no user is involved, in any of them: a token of the client's own must not stand in for a user's.
    var isWithoutUser: Bool {
        !methods.isEmpty && methods.allSatisfy { if case .clientCredentials = $0 { true } else { false } }
    }

    /// The flows that were asked for and cannot work here, with the reason.
    var passedOver: [(flow: SignInFlow, reason: AuthError)] = []
}
