import AuthFlowJSON

/// The error parameters of an OAuth response (RFC 6749 sections 4.1.2.1 and 5.2), as the provider sent them.
public struct ProviderError: Sendable, Hashable {
    /// `error`: a code such as `invalid_grant`.
    public let error: String

    /// `error_description`: text for the developer. It is untrusted: show it as text, never as markup.
    public let errorDescription: String?

    /// `error_uri`: a page about the error. It is untrusted: do not open it automatically.
    public let errorURI: String?

    /// The HTTP status of the error response; nil when the error arrived in a redirect.
    public let status: Int?

    /// Creates a provider error.
    public init(error: String, errorDescription: String? = nil, errorURI: String? = nil, status: Int? = nil) {
        self.error = error
        self.errorDescription = errorDescription
        self.errorURI = errorURI
        self.status = status
    }
}

extension ProviderError {
    /// The code for events and logs; `other` for text that is not a code, because any visitor can send an error response, and a provider can return
    /// text, even a token, instead of a code.
    package var publicCode: String {
        let letters = UInt8(ascii: "a")...UInt8(ascii: "z")
        let isCode = error.utf8.allSatisfy { letters.contains($0) || $0 == UInt8(ascii: "_") }
        return isCode && error.utf8.count <= 40 ? error : "other"
    }

    /// An error response with text, but without a code.
    init(unnamed text: String, status: Int) {
        self.init(error: "status \(status)", errorDescription: text, status: status)
    }

    /// RFC 6749 section 4.1.2.1: `server_error` and `temporarily_unavailable` represent an HTTP status that cannot be returned via a redirect. Some
    /// providers send other names, with status 200 or 400.
    package var isServerError: Bool { Self.serverErrors.contains(error) }

    private static let serverErrors: Set<String> = [
        "server_error", "temporarily_unavailable", "fatal_error", "internal_error", "internal_server_error",
        "rate_limited",
        "rate_limit_exceeded", "ratelimited", "request_timeout", "service_unavailable",
    ]

    /// Whether the response had text, but no code.
    package var lacksErrorCode: Bool { status.map { error == "status \($0)" } == true }
}

extension ProviderError: CustomStringConvertible {
    /// The code and the description, truncated and without control characters, so that a hostile provider cannot inject
    /// terminal escape sequences.
    public var description: String {
        let words = errorDescription.map { ": \(DisplayText.sanitized($0))" } ?? ""
        return DisplayText.sanitized(error) + words
    }
}

extension ProviderError {
    /// Parses the error members of a JSON response (RFC 6749 section 5.2).
    /// - Returns: nil when there is no `error` string, or the string is only the reason phrase of the status, as in the default error responses of
    ///   some web frameworks.
    init?(_ json: JSON, status: Int) {
        // RFC 6749 appendix A.7: error = 1*NQSCHAR. An empty value counts as absent.
        // Google's device authorization endpoint reports a rate limit only in `error_code`.
        let failure = json["error_code"]?.string.flatMap { Self.serverErrors.contains($0) ? $0 : nil }
        guard let error = json["error"]?.string ?? failure, !error.isEmpty,
            Self.reasonPhrases[status]?.contains(error) != true
        else { return nil }
        // Zoom sends the cause as `reason`, and others as `message`.
        let words = ["error_description", "message", "reason"].lazy.compactMap { json[$0]?.string }.first
        self.init(error: error, errorDescription: words, errorURI: json["error_uri"]?.string, status: status)
    }

    /// The reason phrases of status codes (RFC 9110 section 15, and the earlier reason phrase of 422).
    private static let reasonPhrases = [
        400: ["Bad Request"], 401: ["Unauthorized"], 403: ["Forbidden"], 404: ["Not Found"],
        405: ["Method Not Allowed"], 406: ["Not Acceptable"], 409: ["Conflict"], 410: ["Gone"],
        415: ["Unsupported Media Type"], 422: ["Unprocessable Content", "Unprocessable Entity"],
        429: ["Too Many Requests"], 500: ["Internal Server Error"], 501: ["Not Implemented"], 502: ["Bad Gateway"],
        503: ["Service Unavailable"], 504: ["Gateway Timeout"],
    ]
}
