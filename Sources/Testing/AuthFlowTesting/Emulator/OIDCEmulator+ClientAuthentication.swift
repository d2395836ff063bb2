import AuthFlow
import AuthFlowEssentials
import Synchronization

// Client authentication, checked as strictly as the specifications require.

extension OIDCEmulator {
    /// The client, if it has authenticated with its registered method.
    /// - Parameter address: The URL that the client requested; nil to derive it from the emulator's origin and the request's path.
    func authenticatedClient(_ form: FormParameters, _ request: HTTPRequest, _ address: String? = nil) -> Client? {
        let basic = request.headerFields[.authorization]
        if let basic, basic.hasPrefix("Basic ") {
            // RFC 6749 section 2.3.1: the client ID and the secret are form-encoded before they are joined.
            guard let data = Data(base64Encoded: String(basic.dropFirst(6))),
                let pair = String(validating: data, as: UTF8.self), let colon = pair.firstIndex(of: ":"),
                let id = FormURLEncoding.decode("x=\(pair[..<colon])")?["x"],
                let secret = FormURLEncoding.decode("x=\(pair[pair.index(after: colon)...])")?["x"],
                form["client_secret"] == nil, form["client_assertion"] == nil
            else { return nil }
            return clients.first {
                $0.id == id && $0.secret == secret && $0.authenticationMethod == "client_secret_basic"
            }
        }
        let address = address ?? "\(origins.first ?? "")\(request.path ?? "")"
        return clients.first { client in
            guard client.id == form["client_id"] else { return false }
            switch client.authenticationMethod {
            case "none": return form["client_secret"] == nil && form["client_assertion"] == nil
            case "client_secret_post": return client.secret != nil && form["client_secret"] == client.secret
            case "tls_client_auth", "self_signed_tls_client_auth":
                return form["client_secret"] == nil && form["client_assertion"] == nil
                    && client.certificateThumbprint != nil
                    && Self.thumbprint(of: request) == client.certificateThumbprint
            case "private_key_jwt" where client.workload != nil, "spiffe_jwt":
                return form["client_secret"] == nil && hasWorkloadAssertion(form, of: client)
            case "private_key_jwt", "client_secret_jwt":
                return form["client_secret"] == nil && hasAssertion(form, of: client, at: address)
            default: return false
            }
        }
    }

    /// Whether a form contains a valid assertion from this client that has not been used before (RFC 7523 section 3).
    private func hasAssertion(_ form: FormParameters, of client: Client, at address: String) -> Bool {
        guard form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            form.values(for: "client_assertion").count == 1, let text = form["client_assertion"],
            let jws = try? JWS(Secret(text)), isSigned(jws, by: client)
        else { return false }
        let claims = jws.payload
        guard claims["iss"]?.string == client.id, claims["sub"]?.string == client.id else { return false }
        // FAPI 2.0 section 5.3.2.1: "shall only accept its issuer identifier value ... as a string in the aud claim".
        let places: [ClientAuthentication.Audience: String] = [
            .issuer: issuer, .tokenEndpoint: "\(base)/token", .endpoint: String(address.prefix { $0 != "?" }),
        ]
        guard let audience = claims["aud"]?.string,
            client.assertionAudiences.contains(where: { places[$0] == audience })
        else { return false }
        let time = now().timeIntervalSince1970
        // The same section: an iat or nbf up to 10 seconds in the future must be accepted; an iat or nbf more than 60
        // seconds in the future must be rejected.
        guard let expiry = claims["exp"]?.number, expiry > time, expiry <= time + 3600,
            let issued = claims["iat"]?.number, issued <= time + 10, (claims["nbf"]?.number ?? issued) <= time + 10,
            let identifier = claims["jti"]?.string, identifier.utf8.count >= 16
        else { return false }
        return state.withLock { $0.usedAssertions.insert("\(client.id) \(identifier)").inserted }
    }

    /// Whether a JWT is signed with the client's registered key or secret.
    func isSigned(_ jws: JWS, by client: Client) -> Bool {
        let algorithm = jws.header.algorithm
        if client.authenticationMethod == "client_secret_jwt" {
            guard let (scheme, hash) = algorithm.definition, scheme == .hmac else { return false }
            let secret = Secret(client.secret ?? "")
            return HMACSignature.isValid(jws.signature, for: jws.signedBytes, hash: hash, secret: secret)
        }
        // The assertion must identify its key, because a client may have several keys.
        guard let keys = client.jwks.flatMap({ try? JWKSet($0) })?.keys, let keyID = jws.header.keyID else {
            return false
        }
        return keys.contains {
            $0.keyID == keyID && $0.isValid(jws.signature, for: jws.signedBytes, algorithm: algorithm)
        }
    }

    /// A token for the client itself (client credentials, RFC 6749 section 4.4).
    func clientCredentials(_ form: FormParameters, _ client: Client, _ thumbprint: String?) -> TransportResponse {
        guard client.authenticationMethod != "none" else {
            return .refusal("unauthorized_client", "a public client has no credentials")
        }
        let scopes = (form["scope"] ?? "").split(separator: " ").map(String.init)
        guard !scopes.contains("openid"), !scopes.contains("offline_access") else {
            return .refusal("invalid_scope", "openid and offline_access require a user")
        }
        return tokenWithoutUser(scopes.joined(separator: " "), of: client.id, client, form, thumbprint)
    }

    /// A response with an access token that does not belong to a session: a JWT (RFC 9068) if the client has requested a resource.
    /// - Parameter subject: RFC 9068 section 2.2: without a resource owner, "an identifier the authorization server uses to indicate the client
    ///   application".
    func tokenWithoutUser(
        _ scopes: String,
        of subject: String,
        _ client: Client,
        _ form: FormParameters,
        _ thumbprint: String?
    ) -> TransportResponse {
        let claims: [String: JSON] = [
            "sub": .string(subject), "client_id": .string(client.id), "scope": .string(scopes),
        ]
        let accessToken =
            form["resource"].flatMap { try? self.accessToken(for: $0, claims, thumbprint) } ?? Self.randomID()
        state.withLock {
            $0.tokensWithoutUser[accessToken] = TokenWithoutUser(client: client, subject: subject, scopes: scopes)
        }
        var parameters: [String: JSON] = [
            "access_token": .string(accessToken), "token_type": thumbprint == nil ? "Bearer" : "DPoP",
            "expires_in": .integer(settings.accessTokenLifetime),
        ]
        if !scopes.isEmpty { parameters["scope"] = .string(scopes) }
        return withNonce((settings.fault?.tokenResponse ?? TokenResponseFault()).applied(to: parameters))
    }
}
