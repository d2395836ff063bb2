public import AuthFlow

/// A type that completes a provider's pages in place of the user, one page at a time.
///
/// The headless user agent handles cookies, redirects and origins, but not the contents of a page. It passes each page to a
/// driver, which returns the next navigation: a form to submit, or a URL to visit after requests to the provider's
/// proprietary API.
public protocol LoginDriver: Sendable {
    /// Chooses the next navigation on a page.
    /// - Parameters:
    ///   - page: The current page.
    ///   - browser: Sends further requests with the same cookies, for providers whose sign-in requires API requests.
    /// - Returns: The next navigation.
    /// - Throws: ``/AuthFlow/AuthError`` when the visit cannot continue.
    func next(after page: HeadlessPage, in browser: HeadlessBrowser) async throws -> HeadlessNavigation

    /// Called before a sign-out visits the end session endpoint, for providers with an additional session that the endpoint
    /// does not end. Default: does nothing.
    /// - Parameter browser: Sends requests with the shared cookies.
    /// - Throws: ``/AuthFlow/AuthError`` when that session may remain active. The end session endpoint is visited in any case.
    func beginSignOut(in browser: HeadlessBrowser) async throws

    /// Chooses the next navigation on a provider page during a sign-out. It must not fill in any field.
    /// - Parameters:
    ///   - page: The current page.
    ///   - origin: The origin of the end session endpoint.
    ///   - browser: Sends further requests with the same cookies, for providers whose sign-out requires API requests.
    /// - Returns: The next navigation.
    /// - Throws: ``/AuthFlow/AuthError`` when the visit cannot continue.
    func confirmSignOut(
        on page: HeadlessPage,
        at origin: String,
        in browser: HeadlessBrowser
    ) async throws -> HeadlessNavigation
}

extension LoginDriver {
    /// Does nothing.
    public func beginSignOut(in browser: HeadlessBrowser) async throws {}

    /// Presses the only button that confirms the sign-out ("log out", "sign out", "yes") in a form without a text field, on a page of the provider.
    public func confirmSignOut(
        on page: HeadlessPage,
        at origin: String,
        in browser: HeadlessBrowser
    ) async throws -> HeadlessNavigation {
        let html = try HTMLPage.read(page)
        let words = ["log out", "logout", "sign out", "signout", "log off", "logoff", "end session", "yes", "confirm"]
        guard page.endpoint.origin == origin, (200..<300).contains(page.response.status),
            let (form, button) = try HTMLForm.button(
                in: html.forms.filter { !$0.asksForText },
                on: page,
                where: { button, text in
                    ButtonText(button[keyPath: text]).matches(words) && (text == \.label || !button.refuses)
                }
            )
        else {
            throw AuthError(
                .userAgentFailed,
                "The provider did not redirect back from its sign-out page, which is not a plain sign-out confirmation. \(page.words(html))"
            )
        }
        let target = try form.target(on: page, pressing: button)
        guard target.origin == origin else {
            throw AuthError(
                .userAgentFailed,
                "The form of the sign-out page would be submitted to \(target.origin). Nothing was sent there."
            )
        }
        return try form.navigation(form.parameters(pressing: button), to: target, pressing: button)
    }
}

/// A page of a headless visit.
public struct HeadlessPage: Sendable {
    /// The URL of the page.
    public let endpoint: Endpoint

    /// The server's response.
    public let response: TransportResponse

    /// Whether credentials have already been entered during this visit. If the page prompts again, the provider has
    /// rejected them.
    public let hasTypedCredentials: Bool

    /// The purpose of the visit.
    public let purpose: RedirectOptions.Purpose

    /// Whether the user name has been sent to this origin during this visit.
    var hasTypedUserName = false

    /// The secrets that have been entered during this visit.
    var secrets: [Secret] = []

    /// Whether this is an empty success response instead of a page: status 204, or an empty JSON object.
    var isEmptySuccess: Bool {
        response.status == 204 || response.status == 200 && (try? JSON(parsing: response.body)) == .object([:])
    }

    /// Text from the page, without the secrets that were entered.
    public func redacted(_ text: String) -> String { secrets.redacted(in: text) }

    /// A sentence that quotes the error or the visible text of the page, without the secrets that were entered.
    func words(_ html: HTMLPage) -> String {
        if let error = response.providerError(redacting: secrets) { return quotation(": \(error)") }
        // Many error pages repeat their title as the heading.
        let title = html.title.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        let parts = html.text.hasPrefix(title) ? [html.text] : [title, html.text]
        let text = parts.filter { !$0.isEmpty }.joined(separator: ": ")
        // If a secret contains markup, the visible text of the page may contain it in its rendered form.
        let displayed = secrets.map { Secret(HTMLReader.page(Array($0.exposed.utf8)).text) }
        let shown = DisplayText.sanitized((secrets + displayed).redacted(in: text), limit: 200)
        return shown.isEmpty ? "The page at \(endpoint) is empty." : quotation(": \"\(shown)\"")
    }

    /// Text that contains a secret that is too short to be redacted reliably is not quoted.
    private func quotation(_ text: String) -> String {
        let repeats = secrets.contains { !$0.exposed.isEmpty && text.contains($0.exposed) }
        return "The page at \(endpoint) \(repeats ? "repeats what was entered" : "says\(text)")."
    }
}

/// The next navigation of a headless visit.
public struct HeadlessNavigation: Sendable {
    /// The URL.
    public let endpoint: Endpoint

    /// The form to post; nil for a plain GET.
    public let form: FormParameters?

    /// Whether the form contains a password or similar credentials, or the driver has already signed in with its own requests.
    public let typesCredentials: Bool

    /// Whether the form contains the user name, but no credentials.
    var typesUserName = false

    /// The secrets that the form contains, which must not appear in any message.
    var secrets: [Secret] = []

    /// Navigates to a URL.
    /// - Parameters:
    ///   - endpoint: The URL.
    ///   - typesCredentials: Whether the driver has already signed in with its own requests.
    public static func visit(_ endpoint: Endpoint, typesCredentials: Bool = false) -> HeadlessNavigation {
        HeadlessNavigation(endpoint: endpoint, form: nil, typesCredentials: typesCredentials)
    }

    /// Posts a form.
    /// - Parameters:
    ///   - form: The parameters.
    ///   - endpoint: The form's action.
    ///   - typesCredentials: Whether the parameters contain a password or similar credentials.
    public static func post(_ form: FormParameters, to endpoint: Endpoint, typesCredentials: Bool) -> HeadlessNavigation
    {
        HeadlessNavigation(endpoint: endpoint, form: form, typesCredentials: typesCredentials)
    }
}
