public import AuthFlow

extension UserAgentFactory {
    /// `loopback`: the person's browser, and a port of this machine for the redirect.
    ///
    /// ## Configuration keys
    /// - `browser` (array of strings, optional): The program to open, with its arguments, instead of the system's browser.
    /// - `open_browser` (boolean, optional): Whether to open a browser at all; true unless given.
    public static var loopback: UserAgentFactory {
        let keys = [
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
        return UserAgentFactory("loopback", keys: keys, availability: availability) { options in
            guard options.flag("open_browser") != false else { return LoopbackUserAgent(launcher: nil) }
            return LoopbackUserAgent(launcher: options.texts("browser").map { .command($0) } ?? .system())
        }
    }

    /// Without a screen the address can still be shown, and opened by somebody who has a browser on this very machine.
    @Sendable private static func availability(
        _ options: ConfigurationObject,
        _ environment: [String: String]
    ) -> Availability {
        #if os(Linux)
        let signs = ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER"]
        guard !options.has("browser"), !options.has("open_browser"),
            signs.allSatisfy({ environment[$0, default: ""].isEmpty })
        else { return .available }
        return .doubtful(reason: "no browser can be opened here (neither DISPLAY nor WAYLAND_DISPLAY is set)")
        #else
        return .available
        #endif
    }
}
