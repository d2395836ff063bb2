import AuthFlowCredentials
import AuthFlowEssentials
public import AuthFlowHTTP
import AuthFlowJSON
public import AuthFlowOAuth
public import AuthFlowSignIn
public import AuthFlowStorage
public import AuthFlowTransport
import HTTPTypes
import Synchronization

/// A client of a protected resource of which nothing but the address is known: an API, or an MCP server.
///
/// The resource says which authorization server it trusts (RFC 9728), the client identifies itself there, asks for a token for this
/// resource alone (RFC 8707), and asks for more when the resource demands it.
///
/// ```swift
/// let client = try ResourceClient("https://api.example.com/mcp", methods: [.userAgent(userAgent)], store: store)
/// let response = try await client.send(TransportRequest(.get, client.address))
/// ```
///
/// Any number of tasks and processes may use one resource with one store: a token is refreshed once, and a user is shown one page,
/// for all who wait.
public final class ResourceClient: Sendable {
    /// The address of the resource.
    public let address: Endpoint

    /// The options that it was created with.
    public let options: Options

    let methods: SignInMethods
    let registered: OAuthClient?
    let store: any TokenStore
    let registrations: KeptRegistrations
    let transport: ReachLimitedTransport
    /// The transport for servers that the user has named.
    private let openTransport: any HTTPTransport
    let host: HostServices
    let observer: (@Sendable (FlowEvent) -> Void)?
    let nonces = DPoPNonces()
    let state = Mutex(State())

    /// The options of a ``ResourceClient``.
    public struct Options: Sendable {
        /// The name that tells apart what several users of one store keep; default: `default`.
        public var name = "default"

        /// `client_name`, which authorization servers show to the user when the client registers itself; default: `AuthFlow`.
        public var clientName = "AuthFlow"

        /// The address of the client's own description, which is its `client_id` where a server supports that; default: none, and
        /// the client registers itself.
        public var clientMetadataDocument: String?

        /// Where authorization servers send the user back to; default: a loopback address with a free port, of which a few are
        /// registered.
        public var redirectURIs = [RedirectURI.loopback]

        /// Scopes to ask for beside those that the resource demands; default: none.
        public var scopes: [String] = []

        /// The resource identifier to ask tokens for, in place of the address where the resource has no metadata; default: the
        /// address.
        public var resource: String?

        /// Whether tokens are bound to a key (RFC 9449); default, nil: when both the resource and its authorization server offer it.
        public var usesDPoP: Bool?

        /// Whether a request may begin a sign-in; default: yes. Without it, ``ResourceClient/signIn(to:)`` alone does.
        public var signsInOnDemand = true

        /// How long a sign-in that a request begins is not tried again after one has failed, by any process; default: not at all.
        public var restAfterFailure = Duration.zero

        /// How long a sign-in may take, the user's part included; default: five minutes.
        public var timeout = Duration.seconds(300)

        /// How long before its expiry an access token counts as expired; default: one minute.
        public var freshnessMargin = Duration.seconds(60)

        /// Whether a resource without metadata is taken to have its authorization server at its own origin, as MCP's revision
        /// 2025-03-26 has it; default: no, because nothing then says whose word it is, nor that codes are protected.
        public var assumesAuthorizationServerAtOrigin = false

        /// The issuers whose metadata is trusted although their endpoints are at other origins and their responses do not name their
        /// issuer (RFC 9207); default: none, because such a server cannot be told from one that misuses another's endpoints.
        public var trustedIssuers: [String] = []

        /// The maximum number of sign-in pages that requests open in one hour, in all processes; default: 6. The user's own sign-in starts
        /// the count again.
        public var pagesPerHour = 6

        /// Creates options with the defaults for everything.
        public init() {}

        func trusts(_ issuer: String) -> Bool { trustedIssuers.contains { $0.isIdentical(to: issuer) } }
    }

    struct State {
        var known: KnownResource?
        var isLoaded = false
        var client: (known: KnownResource, client: AuthClient)?
        /// Every client that may have work under way.
        var clients: [AuthClient] = []
        var isStopping = false
        var servers: [String: AuthorizationServer] = [:]
        /// The sign-in that a request has begun, for all of this process.
        var signIn: SharedTask<Void>?
        /// The scopes that a new token did not help with.
        var fruitless: Set<Set<String>> = []
        /// Why the last session ended.
        var end: AuthError?
        /// Why the last sign-in could not be stored.
        var storageError: AuthError?
    }

