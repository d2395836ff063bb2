/// The cause of an error: the resource requires scopes that the user has not granted.
package struct MissingScopes: Error {
    /// The scopes.
    package let scopes: [String]
}
