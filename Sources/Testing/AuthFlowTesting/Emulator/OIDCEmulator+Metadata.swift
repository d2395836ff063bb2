import AuthFlow
import Synchronization

// The metadata document (OpenID Connect Discovery section 4.2) and the keys.

extension OIDCEmulator {
    func metadata() -> TransportResponse {
        let algorithms = SignatureAlgorithm.asymmetric + SignatureAlgorithm.symmetric
        var document: [String: JSON] = [
            "issuer": .string(tenancy?.template ?? issuer),
            "authorization_endpoint": .string("\(base)/authorize"),
            "token_endpoint": .string("\(base)/token"),
            "jwks_uri": .string("\(base)/jwks"),
            "userinfo_endpoint": .string("\(base)/userinfo"),
            "end_session_endpoint": .string("\(base)/end_session"),
            "registration_endpoint": .string("\(base)/register"),
            "revocation_endpoint": .string("\(base)/revoke"),
            "introspection_endpoint": .string("\(base)/introspect"),
            "device_authorization_endpoint": .string("\(base)/device_authorization"),
            "response_types_supported": ["code"],
            "response_modes_supported": .array(ResponseMode.allCases.map { .string($0.rawValue) }),
            "grant_types_supported": [
                "authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code",
                "client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer",
            ],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": .array(algorithms.map { .string($0.rawValue) }),
            "scopes_supported": ["openid", "profile", "email", "address", "phone", "offline_access"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": [
                "none", "client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt",
            ],
            "token_endpoint_auth_signing_alg_values_supported": .array(algorithms.map { .string($0.rawValue) }),
            "request_object_signing_alg_values_supported": .array(
                SignatureAlgorithm.asymmetric.map { .string($0.rawValue) }
            ),
            "request_parameter_supported": true,
            "authorization_signing_alg_values_supported": .array(
                SignatureAlgorithm.asymmetric.map { .string($0.rawValue) }
            ),
            "authorization_details_types_supported": ["payment", "account"],
            "dpop_signing_alg_values_supported": ["ES256"],
            "authorization_response_iss_parameter_supported": true,
        ]
        if clients.contains(where: { $0.certificateThumbprint != nil }) {
            document["mtls_endpoint_aliases"] = mtlsEndpointAliases
            document["tls_client_certificate_bound_access_tokens"] = true
        }
        if let key = settings.requestDecryptionKey {
            document["request_object_encryption_alg_values_supported"] = .array(
                key.algorithms.map { .string($0.rawValue) }
            )
            document["request_object_encryption_enc_values_supported"] = .array(
                ContentEncryption.allCases.map { .string($0.rawValue) }
            )
        }
        if settings.pushedRequests != .never {
            document["pushed_authorization_request_endpoint"] = .string("\(base)/par")
        }
        if settings.pushedRequests == .always { document["require_pushed_authorization_requests"] = true }
        return (settings.fault?.metadata ?? MetadataFault()).applied(to: document)
    }

    func keySet() -> TransportResponse {
        let (keys, fault) = state.withLock { ($0.keys, $0.settings.fault?.keySet ?? KeySetFault()) }
        guard let published = try? keys.jwks()["keys"]?.array else { return .failure }
        var members = published
        for copy in 1..<max(fault.copies, 1) {
            guard let decoys = try? keys.decoys().jwks()["keys"]?.array else { return .failure }
            // The valid keys are placed between the decoys.
            members = copy == 1 ? decoys + members : members + decoys
        }
        if let key = settings.requestDecryptionKey { members.append(key.publicJWK) }
        var document: [String: JSON] = ["keys": .array(members)]
        fault.document.members(&document)
        var response = TransportResponse.json(.object(document))
        fault.document.response(&response)
        return response
    }
}
