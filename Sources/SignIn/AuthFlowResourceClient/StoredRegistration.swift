package import AuthFlowEssentials
public import AuthFlowOAuth
public import AuthFlowStorage
public import AuthFlowTransport

/// A stored dynamic registration with an authorization server (RFC 7591).
public struct StoredRegistration: Sendable {
    /// The issuer. The registration is never sent to another issuer.
    public let issuer: String

    /// `client_id`.
    public let clientID: String

    /// The complete redirect URIs that were registered.
    public let redirectURIs: [RedirectURI]

    /// The registered scopes; empty when none were specified.
    public let scopes: [String]

    /// The time of the registration.
    package let registeredAt: Date

    /// The expiry of the client secret; nil when there is no secret or the secret does not expire.
    package let secretExpiresAt: Date?

    /// The client authentication at the token endpoint, including the secret.
    let authentication: ClientAuthentication

    /// Whether the server no longer recognizes the client. If so, the next sign-in registers it again.
    var isRetired = false

    /// The client configuration endpoint (RFC 7592) and the registration access token, for changing and deleting the registration.
    let management: (endpoint: Endpoint, token: Secret)?

    init(
        _ registered: DynamicRegistration.Registered,
        issuer: String,
        redirectURIs: [RedirectURI],
        scopes: [String],
        at date: Date
    ) {
        self.issuer = issuer
        self.clientID = registered.clientID
        self.redirectURIs = redirectURIs
        self.scopes = scopes
        self.registeredAt = date
        self.secretExpiresAt = registered.clientSecretExpiresAt
        self.authentication = registered.authentication
        self.management = registered.registrationEndpoint.flatMap { endpoint in
            registered.registrationAccessToken.map { (endpoint, $0) }
        }
    }

    /// Decodes the output of ``json``; nil when a required value is missing or invalid.
    init?(_ json: JSON) {
        guard let issuer = json["issuer"]?.string, let clientID = json["client_id"]?.string, !clientID.isEmpty,
            let uris = json["redirect_uris"]?.strings, !uris.isEmpty, let date = json["registered_at"]?.number
        else { return nil }
        let redirectURIs = uris.compactMap { try? RedirectURI($0) }
        guard redirectURIs.count == uris.count else { return nil }
        let secret = json["client_secret"]?.string.flatMap { $0.isEmpty ? nil : Secret($0) }
        switch (json["token_endpoint_auth_method"]?.string, secret) {
        case ("client_secret_basic", let secret?): authentication = .clientSecretBasic(secret)
        case ("client_secret_post", let secret?): authentication = .clientSecretPost(secret)
        case ("none", _): authentication = .none
        default: return nil
        }
        self.issuer = issuer
        self.clientID = clientID
        self.redirectURIs = redirectURIs
        self.scopes = json["scopes"]?.strings ?? []
        self.registeredAt = Date(secondsSince1970: date)
        self.isRetired = json["retired"] == true
        self.secretExpiresAt = json["client_secret_expires_at"]?.number.map(Date.init(secondsSince1970:))
        self.management = json["registration_client_uri"]?.string.flatMap { try? Endpoint($0) }.flatMap { endpoint in
            json["registration_access_token"]?.string.map { (endpoint, Secret($0)) }
        }
    }

    /// The registration as a store record. It contains secrets.
    var json: JSON {
        var json: [String: JSON] = [
            "issuer": .string(issuer), "client_id": .string(clientID),
            "redirect_uris": .array(redirectURIs.map { .string($0.uri) }),
            "scopes": .array(scopes.map(JSON.string)),
            "token_endpoint_auth_method": .string(authentication.method.rawValue),
            "registered_at": .double(registeredAt.timeIntervalSince1970),
        ]
        if isRetired { json["retired"] = true }
        json["client_secret"] = authentication.secret.map { .string($0.exposed) }
        json["client_secret_expires_at"] = secretExpiresAt.map { .double($0.timeIntervalSince1970) }
        json["registration_client_uri"] = management.map { .string($0.endpoint.url) }
        json["registration_access_token"] = management.map { .string($0.token.exposed) }
        return .object(json)
    }

    /// Whether the registration can be used for a sign-in: the server has not rejected it, and the client secret, if it expires, is valid for at
    /// least another minute.
    func isUsable(at now: Date) -> Bool { !isRetired && secretExpiresAt.map { now + 60 < $0 } ?? true }

    /// Whether the client was registered within the last seconds, so that the server is assumed to recognize it. A time in the future is from before
    /// the clock was set back.
    func isNew(at now: Date, for seconds: TimeInterval) -> Bool { abs(now.timeIntervalSince(registeredAt)) <= seconds }
}

