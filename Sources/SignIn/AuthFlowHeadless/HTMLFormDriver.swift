public import AuthFlow

/// Fills in plain HTML forms: the user name, the password, and the consent decision.
///
/// Forms are submitted only from pages of the given origins, and only to one of those origins. During a sign-out,
/// no credentials are entered.
public struct HTMLFormDriver: Sendable {
    /// The decision when the provider asks for consent.
    public enum Consent: String, Sendable, CaseIterable {
        /// Allow the requested access.
        case allow
        /// Deny it.
        case deny

        /// The words on a button that makes this decision.
        fileprivate var words: [String] {
            switch self {
            case .allow: Self.grants + ["yes", "continue", "confirm"]
            case .deny: HTMLForm.refusals + ["no"]
            }
        }

        /// The words on a button that cannot be mistaken for the button of a sign-in page.
        fileprivate static let grants = ["allow", "accept", "approve", "agree", "authorize", "grant"]
    }

    private let username: String
    private let password: Secret
    private let origins: [String]
    private let consent: Consent

    /// Creates a driver.
    /// - Parameters:
    ///   - username: The user name.
    ///   - password: The password.
    ///   - origins: The only origins where credentials may be entered, such as `https://id.example.com`.
    ///   - consent: The decision when the provider asks for consent.
    public init(username: String, password: Secret, origins: [Endpoint], consent: Consent = .allow) {
        self.username = username
        self.password = password
        self.origins = origins.map(\.origin)
        self.consent = consent
    }
}

extension HTMLFormDriver: LoginDriver {
    public func next(after page: HeadlessPage, in browser: HeadlessBrowser) async throws -> HeadlessNavigation {
        let html = try HTMLPage.read(page)
        guard (200..<300).contains(page.response.status) else {
            // Some providers respond to a wrong password with status 401 or 403; others show the form again with 400 or 422.
            let isAskedAgain = html.forms.contains { $0.passwordField != nil }
            let refusals = isAskedAgain ? [400, 401, 403, 422] : [401, 403]
            let isRefusal = page.hasTypedCredentials && refusals.contains(page.response.status)
            throw AuthError(
                isRefusal ? .accessDenied : .userAgentFailed,
                "\(page.endpoint.origin) responded with status \(page.response.status). \(page.words(html, without: [password]))",
                status: page.response.status
            )
        }
        let usable = html.forms.filter { !$0.isSearch && ($0.userNameField != nil || !$0.buttons.isEmpty) }
        guard !usable.isEmpty || html.forms.contains(where: { $0.passwordField != nil }) else {
            if html.hasScripts {
                throw refusal(
                    page,
                    "has no form that can be filled in without JavaScript, which this user agent does not support. If it is not an error page, use a user agent with a browser, such as \"loopback\"",
                    html
                )
            }
            let reason = html.isUnclear ? ", or none that can be parsed reliably" : ""
            throw refusal(page, "has no form that can be filled in\(reason)", html)
        }
        if let form = html.forms.first(where: { $0.passwordField != nil && !grantsDenied($0) }),
            let passwordField = form.passwordField
        {
            guard !page.hasTypedCredentials else {
                throw AuthError(
                    .accessDenied,
                    "\(page.endpoint.origin) did not accept the user name and password. \(page.words(html, without: [password]))"
                )
            }
            var values: [String: String] = [passwordField.name: password.exposed]
            if let field = form.userNameField { values[field.name] = username }
            return try submit(form, on: page, values, pressing: form.signInButton, typesCredentials: true)
        }
        guard !usable.contains(where: \.asksForOneTimeCode) else {
            throw refusal(page, "asks for a one-time code, which cannot be configured", html)
        }
        // After the password, a text field asks for something else.
        let naming = page.hasTypedCredentials ? [] : usable.filter { !grantsDenied($0) }
        if let form = naming.first(where: { $0.userNameField != nil }), let field = form.userNameField {
            // This page asks for the user name, and the next one for the password.
            return try submit(form, on: page, [field.name: username], pressing: form.signInButton)
        }
        // Some consent pages have a separate form for each decision.
        guard
            let answer = try HTMLForm.answer(
                saying: consent.words,
                in: usable,
                acceptsDefault: consent == .allow,
                on: page
            )
        else {
            throw refusal(page, "is neither a sign-in page nor a consent page", html)
        }
        let buttons = usable.flatMap(\.buttons)
        let isDecision =
            buttons.contains { $0.says(Consent.grants + ["yes"]) } && buttons.contains { $0.says(Consent.deny.words) }
        let asksForText = answer.form.fields.contains { $0.isText && $0.value.isEmpty }
        guard consent == .deny || isDecision || !asksForText else {
            throw refusal(page, "asks for text that is not configured, such as a one-time code", html)
        }
        return try submit(answer.form, on: page, pressing: answer.button)
    }

    /// Whether the sign-in button of a form would grant the request, although consent is denied.
    private func grantsDenied(_ form: HTMLForm) -> Bool {
        guard consent == .deny, let button = form.signInButton else { return false }
        let isDecision = form.buttons.contains { $0.says(Consent.deny.words) }
        let grants = Consent.grants + (isDecision ? ["yes", "confirm"] : [])
        return [\HTMLForm.Field.label, \.value, \.name].contains { button.says(grants, in: $0) }
    }

    /// Submits a form. The origins of the form's page and target must be listed, whatever the form contains, because a
    /// page of another site could otherwise misuse the user's session with the provider.
    private func submit(
        _ form: HTMLForm,
        on page: HeadlessPage,
        _ values: [String: String] = [:],
        pressing button: HTMLForm.Field?,
        typesCredentials: Bool = false
    ) throws -> HeadlessNavigation {
        let target = try form.target(on: page, pressing: button)
        for origin in [page.endpoint.origin, target.origin] where !origins.contains(origin) {
            throw AuthError(
                .userAgentFailed,
                "The form at \(page.endpoint.origin) would be submitted to \(target.origin), and \(origin) is not listed in \"origins\". No data was entered or sent."
            )
        }
        let parameters = form.parameters(filling: values, pressing: button)
        if (button?.method ?? form.method) == "post" {
            return .post(parameters, to: target, typesCredentials: typesCredentials)
        }
        guard !typesCredentials else {
            // A password in a URL ends up in the browser history and in server logs.
            throw AuthError(
                .userAgentFailed,
                "The form would put the password into the URL of \(target), so it was not submitted."
            )
        }
        return .visit(try Endpoint(target.url(adding: parameters), name: "form action"))
    }

    private func refusal(_ page: HeadlessPage, _ reason: String, _ html: HTMLPage? = nil) -> AuthError {
        let words = html.map { " \(page.words($0, without: [password]))" } ?? ""
        return AuthError(
            .userAgentFailed,
            "The page at \(page.endpoint) \(reason).\(words)",
            status: page.response.status
        )
    }
}
