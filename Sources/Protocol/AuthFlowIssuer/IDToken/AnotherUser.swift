package import AuthFlowHTTP

/// The cause of an error: the provider has issued tokens for another user.
package struct AnotherUser: Error {
    package init() {}
}

extension AuthError {
    /// Whether the provider has issued tokens for another user, which ends the session, because the response to this
    /// user's refresh is lost.
    package var isOfAnotherUser: Bool {
        underlyingError is AnotherUser || (underlyingError as? AuthError)?.isOfAnotherUser == true
    }
}
