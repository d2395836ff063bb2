public import AuthFlowOAuth
import AuthFlowSignIn
public import AuthFlowStorage

extension SessionServer {
    /// Creates a session server from the `server` section of a configuration file and the profiles of its
    /// providers.
    ///
    /// ```swift
    /// let server = try SessionServer(configuration: file, providers: [.oidc], stores: [.memory, .postgreSQL]) { options in
    ///     options.hooks.onSignIn = { signIn in .accept }
    /// }
    /// ```
    /// - Parameters:
    ///   - file: The file. If it has no `server` section, the defaults of all keys apply.
    ///   - providers: The provider adapters to choose from.
    ///   - stores: The token stores to choose from.
    ///   - assertions: The sources of assertions to choose from.
    ///   - store: Stores the sessions; default: the store of the first provider's profile.
    ///   - transport: The transport of all clients; default: the transport that each profile describes.
    ///   - host: The clock, random number generator and environment.
    ///   - change: Changes the options, for example to set the hooks and the pages, which a file cannot contain.
    ///   - observer: Receives every event of every flow. It must not block.
    /// - Throws: ``/AuthFlow/ConfigurationError`` with the location of every error, any error that `change` throws, and any error from creating
    ///   the store.
    public convenience init(
        configuration file: ConfigurationFile,
        providers: [ProviderFactory],
        stores: [TokenStoreFactory] = TokenStoreFactory.standard,
        assertions: [AssertionSourceFactory] = AssertionSourceFactory.standard,
        store: (any SessionTokenStore)? = nil,
        transport: (any HTTPTransport)? = nil,
        host: HostServices = .system,
        _ change: (inout SessionServerOptions) throws -> Void = { _ in },
        observer: (@Sendable (FlowEvent) -> Void)? = nil
    ) throws {
        let section = file.server
        let object = try section.checked(Self.configurationKeys, environment: host.environment)
        let entries = try object[ServerKeys.providers]
        let profiles = try Self.profiles(of: entries, in: file)
        let clients = try profiles.map { profile in
            try AuthClient(
                profile: profile,
                providers: providers,
                userAgents: [],
                stores: stores,
                assertions: assertions,
                transport: transport,
                host: host
            )
        }
        // Sessions have no configured account, so sign-ins of other users would be accepted.
        if let client = clients.first(where: { $0.options.account != nil }) {
            throw section.error(
                "the profile \"\(client.options.name)\" has \"account\", which does not apply to a web application: remove it, and reject other users in onSignIn"
            )
        }
        let redirectURI = clients[0].registration.redirectURIs.first?.uri ?? ""
        let origin = try object[ServerKeys.origin] ?? (try? Endpoint(redirectURI).origin) ?? ""
        var options = try SessionServerOptions(object, origin: origin)
        try change(&options)
        let sessions =
            try store
            ?? profiles[0].makeSessionStore(
                ProfileComponents(providers: providers, stores: stores, assertions: assertions),
                host: host
            )
        do {
            guard !entries.isEmpty else {
                let only = Self.provider("", clients[0])
                try self.init(checked: [only], store: sessions, options: options, observer: observer)
                return
            }
            let named = zip(entries, clients).map { Self.provider($0.name, $1, displayName: $0.displayName) }
            try self.init(providers: named, store: sessions, options: options, observer: observer)
        } catch let error as AuthError {
            throw section.error(error.message)
        }
    }

    /// The provider of a profile's client, with the settings of the profile that are not part of the registration.
    private static func provider(_ name: String, _ client: AuthClient, displayName: String? = nil) -> SessionProvider {
        var provider = SessionProvider(name, client: client.client, displayName: displayName)
        provider.freshnessMargin = client.options.freshnessMargin
        return provider
    }

    private static func profiles(of entries: [ProviderEntry], in file: ConfigurationFile) throws -> [Profile] {
        try entries.isEmpty ? [file.profile()] : entries.map { try file.profile($0.profile) }
    }

    /// The profiles of the providers. The store of the first one contains the sessions.
    /// - Throws: ``/AuthFlow/ConfigurationError``.
    package static func profiles(in file: ConfigurationFile, host: HostServices) throws -> [Profile] {
        let object = try file.server.checked(configurationKeys, environment: host.environment)
        return try profiles(of: try object[ServerKeys.providers], in: file)
    }

    /// The keys of `server`, for the JSON Schema.
    public static var configurationKeys: [any AnyConfigurationKey] { ServerKeys.all }
}
