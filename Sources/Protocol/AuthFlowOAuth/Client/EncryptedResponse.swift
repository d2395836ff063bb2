package import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON

/// A response that a server encrypts to a client that is registered for it.
public enum EncryptedResponse: String, Sendable, Hashable, CaseIterable {
    /// ID Tokens (`id_token_encrypted_response_alg`).
    case idToken = "id_token"
    /// Userinfo (`userinfo_encrypted_response_alg`).
    case userInfo = "userinfo"
    /// Signed authorization responses (`authorization_encrypted_response_alg`).
    case authorizationResponse = "authorization_response"
    /// Signed introspection responses (`introspection_encrypted_response_alg`).
    case introspection
}

extension OAuthClient {
    /// The content of a token that may be encrypted: what was signed, or claims as they are.
    /// - Parameters:
    ///   - token: The token as it came.
    ///   - kind: What it is.
    /// - Throws: ``AuthError`` with `invalid_id_token` when it cannot be decrypted, or is not encrypted although it has to be;
    ///   `unsupported` when the client has no key.
    func decrypted(_ token: Secret, _ kind: EncryptedResponse) throws(AuthError) -> Secret {
        guard JWE.isEncrypted(token) else {
            // An attacker who can send a plain token could otherwise take the encryption away.
            guard !registration.encryptedResponses.contains(kind) else {
                throw AuthError(
                    .invalidIDToken,
                    "The token is not encrypted, although the client demands it (\(kind.rawValue))."
                )
            }
            return token
        }
        guard let source = registration.decryptionKeys else {
            throw AuthError(.unsupported, "The token is encrypted (JWE), and the client has no key to decrypt it.")
        }
        return try JWE(token).decrypted(with: try source.keys(), mayBeUnsigned: kind == .userInfo)
    }

    /// The `state` that an authorization response claims to carry, for telling responses apart before anything is verified.
    /// - Throws: ``AuthError`` when it cannot be decrypted, or is not a JWT.
    package func claimedState(in response: String) throws(AuthError) -> String? {
        guard registration.responseMode.isSigned else { return nil }
        return try JWS(try decrypted(Secret(response), .authorizationResponse)).payload["state"]?.string
    }
}
