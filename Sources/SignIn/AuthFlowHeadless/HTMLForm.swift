import AuthFlow

/// A form on a page, with the values that it submits by default.
struct HTMLForm: Sendable {
    /// An element that submits a value.
    struct Field: Sendable {
        let name: String
        /// The type in lower case: `text`, `password`, `hidden`, `submit`, `checkbox` ...
        let type: String
        let value: String
        /// Whether the field is submitted by default: false for an unchecked checkbox and for buttons.
        let isSent: Bool
        /// The text on a button.
        let label: String
        /// The URL that overrides the form's action when a button submits the form (`formaction`); nil for none.
        var action: String?
        /// The method that overrides the form's method when a button submits the form (`formmethod`), in lower case; nil for none.
        var method: String?
        /// Whether the user cannot change the value (`readonly`).
        var isFixed = false
        /// Whether the page asks for a one-time code (`autocomplete`).
        var isOneTimeCode = false

        /// Whether a user can type text.
        var isText: Bool { ["text", "email", "tel", "number", "search", "url", "textarea"].contains(type) && !isFixed }

        /// Whether the button's text contains one of the words.
        func says(_ words: [String], in text: KeyPath<Field, String> = \.label) -> Bool {
            let said = " " + self[keyPath: text].lowercased().split { !$0.isLetter }.joined(separator: " ") + " "
            return words.contains { said.contains(" \($0) ") }
        }

        /// Whether two buttons submit the same data, so that only a script could distinguish them.
        func sendsSame(as other: Field) -> Bool {
            name == other.name && (name.isEmpty || value == other.value) && action == other.action
                && method == other.method
        }
    }

    /// The action as written; empty for the page itself.
    let action: String

    /// The base URL for a relative action (`<base href>`), as written; nil for the page's own URL.
    var base: String?
    /// The method in lower case.
    let method: String
    var fields: [Field]

    /// Whether the form has a text input field.
    var asksForText: Bool { fields.contains { $0.isText || $0.type == "password" } }
    /// The buttons that submit the form. A button with the method `dialog` only closes a dialog.
    var buttons: [Field] { submitButtons.filter { ($0.method ?? method) != "dialog" } }
    /// Whether a browser can submit the form.
    var isSubmitted: Bool { !buttons.isEmpty || method != "dialog" && submitButtons.isEmpty }
    private var submitButtons: [Field] { fields.filter { $0.type == "submit" || $0.type == "image" } }
    var passwordField: Field? { fields.first { $0.type == "password" && !$0.isFixed && !$0.isOneTimeCode } }
    /// The field for the user name: the last text field, before the password field if there is one.
    var userNameField: Field? {
        let end = fields.firstIndex { $0.type == "password" } ?? fields.endIndex
        let field = fields[..<end].last { ["text", "email", "tel"].contains($0.type) }
        return field.flatMap { $0.isFixed || $0.isOneTimeCode ? nil : $0 }
    }
    var asksForOneTimeCode: Bool { fields.contains(where: \.isOneTimeCode) }
    /// Whether this is the search form of a site.
    var isSearch: Bool {
        method == "get" && fields.contains { $0.type == "search" || ["q", "s", "query", "search"].contains($0.name) }
    }

    /// The parameters that are submitted when fields are filled in and a button is pressed.
    func parameters(filling values: [String: String] = [:], pressing button: Field?) -> FormParameters {
        var parameters = FormParameters()
        for field in fields where !field.name.isEmpty {
            if let value = values[field.name], field.type != "hidden" {
                parameters.append(field.name, value)
            } else if field.isSent {
                parameters.append(field.name, field.value)
            }
        }
        if let button, !button.name.isEmpty { parameters.append(button.name, button.value) }
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

    /// The button that signs in: the first button, which is the form's default button. Buttons such as "Cancel" are
    /// skipped if there is another button.
    var signInButton: Field? { continueButton ?? buttons.first }

    /// The first button, ignoring buttons such as "Cancel"; nil if there is no other button.
    var continueButton: Field? {
        buttons.first { !$0.says(Self.refusals) && !$0.says(Self.refusals, in: \.value) }
    }

    /// The words on a button that denies or cancels.
    static let refusals = [
        "deny", "cancel", "reject", "decline", "disallow", "refuse", "abort", "abbrechen", "ablehnen", "annuler",
        "cancelar",
    ]

    /// The only button that has one of the words in its label, or else in its value, or else in its name.
    /// - Throws: The same errors as ``answer(saying:in:acceptsDefault:on:)``.
    func button(saying words: [String], on page: HeadlessPage) throws -> Field? {
        try Self.answer(saying: words, in: [self], acceptsDefault: false, on: page)?.button
    }

    /// The only button in all forms that has one of the words in its label, or else in its value, or else in its name.
    /// - Parameter acceptsDefault: Whether the first button of a form may submit the same data as another button.
    /// - Throws: ``/AuthFlow/AuthError`` when another button also has one of the words, or submits the same data.
    static func answer(
        saying words: [String],
        in forms: [HTMLForm],
        acceptsDefault: Bool,
        on page: HeadlessPage
    ) throws -> (form: HTMLForm, button: Field)? {
        for text in [\Field.label, \Field.value, \Field.name] {
            let candidates = forms.flatMap { form in
                form.buttons.filter { $0.says(words, in: text) }.map { (form: form, button: $0) }
            }
            guard let (form, button) = candidates.first else { continue }
            let isOnly = form.buttons.count { $0.sendsSame(as: button) } == 1
            // The first submit button is the form's default button: without scripts, pressing Enter submits its data.
            // This is sufficient for consent. A denial must be unambiguous, because another button with the same data
            // would grant the request.
            let isDefault = acceptsDefault && form.buttons.first.map { $0.says(words, in: text) } == true
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
}
