package import AuthFlowHTTP

/// The cause of an error: the provider has issued tokens for another user.
package struct AnotherUser: Error {
    package init() {}
}

extension AuthError {
    /// Whether the provider has issued tokens for another user. The session then ends, because the response to this
    /// user's refresh request is lost.
    package var isOfAnotherUser: Bool {
        underlyingError is AnotherUser || (underlyingError as? AuthError)?.isOfAnotherUser == true
    }
}