extension StoredRegistration {
    /// Deletes the registration at the authorization server (RFC 7592 section 2.3).
    /// - Throws: ``AuthError`` with `unsupported` when the server has no client configuration endpoint or responds with 404 or 405,
    ///   `provider_rejected` when it
    ///   rejects the request.
    /// - Returns: Whether the server has confirmed the deletion; false when it rejected the registration access token, for example after a deletion.
    @discardableResult
    public func unregister(
        transport: any HTTPTransport = SystemTransport(),
        host: HostServices = .system
    ) async throws -> Bool {
        guard let management else {
            throw AuthError(
                .unsupported,
                "\(issuer) returned no client configuration endpoint, so the registration cannot be deleted (RFC 7592)."
            )
        }
        let request = Self.deletion(at: management.endpoint, management.token, from: try? Endpoint(issuer))
        let response = try await ExchangeLimits.send(request, by: transport, clock: host.clock)
        try response.requireAvailable(from: management.endpoint.host, now: host.now())
        // Section 2.3: "If the server does not support the delete method, the server MUST respond with HTTP 405 (Not Supported)". Some servers
        // respond with 404 to every request to this URL.
        guard ![404, 405].contains(response.status) else {
            throw AuthError(
                .unsupported,
                "\(management.endpoint.host) does not support the deletion of registrations, or the registration no longer exists (status \(response.status)).",
                status: response.status
            )
        }
        // RFC 7592 section 2.3: "204 No Content". If the registration no longer exists, the response is 401.
        guard [200, 204, 401].contains(response.status) else {
            throw AuthError(
                .providerRejected,
                "\(issuer) did not delete the registration (status \(response.status)).",
                providerError: response.providerError,
                status: response.status
            )
        }
        return response.isSuccessful
    }

    /// The request that deletes a registration (RFC 7592 section 2.3).
    /// - Parameters:
    ///   - endpoint: The client configuration endpoint.
    ///   - home: The server. It chose the endpoint, so the endpoint must not lead further into a private network than the server does.
    static func deletion(at endpoint: Endpoint, _ token: Secret, from home: Endpoint?) -> TransportRequest {
        var endpoint = endpoint
        if let home { endpoint.limitReach(to: home.reach, unlessAt: home) }
        return TransportRequest(.delete, endpoint, headerFields: [.authorization: "Bearer \(token.exposed)"])
    }
}

extension StoredRegistration: CustomStringConvertible, NonReflectable {
    /// The `client_id` and the issuer.
    public var description: String { "\(clientID) at \(issuer)" }
}

extension RecordKey.Kind {
    /// A dynamic registration with an authorization server.
    package static let registration: Self = "registration"
    /// The stored state of a protected resource: its authorization server and its client.
    package static let protectedResource: Self = "protected_resource"
    /// A list of records of another kind.
    package static let list: Self = "list"
    /// The lock held during a sign-in, and the `SignInHistory`.
    package static let signInLock: Self = "sign_in_turn"
}

/// The dynamic registrations for the resources of one origin, by issuer and redirect URI. A resource of another origin that lists the
/// same server gets a separate client, to which the user has not given any consent.
///
/// MCP authorization, "Authorization Server Binding": registrations "MUST" be stored by issuer and "MUST NOT" be used with
/// another issuer.
public struct StoredRegistrations: Sendable {
    private let store: any TokenStore
    private let origin: String

    /// Opens the registrations of a store.
    /// - Parameters:
    ///   - store: The store.
    ///   - origin: The origin of the resources: `https://api.example.com`.
    public init(store: any TokenStore, for origin: String) {
        self.store = store
        self.origin = origin
    }

