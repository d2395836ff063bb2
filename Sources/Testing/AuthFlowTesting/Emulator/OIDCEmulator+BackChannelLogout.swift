public import AuthFlow
import AuthFlowEssentials
import Synchronization

extension OIDCEmulator {
    /// Creates a logout token (OpenID Connect Back-Channel Logout 1.0 section 2.4) as the provider would send it.
    /// - Parameters:
    ///   - clientID: The client for which the token is issued.
    ///   - subject: The user; nil for a token without `sub`.
    ///   - sessionID: The session; nil for a token without `sid`.
    ///   - change: Changes the header and the claims before the token is signed.
    public func logoutToken(
        for clientID: String,
        subject: String?,
        sessionID: String? = nil,
        change: (_ header: inout [String: JSON], _ claims: inout [String: JSON]) -> Void = { _, _ in }
    ) throws -> String {
        let (keys, algorithm) = state.withLock { ($0.keys, $0.settings.signingAlgorithm) }
        let time = Int64(now().timeIntervalSince1970)
        var claims: [String: JSON] = [
            "iss": .string(issuer), "aud": .string(clientID), "iat": .integer(time), "exp": .integer(time + 120),
            "jti": .string(Self.randomID()),
            "events": ["http://schemas.openid.net/event/backchannel-logout": [:]],
        ]
        claims["sub"] = subject.map(JSON.string)
        claims["sid"] = sessionID.map(JSON.string)
        var header = keys.header(for: algorithm, type: "logout+jwt")
        change(&header, &claims)
        let secret = clients.first { $0.id == clientID }?.secret ?? ""
        return try keys.sign(.object(claims), header: .object(header), with: algorithm, secret: secret)
    }
}
