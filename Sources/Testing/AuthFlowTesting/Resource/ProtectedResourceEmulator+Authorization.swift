import AuthFlow
import AuthFlowEssentials
import Crypto
import Synchronization

// The authorization servers of a protected resource.

extension ProtectedResourceEmulator {
    func register(_ body: [UInt8], _ issuer: String, _ settings: ResourceSettings) -> TransportResponse {
        guard let json = try? JSON(parsing: body), let uris = json["redirect_uris"]?.strings, !uris.isEmpty else {
            return .json(["error": "invalid_client_metadata"], status: .badRequest)
        }
        // MCP authorization, "Dynamic Client Registration": application_type MUST be sent.
        expect(["native", "web"].contains(json["application_type"]?.string), "a registration without application_type")
        expect(
            json["grant_types"]?.strings?.contains("refresh_token") == true,
            "a registration without refresh_token in grant_types"
        )
        let method = settings.authenticationMethods[0]
        let client = Client(
            id: "client-\(random(9))",
            secret: method == "none" ? nil : random(24),
            method: method,
            issuer: issuer,
            redirectURIs: uris,
            managementToken: settings.deletesRegistrations ? random(24) : nil
        )
        state.withLock { state in
            state.registrations += 1
            state.clients[client.id] = client
        }
        var reply = json.object ?? [:]
        reply["client_id"] = .string(client.id)
        reply["client_secret"] = client.secret.map(JSON.string)
        reply["client_secret_expires_at"] = client.secret.map { _ in 0 }
        reply["token_endpoint_auth_method"] = .string(method)
        if let token = client.managementToken {
            reply["registration_client_uri"] = .string("\(origin)\(issuer)/register/\(client.id)")
            reply["registration_access_token"] = .string(token)
        }
        return .json(.object(reply), status: .created)
    }

    /// RFC 7592 section 2.3: if the client does not exist, "the server MUST respond with HTTP 401 Unauthorized".
    func deleteRegistration(_ id: String, _ received: ReceivedRequest, _ settings: ResourceSettings)
        -> TransportResponse
    {
        if let status = settings.deletionStatus {
            return TransportResponse(head: HTTPResponse(status: .init(code: status)))
        }
        let isDeleted = state.withLock { state in
            guard let token = state.clients[id]?.managementToken,
                received.request.headerFields[.authorization] == "Bearer \(token)"
            else {
                return false
            }
            state.clients[id] = nil
            return true
        }
        return TransportResponse(head: HTTPResponse(status: isDeleted ? .noContent : .unauthorized))
    }

    private func client(_ id: String, _ issuer: String, _ settings: ResourceSettings) -> Client? {
        if let client = state.withLock({ $0.clients[id] }) {
            if client.issuer != issuer {
                note("a different authorization server's client_id was sent")
                return nil
            }
            return client
        }
        if let secret = settings.registeredClients[id] {
            return Client(id: id, secret: secret, method: "client_secret_basic", issuer: issuer, redirectURIs: [])
        }
        guard settings.supportsMetadataDocuments, id.hasPrefix("https://") else { return nil }
        expect(
            settings.expectedClientID == nil || settings.expectedClientID == id,
            "a client_id that is not the URL of its metadata document"
        )
        return Client(id: id, secret: nil, method: "none", issuer: issuer, redirectURIs: [])
    }

