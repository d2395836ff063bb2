import AuthFlowEssentials
import AuthFlowIssuer

/// The tokens of a token response: parsed, but not yet validated.
package struct TokenResponse: Sendable {
    let tokens: TokenSet

    /// The scopes in the request; if it contained none, the scopes of the grant.
    let requestedScopes: [String]

    /// The DPoP key to which the request asked the server to bind the tokens.
    let key: DPoPKey?

    /// The number of seconds by which this machine's clock is ahead of the provider's; nil when the response does not include the
    /// provider's time.
    let clockOffset: TimeInterval?
}

extension OAuthClient {
    /// Sends a request to the token endpoint, and parses the response.
    func sendTokenRequest(
        _ request: ProviderRequest,
        scopes: [String],
        key: DPoPKey? = nil
    ) async throws -> TokenResponse {
        let response = try await sendFormRequest(request, scopes: scopes, key: key)
        do {
            return try parseTokenResponse(response, key: key)
        } catch {
            let subjectToken = request.protectedParameters["subject_token"].map { Secret($0) }
            await revokeTokens(in: response, exchanging: subjectToken)
            throw error
        }
    }

    /// Sends a back-channel request as a form (RFC 6749 section 3.2: "The client MUST use the HTTP "POST" method").
    /// - Parameters:
    ///   - scopes: The granted scopes when neither the request nor the response specifies any.
    ///   - key: The key to which the requested tokens are, or will be, bound.
    ///   - check: Runs immediately before each attempt to send the request.
    ///   - signed: Creates the signed parameters, which contain a timestamp and an identifier, for each attempt.
    func sendFormRequest(
        _ request: ProviderRequest,
        scopes: [String] = [],
        key: DPoPKey? = nil,
        checkBeforeSending check: (@Sendable () throws(AuthError) -> Void)? = nil,
        signed: (() async throws -> FormParameters)? = nil
    ) async throws -> ProviderResponse {
        var request = request
        request.headerFields[.accept] = request.headerFields[.accept] ?? "application/json"
        try await adapter.prepare(&request, in: providerContext)
        let scopes = request.scopes ?? scopes
        request.headerFields[.contentType] = "application/x-www-form-urlencoded"
        let correction = server.clockCorrection
        var (last, assertion) = try await sendAuthenticated(request, key, check, signed)
        // JWTs with timestamps are rejected if the clock is wrong. The server's time is now known, so the request is retried once.
        let containsTimestamps = registration.authentication.containsTimestamps || key != nil || signed != nil
        if containsTimestamps, rejectsTimestamp(last, to: request),
            abs(server.clockCorrection - correction) >= 5
        {
            (last, assertion) = try await sendAuthenticated(request, key, check, signed)
        }
        let error = providerError(in: last, to: request)
        // The endpoint no longer exists: the metadata may be out of date.
        if [404, 405, 410].contains(last.status), error?.lacksErrorCode != false {
            server.markMetadataStale()
        }
        try last.requireAvailable(from: request.endpoint.host, now: host.now(), error: error)
        var response = ProviderResponse(
            purpose: request.purpose,
            endpoint: request.endpoint,
            http: last,
            scopes: scopes
        )
        response.resources = request.parameters.values(for: "resource")
        response.advice = advice(
            last,
            codedError(in: last, to: request),
            request.protectedParameters["assertion"],
            client: assertion
        )
        return response
    }

    /// The error in a response with an error status. If the response contains none in JSON or in a challenge, the adapter may find one in
    /// another format, such as a form or XML.
    private func providerError(in response: TransportResponse, to request: ProviderRequest) -> ProviderError? {
        guard response.status >= 400 else { return nil }
        return response.providerError ?? adapterError(in: response, to: request)
    }

    /// The error in a response with an error status, with the code that only the adapter finds in JSON with non-standard members.
    private func codedError(in response: TransportResponse, to request: ProviderRequest) -> ProviderError? {
        let error = providerError(in: response, to: request)
        guard error?.lacksErrorCode == true else { return error }
        return adapterError(in: response, to: request) ?? error
    }

