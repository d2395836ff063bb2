import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON

/// The rules for an introspection response (RFC 7662 section 2.2).
struct IntrospectedToken {
    let issuer: TrustedIssuer
    let resource: Endpoint
    /// Whether the token is a verified JWT, whose `aud` claim has already been checked.
    let isVerified: Bool

    func check(_ members: JSON, now: Date, leeway: Double) throws(TokenFailure) -> AccessToken {
        // Some servers send null instead of omitting a member.
        let members = JSON.object((members.object ?? [:]).filter { $0.value != .null })
        // Section 2.2: "If the introspection call is properly authorized but the token is not active ... the authorization server MUST
        // return an introspection response with the "active" field set to "false"."
        guard members["active"]?.bool == true else { throw .invalid("introspection did not report it as active") }
        guard let expected = isVerified ? issuer.server.issuer : issuer.issuer(for: members) else {
            throw .invalid("it belongs to a tenant that is not accepted")
        }
        if !isVerified, let named = members["iss"] {
            guard let name = named.string, expected.isIdentical(to: name) else {
                throw .invalid("the introspection response has a different issuer (iss)")
            }
        }
        // Section 4: "If the token can be used only at certain resource servers, the authorization server MUST determine whether or not
        // the token can be used at the resource server making the introspection call." An "aud" in the response must identify this API.
        // Ory Hydra reports a token without an audience with an empty array.
        if let value = members["aud"], value != [] {
            let audience = value.string.map { [$0] } ?? value.strings ?? []
            guard issuer.matchesAudience(resource, audience) else {
                throw .invalid("it is intended for another API (aud)")
            }
        } else if !isVerified, !issuer.trustsIssuerToCheckAudience {
            throw .invalid("the introspection response has no audience (aud)")
        }
        // An active token may be a refresh token. RFC 7662 section 2.2: "token_type" has the meaning of RFC 6749
        // section 5.1.
        if let type = members["token_type"]?.string?.lowercased(), !["bearer", "dpop", "access_token"].contains(type) {
            throw .invalid("it is not an access token (token_type)")
        }
        // Some servers indicate the use of a token separately from its type (Ory Hydra: "token_use", Keycloak: "typ").
        if let use = members["token_use"] {
            guard ["access_token", "access"].contains(use.string?.lowercased() ?? "") else {
                throw .invalid("it is not an access token (token_use)")
            }
        }
        if let kind = members["typ"]?.string?.lowercased(), ["refresh", "offline", "id", "logout"].contains(kind) {
            throw .invalid("it is not an access token (typ)")
        }
        guard
            members["token_type"]?.string?.lowercased() != "dpop" || members["cnf"]?["jkt"]?.string != nil || isVerified
        else {
            throw .invalid("the introspection response has no key binding (cnf.jkt)")
        }
        let time = now.timeIntervalSince1970
        if let end = members["exp"] {
            guard let end = end.number, time - leeway < end else { throw .invalid("it has expired (exp)") }
        }
        if let start = members["nbf"] {
            guard let start = start.number, start <= time + leeway else { throw .invalid("it is not valid yet (nbf)") }
        }
        return try AccessToken(
            issuer: expected,
            claims: members,
            clientID: members["client_id"]?.string
        )
    }
}
