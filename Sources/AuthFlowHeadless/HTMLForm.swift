import AuthFlow

/// A form on a page, with what it would send if nothing was touched.
struct HTMLForm: Sendable {
    /// An element that sends something.
    struct Field: Sendable {
        let name: String
        /// The type in lower case: `text`, `password`, `hidden`, `submit`, `checkbox` ...
        let type: String
        let value: String
        /// Whether it is sent unless it is touched: false for an unchecked box, and for buttons.
        let isSent: Bool
        /// What is written on a button.
        let label: String
        /// Where a button sends the form instead of its action; nil for nowhere else.
        var action: String?

        /// Whether two buttons send the same: only a script could tell them apart.
        func sendsSame(as other: Field) -> Bool {
            name == other.name && (name.isEmpty || value == other.value) && action == other.action
        }
    }

    /// The action as written; empty for the page itself.
    let action: String
    /// The method in lower case.
    let method: String
    let fields: [Field]

    /// Whether something is to be typed.
    var asksForText: Bool {
        fields.contains { ["text", "password", "email", "tel", "number", "search", "url"].contains($0.type) }
    }
    var buttons: [Field] { fields.filter { $0.type == "submit" || $0.type == "image" } }
    var passwordField: Field? { fields.first { $0.type == "password" } }
    /// The field for the user name: what stands before the password, or alone.
    var userNameField: Field? {
        let end = fields.firstIndex { $0.type == "password" } ?? fields.endIndex
        return fields[..<end].last { ["text", "email", "tel"].contains($0.type) }
    }

    /// What is sent when fields are filled in and a button is pressed.
    func parameters(filling answers: [String: String] = [:], pressing button: Field?) -> FormParameters {
        var parameters = FormParameters()
        for field in fields where !field.name.isEmpty {
            if let answer = answers[field.name], field.type != "hidden" {
                parameters.append(field.name, answer)
            } else if field.isSent {
                parameters.append(field.name, field.value)
            }
        }
        if let button, !button.name.isEmpty { parameters.append(button.name, button.value) }
        return parameters
    }

    /// Where the form goes.
    /// - Throws: ``AuthFlow/AuthError`` when that is no address, or a nearer one than a page of that server may name.
    func target(on page: HeadlessPage, pressing button: Field? = nil) throws -> Endpoint {
        let action = button?.action ?? action
        let address = try HeadlessBrowser.resolve(action.isEmpty ? page.endpoint.url : action, against: page.endpoint)
        return try Endpoint(String(address.prefix { $0 != "#" }), name: "form action")
    }

    /// The one button that says a word, by its label, or else its value, or else its name.
    /// - Throws: ``AuthFlow/AuthError`` when another button says so too, or sends the same.
    func button(saying words: [String], on page: HeadlessPage) throws -> Field? {
        for text in [\Field.label, \Field.value, \Field.name] {
            let candidates = buttons.filter { button in
                let said = " " + button[keyPath: text].lowercased().split { !$0.isLetter }.joined(separator: " ") + " "
                return words.contains { said.contains(" \($0) ") }
            }
            guard let button = candidates.first else { continue }
            let isClear = candidates.count == 1 && buttons.count { $0.sendsSame(as: button) } == 1
            guard isClear else {
                throw AuthError(
                    .userAgentFailed,
                    "The page at \(page.endpoint) has buttons that send the same, or say the same, and that only a script could tell apart. None was pressed."
                )
            }
            return button
        }
        return nil
    }
}
