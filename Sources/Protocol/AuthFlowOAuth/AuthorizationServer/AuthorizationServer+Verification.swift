public import AuthFlowHTTP
public import AuthFlowJOSE
import HTTPTypes

extension AuthorizationServer {
    /// Verifies an ID Token of this issuer: every claim, then the signature (OpenID Connect Core section 3.1.3.7).
    ///
    /// It needs no client and no user agent: for a backend that is sent ID Tokens. A client that signs a user in uses
    /// ``OAuthClient/exchange(_:for:)-(String,_)``, which checks more.
    /// - Parameters:
    ///   - idToken: The token.
    ///   - clientID: The client that it was issued to, which must be its only audience.
    ///   - nonce: The nonce that it must have; default: any or none, because the request was another program's.
    ///   - accessToken: The access token that came with it, for `at_hash`; default: none.
    ///   - algorithms: The signature algorithms to accept; default: those with a public key that the server announces.
    ///   - age: The longest time since it was issued; default: ten minutes. nil: until it expires.
    ///   - clockLeeway: How far the two clocks may be apart; default: one minute.
    ///   - decryptionKeys: The keys that tokens may be encrypted to; default: none.
    /// - Throws: ``AuthError`` with `invalid_id_token`, or what fetching the metadata and the keys throws.
    public func verify(
        _ idToken: Secret,
        audience clientID: String,
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
            // An algorithm with a shared secret cannot be verified without the client that has it.
            algorithms: (algorithms ?? metadata.usableIDTokenAlgorithms).filter(SignatureAlgorithm.asymmetric.contains),
            occasion: .presented(nonce: nonce),
            leeway: clockLeeway.seconds
        )
        expectation.issuerTemplate = metadata.tokenIssuer
        expectation.accessToken = accessToken
        expectation.longestAge = age?.seconds
        expectation.clockOffset = clockOffset
        return try await verifyIDToken(signed, expectation, metadata: metadata, secret: nil)
    }

    /// Verifies an ID Token: claims first, which costs nothing, then the signature, for which keys may have to be fetched.
    /// - Parameter secret: The client's secret, for the HMAC algorithms.
    func verifyIDToken(
        _ idToken: Secret,
        _ expectation: IDTokenValidation.Expectation,
        metadata: ProviderMetadata,
        secret: Secret?,
        reporter: FlowReporter? = nil
    ) async throws -> IDToken {
        let jws = try JWS(idToken)
        var validation = IDTokenValidation(expectation: expectation, now: host.now())
        if let reporter { validation.passed = { reporter.passed(.idTokenValidation, $0, $1) } }
        let unverified = try validation.validateClaims(of: jws)
        // "6. ... The Client MUST validate the signature of all other ID Tokens according to JWS". Ours: of all of them,
        // those from the token endpoint too.
        let proof = try await verifySignature(of: jws, metadata: metadata, secret: secret) {
            AuthError(.invalidIDToken, "The ID Token was refused: \($0).")
        }
        reporter?.passed(.idTokenValidation, "signature", "OpenID Connect Core section 3.1.3.7, 6")
        return IDToken(unverified, proof)
    }

    /// Verifies who signed a token: the server with one of its keys, or, for the HMAC algorithms, a holder of the client's
    /// secret. The caller has checked which algorithms are acceptable.
    ///
    /// A public key is never used as a secret: the two kinds of key do not meet (RFC 8725 section 2.1).
    /// - Parameters:
    ///   - jws: The token.
    ///   - metadata: The server's.
    ///   - secret: The client's secret; nil for none.
    ///   - refusal: Makes the error to throw from a reason.
    func verifySignature(
        of jws: JWS,
        metadata: ProviderMetadata,
        secret: Secret?,
        refusal: @Sendable (_ reason: String) -> AuthError
    ) async throws -> SignatureProof {
        let algorithm = jws.header.algorithm
        if let definition = algorithm.definition, definition.scheme == .hmac {
            let isValid = secret.map {
                HMACSignature.isValid(jws.signature, for: jws.signedBytes, hash: definition.hash, secret: $0)
            }
            guard isValid == true else { throw refusal("its signature is wrong") }
            return SignatureProof()
        }
        switch try await verdict(on: jws, metadata: metadata) {
        case .verified: return SignatureProof()
        case .wrongSignature: throw refusal("its signature is wrong")
        case .noKey: throw refusal("none of the provider's keys fits its signature")
        }
    }

    /// The server's keys that messages to it are encrypted with.
    func encryptionKeys(_ metadata: ProviderMetadata) async throws -> [EncryptionKey] {
        let place = try metadata.required(\.jwksURI, "key set (jwks_uri)")
        return try await keys.encryptionKeys(at: place, fetch: fetchKeys)
    }

    private var fetchKeys: KeySource.Fetch {
        { [self] in try await send(TransportRequest(.get, $0, headerFields: [.accept: "application/json"])) }
    }

    private func verdict(on jws: JWS, metadata: ProviderMetadata) async throws -> KeySource.Verdict {
        let place = try metadata.required(\.jwksURI, "key set (jwks_uri)")
        let fetch = fetchKeys
        let verdict: Result<KeySource.Verdict, any Error>
        do {
            let known = try await keys.verdict(on: jws, at: place, template: metadata.tokenIssuer, fetch: fetch)
            guard case .noKey = known else { return known }
            verdict = .success(known)
        } catch {
            verdict = .failure(error)
        }
        try Task.checkCancellation()
        // The keys may have moved: metadata that was fetched a while ago is fetched again, once.
        doubtMetadata()
        guard let moved = try? await self.metadata().jwksURI, moved != place else { return try verdict.get() }
        return try await keys.verdict(on: jws, at: moved, template: metadata.tokenIssuer, fetch: fetch)
    }
}

/// Evidence that the signature of a token was verified: ``AuthorizationServer/verifySignature(of:metadata:secret:refusal:)``
/// alone makes it.
struct SignatureProof: Sendable {
    fileprivate init() {}
}

extension ProviderMetadata {
    /// The announced algorithms for ID Tokens that use a public key. OIDC Discovery section 3: RS256 MUST be among the announced
    /// ones, so it stands for all when none are.
    var usableIDTokenAlgorithms: [SignatureAlgorithm] {
        let announced = idTokenSigningAlgorithms?.map(SignatureAlgorithm.init(rawValue:)) ?? [.rs256]
        return SignatureAlgorithm.asymmetric.filter(announced.contains)
    }
}
