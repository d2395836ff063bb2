public import AuthFlow
import AuthFlowDesktop

extension UserAgentFactory {
    /// `loopback`: the user's browser, and a loopback port for the redirect.
    public static var loopback: UserAgentFactory { loopback(applicationName: "") }

    /// Like ``loopback``, with an application name on the final pages in the browser.
    /// - Parameter applicationName: The application's name, unless the configuration contains another name.
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
        "The name of the program on the result page in the browser. Default: the name that the program sets, if any."
    )
    private static let colorKey = ConfigurationKey(
        "accent_color",
        ConfigurationValue<String>.text.map { text throws(AuthError) in
            guard StatusPage.isColor(text) else {
                throw AuthError(.invalidConfiguration, "not a color such as #1a4fb4")
            }
            return text
        },
        "The color of the line at the top of the result page, as #rrggbb. Default: none."
    )

    /// Without a display, the URL can still be printed. The user can open it in a browser that can reach this machine.
    /// With any other browser, the user can paste the URL of the browser's last page into the terminal.
    @Sendable private static func availability(
        _ options: ConfigurationObject,
        _ context: UserAgentContext
    ) throws -> Availability {
        guard context.redirectURIs.contains(where: \.isLoopback) else {
            return .unavailable(reason: "the profile has no loopback redirect URI")
        }
        return try BrowserLauncher.availability(options, context.launchEnvironment)
    }
}
