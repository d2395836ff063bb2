public import AuthFlowHTTP
public import AuthFlowJOSE
import HTTPTypes

extension AuthorizationServer {
    /// Verifies an ID Token from this issuer: the claims, then the signature (OpenID Connect Core section 3.1.3.7).
    ///
    /// It needs neither a client nor a user agent, so use it in a backend that receives ID Tokens. A client that signs
    /// users in uses `OAuthClient.exchange(_:for:)` instead, which performs more checks.
    /// - Parameters:
    ///   - idToken: The token.
    ///   - clientID: The client for which the token was issued, which must be its only audience.
    ///   - parties: The client IDs of other clients that may have requested the token (`azp`), such as the mobile apps of a backend;
    ///     default: none.
    ///   - nonce: The expected nonce; default: any nonce or no nonce, because another program made the request.
    ///   - accessToken: The access token issued with the ID Token, for `at_hash`; default: none.
    ///   - algorithms: The signature algorithms to accept; default: all asymmetric algorithms that the server advertises.
    ///   - age: The maximum age, based on `iat`; default: ten minutes; nil for no limit other than the token's expiry.
    ///   - clockLeeway: The allowed difference between this machine's clock and the server's; default: one minute.
    ///   - decryptionKeys: The keys for decrypting encrypted tokens; default: none.
    /// - Throws: ``AuthError`` with `invalid_id_token`; `unsupported` for an encrypted token without a decryption key; any error from
    ///   `decryptionKeys` or from fetching the metadata or the keys.
    public func verify(
        _ idToken: Secret,
        audience clientID: String,
        requestedBy parties: [String] = [],
        nonce: Secret? = nil,
        accessToken: Secret? = nil,
        algorithms: [SignatureAlgorithm]? = nil,
        issuedWithin age: Duration? = .seconds(600),
        clockLeeway: Duration = .seconds(60),
        decryptionKeys: DecryptionKeySource? = nil
    ) async throws -> IDToken {
        let signed =
            if let decryptionKeys, JWE.isEncrypted(idToken) {
                try JWE(idToken).decrypted(with: try decryptionKeys.keys())
            } else {
                idToken
            }
        let metadata = try await metadata()
        var expectation = IDTokenValidation.Expectation(
            issuer: issuer,
            clientID: clientID,
            // HMAC signatures cannot be verified without the client secret.
            algorithms: (algorithms ?? metadata.usableIDTokenAlgorithms).filter(SignatureAlgorithm.asymmetric.contains),
            context: .presented(nonce: nonce),
            leeway: clockLeeway.seconds
        )
        expectation.issuerTemplate = metadata.tokenIssuer
        expectation.authorizedParties = parties
        expectation.accessToken = accessToken
        expectation.maximumTokenAge = age?.seconds
        expectation.clockOffset = clockOffset
        return try await verifyIDToken(signed, expectation, metadata: metadata, secret: nil)
    }

    /// Like ``verify(_:audience:requestedBy:nonce:accessToken:algorithms:issuedWithin:clockLeeway:decryptionKeys:)``, for a token
    /// as a plain `String`.
    public func verify(_ idToken: String, audience clientID: String, nonce: String? = nil) async throws -> IDToken {
        try await verify(Secret(idToken), audience: clientID, nonce: nonce.map(Secret.init))
    }

    /// Verifies an ID Token.
    /// - Parameter secret: The client's secret, for the HMAC algorithms.
    package func verifyIDToken(
        _ idToken: Secret,
        _ expectation: IDTokenValidation.Expectation,
        metadata: ProviderMetadata,
        secret: Secret?,
        reporter: FlowReporter? = nil
    ) async throws -> IDToken {
        var validation = IDTokenValidation(expectation: expectation, now: host.now())
        if let reporter { validation.passed = { reporter.passed(.idTokenValidation, $0, $1) } }
        // "6. ... The Client MUST validate the signature of all other ID Tokens according to JWS". This client
        // validates the signatures of all ID Tokens, including those from the token endpoint.
        let keys = keySet(metadata)
        let verified = try await validation.verifier.verify(
            idToken,
            keys: keys,
            secret: secret,
            check: validation.check
        )
        reporter?.passed(.idTokenValidation, "signature", "OpenID Connect Core section 3.1.3.7, item 6")
        return IDToken(verified)
    }

