public import AuthFlowJSON

/// The user who signed in.
public struct Identity: Sendable, Hashable {
    /// The issuer that ``subject`` is unique at.
    public let issuer: String

    /// The user's identifier: stable, unique at the issuer, and not meant to be read. Accounts are told apart by
    /// issuer and subject, never by name or e-mail address (OIDC Core section 5.7).
    public let subject: String

    /// What the provider says about the user (OIDC Core section 5.1), from the ID Token and userinfo.
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

extension Identity {
    /// Compares two identities, issuer and subject code point by code point (OIDC Core section 14).
    public static func == (left: Identity, right: Identity) -> Bool {
        left.account == right.account && left.claims == right.claims
    }

    /// What tells this account from all others.
    var account: AccountID { AccountID(issuer: issuer, subject: subject) }
}

/// An account: a subject, which is unique at its issuer and nowhere else (OIDC Core section 5.7).
struct AccountID: Sendable, Hashable {
    let issuer: String
    let subject: String

    static func == (left: AccountID, right: AccountID) -> Bool {
        left.issuer.isIdentical(to: right.issuer) && left.subject.isIdentical(to: right.subject)
    }
}
