package import AuthFlowHTTP
import AuthFlowIssuer

extension OAuthClient {
    /// The content of a token that may be encrypted: the signed JWT, or plaintext claims.
    /// - Throws: ``AuthError`` with `invalid_id_token` when it cannot be decrypted, or lacks the required encryption;
    ///   `unsupported` when the client has no decryption key; `invalid_configuration` when the file of a key cannot be used.
    func decrypted(_ token: Secret, _ kind: EncryptedResponse) throws(AuthError) -> Secret {
        guard JWE.isEncrypted(token) else {
            // Otherwise an attacker could downgrade to an unencrypted token.
            guard !registration.encryptedResponses.contains(kind) else {
                throw AuthError(
                    .invalidIDToken,
                    "The token is not encrypted, although the client requires encryption (\(kind.rawValue))."
                )
            }
            return token
        }
        guard let source = registration.decryptionKeys else {
            throw AuthError(
                .unsupported,
                "The token is encrypted (JWE), but the client has no decryption key: configure a \"decryption_key\"."
            )
        }
        return try JWE(token).decrypted(with: try source.keys(), mayBeUnsigned: kind == .userInfo)
    }

    /// Like ``decrypted(_:_:)``, but with the profile's error code for an invalid token.
    func decrypted(_ token: Secret, _ kind: EncryptedResponse, as profile: JWTProfile) throws(AuthError) -> Secret {
        do throws(AuthError) {
            return try decrypted(token, kind)
        } catch {
            throw error.ofUndecryptedToken(profile.code)
        }
    }

    /// Decrypts a signed authorization response; nil when the registration does not use signed responses.
    package var responseDecryption: (@Sendable (Secret) throws(AuthError) -> Secret)? {
        registration.responseMode.isSigned ? signedResponseDecryption : nil
    }

    /// Decrypts a signed authorization response if it is encrypted.
    var signedResponseDecryption: @Sendable (Secret) throws(AuthError) -> Secret {
        { [self] (response) throws(AuthError) in try decrypted(response, .authorizationResponse) }
    }

    /// Verifies the header, claims and signature of a JWT that the server issued for this client.
    /// - Parameters:
    ///   - token: The JWT, already decrypted.
    ///   - algorithms: The algorithms to accept; the security profile may limit them further.
    ///   - usesSecret: Whether the JWT may be signed with the client's secret (HMAC).
    func verify<Claims: Sendable>(
        _ token: Secret,
        as profile: JWTProfile,
        algorithms: [SignatureAlgorithm],
        metadata: ProviderMetadata,
        usesSecret: Bool = false,
        check: (JWTClaims) throws -> Claims
    ) async throws -> Claims {
        let verifier = JWTVerifier(
            profile,
            algorithms: algorithms.filter { registration.securityProfile?.algorithms.contains($0) != false },
            now: host.now(),
            leeway: registration.clockLeeway.seconds,
            clockOffset: server.clockOffset
        )
        let secret = usesSecret ? registration.authentication.secret : nil
        return try await verifier.verify(token, keys: server.keySet(metadata), secret: secret, check: check).claims
    }
}

extension AuthError {
    /// The error for a kind of token that could not be decrypted. Only `invalid_id_token` describes the token; the other codes describe the
    /// client's configuration, such as a key file that cannot be read, and are retained.
    /// - Parameter code: The code for an invalid token of this kind.
    func ofUndecryptedToken(_ code: Code) -> AuthError {
        self.code == .invalidIDToken ? AuthError(code, message) : self
    }
}

extension ProviderMetadata {
    /// The asymmetric algorithms that the server advertises for a kind of token; all of them when it advertises none.
    /// - Parameter name: The member of the metadata.
    func advertisedAlgorithms(_ name: String) -> [SignatureAlgorithm] {
        guard let advertised = advertised(name) else { return SignatureAlgorithm.asymmetric }
        return SignatureAlgorithm.asymmetric.filter { advertised.contains($0.rawValue) }
    }
}
