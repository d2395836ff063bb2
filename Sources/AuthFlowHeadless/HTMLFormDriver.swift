public import AuthFlow

/// Fills in plain HTML forms: a user name, a password, and a consent.
///
/// Credentials are typed only into pages of the origins it is given, whose forms go to one of those origins.
public struct HTMLFormDriver: Sendable {
    /// What to answer when the provider asks for consent.
    public enum Consent: String, Sendable, CaseIterable {
        /// Allow what is asked for.
        case allow
        /// Deny it.
        case deny
    }

    private let userName: String
    private let password: Secret
    private let origins: [String]
    private let consent: Consent

    /// Creates a driver.
    /// - Parameters:
    ///   - userName: The user name.
    ///   - password: The password.
    ///   - origins: Where both may be typed, such as `https://id.example.com`.
    ///   - consent: What to answer when the provider asks for consent.
    public init(userName: String, password: Secret, origins: [Endpoint], consent: Consent = .allow) {
        self.userName = userName
        self.password = password
        self.origins = origins.map(\.origin)
        self.consent = consent
    }
}

extension HTMLFormDriver: LoginDriver {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func next(after page: HeadlessPage, in browser: HeadlessBrowser) async throws -> HeadlessNavigation {
        guard (200..<300).contains(page.reply.status) else {
            throw refusal(page, "answered with status \(page.reply.status)")
        }
        let html = HTMLPage(page.reply.body)
        guard let form = html.forms.first(where: { $0.passwordField != nil }) ?? html.forms.first(where: Self.isUsable)
        else {
            if html.hasScripts {
                throw refusal(
                    page,
                    "needs JavaScript, which this user agent does not have. Use a user agent with a browser, such as \"loopback\""
                )
            }
            throw refusal(page, "has no form that could be filled in")
        }
        let action = try HeadlessBrowser.resolve(
            form.action.isEmpty ? page.endpoint.url : form.action,
            against: page.endpoint
        )
        let target = try Endpoint(String(action.prefix { $0 != "#" }), name: "form action")

        if let passwordField = form.passwordField {
            try requireTrust(page, target)
            guard !page.hasTypedCredentials else {
                throw AuthError(.accessDenied, "\(page.endpoint.origin) did not accept the user name and password.")
            }
            var answers: [String: String] = [passwordField.name: password.exposed]
            if let field = form.userNameField { answers[field.name] = userName }
            return try submit(form, answers, to: target, pressing: form.buttons.first, typesCredentials: true)
        }
        if let field = form.userNameField {
            // A page that asks for the name first, and for the password on the next.
            try requireTrust(page, target)
            return try submit(
                form,
                [field.name: userName],
                to: target,
                pressing: form.buttons.first,
                typesCredentials: false
            )
        }
        guard let button = consentButton(of: form) else {
            throw refusal(page, "asks something that is neither a sign-in nor a consent")
        }
        return try submit(form, [:], to: target, pressing: button, typesCredentials: false)
    }

    private static func isUsable(_ form: HTMLForm) -> Bool {
        form.userNameField != nil || !form.buttons.isEmpty
    }

    /// The button that says what is to be answered, by its value, its name or its label.
    private func consentButton(of form: HTMLForm) -> HTMLForm.Field? {
        let words =
            switch consent {
            case .allow: ["allow", "accept", "approve", "agree", "authorize", "grant", "yes", "continue", "confirm"]
            case .deny: ["deny", "cancel", "reject", "decline", "disallow", "refuse", "no"]
            }
        return form.buttons.first { button in
            [button.value, button.name, button.label].contains { text in
                let parts = text.lowercased().split { !$0.isLetter }
                return parts.contains { words.contains(String($0)) }
            }
        }
    }

    private func requireTrust(_ page: HeadlessPage, _ target: Endpoint) throws {
        for origin in [page.endpoint.origin, target.origin] where !origins.contains(origin) {
            throw AuthError(
                .userAgentFailed,
                "The page at \(page.endpoint.origin) asks for credentials to be sent to \(origin), which is not listed in \"origins\". Nothing was typed."
            )
        }
    }

    private func submit(
        _ form: HTMLForm,
        _ answers: [String: String],
        to target: Endpoint,
        pressing button: HTMLForm.Field?,
        typesCredentials: Bool
    ) throws -> HeadlessNavigation {
        var parameters = FormParameters()
        for field in form.fields where !field.name.isEmpty {
            if let answer = answers[field.name], field.type != "hidden" {
                parameters.append(field.name, answer)
            } else if field.isSent {
                parameters.append(field.name, field.value)
            }
        }
        if let button, !button.name.isEmpty { parameters.append(button.name, button.value) }
        if form.method == "post" { return .post(parameters, to: target, typesCredentials: typesCredentials) }
        guard !typesCredentials else {
            // A password in an address ends up in histories and logs.
            throw AuthError(.userAgentFailed, "\(target) wants the password in its address, which was refused.")
        }
        return .visit(try Endpoint(target.url(adding: parameters), name: "form action"))
    }

    private func refusal(_ page: HeadlessPage, _ reason: String) -> AuthError {
        AuthError(.userAgentFailed, "The page at \(page.endpoint) \(reason).")
    }
}
