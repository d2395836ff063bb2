import AuthFlow
import Foundation
import Testing

/// Private windows, opened with each browser's command-line option. For an unknown browser, no window is opened.
@Suite struct PrivateWindowTests {
    private func browser(
        _ environment: [String: String],
        _ programs: [String]
    ) -> LaunchEnvironment.Browser {
        var place = LaunchEnvironment(environment: environment, hasTerminal: true) {
            programs.contains($0) ? "/usr/bin/\($0)" : nil
        }
        place.wantsPrivateWindow = true
        return place.browser
    }

    #if os(Linux)
    @Test(arguments: [
        (["xdg-open", "firefox-esr"], ["firefox-esr", "--private-window"]),
        (["firefox", "chromium"], ["chromium", "--incognito"]),
        (["microsoft-edge-stable"], ["microsoft-edge-stable", "--inprivate"]),
        (["google-chrome"], ["google-chrome", "--incognito"]), (["opera"], ["opera", "--private"]),
    ]) func opensAPrivateWindowInAnInstalledBrowser(_ programs: [String], _ expected: [String]) {
        guard case .command(let command, _) = browser(["DISPLAY": ":0", "HOME": "/nowhere"], programs) else {
            Issue.record("No browser was opened.")
            return
        }
        #expect(command == expected)
    }

    @Test(arguments: [
        ("no known browser", ["DISPLAY": ":0"], ["xdg-open", "x-www-browser", "epiphany"]),
        ("no screen", [:], ["firefox"]),
        (
            "an unknown browser in BROWSER", ["DISPLAY": ":0", "BROWSER": "epiphany"],
            ["epiphany", "firefox"]
        ),
        // The option might not apply to the separate window.
        ("a URL in an option", ["DISPLAY": ":0", "BROWSER": "chromium --app=%s"], ["chromium"]),
    ]) func opensNoWindowIfAPrivateWindowIsUnavailable(
        _ name: String,
        _ environment: [String: String],
        _ programs: [String]
    ) {
        guard case .none = browser(environment, programs) else {
            Issue.record("A browser was opened.")
            return
        }
    }

    @Test(arguments: [
        ("firefox_firefox.desktop", ["firefox", "--private-window"]),
        ("org.mozilla.firefox.desktop", ["firefox", "--private-window"]),
        ("com.google.Chrome.desktop", ["google-chrome", "--incognito"]),
        // A different app of the snap, and an unknown browser.
        ("firefox_geckodriver.desktop", ["chromium", "--incognito"]),
        ("org.example.firefox.desktop", ["chromium", "--incognito"]),
    ]) func findsTheDefaultBrowserOfASnapAndOfAReversedDomainName(_ entry: String, _ expected: [String]) throws {
        let folder = NSTemporaryDirectory() + "authflow-mime-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let text = """
            [Default Applications]
            x-scheme-handler/https=\(entry)
            """
        try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder)/mimeapps.list"))
        let environment = ["DISPLAY": ":0", "XDG_CONFIG_HOME": folder]
        guard case .command(let command, _) = browser(environment, ["chromium", "firefox", "google-chrome"]) else {
            Issue.record("No browser was opened.")
            return
        }
        #expect(command == expected)
    }

    @Test func prefersTheUsersConfiguredBrowser() throws {
        let folder = NSTemporaryDirectory() + "authflow-mime-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let text = """
            [Added Associations]
            x-scheme-handler/https=chromium.desktop;
            [Default Applications]
            text/html=chromium.desktop
            x-scheme-handler/https=user.desktop;firefox-esr.desktop;
            """
        try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder)/mimeapps.list"))
        let environment = ["DISPLAY": ":0", "XDG_CONFIG_HOME": folder]
        guard case .command(let command, _) = browser(environment, ["chromium", "firefox-esr"]) else {
            Issue.record("No browser was opened.")
            return
        }
        #expect(command == ["firefox-esr", "--private-window"])
        let named = browser(environment.merging(["BROWSER": "chromium --new-window %s"]) { $1 }, ["chromium"])
        guard case .command(let words, _) = named else {
            Issue.record("No browser was opened.")
            return
        }
        #expect(words == ["chromium", "--new-window", "--incognito"])
    }
    #endif
}
