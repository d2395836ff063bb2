package import AuthFlowEssentials
package import AuthFlowHTTP
import AuthFlowIssuer
package import HTTPTypes

extension OAuthClient {
    /// The DPoP key for the tokens of a new sign-in; nil when they are not bound to a key.
    /// - Throws: ``AuthError`` with `unsupported` when the provider advertises algorithms and the key's algorithm is
    ///   not among them; `invalid_configuration` when the key has none of the allowed algorithms; `key_unavailable` when the key is in a
    ///   hardware token that cannot be used.
    func newDPoPKey(at metadata: ProviderMetadata) async throws -> DPoPKey? {
        guard registration.usesDPoP else { return nil }
        let advertised = metadata.advertised("dpop_signing_alg_values_supported")
        if let source = registration.dpopKey {
            let key = try await source.loadKey()
            let algorithm = try key.algorithm(
                registration.dpopAlgorithm,
                allowed: registration.securityProfile?.algorithms,
                advertised: advertised
            )
            return try DPoPKey(key, signingBy: algorithm)
        }
        guard advertised?.contains(SignatureAlgorithm.es256.rawValue) ?? true else {
            throw metadata.unsupported(
                "does not accept DPoP proofs signed with ES256, the only algorithm of generated keys (RFC 9449)."
            )
        }
        return try DPoPKey(host: host)
    }

    /// Sends a request, with a DPoP proof if the tokens are bound to a key.
    ///
    /// If the server requires a nonce, the request is retried once with that nonce (RFC 9449 sections 8 and 9).
    /// - Parameters:
    ///   - key: The key to which the tokens are bound; nil for none.
    ///   - accessToken: The access token to send; nil at a token endpoint.
    ///   - request: Builds the request for each attempt, because a client assertion can be used only once.
    func send(
        provenBy key: DPoPKey?,
        accessToken: Secret? = nil,
        _ request: () async throws -> TransportRequest
    ) async throws -> TransportResponse {
        guard let key else { return try await server.send(try await request()) }
        func attempt(_ nonce: String?) async throws -> (response: TransportResponse, nonce: String?) {
            var proven = try await request()
            let endpoint = try Endpoint(proven.url)
            let nonce = nonce ?? server.dpopNonces.nonce(for: endpoint.origin)
            proven.head.headerFields[.dpop] = try await proof(
                by: key,
                method: proven.head.method,
                endpoint: endpoint,
                nonce: nonce,
                accessToken: accessToken,
                nonces: server.dpopNonces
            )
            let response = try await server.send(proven)
            let received = server.dpopNonces.record(from: response.head.headerFields, origin: endpoint.origin)
            return (response, received == nonce ? nil : received)
        }
        let first = try await attempt(nil)
        guard first.response.requiresDPoPNonce, let nonce = first.nonce else { return first.response }
        return try await attempt(nonce).response
    }

    /// Sends a request with an access token in the header: `Bearer`, or `DPoP` with a proof. If the proof is rejected, and the server's clock
    /// differs, the request is retried once with the server's time.
    package func send(_ request: TransportRequest, with tokens: TokenSet) async throws -> TransportResponse {
        var request = request
        request.head.headerFields[.authorization] = tokens.authorization
        func attempt() async throws -> TransportResponse {
            try await send(provenBy: tokens.dpopKey, accessToken: tokens.accessToken) { [request] in request }
        }
        guard tokens.dpopKey != nil else { return try await attempt() }
        let endpoint = try Endpoint(request.url)
        let correction = clockCorrection(at: endpoint)
        let response = try await attempt()
        return correctClock(after: response, at: endpoint, from: correction) ? try await attempt() : response
    }

    /// Like ``send(_:with:)``, but returns as soon as the status and headers of the response have arrived.
    /// - Parameter body: The body, if it is streamed. Such a request is not retried.
    /// - Throws: ``AuthError`` with `temporarily_unavailable` when the server requires a nonce, or rejects the proof's time, and the body has already
    ///   been sent. The nonce and the server's time are stored for the next request.
    package func stream(
        _ request: TransportRequest,
        body: UploadBody? = nil,
        with tokens: TokenSet
    ) async throws -> ResponseStream {
        let endpoint = try Endpoint(request.url)
        // A server that checks the nonce and the time separately rejects two proofs.
        var (hasAddedNonce, hasCorrectedClock) = (false, false)
        while true {
            let sent = server.dpopNonces.nonce(for: endpoint.origin)
            let correction = clockCorrection(at: endpoint)
            var call = request
            let fields = try await authorizationFields(method: request.head.method, endpoint: endpoint, tokens: tokens)
            for field in fields { call.head.headerFields[field.name] = field.value }
            let stream = try await server.stream(call, body: body)
            guard tokens.dpopKey != nil else { return stream }
            let response = TransportResponse(head: stream.head)
            let received = server.dpopNonces.record(from: stream.head.headerFields, origin: endpoint.origin)
            // A server that requires a new nonce but sends the rejected one again would reject every retry.
            if !hasAddedNonce, response.requiresDPoPNonce, received != nil, received != sent {
                hasAddedNonce = true
            } else if !hasCorrectedClock, correctClock(after: response, at: endpoint, from: correction) {
                hasCorrectedClock = true
            } else {
                return stream
            }
            stream.body.cancel()
            guard body == nil else {
                throw AuthError(
                    .temporarilyUnavailable,
                    "\(endpoint.authority) requires another DPoP proof, but the request body has already been sent. Send the request again."
                )
            }
        }
    }

