import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON
import Crypto

/// A verified access token. It is a class so that the cache and the requests share one immutable instance.
final class AccessToken: Sendable {
    let issuer: String
    let claims: JSON
    let subject: String?
    let scopes: Set<String>
    let clientID: String?
    let binding: TokenBinding
    /// The expiry, in seconds since 1970; nil if unknown.
    let end: Double?
    /// The start of the validity period (`nbf`), in seconds since 1970.
    let start: Double

    init(issuer: String, claims: JSON, clientID: String?) throws(TokenFailure) {
        self.issuer = issuer
        self.claims = claims
        self.subject = claims["sub"]?.string
        self.clientID = clientID
        self.binding = try TokenBinding(claims)
        // RFC 8693 section 4.2, RFC 9068 section 2.2.3: a space-delimited string. Some servers use an array, or a
        // different claim name.
        let text = claims["scope"]?.string ?? claims["scp"]?.string
        let list = text?.split(separator: " ").map(String.init) ?? claims["scope"]?.strings ?? claims["scp"]?.strings
        // RFC 6749 section 3.3: scopes are ASCII. Swift considers several non-ASCII characters equal to ASCII
        // characters.
        self.scopes = Set((list ?? []).filter { $0.utf8.allSatisfy { $0 < 0x80 } })
        self.end = claims["exp"]?.number
        self.start = claims["nbf"]?.number ?? -.infinity
    }
}

/// The key of a token in a cache: its SHA-256 hash, so that the cache contains no tokens.
struct TokenDigest: Hashable, Sendable {
    private let digest: SHA256.Digest

    init(_ token: Secret) { self.digest = SHA256.hash(data: Array(token.exposed.utf8)) }
}
