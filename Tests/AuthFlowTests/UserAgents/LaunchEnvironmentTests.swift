import AuthFlow
import AuthFlowJSON
import AuthFlowLoopback
import Foundation
import Testing

@testable import AuthFlowConfiguration
@testable import AuthFlowDesktop

/// The user agent that `auto` chooses in typical environments.
@Suite struct LaunchEnvironmentTests {
    /// An environment, and the expected choice.
    struct Place: Sendable, CustomTestStringConvertible {
        let name: String
        var environment: [String: String] = [:]
        var terminal = true
        var container = false
        var wsl = false
        var programs: [String: String] = ["xdg-open": "/usr/bin/xdg-open"]
        var mayOpen = true
        var redirectURIs = ["http://127.0.0.1/callback"]
        /// The chosen agent; nil for none.
        let agent: String?
        /// The browser that is opened; nil if the user is only shown the URL.
        var browser: String?
        /// Part of the reason.
        let because: String

        var testDescription: String { name }

        var launchEnvironment: LaunchEnvironment {
            var launchEnvironment = LaunchEnvironment(
                environment: environment,
                hasTerminal: terminal,
                isContainer: container,
                isWSL: wsl,
                locate: { programs[$0] }
            )
            launchEnvironment.mayOpenBrowser = mayOpen
            return launchEnvironment
        }
    }

    private static let x11 = ["DISPLAY": ":0"]
    private static let ssh = ["SSH_CONNECTION": "192.0.2.7 50000 192.0.2.1 22", "USER": "alice"]

