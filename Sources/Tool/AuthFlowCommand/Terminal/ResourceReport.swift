import AuthFlow
import AuthFlowEssentials

/// Prints the state of a sign-in to a protected resource, without its tokens.
enum ResourceReport {
    /// - Returns: The credential.
    /// - Throws: ``AuthFlow/AuthError`` with `login_required` when no credential is stored.
    @discardableResult static func print(_ client: ResourceClient, asJSON: Bool) async throws -> Credential {
        guard let status = try await client.status(), let credential = status.credential else {
            throw try await client.absenceOfCredential()
        }
        let expiry = credential.tokens.expiresAt?.formatted(.iso8601)
        let isRenewable = client.isWithoutUser
        let state = credential.state(isRenewable: isRenewable)
        if asJSON {
            let end = credential.end(isRenewable: isRenewable)?.members ?? [:]
            let members: [String: JSON] = [
                "resource": .string(status.resource), "issuer": .string(status.issuer),
                "client_id": .string(status.clientID), "identification": .string(status.identification.rawValue),
                "requested_scopes": .array(status.requestedScopes.map(JSON.string)),
                "scopes": .array(credential.tokens.scopes.map(JSON.string)),
                "expires_at": expiry.map(JSON.string) ?? .null,
                "state": .string(state.rawValue),
                "token_type": .string(credential.tokens.tokenType),
                "signed_in_at": .string(credential.signedInAt.formatted(.iso8601)),
            ]
            try Terminal.result(.object(members.merging(end) { $1 }))
            return credential
        }
        let title = state == .ended ? "The session has ended for" : "Signed in to"
        Terminal.result("\(title) \(DisplayText.sanitized(status.resource, limit: 300))")
        Terminal.row("issuer", DisplayText.sanitized(status.issuer, limit: 300))
        let clientID = DisplayText.sanitized(status.clientID, limit: 300)
        Terminal.row("client", "\(clientID) (\(how(status.identification)))")
        Terminal.row("scopes", DisplayText.sanitized(credential.tokens.scopes.joined(separator: " "), limit: 300))
        Terminal.row("access token", Report.lifetime(of: credential, isRenewable: isRenewable))
        return credential
    }

    private static func how(_ identification: ClientIdentification) -> String {
        switch identification {
        case .registered: "from a profile"
        case .metadataDocument: "client ID metadata document"
        case .dynamic: "registered dynamically"
        }
    }
}
