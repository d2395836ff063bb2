import AuthFlowHTTP
import Crypto

/// Proof Key for Code Exchange (RFC 7636), with S256, the only supported method.
struct PKCE: Sendable {
    /// `code_verifier`: 256 random bits in 43 unreserved characters (section 4.1), sent only with the code.
    let codeVerifier: Secret

    /// `code_challenge`: BASE64URL(SHA256(ASCII(code_verifier))) (section 4.2).
    let codeChallenge: String

    init(codeVerifier: Secret) {
        self.codeVerifier = codeVerifier
        self.codeChallenge = Base64URL.encode(SHA256.hash(data: Array(codeVerifier.exposed.utf8)))
    }
}
