import AuthFlowEssentials
public import AuthFlowHTTP
import AuthFlowSystem

/// The aspects of a program's environment that are relevant to showing a page to the user.
///
/// User agents use it to determine whether they are available; tests create custom environments.
public struct LaunchEnvironment: Sendable {
    /// The environment variables.
    public var environment: [String: String]

    /// Whether a user can read the program's standard error output, and respond to it.
    public var hasTerminal: Bool

    /// Whether the program runs in a container, whose ports a browser outside it cannot reach directly.
    package var isContainer: Bool

    /// Whether this is the Windows Subsystem for Linux.
    package var isWSL: Bool

    /// Whether a browser may be opened at all.
    public var mayOpenBrowser = true

    /// Whether any browser that is opened must use a private window.
    public var wantsPrivateWindow = false

    /// Returns the path of a program, given its name or path, with symbolic links resolved; nil when it is not installed.
    package let locate: @Sendable (_ program: String) -> String?

    /// Creates a launch environment.
    /// - Parameters:
    ///   - environment: The environment variables.
    ///   - hasTerminal: Whether a user can read the program's standard error output, and respond to it.
    ///   - isContainer: Whether the program runs in a container.
    ///   - isWSL: Whether this is the Windows Subsystem for Linux.
    ///   - locate: Returns the path of a program, with symbolic links resolved; nil when it is not installed.
    package init(
        environment: [String: String],
        hasTerminal: Bool,
        isContainer: Bool = false,
        isWSL: Bool = false,
        locate: @escaping @Sendable (_ program: String) -> String?
    ) {
        self.environment = environment
        self.hasTerminal = hasTerminal
        self.isContainer = isContainer
        self.isWSL = isWSL
        self.locate = locate
    }

    /// The launch environment of this process.
    /// - Parameter environment: The environment variables.
    public static func current(
        environment: [String: String] = HostServices.system.environment
    ) -> LaunchEnvironment {
        let marks = ["/.dockerenv", "/run/.containerenv"]
        let kernel = FileManager.default.contents(atPath: "/proc/sys/kernel/osrelease") ?? Data()
        let isContainer =
            marks.contains(where: FileManager.default.fileExists) || environment["container"] != nil
            || environment["KUBERNETES_SERVICE_HOST"] != nil
        return LaunchEnvironment(
            environment: environment,
            // A user who cannot see a prompt cannot respond to it.
            hasTerminal: isatty(STDERR_FILENO) == 1 && hasControllingTerminal,
            isContainer: isContainer,
            // A container on Windows has the same kernel, but cannot open the user's browser.
            isWSL: environment["WSL_DISTRO_NAME"] != nil
                || !isContainer && String(decoding: kernel, as: UTF8.self).lowercased().contains("microsoft"),
            // Symbolic links are resolved, because `x-www-browser` may be a link to a text browser.
            locate: { find($0, environment).map(resolved) }
        )
    }

    /// A path with symbolic links resolved, except for the link of a snap: every snap is a link to the program `snap`, which runs the snap of
    /// that name.
    private static func resolved(_ path: String) -> String {
        let target = URL(fileURLWithPath: path).resolvingSymlinksInPath()
        return target.lastPathComponent == "snap" ? path : target.path
    }

