import AuthFlowHTTP

extension TokenSet {
    /// The maximum size of a token, in bytes.
    static let maximumTokenSize = 32 * 1024

    /// Checks that every token and name contains only characters that RFC 6749 allows: other characters cannot be sent in a header, and
    /// could manipulate the terminal on which a token is printed.
    /// - Throws: ``AuthError`` with `invalid_reply`. The error message does not contain the tokens.
    func requireTransportableCharacters() throws(AuthError) {
        // Appendix A.12, A.17: access-token and refresh-token are 1*VSCHAR. The other tokens are used in the same places.
        let named: [(name: String, token: Secret?)] = [
            ("access_token", accessToken), ("refresh_token", refreshToken), ("id_token", idToken),
            ("device_secret", deviceSecret),
        ]
        for (name, token) in named {
            if let problem = token.flatMap(Self.problem) { throw Self.refusal("\"\(name)\" has \(problem)") }
        }
        // Appendix A.13: type-name = 1*name-char, name-char = "-" / "." / "_" / DIGIT / ALPHA; or a URI.
        guard !tokenType.isEmpty, tokenType.utf8.count <= 256, tokenType.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw Self.refusal(
                "\"token_type\" is empty, longer than 256 bytes, or contains characters that RFC 6749 appendix A does not allow; if the provider documents that this is a bearer token, list the type in \"bearer_token_types\""
            )
        }
        guard scopes.allSatisfy(ClientRegistration.Values.isScopeToken) else {
            throw Self.refusal("\"scope\" contains characters that RFC 6749 appendix A does not allow")
        }
    }

    /// The reason why a token is invalid; nil when it is valid.
    static func problem(of token: Secret) -> String? {
        let bytes = token.exposed.utf8
        guard bytes.count <= maximumTokenSize else { return "more than \(maximumTokenSize) bytes" }
        let isAllowed = bytes.allSatisfy { (0x20...0x7E).contains($0) }
        return isAllowed ? nil : "characters that RFC 6749 appendix A does not allow"
    }

    private static func refusal(_ problem: String) -> AuthError {
        AuthError(.invalidResponse, "The token response was rejected: \(problem).")
    }
}