    /// Creates a client.
    /// - Parameters:
    ///   - address: The address of the resource: `https`, or `http` on this machine's loopback.
    ///   - methods: The methods of signing in, best first, as for ``AuthClient``.
    ///   - registered: A client that was registered beforehand with the resource's authorization server; default: none, and the
    ///     client identifies itself. A resource that names other servers is then refused.
    ///   - store: Keeps credentials, registrations and what is known about the resource; default: memory.
    ///   - options: Default: the defaults of ``Options``.
    ///   - transport: Sends every request; default: the system's.
    ///   - host: Time, randomness and environment; default: the system's.
    ///   - observer: Receives every event of every flow, in order. It must not block.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the address cannot be used.
    public convenience init(
        _ address: String,
        methods: [SignInMethod],
        registered: OAuthClient? = nil,
        store: any TokenStore = MemoryTokenStore(),
        options: Options = Options(),
        transport: any HTTPTransport = SystemTransport(),
        host: HostServices = .system,
        observer: (@Sendable (FlowEvent) -> Void)? = nil
    ) throws {
        try self.init(
            address,
            methods: SignInMethods(methods: methods),
            registered: registered,
            store: store,
            options: options,
            transport: transport,
            host: host,
            observer: observer
        )
    }

    package init(
        _ address: String,
        methods: SignInMethods,
        registered: OAuthClient?,
        store: any TokenStore,
        options: Options,
        transport: any HTTPTransport,
        host: HostServices,
        observer: (@Sendable (FlowEvent) -> Void)?
    ) throws {
        self.address = try Endpoint(address, name: "address of the resource")
        if let document = options.clientMetadataDocument { try ClientMetadataDocument.checkAddress(document) }
        if let resource = options.resource { _ = try Endpoint(resource, name: "resource") }
        guard !options.redirectURIs.isEmpty else {
            throw AuthError(.invalidConfiguration, "The list of redirect URIs is empty.")
        }
        self.methods = methods
        self.registered = registered
        self.store = store
        self.registrations = KeptRegistrations(store: store, for: self.address.origin)
        self.options = options
        self.transport = ReachLimitedTransport(transport, home: self.address)
        self.openTransport = transport
        self.host = host
        self.observer = observer
    }

    // MARK: What is known

    /// What is known from the last sign-in, here or in another process; nil for nothing.
    func known(reading mustRead: Bool = false) async throws -> KnownResource? {
        if !mustRead, let known = state.withLock({ $0.isLoaded ? $0.known : nil }) { return known }
        let bytes = try await store.bytes(for: recordKey)
        let known = bytes.flatMap { try? JSON(parsing: $0) }.flatMap(KnownResource.init)
        state.withLock { ($0.known, $0.isLoaded) = (known, true) }
        return known
    }

    func keep(_ known: KnownResource?) async throws {
        let bytes = try known?.json.serialized()
        try await store.withLease(on: recordKey) { lease in try await store.write(bytes, under: lease) }
        state.withLock { ($0.known, $0.isLoaded) = (known, true) }
        let list = KnownResources(store: store)
        if known == nil { await list.remove(address: address.url) } else { await list.add(address: address.url) }
    }

    private var recordKey: RecordKey {
        RecordKey(name: recordName, issuer: "", clientID: "", kind: .protectedResource)
    }

    /// The name of the records about this resource.
    var recordName: String { options.name == "default" ? address.url : "\(options.name) \(address.url)" }

    /// The client of the resource's authorization server, with the credential for the resource; nil when nothing is known yet.
    func client() async throws -> AuthClient? {
        guard let known = try await known() else { return nil }
        return try await client(of: known)
    }

    func client(of known: KnownResource) async throws -> AuthClient? {
        let key = cacheKey(known)
        if let made = state.withLock({ $0.client }), made.known == key { return made.client }
        guard let client = try await makeClient(known) else { return nil }
        return state.withLock { state in
            if let made = state.client, made.known == key { return made.client }
            state.client = (key, client)
            state.clients = state.clients.filter(\.hasUnfinishedWork) + [client]
            if state.isStopping { client.stopSending() }
            return client
        }
    }

    /// What tells clients apart. The scopes of a user's sign-in are those of its request, and the tokens that one client keeps must not
    /// be forgotten for them.
    func cacheKey(_ known: KnownResource) -> KnownResource {
        var key = known
        if methods.withoutUser == nil { key.scopes = [] }
        return key
    }

    /// - Parameter registration: The registration, where it is not kept yet.
    func makeClient(_ known: KnownResource, _ registration: KeptRegistration? = nil) async throws -> AuthClient? {
        let base: ClientRegistration
        switch known.identification {
        case .registered:
            // A configuration that was changed since names another client, and its tokens are others.
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
            var kept = registration
            if kept == nil {
                kept = try await registrations.registration(
                    at: known.issuer,
                    for: redirectURI,
                    clientID: known.clientID
                )
            }
            guard registered == nil, let kept else { return nil }
            base = try ClientRegistration(clientID: kept.clientID) {
                $0.redirectURIs = kept.redirectURIs
                $0.authentication = kept.authentication
            }
        }
        let wanted = try base.changing {
            $0.resources = [known.resource]
            $0.scopes = known.scopes
            $0.usesDPoP = known.usesDPoP
            $0.requiresAnnouncedPKCE = true
        }
        var clientOptions = AuthClient.Options()
        clientOptions.name = options.name
        clientOptions.resource = known.resource
        clientOptions.timeout = options.timeout
        clientOptions.freshnessMargin = options.freshnessMargin
        return AuthClient(
            client: OAuthClient(server: server(known.issuer, isAssumed: known.isAssumed), registration: wanted),
            methods: methods,
            store: store,
            options: clientOptions,
            observer: observer
        )
    }

