import AuthFlowHTTP
import Crypto

/// Proof Key for Code Exchange (RFC 7636), method S256: the only one there is here.
struct PKCE: Sendable {
    /// `code_verifier`: 256 random bits in 43 unreserved characters (section 4.1), sent with the code and not before.
    let codeVerifier: Secret

    /// `code_challenge`: BASE64URL(SHA256(ASCII(code_verifier))) (section 4.2).
    let codeChallenge: String

    init(codeVerifier: Secret) {
        self.codeVerifier = codeVerifier
        self.codeChallenge = Base64URL.encode(SHA256.hash(data: Array(codeVerifier.exposed.utf8)))
    }
}
