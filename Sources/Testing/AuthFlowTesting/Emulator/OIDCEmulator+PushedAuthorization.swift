package import AuthFlow
import AuthFlowEssentials
import Synchronization

// Authorization requests that are pushed (RFC 9126) or signed (RFC 9101).

extension OIDCEmulator {
    /// The pushed authorization request endpoint.
    func pushedAuthorization(
        _ form: FormParameters,
        _ request: HTTPRequest,
        _ address: String
    ) -> TransportResponse {
        guard let client = authenticatedClient(form, request, address) else {
            return .json(["error": "invalid_client"], status: .unauthorized)
        }
        // RFC 9126 section 2.1: "The request_uri authorization request parameter ... MUST NOT be provided".
        guard form["request_uri"] == nil else {
            return .refusal("invalid_request", "request_uri is not allowed at this endpoint")
        }
        var parameters = FormParameters()
        let credentials: Set = ["client_secret", "client_assertion", "client_assertion_type"]
        for pair in form.pairs where !credentials.contains(pair.name) { parameters.append(pair.name, pair.value) }
        if let object = form["request"] {
            switch self.parameters(ofRequestObject: object, client) {
            case .success(let signed): parameters = signed
            case .failure(let reason): return .refusal("invalid_request_object", reason.text)
            }
        } else if client.mustSignRequests {
            return .refusal("invalid_request", "the request must be signed")
        }
        switch proof(of: request, at: address, accessToken: nil) {
        case nil: break
        case .valid(let key)?:
            guard parameters["dpop_jkt"] == nil || parameters["dpop_jkt"] == key else {
                return .refusal("invalid_dpop_proof", "dpop_jkt does not match the key of the DPoP proof")
            }
            parameters["dpop_jkt"] = key
        case .refused(let error, let description)?: return refusal(error, description)
        }
        guard let redirectURI = parameters["redirect_uri"], client.accepts(redirectURI) else {
            return .refusal("invalid_request", "the redirect URI is not registered")
        }
        let uri = "urn:ietf:params:oauth:request_uri:\(Self.randomID())"
        let lifetime = 90.0
        state.withLock { state in
            state.pushedRequests[uri] = PushedRequest(
                parameters: parameters,
                clientID: client.id,
                expiresAt: now().addingTimeInterval(lifetime)
            )
        }
        let members: [String: JSON] = ["request_uri": .string(uri), "expires_in": .integer(Int64(lifetime))]
        let response = (settings.fault?.pushedAuthorization ?? PushedAuthorizationFault()).applied(to: members) {
            .json(.object($0), status: .created)
        }
        return withNonce(response)
    }

    /// Handles a front-channel authorization request, whether its parameters are in its URL, pushed, or signed.
    func authorizationRequest(_ query: FormParameters, _ request: HTTPRequest) -> TransportResponse {
        let client = clients.first { $0.id == query["client_id"] }
        let fetched = query["request_uri"].flatMap { uri in state.withLock { $0.fetchedObjects[uri] } }
        if let uri = query["request_uri"], fetched == nil || client == nil {
            // FAPI 2.0 section 5.3.3.2: only client_id and request_uri. RFC 9126 section 4: "the client MUST only use a
            // request_uri value once".
            guard query.pairs.count == 2, let pushed = state.withLock({ $0.pushedRequests.removeValue(forKey: uri) }),
                pushed.clientID == client?.id, now() < pushed.expiresAt
            else {
                return .page(
                    "No such request",
                    "<p>The request is unknown, has expired, has already been used, or belongs to another client.</p>",
                    status: .badRequest
                )
            }
            return authorize(pushed.parameters, request)
        }
        if settings.pushedRequests == .always || client?.mustPushRequests == true {
            return .page("Not pushed", "<p>The request must be pushed (RFC 9126).</p>", status: .badRequest)
        }
        if let object = fetched ?? query["request"], let client {
            guard case .success(let parameters) = self.parameters(ofRequestObject: object, client) else {
                return .page("Invalid request object", "<p>The request object was rejected.</p>", status: .badRequest)
            }
            return authorize(parameters, request)
        }
        guard client?.mustSignRequests != true else {
            return .page("Not signed", "<p>The request must be signed (RFC 9101).</p>", status: .badRequest)
        }
        return authorize(query, request)
    }

