public import AuthFlow

/// A page that a user sees when a sign-in has completed or cannot continue.
public struct SessionPage: Sendable {
    /// The reason for a page, from an extensible set.
    public struct Reason: RawRepresentable, Sendable, Hashable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The user has signed in; the browser continues automatically to the requested page.
        public static let signedIn = Self(rawValue: "signed_in")
        /// Another site caused the navigation, so the session cookie is missing; the browser continues automatically, with the cookie.
        public static let continuing = Self(rawValue: "continuing")
        /// The user is already signed in, but a page on another site requests another sign-in.
        public static let confirmSignIn = Self(rawValue: "confirm_sign_in")
        /// The user must choose one of several providers.
        public static let chooseProvider = Self(rawValue: "choose_provider")
        /// The user or the provider denied the sign-in.
        public static let denied = Self(rawValue: "denied")
        /// The application rejected the user; the message comes from the hook.
        public static let refused = Self(rawValue: "refused")
        /// The sign-in is not in progress in this browser: it timed out, was completed, or was started in another browser.
        public static let stale = Self(rawValue: "stale")
        /// The provider ended the session during the sign-in.
        public static let ended = Self(rawValue: "ended")
        /// The provider did not authenticate the user as the application requires.
        public static let insufficientAuthentication = Self(rawValue: "insufficient_authentication")
        /// The provider or the store cannot be reached.
        public static let unavailable = Self(rawValue: "unavailable")
        /// Another error occurred; the events contain the details.
        public static let failed = Self(rawValue: "failed")
        /// The user requested a sign-out, but the session could not be ended.
        public static let signOutFailed = Self(rawValue: "sign_out_failed")
        /// The user requested a global sign-out, but this session had already ended.
        public static let signOutNeedsSession = Self(rawValue: "sign_out_needs_session")
    }

    /// The reason for the page.
    public let reason: Reason

    /// The status of the response.
    public let status: HTTPResponse.Status

    /// The language of the page: one of ``SessionPages/texts`` (BCP 47).
    public let language: String

    /// The title in that language.
    public let title: String

    /// The message in that language.
    public let message: String

    /// The links on the page, each with its text.
    public let links: [(text: String, url: String)]

    /// The path and query of the page to which the browser continues automatically; nil for none.
    public let nextPath: String?
}

/// The pages that users see during a sign-in.
public struct SessionPages: Sendable {
    /// The name of the application, which is displayed above each title; default: none.
    public var applicationName = ""

    /// The texts, by language; the first is used for browsers that accept none of them. Default: English and German.
    public var texts: [PageTexts] = [.english, .german]

    /// Renders a custom page. If it is nil, which is the default, or returns nil, the built-in page is used. Escape the
    /// texts, set a Content-Security-Policy, and use the page's status: the response is sent as is, with
    /// `Cache-Control: no-store` and the server's cookies added.
    public var render: (@Sendable (SessionPage) -> TransportResponse?)?

    /// Creates the built-in pages.
    public init() {}

    func page(
        _ reason: SessionPage.Reason,
        _ status: HTTPResponse.Status,
        to request: HTTPRequest,
        message: String? = nil,
        links: (PageTexts) -> [(text: String, url: String)],
        next: String? = nil
    ) -> TransportResponse {
        let texts = PageTexts.preferred(by: request.headerFields[.acceptLanguage], of: texts)
        let text = texts.texts[reason] ?? texts.texts[.failed] ?? PageTexts.Text("", "")
        let page = SessionPage(
            reason: reason,
            status: status,
            language: texts.language,
            title: text.title,
            message: message ?? text.message,
            links: links(texts),
            nextPath: next
        )
        var response = render?(page) ?? builtIn(page)
        response.head.headerFields[.cacheControl] = "no-store"
        return response
    }

    private func builtIn(_ page: SessionPage) -> TransportResponse {
        let marks: [SessionPage.Reason: StatusPage.Mark] = [
            .signedIn: .done, .continuing: .none, .chooseProvider: .none, .confirmSignIn: .none,
        ]
        var built = StatusPage(
            status: page.status,
            mark: marks[page.reason] ?? .failed,
            title: page.title,
            message: page.message
        )
        built.links = page.links.map { .init($0.text, to: $0.url) }
        built.nextURL = page.nextPath
        built.application = applicationName
        built.language = page.language
        return built.response
    }
}
