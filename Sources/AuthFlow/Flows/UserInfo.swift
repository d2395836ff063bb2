public import AuthFlowJSON
import HTTPTypes

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension ProviderContext {
    /// Asks the userinfo endpoint about the person (OIDC Core section 5.3).
    /// - Parameter tokens: Tokens with a verified ID Token.
    /// - Returns: The claims.
    /// - Throws: ``AuthError`` with `unsupported` when there is no such endpoint or no ID Token to compare with;
    ///   `access_token_rejected` when the access token is not accepted; `invalid_user_info` when the response is about somebody else.
    public func userInfo(for tokens: TokenSet) async throws -> JSON {
        let metadata = try await metadata()
        let endpoint = try metadata.required(\.userInfoEndpoint, "userinfo endpoint")
        guard let idToken = tokens.verifiedIDToken else {
            throw AuthError(
                .unsupported,
                "Userinfo needs an ID Token to be compared with. Ask for the scope \"openid\"."
            )
        }
        let response = try await resource(
            TransportRequest(.get, endpoint, headerFields: [.accept: "application/json, application/jwt"]),
            with: tokens
        )
        // OIDC Core section 5.3.2: a signed response has the content type application/jwt.
        let claims =
            response.mediaType == "application/jwt"
            ? try await signedClaims(response, metadata)
            : try response.json(from: "\(endpoint)")
        // OIDC Core section 5.3.2: "The sub Claim in the UserInfo Response MUST be verified to exactly match the sub
        // Claim in the ID Token; if they do not match, the UserInfo Response values MUST NOT be used."
        guard claims["sub"] == .string(idToken.subject) else {
            throw AuthError(
                .invalidUserInfo,
                "Userinfo is about another user than the ID Token (sub differs), so it was not used."
            )
        }
        return claims
    }

    /// The claims of a signed response, once it is verified that the provider signed it for this client.
    private func signedClaims(_ response: TransportResponse, _ metadata: ProviderMetadata) async throws -> JSON {
        @Sendable func refused(_ reason: String) -> AuthError {
            AuthError(.invalidUserInfo, "The signed userinfo was refused: \(reason).")
        }
        guard let token = String(validating: response.body, as: UTF8.self) else { throw refused("it is not text") }
        let jws: JWS
        do throws(AuthError) {
            jws = try JWS(Secret(token.trimmingWhitespace()))
        } catch {
            throw AuthError(error.code == .unsupported ? .unsupported : .invalidUserInfo, error.message)
        }
        guard jws.header.json["crit"] == nil else { throw refused("its header has \"crit\"") }
        let announced = metadata.json["userinfo_signing_alg_values_supported"]?.strings
        let acceptable =
            settings.idTokenSigningAlgorithms
            ?? SignatureAlgorithm.asymmetric.filter { announced?.contains($0.rawValue) ?? true }
        guard acceptable.contains(jws.header.algorithm) else { throw refused("its algorithm was not agreed") }
        // OIDC Core section 5.3.2: "If signed, the UserInfo Response SHOULD contain the Claims iss (issuer) and aud
        // (audience) as members. The iss value SHOULD be the OP's Issuer Identifier URL. The aud value SHOULD be or include
        // the RP's Client ID value." What is there must be right; the signature and sub are checked in any case.
        guard jws.payload["iss"] == nil || jws.payload["iss"] == .string(metadata.issuer) else {
            throw refused("it names another issuer (iss)")
        }
        if let audience = jws.payload["aud"] {
            let names = audience.string.map { [$0] } ?? audience.strings ?? []
            guard names.containsIdentical(settings.clientID) else {
                throw refused("it is meant for another client (aud)")
            }
        }
        let now = host.now().timeIntervalSince1970
        guard jws.payload["exp"] == nil || now - settings.clockLeeway.seconds < jws.payload["exp"]?.number ?? 0 else {
            throw refused("it has expired (exp)")
        }
        _ = try await checkSignature(of: jws, metadata: metadata, refusal: refused)
        return jws.payload
    }
}
