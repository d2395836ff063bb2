import AuthFlowHTTP
import AuthFlowOAuth

/// Shows the user the address, and waits for them to bring back the one that their browser ends at. The browser may run
/// on any machine; nothing is opened on this one.
///
/// The redirect arrives by ``AuthClient/resume(with:)-(String)``; the tool and `TerminalRedirects` of AuthFlowTerminal call it with
/// what is pasted. It is checked like any other.
public struct PasteUserAgent: UserAgent {
    /// Creates an agent.
    public init() {}

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        // RFC 8252 section 7.3: any port will do. Nothing listens there; only the address is needed.
        try await body(
            RedirectSession(redirectURI: options.redirectURI.uri) { url in
                options.reporter.report(
                    .userAgentVisit,
                    details: ["agent": "paste", "purpose": "\(options.purpose)", "opens": "no"],
                    url: url
                )
                return try await RedirectSession.neverByItself()
            }
        )
    }
}

extension RedirectSession {
    /// Waits until the task is cancelled, for a redirect that can arrive only by ``AuthClient/resume(with:)-(String)``.
    public static func neverByItself() async throws -> String {
        let (never, continuation) = AsyncStream<Never>.makeStream()
        for await _ in never {}
        withExtendedLifetime(continuation) {}
        throw CancellationError()
    }
}
