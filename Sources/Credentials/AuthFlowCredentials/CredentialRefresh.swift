import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowOAuth

/// The decisions of one refresh under a lease: the request that the stored credential needs, and the consequences of the response. Like
/// ``CredentialMachine``, it never waits, and has neither a clock nor a lock: ``ManagedCredential`` performs the actions.
///
/// | stored | action |
/// |---|---|
/// | no usable credential, no named account, and tokens can be obtained without a user | renew |
/// | no usable credential, in any other case | throw `login_required`, or `invalid_configuration` if the name is ambiguous |
/// | a fresh access token that no API has rejected | return it |
/// | a refresh token | send it |
/// | no refresh token and no user, and tokens can be obtained without a user | renew |
/// | no refresh token, and an access token that has neither expired nor been rejected | return it |
/// | no refresh token otherwise | publish `expired`, throw `login_required` |
///
/// | response | stored | backoff | callers receive |
/// |---|---|---|---|
/// | tokens | the new credential | ends | the new tokens |
/// | tokens that cannot be checked now | the new refresh token | yes | the old tokens until they expire, then the error |
/// | tokens that failed a check | the new refresh token | yes | the error, and the old tokens are no longer cached; from the second on, `login_required` |
/// | `invalid_grant`, or tokens for another user | the end of the session | | `login_required` |
/// | with expired old tokens: another OAuth error, a 400 or 401 without one, or tokens that failed a check and did not rotate the refresh token | the number of such responses | yes | the error; from the second on, `login_required` |
/// | the same, with `interaction_required`, `login_required`, `consent_required` or `mfa_required` | the number of such responses | yes | `login_required` |
/// | an OAuth error that a new sign-in cannot fix: about the client's authentication, the scopes, DPoP or the server | nothing | yes | the old tokens until they expire, then the error |
/// | another error, or no response | nothing | yes | the old tokens until they expire, then the error |
///
/// ``endsSession(_:named:)`` decides whether the session has ended, and `ManagedCredential.endSession` records in the store that it has ended.
///
/// If a token for one of several resources was requested, the old tokens cannot be returned instead. An error that may concern only that resource is
/// not counted, and suspends only requests for the same resource; if the error may mean that the session has ended, the main token is refreshed
/// to determine whether it has.
struct CredentialRefresh {
    /// The number of unexplained rejections after which the user is asked to sign in again. Some providers report the end of a session with an empty
    /// 400 response. The credential remains stored, because it is not known to be invalid.
    static let rejectionLimit: Int64 = 2

    /// The name of the account (``AccountID/isNamed(_:)``); nil for the current one.
    let account: String?
    /// The remaining lifetime below which the access token is treated as expired.
    let margin: Duration
    /// An access token that an API has rejected, even if it appears to be fresh.
    let rejected: Secret?
    /// Whether tokens can be obtained without a user.
    let isRenewable: Bool
    /// Whether the client requests the `offline_access` scope.
    var requestsOfflineAccess = false
    /// The request for a token for one of several resources, for which the stored access token cannot be used; nil for a refresh
    /// of the stored access token.
    var resource: ResourceRequest?
    /// Whether this refresh checks whether the session has ended; if so, a rejection counts even if the old tokens have not expired.
    var isConfirmation = false

    /// The action for a stored credential.
    enum Action {
        /// Return a credential.
        case answer(Credential)
        /// Obtain a credential without a user.
        case renew(replacing: Credential?)
        /// Send the refresh token.
        case send(Credential)
        /// Publish that the credential has expired, and throw the error.
        case expire(Credential, AuthError)
    }

    /// Determines the action to take after a store read.
    func action(for stored: Result<Credential, AuthError>, at now: Date) throws(AuthError) -> Action {
        if isRenewable, account == nil, case .failure = stored { return .renew(replacing: nil) }
        let credential = try stored.get()
        if credential.isFresh(at: now, margin: margin), credential.tokens.accessToken != rejected {
            return .answer(credential)
        }
        guard credential.tokens.refreshToken == nil else { return .send(credential) }
        if isRenewable, credential.identity == nil { return .renew(replacing: credential) }
        if isUsable(credential, at: now) { return .answer(credential) }
        // OpenID Connect Core section 11: for offline_access, "the prompt parameter contains consent unless other conditions for processing
        // the request permitting offline access to the requested resources are in place".
        let advice =
            requestsOfflineAccess
            ? "some providers issue one only if the authorization request has prompt=consent"
            : "many providers issue one for the \"offline_access\" scope"
        let reason = credential.isExpired(at: now) ? "has expired, and" : "cannot be refreshed, because"
        let error = AuthError(
            .loginRequired,
            "The access token of \(credential.displayName) \(reason) the provider issued no refresh token. Sign in again; \(advice)."
        )
        return .expire(credential, error)
    }

