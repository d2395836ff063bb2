public import AuthFlow
import AuthFlowDesktop

extension UserAgentFactory {
    /// `loopback`: the user's browser, and a port of this machine for the redirect.
    public static var loopback: UserAgentFactory { loopback(applicationName: "") }

    /// As ``loopback``, for a program with a name.
    /// - Parameter applicationName: The name on the pages that the browser shows at the end, where the configuration has no other.
    public static func loopback(applicationName: String) -> UserAgentFactory {
        let keys: [any AnyConfigurationKey] = BrowserLauncher.keys + [nameKey, colorKey]
        return UserAgentFactory("loopback", keys: keys, availability: availability) { options, context in
            LoopbackUserAgent(
                launcher: try .configured(by: options, in: context.launchEnvironment),
                applicationName: try options[nameKey] ?? applicationName,
                accentColor: try options[colorKey]
            )
        }
    }

    private static let nameKey = ConfigurationKey(
        "application_name",
        .text,
        "The name of the program on the pages that the browser shows at the end. Default: the program's own."
    )
    private static let colorKey = ConfigurationKey(
        "accent_color",
        ConfigurationValue<String>.text.map { text throws(AuthError) in
            guard StatusPage.isColor(text) else {
                throw AuthError(.invalidConfiguration, "not a color such as #1a4fb4")
            }
            return text
        },
        "The color of the line above those pages, as #rrggbb. Default: none."
    )

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
