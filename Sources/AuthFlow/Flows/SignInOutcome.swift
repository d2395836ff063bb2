import AuthFlowJSON

/// What a flow that signs a person in brings, every check passed.
struct SignInOutcome: Sendable {
    let credential: Credential

    /// The parameters of the redirect; none in a flow without one.
    let authorizationParameters: FormParameters
}

extension Engine {
    /// The end of every flow that signs a person in: checks the ID Token, and finds out who it is. No token is released
    /// before (RFC 9700 section 4.5.3.2).
    /// - Parameters:
    ///   - received: What the token endpoint sent.
    ///   - expectation: What its ID Token must say.
    ///   - metadata: The provider's.
    ///   - authorizationParameters: The parameters of the redirect.
    ///   - reporter: Where the steps are reported.
    func outcome(
        of received: ReceivedTokens,
        _ expectation: IDTokenValidation.Expectation,
        metadata: ProviderMetadata,
        authorizationParameters: FormParameters = [:],
        reporter: FlowReporter
    ) async throws -> SignInOutcome {
        var tokens = try usable(received)
        // OIDC Core section 3.1.3.3: id_token is REQUIRED in the token response to an OpenID request.
        if tokens.idToken != nil || received.requestedScopes.contains("openid") {
            tokens.verifiedIDToken = try await reporter.step(.idTokenValidation) {
                try await verified(tokens.idToken, expectation, metadata: metadata, reporter: reporter)
            }
        }
        let identity = try await reporter.step(.identity) {
            try await provider.identity(for: tokens, in: context)
        }
        // A user of another issuer cannot be vouched for by this one.
        guard identity.issuer.isIdentical(to: metadata.issuer) else {
            throw AuthError(
                .issuerMismatch,
                "The adapter \"\(provider.id.rawValue)\" names a user of another issuer than \(metadata.issuer)."
            )
        }
        var credential = Credential(tokens: tokens, identity: identity, signedInAt: host.wholeSecond)
        credential.binding = ProviderBinding(metadata)
        try credential.requireStorableSize()
        try await provider.check(credential, in: context)
        return SignInOutcome(
            credential: credential,
            authorizationParameters: authorizationParameters
        )
    }

    private func verified(
        _ idToken: Secret?,
        _ expectation: IDTokenValidation.Expectation,
        metadata: ProviderMetadata,
        reporter: FlowReporter
    ) async throws -> IDToken {
        guard let idToken else {
            throw AuthError(
                .invalidIDToken,
                "The provider sent no ID Token although \"openid\" was asked for (OpenID Connect Core section 3.1.3.3)."
            )
        }
        return try await verify(idToken, expectation, metadata: metadata, reporter: reporter)
    }
}
