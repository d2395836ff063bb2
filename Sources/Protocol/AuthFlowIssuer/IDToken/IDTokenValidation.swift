package import AuthFlowEssentials
package import AuthFlowHTTP
package import AuthFlowJOSE
import AuthFlowJSON

/// Checks an ID Token, clause by clause, as specified in OpenID Connect Core 1.0 section 3.1.3.7.
///
/// Every check fails closed. Text in quotation marks is quoted from the specifications.
package struct IDTokenValidation: Sendable {
    /// The values that the token must have.
    package struct Expectation: Sendable {
        package let issuer: String
        /// The template that derives the issuer from the claims, if the issuer is not the same in all tokens.
        package var issuerTemplate: TokenIssuerTemplate?
        package let clientID: String
        /// The audiences that a token may have in addition to the client.
        package var trustedAudiences: [String] = []
        /// The clients that may have requested the token (`azp`), in addition to the client.
        package var authorizedParties: [String] = []
        /// The signature algorithms to accept.
        package var algorithms: [SignatureAlgorithm]
        /// The kind of request for which the token was issued.
        package let context: Context
        /// The audience of the session's first ID Token, for a refresh; nil for that of the ID Token that is replaced.
        package var originalAudience: [String]?
        /// The access token issued with the ID Token.
        package var accessToken: Secret?
        /// The authorization code for which the token was issued.
        package var code: Secret?
        /// The maximum age of the token, in seconds; nil for no limit.
        package var maximumTokenAge: TimeInterval? = 600
        /// The earliest time at which the user may have authenticated (`max_age`), in seconds since the Epoch; nil if any time is
        /// acceptable, and `auth_time` may be missing.
        package var earliestAuthentication: TimeInterval?
        /// The `acr` values, one of which the token must contain: empty when any is accepted, nil when the claim was
        /// not requested as essential.
        package var essentialACRValues: [String]?
        /// The requested values of `sub`, one of which the token must contain; nil when no specific user was requested.
        package var subjects: [String]?
        /// The allowed difference between this machine's clock and the provider's, in seconds.
        package var leeway: TimeInterval
        /// The number of seconds by which this machine's clock is ahead of the provider's; nil when the provider's time is not
        /// known.
        package var clockOffset: TimeInterval?

        package init(
            issuer: String,
            clientID: String,
            algorithms: [SignatureAlgorithm],
            context: Context,
            leeway: TimeInterval = 60
        ) {
            self.issuer = issuer
            self.clientID = clientID
            self.algorithms = algorithms
            self.context = context
            self.leeway = leeway
        }
    }

    /// The kinds of requests for which an ID Token is issued.
    package enum Context: Sendable {
        /// A sign-in, with the nonce of the authorization request; nil when none was sent.
        case signIn(nonce: Secret?)
        /// A refresh of the tokens issued with this ID Token, and the nonce of the sign-in; nil when none was sent.
        case refresh(of: IDToken, nonce: String?)
        /// A token exchange (RFC 8693), with the user's `sub`; nil when the user is not known.
        case exchange(subject: String?)
        /// An ID Token from another program's sign-in, presented to this program. The nonce is checked if it is known.
        case presented(nonce: Secret?)
    }

    let expectation: Expectation
    let now: Date
    /// Called for each check that the token has passed, with the clause that requires the check.
    var passed: (@Sendable (_ check: String, _ clause: String) -> Void)?

    /// The issuer that a token with these claims must have.
    private func expectedIssuer(_ claims: JSON) throws(AuthError) -> String {
        guard let template = expectation.issuerTemplate else { return expectation.issuer }
        guard let issuer = template.issuer(for: claims) else {
            throw AuthError(
                .invalidIDToken,
                "The ID Token is not accepted: this client does not accept its tenant (\(template.claim))."
            )
        }
        return issuer
    }

    /// The request-independent rules for ID Tokens. A logout token or an access token has a different
    /// type.
    static let profile = JWTProfile(
        "The ID Token",
        type: .optional(["jwt"]),
        specification: "OpenID Connect Core section 2",
        code: .invalidIDToken,
        acceptsRegisteredAlgorithms: true
    )

    /// The verifier of this token. "7. The alg value SHOULD be the default of RS256 or the algorithm sent by the Client in the
    /// id_token_signed_response_alg parameter during Registration."
    package var verifier: JWTVerifier {
        JWTVerifier(
            Self.profile,
            algorithms: expectation.algorithms,
            now: now,
            leeway: expectation.leeway,
            clockOffset: expectation.clockOffset
        )
    }

    /// Checks the claims. The header must already have been checked.
    package func check(_ rules: JWTClaims) throws(AuthError) -> IDTokenClaims {
        let claims = rules.json
        let leeway = expectation.leeway
        let time = rules.time
        passed?("alg", "OpenID Connect Core section 3.1.3.7, item 7")

        // OIDC Back-Channel Logout 1.0 section 2.4: "events" distinguishes a logout token from an ID Token.
        guard rules["events"] == nil else {
            throw rules.rejection("it is a security event, such as a logout token (events)")
        }

        if case .refresh(let original, _) = expectation.context { try requireSameUser(rules, original) }

        // "2. The Issuer Identifier for the OpenID Provider ... MUST exactly match the value of the iss (issuer) Claim."
        let issuer = try rules.requireIssuer(try expectedIssuer(claims))
        passed?("iss", "OpenID Connect Core section 3.1.3.7, item 2")

        // Section 2: sub is REQUIRED.
        let subject = try rules.requireSubject()
        passed?("sub", "OpenID Connect Core section 2")

        // "3. The Client MUST validate that the aud (audience) Claim contains its client_id value ... The ID Token MUST
        // be rejected if the ID Token does not list the Client as a valid audience, or if it contains additional
        // audiences not trusted by the Client."
        let audience = try rules.requireAudience(expectation.clientID, trusting: expectation.trustedAudiences)
        passed?("aud", "OpenID Connect Core section 3.1.3.7, item 3")

        // "4. If the ID Token contains multiple audiences, the Client SHOULD verify that an azp Claim is present."
        guard rules["azp"] != nil || audience.allSatisfy({ $0.isIdentical(to: expectation.clientID) }) else {
            throw rules.rejection("it has several audiences, but does not identify the authorized party (azp)")
        }
        // "5. If an azp (authorized party) Claim is present, the Client SHOULD verify that its client_id is the Claim
        // Value." At Google, a mobile app is the authorized party of the ID Tokens that it obtains for its backend.
        let parties = [expectation.clientID] + expectation.authorizedParties
        guard rules["azp"] == nil || rules["azp"]?.string.map(parties.containsIdentical) == true else {
            throw rules.rejection("it was issued to another client (azp)")
        }
        passed?("azp", "OpenID Connect Core section 3.1.3.7, item 5")

        // "9. The current time MUST be before the time represented by the exp Claim."
        let expiry = try rules.requireUnexpired()
        passed?("exp", "OpenID Connect Core section 3.1.3.7, item 9")

        // "10. The iat Claim can be used to reject tokens that were issued too far away from the current time."
        let issued = try rules.requireIssuedAt(within: expectation.maximumTokenAge)
        passed?("iat", "OpenID Connect Core section 3.1.3.7, item 10")

        try rules.requireNotBefore()

        switch expectation.context {
        case .signIn(let nonce):
            // "11. If a nonce value was sent in the Authentication Request, a nonce Claim MUST be present and its value
            // checked to verify that it is the same value as the one that was sent in the Authentication Request."
            // A nonce that was never sent belongs to another sign-in.
            guard rules["nonce"] == nonce.map({ .string($0.exposed) }) else {
                let reason =
                    switch (nonce, rules["nonce"]) {
                    case (_?, nil):
                        "it has no nonce although a nonce was sent, so the provider violates OpenID Connect Core section 2. Without the \"openid\" scope, \"identity\": \"userinfo\" can identify the user"
                    case (nil, _): "it has a nonce although none was sent, so it belongs to another sign-in"
                    default: "its nonce does not match the nonce of this sign-in, so it may have been injected"
                    }
                throw rules.rejection(reason)
            }
            passed?("nonce", "OpenID Connect Core section 3.1.3.7, item 11")
        case .exchange(let expected):
            // No nonce was sent, and the token may repeat the nonce of the sign-in that produced the exchanged token.
            // Instead of a nonce, the TLS connection and the subject bind the response to the request.
            guard expected.map(subject.isIdentical) != false else {
                throw rules.rejection("it identifies another user (sub)")
            }
        case .refresh(let original, let nonce):
            try compare(rules, issued: issued, audience: audience, with: original, nonce: nonce)
        case .presented(let nonce):
            guard nonce == nil || rules["nonce"] == nonce.map({ .string($0.exposed) }) else {
                throw rules.rejection("its nonce differs from the one that was sent")
            }
        }

        // Section 3.1.2.2: "If the sub (subject) Claim is requested with a specific value for the ID Token, ... The Authorization Server MUST NOT
        // reply with an ID Token or Access Token for a different user".
        if let wanted = expectation.subjects {
            guard wanted.containsIdentical(subject) else {
                throw Self.insufficient("it identifies a user other than the requested user (sub)")
            }
            passed?("requested sub", "OpenID Connect Core section 3.1.2.2")
        }

        // "12. If the acr Claim was requested, the Client SHOULD check that the asserted Claim Value is appropriate."
        // Section 5.5.1.1: when it "is requested as an Essential Claim", any other value is a failed authentication.
        if let wanted = expectation.essentialACRValues {
            guard let given = claims["acr"]?.string, wanted.isEmpty || wanted.containsIdentical(given) else {
                throw Self.insufficient("the user's authentication does not meet the requested context (acr)")
            }
            passed?("acr", "OpenID Connect Core section 3.1.3.7, item 12")
        }

        // "13. If the auth_time Claim was requested, either through a specific request for this Claim or by using the
        // max_age parameter, the Client SHOULD check the auth_time Claim value and request re-authentication if it
        // determines too much time has elapsed since the last End-User authentication." Section 2: with max_age it is
        // REQUIRED.
        if let earliest = expectation.earliestAuthentication {
            guard let authenticated = claims["auth_time"]?.number else {
                throw Self.insufficient("it lacks the time of the user's authentication (auth_time)")
            }
            guard authenticated >= earliest - leeway else {
                throw Self.insufficient("the user's last authentication is older than requested (auth_time, max_age)")
            }
            passed?("auth_time", "OpenID Connect Core section 3.1.3.7, item 13")
        }
        if let authenticated = rules["auth_time"] {
            guard let authenticated = authenticated.number, authenticated <= time + leeway else {
                throw rules.rejection("its auth_time is in the future or is not a number\(rules.clockHint)")
            }
        }

        // Sections 3.1.3.8 and 3.3.2.11: at_hash binds the access token to the ID Token, and c_hash the code. Both are
        // optional here, but must be correct if present.
        let hash = rules.header.algorithm.definition?.hash
        // A token that another program presents may arrive without the access token, and always arrives without the
        // code.
        let isPresented = if case .presented = expectation.context { true } else { false }
        let checksAccessToken = !isPresented || expectation.accessToken != nil
        guard
            rules["at_hash"] == nil || !checksAccessToken
                || matchesHash(rules["at_hash"], expectation.accessToken, hash)
        else { throw rules.rejection("its at_hash does not match the access token issued with it") }
        if rules["at_hash"] != nil, checksAccessToken { passed?("at_hash", "OpenID Connect Core section 3.1.3.8") }
        guard rules["c_hash"] == nil || isPresented || matchesHash(rules["c_hash"], expectation.code, hash) else {
            throw rules.rejection("its c_hash does not match the authorization code")
        }
        if rules["c_hash"] != nil, !isPresented { passed?("c_hash", "OpenID Connect Core section 3.3.2.11") }

        return IDTokenClaims(
            json: claims,
            issuer: issuer,
            subject: subject,
            audience: audience,
            expiresAt: Date(secondsSince1970: expiry),
            issuedAt: Date(secondsSince1970: issued)
        )
    }

    /// Section 12.2, "Successful Refresh Response": the comparisons that detect another user's token. They run before all checks except those of the header
    /// and of "events", because after any other
    /// error, the new refresh token is stored for this user.
    private func requireSameUser(_ rules: JWTClaims, _ original: IDToken) throws(AuthError) {
        // "its sub Claim Value MUST be the same as in the ID Token issued when the original authentication occurred"
        if let subject = rules["sub"]?.string, !subject.isEmpty, !subject.isIdentical(to: original.subject) {
            throw rules.rejection("it identifies another user (sub)", SubjectMismatch())
        }
        // "its iss Claim Value MUST be the same as in the ID Token issued when the original authentication occurred". The same sub from
        // another tenant identifies another user. With a single issuer, a different iss is a provider error, which may be transient.
        let isSameTenant = rules["iss"]?.string.map { $0.isIdentical(to: original.issuer) } ?? true
        guard expectation.issuerTemplate == nil || isSameTenant else {
            throw rules.rejection("it comes from another issuer (iss)", SubjectMismatch())
        }
    }

    /// Section 12.2, "Successful Refresh Response": the comparisons that detect a token from another client or
    /// sign-in. `auth_time` is not compared. The rule is a requirement on the provider, but several providers violate
    /// it and report the user's most recent sign-in at any client; rejecting their tokens would end the session.
    /// `Credential.authentication` retains the session's original `auth_time`.
    private func compare(
        _ rules: JWTClaims,
        issued: Double,
        audience: [String],
        with original: IDToken,
        nonce: String?
    ) throws(AuthError) {
        // "its iat Claim MUST represent the time that the new ID Token is issued". The provider's nodes have separate clocks.
        guard issued >= original.issuedAt.timeIntervalSince1970 - expectation.leeway else {
            throw rules.rejection("it is older than the ID Token that it replaces (iat)")
        }
        // "its aud Claim Value MUST include the value that was in the ID Token issued when the original authentication
        // occurred". An earlier refresh may have added other audiences.
        guard Set(audience).isSuperset(of: expectation.originalAudience ?? original.audience) else {
            throw rules.rejection("its audience has changed (aud)")
        }
        // "it SHOULD NOT have a nonce Claim ...; however, if it is present, its value MUST be the same as in the ID Token
        // issued at the time of the original authentication"
        guard rules["nonce"] == nil || rules["nonce"] == nonce.map(JSON.string) else {
            throw rules.rejection("its nonce has changed")
        }
        // "its azp Claim Value MUST be the same as in the ID Token issued when the original authentication occurred; if no
        // azp Claim was present in the original ID Token, one MUST NOT be present in the new ID Token"
        let authorizedParty = original.claims["azp"].flatMap { $0 == .null ? nil : $0 }
        guard rules["azp"] == authorizedParty else { throw rules.rejection("its azp has changed") }
    }

    /// The error for a token whose user or authentication does not meet the request's requirements.
    private static func insufficient(_ reason: String) -> AuthError {
        AuthError(.insufficientUserAuthentication, "\(profile.name) was rejected: \(reason).")
    }

    /// "the base64url encoding of the left-most half of the hash of the octets of the ASCII representation of the
    /// access_token value, where the hash algorithm used is the hash algorithm used in the alg Header Parameter".
    private func matchesHash(_ claim: JSON?, _ secret: Secret?, _ hash: SignatureAlgorithm.Hash?) -> Bool {
        guard let secret, let hash else { return false }
        return claim == .string(hash.leftHalf(of: secret))
    }
}
