public import AuthFlowEssentials
public import AuthFlowHTTP
import AuthFlowIssuer

/// A logout token (OpenID Connect Back-Channel Logout 1.0 section 2.4) whose claims and signature have passed every check: the provider
/// has ended sessions of a user.
///
/// It may be received more than once, and an attacker may replay it: accept each ``identifier`` once.
public struct LogoutToken: Sendable, Hashable {
    /// `iss`: the provider.
    public let issuer: String

    /// `sub`: the user; nil when only ``sessionID`` identifies the ended session.
    public let subject: String?

    /// `sid`: the session at the provider; nil for all sessions of the user.
    public let sessionID: String?

    /// `jti`: the identifier of the token.
    public let identifier: String

    /// `iat`: the time of issue.
    public let issuedAt: Date

    /// The time until which the token is accepted; its identifier must be stored until then.
    public let acceptedUntil: Date
}

/// The provider-dependent requirements for logout tokens.
public struct LogoutTokenOptions: Sendable, Hashable {
    /// Whether `typ` must be `logout+jwt`; default: false. Section 2.4 recommends it; many providers send `JWT` or nothing.
    public var requiresType: Bool

    /// The maximum age of a token without `exp`; nil, the default, to reject such tokens. `exp` has been required since
    /// errata set 1 (2023), but some providers do not send it.
    public var maximumAgeWithoutExpiry: Duration?

    /// Creates options.
    public init(requiresType: Bool = false, maximumAgeWithoutExpiry: Duration? = nil) {
        self.requiresType = requiresType
        self.maximumAgeWithoutExpiry = maximumAgeWithoutExpiry
    }
}

extension OAuthClient {
    /// The maximum age of a logout token, in seconds.
    private static var maximumLogoutTokenAge: TimeInterval { 86_400 }

    /// Verifies a logout token, clause by clause (OpenID Connect Back-Channel Logout 1.0 section 2.6): first the claims, which
    /// are cheap to check, and then the signature, which may require fetching keys.
    /// - Parameters:
    ///   - logoutToken: The `logout_token` parameter of the provider's request.
    ///   - options: The requirements for the token.
    /// - Throws: ``AuthError`` with `invalid_logout_token`, `invalid_configuration` when the file of a decryption key cannot be used, or any error
    ///   from fetching the metadata or the keys.
    public func verify(
        logoutToken: Secret,
        _ options: LogoutTokenOptions = LogoutTokenOptions()
    ) async throws -> LogoutToken {
        let metadata = try await metadata()
        let profile = JWTProfile(
            "The logout token",
            // Section 2.4: "it is RECOMMENDED that the Logout Token be explicitly typed ... by including a typ Header Parameter with a
            // value of logout+jwt".
            type: options.requiresType ? .required(["logout+jwt"]) : .optional(["logout+jwt", "jwt"]),
            specification: "OpenID Connect Back-Channel Logout section 2.4",
            code: .invalidLogoutToken
        )
        let signed: Secret
        do throws(AuthError) {
            // "1. If the Logout Token is encrypted, decrypt it ... If encryption was negotiated ... and the Logout Token is not encrypted,
            // the RP SHOULD reject it."
            signed = try decrypted(logoutToken, .idToken)
            _ = try JWS(signed)
        } catch {
            // A key file that cannot be used does not make the token invalid, and its path must not be sent to the sender of the token.
            throw error.code == .invalidConfiguration ? error : AuthError(.invalidLogoutToken, error.message)
        }
        // "2. Validate the Logout Token signature in the same way that an ID Token signature is validated": last,
        // because it may require a request, which any sender could trigger. "3. Validate the alg (algorithm) Header
        // Parameter in the same way it is validated for ID Tokens."
        return try await verify(
            signed,
            as: profile,
            algorithms: idTokenAlgorithms(metadata),
            metadata: metadata,
            usesSecret: true
        ) { try self.logoutToken($0, metadata, options) }
    }

    private func logoutToken(
        _ rules: JWTClaims,
        _ metadata: ProviderMetadata,
        _ options: LogoutTokenOptions
    ) throws(AuthError) -> LogoutToken {
        let claims = rules.json
        let leeway = registration.clockLeeway.seconds
        // "4. Validate the iss, aud, iat, and exp Claims in the same way they are validated in ID Tokens."
        let named = metadata.tokenIssuer.map { $0.issuer(for: claims) } ?? server.issuer
        guard let named else { throw rules.rejection("this client does not accept its tenant") }
        let issuer = try rules.requireIssuer(named)
        _ = try rules.requireAudience(registration.clientID, trusting: registration.trustedAudiences)
        let issuedAt: Double
        let acceptedUntil: Double
        if rules["exp"] == nil, let age = options.maximumAgeWithoutExpiry {
            let age = min(age.seconds, Self.maximumLogoutTokenAge)
            issuedAt = try rules.requireIssuedAt(within: age)
            acceptedUntil = issuedAt + age + leeway
        } else {
            // Section 4: "OPs are encouraged to use short expiration times in Logout Tokens, preferably at most two minutes in the
            // future, to prevent captured Logout Tokens from being replayable." Its identifier is stored for as long as the token is accepted;
            // therefore that period is bounded, regardless of `exp`.
            issuedAt = try rules.requireIssuedAt(within: Self.maximumLogoutTokenAge)
            acceptedUntil = min(try rules.requireUnexpired(), issuedAt + Self.maximumLogoutTokenAge) + leeway
        }
        try rules.requireNotBefore()
        // "5. Verify that the Logout Token contains a sub Claim, a sid Claim, or both."
        let (subject, sessionID) = (claims["sub"]?.string, claims["sid"]?.string)
        guard subject != nil || sessionID != nil, (claims["sub"] == nil) == (subject == nil),
            (claims["sid"] == nil) == (sessionID == nil), subject?.isEmpty != true, sessionID?.isEmpty != true
        else { throw rules.rejection("its sub and sid are missing, or one of them is invalid") }
        // "6. Verify that the Logout Token contains an events Claim whose value is JSON object containing the member name
        // http://schemas.openid.net/event/backchannel-logout."
        guard claims["events"]?["http://schemas.openid.net/event/backchannel-logout"]?.object != nil else {
            throw rules.rejection("it contains no back-channel logout event (events)")
        }
        // "7. Verify that the Logout Token does not contain a nonce Claim."
        guard claims["nonce"] == nil else { throw rules.rejection("it contains a nonce, which is not allowed") }
        // Section 2.4: jti is REQUIRED.
        guard let identifier = claims["jti"]?.string, !identifier.isEmpty, identifier.utf8.count <= 1024 else {
            throw rules.missing("jti")
        }
        return LogoutToken(
            issuer: issuer,
            subject: subject,
            sessionID: sessionID,
            identifier: identifier,
            issuedAt: Date(secondsSince1970: issuedAt),
            acceptedUntil: Date(secondsSince1970: acceptedUntil)
        )
    }
}
