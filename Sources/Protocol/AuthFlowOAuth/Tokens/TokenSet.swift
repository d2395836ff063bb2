public import AuthFlowEssentials
public import AuthFlowIssuer

/// The tokens of one sign-in, as a token endpoint issued them (RFC 6749 section 5.1).
public struct TokenSet: Sendable, Hashable {
    /// `access_token`: the token for API requests.
    public var accessToken: Secret {
        get { storage.values.accessToken }
        set { change { $0.accessToken = newValue } }
    }

    /// `token_type`, such as `Bearer`. The value is case-insensitive.
    public var tokenType: String {
        get { storage.values.tokenType }
        set { change { $0.tokenType = newValue } }
    }

    /// The expiry of the access token, according to this machine's clock; nil when no default lifetime is configured and the response has no
    /// `expires_in`, or has the value 0 for a token that only another sign-in could replace.
    public var expiresAt: Date? {
        get { storage.values.expiresAt }
        set { change { $0.expiresAt = newValue } }
    }

    /// `refresh_token`: the token for obtaining new tokens.
    public var refreshToken: Secret? {
        get { storage.values.refreshToken }
        set { change { $0.refreshToken = newValue } }
    }

    /// `id_token`, as received. Do not trust its claims: use ``verifiedIDToken``.
    public var idToken: Secret? {
        get { storage.values.idToken }
        set { change { $0.idToken = newValue } }
    }

    /// The granted scopes. If the response omits `scope`, these are the requested scopes (RFC 6749 section 5.1).
    public var scopes: [String] {
        get { storage.values.scopes }
        set { change { $0.scopes = newValue } }
    }

    /// The response parameters that have no property in this type. They may contain secrets.
    public var parameters: RedactedJSON {
        get { storage.values.parameters }
        set { change { $0.parameters = newValue } }
    }

    /// The ID Token, after it has passed every check. Only the engine sets it.
    public package(set) var verifiedIDToken: IDToken? {
        get { storage.values.verifiedIDToken }
        set { change { $0.verifiedIDToken = newValue } }
    }

    /// The key to which the tokens are bound (RFC 9449); nil for bearer tokens. Only the engine sets it.
    package var dpopKey: DPoPKey? {
        get { storage.values.dpopKey }
        set { change { $0.dpopKey = newValue } }
    }

    /// `device_secret`: the secret with which other apps of the same vendor sign the user in (OpenID Connect Native
    /// SSO).
    public var deviceSecret: Secret? {
        get { storage.values.deviceSecret }
        set { change { $0.deviceSecret = newValue } }
    }

    private struct Values: Hashable, Sendable {
        var accessToken: Secret
        var tokenType: String
        var expiresAt: Date?
        var refreshToken: Secret?
        var idToken: Secret?
        var scopes: [String]
        var parameters: RedactedJSON
        var verifiedIDToken: IDToken?
        var dpopKey: DPoPKey?
        var deviceSecret: Secret?
    }

    /// A single reference to all values, because token sets are copied far more often than they are modified.
    private final class Storage: Sendable {
        let values: Values
        init(_ values: Values) { self.values = values }
    }

    private var storage: Storage

    private mutating func change(_ body: (inout Values) -> Void) {
        var values = storage.values
        body(&values)
        storage = Storage(values)
    }

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
        self.storage = Storage(
            Values(
                accessToken: accessToken,
                tokenType: tokenType,
                expiresAt: expiresAt,
                refreshToken: refreshToken,
                idToken: idToken,
                scopes: scopes,
                parameters: parameters
            )
        )
    }

    public static func == (left: TokenSet, right: TokenSet) -> Bool {
        left.storage === right.storage || left.storage.values == right.storage.values
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(storage.values) }
}

extension TokenSet: CustomReflectable {
    /// A mirror of the values, in which secrets are redacted when printed.
    public var customMirror: Mirror { Mirror(reflecting: storage.values) }
}

extension TokenSet {
    /// The maximum size of a token, in bytes.
    static let maximumTokenSize = 32 * 1024

    /// Checks that every token and name contains only characters that RFC 6749 allows: other characters cannot be sent in a header, and
    /// could manipulate the terminal on which a token is printed.
    /// - Throws: ``AuthError`` with `invalid_response`. The error message does not contain the tokens.
    func requireTransportableCharacters() throws(AuthError) {
        // Appendix A.12, A.17: access-token and refresh-token are 1*VSCHAR. The other tokens are also
        // sent in requests.
        let named: [(name: String, token: Secret?)] = [
            ("access_token", accessToken), ("refresh_token", refreshToken), ("id_token", idToken),
            ("device_secret", deviceSecret),
        ]
        for (name, token) in named {
            if let problem = token.flatMap(Self.problem) { throw Self.rejection("\"\(name)\" has \(problem)") }
        }
        // Appendix A.13: type-name = 1*name-char, name-char = "-" / "." / "_" / DIGIT / ALPHA; or a URI.
        guard !tokenType.isEmpty, tokenType.utf8.count <= 256, tokenType.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw Self.rejection(
                "\"token_type\" is empty, longer than 256 bytes, or contains characters that RFC 6749 appendix A does not allow; if the provider documents that this is a bearer token, list the type in \"bearer_token_types\""
            )
        }
        guard scopes.allSatisfy(ClientRegistration.Values.isScopeToken) else {
            throw Self.rejection("\"scope\" contains characters that RFC 6749 appendix A does not allow")
        }
    }

    /// The reason why a token is invalid; nil when it is valid.
    static func problem(of token: Secret) -> String? {
        let bytes = token.exposed.utf8
        guard bytes.count <= maximumTokenSize else { return "more than \(maximumTokenSize) bytes" }
        let isAllowed = bytes.allSatisfy { (0x20...0x7E).contains($0) }
        return isAllowed ? nil : "characters that RFC 6749 appendix A does not allow"
    }

    private static func rejection(_ problem: String) -> AuthError {
        AuthError(.invalidResponse, "The token response was rejected: \(problem).")
    }
}