    /// The consequences of a response, in the order in which they take effect.
    struct Consequence {
        /// The error that starts a backoff; nil ends the backoff.
        var backoff: AuthError?
        /// Whether only requests for the same resource are suspended, rather than every request of the sign-in.
        var isResourceSpecific = false
        /// Whether to stop returning the cached tokens.
        var invalidatesCache = false
        /// The credential to store; nil leaves the record unchanged.
        var stored: Credential?
        /// The state to publish.
        var state: CredentialState?
        /// The result for the callers.
        var answer: Result<Credential, AuthError>
    }

    func consequence(of outcome: RefreshOutcome, at now: Date) -> Consequence {
        switch outcome {
        case .refreshed(let new): return Consequence(stored: new, state: .refreshed, answer: .success(new))
        case .unchecked(let updated, let error):
            return Consequence(backoff: error, stored: updated, answer: answer(updated, after: error, at: now))
        case .rejected(let updated, let error):
            let (counted, isLast) = Self.recordingRejection(updated)
            let answer =
                isLast
                ? AuthError(
                    .loginRequired,
                    "The refreshed tokens failed a check again. \(Self.reason(error)) Sign in again.",
                    retryAfter: error.retryAfter,
                    underlyingError: error
                )
                : error.withMessage(
                    "The refreshed tokens were not used, but the session continues. \(Self.reason(error))",
                    because: error
                )
            return Consequence(
                // Callers during the backoff receive the same error.
                backoff: isLast ? answer : error,
                invalidatesCache: true,
                stored: counted,
                state: isLast ? .expired : nil,
                answer: .failure(answer)
            )
        }
    }

    /// The message of an error without its advice, which depends on the number of rejected refreshes.
    private static func reason(_ error: AuthError) -> String {
        let advice = " Sign in again."
        return error.message.hasSuffix(advice) ? String(error.message.dropLast(advice.count)) : error.message
    }

    /// - Returns: The credential with one more rejected refresh recorded, and whether the user must sign in.
    private static func recordingRejection(_ credential: Credential) -> (Credential, isLast: Bool) {
        var counted = credential
        counted.rejectedRefreshes = min(credential.rejectedRefreshes + 1, rejectionLimit)
        return (counted, counted.rejectedRefreshes >= rejectionLimit)
    }

    /// The consequences of an error that does not end the session.
    /// - Parameter name: The standard name of the provider's error code.
    func consequence(of error: AuthError, named name: String?, for old: Credential, at now: Date) -> Consequence {
        if let rejection = resourceRejection(error, named: name) {
            return Consequence(backoff: rejection, isResourceSpecific: true, answer: .failure(rejection))
        }
        // If the expiry is unknown, a rejection by an API shows that the access token cannot be used.
        let isSpent =
            old.isExpired(at: now) || isConfirmation
            || old.tokens.expiresAt == nil && old.tokens.accessToken == rejected
        guard resource == nil, isSpent, Self.isUnexplained(error, named: name) else {
            return Consequence(backoff: error, answer: answer(old, after: error, at: now))
        }
        var (counted, isLast) = Self.recordingRejection(old)
        if name.map(Self.interactionErrors.contains) == true {
            (counted.rejectedRefreshes, isLast) = (Self.rejectionLimit, true)
        }
        let stored = counted == old ? nil : counted
        guard isLast else { return Consequence(backoff: error, stored: stored, answer: .failure(error)) }
        let status = error.status.map { "status \($0), without a reason" }
        let reason = error.providerError.map { "\($0)" } ?? status ?? error.message
        let hint =
            if ["unauthorized_client", "unsupported_grant_type"].contains(name) {
                " If that fails too, check the client's secret or key, and that the client is registered for the refresh_token grant."
            } else if error.status == 401 {
                " If that fails too, check the client's secret or key."
            } else {
                ""
            }
        let end = AuthError(
            .loginRequired,
            "The tokens of \(old.displayName) cannot be refreshed (\(reason)). Sign in again.\(hint)",
            providerError: error.providerError,
            status: error.status,
            retryAfter: error.retryAfter,
            underlyingError: error
        )
        let isUsable = isConfirmation && !old.isExpired(at: now)
        return Consequence(backoff: end, stored: stored, state: isUsable ? nil : .expired, answer: .failure(end))
    }

    /// Whether an error from a request for one resource may mean that the session has ended: some providers send a non-standard code, or none, for a
    /// refresh token that no longer exists. A refresh of the main token then determines whether the session has ended, unless that token was obtained recently.
    func mayIndicateSessionEnd(_ error: AuthError, named name: String?, for old: Credential, at now: Date) -> Bool {
        // Tokens that fail a check were nevertheless issued, so the session continues.
        let isResourceSpecific =
            name.map { $0 == "access_denied" || Self.interactionErrors.contains($0) }
            ?? Self.isFailedCheck(error)
        let age = now.timeIntervalSince(old.obtainedAt)
        let isRecent = !old.isExpired(at: now) && (0..<Backoff.maximumDelay).contains(age)
        return resource != nil && !isRecent && Self.isUnexplained(error, named: name) && !isResourceSpecific
    }

