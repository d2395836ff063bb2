import AuthFlow
import AuthFlowEssentials
import Synchronization

// Provider discovery with WebFinger, and client registration.

extension OIDCEmulator {
    /// WebFinger (RFC 7033): this provider is the issuer of every user.
    func webFinger(_ query: FormParameters) -> TransportResponse {
        guard let resource = query["resource"], query["rel"] == "http://openid.net/specs/connect/1.0/issuer" else {
            return .json(["error": "unknown resource"], status: .notFound)
        }
        return .json([
            "subject": .string(resource),
            "unknown_member": ["x": 1],
            "links": [
                ["rel": "http://webfinger.net/rel/profile-page", "href": .string("\(base)/users")],
                ["rel": "http://openid.net/specs/connect/1.0/issuer", "href": .string(issuer)],
            ],
        ])
    }

    /// Dynamic client registration (RFC 7591 section 3), with the checks of the conformance suite (row 22).
    func register(_ request: HTTPRequest, _ body: [UInt8]) -> TransportResponse {
        guard request.headerFields[.contentType] == "application/json", let metadata = try? JSON(parsing: body) else {
            return .refusal("invalid_client_metadata", "not a JSON document")
        }
        let redirectURIs = metadata["redirect_uris"]?.strings ?? []
        guard !redirectURIs.isEmpty, redirectURIs.allSatisfy({ (try? RedirectURI($0)) != nil }) else {
            return .refusal("invalid_redirect_uri", "a redirect URI is missing or unsafe")
        }
        guard metadata["jwks"] == nil || metadata["jwks_uri"] == nil else {
            return .refusal("invalid_client_metadata", "jwks and jwks_uri are mutually exclusive")
        }
        guard metadata["grant_types"]?.strings?.contains("authorization_code") != false,
            metadata["response_types"]?.strings?.contains("code") != false
        else { return .refusal("invalid_client_metadata", "unsupported grant_types or response_types") }
        let method = metadata["token_endpoint_auth_method"]?.string ?? "client_secret_basic"
        guard ["none", "client_secret_basic", "client_secret_post"].contains(method) else {
            return .refusal("invalid_client_metadata", "unknown token_endpoint_auth_method")
        }
        let client = Client(
            id: "client-\(Self.randomID())",
            secret: method == "none" ? nil : Self.randomID(),
            authenticationMethod: method,
            redirectURIs: redirectURIs,
            userInfoSigningAlgorithm: metadata["userinfo_signed_response_alg"]?.string
                .map(SignatureAlgorithm.init(rawValue:))
        )
        state.withLock { $0.clients.append(client) }
        var response = metadata.object ?? [:]
        response["client_id"] = .string(client.id)
        response["client_id_issued_at"] = .integer(Int64(now().timeIntervalSince1970))
        response["token_endpoint_auth_method"] = .string(method)
        if let secret = client.secret {
            response["client_secret"] = .string(secret)
            response["client_secret_expires_at"] = 0
        }
        response["registration_client_uri"] = .string("\(base)/register/\(client.id)")
        response["registration_access_token"] = .string(Self.randomID())
        return .json(.object(response), status: .created)
    }
}
