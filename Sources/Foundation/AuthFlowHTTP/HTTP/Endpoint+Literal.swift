extension Endpoint: ExpressibleByStringLiteral {
    /// Creates an endpoint from a URL literal. An invalid URL is a precondition failure; a value
    /// from any other source must be parsed with ``init(_:name:)``.
    public init(stringLiteral value: String) {
        do throws(AuthError) {
            try self.init(value)
        } catch {
            preconditionFailure("\(error)")
        }
    }
}