    /// The error in a response, as the adapter parses it.
    private func adapterError(in response: TransportResponse, to request: ProviderRequest) -> ProviderError? {
        let parsed = ProviderResponse(purpose: request.purpose, endpoint: request.endpoint, http: response)
        return (try? adapter.responseParameters(parsed)).flatMap(response.providerError(in:))
    }

    /// The ``ProviderResponse/advice`` for a response, about the grant's assertion or the client assertion in the request.
    private func advice(
        _ response: TransportResponse,
        _ error: ProviderError?,
        _ assertion: String?,
        client: String?
    ) -> String {
        guard assertion != nil || client != nil else { return "" }
        let error = error.flatMap { $0.lacksErrorCode ? nil : $0 }
        let rejected: (name: String, jwt: String)? =
            switch adapter.standardName(of: error) {
            case "invalid_grant": assertion.map { ("assertion", $0) }
            case "invalid_client": client.map { ("client assertion", $0) }
            // Some servers send no error code.
            case nil: [400, 401, 403].contains(response.status) ? client.map { ("client assertion", $0) } : nil
            default: nil
            }
        guard let rejected else { return "" }
        let offset = Int(server.clockCorrection)
        let clock =
            offset == 0
            ? ""
            : " This machine's clock is \(abs(offset)) seconds \(offset > 0 ? "ahead of" : "behind") the provider's."
        // The audience of a client assertion from another party is configured together with its source.
        let authentication = registration.authentication
        let signer = authentication.method == .clientSecretJWT ? "client_secret" : "client_key"
        let keys =
            rejected.name == "assertion"
            ? "\"assertion\""
            : authentication.assertion == nil
                ? "\"client_assertion\"" : "\"\(signer)\" and \"client_assertion_audience\""
        return
            " The \(rejected.name) was \(AssertionClaims(Secret(rejected.jwt))).\(clock) Compare these values with the provider's requirements; see \(keys)."
    }

    /// Sends a request with client authentication, which is created for each attempt.
    private func sendAuthenticated(
        _ request: ProviderRequest,
        _ key: DPoPKey?,
        _ check: (@Sendable () throws(AuthError) -> Void)?,
        _ signed: (() async throws -> FormParameters)?
    ) async throws -> (response: TransportResponse, clientAssertion: String?) {
        let metadata = try await metadata()
        var assertion: String?
        let response = try await send(provenBy: key) {
            var attempt = request
            for pair in try await signed?().pairs ?? [] { attempt.protectedParameters[pair.name] = pair.value }
            // Client authentication is added after the adapter's changes, because an adapter may read the parameters
            // but must not choose the client authentication.
            let purpose = request.purpose
            let methods = metadata.ownAuthenticationValues("methods", purpose) ?? metadata.tokenEndpointAuthMethods
            let algorithms =
                metadata.ownAuthenticationValues("signing_alg_values", purpose)
                ?? metadata.advertised("token_endpoint_auth_signing_alg_values_supported")
            try await registration.authentication.resolved(for: methods).authenticate(
                &attempt,
                as: ClientAuthentication.Request(
                    clientID: registration.clientID,
                    issuer: metadata.issuer,
                    tokenEndpoint: metadata.tokenEndpoint,
                    endpoint: request.endpoint,
                    time: server.time,
                    identifier: host.randomToken(),
                    advertisedAlgorithms: algorithms,
                    allowedAlgorithms: registration.securityProfile?.algorithms,
                    transport: server.transport,
                    host: host
                )
            )
            assertion = attempt.protectedParameters["client_assertion"]
            var request = TransportRequest(
                .post,
                attempt.endpoint,
                headerFields: attempt.headerFields,
                body: Array(FormURLEncoding.encodeForm(try attempt.allParameters()).utf8)
            )
            if let check { request.addCheckBeforeSending(check) }
            return request
        }
        _ = server.updateClockOffset(from: response)
        return (response, assertion)
    }

    /// Whether the response indicates that the server rejected a JWT that contains a timestamp.
    private func rejectsTimestamp(_ response: TransportResponse, to request: ProviderRequest) -> Bool {
        guard response.status == 400 || response.status == 401 else { return false }
        guard let name = adapter.standardName(of: codedError(in: response, to: request)) else { return false }
        return ["invalid_client", "invalid_dpop_proof", "invalid_request_object"].contains(name)
    }

