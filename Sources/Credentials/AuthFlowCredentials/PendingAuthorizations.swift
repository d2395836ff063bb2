import AuthFlowEssentials
public import AuthFlowOAuth
public import AuthFlowStorage
import Crypto

/// Stores authorization requests until their responses arrive, in a store that several processes share. Each request
/// can be retrieved once, and only for the browser that it was created for.
///
/// ```swift
/// let pending = PendingAuthorizations(store: store)
/// let request = try await client.authorizationRequest()
/// try await pending.save(request, for: cookie)
///
/// // In this process or any other:
/// let request = try await pending.take(for: callbackURL, in: cookie, of: client)
/// ```
public struct PendingAuthorizations: Sendable {
    private let store: any TokenStore
    private let now: @Sendable () -> Date

    /// Creates a collection of requests in a store. A ``SessionTokenStore`` removes requests of users who never return.
    /// - Parameters:
    ///   - store: The store.
    ///   - host: The clock; default: the system's.
    public init(store: any TokenStore, host: HostServices = .system) {
        self.store = store
        self.now = host.now
    }

    /// Stores a request.
    /// - Parameters:
    ///   - request: The request.
    ///   - browser: A value that only the user's browser has, such as the value of a cookie that was set for it. RFC
    ///     6749 section 10.12: the response must arrive through the browser that the request was created for;
    ///     otherwise an attacker could sign the user in to the attacker's account.
    /// - Throws: ``AuthError`` with `storage_failed`; `invalid_configuration` when the value is shorter than 16 bytes.
    public func save(_ request: AuthorizationRequest, for browser: Secret) async throws {
        guard browser.exposed.utf8.count >= 16 else {
            throw AuthError(.invalidConfiguration, "The value that identifies the browser is shorter than 16 bytes.")
        }
        let bytes = try request.json.serialized()
        let key = Self.key(request.state, browser, request.issuer, request.clientID)
        try await store.withLease(on: key) { lease in
            guard let sessions = store as? any SessionTokenStore else {
                return try await store.write(bytes, under: lease)
            }
            // The record expires, because the user may never return. During the grace period after the request's
            // expiry, a late response must receive the error `timed_out`.
            let rest = max(0, request.expiresAt.timeIntervalSince(now())) + Self.gracePeriod
            try await sessions.write(bytes, RecordAttributes(lifetime: .seconds(rest)), under: lease)
        }
    }

    /// The retention period of an expired request, in seconds.
    private static let gracePeriod: TimeInterval = 60

    /// Removes and returns the request that matches an authorization response. No other call, in this or another
    /// process, can retrieve it again.
    /// - Parameters:
    ///   - callback: The complete URL that the user was redirected to.
    ///   - browser: The value that identifies the browser that sent the callback.
    ///   - client: The client that made the request.
    /// - Throws: ``AuthError`` with `invalid_callback` when the response has no state, or there is no pending request for it because the
    ///   request was already used, was never created, or has been removed; `timed_out` when the request has expired; `storage_failed`.
    public func take(for callback: String, in browser: Secret, of client: OAuthClient) async throws
        -> AuthorizationRequest
    {
        let encoded = callback.dropFirst(callback.prefix { $0 != "?" && $0 != "#" }.count + 1)
        let response = try? RedirectResponse(encoded: encoded, at: "", decrypt: client.responseDecryption)
        guard let state = response?.state, !state.exposed.isEmpty else {
            throw AuthError(.invalidCallback, "The authorization response has no state parameter.")
        }
        return try await take(state, in: browser, of: client)
    }

    /// Like ``take(for:in:of:)``, with the response's state, which has not been verified yet.
    package func take(_ state: Secret, in browser: Secret, of client: OAuthClient) async throws -> AuthorizationRequest
    {
        let key = Self.key(state, browser, client.server.issuer, client.registration.clientID)
        guard let bytes = try await takeBytes(key), let json = try? JSON(parsing: bytes),
            let request = AuthorizationRequest(json)
        else {
            throw AuthError(
                .invalidCallback,
                "This browser has no pending authorization request for this response: the request was already used, was removed after its expiry, or was never created. Sign in again."
            )
        }
        guard client.host.now() < request.expiresAt else {
            throw AuthError(.timedOut, "The authorization request has expired. Sign in again.")
        }
        return request
    }

    /// Stores a note for a browser's request, and replaces any earlier note. Only for a ``SessionTokenStore``.
    package func saveNote(_ note: String, for browser: Secret, of client: OAuthClient, lifetime: Duration) async throws
    {
        guard let sessions = store as? any SessionTokenStore else { return }
        let key = Self.noteKey(browser, client.server.issuer, client.registration.clientID)
        try await sessions.withLease(on: key) { lease in
            let attributes = RecordAttributes(lifetime: lifetime + .seconds(Self.gracePeriod))
            try await sessions.write(Array(note.utf8), attributes, under: lease)
        }
    }

    /// The note for a browser's request; nil if there is none.
    package func note(for browser: Secret, of client: OAuthClient) async throws -> String? {
        let key = Self.noteKey(browser, client.server.issuer, client.registration.clientID)
        return try await store.bytes(for: key).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Removes and returns the note for a browser's request; nil for none.
    package func takeNote(for browser: Secret, of client: OAuthClient) async throws -> String? {
        let key = Self.noteKey(browser, client.server.issuer, client.registration.clientID)
        return try await takeBytes(key).map { String(decoding: $0, as: UTF8.self) }
    }

    private func takeBytes(_ key: RecordKey) async throws -> [UInt8]? {
        if let sessions = store as? any SessionTokenStore { return try await sessions.remove([key]).first?.bytes }
        return try await store.withLease(on: key) { lease -> [UInt8]? in
            guard let bytes = try await store.bytes(for: key) else { return nil }
            try await store.write(nil, under: lease)
            return bytes
        }
    }

    /// A key that contains neither the state nor the browser's value, because record names are not secret.
    private static func key(_ state: Secret, _ browser: Secret, _ issuer: String, _ clientID: String) -> RecordKey {
        key("\(state.exposed.utf8.count):\(state.exposed)\(browser.exposed)", issuer, clientID)
    }

    /// The key of a note. No request key has the same hash, because no state is empty.
    private static func noteKey(_ browser: Secret, _ issuer: String, _ clientID: String) -> RecordKey {
        key("0:\(browser.exposed)", issuer, clientID)
    }

    private static func key(_ parts: String, _ issuer: String, _ clientID: String) -> RecordKey {
        let name = Base64URL.encode(SHA256.hash(data: Array(parts.utf8)))
        return RecordKey(name: name, issuer: issuer, clientID: clientID, kind: .authorizationRequest)
    }
}
