import AuthFlow
import AuthFlowEssentials

extension AuthClient {
    /// The client whose tokens belong to no user; nil if a user is signed in, with this profile or the one that provides the assertion.
    var clientWithoutUser: String? { isWithoutUser && !hasOwner ? registration.clientID : nil }
}

/// Prints a credential without its tokens.
enum Report {
    /// - Parameters:
    ///   - coversDetails: Whether the tokens cover the requested authorization details (RFC 9396); nil when none were requested.
    ///   - clientID: The client whose tokens belong to no user; nil for a user.
    static func print(_ credential: Credential, asJSON: Bool, coversDetails: Bool?, clientID: String? = nil) throws {
        if asJSON {
            try Terminal.result(json(credential, coversDetails))
        } else {
            let name = credential.displayName
            let client = clientID.map {
                "Tokens of the client \(DisplayText.sanitized($0, limit: 200)), without a user"
            }
            let ended = credential.state == .ended ? "The session of \(name) has ended" : nil
            Terminal.result(client ?? ended ?? "Signed in as \(name)")
            for (name, value) in lines(credential, coversDetails) where clientID == nil || name != "subject" {
                Terminal.result("  \(Terminal.column(name, width: 14))\(value)")
            }
        }
    }

    private static func lines(_ credential: Credential, _ coversDetails: Bool?) -> [(String, String)] {
        let details = coversDetails.map { $0 ? "as requested" : "not as requested (status --json shows them)" }
        return [details.map { ("details", $0) }].compactMap { $0 } + [
            ("subject", credential.identity.map { DisplayText.sanitized($0.subject) } ?? "unknown"),
            ("issuer", DisplayText.sanitized(credential.issuer ?? "unknown")),
            ("scopes", DisplayText.sanitized(credential.tokens.scopes.joined(separator: " "))),
            ("access token", lifetime(of: credential)),
        ]
    }

    /// The expiry of the access token, and whether it has passed.
    static func lifetime(of credential: Credential) -> String {
        let end = credential.tokens.expiresAt.map { $0.formatted(.iso8601) } ?? "an unknown time"
        return switch credential.state {
        case .fresh where credential.tokens.refreshToken == nil && credential.identity != nil:
            "until \(end), without a refresh token"
        case .fresh: "until \(end)"
        case .expired: "expired at \(end), refreshed when needed"
        case .ended: "expired at \(end)"
        }
    }

    private static func json(_ credential: Credential, _ coversDetails: Bool?) -> JSON {
        var members: [String: JSON] = [
            "issuer": credential.issuer.map(JSON.string) ?? .null,
            "subject": credential.identity.map { .string($0.subject) } ?? .null,
            "claims": credential.identity?.claims ?? [:],
            "scopes": .array(credential.tokens.scopes.map(JSON.string)),
            "expires_at": credential.tokens.expiresAt.map { .string($0.formatted(.iso8601)) } ?? .null,
            "state": .string(credential.state.rawValue),
            "signed_in_at": .string(credential.signedInAt.formatted(.iso8601)),
        ]
        members["authorization_details"] = credential.tokens.authorizationDetails
        members["authorization_details_as_requested"] = coversDetails.map(JSON.bool)
        return .object(members)
    }
}

extension Credential {
    /// The state of the tokens, by this machine's clock.
    enum State: String {
        /// The access token has not expired, as far as is known.
        case fresh
        /// The access token has expired, and there is a refresh token.
        case expired
        /// The access token has expired, and the user must sign in again.
        case ended
    }

    var state: State {
        if tokens.expiresAt.map({ Date() < $0 }) ?? true { return .fresh }
        return tokens.refreshToken == nil || isRefused ? .ended : .expired
    }
}