    /// Parses a token endpoint's response.
    /// - Parameter key: The key to which the request asked the server to bind the tokens.
    func parseTokenResponse(_ response: ProviderResponse, key: DPoPKey?) throws -> TokenResponse {
        let tokens: TokenSet
        do {
            tokens = try TokenSet(
                response,
                parameters: Result { try adapter.responseParameters(response) },
                bearerTypes: registration.bearerTokenTypes,
                defaultLifetime: registration.defaultTokenLifetime?.seconds,
                receivedAt: host.wholeSecond
            )
        } catch let error as AuthError {
            throw advised(error, server.knownMetadata)
        }
        try tokens.requireTransportableCharacters()
        return TokenResponse(
            tokens: tokens,
            requestedScopes: response.scopes,
            key: key,
            clockOffset: response.http.clockOffset(at: host.now())
        )
    }

    /// Adds a hint if a provider that does not support HTTP Basic reports that the client identifier is missing.
    func advisedAboutClientID(_ error: AuthError) -> AuthError {
        let methods = server.knownMetadata?.tokenEndpointAuthMethods
        let method = registration.authentication.resolved(for: methods).method
        guard method == .clientSecretBasic, let reason = error.providerError.map({ "\($0)" }),
            reason.contains("client_id")
        else { return error }
        return error.withMessage(
            "\(error.message) If the provider requires \"client_id\" as a parameter, set \"client_authentication\" to \"client_secret_post\".",
            because: error
        )
    }

    /// Adds a hint for `invalid_client` errors: several providers do not decode the form encoding that RFC 6749 section
    /// 2.3.1 requires in the `Authorization` header.
    private func advised(_ error: AuthError, _ metadata: ProviderMetadata?) -> AuthError {
        let clientID = registration.clientID
        // An error response without an error code, even if it contains other text.
        let lacksErrorCode = error.code == .invalidResponse && [400, 401].contains(error.status)
        guard adapter.standardName(of: error.providerError) == "invalid_client" || lacksErrorCode else {
            return advisedAboutClientID(error)
        }
        func adding(_ advice: String) -> AuthError { error.withMessage("\(error.message) \(advice)", because: error) }
        let authentication = registration.authentication.resolved(for: metadata?.tokenEndpointAuthMethods)
        let method = authentication.method.rawValue
        if let known = metadata?.tokenEndpointAuthMethods, !known.isEmpty, !known.contains(method) {
            let names = known.prefix(8).map { DisplayText.sanitized($0, limit: 40) }.joined(separator: ", ")
            return adding(
                method == "none"
                    ? "This client has neither a secret nor a key, but the provider's metadata lists only \(names): configure \"client_secret\" or \"client_key\"."
                    : "This client uses \(method), but the provider's metadata lists only \(names): set \"client_authentication\"."
            )
        }
        guard !lacksErrorCode else { return error }
        let secret = registration.authentication.secret?.exposed
        if let last = secret?.unicodeScalars.last, last.properties.isWhitespace {
            return adding(
                "The configured client secret ends with a line break or a space, which is probably a mistake."
            )
        }
        guard secret != nil || method == "none" else {
            return adding(
                "Check \"client_id\" and \"client_authentication\", and that the client's public key is registered."
            )
        }
        guard authentication.method == .clientSecretBasic,
            let secret,
            FormURLEncoding.encode(secret) != secret || FormURLEncoding.encode(clientID) != clientID
        else { return adding("Check \"client_id\", \"client_secret\" and \"client_authentication\".") }
        return adding(
            "The client identifier or secret contains characters that some providers decode incorrectly in HTTP Basic: if both values are correct, set \"client_authentication\" to \"client_secret_post\"."
        )
    }

