import AuthFlow
import AuthFlowEssentials
import Crypto
import Synchronization

// Single sign-on for all apps of a vendor (OpenID Connect Native SSO for Mobile Apps), as Okta's guide describes it.

/// The native single sign-on settings of an emulated provider.
public struct NativeSSOSettings: Sendable {
    /// The required `audience` of token exchanges; nil if none is required.
    public var audience: String?
    /// The accepted token types for device secrets.
    public var deviceSecretTypes: Set<String> = [
        "urn:x-oath:params:oauth:token-type:device-secret", "urn:openid:params:token-type:device-secret",
    ]
    /// The error response to every exchange: code, description and HTTP status; nil for none.
    public var exchangeError: (error: String, description: String, status: Int)?
    /// The error code for an exchange with an unknown device secret.
    public var unknownSecretError = "invalid_request"
    /// Computes the `ds_hash` of ID Tokens from their device secret; nil to omit it.
    public var secretHash: @Sendable (String) -> String? = { OIDCEmulator.secretHash($0) }
    /// Whether ID Tokens issued in an exchange, and refreshed ID Tokens, contain the nonce of the sign-in.
    public var repeatsNonce = false

    /// Creates settings.
    public init(audience: String? = nil) { self.audience = audience }
}

extension OIDCEmulator {
    /// The grant and the session of a device secret.
    struct DeviceSession {
        let grant: Grant
        let sid: String
    }

    /// The left half of a secret's SHA-256 hash, for `ds_hash`.
    public static func secretHash(_ secret: String) -> String {
        Base64URL.encode(Array(SHA256.hash(data: Array(secret.utf8))).prefix(16))
    }

    /// The valid device secrets.
    public var deviceSecrets: [String] { Array(state.withLock { $0.deviceSecrets.keys }) }

    /// Issues a device secret and a session for a grant that has all required scopes; returns nil for any other grant, or if native SSO is disabled.
    func deviceSecret(for grant: inout Grant) -> String? {
        guard settings.nativeSSO != nil, Set(["openid", "device_sso", "offline_access"]).isSubset(of: grant.scopes)
        else {
            return nil
        }
        // Standard base64, with characters that must be percent-encoded in a form.
        let secret = Data(HostServices.systemRandomBytes(30) + [0xFB, 0xFF]).base64EncodedString()
        let sid = Self.randomID()
        grant.sid = sid
        state.withLock { [grant] in $0.deviceSecrets[secret] = DeviceSession(grant: grant, sid: sid) }
        return secret
    }

    func exchange(_ form: FormParameters, _ client: Client, _ thumbprint: String?) -> TransportResponse {
        guard let settings = settings.nativeSSO else {
            return .refusal(
                "unsupported_grant_type",
                "'urn:ietf:params:oauth:grant-type:token-exchange' grant type is not supported."
            )
        }
        if let (error, description, status) = settings.exchangeError {
            var response = TransportResponse.refusal(error, description)
            response.head.status = HTTPResponse.Status(code: status)
            return response
        }
        guard form["subject_token_type"] == "urn:ietf:params:oauth:token-type:id_token" else {
            return .refusal("invalid_request", "'subject_token_type' is invalid or not supported.")
        }
        guard settings.deviceSecretTypes.contains(form["actor_token_type"] ?? "") else {
            return .refusal("invalid_request", "'actor_token_type' is invalid or not supported.")
        }
        guard settings.audience == nil || form["audience"] == settings.audience else {
            return .refusal(
                "invalid_target",
                "Token Exchange requests must include a valid audience of the authorization server."
            )
        }
        guard let session = state.withLock({ $0.deviceSecrets[form["actor_token"] ?? ""] }) else {
            return .refusal(settings.unknownSecretError, "'actor_token' is invalid.")
        }
        // An expired ID Token is accepted, because only its issuer and its session are checked.
        let claims = (try? JWS(Secret(form["subject_token"] ?? "")))?.payload
        guard claims?["iss"]?.string == issuer, claims?["sid"]?.string == session.sid else {
            return .refusal("invalid_request", "'subject_token' is invalid.")
        }
        var parameters: FormParameters = ["scope": form["scope"] ?? ""]
        if settings.repeatsNonce { parameters["nonce"] = session.grant.authorization.parameters["nonce"] }
        var grant = Grant(
            authorization: Authorization(parameters: parameters, client: client, redirectURI: ""),
            session: session.grant.session
        )
        grant.sid = session.sid
        grant.thumbprint = thumbprint
        return issue(grant, code: nil, isExchange: true)
    }

    /// Revokes a device secret and all tokens of its session.
    /// - Returns: Whether the value was a valid device secret.
    func endSession(ofSecret secret: String) -> Bool {
        state.withLock { state in
            guard let session = state.deviceSecrets.removeValue(forKey: secret) else { return false }
            state.accessTokens = state.accessTokens.filter { $0.value.sid != session.sid }
            state.refreshTokens = state.refreshTokens.filter { $0.value.grant.sid != session.sid }
            return true
        }
    }
}
