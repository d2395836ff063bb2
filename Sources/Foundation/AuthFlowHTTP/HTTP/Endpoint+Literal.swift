extension Endpoint: ExpressibleByStringLiteral {
    /// Creates an endpoint from an address in the source code. The program ends when the address cannot be used: a value that
    /// comes from elsewhere is read by ``init(_:name:)``.
    public init(stringLiteral value: String) {
        do throws(AuthError) {
            try self.init(value)
        } catch {
            preconditionFailure("\(error)")
        }
    }
}
