public import AuthFlow
import AuthFlowDesktop

extension UserAgentFactory {
    /// `loopback`: the user's browser, and a port of this machine for the redirect.
    ///
    /// ## Configuration keys
    /// - `browser` (array of strings, optional): The program to open, with its arguments, instead of the system's browser.
    /// - `open_browser` (boolean, optional): Whether to open a browser at all; default: true.
    public static var loopback: UserAgentFactory {
        UserAgentFactory("loopback", keys: BrowserLauncher.keys, availability: availability) { options, context in
            LoopbackUserAgent(launcher: .configured(by: options, in: context.launchEnvironment))
        }
    }

    /// Without a screen the address can still be shown: a user whose browser reaches this machine can open it, or paste
    /// the address that the browser ends at into the terminal.
    @Sendable private static func availability(
        _ options: ConfigurationObject,
        _ context: UserAgentContext
    ) -> Availability {
        guard context.redirectURIs.contains(where: \.isLoopback) else {
            return .unavailable(reason: "no redirect URI of the profile is an address of this machine")
        }
        return BrowserLauncher.availability(options, context.launchEnvironment)
    }
}
