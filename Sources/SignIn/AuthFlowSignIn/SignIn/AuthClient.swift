public import AuthFlowCredentials
public import AuthFlowOAuth
public import AuthFlowStorage
import Crypto
import Synchronization

/// Signs users in with one provider and manages their credentials: the part of AuthFlow that an app or a tool uses.
///
/// Created from a configuration file:
///
/// ```swift
/// let file = try ConfigurationFile(path: "authflow.json")
/// let client = try AuthClient(profile: try file.profile(), providers: [.oidc], userAgents: [.loopback])
/// let user = try await client.signIn().identity
/// ```
///
/// or from values, with ``init(client:methods:store:options:observer:)``. Cancelling the task that signs in cancels the
/// sign-in, unless the redirect has already arrived, and releases its resources.
public final class AuthClient: Sendable {
    /// The client of the authorization server.
    public let client: OAuthClient

    /// The options of this client.
    package let options: Options

    package let methods: SignInMethods
    package let credentials: CredentialManager
    let pendingRedirects = PendingRedirects()
    /// The credential of this client, unless it depends on another sign-in: see ``current()``.
    private let fixed: ManagedCredential
    /// The credential, available without waiting; nil if it depends on another sign-in.
    let alwaysCurrent: ManagedCredential?
    private let recordName: String
    /// The credentials for specific owners and resources.
    private let others = Mutex<[RecordKey: ManagedCredential]>([:])
    package let observer: (@Sendable (FlowEvent) -> Void)?

    /// The options of an ``AuthClient``.
    public struct Options: Sendable {
        /// The name that separates the records of several clients in one store; default: `default`.
        public var name = "default"

        /// The name for messages; nil for the default name, which the user has not chosen.
        fileprivate var label: String? { name == Options().name ? nil : name }

        /// The account to use when several are signed in: its subject, or its issuer and subject, separated by a space, which is required for
        /// a server with several tenants; default: the account that signed in or was selected
        /// last. Sign-ins of other users are rejected.
        public var account: String?

        /// The timeout of a sign-in until the redirect arrives, including the user's interaction; default: five minutes. A device flow may take as
        /// long as its code is valid.
        public var timeout = Duration.seconds(300)

        /// The remaining lifetime below which an access token is treated as expired; default: one minute.
        public var freshnessMargin = Duration.seconds(60)

        /// The resource for which the credential's tokens are issued (RFC 8707). Each resource has a separate record, and every refresh request
        /// specifies the resource. Default: the registration's resource; the record's key then contains no resource.
        public var resource: String?

        /// The origins of the APIs to which ``AuthClient/send(_:)`` may send the access token; default: none.
        public var apiOrigins: [Endpoint] = []

        /// Creates options with the default values.
        public init() {}
    }

    /// Creates a client.
    /// - Parameters:
    ///   - client: The client of the authorization server.
    ///   - methods: The sign-in methods, in order of preference. If a method cannot start here, or the provider does
    ///     not support it, the next one is used, unless the user has already been shown a page or a code.
    ///   - store: Stores the credentials; default: memory.
    ///   - options: The options; default: the defaults of ``Options``.
    ///   - observer: Receives every event of every flow, in order. It must not block.
    public convenience init(
        client: OAuthClient,
        methods: [SignInMethod],
        store: any TokenStore = MemoryTokenStore(),
        options: Options = Options(),
        observer: (@Sendable (FlowEvent) -> Void)? = nil
    ) {
        self.init(
            client: client,
            methods: SignInMethods(methods: methods),
            store: store,
            options: options,
            observer: observer
        )
    }

    package init(
        client: OAuthClient,
        methods: SignInMethods,
        store: any TokenStore,
        options: Options,
        observer: (@Sendable (FlowEvent) -> Void)?,
        machineTokenSharing scope: MachineTokenSharing = .byRequest
    ) {
        self.client = client
        self.methods = methods
        self.options = options
        self.observer = observer
        self.credentials = CredentialManager(
            client: client,
            store: store,
            freshnessMargin: options.freshnessMargin,
            renewal: methods.withoutUser?.renewal(),
            observer: observer
        )
        // A machine-to-machine client must not use the tokens of a user who once signed in under the same name.
        let method = methods.withoutUser?.recordName(for: client, scope)
        let name = method.map { "\(options.name) by \($0)" } ?? options.name
        self.recordName = name
        self.fixed = credentials.managed(
            credentials.recordKey(named: name, resource: options.resource),
            account: options.account,
            label: options.label
        )
        self.alwaysCurrent = methods.withoutUser?.owner == nil ? fixed : nil
    }

