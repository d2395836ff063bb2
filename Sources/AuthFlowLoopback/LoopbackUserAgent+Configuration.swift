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
        return UserAgentFactory("loopback", keys: keys) { options in
            guard options.flag("open_browser") != false else { return LoopbackUserAgent(launcher: nil) }
            return LoopbackUserAgent(launcher: options.texts("browser").map { .command($0) } ?? .system())
        }
    }
}