    /// The keys that verify the signatures of the server's tokens.
    /// - Parameter template: The template for the issuers in tokens; nil for the template in the metadata.
    package func keySet(_ metadata: ProviderMetadata, template: TokenIssuerTemplate? = nil) -> some KeySet {
        IssuerKeys(server: self, metadata: metadata, template: template ?? metadata.tokenIssuer)
    }

    /// The server's keys for verifying its signatures.
    package func signatureKeys(_ metadata: ProviderMetadata) async throws -> [JWK] {
        let keySetURL = try metadata.required(\.jwksURI, "key set (jwks_uri)")
        return try await keys.signatureKeys(at: keySetURL, fetch: fetchKeys)
    }

    /// The server's keys for encrypting messages to it.
    package func encryptionKeys(_ metadata: ProviderMetadata) async throws -> [EncryptionKey] {
        let keySetURL = try metadata.required(\.jwksURI, "key set (jwks_uri)")
        return try await keys.encryptionKeys(at: keySetURL, fetch: fetchKeys)
    }

    fileprivate var fetchKeys: KeySource.Fetch {
        { [self] in try await send(TransportRequest(.get, $0, headerFields: [.accept: "application/json"])) }
    }
}

/// The keys at a server's `jwks_uri`.
private struct IssuerKeys: KeySet {
    let server: AuthorizationServer
    let metadata: ProviderMetadata
    let template: TokenIssuerTemplate?

    func verdict(on jws: JWS) async throws -> SignatureVerdict {
        let keySetURL = try metadata.required(\.jwksURI, "key set (jwks_uri)")
        let verdict: Result<SignatureVerdict, any Error>
        do {
            let known = try await self.verdict(on: jws, at: keySetURL)
            guard case .noMatchingKey = known else { return known }
            verdict = .success(known)
        } catch {
            verdict = .failure(error)
        }
        try Task.checkCancellation()
        // The key set may have a new URL, so cached metadata is refetched once.
        guard let moved = try? await server.refetchedMetadata().jwksURI, moved != keySetURL else {
            return try verdict.get()
        }
        return try await self.verdict(on: jws, at: moved)
    }

    private func verdict(on jws: JWS, at keySetURL: Endpoint) async throws -> SignatureVerdict {
        do {
            return try await server.keys.verdict(on: jws, at: keySetURL, template: template, fetch: server.fetchKeys)
        } catch let error as AuthError where error.code == .invalidResponse {
            throw error.withMessage(error.message, because: UnreadableKeySet())
        }
    }
}

/// The cause of an error: the response was not a key set, which proves nothing about the token.
private struct UnreadableKeySet: Error {}

extension AuthError {
    /// The same error, marked as a failure to read a key set.
    package var asKeySetFailure: AuthError { withMessage(message, because: UnreadableKeySet()) }

    /// Whether a key set could not be read.
    package var isKeySetFailure: Bool {
        underlyingError is UnreadableKeySet || (underlyingError as? AuthError)?.isKeySetFailure == true
    }
}

extension ProviderMetadata {
    /// The advertised asymmetric algorithms for ID Tokens. OIDC Discovery section 3: RS256 MUST be advertised, so it is
    /// the default.
    package var usableIDTokenAlgorithms: [SignatureAlgorithm] {
        let advertised = idTokenSigningAlgorithms?.map(SignatureAlgorithm.init(rawValue:)) ?? [.rs256]
        return SignatureAlgorithm.asymmetric.filter(advertised.contains)
    }
}
