/// A way to sign a person in.
public enum SignInFlow: String, Sendable, Hashable, CaseIterable {
    /// In a user agent on this machine: the authorization code grant (RFC 6749 section 4.1).
    case authorizationCode = "authorization_code"

    /// On another screen: the device authorization grant (RFC 8628).
    case device
}
