import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON
import Crypto

/// An access token that was verified.
struct AccessToken: Sendable {
    let issuer: String
    let claims: JSON
    let scopes: Set<String>
    let clientID: String?
    /// The end, in seconds since 1970; nil where none is known.
    let end: Double?
    /// The start, in seconds since 1970.
    let start: Double

    init(issuer: String, claims: JSON, clientID: String?) {
        self.issuer = issuer
        self.claims = claims
        self.clientID = clientID
        // RFC 8693 section 4.2, RFC 9068 section 2.2.3: a string with spaces. Several servers write an array, some under another name.
        let text = claims["scope"]?.string ?? claims["scp"]?.string
        let list = text?.split(separator: " ").map(String.init) ?? claims["scope"]?.strings ?? claims["scp"]?.strings
        self.scopes = Set(list ?? [])
        self.end = claims["exp"]?.number
        self.start = claims["nbf"]?.number ?? -.infinity
    }

    var expiresAt: Date? { end.map(Date.init(timeIntervalSince1970:)) }
}

/// The name of a token in a cache: its SHA-256, so that the cache holds no tokens.
struct TokenDigest: Hashable, Sendable {
    private let bytes: [UInt8]

    init(_ token: Secret) { self.bytes = Array(SHA256.hash(data: Array(token.exposed.utf8))) }
}
