public import AuthFlowJSON
public import Foundation

/// The tokens of one sign-in, as a token endpoint handed them out (RFC 6749 section 5.1).
public struct TokenSet: Sendable, Hashable {
    /// `access_token`: what APIs are called with.
    public var accessToken: Secret

    /// `token_type`, such as `Bearer`. Compared without case.
    public var tokenType: String

    /// When the access token ends, by this machine's clock; nil when the provider did not say (`expires_in` absent).
    public var expiresAt: Date?

    /// `refresh_token`: what new tokens are got with.
    public var refreshToken: Secret?

    /// `id_token`, as it came. Its content is believed only as ``verifiedIDToken``.
    public var idToken: Secret?

    /// The scopes granted. When the reply names none they are the ones asked for (RFC 6749 section 5.1).
    public var scopes: [String]

    /// Every parameter of the reply, for what is not named above. Holds tokens.
    public var parameters: RedactedJSON

    /// The ID Token after every check. Set by the engine alone.
    public internal(set) var verifiedIDToken: IDToken?

    /// Creates a token set.
    public init(
        accessToken: Secret,
        tokenType: String = "Bearer",
        expiresAt: Date? = nil,
        refreshToken: Secret? = nil,
        idToken: Secret? = nil,
        scopes: [String] = [],
        parameters: RedactedJSON = RedactedJSON([:])
    ) {
        self.accessToken = accessToken
        self.tokenType = tokenType
        self.expiresAt = expiresAt
        self.refreshToken = refreshToken
        self.idToken = idToken
        self.scopes = scopes
        self.parameters = parameters
    }
}

/// A JSON value that may hold secrets and is never printed.
public struct RedactedJSON: Sendable, Hashable {
    /// The value itself.
    public let exposed: JSON

    /// Wraps a value.
    public init(_ exposed: JSON) {
        self.exposed = exposed
    }
}

extension RedactedJSON: CustomStringConvertible, CustomReflectable {
    /// The names of the members.
    public var description: String { "<redacted: \((exposed.object ?? [:]).keys.sorted().joined(separator: ", "))>" }
    /// A mirror without children.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