    /// The error for callers if the provider has rejected the request for one resource only; nil for any other error. The tokens for other resources
    /// remain usable.
    private func resourceRejection(_ error: AuthError, named name: String?) -> AuthError? {
        guard let resource else { return nil }
        if let name, error.code == .providerRejected, Self.interactionErrors.contains(name) {
            return AuthError(
                .loginRequired,
                "For \(Redaction.url(resource.resource)), the provider requires user interaction. Sign in again.",
                providerError: error.providerError,
                status: error.status,
                underlyingError: error
            )
        }
        // RFC 8707 section 2: invalid_target concerns this resource, as invalid_scope concerns these scopes.
        if ["invalid_target", "invalid_scope"].contains(name) { return error }
        let isAnswer =
            [.providerRejected, .invalidResponse, .unsupported].contains(error.code) || Self.isFailedCheck(error)
        let isServerFailure = error.isTransient || error.status.map { $0 >= 500 || $0 == 429 } ?? false
        return isAnswer && !isServerFailure && !Self.isClientFailure(error, named: name) ? error : nil
    }

    /// The codes of errors that only user interaction can resolve (OpenID Connect Core section 3.1.2.6; `mfa_required` is Auth0's).
    private static let interactionErrors: Set<String> = [
        "interaction_required", "login_required", "consent_required", "mfa_required",
    ]

    /// The old credential after an error, if it is usable.
    func answer(_ old: Credential, after error: AuthError, at now: Date) -> Result<Credential, AuthError> {
        isUsable(old, at: now) ? .success(old) : .failure(error)
    }

    /// Whether an access token has neither expired nor been rejected, and can therefore still be used.
    func isUsable(_ credential: Credential, at now: Date) -> Bool {
        resource == nil && !credential.isExpired(at: now) && credential.tokens.accessToken != rejected
    }

    /// Whether an error means that the provider has ended the session, or has issued tokens for another user.
    ///
    /// RFC 6749 section 5.2: `invalid_grant` means that the refresh token is "invalid, expired, revoked". The store was read under the lease, so
    /// this is the stored token, and no newer token is lost.
    static func endsSession(_ error: AuthError, named name: String?) -> Bool {
        error.code == .providerRejected && name == "invalid_grant" || error.isSubjectMismatch
    }

    /// Whether tokens have failed a check. `provider_rejected` without an error response means that their authorization details differ from the
    /// requested ones.
    private static func isFailedCheck(_ error: AuthError) -> Bool {
        [.invalidIDToken, .invalidUserInfo, .insufficientUserAuthentication].contains(error.code)
            || error.code == .providerRejected && error.providerError == nil && error.status == nil
    }

    private static func isUnexplained(_ error: AuthError, named name: String?) -> Bool {
        // Tokens that fail a check every time cannot be used either.
        let isFailedCheck = isFailedCheck(error)
        // Some providers send non-standard codes. With 403 or 404, text such as "Forbidden" or "not_found" comes from a gateway.
        let codes =
            [
                "invalid_request", "unauthorized_client", "unsupported_grant_type", "access_denied",
            ] + interactionErrors
        let isCode = [200, 400, 401].contains(error.status) || name.map(codes.contains) == true
        let isRejection = error.code == .providerRejected && (error.status ?? 0) < 500 && isCode
        // A 403 without an error code does not count, because it may be a firewall's error page.
        let isRejectionWithoutCode =
            error.code == .invalidResponse
            && ([400, 401].contains(error.status) || error.status == 200 && error.providerError != nil)
        return (isRejectionWithoutCode || isRejection || isFailedCheck) && !isClientFailure(error, named: name)
    }

    /// Whether an error is about the client, the scopes or the server (RFC 6749 section 5.2), which a new sign-in cannot fix.
    ///
    /// `unauthorized_client` and `unsupported_grant_type` do not count, because such a client can never refresh. Nor does `invalid_request`, which
    /// some providers return for a refresh token that no longer exists.
    private static func isClientFailure(_ error: AuthError, named name: String?) -> Bool {
        let codes = [
            "invalid_client", "invalid_scope", "invalid_dpop_proof", "use_dpop_nonce", "server_error",
            "temporarily_unavailable", "slow_down",
        ]
        return error.code == .providerRejected && name.map(codes.contains) == true
    }
}

extension Credential {
    /// Whether the number of rejected refreshes has reached the limit after which the user must sign in again.
    package var requiresSignIn: Bool { rejectedRefreshes >= CredentialRefresh.rejectionLimit }
}