    func authorize(
        _ received: ReceivedRequest,
        _ issuer: String,
        _ settings: ResourceSettings
    ) async -> TransportResponse {
        let query = received.query
        let scopes = query["scope"]?.split(separator: " ").map(String.init) ?? []
        state.withLock {
            $0.authorizations.append(scopes)
            $0.requestedACR = query["max_age"] == nil ? nil : query["acr_values"]
        }
        guard let client = client(query["client_id"] ?? "", issuer, settings), let redirectURI = query["redirect_uri"],
            client.redirectURIs.isEmpty || client.redirectURIs.contains(redirectURI)
        else {
            return .json(["error": "invalid_client", "error_description": "Client ID not found."], status: .badRequest)
        }
        if let documents, client.id.hasPrefix("https://") {
            // Client ID Metadata Document section 6: the document is fetched, and must contain the redirect URI.
            let document = try? await ClientMetadataDocument.fetch(client.id, transport: documents)
            guard document?.json["redirect_uris"]?.strings?.contains(redirectURI) == true else {
                return .json(
                    [
                        "error": "invalid_client",
                        "error_description":
                            "The document at the client_id cannot be used, or does not contain the redirect_uri.",
                    ],
                    status: .badRequest
                )
            }
        }
        expect(
            query["code_challenge_method"] == "S256" && query["code_challenge"]?.isEmpty == false,
            "no PKCE with S256"
        )
        expect(query["state"]?.isEmpty == false, "no state")
        checkResource(query.values(for: "resource"), settings, "the authorization request")
        if let listed = settings.serverScopes {
            expect(
                !scopes.contains("offline_access") || listed.contains("offline_access"),
                "offline_access was requested but is not in scopes_supported"
            )
        }
        let code = random(24)
        state.withLock {
            $0.codes[code] = Code(
                clientID: client.id,
                issuer: issuer,
                redirectURI: redirectURI,
                challenge: query["code_challenge"] ?? "",
                scopes: scopes,
                resource: query["resource"],
                thumbprint: query["dpop_jkt"]
            )
        }
        var answer = FormParameters()
        if scopes.contains(where: settings.unknownScopes.contains) {
            answer.append("error", "invalid_scope")
        } else if settings.denies {
            answer.append("error", "access_denied")
        } else {
            answer.append("code", code)
        }
        if let value = query["state"] { answer.append("state", value) }
        switch settings.issuer {
        case .right: answer.append("iss", origin + issuer)
        case .missing: break
        case .withSlash: answer.append("iss", origin + issuer + "/")
        case .other(let issuer): answer.append("iss", issuer)
        }
        return .redirect(to: RedirectResponse.url(redirectURI, adding: answer))
    }

    func token(_ received: ReceivedRequest, _ issuer: String, _ settings: ResourceSettings) -> TransportResponse {
        let form = received.form
        if let status = settings.tokenStatus {
            return TransportResponse(head: HTTPResponse(status: .init(code: status)))
        }
        func refuse(_ error: String, _ status: HTTPResponse.Status = .badRequest) -> TransportResponse {
            .json(["error": .string(error)], status: status)
        }
        guard let client = authenticated(received, issuer, settings) else {
            return refuse("invalid_client", .unauthorized)
        }
        checkResource(form.values(for: "resource"), settings, "the token request")
        var thumbprint: String?
        if settings.dpop != .none {
            let nonce = settings.dpop == .requiredWithNonce ? "nonce-of-\(issuer)" : nil
            switch proof(received, at: "\(origin)\(issuer)/token", accessToken: nil, nonce: nonce) {
            case .valid(let key): thumbprint = key
            case .refused(EmulatedProof.missingNonce, _):
                var response = refuse("use_dpop_nonce")
                response.head.headerFields[.dpopNonce] = nonce
                return response
            case .refused(_, let reason):
                note("a DPoP proof was rejected: \(reason)")
                return refuse("invalid_dpop_proof")
            }
        }
        switch form["grant_type"] {
        case "authorization_code":
            guard let code = state.withLock({ $0.codes.removeValue(forKey: form["code"] ?? "") }),
                code.clientID == client.id,
                code.redirectURI == form["redirect_uri"], code.issuer == issuer
            else { return refuse("invalid_grant") }
            let challenge = Base64URL.encode(SHA256.hash(data: Array((form["code_verifier"] ?? "").utf8)))
            guard challenge == code.challenge else {
                note("the code verifier does not match")
                return refuse("invalid_grant")
            }
            expect(form["resource"] == code.resource, "the token request is for a different resource")
            return tokens(client.id, issuer, code.scopes, form["resource"], thumbprint, settings)
        case "refresh_token":
            let token = form["refresh_token"] ?? ""
            let grant = state.withLock { state -> Grant? in
                if let family = state.usedRefreshTokens[token] {
                    state.reuses += 1
                    state.accessTokens = state.accessTokens.filter { $0.value.family != family }
                    state.refreshTokens = state.refreshTokens.filter { $0.value.family != family }
                    return nil
                }
                guard let grant = state.refreshTokens.removeValue(forKey: token), grant.clientID == client.id else {
                    return nil
                }
                state.refreshes += 1
                state.usedRefreshTokens[token] = grant.family
                return grant
            }
            guard let grant else { return refuse("invalid_grant") }
            return tokens(
                client.id,
                issuer,
                grant.scopes,
                form["resource"],
                thumbprint ?? grant.thumbprint,
                settings,
                grant.family
            )
        case "client_credentials" where settings.grants.contains("client_credentials"):
            let scopes = form["scope"]?.split(separator: " ").map(String.init) ?? []
            return tokens(client.id, issuer, scopes, form["resource"], thumbprint, settings)
        case "urn:ietf:params:oauth:grant-type:jwt-bearer" where settings.grants.contains("jwt-bearer"):
            let assertion = form["assertion"] ?? ""
            let isIdentity = state.withLock {
                $0.identityAssertions[assertion] == form["resource"] && $0.identityAssertions[assertion] != nil
            }
            let isNew = state.withLock { $0.assertions.insert(assertion).inserted }
            expect(isNew, "an assertion was sent twice")
            guard settings.assertions.contains(assertion) || isIdentity else { return refuse("invalid_grant") }
            let scopes = form["scope"]?.split(separator: " ").map(String.init) ?? settings.challengeScopes ?? []
            return tokens(client.id, issuer, scopes, form["resource"], thumbprint, settings)
        default: return refuse("unsupported_grant_type")
        }
    }