    /// Returns the tokens if the access token has the expected type and certificate binding. The ID Token is not validated here.
    func requireUsable(_ response: TokenResponse) throws(AuthError) -> TokenSet {
        var tokens = response.tokens
        let expected = response.key == nil ? "bearer" : "dpop"
        // RFC 6749 section 7.1: "The client MUST NOT use an access token if it does not understand the token type." The
        // comparison is case-insensitive (section 5.1).
        guard tokens.tokenType.lowercased() == expected else {
            // RFC 9449 section 5: with "a value other than DPoP in the token_type", the token "is not bound", and "The client
            // MUST discard the response in this case, if this protection is deemed important". A client that requests
            // DPoP deems this protection important.
            let name = DisplayText.sanitized(tokens.tokenType, limit: 40)
            throw AuthError(
                .unsupported,
                response.key == nil
                    ? "The provider sent an access token of type \"\(name)\", which was not requested.\(Self.bearerAdvice(tokens.tokenType))"
                    : "The provider sent an access token of type \"\(name)\", although a DPoP-bound token was requested (RFC 9449)."
            )
        }
        try registration.certificate?.check(
            tokens.accessToken,
            isRequired: registration.bindsTokensToCertificate && registration.securityProfile != nil
                && response.key == nil
        )
        tokens.dpopKey = response.key
        tokens.verifiedIDToken = nil
        return tokens
    }

    /// The hint for a token type that no specification defines.
    private static func bearerAdvice(_ type: String) -> String {
        guard !ClientRegistration.Values.boundTokenTypes.contains(type.lowercased()) else { return "" }
        return " If the provider documents that it is a bearer token, list the type in \"bearer_token_types\"."
    }
}

extension ProviderMetadata {
    /// A list for the client authentication at the revocation or introspection endpoint (RFC 8414 section 2); nil for other endpoints, and if the
    /// list is absent: many servers list only the values for the token endpoint.
    /// - Parameter kind: `methods` or `signing_alg_values`.
    fileprivate func ownAuthenticationValues(_ kind: String, _ purpose: ProviderRequest.Purpose) -> [String]? {
        switch purpose {
        case .revocation: advertised("revocation_endpoint_auth_\(kind)_supported")
        case .introspection: advertised("introspection_endpoint_auth_\(kind)_supported")
        default: nil
        }
    }
}

