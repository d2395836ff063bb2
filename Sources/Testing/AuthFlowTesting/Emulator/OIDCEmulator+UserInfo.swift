import AuthFlow
import Synchronization

// The userinfo endpoint (OIDC Core section 5.3).

extension OIDCEmulator {
    func userInfo(_ request: HTTPRequest, _ address: String) -> TransportResponse {
        let (granted, challenge) = grant(of: request, at: address)
        guard let grant = granted else {
            var response = TransportResponse.json(["error": "invalid_token"], status: .unauthorized)
            response.head.headerFields[.wwwAuthenticate] = challenge
            return withNonce(response)
        }
        let client = grant.authorization.client
        let fault = settings.fault?.userInfo ?? UserInfoFault()
        var claims = released(to: grant)
        if client.userInfoSigningAlgorithm != nil {
            claims["iss"] = .string(issuer)
            claims["aud"] = .string(client.id)
        }
        fault.members(&claims)
        var response = TransportResponse.json(.object(claims))
        if let algorithm = client.userInfoSigningAlgorithm {
            let keys = state.withLock { $0.keys }
            let header: JSON = ["alg": .string(algorithm.rawValue), "kid": .string(keys.keyID(for: algorithm))]
            guard
                let token = try? keys.sign(
                    .object(claims),
                    header: header,
                    with: algorithm,
                    secret: client.secret ?? ""
                )
            else { return .failure }
            response.head.headerFields[.contentType] = "application/jwt"
            response.body = Array(token.utf8)
        }
        if client.encryption?.responses.contains(.userInfo) == true {
            guard let token = try? client.received(String(decoding: response.body, as: UTF8.self), .userInfo) else {
                return .failure
            }
            response.head.headerFields[.contentType] = "application/jwt"
            response.body = Array(token.utf8)
        }
        fault.response(&response)
        return response
    }

    /// OIDC Core section 5.4: the claims that the granted scopes request.
    private func released(to grant: Grant) -> [String: JSON] {
        let scopes = grant.scopes
        return users[grant.session.userIndex].claims.filter { name, _ in
            switch name {
            case "sub": true
            case "email", "email_verified": scopes.contains("email")
            case "address": scopes.contains("address")
            case "phone_number", "phone_number_verified": scopes.contains("phone")
            default: scopes.contains("profile")
            }
        }
    }
}
