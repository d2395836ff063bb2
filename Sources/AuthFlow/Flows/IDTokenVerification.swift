extension Engine {
    /// What every ID Token of this provider must say to this client.
    func expectation(
        of metadata: ProviderMetadata,
        occasion: IDTokenValidation.Occasion
    ) -> IDTokenValidation.Expectation {
        // OIDC Discovery section 3: RS256 MUST be among the announced algorithms, so it stands for all when none are.
        let announced = metadata.idTokenSigningAlgorithms?.map(SignatureAlgorithm.init(rawValue:)) ?? [.rs256]
        return IDTokenValidation.Expectation(
            issuer: metadata.issuer,
            clientID: settings.clientID,
            algorithms: settings.idTokenSigningAlgorithms ?? SignatureAlgorithm.asymmetric.filter(announced.contains),
            occasion: occasion,
            leeway: settings.clockLeeway.seconds
        )
    }

    /// Verifies an ID Token: claims first, which costs nothing, then the signature, for which keys may have to be fetched.
    func verify(
        _ idToken: Secret,
        _ expectation: IDTokenValidation.Expectation,
        metadata: ProviderMetadata,
        reporter: FlowReporter? = nil
    ) async throws -> IDToken {
        let jws = try JWS(idToken)
        var validation = IDTokenValidation(expectation: expectation, now: host.now())
        if let reporter { validation.passed = { reporter.passed(.idTokenValidation, $0, $1) } }
        let unverified = try validation.validateClaims(of: jws)
        // "6. ... The Client MUST validate the signature of all other ID Tokens according to JWS". Ours: of all of them,
        // those from the token endpoint too.
        let proof = try await context.checkSignature(of: jws, metadata: metadata) {
            AuthError(.invalidIDToken, "The ID Token was refused: \($0).")
        }
        reporter?.passed(.idTokenValidation, "signature", "OpenID Connect Core section 3.1.3.7, 6")
        return IDToken(unverified, proof)
    }
}
