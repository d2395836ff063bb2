package import AuthFlowHTTP

/// The cause of an error: the provider has issued tokens for another user.
package struct SubjectMismatch: Error {
    package init() {}
}

extension AuthError {
    /// Whether the provider has issued tokens for another user. The session then ends, because the response does
    /// not contain this user's new refresh token.
    package var isSubjectMismatch: Bool {
        underlyingError is SubjectMismatch || (underlyingError as? AuthError)?.isSubjectMismatch == true
    }
}
