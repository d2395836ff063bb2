import AuthFlow

/// A form on a page, with the values that it submits by default.
struct HTMLForm: Sendable {
    /// An element that submits a value.
    struct Field: Sendable {
        let name: String
        /// The type in lower case: `text`, `password`, `hidden`, `submit`, `checkbox` ...
        let type: String
        var value: String
        /// Whether the field is submitted by default: false for an unchecked checkbox and for buttons.
        let isSent: Bool
        /// The text on a button.
        var label: String
        /// The URL that overrides the form's action when a button submits the form (`formaction`); nil for none.
        var action: String?
        /// The method that overrides the form's method when a button submits the form (`formmethod`), in lower case; nil for none.
        var method: String?
        /// Whether the user cannot change the value (`readonly`).
        var isFixed = false
        /// The content that the page expects (`autocomplete`), in lower case.
        var autocomplete: [String] = []
        /// Whether the page expects digits (`inputmode`).
        var isNumeric = false

        /// Whether a user can type text.
        var isText: Bool { ["text", "email", "tel", "number", "search", "url", "textarea"].contains(type) && !isFixed }

        /// Whether the page asks for a one-time code, possibly in a password field.
        var isOneTimeCode: Bool {
            let parts = name.lowercased().split { !$0.isLetter }
            let isHidden = type == "password" && !parts.contains { $0.contains("pass") || $0.contains("pwd") }
            return autocomplete.contains("one-time-code")
                || isHidden && (isNumeric || parts.contains { $0 == "code" || $0.hasSuffix("otp") || $0 == "mfa" })
        }

        /// Whether the page asks for a user name.
        var isUserName: Bool {
            autocomplete.contains { $0 == "username" || $0 == "email" }
                || ["username", "user", "login", "identifier", "email", "loginfmt", "uid"].contains(name.lowercased())
        }

        /// The decision that the given text of the button expresses; nil if a more visible text already expresses a decision.
        func decision(in text: KeyPath<Field, String>) -> ButtonText.Decision? {
            for visible in [\Field.label, \.value, \.name] {
                let decision = ButtonText(self[keyPath: visible]).decision
                if visible == text { return decision }
                if decision != nil { return nil }
            }
            return nil
        }

        /// Whether the button's label or value expresses a denial or cancellation.
        var refuses: Bool { [\Field.label, \.value].contains { decision(in: $0) == .refuse } }
    }

    /// The action as written; empty for the page itself.
    let action: String

    /// The base URL for a relative action (`<base href>`), as written; nil for the page's own URL.
    var base: String?
    /// The declared character encodings in which the form may be submitted (`accept-charset`), or the page's encoding, as written; nil for none.
    var encoding: String?
    /// The method in lower case.
    let method: String
    var fields: [Field]

    /// The character encoding in which a browser would submit the form (the HTML Standard, "picking an encoding for the form"), in lower case; nil
    /// for UTF-8, which also replaces UTF-16, or if no encoding is declared.
    var legacyEncoding: String? {
        // Browsers skip unknown labels. In HTML 4, labels could be separated by commas, and "UNKNOWN" was reserved.
        let labels = (encoding ?? "").split(whereSeparator: \.isWhitespace).map { $0.lowercased() }
        let label = labels.first { !$0.contains(",") && $0 != "unknown" }
        // The labels of UTF-8 and UTF-16 in the Encoding Standard. With an unknown label, only ASCII is entered.
        let unicode = [
            "utf-8", "utf8", "unicode-1-1-utf-8", "unicode11utf8", "unicode20utf8", "x-unicode20utf8", "utf-16",
            "utf-16le", "utf-16be", "unicode", "csunicode", "iso-10646-ucs-2", "ucs-2", "unicodefeff", "unicodefffe",
        ]
        return label.flatMap { unicode.contains($0) ? nil : $0 }
    }

