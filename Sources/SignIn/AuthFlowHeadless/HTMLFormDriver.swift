public import AuthFlow

/// Fills in plain HTML forms: the user name, the password, and the consent decision.
///
/// During a sign-in, forms are submitted only from pages of the given origins, and only to one of those origins. During a sign-out,
/// no credentials are entered, and a form is submitted only at the origin of the end session endpoint.
public struct HTMLFormDriver: Sendable {
    /// The decision when the provider asks for consent.
    public enum Consent: String, Sendable, CaseIterable {
        /// Allow the requested access.
        case allow
        /// Deny it.
        case deny

        /// The button decisions that express this consent decision, in order of preference.
        fileprivate var decisions: [ButtonText.Decision] {
            switch self {
            case .allow: [.grant, .proceed]
            case .deny: [.refuse]
            }
        }
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
        let signIns = html.forms.filter { $0.passwordField != nil }
        try requireSuccess(page, html, isSignIn: !signIns.isEmpty)
        let usable = html.forms.filter {
            !$0.isSearch && !$0.setsPassword && ($0.userNameField != nil || !$0.buttons.isEmpty)
        }
        guard !usable.isEmpty || !signIns.isEmpty else { throw noUsableFormError(of: page, html) }
        if let form = signIns.first(where: { !grantsDenied($0) }), let passwordField = form.passwordField {
            guard !page.hasTypedCredentials else {
                throw AuthError(
                    .accessDenied,
                    "\(page.endpoint.origin) did not accept the user name and password. \(page.words(html))"
                )
            }
            var values: [String: String] = [passwordField.name: password.exposed]
            if let field = form.userNameField { values[field.name] = username }
            return try submit(form, on: page, values, pressing: form.signInButton, typesCredentials: true)
        }
        guard !usable.contains(where: \.asksForOneTimeCode) else {
            throw refusal(page, "asks for a one-time code, which cannot be configured", html)
        }
        // After the password has been entered, a text field is not a user name field.
        let userNameForms =
            page.hasTypedCredentials ? [] : usable.filter { $0.userNameField != nil && !grantsDenied($0) }
        if let form = userNameForms.first(where: { $0.userNameField?.isUserName == true }) ?? userNameForms.first,
            let field = form.userNameField
        {
            guard !form.locksPassword else {
                throw refusal(page, "has a password field that cannot be filled in without JavaScript", html)
            }
            guard !page.hasTypedUserName else {
                throw refusal(page, "asks for text although the user name has been entered", html)
            }
            // This page asks for the user name, and the next page for the password.
            var navigation = try submit(form, on: page, [field.name: username], pressing: form.signInButton)
            navigation.typesUserName = true
            return navigation
        }
        return try answer(usable, on: page, html)
    }

    /// Submits the configured consent decision.
    private func answer(
        _ forms: [HTMLForm],
        on page: HeadlessPage,
        _ html: HTMLPage
    ) throws -> HeadlessNavigation {
        // Some consent pages have a separate form for each decision.
        let answer = try consent.decisions.lazy.compactMap { decision in
            try HTMLForm.button(in: forms, acceptsDefault: consent == .allow, on: page) { button, text in
                button.decision(in: text) == decision
            }
        }.first
        guard let (form, button) = answer else {
            throw refusal(page, "is neither a sign-in page nor a consent page", html)
        }
        let decisions = forms.flatMap(\.buttons).map { ButtonText($0.label).decision }
        let isDecision = decisions.contains(.grant) && decisions.contains(.refuse)
        let asksForText = form.fields.contains { $0.isText && $0.value.isEmpty }
        guard consent == .deny || isDecision || !asksForText else {
            throw refusal(page, "asks for text that is not configured, such as a one-time code", html)
        }
        guard consent == .allow || !form.grantsByDefault else {
            throw refusal(
                page,
                "would grant the request unless its JavaScript changes the form, so nothing was sent",
                html
            )
        }
        return try submit(form, on: page, pressing: button)
    }

    /// - Throws: ``/AuthFlow/AuthError`` when the page cannot be used. Some providers send a sign-in page with an error status.
    private func requireSuccess(_ page: HeadlessPage, _ html: HTMLPage, isSignIn: Bool) throws(AuthError) {
        let status = page.response.status
        guard !(200..<300).contains(status) else { return }
        // Some providers respond to a wrong password with status 401 or 403; others show the form again with 400 or 422.
        let isAskedAgain = isSignIn && [400, 401, 403, 422].contains(status)
        guard page.hasTypedCredentials || !isAskedAgain else { return }
        let isRefusal = page.hasTypedCredentials && (isAskedAgain || status == 401 || status == 403)
        throw AuthError(
            isRefusal ? .accessDenied : .userAgentFailed,
            "\(page.endpoint.origin) responded with status \(status). \(page.words(html))",
            status: status
        )
    }

    private func noUsableFormError(of page: HeadlessPage, _ html: HTMLPage) -> AuthError {
        if html.forms.contains(where: \.setsPassword) { return refusal(page, "asks for a new password", html) }
        if html.hasScripts {
            return refusal(
                page,
                "has no form that can be filled in without JavaScript, which this user agent does not support. If it is not an error page, use a user agent with a browser, such as \"loopback\"",
                html
            )
        }
        let reason = html.requiresDOM ? ", or none that can be parsed reliably" : ""
        return refusal(page, "has no form that can be filled in\(reason)", html)
    }

    /// Whether submitting a form would grant the request, although consent is denied. A button that may do more than sign in is
    /// not pressed if another button denies the request.
    private func grantsDenied(_ form: HTMLForm) -> Bool {
        guard consent == .deny, let button = form.signInButton else { return false }
        let grants = [\HTMLForm.Field.label, \.value, \.name].contains { button.decision(in: $0) == .grant }
        return grants || form.buttons.contains(where: \.refuses) && !ButtonText(button.label).isPlainSignIn
    }

    /// Submits a form. The origins of the form's page and target must be listed, regardless of the form's contents, because a
    /// page on another site could otherwise misuse the user's session with the provider.
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
        // In UTF-8, the server would receive a different user name or password, and could lock the account.
        if let encoding = form.legacyEncoding, !values.values.allSatisfy({ $0.utf8.allSatisfy { $0 < 0x80 } }) {
            throw AuthError(
                .userAgentFailed,
                "The form at \(page.endpoint.origin) uses the character encoding \(DisplayText.sanitized(encoding, limit: 40)), in which this user agent can enter only ASCII characters. No data was entered or sent. Use a user agent with a browser, such as \"loopback\"."
            )
        }
        // On some consent pages, no scope is granted unless its box is checked.
        let parameters = form.parameters(
            filling: values,
            checking: { consent == .allow && $0.name.lowercased().contains("scope") },
            pressing: button
        )
        var navigation = try form.navigation(
            parameters,
            to: target,
            pressing: button,
            typesCredentials: typesCredentials
        )
        if typesCredentials { navigation.secrets = [password] }
        return navigation
    }

    private func refusal(_ page: HeadlessPage, _ reason: String, _ html: HTMLPage) -> AuthError {
        AuthError(
            .userAgentFailed,
            "The page at \(page.endpoint) \(reason). \(page.words(html))",
            status: page.response.status
        )
    }
}
