public import AuthFlow
import AuthFlowEssentials

/// Opens a URL in the user's browser, as a detached process: the launcher never waits for the process, and discards its output.
public struct BrowserLauncher: Sendable {
    /// Receives the reason when a program was started but failed to open the URL.
    public typealias FailureHandler = @Sendable (_ reason: String) -> Void

    private let opener: @Sendable (_ url: String, _ onFailure: @escaping FailureHandler) throws -> String

    /// Whether the launcher belongs to an app. An app does not show the URL to the user, so the user cannot open it if the launcher fails.
    let isOfApp: Bool

    /// Creates a launcher from a function that opens a URL and returns the name of the program that it started.
    public init(_ opener: @escaping @Sendable (_ url: String) throws -> String) {
        self.init(opener: { url, _ in try opener(url) })
    }

    /// Creates a launcher from a function that can also report a failure later.
    init(
        isOfApp: Bool = false,
        opener: @escaping @Sendable (_ url: String, _ onFailure: @escaping FailureHandler) throws -> String
    ) {
        self.isOfApp = isOfApp
        self.opener = opener
    }

    /// Opens a URL.
    /// - Parameters:
    ///   - url: The URL.
    ///   - onFailure: Called when the started program fails, if the failure can be detected.
    /// - Returns: The path or the name of the program that was started.
    /// - Throws: ``/AuthFlow/AuthError`` with `user_agent_failed` when the URL is not an http or https URL, or no browser can be started.
    public func open(_ url: String, onFailure: @escaping FailureHandler = { _ in }) throws -> String {
        // A launcher passes URLs with other schemes to any program that claims them.
        // A scheme is case-insensitive (RFC 3986 section 3.1), and an endpoint is sent as its provider writes it.
        guard ["https://", "http://"].contains(where: url.lowercased().hasPrefix) else {
            throw AuthError(.userAgentFailed, "Only http and https URLs can be opened in a browser.")
        }
        return try opener(url, onFailure)
    }

    /// Opens a URL for a user agent, and reports the outcome. A failure to open the browser is not an error, because the URL is
    /// also shown to the user.
    public func open(_ url: String, reporter: FlowReporter) {
        @Sendable func report(_ outcome: String) { reporter.report(.userAgentVisit, details: ["browser": outcome]) }
        do {
            report(try open(url) { report("none: \($0)") })
        } catch {
            report("none: \(error)")
        }
    }

    /// Opens a URL for a user agent of an app, reports the outcome, and waits until the task is cancelled.
    /// - Throws: ``/AuthFlow/AuthError`` with `user_agent_failed` when the browser does not open the URL; `CancellationError`.
    func openAndWait(_ url: String, reporter: FlowReporter) async throws -> String {
        let (failures, failure) = AsyncStream<String>.makeStream()
        let outcome = try open(url) { failure.yield($0) }
        reporter.report(.userAgentVisit, details: ["browser": outcome])
        for await reason in failures {
            reporter.report(.userAgentVisit, details: ["browser": "none: \(reason)"])
            throw AuthError(.userAgentFailed, "The browser could not be opened: \(reason).")
        }
        withExtendedLifetime(failure) {}
        throw CancellationError()
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
    ///   - command: The program, by name or path, and its arguments. `%s` is replaced by the URL if it is a separate argument or part of an
    ///     option such as `--app=%s`, and rejected elsewhere; without it, the URL is appended as the last argument. No shell is involved.
    ///   - environment: The environment variables for finding the program, which receives only those that a browser needs.
    public static func command(
        _ command: [String],
        environment: [String: String] = HostServices.system.environment
    ) -> BrowserLauncher {
        BrowserLauncher(opener: { url, onFailure in try launch(command, url, environment, onFailure) })
    }

    private static func launch(
        _ command: [String],
        _ url: String,
        _ environment: [String: String],
        _ onFailure: @escaping FailureHandler
    ) throws -> String {
        // Symbolic links in the path are not resolved, because a program's behavior may depend on the name of the link.
        guard let name = command.first, let path = LaunchEnvironment.find(name, environment) else {
            throw AuthError(.userAgentFailed, "the program \"\(command.first ?? "")\" is not installed")
        }
        let given = command.dropFirst()
        guard LaunchEnvironment.canInsertURL(into: given) else {
            throw AuthError(.userAgentFailed, "in the browser command, \(LaunchEnvironment.placeholderRule)")
        }
        let replaced = given.map { LaunchEnvironment.isPlaceholder($0) ? $0.replacing("%s", with: url) : $0 }
        let arguments = given.contains(where: LaunchEnvironment.isPlaceholder) ? replaced : given + [url]
        let start = ContinuousClock.now
        try DetachedProcess.start([path] + arguments, environment: environment.filter { isNeeded($0.key) }) { status in
            // A browser that exits much later has opened the URL, regardless of its exit status.
            guard status != 0, start.duration(to: .now) < .seconds(60) else { return }
            onFailure("\(name) exited with status \(status)")
        }
        return path
    }

    /// Whether a browser needs a variable to find the display, its running instance, the network and the user's settings. Other variables are
    /// not inherited, because the environment of a command-line tool may contain secrets.
    private static func isNeeded(_ name: String) -> Bool {
        names.contains(name) || proxyNames.contains(name.lowercased()) || name.hasPrefix("XDG_")
            || name.hasPrefix("LC_") || name.hasPrefix("KDE_") || name.hasPrefix("GNOME_")
    }

    private static let names: Set<String> = [
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "DISPLAY", "XAUTHORITY",
        "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "DESKTOP_SESSION", "BROWSER",
        // WSL and VS Code
        "WSL_DISTRO_NAME", "WSL_INTEROP", "WSLENV", "VSCODE_IPC_HOOK_CLI",
        // The display protocol. Firefox finds its running instance only if both use the same protocol.
        "MOZ_ENABLE_WAYLAND", "MOZ_DBUS_REMOTE", "GDK_BACKEND", "QT_QPA_PLATFORM", "NIXOS_OZONE_WL",
        // Input methods, without which some names cannot be entered.
        "XMODIFIERS", "GTK_IM_MODULE", "QT_IM_MODULE",
        // Kerberos, with which some providers sign users in (RFC 4559).
        "KRB5CCNAME", "KRB5_CONFIG",
    ]

    /// Without a desktop's proxy settings, browsers use these variables.
    private static let proxyNames: Set<String> = ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "auto_proxy"]
}
