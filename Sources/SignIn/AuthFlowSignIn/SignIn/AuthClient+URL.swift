public import AuthFlowCredentials
public import AuthFlowEssentials
public import AuthFlowOAuth

extension AuthClient {
    /// Like ``resume(with:)-(String)``, for the `URL` that an app was opened with.
    @discardableResult
    public func resume(with url: URL) -> Bool { resume(with: url.absoluteString) }

    /// Like ``finishSignIn(_:with:policy:)-(_,String,_)``, for a `URL`.
    public func finishSignIn(
        _ request: AuthorizationRequest,
        with callback: URL,
        policy: AccountPolicy = .sameAccount
    ) async throws -> SignIn {
        try await finishSignIn(request, with: callback.absoluteString, policy: policy)
    }
}

extension OAuthClient {
    /// Like ``exchange(_:for:)-(String,_)``, for a `URL`.
    public func exchange(_ callback: URL, for request: AuthorizationRequest) async throws -> Credential {
        try await exchange(callback.absoluteString, for: request)
    }
}
