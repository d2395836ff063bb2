public import AuthFlowEssentials
import AuthFlowJSON

/// The error that a flow throws.
///
/// ``description`` is a sentence (or two) that a user can act on. Neither it nor any other property contains a token,
/// an authorization code, a secret or the query of a URL.
public struct AuthError: Error, Sendable {
    /// The error code, from an extensible set: plug-ins may add their own codes.
    public let code: Code

    /// The message for the user: what happened, which rule was violated, and what to do.
    public let message: String

    /// The error parameters that the provider sent; nil when it sent none.
    public let providerError: ProviderError?

    /// The HTTP status of the response that caused the error; nil when no response caused it.
    public let status: Int?

    /// The delay before a retry: the one that the server requests (`Retry-After`), or that this program imposes; nil when there is none.
    public let retryAfter: Duration?

    /// The underlying error, for debugging.
    public let underlyingError: (any Error)?

    /// Creates an error.
    /// - Parameters:
    ///   - code: The error code.
    ///   - message: A sentence for the user, without secrets.
    ///   - providerError: The error parameters that the provider sent.
    ///   - status: The HTTP status of the response that caused it; default: the status in `providerError`.
    ///   - retryAfter: The delay before a retry.
    ///   - underlyingError: The error that caused this one.
    public init(
        _ code: Code,
        _ message: String,
        providerError: ProviderError? = nil,
        status: Int? = nil,
        retryAfter: Duration? = nil,
        underlyingError: (any Error)? = nil
    ) {
        self.code = code
        self.message = message
        self.providerError = providerError
        self.status = status ?? providerError?.status
        self.retryAfter = retryAfter
        self.underlyingError = underlyingError
    }
}

extension AuthError {
    /// A short name for a kind of error.
    public struct Code: RawRepresentable, Sendable, Hashable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// A setting is missing or misspelled, or contradicts another setting.
        public static let invalidConfiguration = Self(rawValue: "invalid_configuration")
        /// The provider's metadata cannot be fetched or used.
        public static let discoveryFailed = Self(rawValue: "discovery_failed")
        /// The issuer in a document differs from the requested issuer.
        public static let issuerMismatch = Self(rawValue: "issuer_mismatch")
        /// No response was received: name resolution, the connection or TLS failed, or the connection was lost.
        public static let networkFailed = Self(rawValue: "network_failed")
        /// The provider responds with a server error (status 500 or above), limits the request rate (status 429 or 403), or reports
        /// `temporarily_unavailable` or `server_error` with another status or in a redirect; or a request must wait. See ``AuthError/retryAfter``.
        public static let temporarilyUnavailable = Self(rawValue: "temporarily_unavailable")
        /// The operation timed out.
        public static let timedOut = Self(rawValue: "timed_out")
        /// The user or the provider denied the request (`access_denied`), or the user closed the system's sign-in window, in which case
        /// ``AuthError/providerError`` is nil.
        public static let accessDenied = Self(rawValue: "access_denied")
        /// The provider responded with an OAuth error, which is in ``AuthError/providerError``.
        public static let providerRejected = Self(rawValue: "provider_rejected")
        /// A response from the provider does not conform to its specification.
        public static let invalidResponse = Self(rawValue: "invalid_response")
        /// The redirect URL is not an authorization response to this sign-in.
        public static let invalidCallback = Self(rawValue: "invalid_callback")
        /// The ID Token failed a check, named in the message.
        public static let invalidIDToken = Self(rawValue: "invalid_id_token")
        /// The user's authentication was weaker or older than requested (`acr`, `max_age`), the user is not the requested user (`sub`), or the
        /// provider cannot authenticate the user as requested.
        public static let insufficientUserAuthentication = Self(rawValue: "insufficient_user_authentication")
        /// A logout token failed a check, which the message names.
        public static let invalidLogoutToken = Self(rawValue: "invalid_logout_token")
        /// The UserInfo response is for a subject other than the ID Token's, or cannot be verified.
        public static let invalidUserInfo = Self(rawValue: "invalid_user_info")
        /// The provider, this platform or the client's key does not support the requested feature.
        public static let unsupported = Self(rawValue: "unsupported")
        /// The user agent cannot run in this environment, or failed before it completed.
        public static let userAgentFailed = Self(rawValue: "user_agent_failed")
        /// No permitted user agent can run in this environment, so the user must sign in elsewhere or by other means.
        public static let noUserAgent = Self(rawValue: "no_user_agent")
        /// The port of the redirect URI is in use.
        public static let portBusy = Self(rawValue: "port_busy")
        /// An API rejected the access token.
        public static let accessTokenRejected = Self(rawValue: "access_token_rejected")
        /// The user who signed in is different from the user who was already signed in.
        public static let accountMismatch = Self(rawValue: "account_mismatch")
        /// No user is signed in, or the session has ended.
        public static let loginRequired = Self(rawValue: "login_required")
        /// A protected resource requires scopes that the access token does not have, and requesting them did not
        /// resolve the error.
        public static let insufficientScope = Self(rawValue: "insufficient_scope")
        /// A key in a hardware token cannot be used: the token is absent or locked, or rejects the PIN.
        public static let keyUnavailable = Self(rawValue: "key_unavailable")
        /// A workload's assertion is missing, has expired, or is for a different audience.
        public static let assertionUnusable = Self(rawValue: "assertion_unusable")
        /// Credentials could not be read, written or locked.
        public static let storageFailed = Self(rawValue: "storage_failed")
        /// A store's database is damaged, and none of its contents can be used.
        public static let storeDamaged = Self(rawValue: "store_damaged")
        /// Another process held the lease on a credential for longer than this process's timeout.
        public static let leaseBusy = Self(rawValue: "lease_busy")
        /// Another holder has taken over the lease on a credential, so nothing was written.
        public static let leaseLost = Self(rawValue: "lease_lost")
        /// Whether a credential was written is unknown: the connection was lost, and another holder has written since.
        public static let outcomeUnknown = Self(rawValue: "outcome_unknown")
        /// The stored record is readable but not a usable credential: it is damaged, too large, of a different version, or
        /// encrypted with a different key. Signing out locally removes it.
        public static let credentialUnusable = Self(rawValue: "credential_unusable")
        /// The application's data in a session is too large, or of a version that this program cannot decode.
        public static let sessionDataUnusable = Self(rawValue: "session_data_unusable")
    }
}