    /// Whether the form has a field for text or for a password.
    var asksForText: Bool { fields.contains { $0.isText || $0.type == "password" } }
    /// The buttons that submit the form. A button with the method `dialog` only closes a dialog.
    var buttons: [Field] { submitButtons.filter { ($0.method ?? method) != "dialog" } }
    /// Whether a browser can submit the form.
    var isSubmitted: Bool { !buttons.isEmpty || method != "dialog" && submitButtons.isEmpty }
    private var submitButtons: [Field] { fields.filter { $0.type == "submit" || $0.type == "image" } }
    /// The field for the sign-in password; nil in a form that sets a new password.
    var passwordField: Field? { setsPassword ? nil : passwordFields.first }
    /// Whether the form sets a new password, for example during registration.
    var setsPassword: Bool {
        passwordFields.count > 1 || passwordFields.contains { $0.autocomplete.contains("new-password") }
    }
    /// Whether only a script can make the password field usable.
    var locksPassword: Bool { fields.contains { $0.type == "password" && $0.isFixed && !$0.name.isEmpty } }
    private var passwordFields: [Field] {
        fields.filter { $0.type == "password" && !$0.isFixed && !$0.isOneTimeCode && !$0.name.isEmpty }
    }
    /// The field for the user name: the one that the page identifies as such, otherwise the last text field before the
    /// password field, preferably an empty field.
    var userNameField: Field? {
        let end = fields.firstIndex { $0.type == "password" && !$0.name.isEmpty } ?? fields.endIndex
        let texts = fields[..<end].filter { ["text", "email", "tel"].contains($0.type) && !$0.name.isEmpty }
        if let named = texts.last(where: { $0.isUserName && !$0.isOneTimeCode }) { return named.isFixed ? nil : named }
        let field = texts.last { $0.value.isEmpty || $0.isFixed } ?? texts.last
        return field.flatMap { $0.isFixed || $0.isOneTimeCode ? nil : $0 }
    }
    var asksForOneTimeCode: Bool { fields.contains(where: \.isOneTimeCode) }
    /// Whether this is the search form of a site.
    var isSearch: Bool {
        method == "get" && fields.contains { $0.type == "search" || ["q", "s", "query", "search"].contains($0.name) }
    }

    /// The parameters that are submitted when fields are filled in, boxes are checked and a button is pressed.
    func parameters(
        filling values: [String: String] = [:],
        checking isChecked: (Field) -> Bool = { _ in false },
        pressing button: Field?
    ) -> FormParameters {
        var parameters = FormParameters()
        // The HTML Standard, "radio button group": checking a button unchecks the others, so of several checked buttons, the last stays checked.
        var lastChecked: [String: Int] = [:]
        for (index, field) in fields.enumerated() where field.type == "radio" && field.isSent {
            lastChecked[field.name] = index
        }
        for (index, field) in fields.enumerated() where !field.name.isEmpty {
            if field.type == "radio", lastChecked[field.name] != index { continue }
            if let value = values[field.name], field.type != "hidden" {
                parameters.appendEntry(field.name, value)
            } else if field.isSent || field.type == "checkbox" && isChecked(field) {
                parameters.appendEntry(field.name, field.value)
            }
        }
        if let button, button.type == "image" {
            // The HTML Standard, "constructing the form data set": an image button submits the coordinates of the click instead of its value.
            let prefix = button.name.isEmpty ? "" : "\(button.name)."
            for axis in ["x", "y"] { parameters.appendEntry(prefix + axis, "0") }
        } else if let button, !button.name.isEmpty {
            parameters.appendEntry(button.name, button.value)
        }
        return parameters
    }

    /// The URL that the form is submitted to.
    /// - Throws: ``/AuthFlow/AuthError`` when that URL is not acceptable.
    func target(on page: HeadlessPage, pressing button: Field? = nil) throws -> Endpoint {
        let action = button?.action ?? action
        // The HTML Standard, "form submission": an empty action is the URL of the page, regardless of the base URL.
        let address = try HeadlessBrowser.resolve(
            action.isEmpty ? page.endpoint.url : action,
            against: try baseURL(of: page)
        )
        return try HeadlessBrowser.endpoint(address, name: "form action")
    }

    /// The HTML Standard, "set the frozen base URL": a base that is not a URL, or has the scheme data or javascript, is ignored. Any other base that
    /// is not acceptable is an error, because a browser would use it.
    private func baseURL(of page: HeadlessPage) throws -> Endpoint {
        guard let base, let address = try? HeadlessBrowser.resolve(base, against: page.endpoint),
            !["data:", "javascript:"].contains(where: address.lowercased().hasPrefix)
        else { return page.endpoint }
        return try HeadlessBrowser.endpoint(address, name: "base URL")
    }

    /// The button that signs in: the first whose label contains only words for signing in, otherwise the first button, which is
    /// the form's default button. Buttons such as "Cancel" and "Forgot password?" are skipped if there is another button.
    var signInButton: Field? {
        let candidates = buttons.filter { !$0.refuses }
        return candidates.first { !$0.label.isEmpty && ButtonText($0.label).isPlainSignIn }
            ?? candidates.first { !ButtonText($0.label).isAlternative } ?? candidates.first ?? buttons.first
    }

    /// The first button, ignoring buttons such as "Cancel"; nil if there is no other button.
    var continueButton: Field? { buttons.first { !$0.refuses } }

