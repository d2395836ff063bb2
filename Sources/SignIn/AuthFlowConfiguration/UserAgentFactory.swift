public import AuthFlowOAuth
public import AuthFlowSignIn
package import AuthFlowTransport

/// Creates a user agent from its options. A program lists the factories for the user agents that it supports.
///
/// ```swift
/// extension UserAgentFactory {
///     static var postcard: UserAgentFactory {
///         let country = ConfigurationKey("country", .text, default: "IS", "The destination country.")
///         return UserAgentFactory("postcard", keys: [country]) { options, _ in
///             PostcardUserAgent(postOffice: PostOffice(country: try options[country]))
///         }
///     }
/// }
/// ```
public struct UserAgentFactory: Sendable {
    /// The availability of an agent in the environment of this process. Each reason is shown to the user, in lower case and
    /// without a period.
    public enum Availability: Sendable, Hashable {
        /// The agent works.
        case available(because: String = "")
        /// The agent may work, but an agent that is known to work is preferred.
        case lastResort(reason: String)
        /// The agent does not work.
        case unavailable(reason: String)

        var reason: String {
            switch self {
            case .available(let reason), .lastResort(let reason), .unavailable(let reason): reason
            }
        }
    }

    /// The value of `user_agent` that selects the agent.
    package let name: String

    /// The keys of the agent's options.
    let keys: [ConfigurationKeyDeclaration]

    /// Whether the agent needs no options, so that `auto` may choose it.
    var isAutomatic: Bool { !keys.contains(where: \.isRequired) }

    let availability: @Sendable (_ options: ConfigurationObject, _ context: UserAgentContext) throws -> Availability
    let make: @Sendable (_ options: ConfigurationObject, _ context: UserAgentContext) throws -> any UserAgent

    /// Creates a factory.
    /// - Parameters:
    ///   - name: The value of `user_agent` that selects the agent.
    ///   - keys: The keys of the agent's options.
    ///   - availability: Returns whether the agent works with these options in this environment.
    ///   - make: Creates the agent.
    public init(
        _ name: String,
        keys: [any AnyConfigurationKey] = [],
        availability:
            @escaping @Sendable (_ options: ConfigurationObject, _ context: UserAgentContext) throws -> Availability =
            { _, _ in .available() },
        make: @escaping @Sendable (_ options: ConfigurationObject, _ context: UserAgentContext) throws -> any UserAgent
    ) {
        self.name = name
        self.keys = keys.map(\.declaration)
        self.availability = availability
        self.make = make
    }
}

/// The context of a user agent, in addition to its options.
public struct UserAgentContext: Sendable {
    /// The environment that the program runs in.
    public let launchEnvironment: LaunchEnvironment

    /// The client's registered redirect URIs, in order of preference.
    public let redirectURIs: [RedirectURI]

    /// The transport, for agents that need no browser.
    public let transport: any HTTPTransport

    /// Creates a context.
    package init(
        launchEnvironment: LaunchEnvironment,
        redirectURIs: [RedirectURI],
        transport: any HTTPTransport = SystemTransport()
    ) {
        self.launchEnvironment = launchEnvironment
        self.redirectURIs = redirectURIs
        self.transport = transport
    }
}
