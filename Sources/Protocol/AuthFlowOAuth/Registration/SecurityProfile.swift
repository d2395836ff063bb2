package import AuthFlowHTTP
import AuthFlowJOSE

/// A standard security profile, with which a client must fully comply.
public enum SecurityProfile: String, Sendable, Hashable, CaseIterable {
    /// The FAPI 2.0 Security Profile.
    case fapi2
    /// FAPI 2.0 Message Signing: with signed authorization requests and responses.
    case fapi2MessageSigning = "fapi2-message-signing"

    /// FAPI 2.0 section 5.4.1: "shall only use PS256, ES256, or EdDSA (using the Ed25519 variant) algorithms".
    var algorithms: [SignatureAlgorithm] { [.ps256, .es256, .edDSA, .ed25519] }
}

extension ClientRegistration.Values {
    /// Sets the values that the security profile determines, and rejects values that violate it.
    /// - Throws: ``AuthError`` with `invalid_configuration`; the message cites the clause.
    package mutating func applyProfile() throws(AuthError) {
        guard let securityProfile else { return }
        func rejection(_ reason: String, _ clause: String) -> AuthError {
            AuthError(
                .invalidConfiguration,
                "The client violates the security profile \(securityProfile.rawValue): \(reason) (FAPI 2.0 \(clause))."
            )
        }
        let methods: [ClientAuthentication.Method] = [.privateKeyJWT, .tlsClientAuth, .selfSignedTLSClientAuth]
        guard methods.contains(authentication.method) else {
            throw rejection(
                "the client authenticates with \(authentication.method.rawValue), not with private_key_jwt or a certificate",
                "Security Profile section 5.3.3.1, item 2"
            )
        }
        // The settings of client assertions: audience and algorithm.
        if let audience = authentication.assertion?.audience, audience != .issuer {
            throw rejection(
                "the audience of client assertions is not the issuer",
                "Security Profile section 5.3.3.1, item 5"
            )
        }
        if let algorithm = authentication.assertion?.algorithm, !securityProfile.algorithms.contains(algorithm) {
            throw rejection("assertions are signed with \(algorithm.rawValue)", "Security Profile section 5.4.1")
        }
        // "shall support sender-constrained access tokens": tokens are bound to the certificate that authenticates the client, or else to a DPoP key. A
        // binding can be checked only if the certificate is known.
        if authentication.usesCertificate, certificate != nil, !usesDPoP { bindsTokensToCertificate = true }
        if !bindsTokensToCertificate { usesDPoP = true }
        guard pushedRequests != .never else {
            throw rejection("authorization requests are not pushed", "Security Profile section 5.3.3.2, item 2")
        }
        pushedRequests = .always
        // "shall only send client_id and request_uri request parameters to the authorization endpoint".
        guard requestObjectReference == nil else {
            throw rejection("request objects are fetched by the provider", "Security Profile section 5.3.3.2, item 2")
        }
        guard repeatedPushedParameters.isEmpty else {
            throw rejection("pushed parameters are repeated in the URL", "Security Profile section 5.3.3.2, item 6")
        }
        for algorithm in idTokenSigningAlgorithms ?? [] where !securityProfile.algorithms.contains(algorithm) {
            throw rejection("ID Tokens may be signed with \(algorithm.rawValue)", "Security Profile section 5.4.1")
        }
        guard securityProfile == .fapi2MessageSigning else { return }
        guard requestObjectKey != nil else {
            throw rejection(
                "authorization requests are not signed; configure a key for request objects",
                "Message Signing section 5.3.2"
            )
        }
        // "shall set response_mode to jwt".
        guard responseMode == .query || responseMode == .jwt else {
            throw rejection("the response mode is \(responseMode.rawValue), not jwt", "Message Signing section 5.4.2")
        }
        responseMode = .jwt
        // Section 5.5.2: "shall ... request signed token introspection responses".
        signedIntrospection = signedIntrospection ?? SignedIntrospection()
    }
}
