import AuthFlowCredentials
import AuthFlowEssentials
public import AuthFlowOAuth
public import AuthFlowSignIn
public import AuthFlowStorage
public import AuthFlowTransport
import Synchronization

/// A client of a protected resource that is known only by its URL: an API, or an MCP server.
///
/// The resource names its authorization server (RFC 9728). The client identifies itself there, requests a token for this resource only
/// (RFC 8707), and requests more scopes when the resource requires them.
///
/// ```swift
/// let client = try ResourceClient("https://api.example.com/mcp", methods: [.userAgent(userAgent)], store: store)
/// let response = try await client.send(TransportRequest(.get, client.address))
/// ```
///
/// Any number of tasks and processes may use one resource with one store: a token is refreshed once, and one page is shown to the user,
/// for all waiting requests.
public final class ResourceClient: Sendable {
    /// The URL of the resource.
    public let address: Endpoint

    /// The options that the client was created with.
    package let options: Options

    package let methods: SignInMethods
    let registered: OAuthClient?
    let store: any TokenStore
    let registrations: StoredRegistrations
    let transport: ReachLimitedTransport
    /// The transport for servers that the user trusts explicitly.
    private let openTransport: any HTTPTransport
    let host: HostServices
    let observer: (@Sendable (FlowEvent) -> Void)?
    let nonces = DPoPNonces()
    let state = Mutex(State())

    /// The options of a ``ResourceClient``.
    public struct Options: Sendable {
        /// The name that separates the records of several clients in one store; default: `default`.
        public var name = "default"

        /// `client_name` for dynamic client registration, which authorization servers may show to the user; default: `AuthFlow`.
        public var clientName = "AuthFlow"

        /// The URL of the client ID metadata document, which is the `client_id` at servers that support such documents; default: none;
        /// the client then uses dynamic registration.
        public var clientMetadataDocument: String?

        /// The redirect URIs; default: a loopback redirect URI with any free port. For a loopback redirect URI without a port, the client
        /// registers a few specific ports, because many servers compare the port.
        public var redirectURIs = [RedirectURI.loopback]

        /// Scopes to request in addition to those that the resource requires; default: none.
        public var scopes: [String] = []

        /// The authentication context classes that a sign-in requests (RFC 9470); default: none. If a request starts the sign-in, those in its
        /// challenge take precedence.
        public var acrValues: [String] = []

        /// The maximum age of the user's authentication that a sign-in requests (RFC 9470); default: none. If a request starts the sign-in, that in
        /// its challenge takes precedence.
        public var maxAge: Duration?

        /// The acceptable values of `max_age`, in seconds.
        package static let maxAges = 0...31_536_000

        /// The resource identifier in token requests if the resource has no metadata; default: the URL of the resource.
        public var resource: String?

        /// Whether tokens are DPoP-bound (RFC 9449); nil (the default) to bind them if the resource requires it, or if both the resource and its
        /// authorization server support it.
        public var usesDPoP: Bool?

        /// Whether a request may start a sign-in of a user; default: true. If false, only ``ResourceClient/signIn(to:)`` does.
        public var signsInOnDemand = true

        /// The cooldown after a failed sign-in that showed a page, during which requests from any process do not start another sign-in; default: none.
        public var cooldownAfterFailure = Duration.zero

        /// The timeout of a sign-in, including the user's interaction; default: five minutes.
        public var timeout = Duration.seconds(300)

        /// The remaining lifetime below which an access token is treated as expired; default: one minute.
        public var freshnessMargin = Duration.seconds(60)

        /// Whether a resource without metadata is assumed to have its authorization server at its own origin, as in MCP revision
        /// 2025-03-26; default: false, because neither its operator nor its PKCE support can then be verified.
        public var assumesAuthorizationServerAtOrigin = false

        /// The issuers whose metadata is trusted although their endpoints are at other origins and their responses contain no
        /// `iss` (RFC 9207); default: none, because such a server cannot be distinguished from a server that misuses another server's endpoints.
        /// Such an issuer may be at a private address even if the resource is public.
        public var trustedIssuers: [String] = []

        /// The maximum number of sign-in pages that requests open in one hour, across all processes; default: 6. A successful sign-in that the user starts resets
        /// the count.
        public var pagesPerHour = 6

        /// Creates options with the default values.
        public init() {}

        func trusts(_ issuer: String) -> Bool { trustedIssuers.contains { IssuerSpelling.areEqual($0, issuer) } }
    }