    /// The registration with an issuer for a redirect URI; nil when there is none.
    /// - Parameters:
    ///   - issuer: The issuer.
    ///   - redirectURI: The redirect URI as configured; default: a loopback redirect URI with a free port.
    ///   - clientID: The `client_id` of an older registration, whose tokens may still be in use; default: the current registration.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func registration(
        at issuer: String,
        for redirectURI: RedirectURI = .loopback,
        clientID: String? = nil
    ) async throws -> StoredRegistration? {
        guard let clientID else { return try await read(key(issuer, redirectURI)) }
        let present = try await readable(key(issuer, redirectURI))
        if let present, present.clientID.isIdentical(to: clientID) { return present }
        return try await read(key(issuer, redirectURI, clientID))
    }

    /// - Returns: The registration; nil if there is none, or it is damaged or cannot be decrypted, for example because the store's key was lost.
    func readable(at issuer: String, for redirectURI: RedirectURI) async throws -> StoredRegistration? {
        try await readable(key(issuer, redirectURI))
    }

    private func readable(_ key: RecordKey) async throws -> StoredRegistration? {
        do {
            return try await read(key)
        } catch let error as AuthError where error.code == .credentialUnusable {
            return nil
        }
    }

    private func read(_ key: RecordKey) async throws -> StoredRegistration? {
        try await store.bytes(for: key).flatMap { Self.parsed($0, key) }
    }

    /// - Returns: nil for a damaged record.
    private static func parsed(_ bytes: [UInt8], _ key: RecordKey) -> StoredRegistration? {
        guard let json = try? JSON(parsing: bytes), let stored = StoredRegistration(json),
            stored.issuer.isIdentical(to: key.issuer),
            key.clientID.isEmpty || stored.clientID.isIdentical(to: key.clientID)
        else { return nil }
        return stored
    }

    /// The current registration, and whether its record is damaged. A sign-in replaces a registration that is damaged or cannot be decrypted.
    package func current(
        at issuer: String,
        for redirectURI: RedirectURI
    ) async throws -> (registration: StoredRegistration?, isDamaged: Bool) {
        let key = self.key(issuer, redirectURI)
        guard let bytes = try await store.bytes(for: key) else { return (nil, false) }
        let stored = Self.parsed(bytes, key)
        return (stored, stored == nil)
    }

    /// Returns the stored registration if it is acceptable, otherwise a new registration from `register`. Calls are serialized across processes.
    /// - Parameters:
    ///   - isWanted: Returns whether the stored registration is acceptable.
    ///   - register: Registers a client.
    func registration(
        at issuer: String,
        for redirectURI: RedirectURI,
        where isWanted: (StoredRegistration) -> Bool,
        orElse register: nonisolated(nonsending) () async throws -> StoredRegistration
    ) async throws -> StoredRegistration {
        let key = self.key(issuer, redirectURI)
        return try await store.withLease(on: key) { lease in
            if let stored = try await readable(key), isWanted(stored) {
                // The list may have been damaged since the registration was stored.
                await KnownResources(store: store).add(issuer: issuer, origin: origin)
                return stored
            }
            let made = try await register()
            try await write(made, for: redirectURI, lease)
            return made
        }
    }

    /// Stores a registration, which replaces the current one. Resources with tokens from the replaced registration continue to use it.
    package func save(_ registration: StoredRegistration, for redirectURI: RedirectURI) async throws {
        try await store.withLease(on: key(registration.issuer, redirectURI)) { lease in
            try await write(registration, for: redirectURI, lease)
        }
    }

    private func write(_ registration: StoredRegistration, for redirectURI: RedirectURI, _ lease: Lease) async throws {
        let bytes = try registration.json.serialized()
        let own = key(registration.issuer, redirectURI, registration.clientID)
        try await store.withLease(on: own) { lease in try await store.write(bytes, under: lease) }
        try await store.write(bytes, under: lease)
        await KnownResources(store: store).add(issuer: registration.issuer, origin: origin)
    }

    /// Stops using a registration for sign-ins. It remains stored while resources have tokens from it.
    func retire(at issuer: String, for redirectURI: RedirectURI, clientID: String) async throws {
        let key = self.key(issuer, redirectURI)
        try await store.withLease(on: key) { lease in
            guard var stored = try await readable(key), stored.clientID.isIdentical(to: clientID), !stored.isRetired
            else { return }
            stored.isRetired = true
            try await write(stored, for: redirectURI, lease)
        }
    }

    /// Removes a registration from the store, even if it cannot be read. It continues to exist at the authorization server.
    /// - Parameters:
    ///   - issuer: The issuer.
    ///   - redirectURI: The redirect URI as configured; default: a loopback redirect URI with a free port.
    ///   - clientID: The `client_id` of the registration; default: the current registration's.
    /// - Returns: The removed registration.
    /// - Throws: ``AuthError`` with `storage_failed`.
    @discardableResult
    public func remove(
        at issuer: String,
        for redirectURI: RedirectURI = .loopback,
        clientID: String? = nil
    ) async throws -> StoredRegistration? {
        let key = self.key(issuer, redirectURI)
        return try await store.withLease(on: key) { lease in
            let stored: StoredRegistration?
            do {
                stored = try await registration(at: issuer, for: redirectURI, clientID: clientID)
            } catch let error as AuthError where [.credentialUnusable, .storageFailed].contains(error.code) {
                stored = nil
            }
            if let removed = clientID ?? stored?.clientID {
                let own = self.key(issuer, redirectURI, removed)
                try await store.withLease(on: own) { lease in try await store.write(nil, under: lease) }
            }
            // A current registration that cannot be read is removed only if no client ID is given.
            let present = try await clientID == nil ? nil : readable(key)
            if clientID == nil || present?.clientID == clientID {
                try await store.write(nil, under: lease)
                await KnownResources(store: store).remove(issuer: issuer, origin: origin)
            }
            return stored
        }
    }

    private func key(_ issuer: String, _ redirectURI: RedirectURI, _ clientID: String = "") -> RecordKey {
        RecordKey(name: "\(redirectURI.uri) \(origin)", issuer: issuer, clientID: clientID, kind: .registration)
    }
}
