public import AuthFlow
public import AuthFlowEssentials

/// Opens an address in the user's browser, as a detached process: this never waits for it and discards its output.
public struct BrowserLauncher: Sendable {
    /// Receives the reason when a program that was started turns out to have opened nothing.
    public typealias FailureHandler = @Sendable (_ reason: String) -> Void

    private let opener: @Sendable (_ url: String, _ onFailure: @escaping FailureHandler) throws -> String

    /// Creates a launcher from a function that opens an address and returns the name of what it started.
    public init(_ opener: @escaping @Sendable (_ url: String) throws -> String) {
        self.opener = { url, _ in try opener(url) }
    }

    private init(opener: @escaping @Sendable (_ url: String, _ onFailure: @escaping FailureHandler) throws -> String) {
        self.opener = opener
    }

    /// Opens an address.
    /// - Parameters:
    ///   - url: The address.
    ///   - onFailure: Called when the program that was started turns out to have failed, if that can be known.
    /// - Returns: The name of the program that was started.
    /// - Throws: ``/AuthFlow/AuthError`` with `user_agent_failed` when the address is not a web address, or no browser can be started.
    public func open(_ url: String, onFailure: @escaping FailureHandler = { _ in }) throws -> String {
        // A launcher hands other schemes to whatever program claims them.
        guard url.hasPrefix("https://") || url.hasPrefix("http://") else {
            throw AuthError(.userAgentFailed, "Only web addresses are opened in a browser.")
        }
        return try opener(url, onFailure)
    }

    /// Opens an address for a user agent, and reports the outcome: a browser that does not open is no reason to stop,
    /// because the user has been shown the address.
    public func open(_ url: String, reporter: FlowReporter) {
        func report(_ outcome: String) { reporter.report(.userAgentVisit, details: ["browser": outcome]) }
        do {
            report(
                try open(url) { reason in reporter.report(.userAgentVisit, details: ["browser": "none: \(reason)"]) }
            )
        } catch {
            report("none: \(error)")
        }
    }

    /// A launcher for the browser of a launch environment: ``/AuthFlow/LaunchEnvironment/browser-swift.property``.
    public static func system(_ launchEnvironment: LaunchEnvironment = .current()) -> BrowserLauncher {
        BrowserLauncher(opener: { url, onFailure in
            switch launchEnvironment.browser {
            case .none(let reason): throw AuthError(.userAgentFailed, reason)
            case .command(let command, _): try launch(command, url, launchEnvironment.environment, onFailure)
            }
        })
    }

    /// A launcher for a browser with a given command line.
    /// - Parameters:
    ///   - command: The program, by name or path, and its arguments. `%s` is replaced by the address; without it the
    ///     address is added as the last argument. No shell is involved.
    ///   - environment: The variables to find the program with; it is given those that a browser needs.
    public static func command(
        _ command: [String],
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> BrowserLauncher {
        BrowserLauncher(opener: { url, onFailure in try launch(command, url, environment, onFailure) })
    }

    private static func launch(
        _ command: [String],
        _ url: String,
        _ environment: [String: String],
        _ onFailure: @escaping FailureHandler
    ) throws -> String {
        // The path as given, with links not followed: what a program does may depend on its name.
        guard let name = command.first, let path = LaunchEnvironment.find(name, environment) else {
            throw AuthError(.userAgentFailed, "the program \"\(command.first ?? "")\" is not installed")
        }
        let given = command.dropFirst()
        let arguments = given.contains("%s") ? given.map { $0 == "%s" ? url : $0 } : given + [url]
        let start = ContinuousClock.now
        try DetachedProcess.start([path] + arguments, environment: environment.filter { isNeeded($0.key) }) { status in
            // A browser that was closed an hour later has not failed to open.
            guard status != 0, start.duration(to: .now) < .seconds(60) else { return }
            onFailure("\(name) ended with status \(status)")
        }
        return path
    }

    /// Whether a browser needs a variable to find the display and the user's settings. It inherits no others: the
    /// environment of a command-line tool may hold secrets.
    private static func isNeeded(_ name: String) -> Bool {
        let names: Set<String> = [
            "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "DISPLAY", "XAUTHORITY",
            "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "DESKTOP_SESSION", "BROWSER", "WSL_DISTRO_NAME",
            "WSL_INTEROP",
            "WSLENV", "VSCODE_IPC_HOOK_CLI",
        ]
        return names.contains(name) || name.hasPrefix("XDG_") || name.hasPrefix("LC_") || name.hasPrefix("KDE_")
            || name.hasPrefix("GNOME_")
    }
}
