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
    let openTransport: any HTTPTransport
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

    /// Removes the record from the list of records. A sign-in in another process may have started after the record was emptied, and have found it in
    /// the list; the record is then added again.
    func removeFromList() async {
        await KnownResources(store: store).remove(record: recordName, isRegistered: registered != nil)
        if let record = try? await record(), !record.all.isEmpty { await list() }
    }

    var recordKey: RecordKey { Self.recordKey(recordName) }

    /// The key of the record with the given name; the record may be about another client's sign-in.
    static func recordKey(_ name: String) -> RecordKey {
        RecordKey(name: name, issuer: "", clientID: "", kind: .protectedResource)
    }

    /// The name of the records about this client's resource.
    var recordName: String { options.name == "default" ? address.url : "\(options.name) \(address.url)" }

}
