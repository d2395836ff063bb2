import AuthFlow
import AuthFlowEssentials
import Crypto
import Synchronization

// The back channel: the token endpoint.

extension OIDCEmulator {
    /// The lifetime of an ID Token, in seconds.
    private static let lifetime: Int64 = 3600

    func token(_ form: FormParameters, _ request: HTTPRequest, _ address: String) -> TransportResponse {
        guard let client = authenticatedClient(form, request, address) else {
            var response = TransportResponse.json(["error": "invalid_client"], status: .unauthorized)
            response.head.headerFields[.wwwAuthenticate] = #"Basic realm="token""#
            return response
        }
        guard form.names.allSatisfy({ $0 == "resource" || form.values(for: $0).count == 1 }) else {
            return .refusal("invalid_request", "a parameter is repeated")
        }
        let thumbprint: String?
        switch proof(of: request, at: address, accessToken: nil) {
        case nil where settings.dpop == .optional: thumbprint = nil
        case nil: return refusal("invalid_dpop_proof", "The DPoP proof JWT header is missing.")
        case .valid(let key)?: thumbprint = key
        case .refused(let error, let description)?: return refusal(error, description)
        }
        switch form["grant_type"] {
        case "authorization_code": return redeem(form, client, thumbprint)
        case "refresh_token": return refresh(form, client, thumbprint)
        case "urn:ietf:params:oauth:grant-type:token-exchange":
            return form["requested_token_type"] == "urn:ietf:params:oauth:token-type:id-jag"
                ? identityAssertion(form, client, thumbprint) : exchange(form, client, thumbprint)
        case "urn:ietf:params:oauth:grant-type:jwt-bearer": return jwtBearer(form, client, thumbprint)
        case "client_credentials": return clientCredentials(form, client, thumbprint)
        case "urn:ietf:params:oauth:grant-type:device_code": return poll(form, client, thumbprint)
        default: return .refusal("unsupported_grant_type", "the grant type is not supported")
        }
    }

    private func redeem(_ form: FormParameters, _ client: Client, _ thumbprint: String?) -> TransportResponse {
        guard let code = form["code"], let issued = state.withLock({ $0.codes[code] }) else {
            return .refusal("invalid_grant", "no such code")
        }
        var grant = issued.grant
        guard grant.authorization.client.id == client.id else {
            return .refusal("invalid_grant", "another client's code")
        }
        guard form["redirect_uri"] == grant.authorization.redirectURI else {
            return .refusal("invalid_grant", "redirect_uri differs from that of the authorization request")
        }
        let challenge = form["code_verifier"].map { Base64URL.encode(SHA256.hash(data: Array($0.utf8))) }
        guard challenge == grant.authorization.parameters["code_challenge"] else {
            return .refusal("invalid_grant", "the code_verifier does not match")
        }
        // RFC 9449 section 10: the authorization code is bound to the key in dpop_jkt.
        let announced = grant.authorization.parameters["dpop_jkt"]
        guard announced == nil || announced == thumbprint else {
            return .refusal("invalid_grant", "the code is bound to a different key")
        }
        grant.thumbprint = thumbprint
        let family = Self.randomID()
        grant.family = family
        let isFirstUse = state.withLock { state in
            guard state.codes[code]?.isUsed == false else {
                // RFC 6749 section 4.1.2: for a code that is used more than once, the server "SHOULD revoke (when possible) all
                // tokens previously issued based on that authorization code".
                if let used = state.codes[code]?.grant.family { state.revoke(family: used) }
                return false
            }
            state.codes[code]?.isUsed = true
            state.codes[code]?.grant.family = family
            return true
        }
        guard isFirstUse else { return .refusal("invalid_grant", "the code has already been used") }
        guard now() < issued.expiresAt else { return .refusal("invalid_grant", "the code has expired") }
        return issue(grant, code: code)
    }

    private func refresh(_ form: FormParameters, _ client: Client, _ thumbprint: String?) -> TransportResponse {
        let text = form["refresh_token"] ?? ""
        let now = now()
        if let bound = state.withLock({ $0.refreshTokens[text]?.grant.thumbprint }), bound != thumbprint {
            return .refusal("invalid_dpop_proof", "Invalid DPoP Public Key binding in refresh token")
        }
        let token = state.withLock { state -> RefreshToken? in
            guard let token = state.refreshTokens[text], token.grant.authorization.client.id == client.id else {
                return nil
            }
            guard state.isUsable(token, at: now) else {
                // The token was reused, by an attacker or by the client, so the token family is revoked (RFC 9700 section 4.14.2).
                state.refreshTokens = state.refreshTokens.filter { $0.value.family != token.family }
                return nil
            }
            if state.settings.refreshPolicy != .notRotated { state.refreshTokens[text]?.usedAt = token.usedAt ?? now }
            return token
        }
        guard let token else { return .refusal("invalid_grant", "The refresh token is invalid or expired.") }
        return issue(token.grant, code: nil, family: token.family)
    }

