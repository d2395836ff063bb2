package import HTTPTypes

extension HTTPField.Name {
    /// Creates a field name from a constant that is known to be valid.
    package init(known name: String) {
        guard let valid = HTTPField.Name(name) else { preconditionFailure("\(name) is not a valid header field name") }
        self = valid
    }
}