    static let places: [Place] = [
        Place(
            name: "desktop, X11",
            environment: x11,
            agent: "loopback",
            browser: "xdg-open",
            because: "DISPLAY is set"
        ),
        Place(
            name: "desktop, Wayland",
            environment: ["WAYLAND_DISPLAY": "wayland-0"],
            agent: "loopback",
            browser: "xdg-open",
            because: "WAYLAND_DISPLAY is set"
        ),
        Place(
            name: "desktop, started by another program",
            environment: x11,
            terminal: false,
            agent: "loopback",
            browser: "xdg-open",
            because: "DISPLAY is set"
        ),
        Place(
            name: "desktop without xdg-utils",
            environment: x11,
            programs: ["x-www-browser": "/usr/bin/firefox-esr"],
            agent: "loopback",
            browser: "x-www-browser",
            because: "x-www-browser can open"
        ),
        Place(
            name: "desktop whose browser is a text browser",
            environment: x11,
            programs: ["x-www-browser": "/usr/bin/w3m"],
            agent: "loopback",
            because: "is installed"
        ),
        Place(
            name: "desktop without a launcher",
            environment: x11,
            programs: [:],
            agent: "loopback",
            because: "none of"
        ),
        Place(
            name: "BROWSER",
            environment: ["DISPLAY": ":0", "BROWSER": "nope:chrome --new-window %s"],
            programs: ["chrome": "/opt/chrome"],
            agent: "loopback",
            browser: "chrome --new-window %s",
            because: "BROWSER is set"
        ),
        Place(
            name: "BROWSER is a path with spaces",
            environment: ["BROWSER": "/mnt/c/Program Files (x86)/Chrome/chrome.exe --new-window %s"],
            wsl: true,
            programs: ["/mnt/c/Program Files (x86)/Chrome/chrome.exe": "/mnt/c/Program Files (x86)/Chrome/chrome.exe"],
            agent: "loopback",
            browser: "/mnt/c/Program Files (x86)/Chrome/chrome.exe --new-window %s",
            because: "BROWSER is set"
        ),
        Place(
            name: "BROWSER has %s in a script",
            environment: ["DISPLAY": ":0", "BROWSER": "sh -c 'chrome %s'"],
            programs: ["sh": "/bin/sh", "xdg-open": "/usr/bin/xdg-open"],
            agent: "loopback",
            because: "in BROWSER, %s must be a separate argument"
        ),
        Place(
            name: "BROWSER has %s in a script, without a terminal",
            environment: ["DISPLAY": ":0", "BROWSER": "sh -c 'chrome %s'"],
            terminal: false,
            programs: ["sh": "/bin/sh", "xdg-open": "/usr/bin/xdg-open"],
            agent: nil,
            because: "in BROWSER, %s must be a separate argument"
        ),
        Place(
            name: "BROWSER has %s in a script, and another browser",
            environment: ["DISPLAY": ":0", "BROWSER": "sh -c 'chrome %s':chrome --new-window %s"],
            programs: ["sh": "/bin/sh", "chrome": "/opt/chrome"],
            agent: "loopback",
            browser: "chrome --new-window %s",
            because: "BROWSER is set"
        ),
        Place(
            name: "BROWSER is a name, and a program has a name with spaces",
            environment: ["BROWSER": "my browser"],
            programs: ["my browser": "/opt/my browser"],
            agent: "loopback",
            because: "BROWSER does not name an installed program"
        ),
        Place(
            name: "BROWSER is a text browser",
            environment: ["BROWSER": "lynx"],
            programs: ["lynx": "/usr/bin/lynx"],
            agent: "loopback",
            because: "text browser"
        ),
        Place(
            name: "BROWSER needs a display",
            environment: ["BROWSER": "firefox"],
            programs: ["firefox": "/usr/bin/firefox"],
            agent: "loopback",
            because: "needs a display"
        ),
        Place(
            name: "BROWSER is a custom script",
            environment: ssh.merging(["BROWSER": "my-opener"]) { $1 },
            programs: ["my-opener": "/opt/bin/my-opener"],
            agent: "loopback",
            browser: "my-opener",
            because: "BROWSER is set"
        ),
        Place(name: "remote shell", environment: ssh, agent: "loopback", because: "this is a remote shell"),
        Place(
            name: "remote shell with a forwarded display",
            environment: ssh.merging(["DISPLAY": "localhost:10.0"]) { $1 },
            agent: "loopback",
            browser: "xdg-open",
            because: "DISPLAY is set"
        ),
        Place(
            name: "remote window of VS Code",
            environment: ssh.merging([
                "VSCODE_IPC_HOOK_CLI": "/run/user/1000/vscode.sock", "BROWSER": "/vscode/bin/helpers/browser.sh",
            ]) { $1 },
            programs: ["/vscode/bin/helpers/browser.sh": "/vscode/bin/helpers/browser.sh"],
            agent: "loopback",
            browser: "/vscode/bin/helpers/browser.sh",
            because: "the editor opens URLs"
        ),
        Place(
            name: "codespace",
            environment: ["CODESPACES": "true", "BROWSER": "/vscode/browser.sh"],
            container: true,
            programs: ["/vscode/browser.sh": "/vscode/browser.sh"],
            agent: "loopback",
            browser: "/vscode/browser.sh",
            because: "the editor opens URLs"
        ),
        Place(name: "container", container: true, programs: [:], agent: "loopback", because: "this is a container"),
        Place(
            name: "container without a terminal",
            terminal: false,
            container: true,
            programs: [:],
            agent: nil,
            because: "no terminal"
        ),
        Place(
            name: "WSL",
            wsl: true,
            programs: ["wslview": "/usr/bin/wslview", "xdg-open": "/usr/bin/xdg-open"],
            agent: "loopback",
            browser: "wslview",
            because: "this is WSL"
        ),
        Place(
            name: "WSL with its own display",
            environment: x11,
            wsl: true,
            programs: ["xdg-open": "/usr/bin/xdg-open"],
            agent: "loopback",
            browser: "xdg-open",
            because: "DISPLAY"
        ),
        Place(name: "WSL without wslu", wsl: true, programs: [:], agent: "loopback", because: "none of wslview"),
        Place(name: "text console", agent: "loopback", because: "neither DISPLAY nor WAYLAND_DISPLAY"),
        Place(
            name: "empty BROWSER",
            environment: ["BROWSER": ""],
            agent: "loopback",
            because: "neither DISPLAY nor WAYLAND_DISPLAY"
        ),
        Place(name: "empty DISPLAY", environment: ["DISPLAY": ""], agent: "loopback", because: "neither DISPLAY"),
        Place(name: "CI or cron", environment: ["CI": "true"], terminal: false, agent: nil, because: "no terminal"),
        Place(
            name: "desktop, configured not to open a browser",
            environment: x11,
            mayOpen: false,
            agent: "loopback",
            because: "opening a browser is disabled"
        ),
        Place(
            name: "private-use scheme, nothing registered, console",
            environment: ["XDG_RUNTIME_DIR": "/tmp", "HOME": "/nonexistent"],
            redirectURIs: ["com.example.nobody:/callback"],
            agent: "paste",
            because: "copied to and from a browser"
        ),
        Place(
            name: "https redirect URI on a desktop",
            environment: ["XDG_RUNTIME_DIR": "/tmp", "DISPLAY": ":0"],
            redirectURIs: ["https://app.example.com/cb"],
            agent: "system-browser",
            browser: "xdg-open",
            because: "the redirect must be pasted"
        ),
        Place(
            name: "https redirect URI without a terminal",
            environment: ["XDG_RUNTIME_DIR": "/tmp", "DISPLAY": ":0"],
            terminal: false,
            redirectURIs: ["https://app.example.com/cb"],
            agent: nil,
            browser: "xdg-open",
            because: "in a browser"
        ),
        Place(
            name: "private-use scheme, nothing registered, no terminal",
            terminal: false,
            redirectURIs: ["com.example.nobody:/callback"],
            agent: nil,
            because: "no terminal to paste into"
        ),
    ]

