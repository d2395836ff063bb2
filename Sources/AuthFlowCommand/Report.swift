import AuthFlow
import AuthFlowJSON

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Prints a credential without its tokens.
enum Report {
    static func print(_ credential: Credential, asJSON: Bool) throws {
        if asJSON {
            try Terminal.result(json(credential))
        } else {
            Terminal.result("Signed in as \(credential.displayName)")
            for (name, value) in lines(credential) {
                Terminal.result("  \(Terminal.column(name, width: 14))\(value)")
            }
        }
    }

    private static func lines(_ credential: Credential) -> [(String, String)] {
        let end = credential.tokens.expiresAt.map { $0.formatted(.iso8601) } ?? "an unknown time"
        return [
            ("subject", credential.identity.map { DisplayText.sanitized($0.subject) } ?? "unknown"),
            ("issuer", DisplayText.sanitized(credential.issuer ?? "unknown")),
            ("scopes", DisplayText.sanitized(credential.tokens.scopes.joined(separator: " "))),
            ("access token", "until \(end)"),
        ]
    }

    private static func json(_ credential: Credential) -> JSON {
        [
            "issuer": credential.issuer.map(JSON.string) ?? .null,
            "subject": credential.identity.map { .string($0.subject) } ?? .null,
            "claims": credential.identity?.claims ?? [:],
            "scopes": .array(credential.tokens.scopes.map(JSON.string)),
            "expires_at": credential.tokens.expiresAt.map { .string($0.formatted(.iso8601)) } ?? .null,
            "signed_in_at": .string(credential.signedInAt.formatted(.iso8601)),
        ]
    }
}