extension AuthError.Code {
    /// Whether messages with this code may appear in events and logs. They describe the configuration, this machine, or a failed check of a
    /// document; other messages may contain the user's name, the path of an API, or the provider's text.
    package var hasPublicMessage: Bool {
        [
            .invalidConfiguration, .unsupported, .discoveryFailed, .issuerMismatch, .invalidIDToken, .keyUnavailable,
            .storageFailed, .storeDamaged, .credentialUnusable, .sessionDataUnusable,
        ].contains(self)
    }

    /// Whether the store failed, or another process holds a lease.
    package var isOfStore: Bool {
        [.storageFailed, .storeDamaged, .leaseBusy, .leaseLost, .outcomeUnknown].contains(self)
    }
}

extension AuthError {
    /// Replaces the code of the error that `body` throws, but not its message.
    package static func recoded<Return>(
        _ code: Code,
        _ body: () throws(AuthError) -> Return
    ) throws(AuthError) -> Return {
        do throws(AuthError) {
            return try body()
        } catch {
            throw AuthError(code, error.message, underlyingError: error)
        }
    }

    /// The same error with a different message.
    /// - Parameter cause: The underlying error.
    package func withMessage(_ message: String, because cause: (any Error)?) -> AuthError {
        AuthError(
            code,
            message,
            providerError: providerError,
            status: status,
            retryAfter: retryAfter,
            underlyingError: cause
        )
    }

    /// Whether a retry may succeed: the server was unreachable or temporarily unable to handle the
    /// request.
    package var isTransient: Bool {
        let isUnavailable = code == .invalidResponse && status.map { $0 >= 500 || $0 == 429 } == true
        return isUnavailable || hasNoResponse || code == .temporarilyUnavailable
    }

    /// Whether the server failed to respond, and would probably not respond to the next request either.
    package var hasNoResponse: Bool { [.networkFailed, .timedOut].contains(code) }
}

extension AuthError: CustomStringConvertible, CustomDebugStringConvertible, LocalizedError {
    /// The message, with the provider's error in parentheses.
    public var description: String {
        // The provider's text appears once, even if the message already contains it.
        guard let providerError, !message.contains("\(providerError)") else { return message }
        return "\(message) (the server returned: \(providerError))"
    }

    /// The same as ``description``, so that an uncaught error terminates the program with a readable message.
    public var debugDescription: String { description }

    /// The same as ``description``, for `localizedDescription`.
    public var errorDescription: String? { description }
}
