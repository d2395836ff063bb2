public import AuthFlow
import Synchronization

/// Opens the person's browser and receives the redirect on a port of this machine (RFC 8252 section 7.3).
///
/// The port is bound before the browser opens, on the loopback interface only, and closed when the sign-in is over. The
/// address to open is also published as an event, for people whose browser is elsewhere.
public struct LoopbackUserAgent: Sendable {
    private let launcher: BrowserLauncher?

    /// Creates an agent.
    /// - Parameter launcher: Opens the browser; nil to leave that to the person, who is shown the address.
    public init(launcher: BrowserLauncher? = .system()) {
        self.launcher = launcher
    }
}

extension LoopbackUserAgent: UserAgent {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        guard case .loopback(let host, let port, let path) = options.redirectURI.kind else {
            throw AuthError(
                .invalidConfiguration,
                "The loopback user agent cannot receive \(options.redirectURI). Register and configure http://127.0.0.1/callback."
            )
        }
        func inbox(_ port: Int) -> CallbackInbox {
            CallbackInbox(
                redirectURI: options.redirectURI.uri(port: port),
                authority: "\(host):\(port)",
                path: path,
                state: options.state,
                responseMode: options.responseMode,
                clock: options.clock
            )
        }
        let opened = Mutex<CallbackInbox?>(nil)
        return try await LoopbackServer.run(host: host, port: port) { port in
            let inbox = inbox(port)
            opened.withLock { $0 = inbox }
            return { request, body in await inbox.handle(request, body: body) }
        } onFailure: {
            opened.withLock { $0 }?.close()
        } _: { port in
            guard let inbox = opened.withLock({ $0 }) else {
                throw AuthError(.userAgentFailed, "The loopback server did not start.")
            }
            let launcher = self.launcher
            let session = RedirectSession(redirectURI: options.redirectURI.uri(port: port)) { url in
                options.reporter.report(.userAgentVisit, details: ["agent": "loopback", "port": "\(port)"], url: url)
                if let launcher {
                    do {
                        let name = try launcher.open(url)
                        options.reporter.report(.userAgentVisit, details: ["browser": name])
                    } catch {
                        options.reporter.report(.userAgentVisit, details: ["browser": "none: \(error)"])
                    }
                }
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
        default: "The sign-in failed. The program that asked for it says why."
        }
    }
}
