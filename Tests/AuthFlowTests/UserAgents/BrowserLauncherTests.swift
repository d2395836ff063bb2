#if os(Linux)
import AuthFlow
@testable import AuthFlowDesktop
import Foundation
import Glibc
import Expectations
import Testing

/// Starting browser programs, with their arguments and environment.
@Suite struct BrowserLauncherTests {
    /// Opens a URL with a program that records its arguments and then fails, and returns the record and the reason
    /// for the failure.
    private func open(_ url: String, _ arguments: [String], environment: [String: String]) async throws -> (
        note: String, reason: String
    ) {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        defer { try? FileManager.default.removeItem(atPath: file) }
        let script = """
            import os, sys
            with open(sys.argv[1], "w") as note:
                print(*sys.argv[2:], sep="\\n", file=note)
                print(*sorted(os.environ), sep="\\n", file=note)
                print("new session" if os.getsid(0) == os.getpid() else "the test's session", file=note)
                for name in set(os.listdir("/proc/self/fd")) - {str(note.fileno())}:
                    if os.path.exists("/proc/self/fd/" + name):
                        print("open:", os.readlink("/proc/self/fd/" + name), file=note)
            sys.exit(3)
            """
        let launcher = BrowserLauncher.command(["python3", "-c", script, file] + arguments, environment: environment)
        let (reasons, reason) = AsyncStream<String>.makeStream()
        _ = try launcher.open(url) { reason.yield($0) }
        for await why in reasons { return (try String(contentsOfFile: file, encoding: .utf8), why) }
        throw CancellationError()
    }

    @Test func startsABrowserWithAMinimalEnvironment() async throws {
        let environment = [
            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "DISPLAY": ":0",
            "XDG_RUNTIME_DIR": "/run/user/1",
            "GH_TOKEN": "hunter2", "AWS_SECRET_ACCESS_KEY": "hunter2", "LD_PRELOAD": "", "PASSWORD": "hunter2",
        ]
        // An open file descriptor, like the loopback listener's; concurrent tests open further descriptors.
        let descriptor = unsafe Glibc.open("/etc/passwd", O_RDONLY)
        defer { close(descriptor) }
        let (note, reason) = try await open("https://id.example.com/?a=b&c=%20d", [], environment: environment)
        let lines = note.split(separator: "\n").map(String.init)
        #expect(lines.first == "https://id.example.com/?a=b&c=%20d")
        #expect(lines.contains("DISPLAY"))
        #expect(lines.contains("XDG_RUNTIME_DIR"))
        for name in ["GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "PASSWORD"] { #expect(!lines.contains(name)) }
        // Ctrl-C in the terminal does not terminate the browser, and the browser inherits no open file descriptors.
        #expect(lines.contains("new session"))
        #expect(Set(lines.filter { $0.hasPrefix("open:") }) == ["open: /dev/null"])
        #expect(reason == "python3 exited with status 3")
    }

    /// Without them, Firefox reports that it is already running, a page cannot be loaded behind a proxy, a name cannot be entered with an input
    /// method, and a Kerberos ticket is not found.
    @Test func aBrowserReceivesTheVariablesOfTheDisplayTheNetworkAndTheInputMethod() async throws {
        let needed = [
            "MOZ_ENABLE_WAYLAND", "GDK_BACKEND", "https_proxy", "HTTP_PROXY", "no_proxy", "GTK_IM_MODULE", "XMODIFIERS",
            "KRB5CCNAME",
        ]
        var environment = ["PATH": "/usr/local/bin:/usr/bin:/bin", "MOZ_SECRET": "hunter2", "MY_HTTP_PROXY": "hunter2"]
        for name in needed { environment[name] = "1" }
        let (note, _) = try await open("https://id.example.com/", [], environment: environment)
        let lines = Set(note.split(separator: "\n").map(String.init))
        #expect(lines.isSuperset(of: needed))
        #expect(lines.isDisjoint(with: ["MOZ_SECRET", "MY_HTTP_PROXY"]))
    }

    @Test func replacesThePlaceholderWithTheURL() async throws {
        let environment = ["PATH": "/usr/local/bin:/usr/bin:/bin"]
        let (note, _) = try await open("https://id.example.com/", ["--new", "%s", "--last"], environment: environment)
        #expect(note.hasPrefix("--new\nhttps://id.example.com/\n--last\n"))
        let (app, _) = try await open("https://id.example.com/", ["--app=%s"], environment: environment)
        #expect(app.hasPrefix("--app=https://id.example.com/\n"))
        // In a script, %s is not a placeholder.
        let (script, _) = try await open("https://id.example.com/", ["printf %s", "%s"], environment: environment)
        #expect(script.hasPrefix("printf %s\nhttps://id.example.com/\n"))
        expectError(.userAgentFailed) {
            try BrowserLauncher.command(["true", "printf %s"], environment: environment).open("https://id.example.com/")
        }
        // The URL is not interpreted by a shell.
        let (other, _) = try await open("https://id.example.com/?$(id)`id`;'\"", [], environment: environment)
        #expect(other.hasPrefix("https://id.example.com/?$(id)`id`;'\"\n"))
    }

    @Test(arguments: ["file:///etc/passwd", "com.example.app:/x", "javascript:alert(1)", "-x", ""])
    func opensOnlyWebURLs(_ url: String) {
        expectError(.userAgentFailed) { try BrowserLauncher.command(["true"]).open(url) }
    }

    @Test func opensAnEndpointWhoseSchemeIsInUpperCase() async throws {
        let environment = ["PATH": "/usr/local/bin:/usr/bin:/bin"]
        let (note, _) = try await open("HTTPS://id.example.com/", [], environment: environment)
        #expect(note.hasPrefix("HTTPS://id.example.com/\n"))
    }

    @Test func reportsNoFailureOfAProgramThatSucceeds() async throws {
        /// Finishes the stream when the launcher can no longer report a failure.
        final class Reporter: Sendable {
            let reason: AsyncStream<String>.Continuation
            init(_ reason: AsyncStream<String>.Continuation) { self.reason = reason }
            deinit { reason.finish() }
        }
        func start(_ reporter: Reporter) throws {
            let launcher = BrowserLauncher.command(["true"], environment: ["PATH": "/usr/local/bin:/usr/bin:/bin"])
            _ = try launcher.open("https://id.example.com/") { reporter.reason.yield($0) }
        }
        let (reasons, reason) = AsyncStream<String>.makeStream()
        try start(Reporter(reason))
        for await why in reasons { Issue.record("\(why)") }
    }

    @Test("If the system does not open the URL for an app, the visit ends", .timeLimit(.minutes(1)))
    func aFailureEndsTheVisitOfAnApp() async throws {
        let launcher = BrowserLauncher(isOfApp: true) { _, onFailure in
            Task { onFailure("the system did not open the URL") }
            return "the system's browser"
        }
        let options = RedirectOptions(
            redirectURIs: ["com.example.app:/callback"],
            state: Secret("state"),
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
        let error = await #expect(throws: AuthError.self) {
            try await SystemBrowserUserAgent(launcher: launcher).withRedirectSession(options) {
                try await $0.visit("https://id.example.com/authorize")
            }
        }
        #expect(error?.code == .userAgentFailed)
        #expect(error?.message == "The browser could not be opened: the system did not open the URL.")
    }

    @Test func reportsWhichBrowserIsMissing() {
        let launcher = BrowserLauncher.command(["no-such-browser"], environment: ["PATH": "/usr/bin"])
        let error = #expect(throws: AuthError.self) { try launcher.open("https://id.example.com") }
        #expect(error?.description.contains("no-such-browser") == true)
    }
}
#endif
