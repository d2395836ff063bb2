public import AuthFlow

extension BrowserLauncher {
    private static let command = ConfigurationKey(
        "browser",
        .command,
        "The browser to run and its arguments, such as [\"google-chrome\", \"--profile-directory=Work\"], instead of the default browser. %s is replaced by the URL if it is a separate argument or part of an option, such as --app=%s, and rejected elsewhere; without %s, the URL is appended. No shell is involved, and the program receives only the environment variables that a browser needs."
    )
    private static let opensBrowser = ConfigurationKey(
        "open_browser",
        .flag,
        default: true,
        "Whether to open a browser; if false, the URL is only shown."
    )

    private static let isPrivate = ConfigurationKey(
        "private",
        .flag,
        default: false,
        "Whether the page is opened in a private window, without the cookies of earlier sign-ins. If BROWSER names a browser whose private-window option is unknown, or no browser with a known option is installed, no browser is opened, and the URL is shown instead."
    )

    /// The options of a user agent that opens a browser.
    public static let keys: [any AnyConfigurationKey] = [command, opensBrowser, isPrivate]

    /// The launcher that these options configure; nil when the user opens the URL.
    public static func configured(
        by options: ConfigurationObject,
        in launchEnvironment: LaunchEnvironment
    ) throws(ConfigurationError) -> BrowserLauncher? {
        guard try options[opensBrowser], launchEnvironment.mayOpenBrowser else { return nil }
        var launchEnvironment = launchEnvironment
        if try options[isPrivate] { launchEnvironment.wantsPrivateWindow = true }
        if let command = try options[command] {
            guard LaunchEnvironment.canInsertURL(into: command.dropFirst()) else {
                throw options.error(LaunchEnvironment.placeholderRule, at: Self.command)
            }
            guard launchEnvironment.wantsPrivateWindow else {
                return .command(command, environment: launchEnvironment.environment)
            }
            guard let command = PrivateWindow.command(command) else {
                // If the user, not the profile, wants a private window, the profile is valid, and no browser is opened.
                guard try options[isPrivate] else { return nil }
                throw options.error(
                    "no private window can be opened with this command, because the browser is unknown, or the URL is part of an option: add the private-window option to \"browser\", and remove \"private\"",
                    at: Self.command
                )
            }
            return .command(command, environment: launchEnvironment.environment)
        }
        guard case .command = launchEnvironment.browser else { return nil }
        return .system(launchEnvironment)
    }

    /// The availability of a user agent that opens a browser, or, failing that, shows the URL.
    public static func availability(
        _ options: ConfigurationObject,
        _ launchEnvironment: LaunchEnvironment
    ) throws(ConfigurationError) -> UserAgentFactory.Availability {
        guard try options[opensBrowser] else { return .available(because: "another program opens the URL") }
        if launchEnvironment.mayOpenBrowser, let words = try options[Self.command], let command = words.first {
            let path = launchEnvironment.locate(command)
            // If the profile itself requires a private window, the contradiction is an error: see `configured`.
            let isRequiredByProfile = try options[isPrivate]
            let isRequiredByUser = launchEnvironment.wantsPrivateWindow && !isRequiredByProfile
            let fault: String? =
                if let path {
                    if launchEnvironment.lacksDisplay(for: path) {
                        "needs a display, and neither DISPLAY nor WAYLAND_DISPLAY is set"
                    } else if isRequiredByUser, PrivateWindow.command(words) == nil {
                        "cannot open a private window with this command"
                    } else {
                        nil
                    }
                } else {
                    "is not installed"
                }
            if let fault {
                let reason = "the browser \(command), which the profile specifies, \(fault)"
                // The user can open the URL elsewhere.
                return launchEnvironment.hasTerminal
                    ? .lastResort(reason: reason)
                    : .unavailable(reason: "\(reason), and there is no terminal to display the URL")
            }
            return .available(because: "the profile specifies the browser \(command)")
        }
        var launchEnvironment = launchEnvironment
        if try options[isPrivate] { launchEnvironment.wantsPrivateWindow = true }
        switch launchEnvironment.browser {
        case .command(_, let reason): return .available(because: reason)
        case .none(let reason) where launchEnvironment.hasTerminal:
            let place =
                launchEnvironment.isRemoteShell
                ? ", and this is a remote shell" : launchEnvironment.isContainer ? ", and this is a container" : ""
            return .lastResort(reason: reason + place)
        // A user who disables the browser opens the URL elsewhere, which needs no terminal.
        case .none(let reason) where !launchEnvironment.mayOpenBrowser: return .lastResort(reason: reason)
        case .none(let reason):
            return .unavailable(reason: "\(reason), and there is no terminal to display the URL")
        }
    }
}

extension RedirectURI {
    /// Whether this is a loopback redirect URI.
    public var isLoopback: Bool { if case .loopback = kind { true } else { false } }
}
