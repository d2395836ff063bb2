public import AuthFlow

/// Opens the user's browser and receives the redirect through a private-use URI scheme or a claimed https URI (RFC 8252 sections
/// 7.1 and 7.2): the system passes the redirect to the app, or to another process, which forwards it.
///
/// An app calls ``/AuthFlow/AuthClient/resume(with:)-(String)`` with the URL that it was opened with. A command-line tool cannot be opened
/// with a URL: the system starts `authflow handle-redirect` instead, and a ``RedirectHandoff`` passes the redirect to the tool.
public struct SystemBrowserUserAgent: Sendable {
    fileprivate let launcher: BrowserLauncher?
    fileprivate let handoff: RedirectHandoff?
    /// Whether a redirect URI is registered with the system, for the app or for the other process.
    fileprivate let isRegistered: @Sendable (RedirectURI) -> Bool
}

extension SystemBrowserUserAgent {
    /// Creates an agent.
    /// - Parameters:
    ///   - launcher: Opens the browser; nil to leave that to the user, who is shown the URL.
    ///   - handoff: Receives redirects that the system passes to another process; nil if it passes them to this process.
    public init(launcher: BrowserLauncher? = .system(), handoff: RedirectHandoff? = nil) {
        self.init(launcher: launcher, handoff: handoff) { _ in true }
    }

    /// The first non-loopback redirect URI that is registered with the system, or else the first non-loopback URI; nil for none.
    fileprivate static func usable(
        _ redirectURIs: [RedirectURI],
        _ isRegistered: (RedirectURI) -> Bool
    ) -> RedirectURI? {
        let redirectURIs = redirectURIs.filter { !$0.isLoopback }
        return redirectURIs.first(where: isRegistered) ?? redirectURIs.first
    }

    /// Returns a closure that returns whether this program is registered with the desktop for a redirect URI.
    fileprivate static func isRegistered(
        with launchEnvironment: LaunchEnvironment
    ) -> @Sendable (RedirectURI) -> Bool {
        let environment = launchEnvironment.environment
        return { redirectURI in
            guard case .privateUse(let scheme) = redirectURI.kind else { return false }
            // Querying the desktop as well would start a process even for commands that do not sign in a user.
            return SchemeHandler(scheme: scheme, environment: environment).hasEntry
        }
    }
}

extension SystemBrowserUserAgent: UserAgent {
    public func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        guard let redirectURI = Self.usable(options.redirectURIs, isRegistered)?.uri else {
            throw AuthError(
                .invalidConfiguration,
                "The system-browser user agent cannot receive redirects to \(options.redirectURI). Register and configure a private-use scheme such as com.example.app:/callback."
            )
        }
        // The system passes only a URL to the program that it opens.
        guard options.responseMode != .formPost else {
            throw AuthError(.unsupported, "The redirect URI \(redirectURI) cannot receive a form post (response_mode).")
        }
        guard let handoff else {
            return try await body(session(redirectURI, options) { try await RedirectSession.waitUntilCancelled() })
        }
        return try await handoff.listen(for: options.state) { url in
            options.accepts(url, at: redirectURI)
        } _: { redirects in
            try await body(
                session(redirectURI, options) {
                    for await redirect in redirects { return redirect }
                    throw CancellationError()
                }
            )
        }
    }

    private func session(
        _ redirectURI: String,
        _ options: RedirectOptions,
        _ arrival: @escaping @Sendable () async throws -> String
    ) -> RedirectSession {
        RedirectSession(redirectURI: redirectURI) { url in
            options.reporter.report(
                .userAgentVisit,
                details: [
                    "agent": "system-browser", "purpose": "\(options.purpose)", "opens": launcher == nil ? "no" : "yes",
                ],
                url: url
            )
            // The redirect to an app arrives only through `AuthClient.resume(with:)`.
            if let launcher, launcher.isOfApp, handoff == nil {
                return try await launcher.openAndWait(url, reporter: options.reporter)
            }
            launcher?.open(url, reporter: options.reporter)
            return try await arrival()
        }
    }
}

extension UserAgentFactory {
    /// `system-browser`, for an app that the system opens with the redirect and that calls ``/AuthFlow/AuthClient/resume(with:)-(String)``.
    /// - Parameter launcher: Opens the browser.
    public static func systemBrowser(opening launcher: BrowserLauncher) -> UserAgentFactory {
        UserAgentFactory("system-browser") { _, context in
            context.redirectURIs.allSatisfy(\.isLoopback)
                ? .unavailable(reason: "the profile has only loopback redirect URIs")
                : .available(because: "the system opens this app with the redirect")
        } make: { _, _ in
            SystemBrowserUserAgent(launcher: launcher)
        }
    }

    /// `system-browser`: the user's browser, and a private-use scheme that the program has registered with the desktop.
    public static var systemBrowser: UserAgentFactory {
        UserAgentFactory("system-browser", keys: BrowserLauncher.keys) { options, context in
            let isRegistered = SystemBrowserUserAgent.isRegistered(with: context.launchEnvironment)
            guard let redirectURI = SystemBrowserUserAgent.usable(context.redirectURIs, isRegistered) else {
                return .unavailable(reason: "the profile has only loopback redirect URIs")
            }
            if case .privateUse(let scheme) = redirectURI.kind, !isRegistered(redirectURI) {
                return .unavailable(reason: "this program is not registered for \(scheme): URLs on this system")
            }
            guard (try? RedirectHandoff(environment: context.launchEnvironment.environment)) != nil else {
                return .unavailable(reason: "XDG_RUNTIME_DIR is not set to an absolute path")
            }
            let availability = try BrowserLauncher.availability(options, context.launchEnvironment)
            // A desktop opens https URLs with a browser, even when an app has claimed them.
            guard redirectURI.kind == .https, case .available = availability else { return availability }
            return context.launchEnvironment.hasTerminal
                ? .lastResort(reason: "the desktop opens \(redirectURI) in a browser, so the redirect must be pasted")
                : .unavailable(reason: "the desktop opens \(redirectURI) in a browser, not in this program")
        } make: { options, context in
            SystemBrowserUserAgent(
                launcher: try .configured(by: options, in: context.launchEnvironment),
                handoff: try RedirectHandoff(environment: context.launchEnvironment.environment),
                isRegistered: SystemBrowserUserAgent.isRegistered(with: context.launchEnvironment)
            )
        }
    }
}
