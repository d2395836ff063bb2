public import AuthFlow
import AuthFlowDesktop

extension UserAgentFactory {
    /// `loopback`: the user's browser, and a port of this machine for the redirect.
    public static var loopback: UserAgentFactory {
        UserAgentFactory("loopback", keys: BrowserLauncher.keys, availability: availability) { options, context in
            LoopbackUserAgent(launcher: try .configured(by: options, in: context.launchEnvironment))
        }
    }

    /// Without a screen the address can still be shown: a user whose browser reaches this machine can open it, or paste
    /// the address that the browser ends at into the terminal.
    @Sendable private static func availability(
        _ options: ConfigurationObject,
        _ context: UserAgentContext
    ) throws -> Availability {
        guard context.redirectURIs.contains(where: \.isLoopback) else {
            return .unavailable(reason: "no redirect URI of the profile is an address of this machine")
        }
        return try BrowserLauncher.availability(options, context.launchEnvironment)
    }
}
