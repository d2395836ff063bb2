package import HTTPTypes

extension HTTPField.Name {
    /// The name of a field of a standard, which is a valid one.
    package init(known name: String) {
        guard let valid = HTTPField.Name(name) else { preconditionFailure("\(name) is not the name of a header field") }
        self = valid
    }
}