    private func tokens(
        _ clientID: String,
        _ issuer: String,
        _ scopes: [String],
        _ resource: String?,
        _ thumbprint: String?,
        _ settings: ResourceSettings,
        _ family: String? = nil
    ) -> TransportResponse {
        let grant = Grant(
            clientID: clientID,
            issuer: issuer,
            scopes: scopes,
            resource: resource,
            expiresAt: now() + Double(settings.tokenLifetime),
            family: family ?? random(9),
            thumbprint: thumbprint
        )
        let (access, refresh) = (random(24), random(24))
        state.withLock { state in
            state.accessTokens[access] = grant
            if settings.refreshes { state.refreshTokens[refresh] = grant }
        }
        var reply: [String: JSON] = [
            "access_token": .string(access), "token_type": thumbprint == nil ? "Bearer" : "DPoP",
            "expires_in": .integer(Int64(settings.tokenLifetime)),
        ]
        if !scopes.isEmpty { reply["scope"] = .string(scopes.joined(separator: " ")) }
        if settings.refreshes { reply["refresh_token"] = .string(refresh) }
        return .json(.object(reply))
    }

    /// Checks that a request names this resource, and no other (RFC 8707 section 2).
    private func checkResource(_ values: [String], _ settings: ResourceSettings, _ place: String) {
        let expected = settings.resource ?? (settings.metadataPlace == .root ? origin : resource)
        expect(values == [expected], "\(place) names the resource \(values.joined(separator: ", "))")
    }

