import AuthFlowOAuth
import AuthFlowSignIn
import Synchronization

/// The choice of a user agent: by a profile, by the user, or by `auto`, which selects an agent that works in this environment.
///
/// The first agent in the list that is known to work is used; if there is none, the first agent that may work.
struct UserAgentChoice: Sendable {
    /// The name that represents all agents that need no options, in the order in which the program lists them.
    static let auto = "auto"

    /// The choice in a profile: one agent with its options, or nil for all agents that need no options.
    typealias Choice = ConfigurationChoice<UserAgentFactory?>

    /// An agent with its availability.
    struct Candidate: Sendable {
        let factory: UserAgentFactory
        let options: ConfigurationObject
        let availability: UserAgentFactory.Availability

        /// The agent's name, and the reason why it does or does not work in this environment.
        var explanation: String { "\(factory.name): \(availability.reason)" }
    }

    let candidates: [Candidate]
    private let context: UserAgentContext

    /// - Parameters:
    ///   - override: The name of the agent to use; nil for the profile's choice.
    ///   - configuration: The profile.
    ///   - key: The profile's key for user agents.
    ///   - factories: The agents that the program lists.
    ///   - context: The environment that the program runs in.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the override cannot be used.
    init(
        of override: String?,
        in configuration: ConfigurationObject,
        _ key: ConfigurationKey<[Choice]>,
        factories: [UserAgentFactory],
        context: UserAgentContext
    ) throws {
        var choices = try configuration[key]
        if let override { choices = [try Self.choice(override, choices, configuration, factories)] }
        if choices.isEmpty {
            choices = [Choice(name: Self.auto, factory: nil, options: ConfigurationObject(empty: configuration))]
        }
        let pairs = choices.flatMap { choice in
            (choice.factory.map { [$0] } ?? factories.filter(\.isAutomatic)).map { ($0, choice.options) }
        }
        self.context = context
        self.candidates = try pairs.map { factory, options in
            Candidate(factory: factory, options: options, availability: try factory.availability(options, context))
        }
    }

    private static func choice(
        _ name: String,
        _ choices: [Choice],
        _ configuration: ConfigurationObject,
        _ factories: [UserAgentFactory]
    ) throws -> Choice {
        if let configured = choices.first(where: { $0.name == name }) { return configured }
        let names = [auto] + factories.map(\.name)
        guard names.contains(name) else {
            let hint = NearestName.advice(name, among: names)
            throw AuthError(
                .invalidConfiguration,
                "Unknown user agent \"\(DisplayText.sanitized(name, limit: 60))\". \(hint)"
            )
        }
        let factory = factories.first { $0.name == name }
        if let factory, !factory.isAutomatic {
            let keys = factory.keys.filter(\.isRequired).map { "\"\($0.name)\"" }.joined(separator: ", ")
            let needed = keys.isEmpty ? "options" : keys
            throw AuthError(
                .invalidConfiguration,
                "The user agent \"\(name)\" needs \(needed). Set the options in a profile, under \"user_agent\"."
            )
        }
        // The options of `auto` are those of every agent that it may choose.
        let automatic = choices.first { $0.name == auto }
        return Choice(
            name: name,
            factory: factory,
            options: automatic?.options ?? ConfigurationObject(empty: configuration)
        )
    }

    /// The agent to use: the first that is known to work, otherwise the first that may work.
    var best: Candidate? {
        candidates.first { if case .available = $0.availability { true } else { false } }
            ?? candidates.first { if case .lastResort = $0.availability { true } else { false } }
    }

