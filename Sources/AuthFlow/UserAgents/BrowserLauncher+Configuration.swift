extension BrowserLauncher {
    /// The options of a user agent that opens a browser.
    ///
    /// ## Configuration keys
    /// - `browser` (array of strings, optional): The program to open, with its arguments, instead of the system's browser.
    /// - `open_browser` (boolean, optional): Whether to open a browser at all; true unless given.
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
        in surroundings: Surroundings
    ) -> BrowserLauncher? {
        guard options.flag("open_browser") != false, surroundings.mayOpenBrowser else { return nil }
        if let command = options.texts("browser") { return .command(command, environment: surroundings.environment) }
        guard case .command = surroundings.browser else { return nil }
        return .system(surroundings)
    }

    /// Whether a user agent that opens a browser, or else shows the address, can work.
    public static func availability(
        _ options: ConfigurationObject,
        _ surroundings: Surroundings
    ) -> UserAgentFactory.Availability {
        if options.flag("open_browser") == false { return .available(because: "another program opens the address") }
        if surroundings.mayOpenBrowser, let command = options.texts("browser")?.first {
            return .available(because: "the profile names the browser \(command)")
        }
        switch surroundings.browser {
        case .command(_, let reason): return .available(because: reason)
        case .none(let reason) where surroundings.hasTerminal:
            let place =
                surroundings.isRemoteShell
                ? ", and this is a remote shell" : surroundings.isContainer ? ", and this is a container" : ""
            return .doubtful(reason: reason + place)
        // A user who asks for no browser opens the address elsewhere, for which no terminal is needed.
        case .none(let reason) where !surroundings.mayOpenBrowser: return .doubtful(reason: reason)
        case .none(let reason):
            return .unavailable(reason: "\(reason), and there is no terminal to show the address at")
        }
    }
}

extension RedirectURI {
    /// Whether it is an address of this machine.
    public var isLoopback: Bool { if case .loopback = kind { true } else { false } }
}
