import AuthFlowOAuth
import AuthFlowSignIn
import AuthFlowStorage
import AuthFlowTransport
import Synchronization

extension ResourceClient {
    /// The client of the resource's authorization server, with the credential for the resource; nil when there is no sign-in whose client still exists.
    func client() async throws -> AuthClient? { try await knownClient()?.client }

    /// The sign-in and its client; nil when there is no sign-in whose client still exists. If this process has removed the client's registration, another process may
    /// have signed in with a new registration, so the record is read again.
    func knownClient() async throws -> (known: KnownResource, client: AuthClient)? {
        await finishUnsavedSignIns()
        guard let known = try await known() else { return nil }
        if let client = try await client(of: known) { return (known, client) }
        guard let newer = try await self.known(reading: true), newer != known,
            let client = try await client(of: newer)
        else { return nil }
        return (newer, client)
    }

    func client(of known: KnownResource) async throws -> AuthClient? {
        let key = cacheKey(known)
        if let made = state.withLock({ $0.client }), made.known == key { return made.client }
        guard let client = try await makeClient(known) else { return nil }
        return state.withLock { state in
            if let made = state.client, made.known == key { return made.client }
            state.client = (key, client)
            state.add(client)
            return client
        }
    }

    /// The key that distinguishes clients. For a user's sign-in, the scopes and the authentication are part of the request, not of
    /// the key, because changing them must not discard the tokens that a client has cached.
    func cacheKey(_ known: KnownResource) -> KnownResource {
        var key = known
        key.rejectedScopes = []
        if !isWithoutUser { (key.scopes, key.authentication) = ([], RequiredAuthentication()) }
        return key
    }

    /// - Parameter registration: The registration, if it is not stored yet.
    func makeClient(_ known: KnownResource, _ registration: StoredRegistration? = nil) async throws -> AuthClient? {
        let base: ClientRegistration
        switch known.identification {
        case .registered:
            // If the configuration has changed since then, it may name another client, to which these tokens do not
            // belong.
            guard let registered, registered.server.issuer.isIdentical(to: known.issuer),
                registered.registration.clientID.isIdentical(to: known.clientID)
            else { return nil }
            base = registered.registration
        case .metadataDocument:
            guard registered == nil, options.clientMetadataDocument?.isIdentical(to: known.clientID) == true else {
                return nil
            }
            base = try ClientRegistration(clientID: known.clientID) { $0.redirectURIs = options.redirectURIs }
        case .dynamic:
            var stored = registration
            if stored == nil {
                stored = try await registrations.registration(
                    at: known.issuer,
                    for: redirectURI,
                    clientID: known.clientID
                )
            }
            guard registered == nil, let stored else { return nil }
            base = try ClientRegistration(clientID: stored.clientID) {
                $0.redirectURIs = stored.redirectURIs
                $0.authentication = stored.authentication
            }
        }
        let wanted = try base.changing {
            $0.resources = [known.resource]
            $0.scopes = known.scopes
            // The configuration may have changed since the sign-in.
            $0.usesDPoP = known.usesDPoP || options.usesDPoP == true || base.usesDPoP
            $0.requiresAdvertisedPKCE = true
        }
        return authClient(wanted, known)
    }

    /// - Parameter methods: The sign-in methods; default: this client's.
    func authClient(
        _ registration: ClientRegistration,
        _ known: KnownResource,
        methods: SignInMethods? = nil
    ) -> AuthClient {
        var clientOptions = AuthClient.Options()
        clientOptions.name = options.name
        clientOptions.resource = known.resource
        clientOptions.timeout = options.timeout
        clientOptions.freshnessMargin = options.freshnessMargin
        return AuthClient(
            client: OAuthClient(server: server(known.issuer, isAssumed: known.isAssumed), registration: registration),
            methods: methods ?? self.methods,
            store: store,
            options: clientOptions,
            observer: observer,
            machineTokenSharing: .byResource
        )
    }

    /// The redirect URI under which registrations are stored.
    var redirectURI: RedirectURI { options.redirectURIs.first ?? .loopback }

    /// The maximum number of shared authorization servers. Each retains its metadata, and the resource chooses the issuers.
    private static let maximumServers = 8

    /// The authorization server with the given issuer, shared by all callers.
    /// - Parameter isAssumed: Whether the issuer is only assumed to be an authorization server.
    func server(_ issuer: String, isAssumed: Bool = false) -> AuthorizationServer {
        if let registered, registered.server.issuer.isIdentical(to: issuer) { return registered.server }
        return state.withLock { state in
            let name = isAssumed ? "assumed \(issuer)" : issuer
            if let server = state.servers[name] { return server }
            if state.servers.count >= Self.maximumServers { state.servers = [:] }
            let isListed = options.trusts(issuer)
            let server = AuthorizationServer(
                ResourceAuthorizationServer(issuer: issuer, isAssumed: isAssumed, isListed: isListed),
                transport: isListed ? openTransport : transport,
                host: host
            )
            state.servers[name] = server
            return server
        }
    }
}
