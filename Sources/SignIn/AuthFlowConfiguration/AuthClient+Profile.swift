public import AuthFlowOAuth
public import AuthFlowSignIn
import AuthFlowStorage

extension AuthClient {
    /// The user's choices, which override the settings of a profile.
    public struct Overrides: Sendable {
        /// The flows to sign in with; default: the profile's flows.
        public var flows: [SignInFlow]?
        /// The name of the user agent, which uses the profile's options for that agent, if any; default: the profile's choice. With a user agent, a
        /// device flow of the profile is not used.
        public var userAgent: String?
        /// The account to use: its subject, or its issuer and subject, separated by a space; default: the profile's account.
        public var account: String?
        /// The environment that the program runs in; default: detected. If a private window is required, a device flow of the profile is not used.
        public var launchEnvironment: LaunchEnvironment?
        /// Receives the client of another profile when it is created, because that profile provides this client's assertions.
        package var onOtherClient: @Sendable (AuthClient) -> Void = { _ in }

        /// Creates overrides.
        public init(flows: [SignInFlow]? = nil, userAgent: String? = nil, account: String? = nil) {
            self.flows = flows
            self.userAgent = userAgent
            self.account = account
        }
    }

    /// Creates a client from a profile in a configuration file and the lists of components that it can select.
    ///
    /// There is no global registry: a configuration can name only the components that the program lists.
    /// - Parameters:
    ///   - profile: The profile.
    ///   - providers: The provider adapters to choose from.
    ///   - userAgents: The user agents to choose from. Without `user_agent`, or with `auto`, the first that works in this
    ///     environment is used. The first sign-in creates the agent, and reads its secrets.
    ///   - devicePresenter: Shows the user code of the device flow (RFC 8628); nil to disable that flow.
    ///   - stores: The token stores to choose from.
    ///   - assertions: The sources of assertions to choose from.
    ///   - overrides: The user's choices, which override the settings of the profile; default: none.
    ///   - transport: The client's transport; default: the transport that the profile describes. User agents always use the profile's transport.
    ///   - host: The clock, random number generator and environment.
    ///   - observer: Receives every event of every flow, immediately and in order. It must not block.
    /// - Throws: ``ConfigurationError`` with the location of every issue; ``AuthError`` when an override cannot be used.
    public convenience init(
        profile: Profile,
        providers: [ProviderFactory],
        userAgents: [UserAgentFactory],
        devicePresenter: (any DevicePresenter)? = nil,
        stores: [TokenStoreFactory] = TokenStoreFactory.standard,
        assertions: [AssertionSourceFactory] = AssertionSourceFactory.standard,
        overrides: Overrides = Overrides(),
        transport: (any HTTPTransport)? = nil,
        host: HostServices = .system,
        observer: (@Sendable (FlowEvent) -> Void)? = nil
    ) throws {
        let components = ProfileComponents(
            providers: providers,
            userAgents: userAgents,
            stores: stores,
            assertions: assertions
        )
        let (choices, configuration) = try profile.checked(by: components, environment: host.environment)
        let factory = try configuration[choices.provider]
        let context = AssertionSourceFactory.Context(
            host: host,
            clientKey: try configuration[ProfileKeys.clientKey],
            client: { name in
                guard let other = profile.other(name) else {
                    throw AuthError(.invalidConfiguration, "The file has no other profile \(name).")
                }
                let client = try AuthClient(
                    profile: other,
                    providers: providers,
                    userAgents: userAgents,
                    devicePresenter: devicePresenter,
                    stores: stores,
                    assertions: assertions,
                    transport: transport,
                    host: host,
                    observer: observer
                )
                overrides.onOtherClient(client)
                return client
            },
            profileNames: Array(profile.others.keys)
        )
        let registration = try ClientRegistration(
            configuration: configuration,
            provider: factory,
            clientAssertion: try configuration[choices.clientAssertion]?.make(in: context)
        )
        if profile.sendsRequests { try factory.check(registration, configuration) }
        let network = try profile.transport(environment: host.environment)
        var flows = try overrides.flows ?? configuration[ProfileKeys.flow]
        // The user has chosen a user agent or a private window. A code would be entered in another browser, or in a window with the existing sign-ins.
        let needsUserAgent = overrides.userAgent != nil || overrides.launchEnvironment?.wantsPrivateWindow == true
        if overrides.flows == nil, needsUserAgent, flows.contains(.device) { flows = [.authorizationCode] }
        if flows == [.device], devicePresenter == nil {
            throw configuration.error(
                "this program cannot show a code for the device flow (RFC 8628)",
                at: ProfileKeys.flow
            )
        }
        if let flow = flows.first(where: { !$0.hasUser }) {
            guard flows.count == 1 else {
                throw configuration.error(
                    "\"\(flow.rawValue)\" does not sign in a user, so it cannot be combined with other flows",
                    at: ProfileKeys.flow
                )
            }
            guard try configuration[ProfileKeys.account] == nil, overrides.account == nil else {
                throw configuration.error(
                    "\"\(flow.rawValue)\" does not sign in a user, so \"account\" cannot be set",
                    at: ProfileKeys.account
                )
            }
        }
        // RFC 6749 section 4.4: "The client credentials grant type MUST only be used by confidential clients."
        if flows == [.clientCredentials], registration.authentication.method == .none {
            throw configuration.error(
                "\"client_credentials\" needs a \"client_secret\", a \"client_key\", a \"client_assertion\", or a \"client_certificate\" with \"client_authentication\": \"tls_client_auth\" or \"self_signed_tls_client_auth\"",
                at: ProfileKeys.flow
            )
        }
        let assertion = try configuration[choices.assertion]?.make(in: context)
        if flows == [.jwtBearer], assertion == nil {
            throw configuration.error("\"jwt_bearer\" needs an \"assertion\"", at: ProfileKeys.flow)
        }
        guard !flows.isEmpty else { throw AuthError(.invalidConfiguration, "The list of flows is empty.") }
        let choice = try UserAgentChoice(
            of: overrides.userAgent,
            in: configuration,
            choices.userAgents,
            factories: userAgents,
            context: UserAgentContext(
                launchEnvironment: overrides.launchEnvironment ?? .current(environment: host.environment),
                redirectURIs: registration.redirectURIs,
                transport: network
            )
        )
        let server = AuthorizationServer(
            try factory.make(configuration),
            transport: transport ?? network,
            host: host
        )
        var options = try Options(configuration)
        options.name = profile.name
        if let account = overrides.account { options.account = account }
        self.init(
            client: OAuthClient(
                server: server,
                registration: registration,
                sharedCredentials: try configuration[choices.shared].map {
                    SharedCredentialStore(group: $0.group, store: try $0.store.make(host: host))
                }
            ),
            methods: try choice.methods(flows, devicePresenter: devicePresenter, assertions: assertion),
            store: try choices.makeStore(configuration, host),
            options: options,
            observer: observer
        )
    }
}

extension AuthClient.Options {
    fileprivate init(_ configuration: ConfigurationObject) throws {
        self.init()
        account = try configuration[ProfileKeys.account]
        timeout = try configuration[ProfileKeys.timeout]
        freshnessMargin = try configuration[ProfileKeys.freshnessMargin]
        apiOrigins = try configuration[ProfileKeys.apiOrigins]
    }
}
