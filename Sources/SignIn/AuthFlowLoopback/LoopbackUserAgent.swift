public import AuthFlow
public import AuthFlowDesktop
import Synchronization

/// Opens the user's browser and receives the redirect on a loopback port (RFC 8252 section 7.3).
///
/// The port is bound before the browser opens, on the loopback interface only, and closed when the sign-in completes. If there are several
/// redirect URIs, the first URI at which the agent can listen is used. The authorization URL is also published as an event, for users whose
/// browser is on another machine; the local browser opens a short URL at the port instead, so that the browser's command line,
/// which every user of the machine can read, reveals nothing about the sign-in.
public struct LoopbackUserAgent: Sendable {
    private let launcher: BrowserLauncher?
    private let appearance: Appearance

    /// Creates an agent.
    /// - Parameters:
    ///   - launcher: Opens the browser; nil to leave that to the user, who is shown the URL.
    ///   - applicationName: The name of the program on the final pages in the browser; empty for none.
    ///   - accentColor: The color of the line at the top of those pages, as `#rrggbb`; nil for no line.
    public init(
        launcher: BrowserLauncher? = .system(),
        applicationName: String = "",
        accentColor: String? = nil
    ) {
        precondition(accentColor.map(StatusPage.isColor) ?? true, "The accent color must have the form #rrggbb.")
        self.launcher = launcher
        self.appearance = Appearance(applicationName: applicationName, accentColor: accentColor)
    }

    /// The appearance of the pages in the browser.
    struct Appearance: Sendable {
        let applicationName: String
        let accentColor: String?

        /// The name of the program to which the user is told to return.
        var program: String { applicationName.isEmpty ? "the program that opened it" : applicationName }

        /// A page for the user.
        func page(
            _ status: HTTPResponse.Status,
            _ title: String,
            _ message: String,
            mark: StatusPage.Mark = .none
        ) -> TransportResponse {
            var page = StatusPage(status: status, mark: mark, title: title, message: message)
            page.application = applicationName
            page.accentColor = accentColor
            return page.response
        }
    }
}

extension LoopbackUserAgent: UserAgent {
    public func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        let redirectURIs = options.redirectURIs.filter(\.isLoopback)
        guard let last = redirectURIs.last else {
            throw AuthError(
                .invalidConfiguration,
                "The loopback user agent cannot receive redirects to \(options.redirectURI). Register and configure http://127.0.0.1/callback."
            )
        }
        for redirectURI in redirectURIs.dropLast() {
            let hasOpened = Atomic(false)
            do {
                return try await session(at: redirectURI, options) { session in
                    hasOpened.store(true, ordering: .relaxed)
                    return try await body(session)
                }
            } catch is AuthError where !hasOpened.load(ordering: .relaxed) {
                // RFC 8252 section 7.3: use IPv4 or IPv6, "whichever is available".
                let details = ["agent": "loopback", "unavailable": redirectURI.uri]
                options.reporter.report(.userAgentVisit, details: details)
            }
        }
        return try await session(at: last, options, body)
    }

    private func session<Return: Sendable>(
        at redirectURI: RedirectURI,
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        guard case .loopback(let host, let port, let path) = redirectURI.kind else {
            throw AuthError(.invalidConfiguration, "\(redirectURI) is not a loopback redirect URI.")
        }
        let opened = Mutex<CallbackInbox?>(nil)
        return try await LoopbackServer.run(host: host, port: port) { port in
            let inbox = CallbackInbox(
                redirectURI: redirectURI.uri(port: port),
                host: host,
                port: port,
                path: path,
                expected: options,
                appearance: appearance
            )
            opened.withLock { $0 = inbox }
            return { request, body in await inbox.handle(request, body: body) }
        } onFailure: {
            opened.withLock { $0 }?.close()
        } _: { port in
            guard let inbox = opened.withLock({ $0 }) else {
                throw AuthError(.userAgentFailed, "The loopback server did not start.")
            }
            let session = RedirectSession(receivingAt: redirectURI.uri(port: port)) { url in
                options.reporter.report(
                    .userAgentVisit,
                    details: [
                        "agent": "loopback", "port": "\(port)", "host": host, "purpose": "\(options.purpose)",
                        "opens": launcher == nil ? "no" : "yes",
                    ],
                    url: url
                )
                launcher?.open(inbox.start(at: url), reporter: options.reporter)
                return try await inbox.callback()
            }
            do {
                let result = try await body(session)
                inbox.conclude(.succeeded)
                return result
            } catch {
                inbox.conclude(.failed(message: Self.message(for: error)))
                throw error
            }
        }
    }

    private static func message(for error: any Error) -> String {
        switch error {
        case let error as AuthError: error.description
        case is CancellationError: "The sign-in was cancelled."
        default: "An error occurred. The program that opened the browser shows the reason."
        }
    }
}