    /// Whether the form submits a value that grants the request regardless of the button; a denial may then depend on a script.
    var grantsByDefault: Bool {
        parameters(pressing: nil).pairs.contains { pair in
            let isSet = ["1", "on", "true"].contains(pair.value.lowercased())
            // A URL or a random value may contain a word such as "allow" by chance.
            let isWords =
                !pair.value.contains { "/?=".contains($0) } && (pair.value.count <= 20 || pair.value.contains(" "))
            // In OpenID Connect, `consent` is a value of the parameter `prompt`.
            return !pair.name.lowercased().contains("remember") && pair.value.lowercased() != "consent"
                && (isSet || isWords) && ButtonText(isSet ? pair.name : pair.value).decision == .grant
        }
    }

    /// The only button, among all forms, whose text matches. Labels are compared first, then values, then names.
    /// - Parameter acceptsDefault: Whether the first button of a form may submit the same data as another button.
    /// - Throws: ``/AuthFlow/AuthError`` when another button also matches or submits the same data, or there are too many buttons to compare.
    static func button(
        in forms: [HTMLForm],
        acceptsDefault: Bool = false,
        on page: HeadlessPage,
        where matches: (Field, KeyPath<Field, String>) -> Bool
    ) throws -> (form: HTMLForm, button: Field)? {
        let all = forms.flatMap { form in form.buttons.map { (form: form, button: $0) } }
        // The data that each button would submit is compared below.
        guard all.reduce(0, { $0 + $1.form.fields.count }) <= maximumComparisons else {
            throw AuthError(
                .userAgentFailed,
                "The page at \(page.endpoint) has too many fields and buttons to compare, so no button was pressed."
            )
        }
        for text in [\Field.label, \Field.value, \Field.name] {
            let candidates = all.filter { matches($0.button, text) }
            guard let (form, button) = candidates.first else { continue }
            // A script could distinguish buttons that submit the same data.
            let parameters = form.parameters(pressing: button)
            let isOnly = all.count { $0.form.submits(parameters, of: form, as: button, pressing: $0.button) } == 1
            // The first submit button is the form's default button: without scripts, pressing Enter submits its data.
            // This is sufficient for consent. A denial must be unambiguous, because another button with the same data
            // would grant the request.
            let isDefault = acceptsDefault && form.buttons.first.map { matches($0, text) } == true
            guard candidates.count == 1, isOnly || isDefault else {
                throw AuthError(
                    .userAgentFailed,
                    "The page at \(page.endpoint) has several buttons that match the expected words or submit the same data. None was pressed."
                )
            }
            return (form, button)
        }
        return nil
    }

    /// The maximum sum, over all buttons, of the number of fields in the button's form.
    private static let maximumComparisons = 100_000

    private func submits(
        _ submitted: FormParameters,
        of other: HTMLForm,
        as button: Field,
        pressing own: Field
    ) -> Bool {
        (own.action ?? action) == (button.action ?? other.action)
            && (own.method ?? method) == (button.method ?? other.method)
            && parameters(pressing: own) == submitted
    }

    /// Submits the form.
    /// - Parameters:
    ///   - parameters: The result of ``parameters(filling:checking:pressing:)``.
    ///   - target: The result of ``target(on:pressing:)``.
    func navigation(
        _ parameters: FormParameters,
        to target: Endpoint,
        pressing button: Field?,
        typesCredentials: Bool = false
    ) throws(AuthError) -> HeadlessNavigation {
        if (button?.method ?? method) == "post" {
            return .post(parameters, to: target, typesCredentials: typesCredentials)
        }
        guard !typesCredentials else {
            // A password in a URL ends up in the browser history and in server logs.
            throw AuthError(
                .userAgentFailed,
                "The form would put the password into the URL of \(target), so it was not submitted."
            )
        }
        // The HTML Standard, "mutate action URL": the parameters replace the query of the action.
        let path = target.url.prefix { $0 != "?" }
        return .visit(try Endpoint("\(path)?\(FormURLEncoding.encodeQuery(parameters))", name: "form action"))
    }
}

extension FormParameters {
    /// Adds a field of a form. The HTML Standard, "converting an entry list to a list of name-value pairs": every line break in a name or a
    /// value is submitted as CR LF.
    fileprivate mutating func appendEntry(_ name: String, _ value: String) {
        append(Self.withCRLF(name), Self.withCRLF(value))
    }

    private static func withCRLF(_ text: String) -> String {
        let (carriageReturn, lineFeed) = (UInt8(ascii: "\r"), UInt8(ascii: "\n"))
        guard text.utf8.contains(where: { $0 == carriageReturn || $0 == lineFeed }) else { return text }
        var bytes: [UInt8] = []
        var isAfterCarriageReturn = false
        for byte in text.utf8 {
            if byte == carriageReturn {
                bytes += [carriageReturn, lineFeed]
            } else if byte != lineFeed {
                bytes.append(byte)
            } else if !isAfterCarriageReturn {
                bytes += [carriageReturn, lineFeed]
            }
            isAfterCarriageReturn = byte == carriageReturn
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
