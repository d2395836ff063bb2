public import AuthFlowEssentials
import AuthFlowJSON

/// The authentication of the user that a session began with: `auth_time`, `acr` and `amr` of its first ID Token (OpenID Connect Core
/// section 2).
///
/// Decide by this one, and not by the ID Token of the last refresh: several providers name the user's last sign-in anywhere in it.
public struct UserAuthentication: Sendable, Hashable {
    /// The time of the authentication (`auth_time`); nil when the provider does not say.
    public let time: Date?

    /// The authentication context class (`acr`); nil when the provider does not say.
    public let contextClass: String?

    /// The authentication methods (`amr`); empty when the provider does not say.
    public let methods: [String]

    /// The provider's session (`sid`, OpenID Connect Front-Channel Logout section 3); nil when the provider does not say.
    public let sessionID: String?

    /// The `nonce` of the sign-in, with which that of a refreshed ID Token is compared.
    let nonce: String?

    init(_ claims: JSON) {
        self.time = claims["auth_time"]?.number.map(Date.init(timeIntervalSince1970:))
        self.contextClass = claims["acr"]?.string
        self.methods = claims["amr"]?.strings ?? []
        self.sessionID = claims["sid"]?.string
        self.nonce = claims["nonce"]?.string
    }

    /// The claims, as they are stored.
    var claims: JSON {
        var claims: [String: JSON] = [:]
        claims["auth_time"] = time.map { .double($0.timeIntervalSince1970) }
        claims["acr"] = contextClass.map(JSON.string)
        claims["sid"] = sessionID.map(JSON.string)
        claims["nonce"] = nonce.map(JSON.string)
        if !methods.isEmpty { claims["amr"] = .array(methods.map(JSON.string)) }
        return .object(claims)
    }
}
