public import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON
import HTTPTypes

/// The rejection of a request: the complete response for the client, and the reason for the log.
public struct Rejection: Error, Sendable {
    /// The response, with a standard error code (RFC 6750, RFC 9449, RFC 9470, or `temporarily_unavailable`) and no
    /// further detail.
    public let response: TransportResponse

    /// The error code of the response, such as `invalid_token`; nil if the request had no token.
    public let error: String?

    /// The reason, for the log. Do not send it to the client: it would tell an attacker which check to bypass next.
    public let reason: String

    /// The error that prevented a decision, such as an unavailable issuer or store; nil if the request was rejected or
    /// cancelled.
    public let underlyingError: AuthError?
}

extension Rejection: CustomStringConvertible {
    /// The status and the reason.
    public var description: String { "\(response.status): \(reason)" }
}

/// Creates rejections.
struct RejectionWriter {
    let resource: Endpoint
    let rules: ResourceServerRules
    let requirement: Requirement
    /// A nonce to include in the response.
    var nonce: String?
    /// The authentication scheme of the request.
    var scheme = PresentedToken.Scheme.bearer
    /// Whether the request is a HEAD request. RFC 9110 section 9.3.2: "the server MUST NOT send content in the response".
    var isHead = false

    init(resource: Endpoint, rules: ResourceServerRules, requirement: Requirement) {
        self.resource = resource
        self.rules = rules
        self.requirement = requirement
        if rules.binding == .dpop { self.scheme = .dpop }
    }

    /// RFC 6750 section 3.1: "If the request lacks any authentication information ..., the resource server SHOULD NOT include an error code
    /// or other error information."
    func unauthenticated() -> Rejection {
        Rejection(
            response: response(.unauthorized, error: nil, nil),
            error: nil,
            reason: "The request has no token.",
            underlyingError: nil
        )
    }

    func rejection(for failure: TokenFailure) -> Rejection {
        let (status, error, text, reason): (HTTPResponse.Status, String, String, String) =
            switch failure {
            case .malformed(let reason): (.badRequest, "invalid_request", "The request is malformed.", reason)
            case .invalid(let reason):
                (
                    .unauthorized, "invalid_token", "The access token is not accepted.",
                    reason.hasPrefix("The ") ? reason : "The access token was rejected: \(reason)."
                )
            case .invalidProof(let reason):
                (
                    .unauthorized, "invalid_dpop_proof", "The DPoP proof is not accepted.",
                    "The DPoP proof was rejected: \(reason)."
                )
            case .requiresNonce:
                (
                    .unauthorized, "use_dpop_nonce", "The resource server requires a nonce in the DPoP proof.",
                    "The DPoP proof has no valid nonce."
                )
            case .insufficientScope:
                (
                    .forbidden, "insufficient_scope", "The access token lacks a required scope.",
                    "The access token lacks one or more of the scopes \(requirement.scopes.joined(separator: " "))."
                )
            case .insufficientAuthentication:
                (
                    .unauthorized, "insufficient_user_authentication",
                    "A stronger or more recent authentication is required.",
                    "The user's authentication does not meet the requirement of the route (acr, auth_time)."
                )
            }
        return Rejection(
            response: response(status, error: error, text, failure),
            error: error,
            reason: reason,
            underlyingError: nil
        )
    }

    /// The status is 503 rather than 401 if no decision is possible, so that clients do not discard valid tokens.
    func unavailable(_ cause: any Error) -> Rejection {
        let text = "The authorization check failed with an internal error (\(type(of: cause)))."
        let known =
            cause as? AuthError
            ?? (cause is CancellationError ? nil : AuthError(.storageFailed, text, underlyingError: cause))
        let error = "temporarily_unavailable"
        var response = response(
            .serviceUnavailable,
            error: error,
            "The request cannot be authorized at the moment."
        )
        response.head.headerFields[.retryAfter] =
            "\(Int(max(1, min(known?.retryAfter?.seconds ?? 5, 300)).rounded(.up)))"
        return Rejection(
            response: response,
            error: error,
            reason: known?.message ?? "The request was cancelled.",
            underlyingError: known
        )
    }

    private func response(
        _ status: HTTPResponse.Status,
        error: String?,
        _ text: String?,
        _ failure: TokenFailure? = nil
    ) -> TransportResponse {
        var response = TransportResponse(head: HTTPResponse(status: status))
        if status.code != 503 {
            for challenge in challenges(error, text, failure) {
                response.head.headerFields.append(HTTPField(name: .wwwAuthenticate, value: challenge))
            }
        }
        response.head.headerFields[.cacheControl] = "no-store"
        if let nonce { response.head.headerFields[.dpopNonce] = nonce }
        if rules.exposesChallengesToBrowsers {
            response.head.headerFields[.accessControlExposeHeaders] = "WWW-Authenticate, DPoP-Nonce"
        }
        if let error, !isHead {
            let body: JSON = ["error": .string(error), "error_description": text.map(JSON.string) ?? .null]
            response.body = (try? body.serialized()) ?? []
            response.head.headerFields[.contentType] = "application/json"
        }
        return response
    }

    /// The challenges (RFC 6750 section 3, RFC 9449 section 7.1). The error is in the challenge for the scheme that the
    /// client used.
    private func challenges(_ error: String?, _ text: String?, _ failure: TokenFailure?) -> [String] {
        var common = [("resource_metadata", ResourceMetadata.address(of: resource))]
        if !requirement.scopes.isEmpty { common.append(("scope", requirement.scopes.joined(separator: " "))) }
        var details: [(String, String)] = []
        if let error { details.append(("error", error)) }
        if let text { details.append(("error_description", text)) }
        if case .insufficientAuthentication? = failure {
            if !requirement.acrValues.isEmpty {
                details.append(("acr_values", requirement.acrValues.joined(separator: " ")))
            }
            if let age = requirement.maximumAge { details.append(("max_age", "\(age.components.seconds)")) }
        }
        let acceptsBearer = rules.binding != .dpop
        // The error about a proof belongs to a DPoP challenge, even if DPoP is not advertised.
        let acceptsDPoP = rules.advertisesDPoP || rules.dpop.isAccepted && scheme == .dpop
        var challenges: [String] = []
        if acceptsBearer {
            let isUsed = scheme == .bearer || !acceptsDPoP
            challenges.append("Bearer " + Self.parameters(common + (isUsed ? details : [])))
        }
        if acceptsDPoP {
            let algorithms = ("algs", rules.dpop.algorithms.map(\.rawValue).joined(separator: " "))
            let isUsed = scheme == .dpop || !acceptsBearer
            challenges.append("DPoP " + Self.parameters([algorithms] + common + (isUsed ? details : [])))
        }
        return challenges
    }

    /// Formats parameters as quoted strings (RFC 9110 section 5.6.4).
    private static func parameters(_ pairs: [(String, String)]) -> String {
        pairs.map { name, value in
            let safe = value.unicodeScalars.filter { (0x20...0x7E).contains($0.value) && $0 != "\"" && $0 != "\\" }
            return "\(name)=\"\(String(String.UnicodeScalarView(safe)))\""
        }.joined(separator: ", ")
    }
}
