#if canImport(AuthenticationServices)
public import AuthFlow
public import AuthenticationServices
import Foundation

/// Shows the provider's pages in the system's sign-in window, which by default shares the browser's cookies, and
/// receives redirects to a private-use scheme or to an https URI that the app has claimed (RFC 8252 sections 7.1 and 7.2). For an https URI, the
/// app's associated domains must include the host for the service `webcredentials`; `applinks` is not sufficient.
///
/// This file is type-checked on Linux against hand-written interfaces, but is not run there.
public struct WebAuthenticationSessionUserAgent: Sendable {
    private let isEphemeral: Bool
    private let anchor: @MainActor @Sendable () -> ASPresentationAnchor

    /// Creates an agent.
    /// - Parameters:
    ///   - isEphemeral: Whether the window has separate cookies, which are discarded afterward: the provider then
    ///     prompts at every sign-in, and no session remains in the browser; default: false.
    ///   - anchor: Returns the app's window that anchors the sign-in window.
    public init(isEphemeral: Bool = false, anchor: @escaping @MainActor @Sendable () -> ASPresentationAnchor) {
        self.isEphemeral = isEphemeral
        self.anchor = anchor
    }
}

extension WebAuthenticationSessionUserAgent: UserAgent {
    public func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        guard let redirectURI = options.redirectURIs.first(where: { !$0.isLoopback }) else {
            throw AuthError(
                .invalidConfiguration,
                "The system's sign-in window cannot receive redirects to \(options.redirectURI). Register and configure a private-use scheme such as com.example.app:/callback."
            )
        }
        guard options.responseMode != .formPost else {
            throw AuthError(.unsupported, "The redirect URI \(redirectURI) cannot receive a form post (response_mode).")
        }
        return try await body(
            RedirectSession(redirectURI: redirectURI.uri) { url in
                options.reporter.report(.userAgentVisit, details: ["agent": "web-authentication-session"])
                let visit = await WebAuthenticationVisit(anchor: anchor)
                return try await visit.run(url, to: redirectURI, isEphemeral: isEphemeral, options.purpose)
            }
        )
    }
}

extension UserAgentFactory {
    /// `web-authentication-session`: the system's sign-in window.
    /// - Parameter anchor: Returns the app's window that anchors the sign-in window.
    public static func webAuthenticationSession(
        anchor: @escaping @MainActor @Sendable () -> ASPresentationAnchor
    ) -> UserAgentFactory {
        let isEphemeral = ConfigurationKey(
            "ephemeral",
            .flag,
            default: false,
            "Whether the window has separate cookies, which are discarded afterward."
        )
        return UserAgentFactory("web-authentication-session", keys: [isEphemeral]) { _, context in
            context.redirectURIs.contains { !$0.isLoopback }
                ? .available(because: "the system has a sign-in window")
                : .unavailable(reason: "the profile has only loopback redirect URIs")
        } make: { options, _ in
            WebAuthenticationSessionUserAgent(isEphemeral: try options[isEphemeral], anchor: anchor)
        }
    }
}

/// One visit to the provider's pages in a sign-in window.
@MainActor private final class WebAuthenticationVisit: NSObject, ASWebAuthenticationPresentationContextProviding {
    private let anchor: @MainActor @Sendable () -> ASPresentationAnchor
    private var session: ASWebAuthenticationSession?
    private var continuation: CheckedContinuation<String, any Error>?

    init(anchor: @escaping @MainActor @Sendable () -> ASPresentationAnchor) { self.anchor = anchor }

    func presentationAnchor(for session: ASWebAuthenticationSession) -> ASPresentationAnchor { anchor() }

    func run(
        _ url: String,
        to redirectURI: RedirectURI,
        isEphemeral: Bool,
        _ purpose: RedirectOptions.Purpose
    ) async throws -> String {
        guard let address = URL(string: url), let redirect = URLComponents(string: redirectURI.uri) else {
            throw AuthError(.userAgentFailed, "The authorization URL is not a valid URL.")
        }
        let callback: ASWebAuthenticationSession.Callback =
            if case .privateUse(let scheme) = redirectURI.kind {
                .customScheme(scheme)
            } else {
                // RFC 3986 section 6.2.3: browsers send an empty path as "/".
                .https(host: redirect.host ?? "", path: redirect.path.isEmpty ? "/" : redirect.path)
            }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                guard !Task.isCancelled else { return continuation.resume(throwing: CancellationError()) }
                self.continuation = continuation
                // The system may call the handler on another thread. A handler that is isolated to the main actor would then terminate
                // the app (SE-0423).
                let session = ASWebAuthenticationSession(url: address, callback: callback) { @Sendable url, error in
                    let result = Self.result(url, error, purpose)
                    Task { @MainActor in self.finish(result) }
                }
                session.prefersEphemeralWebBrowserSession = isEphemeral
                session.presentationContextProvider = self
                self.session = session
                if !session.start() {
                    finish(.failure(AuthError(.userAgentFailed, "The system's sign-in window could not be opened.")))
                }
            }
        } onCancel: {
            Task { @MainActor in
                self.session?.cancel()
                self.finish(.failure(CancellationError()))
            }
        }
    }

    private nonisolated static func result(
        _ url: URL?,
        _ error: (any Error)?,
        _ purpose: RedirectOptions.Purpose
    ) -> Result<String, any Error> {
        if let url { return .success(url.absoluteString) }
        if let error = error as? ASWebAuthenticationSessionError, error.code == .canceledLogin {
            // The system also reports this code, but with a reason, if the app is not associated with the host of an https redirect URI.
            if let reason = error.errorUserInfo[NSLocalizedFailureReasonErrorKey] as? String {
                return .failure(
                    AuthError(
                        .userAgentFailed,
                        "The system's sign-in window could not be opened: \(DisplayText.sanitized(reason, limit: 400))",
                        underlyingError: error
                    )
                )
            }
            // A user may be signed in already: with another account, or before a step-up.
            return .failure(
                AuthError(
                    .accessDenied,
                    purpose == .signIn
                        ? "The window was closed before the sign-in was complete."
                        : "The window was closed before the sign-out was complete, so you may still be signed in at the provider."
                )
            )
        }
        return .failure(AuthError(.userAgentFailed, "The system's sign-in window failed.", underlyingError: error))
    }

    /// Ends the visit only once, because closing the window also calls the session's completion handler.
    private func finish(_ result: Result<String, any Error>) {
        continuation?.resume(with: result)
        continuation = nil
        session = nil
    }
}
#endif
