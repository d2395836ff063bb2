import AuthFlowHTTP
public import AuthFlowJSON

/// The user who signed in.
public struct Identity: Sendable, Hashable {
    /// The issuer at which ``subject`` is unique.
    public let issuer: String

    /// The user's identifier: stable, unique at the issuer, and not meant for display. Accounts are distinguished by
    /// issuer and subject, never by name or e-mail address (OIDC Core section 5.7).
    public let subject: String

    /// The provider's claims about the user (OIDC Core section 5.1), from the ID Token and userinfo.
    public let claims: JSON

    /// `email`: the user's e-mail address, which may be shared, reassigned or unverified. Not an identifier.
    public var email: String? { claims["email"]?.string }

    /// `email_verified`: whether the provider has verified the address; nil when the claim is absent.
    public var isEmailVerified: Bool? {
        // Apple and Amazon Cognito send a string.
        switch claims["email_verified"]?.string {
        case "true": true
        case "false": false
        default: claims["email_verified"]?.bool
        }
    }

    /// `name`: the full name.
    public var name: String? { claims["name"]?.string }

    /// `preferred_username`: the name with which the user signs in at some providers. Not an identifier.
    public var preferredUsername: String? { claims["preferred_username"]?.string }

    /// Creates an identity.
    public init(issuer: String, subject: String, claims: JSON = [:]) {
        self.issuer = issuer
        self.subject = subject
        self.claims = claims
    }

    /// A display name: the full name, the user name, the e-mail address, or the subject. Not an identifier.
    public var displayName: String {
        let names = ["name", "preferred_username", "email"].compactMap { claims[$0]?.string }
            .map { DisplayText.sanitized($0) }
        // A name that consists of invisible characters does not identify anyone.
        return names.first { !$0.allSatisfy(\.isWhitespace) } ?? DisplayText.sanitized(subject)
    }
}

extension Identity {
    /// Compares the claims, and the issuers and subjects code point by code point (OIDC Core section 14).
    public static func == (left: Identity, right: Identity) -> Bool {
        left.account == right.account && left.claims == right.claims
    }

    /// The account.
    var account: AccountID { AccountID(issuer: issuer, subject: subject) }
}

/// An account: an issuer, and a subject, which is unique only within the issuer (OIDC Core section 5.7).
package struct AccountID: Sendable, Hashable {
    package let issuer: String
    /// The subject; nil for an unknown user.
    package let subject: String?

    package static func == (left: AccountID, right: AccountID) -> Bool {
        left.issuer.isIdentical(to: right.issuer) && left.subject.isIdentical(to: right.subject)
    }

    /// Whether a name designates the account: its subject, or its issuer and its subject, separated by a space.
    package func isNamed(_ name: String) -> Bool {
        guard let subject else { return false }
        let (issuer, named) = Self.parts(of: name)
        return subject.isIdentical(to: named) && issuer?.isIdentical(to: self.issuer) != false
    }

    /// Whether a name contains an issuer. A subject that looks like such a name is not sufficient to identify its account.
    package static func containsIssuer(_ name: String) -> Bool { parts(of: name).issuer != nil }

    private static func parts(of name: String) -> (issuer: String?, subject: String) {
        let parts = name.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, parts[0].hasPrefix("https://") || parts[0].hasPrefix("http://") else {
            return (nil, name)
        }
        return (parts[0], parts[1])
    }

    package var json: JSON {
        var json: [String: JSON] = ["issuer": .string(issuer)]
        json["subject"] = subject.map(JSON.string)
        return .object(json)
    }

    package init(issuer: String, subject: String?) {
        self.issuer = issuer
        self.subject = subject
    }

    package init?(_ json: JSON) {
        guard let issuer = json["issuer"]?.string else { return nil }
        self.init(issuer: issuer, subject: json["subject"]?.string)
    }
}
