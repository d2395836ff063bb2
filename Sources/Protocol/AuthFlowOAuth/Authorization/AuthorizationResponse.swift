public import AuthFlowHTTP
import AuthFlowIssuer

/// An authorization response that has passed every check (RFC 6749 section 4.1.2, RFC 9207).
public struct AuthorizationResponse: Sendable {
    /// All parameters, including those that a provider adds (such as `session_state`). The code that they include
    /// can be used only once.
    public let parameters: FormParameters

    let code: Secret

    /// The checks that the response has passed, and the clauses that require them.
    let passed: [(check: String, clause: String)]

    /// Checks the parameters of a redirect, or of the signed response if one was requested, and extracts the code.
    /// - Parameters:
    ///   - pending: The request to which the response must belong.
    ///   - requiresIssuer: Whether `iss` is required even if the server does not advertise it.
    ///   - use: Marks the request as used; returns false when it was already used.
    /// - Throws: ``AuthError`` with `invalid_callback` when it does not belong to the request, `issuer_mismatch` when another
    ///   provider sent it, or the code for an error response, such as `access_denied` or `provider_rejected`.
    init(
        _ parameters: FormParameters,
        to pending: AuthorizationRequest,
        metadata: ProviderMetadata,
        requiresIssuer: Bool = false,
        use: (Secret) -> Bool
    ) throws(AuthError) {
        // RFC 6749 section 3.1: "Request and response parameters MUST NOT be included more than once."
        if let repeated = parameters.repeatedName {
            throw AuthError(
                .invalidCallback,
                "The redirect contains the parameter \"\(DisplayText.sanitized(repeated, limit: 40))\" more than once (RFC 6749 section 3.1)."
            )
        }

        // RFC 6749 section 10.12: the state binds the response to the request. Nothing else in a redirect, including an
        // error, is trusted before the state matches; and a redirect that does not match leaves the request unused.
        guard let state = parameters["state"], Secret(state) == pending.state else {
            throw AuthError(
                .invalidCallback,
                "The redirect does not belong to this sign-in (its state is missing or differs). It was ignored; if you started the sign-in, start it again."
            )
        }
        // RFC 9700 section 4.2.4: "The state value SHOULD be invalidated by the client after its first use at the redirection
        // endpoint."
        guard use(pending.state) else {
            throw AuthError(.invalidCallback, "The authorization response of this sign-in was received more than once.")
        }

        // RFC 9207 section 2.4: compare the decoded iss with the issuer "using simple string comparison"; reject the response
        // when they differ, or when iss is missing although the provider advertised it. This applies to errors, too.
        let issuer = parameters["iss"]
        let error = parameters.authorizationError
        if issuer == nil, requiresIssuer || metadata.sendsIssuerInResponses {
            guard let error else {
                throw AuthError(
                    .issuerMismatch,
                    "The redirect does not contain the issuer (iss), which RFC 9207 requires."
                )
            }
            // The sender of the error is unknown, but that makes no difference, because the sign-in has failed either
            // way.
            let refusal = Self.refusal(error)
            // Other codes, such as invalid_client, could cause a caller to discard its registration.
            let isHarmless = refusal.code == .accessDenied || error.error == "invalid_scope"
            throw AuthError(
                isHarmless ? refusal.code : .issuerMismatch,
                "\(refusal.message) The error response does not contain the issuer (iss), which RFC 9207 requires, so its origin is not confirmed.",
                providerError: error
            )
        }
        if let issuer, !issuer.isIdentical(to: pending.issuer) {
            throw AuthError(
                .issuerMismatch,
                "The redirect comes from an issuer other than \"\(pending.issuer)\" (RFC 9207). The sign-in was stopped."
            )
        }

        if let error { throw Self.refusal(error) }
        guard let code = parameters["code"], !code.isEmpty else {
            // Facebook reports some errors, such as an app in development mode, only in these parameters.
            if let code = parameters["error_code"], !code.isEmpty {
                let error = ProviderError(error: code, errorDescription: parameters["error_message"])
                throw Self.refusal(parameters.redacted(error))
            }
            throw AuthError(
                .invalidCallback,
                "The redirect contains neither a code nor an error (RFC 6749 section 4.1.2)."
            )
        }
        self.code = Secret(code)
        self.parameters = parameters
        self.passed = [
            ("redirect URI", "RFC 9700 section 4.1.3"), ("no repeated parameters", "RFC 6749 section 3.1"),
            ("state", "RFC 6749 section 10.12"), ("state used only once", "RFC 9700 section 4.2.4"),
            (issuer == nil ? "iss not advertised" : "iss", "RFC 9207 section 2.4"),
        ]
    }

    private static func refusal(_ error: ProviderError) -> AuthError {
        let (code, message): (AuthError.Code, String) =
            switch error.error {
            // OIDC Core section 3.1.2.6: some providers send consent_required when the user denies consent.
            // Apple and LinkedIn use non-standard codes.
            case "access_denied", "consent_required", "user_cancelled_authorize", "user_cancelled_login":
                (.accessDenied, "The sign-in was denied.")
            // The same section: the provider "requires End-User" interaction, which the request did not allow.
            case "login_required", "interaction_required", "account_selection_required":
                (.loginRequired, "The provider requires the user to sign in interactively first.")
            // OpenID Connect Core Error Code unmet_authentication_requirements 1.0 section 1: the error for an essential `acr`; RFC 9470 section 5:
            // also for `acr_values` and `max_age`. It has the same meaning as an ID Token that does not meet the requirements.
            case "unmet_authentication_requirements":
                (
                    .insufficientUserAuthentication,
                    "The provider could not authenticate the user as the sign-in requires (acr, max_age)."
                )
            case "invalid_scope":
                (
                    .providerRejected,
                    "The provider rejected the requested scopes as invalid or unknown (invalid_scope). Check \"scopes\"."
                )
            // RFC 6749 section 4.1.2.1: both represent an HTTP status that cannot be returned via a redirect.
            case "temporarily_unavailable", "server_error":
                (.temporarilyUnavailable, "The provider is temporarily unable to sign users in. Try again later.")
            case "unauthorized_client", "invalid_client":
                (
                    .providerRejected,
                    "The provider does not allow this client to sign users in. Check \"client_id\" and its registration."
                )
            default: (.providerRejected, "The provider rejected the sign-in.")
            }
        return AuthError(code, message, providerError: error)
    }
}

extension FormParameters {
    /// The error parameters of an authorization response (RFC 6749 section 4.1.2.1).
    var authorizationError: ProviderError? {
        // RFC 6749 appendix A.7: error = 1*NQSCHAR. An empty value counts as absent, as in the body of a response.
        guard let error = self["error"], !error.isEmpty else { return nil }
        let description = self["error_description"]
        return redacted(ProviderError(error: error, errorDescription: description, errorURI: self["error_uri"]))
    }

    /// An error with the secrets of this authorization response redacted. Some servers repeat them in the description, which is displayed and
    /// logged, and a code that arrives with an error remains valid.
    fileprivate func redacted(_ error: ProviderError) -> ProviderError {
        let names = ["code", "state", "access_token", "id_token"]
        return names.flatMap { values(for: $0) }.map { Secret($0) }.redacted(in: error)
    }
}
