#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// Why a flow stopped.
///
/// ``description`` is a sentence (or two) that a person can act on. Neither it nor any other property holds a token, an
/// authorization code, a secret or the query of a URL.
public struct AuthError: Error, Sendable {
    /// What went wrong, as an open set: plug-ins may add their own.
    public let code: Code

    /// What happened, which rule it breaks, and what to do.
    public let message: String

    /// What the provider itself said, when it said something.
    public let providerError: ProviderError?

    /// The HTTP status of the response that caused it; nil when none did.
    public let status: Int?

    /// How long the server asks to be left alone (`Retry-After`), when it does.
    public let retryAfter: Duration?

    /// The error below this one, for debugging.
    public let underlyingError: (any Error)?

    /// Creates an error.
    /// - Parameters:
    ///   - code: What went wrong.
    ///   - message: A sentence for a person, without any secret.
    ///   - providerError: What the provider said, as data.
    ///   - status: The HTTP status of the response that caused it; default: that of `providerError`.
    ///   - retryAfter: How long the server asks to be left alone.
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
    /// A short name for what went wrong.
    public struct Code: RawRepresentable, Sendable, Hashable {
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public let rawValue: String
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public init(rawValue: String) { self.rawValue = rawValue }

        /// A setting is missing, misspelt, or contradicts another.
        public static let invalidConfiguration = Self(rawValue: "invalid_configuration")
        /// The provider's metadata could not be had or cannot be used.
        public static let discoveryFailed = Self(rawValue: "discovery_failed")
        /// A document names another issuer than the one that was asked.
        public static let issuerMismatch = Self(rawValue: "issuer_mismatch")
        /// No answer came: name resolution, connection, TLS, or the connection broke.
        public static let networkFailed = Self(rawValue: "network_failed")
        /// The provider is overloaded or limits how often it is asked (status 429 or 503); see ``AuthError/retryAfter``.
        public static let temporarilyUnavailable = Self(rawValue: "temporarily_unavailable")
        /// Time ran out.
        public static let timedOut = Self(rawValue: "timed_out")
        /// The person, or the provider for them, said no (`access_denied`).
        public static let accessDenied = Self(rawValue: "access_denied")
        /// The provider answered with an error of OAuth's, kept in ``AuthError/providerError``.
        public static let providerRejected = Self(rawValue: "provider_rejected")
        /// A response of the provider's does not follow its specification.
        public static let invalidResponse = Self(rawValue: "invalid_reply")
        /// The URL that came back is not an answer to this sign-in.
        public static let invalidCallback = Self(rawValue: "invalid_callback")
        /// The ID Token failed a check, named in the message.
        public static let invalidIDToken = Self(rawValue: "invalid_id_token")
        /// The userinfo response is about somebody else than the ID Token, or cannot be verified.
        public static let invalidUserInfo = Self(rawValue: "invalid_user_info")
        /// The provider does not offer what was asked for.
        public static let unsupported = Self(rawValue: "unsupported")
        /// The user agent cannot work here, or could not finish.
        public static let userAgentFailed = Self(rawValue: "user_agent_failed")
        /// No user agent that may be used can work here: somebody has to sign in somewhere else, or by other means.
        public static let noUserAgent = Self(rawValue: "no_user_agent")
        /// The port that the redirect URI names is taken.
        public static let portBusy = Self(rawValue: "port_busy")
        /// An API has refused the access token.
        public static let accessTokenRejected = Self(rawValue: "access_token_rejected")
        /// Somebody else signed in than the one who is signed in already.
        public static let accountMismatch = Self(rawValue: "account_mismatch")
        /// Nobody is signed in, or the session has ended.
        public static let loginRequired = Self(rawValue: "login_required")
        /// Credentials could not be read, written or locked.
        public static let storageFailed = Self(rawValue: "storage_failed")
        /// Another holder has taken over the right to write a credential, so nothing was written.
        public static let leaseLost = Self(rawValue: "lease_lost")
        /// What is stored can be read and is no credential that can be used: it is damaged, too large, of another version, or
        /// its key is not there. Signing out locally removes it.
        public static let credentialUnusable = Self(rawValue: "credential_unusable")
    }
}

extension AuthError {
    /// Whether the next try may go better: nothing was learnt but that the other side could not be heard now.
    var isPassing: Bool { [.networkFailed, .timedOut, .temporarilyUnavailable].contains(code) }
}

extension AuthError: CustomStringConvertible, CustomDebugStringConvertible, LocalizedError {
    /// The message, and in brackets what the provider said.
    public var description: String {
        guard let providerError else { return message }
        return "\(message) (the provider said: \(providerError))"
    }

    /// As ``description``: an error that no caller catches ends the program with a sentence.
    public var debugDescription: String { description }

    /// As ``description``, for `localizedDescription`.
    public var errorDescription: String? { description }
}