extension TokenSet {
    /// Parses a token endpoint's response as RFC 6749 sections 5.1 and 5.2 describe it.
    ///
    /// A response with an `error` member is an error response regardless of its status: some providers send it with status 200.
    /// - Parameters:
    ///   - parameters: The response's parameters, or the error from parsing them.
    ///   - bearerTypes: The token types that this provider uses for bearer tokens.
    ///   - defaultLifetime: The lifetime of the access token, in seconds, if the response does not specify it; nil for an unknown lifetime.
    ///   - now: The time at which the response arrived.
    /// - Throws: ``AuthError`` with `provider_rejected`, `temporarily_unavailable`, or `invalid_response` when the response conforms to neither
    ///   section.
    init(
        _ response: ProviderResponse,
        parameters: Result<JSON, any Error>,
        bearerTypes: Set<String> = [],
        defaultLifetime: Double? = nil,
        receivedAt now: Date
    ) throws {
        if let error = (try? parameters.get()).flatMap(response.http.providerError(in:)) {
            guard !error.isServerError else {
                throw AuthError(
                    .temporarilyUnavailable,
                    "\(response.endpoint.host) is temporarily unable to process the \(response.purpose) request. Try again later.",
                    providerError: error,
                    status: response.status,
                    retryAfter: response.http.retryAfter(now: now)
                )
            }
            throw AuthError(
                .providerRejected,
                "\(response.endpoint.host) rejected the \(response.purpose) request.\(response.advice)",
                providerError: error
            )
        }
        // RFC 6749 section 5.1 specifies 200. A 201 response is equally unambiguous, and a refresh token in it has
        // already replaced the old one.
        guard response.http.isSuccessful else { throw response.unexpectedStatus(.invalidResponse) }
        let parameters = try parameters.get()
        guard let accessToken = parameters["access_token"]?.string, !accessToken.isEmpty else {
            // Some providers send errors with status 200 and without an error code.
            guard parameters["access_token"] != nil || response.http.providerError == nil else {
                throw response.unexpectedStatus(.invalidResponse)
            }
            let advice =
                parameters["access_token"] == nil && parameters.token("id_token") != nil
                ? " If the provider issues access tokens only for an API, add the API's scope to \"scopes\"; at Azure AD B2C, the client ID can be this scope."
                : ""
            throw AuthError(
                .invalidResponse,
                "The response has no valid \"access_token\" (RFC 6749 section 5.1).\(advice)"
            )
        }
        // RFC 6749 section 5.1: the value is case-insensitive.
        let namedType = parameters["token_type"].flatMap { $0 == .null ? nil : $0 }
        let isBearer = bearerTypes.contains {
            $0.lowercased() == (namedType == nil ? "" : namedType?.string?.lowercased())
        }
        guard let tokenType = isBearer ? "Bearer" : namedType?.string else {
            throw AuthError(
                .invalidResponse,
                "The token response has no valid \"token_type\" (RFC 6749 section 5.1). If the provider documents that it issues bearer tokens, list \"none\" in \"bearer_token_types\"."
            )
        }
        // RFC 6749 section 5.1: expires_in is RECOMMENDED. "If omitted, the authorization server SHOULD provide the expiration time via other means or
        // document the default value."
        let seconds = try parameters.seconds("expires_in")
        // Some providers, such as Mailchimp and VK, send 0 for a token that does not expire. If only another sign-in could replace the token, a
        // lifetime of 0 cannot be meant literally, because no token would ever be usable.
        let needsSignIn =
            parameters.token("refresh_token") == nil && [.token, .deviceToken].contains(response.purpose)
        let lifetime = (seconds == 0 && needsSignIn ? nil : seconds) ?? defaultLifetime
        // RFC 6749 section 5.1: scope is "OPTIONAL, if identical to the scope requested by the client"; section 6: if
        // omitted in a refresh, it "is treated as equal to the scope originally granted by the resource owner".
        // Some providers send an array, or separate the scopes with commas.
        let list = parameters["scope"]?.strings.map { $0.joined(separator: " ") }
        let text = parameters["scope"]?.string ?? list
        let scopes = text.map { text in
            text.split(separator: " ").map(String.init).flatMap { scope in
                response.scopes.contains(scope) ? [scope] : scope.split(separator: ",").map(String.init)
            }
        }
        // An empty string can mean that no scopes were granted, but not in a response to an OpenID request.
        let isAbsent = scopes?.isEmpty == true && (list != nil || response.scopes.contains("openid"))
        self.init(
            accessToken: Secret(accessToken),
            tokenType: tokenType,
            expiresAt: lifetime.map { now.addingTimeInterval($0.rounded(.down)) },
            refreshToken: parameters.token("refresh_token"),
            idToken: parameters.token("id_token"),
            scopes: isAbsent ? response.scopes : scopes ?? response.scopes,
            // Parameters that have their own properties are not stored again.
            parameters: RedactedJSON(.object((parameters.object ?? [:]).filter { !Self.named.contains($0.key) }))
        )
        self.deviceSecret = parameters.token("device_secret")
    }

    /// Parameters of a token response that have their own properties.
    private static let named: Set<String> = [
        "access_token", "token_type", "expires_in", "refresh_token", "id_token", "scope", "device_secret",
    ]
}

extension JSON {
    /// A token in a response; nil also for an empty string, which is not a valid token (RFC 6749 appendix A.17: 1*VSCHAR) and must not
    /// replace a stored token.
    func token(_ name: String) -> Secret? {
        self[name]?.string.flatMap { $0.isEmpty ? nil : Secret($0) }
    }

    /// A number of seconds in a response. It is limited to a century, because some servers send the largest integer for a token that never
    /// expires.
    /// - Returns: The number of seconds; nil when the member is absent or null.
    /// - Throws: ``AuthError`` with `invalid_response` when it is neither a number nor a string of digits (which some servers send), or
    ///   when it is negative.
    func seconds(_ name: String) throws(AuthError) -> Double? {
        guard let value = self[name], value != .null else { return nil }
        let digits = value.string.flatMap { $0.utf8.allSatisfy { (0x30...0x39).contains($0) } ? $0 : nil }
        let seconds = value.number ?? digits.flatMap(Double.init)
        guard let seconds, seconds >= 0 else {
            throw AuthError(.invalidResponse, "The response has a \"\(name)\" that is not a valid number of seconds.")
        }
        return min(seconds, 100 * 365 * 86_400)
    }
}
