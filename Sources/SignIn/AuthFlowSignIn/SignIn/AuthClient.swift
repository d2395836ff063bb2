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

    private func managed(for owner: String?, _ method: SignInMethod, _ resource: String? = nil) -> ManagedCredential {
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

    /// Signs a user in: shows the provider's page or a code for another device, waits, checks the result, and stores the
    /// credential. Concurrent calls are not combined, unlike refreshes: each call shows a page.
    /// - Parameters:
    ///   - policy: The policy for a sign-in by a user other than the one who is already signed in; default: reject it.
    ///   - options: The options of the authorization request; default: the registration's. A flow that does not support them is not used.
    /// - Returns: The credential, with the error if it could not be stored.
    /// - Throws: ``AuthError``, with `storage_failed` before any page is shown when the store cannot be used;
    ///   `CancellationError` when the task is cancelled. If the redirect has already arrived, the sign-in completes nevertheless, because its code
    ///   can be used only once: the credential is stored, and ``states()`` reports the sign-in.
    public func signIn(
        _ policy: AccountPolicy = .sameAccount,
        options: AuthorizationOptions = AuthorizationOptions()
    ) async throws -> SignIn {
        try await signIn(policy, options: options, usesSharedSessions: policy == .sameAccount, willShow: {})
    }

    /// - Parameters:
    ///   - usesSharedSessions: Whether the user agent may use a session that another app has shared.
    ///   - willShow: Called before the user is shown anything; if it throws an error, nothing is shown.
    package func signIn(
        _ policy: AccountPolicy,
        options: AuthorizationOptions,
        usesSharedSessions: Bool,
        willShow: @escaping @Sendable () async throws -> Void
    ) async throws -> SignIn {
        let options = requested(options)
        // If the result could not be stored, the sign-in fails before the user is prompted.
        _ = try await current().probe()
        if policy != .replaceAccount, !isWithoutUser, !client.identifiesUsers {
            try await current().requireNoUnknownUser()
        }
        let reporter = reporter()
        // A shared credential is used only for the same account, because choosing another account requires the provider's
        // account chooser.
        if policy == .sameAccount, let signIn = try await signInByExchange(options, reporter) { return signIn }
        let last = try methods.requireLast()
        for (flow, reason) in methods.skipped { reportSkipped(flow.rawValue, reason, reporter) }
        for method in methods.methods.dropLast() {
            let hasBegun = Atomic(false)
            do {
                return try await signIn(by: method, policy, options, usesSharedSessions, reporter) {
                    hasBegun.store(true, ordering: .relaxed)
                    try await willShow()
                }
            } catch let error as AuthError where Self.mayTryAnother(error) && !hasBegun.load(ordering: .relaxed) {
                reportSkipped(method.flow.rawValue, error, reporter)
            }
        }
        return try await signIn(by: last, policy, options, usesSharedSessions, reporter, willShow: willShow)
    }

    /// The options of a sign-in, which requests the resource of this client even if the registration does not list it: the credential is stored and
    /// refreshed for that resource.
    private func requested(_ options: AuthorizationOptions) -> AuthorizationOptions {
        guard options.resources == nil, let resource = self.options.resource,
            !registration.resources.contains(where: { $0.isIdentical(to: resource) })
        else { return options }
        var options = options
        options.resources = [resource]
        return options
    }

    private func reportSkipped(_ name: String, _ reason: AuthError, _ reporter: FlowReporter) {
        reporter.report(.flowChoice, details: ["passed_over": name, "reason": reason.description])
    }

    /// Signs in with the credential that another app has shared, if that credential is valid and satisfies the options.
    private func signInByExchange(_ options: AuthorizationOptions, _ reporter: FlowReporter) async throws -> SignIn? {
        guard let provider = client.adapter as? any SharedSignIn else { return nil }
        let exchange: TokenExchange
        do {
            guard let found = try await provider.exchangeForSignIn(in: client.providerContext) else { return nil }
            let ignored = client.parametersIgnoredByTokenExchange(options)
            guard ignored.isEmpty else {
                throw AuthError(
                    .unsupported,
                    "The shared sign-in was not used, because it does not support \(ignored.joined(separator: ", "))."
                )
            }
            if let subject = found.subject,
                try await current().isOtherAccount(AccountID(issuer: client.adapter.issuer, subject: subject))
            {
                throw AuthError(.accountMismatch, "The shared sign-in belongs to another user.")
            }
            exchange = found
        } catch let error as AuthError {
            reportSkipped(FlowEvent.Step.tokenExchange.rawValue, error, reporter)
            return nil
        }
        return try await credentials.unfinished.finish { [self] in
            let credential: Credential
            do {
                credential = try await client.signIn(by: exchange, reporter: reporter)
            } catch let error as AuthError where !error.isTransient || Self.mayRecur(error) {
                reportSkipped(FlowEvent.Step.tokenExchange.rawValue, error, reporter)
                return nil
            }
            return try await save(credential, [:], .sameAccount, reporter)
        }
    }

    /// Whether a server error may recur for as long as the shared credential exists, so that the user could never sign in. RFC 9110 section
    /// 15.6.1: 500 is for "an unexpected condition", which, unlike 503, need not be temporary.
    private static func mayRecur(_ error: AuthError) -> Bool {
        let isOutageOrLimit = error.status.map { $0 > 500 || $0 == 429 } ?? false
        return error.status == 500 || error.providerError?.error == "server_error" && !isOutageOrLimit
    }

    /// Whether to try the next sign-in method after one has failed with this error.
    private static func mayTryAnother(_ error: AuthError) -> Bool {
        [.unsupported, .userAgentFailed, .noUserAgent, .portBusy].contains(error.code)
    }

    /// A sentence for a timeout message, preceded by a space; empty if the server accepted the URL until the timeout.
    package static func advice(urlLifetime: Double, timeout: Duration) -> String {
        guard urlLifetime < timeout.seconds else { return "" }
        return
            " The provider accepted the URL for only \(Duration.seconds(urlLifetime).formattedSeconds), because the request was pushed (\"par\")."
    }

    /// - Parameter willShow: Called before the user is shown anything; if it throws an error, nothing is shown.
    private func signIn(
        by method: SignInMethod,
        _ policy: AccountPolicy,
        _ authorization: AuthorizationOptions,
        _ usesSharedSessions: Bool,
        _ reporter: FlowReporter,
        willShow: @escaping @Sendable () async throws -> Void
    ) async throws -> SignIn {
        switch method {
        case .userAgent(let userAgent):
            let timeout = options.timeout
            let hasResponse = Atomic(false)
            let ignoredResponseReason = IgnoredResponseReason()
            let urlLifetime = Atomic(Double.infinity)
            return try await withDeadline(timeout, clock: client.host.clock) {
                // Once the redirect has arrived, the tokens are stored even after the timeout, so allow more time.
                hasResponse.load(ordering: .relaxed) ? timeout : nil
            } orThrow: {
                let advice = Self.advice(urlLifetime: urlLifetime.load(ordering: .relaxed), timeout: timeout)
                return AuthError(
                    .timedOut,
                    "The sign-in was not finished within \(timeout.formattedSeconds).\(ignoredResponseReason.advice)\(advice) Start again when ready."
                )
            } _: { [self] in
                let flow = AuthorizationCodeSignIn(
                    client: client,
                    reporter: reporter,
                    options: authorization,
                    usesSharedSessions: usesSharedSessions,
                    pendingRedirects: pendingRedirects,
                    unfinished: credentials.unfinished,
                    ignoredResponseReason: ignoredResponseReason,
                    willShow: willShow,
                    didPush: { urlLifetime.store($0, ordering: .relaxed) },
                    didRespond: { hasResponse.store(true, ordering: .relaxed) }
                )
                return try await flow.run(with: userAgent) { credential, response in
                    try await self.save(credential, response.parameters, policy, reporter)
                }
            }
        case .clientCredentials, .jwtBearer:
            // The client's own token would replace the user's tokens, because the record of a client with several methods
            // belongs to the user.
            guard isWithoutUser else {
                throw AuthError(
                    .invalidConfiguration,
                    "The flow \(method.flow.rawValue) cannot be combined with another flow. Use a separate client."
                )
            }
            let ignored = client.parametersIgnoredWithoutUser(authorization, resource: options.resource)
            guard ignored.isEmpty else {
                throw AuthError(
                    .unsupported,
                    "The flow \(method.flow.rawValue) does not support options for one request (\(ignored.joined(separator: ", "))). Set them in the client's registration."
                )
            }
            let owner = try await method.owner?()
            guard let renewal = method.renewal(of: owner) else { throw CancellationError() }
            let credential = try await credentials.unfinished.finish { [client, resource = options.resource] in
                try await reporter.step(.machineToMachineGrant) { try await renewal(client, resource) }
            }
            // Without a user there is only one account, and a new token replaces the old one. The owner may
            // have changed during the request, in which case the token does not belong to the new owner.
            let managed = self.managed(for: owner, method)
            return try await save(credential, in: managed, [:], .replaceAccount, reporter)
        case .device(let presenter):
            let flow = DeviceSignIn(client: client, reporter: reporter, unfinished: credentials.unfinished)
            let code = try await flow.begin(authorization, maximumWait: presenter.maximumWait)
            try await willShow()
            return try await presenter.present(code) {
                try await flow.finish(code) { credential in
                    try await self.save(credential, [:], policy, reporter)
                }
            }
        }
    }

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

    /// Starts a sign-in whose page the app shows itself: open the URL of the request, and pass the redirect to
    /// ``finishSignIn(_:with:policy:)-(_,String,_)``, in this process or another. No user agent is used.
    /// - Parameter options: The options of the request; default: the registration's.
    /// - Throws: The same errors as ``OAuthClient/authorizationRequest(_:)``.
    public func beginSignIn(_ options: AuthorizationOptions = AuthorizationOptions()) async throws
        -> AuthorizationRequest
    {
        let reporter = reporter()
        _ = try await reporter.step(.discovery) { try await client.metadata() }
        return try await reporter.step(.authorizationRequest) {
            try await client.authorizationRequest(requested(options))
        }
    }

    /// Finishes a sign-in whose page the app has shown itself, and stores the credential.
    /// - Parameters:
    ///   - request: The request. Each request can be used only once.
    ///   - callback: The complete URL that the provider redirected to.
    ///   - policy: The policy for a sign-in by a user other than the one who is already signed in; default: reject it.
    /// - Throws: ``AuthError``. If the URL does not belong to the request, the request can still be used.
    public func finishSignIn(
        _ request: AuthorizationRequest,
        with callback: String,
        policy: AccountPolicy = .sameAccount
    ) async throws -> SignIn {
        let reporter = reporter()
        return try await credentials.unfinished.finish { [self] in
            let (credential, response) = try await client.exchange(.url(callback), for: request, reporter: reporter)
            return try await save(credential, response.parameters, policy, reporter)
        }
    }

    /// Stores the credential from a sign-in, or retains it in memory.
    /// - Parameter managed: The credential to replace; default: ``current()``.
    package func save(
        _ credential: Credential,
        in managed: ManagedCredential? = nil,
        _ parameters: FormParameters,
        _ policy: AccountPolicy,
        _ reporter: FlowReporter
    ) async throws -> SignIn {
        var signIn = SignIn(credential: credential, authorizationParameters: parameters)
        let managed = if let managed { managed } else { try await current() }
        do {
            do {
                try await managed.save(credential, policy, reporter)
            } catch {
                let failure =
                    error as? AuthError
                    ?? AuthError(.storageFailed, "The credential could not be stored.", underlyingError: error)
                guard !(error is CancellationError), ![.accountMismatch, .outcomeUnknown].contains(failure.code) else {
                    throw error
                }
                try await managed.retainInMemory(credential, policy)
                signIn.storageError = failure
            }
        } catch let error as AuthError where error.code == .accountMismatch {
            // If the user may already be signed in, the tokens may belong to that session, so they are not revoked.
            if (try? await managed.isUnknownAccount(credential.account)) == true {
                await client.revokeRejectedTokens(credential.tokens)
            }
            throw error
        }
        guard let provider = client.adapter as? any SharedSignIn else { return signIn }
        do {
            try await provider.share(credential, replacing: nil, in: client.providerContext)
        } catch {
            if error is CancellationError { throw error }
            let failure =
                error as? AuthError
                ?? AuthError(
                    .storageFailed,
                    "The sign-in could not be shared with the other apps in its group.",
                    underlyingError: error
                )
            reporter.report(.sharing, .failed(failure.code))
            signIn.sharingError = failure
        }
        return signIn
    }

    /// Whether an operation that must complete is in progress: ``drain(within:)`` waits for such operations.
    package var hasUnfinishedWork: Bool { credentials.unfinished.isBusy }

    /// Tries again to store the tokens of a sign-in that could not be stored.
    /// - Returns: Whether these tokens, or the tokens of a later sign-in of the same user, are stored; false if the account policy, which could
    ///   not be applied before, does not allow the account.
    package func storeUnsavedTokens(of signIn: SignIn) async -> Bool {
        guard hasUnfinishedWork, await drain(), let stored = try? await credential() else { return false }
        // All unknown users have the same account.
        return stored.account == signIn.credential.account && stored.signedInAt >= signIn.credential.signedInAt
    }

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