    /// - Parameters:
    ///   - grant: The grant for which the tokens are issued.
    ///   - code: The authorization code being exchanged; nil for other grants.
    ///   - family: The token family being refreshed; nil to start a new family.
    ///   - isExchange: Whether the tokens are issued in a token exchange, which issues no device secret.
    func issue(_ grant: Grant, code: String?, family: String? = nil, isExchange: Bool = false) -> TransportResponse {
        var grant = grant
        let isNew = family == nil
        let family = family ?? (code == nil ? nil : grant.family) ?? Self.randomID()
        grant.family = family
        let deviceSecret = isNew && !isExchange ? deviceSecret(for: &grant) : nil
        guard let accessToken = try? accessToken(for: grant) else { return .failure }
        var parameters: [String: JSON] = [
            "access_token": .string(accessToken),
            "token_type": grant.thumbprint == nil ? "Bearer" : "DPoP",
            "expires_in": .integer(settings.accessTokenLifetime),
            "scope": .string(grant.scopes.joined(separator: " ")),
        ]
        if grant.scopes.contains("openid") {
            guard
                let idToken = try? idToken(for: grant, accessToken: accessToken, code: code, deviceSecret: deviceSecret)
            else { return .failure }
            parameters["id_token"] = .string(idToken)
        }
        parameters["device_secret"] = deviceSecret.map(JSON.string)
        if grant.scopes.contains("offline_access"), isNew || settings.refreshPolicy != .notRotated {
            let refreshToken = Self.randomID()
            state.withLock {
                $0.refreshTokens[refreshToken] = RefreshToken(grant: grant, family: family)
            }
            parameters["refresh_token"] = .string(refreshToken)
        }
        state.withLock { $0.accessTokens[accessToken] = grant }
        return withNonce((settings.fault?.tokenResponse ?? TokenResponseFault()).applied(to: parameters))
    }

    /// An access token: a JWT (RFC 9068) if the client requested a resource and the signing algorithm is asymmetric,
    /// otherwise a random string.
    private func accessToken(for grant: Grant) throws -> String {
        guard let resource = grant.authorization.parameters["resource"] else { return Self.randomID() }
        var claims: [String: JSON] = [
            "sub": users[grant.session.userIndex].claims["sub"] ?? "nobody",
            "client_id": .string(grant.authorization.client.id),
            "scope": .string(grant.scopes.joined(separator: " ")),
            "auth_time": .integer(Int64(grant.session.began.timeIntervalSince1970)),
        ]
        claims["acr"] = (grant.acr ?? Self.acr(grant.authorization.parameters)).map(JSON.string)
        return try accessToken(for: resource, claims, grant.thumbprint)
    }

    /// - Parameter claims: The claims of the user or client.
    func accessToken(for resource: String, _ claims: [String: JSON], _ thumbprint: String?) throws -> String {
        let time = Int64(now().timeIntervalSince1970)
        let (keys, algorithm) = state.withLock { ($0.keys, $0.settings.signingAlgorithm) }
        guard SignatureAlgorithm.asymmetric.contains(algorithm) else { return Self.randomID() }
        var claims = claims.merging([
            "iss": .string(issuer), "aud": .string(resource), "iat": .integer(time),
            "exp": .integer(time + settings.accessTokenLifetime), "jti": .string(Self.randomID()),
        ]) { $1 }
        claims["cnf"] = thumbprint.map { ["jkt": .string($0)] }
        let header = JSON.object(keys.header(for: algorithm, type: "at+jwt"))
        return try keys.sign(.object(claims), header: header, with: algorithm)
    }

    /// - Parameter code: The authorization code being exchanged; nil for other grants.
    private func idToken(
        for grant: Grant,
        accessToken: String,
        code: String?,
        deviceSecret: String?
    ) throws -> String {
        let fault = self.fault ?? EmulatorFault()
        if fault.keySet.rotation == .beforeSigning { try rotateKeys() }
        let (keys, usual) = state.withLock { ($0.keys, $0.settings.signingAlgorithm) }
        let algorithm = fault.idToken.algorithm ?? usual
        let request = grant.authorization.parameters
        let time = Int64(now().timeIntervalSince1970)
        var claims: [String: JSON] = [
            "iss": .string(issuer),
            "sub": users[grant.session.userIndex].claims["sub"] ?? "nobody",
            "aud": .string(grant.authorization.client.id),
            "exp": .integer(time + Self.lifetime),
            "iat": .integer(time),
            "auth_time": .integer(Int64(grant.session.began.timeIntervalSince1970)),
            "at_hash": .string(EmulatorKeys.halfHash(accessToken, for: algorithm)),
        ]
        if let code {
            claims["c_hash"] = .string(EmulatorKeys.halfHash(code, for: algorithm))
            // OIDC Core section 12.2: a refreshed ID Token "SHOULD NOT have a nonce Claim".
            claims["nonce"] = request["nonce"].map(JSON.string)
        }
        if let sid = grant.sid {
            claims["sid"] = .string(sid)
            claims["ds_hash"] = deviceSecret.flatMap { settings.nativeSSO?.secretHash($0) }.map(JSON.string)
            if settings.nativeSSO?.repeatsNonce == true { claims["nonce"] = request["nonce"].map(JSON.string) }
        }
        if settings.hasSessionIDs, let family = grant.family { claims["sid"] = .string("session-\(family)") }
        claims["acr"] = (grant.acr ?? Self.acr(request)).map(JSON.string)
        if let tenancy {
            claims["iss"] = .string(tenancy.issuer)
            claims[tenancy.claim] = .string(tenancy.tenant)
        }
        fault.idToken.claims(&claims)
        var header = keys.header(for: algorithm, type: "JWT")
        if fault.keySet.omitsKeyIDs { header["kid"] = nil }
        fault.idToken.header(&header)
        let secret =
            switch fault.idToken.forgery {
            case .none: grant.authorization.client.secret ?? ""
            case .publicKeyAsSecret: keys.publicKeyText
            }
        let signed = fault.idToken.text(
            try keys.sign(.object(claims), header: .object(header), with: algorithm, secret: secret)
        )
        return try grant.authorization.client.received(signed, .idToken)
    }

