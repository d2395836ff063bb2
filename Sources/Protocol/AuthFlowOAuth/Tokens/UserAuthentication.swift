public import AuthFlowEssentials
import AuthFlowJSON

/// The user's authentication at the start of a session: `auth_time`, `acr` and `amr` of its first ID Token (OpenID Connect Core
/// section 2).
///
/// Base decisions on these values, not on the ID Token of the last refresh, in which several providers report the
/// user's most recent sign-in at any client.
public struct UserAuthentication: Sendable, Hashable {
    /// The time of the authentication (`auth_time`); nil when the claim is absent.
    public let time: Date?

    /// The authentication context class (`acr`); nil when the claim is absent.
    public let contextClass: String?

    /// The authentication methods (`amr`); empty when the claim is absent.
    public let methods: [String]

    /// The ID of the session at the provider (`sid`, OpenID Connect Front-Channel Logout section 3); nil when the claim is absent.
    public let sessionID: String?

    /// The `nonce` of the sign-in; the nonce of a refreshed ID Token, if present, must match it.
    let nonce: String?

    /// The audience (`aud`) of the first ID Token, which every refreshed ID Token must include; nil in records of earlier builds.
    let audience: [String]?

    init(_ claims: JSON) {
        self.time = claims["auth_time"]?.number.map(Date.init(secondsSince1970:))
        self.contextClass = claims["acr"]?.string
        self.methods = claims["amr"]?.strings ?? []
        self.sessionID = claims["sid"]?.string
        self.nonce = claims["nonce"]?.string
        self.audience = claims["aud"]?.strings ?? claims["aud"]?.string.map { [$0] }
    }

    /// The claims in their stored form.
    var claims: JSON {
        var claims: [String: JSON] = [:]
        claims["auth_time"] = time.map { .double($0.timeIntervalSince1970) }
        claims["acr"] = contextClass.map(JSON.string)
        claims["sid"] = sessionID.map(JSON.string)
        claims["nonce"] = nonce.map(JSON.string)
        claims["aud"] = audience.map { .array($0.map(JSON.string)) }
        if !methods.isEmpty { claims["amr"] = .array(methods.map(JSON.string)) }
        return .object(claims)
    }
}
