import AuthFlow
public import Foundation

/// Opens an address in the person's browser, detached: it is never waited for, and what it prints is thrown away.
public struct BrowserLauncher: Sendable {
    private let opener: @Sendable (_ url: String) throws -> String

    /// Creates a launcher from a function that opens an address and returns the name of what it started.
    public init(_ opener: @escaping @Sendable (_ url: String) throws -> String) {
        self.opener = opener
    }

    /// Opens an address.
    /// - Returns: The name of the program that was started.
    /// - Throws: ``AuthFlow/AuthError`` when the address is not a web address, or no browser can be started.
    public func open(_ url: String) throws -> String {
        // A launcher hands other schemes to whatever program claims them.
        guard url.hasPrefix("https://") || url.hasPrefix("http://") else {
            throw AuthError(.userAgentFailed, "Only web addresses are opened in a browser.")
        }
        return try opener(url)
    }

    /// The system's way of opening a browser: `open` on macOS; elsewhere `xdg-open`, `x-www-browser` or `sensible-browser`.
    public static func system(environment: [String: String] = ProcessInfo.processInfo.environment) -> BrowserLauncher {
        #if os(macOS)
        let names = ["open"]
        #else
        let names = ["xdg-open", "x-www-browser", "sensible-browser"]
        #endif
        return BrowserLauncher { url in
            guard let program = names.lazy.compactMap({ find($0, environment) }).first else {
                throw AuthError(.userAgentFailed, "none of \(names.joined(separator: ", ")) is installed")
            }
            return try launch([program], url, environment)
        }
    }

    /// A browser by its command line, to which the address is added as the last argument.
    /// - Parameters:
    ///   - command: The program, by name or path, and its arguments. No shell is involved.
    ///   - environment: Where to look for it, and what it is given of it.
    public static func command(
        _ command: [String],
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> BrowserLauncher {
        BrowserLauncher { url in
            guard let name = command.first, let program = find(name, environment) else {
                throw AuthError(.userAgentFailed, "the program \"\(command.first ?? "")\" is not installed")
            }
            return try launch([program] + command.dropFirst(), url, environment)
        }
    }

    private static func find(_ name: String, _ environment: [String: String]) -> String? {
        if name.contains("/") { return FileManager.default.isExecutableFile(atPath: name) ? name : nil }
        let folders = (environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin").split(separator: ":")
        return folders.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    private static func launch(_ command: [String], _ url: String, _ environment: [String: String]) throws -> String {
        try DetachedProcess.start(command + [url], environment: environment.filter { isNeeded($0.key) })
        return command[0]
    }

    /// What a browser needs to find the screen and the person's settings. Nothing else: the environment of a command-line
    /// tool is where people keep secrets.
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
