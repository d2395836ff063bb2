import AuthFlowOAuth

/// Shows the user the authorization URL, and waits until they paste the URL that their browser was redirected to. The browser may
/// run on any machine; no browser is opened on this machine.
///
/// The redirect arrives through ``AuthClient/resume(with:)-(String)``; the `authflow` tool and `TerminalRedirects` in AuthFlowTerminal call it with
/// the pasted text. It is validated like any other redirect.
public struct PasteUserAgent: UserAgent {
    /// Creates an agent.
    public init() {}

    public func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        // The URL to paste would not contain the response.
        guard options.responseMode != .formPost else {
            throw AuthError(.unsupported, "A form post (response_mode) cannot be pasted.")
        }
        // RFC 8252 section 7.3: any port is allowed. Nothing listens on the port; only the URI is needed.
        return try await body(
            RedirectSession(redirectURI: options.redirectURI.uri) { url in
                options.reporter.report(
                    .userAgentVisit,
                    details: ["agent": "paste", "purpose": "\(options.purpose)", "opens": "no"],
                    url: url
                )
                return try await RedirectSession.waitUntilCancelled()
            }
        )
    }
}

extension RedirectSession {
    /// Waits until the task is cancelled. The redirect can arrive only through ``AuthClient/resume(with:)-(String)``.
    public static func waitUntilCancelled() async throws -> String {
        let (never, continuation) = AsyncStream<Never>.makeStream()
        for await _ in never {}
        withExtendedLifetime(continuation) {}
        throw CancellationError()
    }
}