    /// The header fields that authorize one request with an access token.
    /// - Parameter nonces: The nonces of the resource servers; default: the nonces from this server's responses.
    package func authorizationFields(
        method: HTTPRequest.Method,
        endpoint: Endpoint,
        tokens: TokenSet,
        nonces: DPoPNonces? = nil
    ) async throws -> HTTPFields {
        var fields = HTTPFields()
        fields[.authorization] = tokens.authorization
        guard let key = tokens.dpopKey else { return fields }
        let nonces = nonces ?? server.dpopNonces
        fields[.dpop] = try await proof(
            by: key,
            method: method,
            endpoint: endpoint,
            nonce: nonces.nonce(for: endpoint.origin),
            accessToken: tokens.accessToken,
            nonces: nonces
        )
        return fields
    }

    /// The correction for this machine's clock in proofs with an access token, in seconds. A resource server at the authorization server's
    /// origin, such as the userinfo endpoint, is assumed to have the same clock until it rejects a proof.
    /// - Parameter nonces: The nonces and clocks of the resource servers; default: those from this server's responses.
    package func clockCorrection(at endpoint: Endpoint, nonces: DPoPNonces? = nil) -> TimeInterval {
        let isOfServer = server.knownMetadata?.tokenEndpoint?.origin == endpoint.origin
        return (nonces ?? server.dpopNonces).clockCorrection(for: endpoint.origin)
            ?? (isOfServer ? server.clockCorrection : 0)
    }

    /// Records the resource server's time from a response that rejects a proof, because this machine's clock may be wrong. That time applies only
    /// to proofs for the same origin, because any API can send such a response.
    /// - Parameters:
    ///   - correction: The ``clockCorrection(at:nonces:)`` of the rejected proof.
    ///   - nonces: The nonces and clocks of the resource servers; default: those from this server's responses.
    /// - Returns: Whether the next proof has a different time, so that the request can be sent again.
    package func correctClock(
        after response: TransportResponse,
        at endpoint: Endpoint,
        from correction: TimeInterval,
        nonces: DPoPNonces? = nil
    ) -> Bool {
        guard response.status == 401, response.providerError?.error == "invalid_dpop_proof",
            let offset = response.clockOffset(at: host.now())
        else { return false }
        let actual = TransportResponse.clockCorrection(for: offset)
        (nonces ?? server.dpopNonces).recordClock(actual, origin: endpoint.origin)
        return abs(actual - correction) >= 5
    }

    /// A proof for one request. The endpoints that receive no access token check `iat` against the authorization server's clock; a resource
    /// server may have a different clock.
    private func proof(
        by key: DPoPKey,
        method: HTTPRequest.Method,
        endpoint: Endpoint,
        nonce: String?,
        accessToken: Secret?,
        nonces: DPoPNonces
    ) async throws -> String {
        try await key.proof(
            method: method.rawValue,
            endpoint: endpoint,
            nonce: nonce,
            accessToken: accessToken,
            time: accessToken == nil ? server.time : host.now() - clockCorrection(at: endpoint, nonces: nonces),
            identifier: host.randomToken(),
            signingWith: key.isExternal ? try await externalKey(key) : nil
        )
    }

    /// The key of the registration, if the tokens are bound to it.
    private func externalKey(_ bound: DPoPKey) async throws -> any SigningKey {
        guard let key = try await registration.dpopKey?.loadKey(),
            key.publicJWK.jwkThumbprint == bound.thumbprint
        else {
            throw AuthError(
                .keyUnavailable,
                "The tokens are bound to a key that is no longer configured. Configure that key again, or sign in again."
            )
        }
        return key
    }

    /// The implementation of ``ProviderContext/resource(_:with:)``.
    func resource(_ request: TransportRequest, with tokens: TokenSet) async throws -> TransportResponse {
        let response = try await send(request, with: tokens)
        // RFC 6750 section 3.1: for invalid_token, the server "SHOULD respond with the HTTP 401".
        if response.status == 401 || response.status == 400 && response.providerError?.error == "invalid_token" {
            throw AuthError(
                .accessTokenRejected,
                "\(Redaction.url(request.url)) does not accept the access token. The token may be for another API; otherwise, sign in again.",
                providerError: response.providerError,
                status: response.status
            )
        }
        try response.requireAvailable(from: request.head.authority ?? "The provider", now: host.now())
        guard response.status == 200 else {
            throw AuthError(
                .invalidResponse,
                "\(Redaction.url(request.url)) responded with status \(response.status).",
                providerError: response.providerError,
                status: response.status
            )
        }
        return response
    }
}

extension TokenSet {
    /// The value of the `Authorization` field (RFC 6750 section 2.1). The RFC's other two methods may expose the token in logs.
    fileprivate var authorization: String {
        "\(dpopKey == nil ? "Bearer" : "DPoP") \(accessToken.exposed)"
    }
}

extension TransportResponse {
    /// Whether a server requires a nonce in the proof: a token endpoint reports this in the response body, and a
    /// resource server in `WWW-Authenticate`, whose scheme is case-insensitive (RFC 9110 section 11.1).
    fileprivate var requiresDPoPNonce: Bool {
        switch status {
        case 400, 401:
            let isAsked = AuthenticationChallenge.challenges(in: self).contains {
                $0.scheme == "dpop" && $0.parameters["error"] == "use_dpop_nonce"
            }
            if isAsked { return true }
            return (try? parsed())?["error"]?.string == "use_dpop_nonce"
        default: return false
        }
    }
}