    /// The methods for these flows, in order of preference. If the flows include the device flow, a user agent of last resort is tried last, unless
    /// opening a browser is disabled.
    /// - Parameter devicePresenter: Shows the user code of the device flow; nil when the program does not support that flow.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the flow jwt_bearer has no assertion. A missing agent is not reported
    ///   until a user must sign in, because most client operations need no agent.
    func methods(
        _ flows: [SignInFlow],
        devicePresenter: (any DevicePresenter)?,
        assertions: AssertionSource?
    ) throws -> SignInMethods {
        var result = SignInMethods(methods: [])
        var lastResort: SignInMethod?
        for flow in flows {
            switch flow {
            case .device:
                guard let devicePresenter else {
                    let reason = "This program cannot show a code for the device flow (RFC 8628)."
                    result.skipped.append((flow, AuthError(.unsupported, reason)))
                    continue
                }
                result.methods.append(.device(devicePresenter))
            case .clientCredentials: result.methods.append(.clientCredentials)
            case .jwtBearer:
                guard let assertions else {
                    throw AuthError(.invalidConfiguration, "The jwt_bearer flow needs an \"assertion\".")
                }
                result.methods.append(.jwtBearer(assertions))
            case .authorizationCode:
                guard let best else {
                    result.skipped.append((flow, noUserAgent))
                    continue
                }
                let skipped = candidates.prefix { $0.factory.name != best.factory.name }.map(\.explanation)
                let method = SignInMethod.userAgent(ChosenUserAgent(best, skipped: skipped, context))
                if case .lastResort = best.availability, flows.contains(.device),
                    context.launchEnvironment.mayOpenBrowser
                {
                    result.skipped.append((flow, AuthError(.noUserAgent, "\(best.explanation).")))
                    lastResort = method
                } else {
                    result.methods.append(method)
                }
            }
        }
        if let lastResort { result.methods.append(lastResort) }
        return result
    }

    private var noUserAgent: AuthError {
        guard !candidates.isEmpty else {
            return AuthError(
                .noUserAgent,
                "The program has no user agent that is chosen automatically. Specify one in \"user_agent\"."
            )
        }
        return AuthError(
            .noUserAgent,
            "No user agent works here. \(candidates.map(\.explanation).joined(separator: "; ")). Use a machine with a browser or a terminal."
        )
    }
}

extension Profile {
    /// Explains which user agent a client of this profile would use, without creating the agent.
    /// - Returns: The agent's name, nil when no agent works in this environment; and a line for each agent, including the
    ///   chosen one: its name, a colon, and the reason.
    /// - Throws: ``ConfigurationError``.
    package func userAgentExplanation(
        _ components: ProfileComponents,
        context: UserAgentContext
    ) throws -> (chosen: String?, reasons: [String]) {
        let (choices, configuration) = try checked(
            by: components,
            environment: context.launchEnvironment.environment
        )
        let choice = try UserAgentChoice(
            of: nil,
            in: configuration,
            choices.userAgents,
            factories: components.userAgents,
            context: context
        )
        return (choice.best?.factory.name, choice.candidates.map(\.explanation))
    }
}

/// A user agent that was chosen by configuration, and that reports the choice when it is used.
///
/// The agent is created at the first sign-in, so that a program that only uses stored tokens does not read the agent's secrets.
private final class ChosenUserAgent: UserAgent {
    private let candidate: UserAgentChoice.Candidate
    private let skipped: [String]
    private let context: UserAgentContext
    private let agent = Mutex<(any UserAgent)?>(nil)

    init(_ candidate: UserAgentChoice.Candidate, skipped: [String], _ context: UserAgentContext) {
        self.candidate = candidate
        self.skipped = skipped
        self.context = context
    }

    func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        var details = ["name": candidate.factory.name]
        let reason = candidate.availability.reason
        if !reason.isEmpty { details["because"] = reason }
        if !skipped.isEmpty { details["passed_over"] = skipped.joined(separator: "; ") }
        options.reporter.report(.userAgentChoice, details: details)
        let agent: any UserAgent
        do {
            // The agent was chosen for the redirect URIs of sign-ins.
            if options.redirectURIs != context.redirectURIs {
                let own = UserAgentContext(
                    launchEnvironment: context.launchEnvironment,
                    redirectURIs: options.redirectURIs,
                    transport: context.transport
                )
                if case .unavailable(let reason) = try candidate.factory.availability(candidate.options, own) {
                    throw AuthError(.userAgentFailed, "\(candidate.factory.name): \(reason).")
                }
            }
            agent = try created()
        } catch let error as ConfigurationError {
            throw AuthError(.invalidConfiguration, error.description, underlyingError: error)
        }
        return try await agent.withRedirectSession(options, body)
    }

    /// The agent, which the first call creates.
    func created() throws -> any UserAgent {
        try agent.withLock { agent in
            let created = try agent ?? candidate.factory.make(candidate.options, context)
            agent = created
            return created
        }
    }
}

extension SignInMethods {
    /// Creates the user agents that the first sign-in would create, so that an error in their options is reported immediately.
    /// - Throws: ``ConfigurationError``, for example for a secret that cannot be read.
    package func createUserAgents() throws {
        for case .userAgent(let agent) in methods { _ = try (agent as? ChosenUserAgent)?.created() }
    }
}
