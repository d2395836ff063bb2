import ArgumentParser
import AuthFlow
import AuthFlowEssentials

/// The output format of `authflow token`.
enum TokenFormat: String, CaseIterable, ExpressibleByArgument, Hashable {
    /// Only the token.
    case raw
    /// A header field: `curl -H @-`.
    case header
    /// A JSON object with the token, its type, its expiry, its authorization details, if granted, and other parameters of the token response, except
    /// other tokens and secrets.
    case json
    /// A shell command that exports a variable: `eval "$(authflow token --format env)"`.
    case env
    /// A curl configuration: `curl -K -`.
    case curl

    /// The environment variable of ``env``, and the default variable of `authflow exec`.
    static let variable = "ACCESS_TOKEN"

    func print(_ tokens: TokenSet) throws {
        let token = tokens.accessToken.exposed
        switch self {
        case .raw: Terminal.result(token)
        case .json:
            var members: [String: JSON] = [
                "access_token": .string(token),
                "token_type": .string(tokens.tokenType),
                "expires_at": tokens.expiresAt.map { .string($0.formatted(.iso8601)) } ?? .null,
            ]
            var others = tokens.parameters.exposed.object ?? [:]
            members["authorization_details"] = others.removeValue(forKey: "authorization_details")
            let shown = others.filter { isShown($0.key, $0.value, tokens) }
            if !shown.isEmpty { members["parameters"] = .object(shown) }
            try Terminal.result(.object(members))
        case .header: Terminal.result("Authorization: Bearer \(try Self.bearer(tokens))")
        case .curl: Terminal.result("header = \"Authorization: Bearer \(try Self.bearer(tokens))\"")
        case .env: Terminal.result("export \(Self.variable)='\(try Self.bearer(tokens))'")
        }
    }

    /// Whether a parameter of the token response is neither another token nor a secret, by its name and value. Objects and arrays are not shown.
    private func isShown(_ name: String, _ value: JSON, _ tokens: TokenSet) -> Bool {
        let hidden = [
            "token", "secret", "pass", "pwd", "pin", "key", "assertion", "code", "cookie", "credential", "jwt",
            "refresh", "auth", "ticket", "otp", "sig", "session",
        ]
        guard !hidden.contains(where: name.lowercased().contains), value.array == nil, value.object == nil else {
            return false
        }
        let text = value.string ?? ""
        // A JWT has three parts.
        guard text.utf8.count <= 40 || text.contains("/") || text.split(separator: ".").count != 3 else { return false }
        let others = [tokens.refreshToken, tokens.idToken, tokens.deviceSecret].compactMap { $0?.exposed }
        return !others.contains(where: text.contains)
    }

    /// The token for a header field. RFC 6750 section 2.1 lists its characters, but some providers use others from RFC 6749 appendix A.12. Quotation
    /// marks and backslashes have a special meaning in a shell and in curl.
    private static func bearer(_ tokens: TokenSet) throws -> String {
        guard !tokens.isDPoPBound else {
            throw AuthError(
                .unsupported,
                "The token is bound to a key (DPoP), and every request needs a separate proof. Send it with: authflow curl URL"
            )
        }
        let token = tokens.accessToken.exposed
        let isPlain = token.utf8.allSatisfy { (0x21...0x7E).contains($0) && !"'\"\\".utf8.contains($0) }
        guard isPlain else {
            throw AuthError(
                .invalidResponse,
                "The access token contains characters that are not allowed in a bearer token (RFC 6750 section 2.1)."
            )
        }
        return token
    }
}

extension TokenSet {
    /// Whether a request needs a DPoP proof in addition to the access token.
    var isDPoPBound: Bool { tokenType.lowercased() == "dpop" }
}