    /// Whether the user is connected from another machine, through a remote shell.
    package var isRemoteShell: Bool { ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"].contains(where: has) }

    /// Whether this is a terminal in a remote window of Visual Studio Code, which
    /// opens URLs on the user's machine and forwards ports of this machine there.
    package var isRemoteEditor: Bool { has("VSCODE_IPC_HOOK_CLI") || has("CODESPACES") }

    /// The method of opening a browser in this environment.
    public enum Browser: Sendable, Hashable {
        /// With this command. The URL replaces `%s`, which may be a separate argument or part of an option; without `%s`, it is appended.
        case command([String], because: String)
        /// Not at all.
        case none(because: String)
    }

    /// The command that opens a browser: on Linux, the command in `BROWSER`; otherwise, the system's launcher if a display is available.
    public var browser: Browser {
        guard mayOpenBrowser else { return .none(because: "opening a browser is disabled") }
        if wantsPrivateWindow { return privateBrowser }
        #if os(macOS)
        guard !isRemoteShell else {
            return .none(because: "a browser would open on the display of this machine, not on the user's")
        }
        return .command(["/usr/bin/open"], because: "this is a desktop")
        #elseif os(Linux)
        return linuxBrowser
        #else
        return .none(because: "programs cannot open a browser on this system")
        #endif
    }

    /// A browser with a known private-window option: the browser that `BROWSER` names, the desktop's default browser,
    /// or another installed browser.
    private var privateBrowser: Browser {
        #if os(Linux)
        if case .command(let words, let reason)? = browserFromEnvironment {
            return PrivateWindow.command(words).map { .command($0, because: reason) }
                ?? .none(because: "BROWSER names a browser whose private-window option is unknown")
        }
        guard let screen else { return Self.noDisplay }
        let chosen = PrivateWindow.defaultProgram(environment)
        for program in (chosen.map { [$0] } ?? []) + PrivateWindow.programs where locate(program) != nil {
            guard let command = PrivateWindow.command([program]) else { continue }
            return .command(command, because: "\(program) can open a private window (\(screen))")
        }
        return .none(because: "no browser with a known private-window option is installed")
        #else
        return .none(because: "programs cannot open a private window on this system")
        #endif
    }

    private var linuxBrowser: Browser {
        let configured = browserFromEnvironment
        if case .command(let words, let reason)? = configured {
            // `xdg-open` also reads BROWSER, and would insert the URL in the same place, so it is not used instead.
            return Self.canInsertURL(into: words.dropFirst())
                ? .command(words, because: reason) : .none(because: "in BROWSER, \(Self.placeholderRule)")
        }
        guard let screen else { return configured ?? Self.noDisplay }
        // Under WSL the user's browser runs on the Windows side.
        let launchers = isWSL ? ["wslview", "xdg-open", "x-www-browser"] : ["xdg-open", "x-www-browser", "wslview"]
        for launcher in launchers {
            guard let path = locate(launcher), !Self.isTextBrowser(path) else { continue }
            return .command([launcher], because: "\(launcher) can open a browser (\(screen))")
        }
        return .none(because: "none of \(launchers.joined(separator: ", ")) is installed")
    }

    /// The places in a browser command where `%s` is replaced by the URL, for messages.
    package static let placeholderRule =
        "%s must be a separate argument or part of an option without spaces, such as --app=%s"

    /// Whether `%s` in an argument of a browser command is replaced by the URL. Elsewhere, such as in a shell script, inserting the URL would be
    /// unsafe.
    package static func isPlaceholder(_ argument: String) -> Bool {
        argument == "%s" || argument.hasPrefix("-") && argument.contains("%s") && !argument.contains(" ")
    }

    /// Whether the URL can be inserted into the arguments of a browser command, or appended to them.
    package static func canInsertURL(into arguments: ArraySlice<String>) -> Bool {
        arguments.contains(where: isPlaceholder) || !arguments.contains { $0.contains("%s") }
    }

    private static let noDisplay = Browser.none(
        because: "no display is available: neither DISPLAY nor WAYLAND_DISPLAY is set"
    )

    /// The first usable command in `BROWSER`, a list separated by colons, or the reason why none is usable; nil when the variable
    /// is not set. A command into which the URL cannot be inserted is returned only if no other command is usable.
    private var browserFromEnvironment: Browser? {
        guard let value = environment["BROWSER"], !value.isEmpty else { return nil }
        var reason = "BROWSER does not name an installed program"
        var misplaced: Browser?
        for command in value.split(separator: ":") {
            guard let words = installedCommand(command), let path = locate(words[0]) else { continue }
            if Self.isTextBrowser(path) {
                reason = "BROWSER names a text browser, which would take over the terminal"
            } else if lacksDisplay(for: path) {
                reason = "BROWSER names a browser that needs a display, and neither DISPLAY nor WAYLAND_DISPLAY is set"
            } else {
                let found = Browser.command(
                    words,
                    because: isRemoteEditor ? "the editor opens URLs" : "BROWSER is set"
                )
                if Self.canInsertURL(into: words.dropFirst()) { return found }
                misplaced = misplaced ?? found
            }
        }
        return misplaced ?? Browser.none(because: reason)
    }

    /// The installed program of a command in `BROWSER` and its arguments; nil when the program is not installed. A path may contain spaces, as
    /// under WSL: `/mnt/c/Program Files/Mozilla Firefox/firefox.exe`.
    private func installedCommand(_ command: Substring) -> [String]? {
        let words = command.split(separator: " ").map(String.init)
        for count in words.indices.map({ $0 + 1 }).prefix(command.hasPrefix("/") ? words.count : 1) {
            let program = words.prefix(count).joined(separator: " ")
            if locate(program) != nil { return [program] + words.dropFirst(count) }
        }
        return nil
    }

    /// Whether a program is a browser that needs a display, and no display is available.
    /// - Parameter path: The path of the program.
    package func lacksDisplay(for path: String) -> Bool {
        #if os(Linux)
        screen == nil && Self.isGraphicalBrowser(path)
        #else
        false
        #endif
    }

    private var screen: String? {
        if has("WAYLAND_DISPLAY") { return "WAYLAND_DISPLAY is set" }
        if has("DISPLAY") { return "DISPLAY is set" }
        return isWSL ? "this is WSL" : nil
    }

    /// The SSH port-forwarding command for a port on this machine, for the user's browser; nil when none is needed.
    /// - Parameters:
    ///   - port: The port to forward, on this machine.
    ///   - address: The loopback address on which this program listens, in URL notation.
    package func forwardingCommand(port: Int, host address: String = "127.0.0.1") -> String? {
        guard isRemoteShell, !isRemoteEditor else { return nil }
        // SSH_CONNECTION: client address, client port, server address, server port.
        let connection = (environment["SSH_CONNECTION"] ?? "").split(separator: " ")
        let host = connection.count == 4 ? String(connection[2]) : "HOST"
        let server = connection.count == 4 ? UInt16(connection[3]) ?? 22 : 22
        let option = server == 22 ? "" : "-p \(server) "
        let user = environment["USER"].map { "\($0)@" } ?? ""
        return "ssh -N -L \(port):\(address):\(port) \(option)\(DisplayText.sanitized("\(user)\(host)", limit: 200))"
    }

    private func has(_ name: String) -> Bool { environment[name]?.isEmpty == false }

    private static func isTextBrowser(_ path: String) -> Bool {
        ["w3m", "lynx", "links", "links2", "elinks", "www-browser", "browsh"].contains(name(path))
    }

    private static func isGraphicalBrowser(_ path: String) -> Bool {
        (PrivateWindow.programs + ["brave", "vivaldi", "epiphany", "konqueror", "falkon"]).contains(String(name(path)))
    }

    private static func name(_ path: String) -> Substring {
        path[(path.lastIndex(of: "/").map(path.index(after:)) ?? path.startIndex)...]
    }

    private static var hasControllingTerminal: Bool {
        let terminal = unsafe open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard terminal >= 0 else { return false }
        close(terminal)
        return true
    }

    /// Finds a program as a shell would, but not in relative directories of `PATH`, because they depend on the working directory of this
    /// program.
    package static func find(_ name: String, _ environment: [String: String]) -> String? {
        let folders = (environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin").split(separator: ":")
            .filter { $0.hasPrefix("/") }
        let paths = name.contains("/") ? [name] : folders.map { "\($0)/\(name)" }
        return paths.first { path in
            var status = stat()
            let isFile = unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
            return isFile && FileManager.default.isExecutableFile(atPath: path)
        }
    }
}

extension LaunchEnvironment: CustomStringConvertible, NonReflectable {
    /// The detected values, without the environment variables, which may contain secrets.
    public var description: String {
        "terminal: \(hasTerminal), container: \(isContainer), WSL: \(isWSL), browser: \(browser)"
    }
}
