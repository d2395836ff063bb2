/// Signing in on another screen: the device authorization grant (RFC 8628).
///
/// 1. find the provider's endpoints (`Providers/Discovery.swift`);
/// 2. ask for a code (`DeviceAuthorization.swift`) and show it (`DevicePresenter.swift`);
/// 3. ask for the tokens until the user has decided (`DevicePolling.swift`);
/// 4. check the ID Token and find out who it is (`SignInOutcome.swift`);
/// 5. keep the credential (`Stores/`).
struct DeviceFlow: Sendable {
    let engine: Engine
    let reporter: FlowReporter

    /// Asks for a code. The user has been shown nothing when this throws.
    /// - Parameter longestWait: How long the user can be waited for at the most; nil for as long as the code lasts.
    func begin(longestWait: Duration?) async throws -> (ProviderMetadata, DeviceAuthorization) {
        let metadata = try await reporter.step(.discovery) {
            try await engine.metadata(with: \.deviceAuthorizationEndpoint)
        }
        var authorization = try await reporter.step(.deviceAuthorization) {
            try await engine.deviceAuthorization(at: metadata)
        }
        if let longestWait { authorization.lifetime = min(authorization.lifetime, longestWait) }
        return (metadata, authorization)
    }

    /// Waits for the user, checks what comes, and keeps it.
    /// - Parameter store: Keeps the credential.
    func finish<Return: Sendable>(
        _ authorization: DeviceAuthorization,
        at metadata: ProviderMetadata,
        store: @escaping @Sendable (SignInOutcome) async throws -> Return
    ) async throws -> Return {
        let polling = DevicePolling(engine: engine, reporter: reporter)
        return try await polling.wait(for: authorization, at: metadata) { [engine, reporter] received in
            // No nonce was sent, so none may come.
            var expectation = engine.expectation(of: metadata, occasion: .signIn(nonce: nil))
            expectation.accessToken = received.tokens.accessToken
            expectation.clockOffset = received.clockOffset
            return try await store(
                try await engine.outcome(of: received, expectation, metadata: metadata, reporter: reporter)
            )
        }
    }
}
