import AuthFlow

/// The sessions of one provider's users.
final class ProviderSessions: Sendable {
    let provider: SessionProvider
    let credentials: CredentialManager
    let pending: PendingAuthorizations
    let redirectURI: String
    /// The path of the redirect URI.
    let callbackPath: String
    let backChannelLogoutPath: String
    /// The sign-ins that are being started. Each sign-in writes to the store, and may send a request to the provider,
    /// before the user is authenticated.
    let signIns = SignInSlots()
    /// The authorization responses in progress. The user is not authenticated until the provider has responded to the code exchange.
    let callbacks = SignInSlots()
    /// The front-channel logouts in progress, which are also unauthenticated.
    let frontChannelLogouts = SignInSlots()
    /// The resource of the grant, if the grant is for exactly one resource. It is part of the credentials' keys.
    private let resource: String?

    var name: String { provider.name }
    var client: OAuthClient { provider.client }

    /// - Parameter isOnly: Whether this is the application's only provider.
    init(
        _ provider: SessionProvider,
        isOnly: Bool,
        store: any SessionTokenStore,
        options: SessionServerOptions,
        observer: (@Sendable (FlowEvent) -> Void)?,
        onEnd: @escaping @Sendable (RecordKey, Credential) async -> Void
    ) throws {
        func refused(_ reason: String) -> AuthError { AuthError(.invalidConfiguration, reason) }
        let client = provider.client
        guard client.registration.authentication.method != .none else {
            throw refused(
                "A web application must be a confidential client: configure its client authentication (a secret or a key)."
            )
        }
        guard let redirectURI = client.registration.redirectURIs.first?.uri,
            let callback = try? Endpoint(redirectURI, name: "redirect URI"), callback.origin == options.origin
        else {
            throw refused("The client's first redirect URI must be on the application's origin, \(options.origin).")
        }
        guard client.registration.responseMode.delivery != .fragment else {
            throw refused("Browsers do not send fragments to a server. Choose a different response mode.")
        }
        let resources = client.registration.resources
        self.provider = provider
        self.resource = resources.count == 1 ? resources.first : nil
        self.redirectURI = redirectURI
        self.callbackPath = callback.path
        self.backChannelLogoutPath = options.backChannelLogoutPath + (isOnly ? "" : "/\(provider.name)")
        self.pending = PendingAuthorizations(store: store, host: client.host)
        self.credentials = CredentialManager(
            client: client,
            store: store,
            freshnessMargin: provider.freshnessMargin,
            refreshesAhead: true,
            observer: observer,
            onEnd: onEnd
        )
        credentials.observeRemovedRecords()
    }

    /// The key of a session's credential.
    func key(_ identifier: Secret) -> CredentialKey { CredentialKey(identifier.exposed, resource: resource) }

    /// The key of a session's record.
    func recordKey(_ identifier: Secret) -> RecordKey { credentials.recordKey(for: key(identifier)) }

    /// The key of the session record with the given name.
    func recordKey(named name: String) -> RecordKey { credentials.recordKey(named: name, resource: resource) }

    /// Whether the browser posts the provider's authorization responses as forms (`form_post`).
    var postsResponses: Bool { client.registration.responseMode.delivery == .formPost }
}
