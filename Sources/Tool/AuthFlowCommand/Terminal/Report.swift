import AuthFlow
import AuthFlowEssentials

extension AuthClient {
    /// A description of the tokens of a profile that does not sign in users; nil for a profile that does. Such tokens belong to the client
    /// itself, or to the user of the profile that provides the assertion.
    var tokensWithoutSignIn: String? {
        guard isWithoutUser else { return nil }
        let client = "the client \(DisplayText.sanitized(registration.clientID, limit: 200))"
        return hasOwner
            ? "tokens of \(client), for the user of another profile"
            : "tokens of \(client), which do not belong to a user"
    }
}

/// Prints a credential without its tokens.
enum Report {
    /// - Parameters:
    ///   - coversDetails: Whether the tokens cover the requested authorization details (RFC 9396); nil when none were requested.
    ///   - tokens: A description of the tokens of a profile that does not sign in users; nil for a user.
    static func print(_ credential: Credential, asJSON: Bool, coversDetails: Bool?, tokens: String? = nil) throws {
        if asJSON {
            try Terminal.result(json(credential, coversDetails, isRenewable: tokens != nil))
        } else {
            let name = credential.displayName
            let tokens = tokens.map { $0.prefix(1).uppercased() + $0.dropFirst() }
            let isRenewable = tokens != nil
            let ended = credential.state() == .ended ? "The session for \(name) has ended" : nil
            Terminal.result(tokens ?? ended ?? "Signed in as \(name)")
            if let coversDetails {
                Terminal.row("details", coversDetails ? "as requested" : "not as requested (status --json shows them)")
            }
            if tokens == nil {
                Terminal.row("subject", credential.identity.map { DisplayText.sanitized($0.subject) } ?? "unknown")
            }
            Terminal.row("issuer", DisplayText.sanitized(credential.issuer ?? "unknown"))
            Terminal.row("scopes", DisplayText.sanitized(credential.tokens.scopes.joined(separator: " ")))
            Terminal.row("access token", lifetime(of: credential, isRenewable: isRenewable))
        }
    }

    /// The expiry of the access token, and whether it has passed.
    /// - Parameter isRenewable: Whether the client obtains tokens without user interaction.
    static func lifetime(of credential: Credential, isRenewable: Bool = false) -> String {
        let end = credential.tokens.expiresAt.map { $0.formatted(.iso8601) } ?? "an unknown time"
        return switch credential.state(isRenewable: isRenewable) {
        case .fresh where credential.tokens.refreshToken == nil && !isRenewable:
            "until \(end), without a refresh token"
        case .fresh: "until \(end)"
        case .expired: "expired at \(end), \(isRenewable ? "replaced" : "refreshed") when needed"
        case .ended: "expired at \(end)"
        }
    }

    private static func json(_ credential: Credential, _ coversDetails: Bool?, isRenewable: Bool) -> JSON {
        var members: [String: JSON] = [
            "issuer": credential.issuer.map(JSON.string) ?? .null,
            "subject": credential.identity.map { .string($0.subject) } ?? .null,
            "claims": credential.identity?.claims ?? [:],
            "scopes": .array(credential.tokens.scopes.map(JSON.string)),
            "expires_at": credential.tokens.expiresAt.map { .string($0.formatted(.iso8601)) } ?? .null,
            "state": .string(credential.state(isRenewable: isRenewable).rawValue),
            "signed_in_at": .string(credential.signedInAt.formatted(.iso8601)),
        ]
        members["authorization_details"] = credential.tokens.authorizationDetails
        members["authorization_details_as_requested"] = coversDetails.map(JSON.bool)
        if let error = credential.end(isRenewable: isRenewable) { members.merge(error.members) { $1 } }
        return .object(members)
    }
}

extension Credential {
    /// The state of the tokens, according to this machine's clock.
    enum State: String {
        /// The access token has not expired, or its expiry is unknown.
        case fresh
        /// The access token has expired, and is replaced when it is needed.
        case expired
        /// The access token has expired, and the user must sign in again.
        case ended
    }

    /// The reason why the user must sign in again; nil if no sign-in is required.
    /// - Parameter isRenewable: Whether the client obtains tokens without user interaction.
    func end(isRenewable: Bool = false) -> AuthError? {
        guard state(isRenewable: isRenewable) == .ended else { return nil }
        let reason = requiresSignIn ? "it could not be refreshed" : "there is no refresh token"
        return AuthError(.loginRequired, "The access token has expired, and \(reason). Sign in again.")
    }

    /// - Parameter isRenewable: Whether the client obtains tokens without user interaction.
    func state(isRenewable: Bool = false) -> State {
        if tokens.expiresAt.map({ Date() < $0 }) ?? true { return .fresh }
        if isRenewable, identity == nil, tokens.refreshToken == nil { return .expired }
        return tokens.refreshToken == nil || requiresSignIn ? .ended : .expired
    }
}