    private func authenticated(_ received: ReceivedRequest, _ issuer: String, _ settings: ResourceSettings) -> Client? {
        let form = received.form
        let basic = (received.request.headerFields[.authorization] ?? "").split(separator: " ")
        if let assertion = form["client_assertion"] {
            return settings.clientKey.flatMap { client(by: assertion, $0, issuer, form) }
        }
        let pair: (id: String, secret: String?, method: String)
        if basic.count == 2, basic[0].lowercased() == "basic", let bytes = Data(base64Encoded: String(basic[1])) {
            let halves = String(decoding: bytes, as: UTF8.self).split(separator: ":", maxSplits: 1).map {
                FormURLEncoding.decode("a=\($0)")?["a"] ?? ""
            }
            guard halves.count == 2 else { return nil }
            pair = (halves[0], halves[1], "client_secret_basic")
        } else {
            pair = (
                form["client_id"] ?? "", form["client_secret"],
                form["client_secret"] == nil ? "none" : "client_secret_post"
            )
        }
        // Clients that send a platform's assertion are not registered.
        if pair.secret == nil, form["grant_type"]?.hasSuffix("jwt-bearer") == true, settings.registeredClients.isEmpty {
            return Client(id: pair.id, secret: nil, method: "none", issuer: issuer, redirectURIs: [])
        }
        guard let client = client(pair.id, issuer, settings) else { return nil }
        expect(pair.method == client.method, "the client authenticates with \(pair.method), not \(client.method)")
        return client.secret == pair.secret ? client : nil
    }

    /// A client that authenticates with `private_key_jwt` (RFC 7523 section 3).
    private func client(by assertion: String, _ key: JSON, _ issuer: String, _ form: FormParameters) -> Client? {
        guard let jws = try? JWS(Secret(assertion)), let publicKey = JWK(key),
            publicKey.isValid(jws.signature, for: jws.signedBytes, algorithm: .es256)
        else { return nil }
        let claims = jws.payload
        expect(claims["aud"]?.string == origin + issuer, "the audience of the client assertion is not the issuer")
        guard let id = claims["sub"]?.string, claims["iss"]?.string == id,
            state.withLock({ $0.assertions.insert(assertion).inserted })
        else { return nil }
        return Client(id: id, secret: nil, method: "private_key_jwt", issuer: issuer, redirectURIs: [])
    }

    /// An enterprise's identity provider, which exchanges an ID Token for an identity assertion (ID-JAG).
    func identityProviderToken(_ received: ReceivedRequest, _ settings: ResourceSettings) -> TransportResponse {
        let form = received.form
        expect(
            form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange",
            "wrong grant type at the identity provider"
        )
        expect(form["requested_token_type"] == "urn:ietf:params:oauth:token-type:id-jag", "wrong requested token type")
        expect(form["subject_token_type"] == "urn:ietf:params:oauth:token-type:id_token", "wrong subject token type")
        expect(
            form["audience"] == origin + settings.issuerPaths[0],
            "the audience of the identity assertion is not the issuer"
        )
        expect(form["resource"] == resource, "wrong resource for the identity assertion")
        guard let token = settings.identityToken, form["subject_token"] == token else {
            return .json(["error": "invalid_grant"], status: .badRequest)
        }
        let header = Base64URL.encode(Array(#"{"alg":"ES256","typ":"oauth-id-jag+jwt"}"#.utf8))
        let time = Int64(now().timeIntervalSince1970)
        let claims: JSON = [
            "iss": .string("\(origin)/idp"), "sub": "alice", "aud": .string(origin + settings.issuerPaths[0]),
            "jti": .string(random(9)),
            "client_id": .string(settings.registeredClients.keys.first ?? ""), "resource": .string(resource),
            "iat": .integer(time - 5), "exp": .integer(time + 300),
        ]
        let assertion = "\(header).\(Base64URL.encode((try? claims.serialized()) ?? [])).\(random(64))"
        state.withLock { $0.identityAssertions[assertion] = form["resource"] }
        return .json([
            "access_token": .string(assertion), "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "token_type": "N_A",
            "expires_in": 300,
        ])
    }

    func proof(_ received: ReceivedRequest, at address: String, accessToken: String?, nonce: String?)
        -> EmulatedProof.Outcome
    {
        EmulatedProof.check(received.request, at: address, accessToken: accessToken, nonce: nonce, now: now()) { jti in
            state.withLock { $0.usedProofs.insert(jti).inserted }
        }
    }

    func random(_ count: Int) -> String { Base64URL.encode(HostServices.systemRandomBytes(count)) }
}