    /// The first requested authentication context class.
    private static func acr(_ request: FormParameters) -> String? {
        let claims = request["claims"].flatMap { try? JSON(parsing: Array($0.utf8)) }
        let asked = claims?["id_token"]?["acr"]
        return asked?["value"]?.string ?? asked?["values"]?.strings?.first
            ?? request["acr_values"]?.split(separator: " ").first.map(String.init)
    }

    /// RFC 7009: revokes a token and, for a refresh token, all tokens of the same grant.
    func revoke(_ form: FormParameters, _ request: HTTPRequest) -> TransportResponse {
        guard authenticatedClient(form, request) != nil else {
            return .json(["error": "invalid_client"], status: .unauthorized)
        }
        guard let token = form["token"] else { return .json(["error": "invalid_request"], status: .badRequest) }
        if endSession(ofSecret: token) { return TransportResponse(head: HTTPResponse(status: .ok)) }
        state.withLock { state in
            state.accessTokens[token] = nil
            state.tokensWithoutUser[token] = nil
            guard let family = state.refreshTokens[token]?.family else { return }
            state.revoke(family: family)
        }
        return TransportResponse(head: HTTPResponse(status: .ok))
    }

    /// Introspects a token for an authenticated client (RFC 7662), and signs the response if the client requests that (RFC 9701).
    func introspect(_ form: FormParameters, _ request: HTTPRequest) -> TransportResponse {
        guard let client = authenticatedClient(form, request),
            client.authenticationMethod != "none" || settings.allowsPublicIntrospection
        else {
            return .json(["error": "invalid_client"], status: .unauthorized)
        }
        let plain = introspection(of: form)
        let mediaType = "application/token-introspection+jwt"
        guard request.headerFields[.accept] == mediaType, plain.status == 200,
            let members = try? JSON(parsing: plain.body)
        else { return plain }
        let claims: [String: JSON] = [
            "iss": .string(issuer), "aud": .string(client.id), "iat": .integer(Int64(now().timeIntervalSince1970)),
            "token_introspection": members,
        ]
        guard
            let signed = signed(
                claims,
                type: "token-introspection+jwt",
                for: client,
                settings.fault?.introspection ?? SignedResponseFault()
            ),
            let text = try? client.received(signed, .introspection)
        else { return .failure }
        return TransportResponse(
            head: HTTPResponse(status: .ok, headerFields: [.contentType: mediaType]),
            body: Array(text.utf8)
        )
    }

    private func introspection(of form: FormParameters) -> TransportResponse {
        if let session = state.withLock({ $0.deviceSecrets[form["token"] ?? ""] }) {
            return .json([
                "active": true, "sid": .string(session.sid),
                "token_type": "urn:x-oath:params:oauth:token-type:device-secret",
                "exp": .integer(Int64(now().timeIntervalSince1970) + 86_400),
            ])
        }
        return .json(.object(description(of: form["token"] ?? "") ?? ["active": false]))
    }

    /// The members that describe a valid access token or refresh token; nil for any other token.
    private func description(of token: String) -> [String: JSON]? {
        let now = now()
        let (grant, isRefreshToken, own) = state.withLock { state -> (Grant?, Bool, TokenWithoutUser?) in
            if let refreshToken = state.refreshTokens[token], state.isUsable(refreshToken, at: now) {
                return (refreshToken.grant, true, nil)
            }
            return (state.accessTokens[token], false, state.tokensWithoutUser[token])
        }
        guard let client = grant?.authorization.client ?? own?.client else { return nil }
        let subject = grant.map { users[$0.session.userIndex].claims["sub"] ?? "" }
        var members: [String: JSON] = [
            "active": true, "client_id": .string(client.id),
            "scope": .string(grant?.scopes.joined(separator: " ") ?? own?.scopes ?? ""),
            "sub": subject ?? .string(own?.subject ?? ""),
        ]
        // An API must not accept a refresh token as an access token.
        if isRefreshToken { members["token_type"] = "refresh_token" }
        members["cnf"] = client.certificateThumbprint.map { ["x5t#S256": .string($0)] }
        return members
    }
}