    #if os(Linux)
    @Test(arguments: places) func choosesAUserAgentForEachEnvironment(_ place: Place) throws { try check(place) }

    @Test func choosesTheSystemBrowserWhenItsSchemeIsRegistered() throws {
        let home = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        defer { try? FileManager.default.removeItem(atPath: home) }
        let environment = ["HOME": home, "XDG_RUNTIME_DIR": "/tmp", "DISPLAY": ":0"]
        let handler = SchemeHandler(scheme: "com.example.other", environment: environment)
        let folder = URL(fileURLWithPath: handler.entryPath).deletingLastPathComponent()
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try Data().write(to: URL(fileURLWithPath: handler.entryPath))
        try check(
            Place(
                name: "registered",
                environment: environment,
                redirectURIs: ["com.example.other:/callback"],
                agent: "system-browser",
                browser: "xdg-open",
                because: "DISPLAY is set"
            )
        )
    }

    @Test func theSystemBrowserUsesTheRedirectURIWhoseSchemeIsRegistered() async throws {
        // Short, because the length of a socket's path is limited.
        let home = "/tmp/authflow-\(UUID().uuidString.prefix(8))"
        defer { try? FileManager.default.removeItem(atPath: home) }
        let environment = ["HOME": home, "XDG_RUNTIME_DIR": home, "DISPLAY": ":0"]
        let handler = SchemeHandler(scheme: "com.example.other", environment: environment)
        let folder = URL(fileURLWithPath: handler.entryPath).deletingLastPathComponent()
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try Data().write(to: URL(fileURLWithPath: handler.entryPath))
        let place = Place(
            name: "registered, not the first",
            environment: environment,
            redirectURIs: [
                "https://app.example.com/cb", "com.example.nobody:/callback", "com.example.other:/callback",
            ],
            agent: "system-browser",
            browser: "xdg-open",
            because: "DISPLAY is set"
        )
        try check(place)
        let source = ConfigurationSource(file: "authflow.json", directory: "/", text: Array("{}".utf8))
        let node = ConfigurationNode(json: [:], path: JSONPath(), source: source, environment: [:])
        let redirectURIs = try place.redirectURIs.map { try RedirectURI($0) }
        let agent = try UserAgentFactory.systemBrowser.make(
            ConfigurationObject(node),
            UserAgentContext(launchEnvironment: place.launchEnvironment, redirectURIs: redirectURIs)
        )
        let options = RedirectOptions(
            redirectURIs: redirectURIs,
            state: Secret("the-right-state"),
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
        try await agent.withRedirectSession(options) { session in
            #expect(session.redirectURI == "com.example.other:/callback")
        }
    }

    @Test func thePathOfTheBrowserIsOneArgument() {
        let path = "/mnt/c/Program Files/Mozilla Firefox/firefox.exe"
        let environment = LaunchEnvironment(environment: ["BROWSER": "\(path) -new-tab"], hasTerminal: true) {
            $0 == path ? path : nil
        }
        #expect(environment.browser == .command([path, "-new-tab"], because: "BROWSER is set"))
    }

    @Test func findsABrowserThatIsASnapUnderItsOwnName() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o755]
        #expect(FileManager.default.createFile(atPath: "\(folder)/snap", contents: Data(), attributes: attributes))
        try FileManager.default.createSymbolicLink(atPath: "\(folder)/chromium", withDestinationPath: "\(folder)/snap")
        let environment = LaunchEnvironment.current(environment: ["PATH": folder])
        #expect(environment.locate("chromium") == "\(folder)/chromium")
    }

    /// With a terminal, the user can open the displayed URL on another machine.
    @Test(arguments: [
        ("work-browser", false, true), ("missing-browser", false, false), ("missing-browser", true, true),
        ("firefox", false, false), ("firefox", true, true),
    ])
    func aUserAgentWhoseBrowserCannotStartNeedsATerminal(_ browser: String, hasTerminal: Bool, isUsed: Bool) throws {
        let text = """
            {"profiles": {"p": {"provider": "x", "client_id": "c", "user_agent": {"name": "loopback", "browser": ["\(browser)"]}}}}
            """
        let profile = try ConfigurationFile(text: Array(text.utf8), name: "authflow.json").profile("p")
        let explanation = try profile.userAgentExplanation(
            Self.components([.loopback]),
            context: UserAgentContext(
                launchEnvironment: LaunchEnvironment(
                    environment: browser == "firefox" ? [:] : Self.x11,
                    hasTerminal: hasTerminal
                ) { $0 == "missing-browser" ? nil : "/opt/\($0)" },
                redirectURIs: [RedirectURI("http://127.0.0.1/callback")]
            )
        )
        #expect((explanation.chosen?.hasPrefix("loopback") ?? false) == isUsed)
        let texts = explanation.reasons + [explanation.chosen ?? ""]
        #expect(texts.contains { $0.contains("is not installed") } == (browser == "missing-browser"), "\(explanation)")
        #expect(texts.contains { $0.contains("needs a display") } == (browser == "firefox"), "\(explanation)")
    }

    private static func components(_ userAgents: [UserAgentFactory]) -> ProfileComponents {
        let provider = ProviderFactory("x", keys: []) { _ in throw AuthError(.unsupported, "not here") }
        return ProfileComponents(providers: [provider], userAgents: userAgents)
    }

    private func check(_ place: Place) throws {
        let text = #"{"profiles": {"p": {"provider": "x", "client_id": "c"}}}"#
        let profile = try ConfigurationFile(text: Array(text.utf8), name: "authflow.json").profile("p")
        let explanation = try profile.userAgentExplanation(
            Self.components([.loopback, .systemBrowser, .paste]),
            context: UserAgentContext(
                launchEnvironment: place.launchEnvironment,
                redirectURIs: try place.redirectURIs.map { try RedirectURI($0) }
            )
        )
        #expect(explanation.chosen == place.agent)
        #expect(explanation.reasons.joined(separator: "; ").contains(place.because), "\(explanation.reasons)")
        let browser: String? =
            if case .command(let command, _) = place.launchEnvironment.browser { command.joined(separator: " ") } else {
                nil
            }
        #expect(browser == place.browser)
    }
    #endif

    @Test(arguments: [true, false]) func usesTheConfiguredBrowserOnlyIfABrowserMayBeOpened(_ mayOpen: Bool) throws {
        let json: JSON = ["browser": ["work-browser"]]
        let source = ConfigurationSource(file: "authflow.json", directory: "/", text: Array("{}".utf8))
        let node = ConfigurationNode(json: json, path: JSONPath(), source: source, environment: [:])
        var environment = LaunchEnvironment(environment: Self.x11, hasTerminal: true) { "/opt/\($0)" }
        environment.mayOpenBrowser = mayOpen
        // A private window, which is impossible in an unknown browser, is not requested.
        let launcher = try BrowserLauncher.configured(by: ConfigurationObject(node), in: environment)
        #expect((launcher != nil) == mayOpen)
    }

    /// The profile is valid unless it requests the private window itself.
    @Test(arguments: [["epiphany"], ["google-chrome", "--app=%s"]])
    func aConfiguredBrowserThatCannotOpenAPrivateWindowIsNotOpened(_ command: [String]) throws {
        let source = ConfigurationSource(file: "authflow.json", directory: "/", text: Array("{}".utf8))
        func options(_ json: JSON) -> ConfigurationObject {
            ConfigurationObject(ConfigurationNode(json: json, path: JSONPath(), source: source, environment: [:]))
        }
        let browser = JSON.array(command.map(JSON.string))
        var environment = LaunchEnvironment(environment: Self.x11, hasTerminal: false) { "/opt/\($0)" }
        environment.wantsPrivateWindow = true
        let launcher = try BrowserLauncher.configured(by: options(["browser": browser]), in: environment)
        #expect((launcher != nil) == false)
        let availability = try BrowserLauncher.availability(options(["browser": browser]), environment)
        guard case .unavailable(let reason) = availability else {
            Issue.record("The user agent is available without a terminal that shows the URL.")
            return
        }
        #expect(reason.contains("cannot open a private window"), "\(reason)")
        let error = #expect(throws: ConfigurationError.self) {
            try BrowserLauncher.configured(by: options(["browser": browser, "private": true]), in: environment)
        }
        #expect(error?.description.contains("remove \"private\"") == true, "\(error?.description ?? "")")
    }

    /// The URL is not inserted into a shell script, so no browser could be opened.
    @Test(arguments: [(["sh", "-c", "firefox %s"], false), (["sh", "-c", "firefox \"$0\"", "%s"], true)])
    func aBrowserCommandWithAPlaceholderInAScriptIsAConfigurationError(_ command: [String], _ isValid: Bool) throws {
        let source = ConfigurationSource(file: "authflow.json", directory: "/", text: Array("{}".utf8))
        let json: JSON = ["browser": .array(command.map(JSON.string))]
        let options = ConfigurationObject(
            ConfigurationNode(json: json, path: JSONPath(), source: source, environment: [:])
        )
        let environment = LaunchEnvironment(environment: Self.x11, hasTerminal: true) { "/opt/\($0)" }
        guard !isValid else {
            let launcher = try BrowserLauncher.configured(by: options, in: environment)
            #expect((launcher != nil) == true)
            return
        }
        let error = #expect(throws: ConfigurationError.self) {
            try BrowserLauncher.configured(by: options, in: environment)
        }
        #expect(error?.description.contains("%s must be a separate argument") == true, "\(error?.description ?? "")")
    }

    @Test func suggestsAnSSHPortForwardingCommandInARemoteShell() {
        var place = Place(name: "", environment: Self.ssh, agent: nil, because: "")
        #expect(
            place.launchEnvironment.forwardingCommand(port: 8400) == "ssh -N -L 8400:127.0.0.1:8400 alice@192.0.2.1"
        )
        #expect(
            place.launchEnvironment.forwardingCommand(port: 8400, host: "[::1]")
                == "ssh -N -L 8400:[::1]:8400 alice@192.0.2.1"
        )
        place.environment["SSH_CONNECTION"] = "192.0.2.7 50000 192.0.2.1 2222"
        #expect(
            place.launchEnvironment.forwardingCommand(port: 8400)
                == "ssh -N -L 8400:127.0.0.1:8400 -p 2222 alice@192.0.2.1"
        )
        place.environment["VSCODE_IPC_HOOK_CLI"] = "/run/vscode.sock"
        #expect(place.launchEnvironment.forwardingCommand(port: 8400) == nil)
        place.environment = Self.x11
        #expect(place.launchEnvironment.forwardingCommand(port: 8400) == nil)
    }
}
