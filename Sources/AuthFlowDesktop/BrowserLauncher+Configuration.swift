public import AuthFlow

extension BrowserLauncher {
    /// The options of a user agent that opens a browser.
    ///
    /// ## Configuration keys
    /// - `browser` (array of strings, optional): The program to open, with its arguments, instead of the system's browser.
    /// - `open_browser` (boolean, optional): Whether to open a browser at all; default: true.
    public static var keys: [ConfigurationKey] {
        [
            ConfigurationKey(
                "browser",
                .list(.text),
                "The program to open, with its arguments, instead of the system's browser."
            ),
            ConfigurationKey(
                "open_browser",
                .flag,
                "Whether to open a browser at all; otherwise only the address is shown."
            ),
        ]
    }

    /// The launcher that these options ask for; nil to leave it to the user.
    public static func configured(
        by options: ConfigurationObject,
        in launchEnvironment: LaunchEnvironment
    ) -> BrowserLauncher? {
        guard options.flag("open_browser") != false, launchEnvironment.mayOpenBrowser else { return nil }
        if let command = options.texts("browser") {
            return .command(command, environment: launchEnvironment.environment)
        }
        guard case .command = launchEnvironment.browser else { return nil }
        return .system(launchEnvironment)
    }

    /// Whether a user agent that opens a browser, or else shows the address, can work.
    public static func availability(
        _ options: ConfigurationObject,
        _ launchEnvironment: LaunchEnvironment
    ) -> UserAgentFactory.Availability {
        if options.flag("open_browser") == false { return .available(because: "another program opens the address") }
        if launchEnvironment.mayOpenBrowser, let command = options.texts("browser")?.first {
            return .available(because: "the profile names the browser \(command)")
        }
        switch launchEnvironment.browser {
        case .command(_, let reason): return .available(because: reason)
        case .none(let reason) where launchEnvironment.hasTerminal:
            let place =
                launchEnvironment.isRemoteShell
                ? ", and this is a remote shell" : launchEnvironment.isContainer ? ", and this is a container" : ""
            return .lastResort(reason: reason + place)
        // A user who asks for no browser opens the address elsewhere, for which no terminal is needed.
        case .none(let reason) where !launchEnvironment.mayOpenBrowser: return .lastResort(reason: reason)
        case .none(let reason):
            return .unavailable(reason: "\(reason), and there is no terminal to show the address at")
        }
    }
}

extension RedirectURI {
    /// Whether it is an address of this machine.
    public var isLoopback: Bool { if case .loopback = kind { true } else { false } }
}
