public import AuthFlowHTTP
import AuthFlowOAuth
public import AuthFlowSignIn
public import AuthFlowTransport

/// Makes a user agent from its options. Programs list the factories of the user agents that they support.
///
/// ```swift
/// extension UserAgentFactory {
///     public static var postcard: UserAgentFactory {
///         let country = ConfigurationKey("country", .text, default: "IS", "Where to.")
///         return UserAgentFactory("postcard", keys: [country]) { options, _ in
///             PostcardUserAgent(country: try options[country])
///         }
///     }
/// }
/// ```
public struct UserAgentFactory: Sendable {
    /// Whether an agent can work where the process runs. Each reason is in words for the user, in lower case and
    /// without a full stop.
    public enum Availability: Sendable, Hashable {
        /// It can.
        case available(because: String = "")
        /// It may, but one that certainly can is better.
        case lastResort(reason: String)
        /// It cannot.
        case unavailable(reason: String)

        var reason: String {
            switch self {
            case .available(let reason), .lastResort(let reason), .unavailable(let reason): reason
            }
        }
    }

    /// The name that `user_agent` chooses it by.
    public let name: String

    /// The options it takes.
    let keys: [ConfigurationKeyDeclaration]

    /// Whether it needs no options, so that `auto` may choose it.
    var isAutomatic: Bool { !keys.contains(where: \.isRequired) }

    let availability: @Sendable (_ options: ConfigurationObject, _ context: UserAgentContext) throws -> Availability
    let make: @Sendable (_ options: ConfigurationObject, _ context: UserAgentContext) throws -> any UserAgent

    /// Creates a factory.
    /// - Parameters:
    ///   - name: The name to choose it by.
    ///   - keys: The options it takes.
    ///   - availability: Whether it can work with these options, here.
    ///   - make: Makes the agent.
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

/// What a user agent may need to know besides its options.
public struct UserAgentContext: Sendable {
    /// Where the program runs.
    public let launchEnvironment: LaunchEnvironment

    /// The client's registered redirect URIs, best first.
    public let redirectURIs: [RedirectURI]

    /// The transport, for agents that need no browser.
    public let transport: any HTTPTransport

    /// Creates a context.
    public init(
        launchEnvironment: LaunchEnvironment,
        redirectURIs: [RedirectURI],
        transport: any HTTPTransport = SystemTransport()
    ) {
        self.launchEnvironment = launchEnvironment
        self.redirectURIs = redirectURIs
        self.transport = transport
    }
}
