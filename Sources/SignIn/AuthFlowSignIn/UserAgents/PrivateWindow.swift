import AuthFlowEssentials
import AuthFlowHTTP

/// Private browser windows, which share no cookies with normal windows, and discard their cookies when closed. The option depends on the browser.
package enum PrivateWindow {
    private static let options = [
        (
            option: "--incognito",
            programs: [
                "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "brave-browser",
                "vivaldi-stable",
            ]
        ),
        (option: "--private-window", programs: ["firefox", "firefox-esr", "librewolf"]),
        (option: "--inprivate", programs: ["microsoft-edge", "microsoft-edge-stable"]),
        (option: "--private", programs: ["opera"]),
    ]

    /// The supported browsers, in search order.
    static let programs = options.flatMap(\.programs)

    /// The command that opens a private window; nil for an unknown browser.
    /// - Parameter command: The command that opens a window.
    package static func command(_ command: [String]) -> [String]? {
        guard let program = command.first else { return nil }
        let name = String(program.split(separator: "/").last ?? "")
        guard let option = options.first(where: { $0.programs.contains(name) })?.option else { return nil }
        // An argument such as --app=%s opens a separate window, to which the option might not apply.
        guard !command.contains(where: { $0 != "%s" && $0.contains("%s") }) else { return nil }
        // Firefox expects the URL as the value of the option.
        return [program] + command.dropFirst().filter { $0 != "%s" } + [option]
    }

    /// The user's default browser (freedesktop.org's MIME Applications specification).
    /// - Returns: The name of the default browser's executable; nil when no default browser is selected, or the browser is unknown.
    static func defaultProgram(_ environment: [String: String]) -> String? {
        let directory = HomeDirectory.base("XDG_CONFIG_HOME", ".config", environment)
        guard let bytes = BoundedFile.contents(atPath: "\(directory)/mimeapps.list", maximumSize: 64 * 1024) else {
            return nil
        }
        var isDefaults = false
        for line in String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline) {
            if line.hasPrefix("[") { isDefaults = line == "[Default Applications]" }
            guard isDefaults, line.hasPrefix("x-scheme-handler/https=") else { continue }
            let entries = line.drop { $0 != "=" }.dropFirst().split(separator: ";")
            return entries.lazy.map { $0.hasSuffix(".desktop") ? program(ofEntry: $0.dropLast(8)) : "" }.first(
                where: programs.contains
            )
        }
        return nil
    }

    /// The name of the executable of a desktop entry.
    private static func program(ofEntry name: Substring) -> String {
        // snapd names an entry after the snap and its app, and the app that has the same name as the snap has that name as its command.
        let parts = name.split(separator: "_")
        if parts.count == 2, parts[0] == parts[1] { return String(parts[0]) }
        return reversedNames[String(name)] ?? String(name)
    }

    /// The executables of entries that are named after a domain, as the Desktop Entry Specification recommends. Fedora's package of Firefox has
    /// such an entry.
    private static let reversedNames = [
        "org.mozilla.firefox": "firefox", "org.chromium.Chromium": "chromium", "com.google.Chrome": "google-chrome",
        "com.microsoft.Edge": "microsoft-edge", "com.brave.Browser": "brave-browser",
    ]
}