    /// The credential of this client; if its tokens depend on another sign-in, the credential for the user who is signed in there
    /// now.
    /// - Parameter resource: For a machine-to-machine client, a resource for which it obtains separate tokens; default: the options' resource.
    func current(for resource: String? = nil) async throws -> ManagedCredential {
        guard let method = methods.withoutUser else { return fixed }
        return managed(for: try await method.owner?(), method, resource)
    }

    func managed(for owner: String?, _ method: SignInMethod, _ resource: String? = nil) -> ManagedCredential {
        let isOwn = resource.map { $0.isIdentical(to: options.resource ?? "") } ?? true
        guard owner != nil || !isOwn else { return fixed }
        let suffix = owner.map { " \(Base64URL.encode(SHA256.hash(data: Array($0.utf8))))" } ?? ""
        let key = credentials.recordKey(named: recordName + suffix, resource: resource ?? options.resource)
        return others.withLock { others in
            let known =
                others[key]
                ?? credentials.managed(key, account: nil, label: options.label, renewal: method.renewal(of: owner))
            others[key] = known
            return known
        }
    }

    /// The current credential and, for a machine-to-machine client, those for its resources.
    func all() async throws -> [ManagedCredential] {
        guard let method = methods.withoutUser else { return [fixed] }
        let owner = try await method.owner?()
        let others = registration.resources.filter { !$0.isIdentical(to: options.resource ?? "") }
        return ([nil] + others).map { managed(for: owner, method, $0) }
    }

    /// The stored credentials: the current credential, and those for the resources of a machine-to-machine client.
    package func storedCredentials() async throws -> [Credential] {
        var stored: [Credential] = []
        for managed in try await all() { stored += try await managed.accounts().entries.compactMap(\.credential) }
        return stored
    }

    /// Whether the client obtains tokens without signing a user in.
    package var isWithoutUser: Bool { methods.withoutUser != nil }

    /// Whether the tokens belong to the user of another profile, whose assertion is exchanged.
    package var hasOwner: Bool { methods.withoutUser?.owner != nil }

    /// The user of another profile whose assertion is exchanged; nil if there is none.
    package func owner() async throws -> String? { try await methods.withoutUser?.owner?() }

    /// The flow, if it needs no user; nil when a user signs in.
    package var flowWithoutUser: SignInFlow? { methods.withoutUser?.flow }

    /// The registration of the client.
    package var registration: ClientRegistration { client.registration }

    /// The authorization server.
    public var server: AuthorizationServer { client.server }

    /// Checks that the store can be read and locked, and rewrites the record if it exists.
    /// - Returns: Whether the record was written.
    /// - Throws: ``AuthError`` with `storage_failed`, `lease_busy`, or `credential_unusable` when the record cannot be read.
    package func checkStore() async throws -> Bool { try await current().probe(writing: true) }

    /// Accepts a redirect that did not arrive through the user agent: the URL that an app was
    /// opened with, or a URL that a user has pasted. It is validated like any other redirect.
    /// - Parameter url: The complete URL.
    /// - Returns: Whether a sign-in or sign-out of this client was waiting for this redirect. An unrelated URL has no effect. After the process
    ///   that started a sign-in has been terminated, nothing is waiting: only ``beginSignIn(_:)`` returns a request that another process can finish.
    @discardableResult
    public func resume(with url: String) -> Bool { pendingRedirects.resume(with: url) }

    /// Whether an operation that must complete is in progress: ``drain(within:)`` waits for such operations.
    package var hasUnfinishedWork: Bool { credentials.unfinished.isBusy }

    /// Prevents refresh tokens from being sent from now on, for a program that is about to exit and would not wait for
    /// the response.
    package func stopSending() { credentials.unfinished.close() }

    /// Whether a refresh token has been sent and the response has not been stored yet.
    package var hasPendingResponse: Bool { credentials.unfinished.hasPendingResponse }

    /// Waits for operations in progress that must complete: exchanges of codes and refresh tokens, whose results are then
    /// stored, and revocations. They complete even if tasks are cancelled, but not when the process exits, so call this
    /// method before exiting.
    /// - Parameter waitTimeout: The maximum time to wait; default: three seconds.
    /// - Returns: Whether all operations have completed.
    public func drain(within waitTimeout: Duration = .seconds(3)) async -> Bool {
        await credentials.drain(within: waitTimeout)
    }

    /// The provider's metadata.
    /// - Throws: ``AuthError``.
    package func metadata() async throws -> ProviderMetadata {
        try await reporter().step(.discovery) { try await client.metadata() }
    }

    /// The context for an adapter's provider-specific functions.
    package var providerContext: ProviderContext { client.providerContext }

    func reporter() -> FlowReporter { FlowReporter(host: client.host, observer: observer) }
}
