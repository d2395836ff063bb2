public import AuthFlowOAuth
import AuthFlowSignIn

extension ResourceClient {
    /// The state of a sign-in at a resource, for display to users.
    public struct Status: Sendable {
        /// The resource identifier that the token is for.
        public let resource: String
        /// The authorization server.
        public let issuer: String
        /// The `client_id` at the authorization server.
        public let clientID: String
        /// The method by which the client obtained its `client_id`.
        package let identification: ClientIdentification
        /// The requested scopes. ``credential`` contains the granted scopes.
        public let requestedScopes: [String]
        /// The credential; nil when the user has signed out, or the session has ended.
        public let credential: Credential?
        /// Whether the provider has ended the session.
        package let isEnded: Bool
    }

    /// The state of the last sign-in. Sends no requests. A damaged record is also an error (`credential_unusable`).
    /// - Returns: nil when no user has signed in, or the client of that sign-in is no longer configured or registered.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func status() async throws -> Status? {
        guard let known = try await known(reading: true), let client = try await client(of: known) else { return nil }
        let credential = try await client.credential()
        let isEnded = credential == nil ? try await client.isEnded() : false
        return Status(
            resource: known.resource,
            issuer: known.issuer,
            clientID: known.clientID,
            identification: known.identification,
            requestedScopes: known.scopes,
            credential: credential,
            isEnded: isEnded
        )
    }

    /// The authorization server of the user's last sign-in; nil when no user has signed in.
    /// - Throws: ``AuthError`` with `storage_failed`.
    package func issuer() async throws -> String? { try await known(reading: true)?.issuer }

    /// A credential with a fresh access token. The user is never prompted.
    /// - Parameter duration: The minimum remaining lifetime of the token; default: the freshness margin.
    /// - Throws: ``AuthError`` with `login_required` when no user is signed in or the session has ended; any error from refreshing.
    public func freshCredential(lasting duration: Duration = .zero) async throws -> Credential {
        if let (known, client) = try await knownClient(), isUsableHere(known) {
            do {
                return try await freshCredential(of: known, client, lasting: duration)
            } catch let error as AuthError where error.code == .loginRequired {
                // Another process may have signed in again in the meantime, with another server or client.
                guard let newer = try await self.known(reading: true), newer != known, isUsableHere(newer),
                    let client = try await self.client(of: newer)
                else { throw error }
                return try await freshCredential(of: newer, client, lasting: duration)
            }
        }
        // A machine-to-machine client shows no page, so it needs no permission to prompt the user.
        if methods.withoutUser != nil { return try await signIn() }
        throw loginRequired(because: nil)
    }

    private func freshCredential(
        of known: KnownResource,
        _ client: AuthClient,
        lasting duration: Duration
    ) async throws -> Credential {
        do {
            return try await client.freshCredential(lasting: duration)
        } catch let error as AuthError where isUnregistered(known, error) {
            throw try await retireRegistration(known, error)
        }
    }

    /// The reason for the absence of a credential in the result of ``status()``. Sends no requests.
    /// - Throws: ``AuthError`` with `storage_failed`.
    package func absenceOfCredential() async throws -> AuthError {
        do {
            _ = try await knownClient()?.client.requiredCredential()
        } catch let error as AuthError where error.code == .loginRequired {
            return error
        }
        return loginRequired(because: nil)
    }

    func loginRequired(because reason: AuthError?) -> AuthError {
        AuthError(
            .loginRequired,
            reason?.message ?? "No user is signed in to \(address).",
            providerError: reason?.providerError,
            underlyingError: reason
        )
    }
}
