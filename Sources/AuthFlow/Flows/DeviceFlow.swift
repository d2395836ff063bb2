/// Signing in on another screen: the device authorization grant (RFC 8628).
///
/// 1. find the provider's endpoints (`Providers/Discovery.swift`);
/// 2. ask for a code (`DeviceAuthorization.swift`) and show it (`DevicePresenter.swift`);
/// 3. ask for the tokens until the person has decided (`DevicePolling.swift`);
/// 4. check the ID Token and find out who it is (`SignInOutcome.swift`);
/// 5. keep the credential (`Stores/`).
struct DeviceFlow: Sendable {
    let engine: Engine
    let reporter: FlowReporter

    /// Asks for a code. Nobody has been shown anything when this throws.
    func begin() async throws -> (ProviderMetadata, DeviceAuthorization) {
        let metadata = try await reporter.step(.discovery) { try await engine.metadata() }
        let authorization = try await reporter.step(.deviceAuthorization) {
            try await engine.deviceAuthorization(at: metadata)
        }
        return (metadata, authorization)
    }

    /// Waits for the person, and checks what comes.
    func finish(_ authorization: DeviceAuthorization, at metadata: ProviderMetadata) async throws -> SignInOutcome {
        let received = try await reporter.step(.devicePolling) {
            try await DevicePolling(engine: engine, reporter: reporter).tokens(for: authorization, at: metadata)
        }
        // No nonce was sent, so none may come.
        var expectation = engine.expectation(of: metadata, occasion: .signIn(nonce: nil))
        expectation.accessToken = received.tokens.accessToken
        expectation.clockOffset = received.clockOffset
        return try await engine.outcome(
            of: received,
            expectation,
            metadata: metadata,
            requiresIDToken: engine.settings.scopes.contains("openid"),
            reporter: reporter
        )
    }
}
