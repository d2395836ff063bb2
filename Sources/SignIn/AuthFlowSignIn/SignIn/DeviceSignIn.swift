public import AuthFlowOAuth

/// Signs a user in on another device: the device authorization grant (RFC 8628).
///
/// 1. find the server's endpoints (`AuthorizationServer/AuthorizationServer.swift`);
/// 2. request a code (`Grants/DeviceAuthorization.swift`) and show it (`SignIn/DevicePresenter.swift`);
/// 3. poll for the tokens until the user has decided (`Grants/DevicePolling.swift`);
/// 4. validate the tokens and identify the user (`Client/TokenValidation.swift`);
/// 5. store the credential (`AuthFlowCredentials/ManagedCredential+SignIn.swift`).
struct DeviceSignIn: Sendable {
    let client: OAuthClient
    let reporter: FlowReporter
    let unfinished: UnfinishedWork

    /// Requests a code. If it throws an error, the user has not been shown anything.
    /// - Parameters:
    ///   - options: The options of the sign-in.
    ///   - maximumWait: The maximum time to wait for the user; nil to wait until the code expires.
    /// - Throws: ``AuthError`` with `unsupported` when a device authorization request cannot express the options.
    func begin(_ options: AuthorizationOptions, maximumWait: Duration?) async throws -> DeviceAuthorization {
        let ignored = client.parametersIgnoredByDeviceFlow(options)
        guard ignored.isEmpty else {
            throw AuthError(
                .unsupported,
                "The device flow does not support \(ignored.joined(separator: ", ")). Sign in with a browser on this device."
            )
        }
        _ = try await reporter.step(.discovery) { try await client.metadata() }
        var authorization = try await reporter.step(.deviceAuthorization) {
            try await client.deviceAuthorization(scopes: options.scopes, resources: options.resources)
        }
        if let maximumWait { authorization.lifetime = min(authorization.lifetime, maximumWait) }
        return authorization
    }

    /// Waits for the user, then checks and stores the tokens.
    /// - Parameter save: Stores the credential.
    func finish<Return: Sendable>(
        _ authorization: DeviceAuthorization,
        save: @escaping @Sendable (Credential) async throws -> Return
    ) async throws -> Return {
        let metadata = try await client.metadata()
        let polling = DevicePolling(client: client, reporter: reporter, unfinished: unfinished)
        return try await polling.wait(for: authorization, at: metadata) { [client, reporter] response in
            // No nonce was sent, so the ID Token must not contain a nonce.
            let expectation = client.expectation(of: metadata, context: .signIn(nonce: nil), response)
            var credential = try await client.credential(
                of: response,
                expectation,
                authorizedScopes: authorization.scopes,
                metadata: metadata,
                reporter: reporter,
                mayLackIDToken: true
            )
            credential.resources = authorization.resources
            try await client.compareAuthorizationDetails(
                client.registration.authorizationDetails,
                credential.tokens,
                reporter,
                at: .devicePolling
            )
            return try await save(credential)
        }
    }
}

extension OAuthClient {
    /// Polls for the tokens of a device authorization until the user has decided (RFC 8628 section 3.4), and checks them.
    ///
    /// Cancelling the task ends the wait; the tokens of a poll in progress are then lost.
    /// - Throws: ``AuthError`` with `access_denied` when the user denied the request, `timed_out` when the code has expired, or another
    ///   error from the provider; `CancellationError`.
    public func deviceCredential(for authorization: DeviceAuthorization) async throws -> Credential {
        let reporter = FlowReporter(host: host)
        return try await DeviceSignIn(client: self, reporter: reporter, unfinished: UnfinishedWork())
            .finish(authorization) { $0 }
    }
}
