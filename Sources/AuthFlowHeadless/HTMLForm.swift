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
    }

    /// The action as written; empty for the page itself.
    let action: String
    /// The method in lower case.
    let method: String
    let fields: [Field]

    var buttons: [Field] { fields.filter { $0.type == "submit" || $0.type == "image" } }
    var passwordField: Field? { fields.first { $0.type == "password" } }
    /// The field for the user name: what stands before the password, or alone.
    var userNameField: Field? {
        let end = fields.firstIndex { $0.type == "password" } ?? fields.endIndex
        return fields[..<end].last { ["text", "email", "tel"].contains($0.type) }
    }
}
