import AuthFlowJSON
import Crypto

/// Keeps authorization requests until their response comes, in a store that several processes share: each is taken out once.
///
/// ```swift
/// let pending = PendingAuthorizations(store: store)
/// let request = try await client.authorizationRequest()
/// try await pending.keep(request)                                        // one process
/// let request = try await pending.take(for: callbackURL, of: client)     // any other
/// ```
public struct PendingAuthorizations: Sendable {
    private let store: any TokenStore

    /// Creates a place for requests in a store.
    public init(store: any TokenStore) {
        self.store = store
    }

    /// Keeps a request.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func keep(_ request: AuthorizationRequest) async throws {
        let bytes = try request.json.serialized()
        let key = Self.key(request.state, request.issuer, request.clientID)
        try await store.withLease(on: key) { lease in try await store.write(bytes, under: lease) }
    }

    /// Takes the request out that an authorization response belongs to. No other call, here or in another process, gets it again.
    /// - Parameters:
    ///   - callback: The URL that the user was sent back to, whole.
    ///   - client: The client that made the request.
    /// - Throws: ``AuthError`` with `invalid_callback` when no request waits for this response: it was answered already, was
    ///   never made, or has been removed.
    public func take(for callback: String, of client: OAuthClient) async throws -> AuthorizationRequest {
        let encoded = callback.dropFirst(callback.prefix { $0 != "?" && $0 != "#" }.count + 1)
        let states = FormURLEncoding.decode(encoded)?.values(for: "state") ?? []
        guard states.count == 1, let state = states.first, !state.isEmpty else {
            throw AuthError(.invalidCallback, "The authorization response has no state.")
        }
        let key = Self.key(Secret(state), client.server.issuer, client.registration.clientID)
        let bytes = try await store.withLease(on: key) { lease -> [UInt8]? in
            guard let bytes = try await store.bytes(for: key) else { return nil }
            try await store.write(nil, under: lease)
            return bytes
        }
        guard let bytes, let json = try? JSON(parsing: bytes), let request = AuthorizationRequest(json) else {
            throw AuthError(
                .invalidCallback,
                "No authorization request waits for this response: it was used already, or was never made. Sign in again."
            )
        }
        return request
    }

    /// A key that does not contain the state: names of records are not secret.
    private static func key(_ state: Secret, _ issuer: String, _ clientID: String) -> RecordKey {
        let name = Base64URL.encode(SHA256.hash(data: Array(state.exposed.utf8)))
        return RecordKey(name: name, issuer: issuer, clientID: clientID, kind: .authorizationRequest)
    }
}