    struct State {
        var known: KnownResource?
        var isLoaded = false
        var client: (known: KnownResource, client: AuthClient)?
        /// Every client that may have operations in progress, and the clients that were used last, which may start another operation.
        private(set) var clients: [AuthClient] = []
        var isStopping = false
        var pendingSignIns: [PendingSignIn] = []
        var servers: [String: AuthorizationServer] = [:]
        /// The sign-in that a request has started, shared by all requests of this process.
        var signIn: SharedTask<Void>?
        /// The sets of scopes for which even a new token was rejected, and the time of each rejection.
        var rejectedScopeSets: [Set<String>: Date] = [:]
        /// The reason why the last sign-in could not be stored.
        var storageError: AuthError?

        /// Adds a client whose operations must complete before the process exits.
        mutating func add(_ client: AuthClient) {
            if isStopping { client.stopSending() }
            clients = clients.filter { $0 !== client } + [client]
            guard clients.count > 16 else { return }
            let inUse = [self.client?.client].compactMap(\.self) + pendingSignIns.map(\.client)
            let oldest = clients.firstIndex { client in
                !client.hasUnfinishedWork && !inUse.contains { $0 === client }
            }
            if let oldest { clients.remove(at: oldest) }
        }

        /// The sign-ins that have ended, whose outcomes can be recorded. When the process is about to exit, all sign-ins are treated as ended.
        var endedSignIns: [PendingSignIn] { pendingSignIns.filter { $0.hasEnded || isStopping } }
    }

    /// Creates a client.
    /// - Parameters:
    ///   - address: The URL of the resource: `https`, or `http` for loopback.
    ///   - methods: The sign-in methods, in order of preference, as for ``AuthClient``.
    ///   - registered: A client that is preregistered with the resource's authorization server; default: none; the client
    ///     then uses a metadata document or dynamic registration. If set, a resource whose metadata does not name that server is rejected.
    ///   - store: Stores the credentials, the registrations and the state of the resource; default: memory.
    ///   - options: The options; default: the defaults of ``Options``.
    ///   - transport: Sends every request; default: the system's.
    ///   - host: The clock, random number generator and environment; default: the system's.
    ///   - observer: Receives every event of every flow, in order. It must not block.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the URL or an option cannot be used.
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
        self.address = try Endpoint(address, name: "URL of the resource")
        if let document = options.clientMetadataDocument { try ClientMetadataDocument.checkURL(document) }
        if let resource = options.resource { _ = try Endpoint(resource, name: "resource") }
        guard !options.redirectURIs.isEmpty else {
            throw AuthError(.invalidConfiguration, "The list of redirect URIs is empty.")
        }
        self.methods = methods
        self.registered = registered
        self.store = store
        self.registrations = StoredRegistrations(store: store, for: self.address.origin)
        self.options = options
        self.transport = ReachLimitedTransport(transport, home: self.address)
        self.openTransport = transport
        self.host = host
        self.observer = observer
    }

    /// Whether tokens are obtained without a user.
    package var isWithoutUser: Bool { methods.withoutUser != nil }

    // MARK: Stored state

    /// The stored state from the last sign-in, here or in another process; nil when there is none.
    func known(reading mustRead: Bool = false) async throws -> KnownResource? {
        if !mustRead, let known = state.withLock({ $0.isLoaded ? $0.known : nil }) { return known }
        let known = try await record().current
        state.withLock { ($0.known, $0.isLoaded) = (known, true) }
        return known
    }

    func record() async throws -> ResourceRecord { try ResourceRecord(try await store.bytes(for: recordKey)) }

    /// - Returns: The changed record.
    @discardableResult
    func changeRecord(_ body: (inout ResourceRecord) async throws -> Void) async throws -> ResourceRecord {
        try await store.withLease(on: recordKey) { lease in
            var record = try ResourceRecord(try await store.bytes(under: lease))
            try await body(&record)
            try await store.write(try record.bytes, under: lease)
            return record
        }
    }

    /// - Parameters:
    ///   - known: The sign-in that has succeeded.
    ///   - id: The identifier of the unfinished sign-in; nil for none.
    ///   - isStored: Whether the tokens are stored.
    func save(_ known: KnownResource, finishing id: String? = nil, isStored: Bool = true) async throws {
        try await changeRecord { $0.use(known, finishing: id, isStored: isStored) }
        state.withLock { ($0.known, $0.isLoaded) = (known, true) }
        await list()
    }

    /// Adds the record to the list of records.
    package func list() async {
        await KnownResources(store: store).add(record: recordName, isRegistered: registered != nil)
    }

    /// Removes the record from the list of records.
    func removeFromList() async {
        await KnownResources(store: store).remove(record: recordName, isRegistered: registered != nil)
    }

    var recordKey: RecordKey { Self.recordKey(recordName) }

    /// The key of the record with the given name; the record may be about another client's sign-in.
    static func recordKey(_ name: String) -> RecordKey {
        RecordKey(name: name, issuer: "", clientID: "", kind: .protectedResource)
    }

    /// The name of the records about this client's resource.
    var recordName: String { options.name == "default" ? address.url : "\(options.name) \(address.url)" }

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

    // MARK: State for users

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

    /// Whether an operation that must complete is in progress: ``drain(within:)`` waits for such operations.
    package var hasUnfinishedWork: Bool { state.withLock { $0.clients }.contains(where: \.hasUnfinishedWork) }

    /// See ``AuthClient/stopSending()``.
    package func stopSending() {
        let clients = state.withLock { state in
            state.isStopping = true
            return state.clients
        }
        for client in clients { client.stopSending() }
    }

    /// See ``AuthClient/hasPendingResponse``.
    package var hasPendingResponse: Bool { state.withLock { $0.clients }.contains(where: \.hasPendingResponse) }

    /// See ``AuthClient/drain(within:)``.
    public func drain(within waitTimeout: Duration = .seconds(3)) async -> Bool {
        let elapsed = host.clock.stopwatch()
        let clients = state.withLock { $0.clients }
        // Run concurrently, so that a slow server of one client does not use up the time in which the tokens of the others are stored.
        let isDone = await clients.concurrentMap { await $0.drain(within: waitTimeout) }.allSatisfy(\.self)
        guard isDone, state.withLock({ !$0.pendingSignIns.isEmpty }) else { return isDone }
        try? await withDeadline(max(.zero, waitTimeout - elapsed()), clock: host.clock) {
            AuthError(.timedOut, "The outcome of the sign-in was not recorded in time.")
        } _: { [self] in
            await finishPendingSignIns()
        }
        return state.withLock(\.endedSignIns.isEmpty)
    }
}

