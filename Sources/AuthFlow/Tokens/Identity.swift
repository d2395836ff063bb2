public import AuthFlowJSON

/// Who signed in.
public struct Identity: Sendable, Hashable {
    /// The issuer that ``subject`` is unique at.
    public let issuer: String

    /// The person's identifier: stable, unique at the issuer, and not meant to be read. Accounts are told apart by
    /// issuer and subject, never by name or e-mail address (OIDC Core section 5.7).
    public let subject: String

    /// What the provider says about the person (OIDC Core section 5.1), from the ID Token and userinfo.
    public let claims: JSON

    /// Creates an identity.
    public init(issuer: String, subject: String, claims: JSON = [:]) {
        self.issuer = issuer
        self.subject = subject
        self.claims = claims
    }

    /// A name to show: the full name, the user name, the e-mail address, or the subject. Not an identifier.
    public var displayName: String {
        let names = ["name", "preferred_username", "email"].compactMap { claims[$0]?.string }
        return DisplayText.sanitized(names.first { !$0.isEmpty } ?? subject)
    }
}