    /// The redirect URI that registrations are kept by.
    var redirectURI: RedirectURI { options.redirectURIs.first ?? .loopback }

    /// The server of an issuer, shared by all who ask for it.
    /// - Parameter isAssumed: Whether nothing says that it is one.
    func server(_ issuer: String, isAssumed: Bool = false) -> AuthorizationServer {
        if let registered, registered.server.issuer.isIdentical(to: issuer) { return registered.server }
        return state.withLock { state in
            let name = isAssumed ? "assumed \(issuer)" : issuer
            let server =
                state.servers[name]
                ?? AuthorizationServer(
                    ResourceAuthorizationServer(
                        issuer: issuer,
                        isAssumed: isAssumed,
                        isListed: options.trusts(issuer)
                    ),
                    transport: options.trusts(issuer) ? openTransport : transport,
                    host: host
                )
            state.servers[name] = server
            return server
        }
    }

    // MARK: State for users

    /// What a user may know about a sign-in at a resource.
    public struct Status: Sendable {
        /// The resource identifier that the token is for.
        public let resource: String
        /// The authorization server.
        public let issuer: String
        /// The client there.
        public let clientID: String
        /// How the client came by its identifier.
        public let identification: ClientIdentification
        /// The scopes that were asked for. ``credential`` has those that were granted.
        public let requestedScopes: [String]
        /// The credential; nil when the user has signed out, or the session has ended.
        public let credential: Credential?
    }

    /// What is known from the last sign-in. Sends no request.
    /// - Returns: nil when no user has signed in.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func status() async throws -> Status? {
        guard let known = try await known(reading: true), let client = try await client(of: known) else { return nil }
        return Status(
            resource: known.resource,
            issuer: known.issuer,
            clientID: known.clientID,
            identification: known.identification,
            requestedScopes: known.scopes,
            credential: try await client.credential()
        )
    }

    /// The authorization server that the user signed in with last; nil when no user did.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func issuer() async throws -> String? { try await known(reading: true)?.issuer }

    /// A credential whose access token is fresh. No user is asked for anything.
    /// - Parameter duration: How long the token should last; default: the freshness margin.
    /// - Throws: ``AuthError`` with `login_required` when no user is signed in or the session has ended; what refreshing throws.
    public func freshCredential(lasting duration: Duration = .zero) async throws -> Credential {
        if let client = try await client() { return try await client.freshCredential(lasting: duration) }
        // The client itself needs no page, and no permission to show one.
        if methods.withoutUser != nil { return try await signIn() }
        throw loginRequired(because: nil)
    }

    func loginRequired(because reason: AuthError?) -> AuthError {
        AuthError(
            .loginRequired,
            reason?.message ?? "No user is signed in to \(address).",
            providerError: reason?.providerError,
            underlyingError: reason
        )
    }

    /// Signs out: forgets the tokens on this machine, and revokes them at the authorization server where it can. The registration is
    /// kept.
    /// - Throws: As ``AuthClient/signOut(revokingTokens:endingSession:)``.
    public func signOut(revokingTokens: Bool = true) async throws -> SignOut {
        let known = try await known(reading: true)
        guard let known else { return SignOut(credential: nil, revocation: .nothingToDo, endSession: .nothingToDo) }
        let signOut = try await client(of: known)?.signOut(revokingTokens: revokingTokens)
        try await keep(nil)
        return signOut ?? SignOut(credential: nil, revocation: .nothingToDo, endSession: .nothingToDo)
    }

    /// Forgets the tokens on this machine, also where they cannot be read any more. No request is sent.
    /// - Returns: Whether there was anything.
    /// - Throws: ``AuthError`` with `storage_failed`.
    @discardableResult
    public func signOutLocally() async throws -> Bool {
        guard let known = try await known(reading: true) else { return false }
        let hadTokens = try await client(of: known)?.signOutLocally() ?? false
        try await keep(nil)
        return hadTokens
    }

    /// Whether something is under way that must not be lost: what ``drain(within:)`` waits for.
    public var hasUnfinishedWork: Bool { state.withLock { $0.clients }.contains(where: \.hasUnfinishedWork) }

    /// As ``AuthClient/stopSending()``.
    package func stopSending() {
        let clients = state.withLock { state in
            state.isStopping = true
            return state.clients
        }
        for client in clients { client.stopSending() }
    }

    /// As ``AuthClient/hasSent``.
    package var hasSent: Bool { state.withLock { $0.clients }.contains(where: \.hasSent) }

    /// As ``AuthClient/drain(within:)``.
    public func drain(within patience: Duration = .seconds(3)) async -> Bool {
        var isDone = true
        for client in state.withLock({ $0.clients }) where await !client.drain(within: patience) { isDone = false }
        return isDone
    }
}