/// A sign-in whose outcome the resource's record does not contain yet. It is recorded by the sign-in itself, or after an interruption.
struct PendingSignIn: Sendable {
    let unfinished: ResourceRecord.Unfinished
    let client: AuthClient
    /// The registration to store if the sign-in has succeeded; nil for a registration that is stored already.
    var registration: StoredRegistration?
    /// The record at the start of the sign-in.
    let previous: ResourceRecord
    var hasEnded = false
    /// Whether the sign-in has succeeded and is recorded, but its tokens are not stored yet.
    var isUnsaved = false
}

extension ResourceClient {
    /// Records the sign-ins whose tokens have been stored since.
    func finishUnsavedSignIns() async {
        let isPossible = state.withLock { state in
            state.pendingSignIns.contains { $0.isUnsaved && !$0.client.hasUnfinishedWork }
        }
        if isPossible { await finishPendingSignIns() }
    }

    /// Records the outcomes of sign-ins that have ended. A code exchange that was cancelled is completed first, and its tokens are stored.
    func finishPendingSignIns() async {
        let (all, ended) = state.withLock { ($0.pendingSignIns, Set($0.endedSignIns.map(\.unfinished.id))) }
        for pending in all where !pending.client.hasUnfinishedWork {
            do {
                let unfinished = pending.unfinished
                let stored = try await pending.client.credential()
                let hasTokens = stored.map { $0.signedInAt >= unfinished.start } ?? false
                guard hasTokens || ended.contains(unfinished.id) else { continue }
                if hasTokens, let registration = pending.registration {
                    try await registrations.save(registration, for: redirectURI)
                }
                let record = try await changeRecord {
                    if pending.isUnsaved, stored == nil {
                        $0.discard(unfinished.id)
                    } else {
                        $0.finish(unfinished, hasTokens: hasTokens, replacing: pending.previous)
                    }
                }
                state.withLock { state in
                    state.pendingSignIns.removeAll { $0.unfinished.id == unfinished.id }
                    if pending.isUnsaved { state.storageError = nil }
                    if hasTokens { (state.known, state.isLoaded) = (record.current, true) }
                }
            } catch {
                // The sign-in remains unfinished, so that a sign-out finds its tokens.
            }
        }
    }
}