    /// The parameters of an authorization request, whether they are in its URL, pushed, or signed. A pushed request is not consumed.
    package func parameters(ofRequestAt url: String) -> FormParameters {
        let query = FormURLEncoding.decode(url.drop { $0 != "?" }.dropFirst()) ?? [:]
        if let uri = query["request_uri"], let object = state.withLock({ $0.fetchedObjects[uri] }),
            let client = clients.first(where: { $0.id == query["client_id"] }),
            case .success(let parameters) = self.parameters(ofRequestObject: object, client)
        {
            return parameters
        }
        if let uri = query["request_uri"] { return state.withLock { $0.pushedRequests[uri]?.parameters } ?? [:] }
        guard let object = query["request"], let client = clients.first(where: { $0.id == query["client_id"] }),
            case .success(let parameters) = self.parameters(ofRequestObject: object, client)
        else { return query }
        return parameters
    }

    /// The reason for rejecting a request object.
    private struct Reason: Error {
        let text: String
    }

    /// The parameters that a client has signed (RFC 9101 section 4, FAPI 2.0 Message Signing section 5.3.1).
    private func parameters(ofRequestObject text: String, _ client: Client) -> Result<FormParameters, Reason> {
        func refuse(_ text: String) -> Result<FormParameters, Reason> { .failure(Reason(text: text)) }
        var text = text
        if let key = settings.requestDecryptionKey, JWE.isEncrypted(Secret(text)) {
            guard let signed = try? JWE(Secret(text)).decrypted(with: [key]) else {
                return refuse("it cannot be decrypted")
            }
            text = signed.exposed
        } else if client.mustEncryptRequests {
            return refuse("it is not encrypted")
        }
        guard let jws = try? JWS(Secret(text)) else { return refuse("it is not a JWT") }
        // OIDC Core section 6.1: `none` is allowed for a client that has registered it.
        let isUnsigned =
            client.allowsUnsignedRequests && jws.header.algorithm.rawValue == "none" && jws.signature.isEmpty
        guard isUnsigned || isSigned(jws, by: client) else { return refuse("the signature is invalid") }
        let claims = jws.payload
        guard jws.header.json["typ"]?.string == "oauth-authz-req+jwt" else { return refuse("typ is wrong") }
        guard claims["iss"]?.string == client.id, claims["client_id"]?.string == client.id else {
            return refuse("iss or client_id is wrong")
        }
        guard claims["aud"]?.string == issuer else { return refuse("aud is wrong") }
        guard claims["request"] == nil, claims["request_uri"] == nil, claims["sub"] == nil else {
            return refuse("the request object contains request, request_uri or sub")
        }
        let time = now().timeIntervalSince1970
        guard let start = claims["nbf"]?.number, let end = claims["exp"]?.number, start <= time + 10, end > time,
            end - start <= 3600, time - start <= 3600
        else { return refuse("nbf or exp is invalid") }
        guard claims["max_age"] == nil || claims["max_age"]?.integer != nil else {
            return refuse("max_age is not an integer")
        }
        var parameters = FormParameters()
        let own: Set = ["iss", "aud", "nbf", "exp", "iat", "jti"]
        for (name, value) in (claims.object ?? [:]).sorted(by: { $0.key < $1.key }) where !own.contains(name) {
            switch value {
            case .array(let values) where name == "resource":
                for value in values { parameters.append(name, value.string ?? "") }
            default:
                let text = value.string ?? (try? value.serialized()).map { String(decoding: $0, as: UTF8.self) } ?? ""
                parameters.append(name, text)
            }
        }
        return .success(parameters)
    }

    /// An authorization response as a signed JWT (JARM section 2.1).
    func signedResponse(_ parameters: FormParameters, to client: Client) -> String? {
        var claims: [String: JSON] = [
            "iss": .string(issuer), "aud": .string(client.id),
            "exp": .integer(Int64(now().timeIntervalSince1970) + 600),
        ]
        for pair in parameters.pairs where pair.name != "iss" { claims[pair.name] = .string(pair.value) }
        return signed(claims, type: "JWT", for: client, settings.fault?.signedResponse ?? SignedResponseFault())
            .flatMap { try? client.received($0, .authorizationResponse) }
    }

    /// The claims as a JWT signed by the provider for a client, with a fault applied.
    func signed(_ claims: [String: JSON], type: String, for client: Client, _ fault: SignedResponseFault) -> String? {
        let (keys, usual) = state.withLock { ($0.keys, $0.settings.signingAlgorithm) }
        let algorithm = fault.algorithm ?? usual
        var claims = claims
        fault.claims(&claims)
        var header = keys.header(for: algorithm, type: type)
        fault.header(&header)
        let text = try? keys.sign(
            .object(claims),
            header: .object(header),
            with: algorithm,
            secret: client.secret ?? ""
        )
        return text.map(fault.text)
    }
}
