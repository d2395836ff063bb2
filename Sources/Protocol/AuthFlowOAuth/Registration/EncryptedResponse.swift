/// A response that a server encrypts for clients that have registered for encryption.
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
