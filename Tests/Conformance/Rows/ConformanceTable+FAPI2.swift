import AuthFlow
import AuthFlowJSON
import AuthFlowTesting

/// The modules of the FAPI 2.0 client plans, each with a fully conforming client: private_key_jwt, pushed requests,
/// DPoP with nonces and, for message signing, signed requests and responses.
extension ConformanceTable {
    private static let prefix = "fapi2-security-profile-final-client-test-"

    /// The expected result of a row.
    private enum Outcome: Sendable {
        case accepted
        /// Rejected with this code; `last` is the last request that the provider receives.
        case refused(AuthError.Code, last: String)
    }

    static let fapi2: [ConformanceRow] =
        [
            row("F1", "happy-path", "Sign in and call a resource.", .accepted),
            row(
                "F2",
                "discovery-issuer-mismatch",
                "Stop if the metadata contains a different issuer.",
                .refused(.issuerMismatch, last: "GET /.well-known/openid-configuration"),
                .metadata(.wrongIssuer)
            ),
            idToken("F3", "invalid-iss", "Reject a wrong issuer.", .wrongIssuer),
            idToken("F4", "invalid-aud", "Reject a wrong audience.", .wrongAudience),
            idToken("F5", "invalid-secondary-aud", "Reject an additional audience.", .secondAudience),
            idToken("F6", "invalid-null-alg", "Reject an unsigned ID Token.", .unsigned),
            idToken("F7", "invalid-alternate-alg", "Reject RS256.", .signed(with: .rs256)),
            idToken("F8", "invalid-expired-exp", "Reject an expired ID Token.", .expired(secondsAgo: 360)),
            idToken("F9", "invalid-missing-exp", "Reject a missing exp.", .missingExpiry),
            idToken("F10", "invalid-missing-aud", "Reject a missing aud.", .missingAudience),
            idToken("F11", "invalid-missing-iss", "Reject a missing iss.", .missingIssuer),
            row("F12", "valid-aud-as-array", "Accept aud as an array.", .accepted, .idToken(.audienceAsArray)),
            idToken("F13", "invalid-nonce", "Reject a wrong nonce.", .wrongNonce),
            idToken("F14", "invalid-missing-nonce", "Reject a missing nonce.", .missingNonce),
            response("F15", "invalid-authorization-response-iss", "Reject a wrong iss.", .wrongIss, .issuerMismatch),
            response("F16", "remove-authorization-response-iss", "Reject a missing iss.", .missingIss, .issuerMismatch),
            response(
                "F17",
                "ensure-authorization-response-with-invalid-state-fails",
                "Reject a wrong state.",
                .wrongState,
                .invalidCallback
            ),
            response(
                "F18",
                "ensure-authorization-response-with-invalid-missing-state-fails",
                "Reject a missing state.",
                .missingState,
                .invalidCallback
            ),
            row(
                "F19",
                "token-endpoint-response-without-expires_in",
                "Accept a token response without expires_in.",
                .accepted,
                .tokenResponse(.missingExpiry)
            ),
            row(
                "F20",
                "token-type-case-insensitivity",
                "Compare token_type case-insensitively.",
                .accepted,
                .tokenResponse(.member("token_type", "dpOp"))
            ),
            row(
                "F21",
                "rs-dpop-auth-scheme-case-insensitivity",
                "Use the nonce from a challenge whose scheme is spelled dPoP.",
                .accepted
            ),
            row("F22", "happy-path-no-dpop-nonce", "Sign in and call a resource without DPoP nonces.", .accepted) {
                environment in
                environment.emulator.dpop = .required
                environment.emulator.resourceRequiresNonce = false
            },
        ] + messageSigning + [
            .notApplicable(
                "F31",
                prefix + "invalid-openbanking-intent-id",
                "Specific to Open Banking in the United Kingdom."
            ),
            .row(
                "F32",
                "fapi2-security-profile-final-client-refresh-token-test",
                "Refresh with the latest refresh token whenever the resource rejects the access token.",
                clients: [Self.client(.fapi2)]
            ) { environment in
                prepare(environment)
                let client = try environment.client(registration: try registration(.fapi2))
                var tokens = [try await client.signIn().credential.tokens.refreshToken]
                for _ in 0..<2 {
                    environment.emulator.revokeAccessTokens()
                    _ = try await client.userInfo()
                    tokens.append(try await client.freshTokens().refreshToken)
                }
                try ConformanceRow.require(Set(tokens).count == 3, "Each refresh must return a new refresh token.")
            },
        ]

    private static let messageSigning: [ConformanceRow] = [
        row("119", "request_object signed, non-repudiation", "Sign the request, and push it.", .accepted, .signing),
        jarm("F23 (111)", "ensure-jarm-without-iss-fails", "Reject a response without iss.", .missingIssuer),
        jarm("F24 (112)", "ensure-jarm-with-invalid-iss-fails", "Reject another issuer's response.", .wrongIssuer),
        jarm("F25 (113)", "ensure-jarm-without-aud-fails", "Reject a response without aud.", .missingAudience),
        jarm("F26 (114)", "ensure-jarm-with-invalid-aud-fails", "Reject another client's response.", .wrongAudience),
        jarm("F27 (115)", "ensure-jarm-without-exp-fails", "Reject a response without exp.", .missingExpiry),
        jarm("F28 (116)", "ensure-jarm-with-expired-exp-fails", "Reject an expired response.", .expired),
        jarm(
            "F29 (117)",
            "ensure-jarm-with-invalid-sig-fails",
            "Reject an invalid signature.",
            .badSignature,
            last: "GET /jwks"
        ),
        jarm("F30 (118)", "ensure-jarm-signature-is-not-none", "Reject an unsigned response.", .unsigned),
    ]

    // MARK: The client

    /// The client's key, which is registered with every emulator in these rows.
    private static let key = Result { try PrivateKey(generatedFor: .ps256) }

    private static func client(_ profile: SecurityProfile) -> OIDCEmulator.Client {
        var client = OIDCEmulator.Client(id: "fapi", authenticationMethod: "private_key_jwt")
        client.jwks = ["keys": .array([(try? key.get())?.publicJWK ?? [:]])]
        client.assertionAudiences = [.issuer]
        client.mustPushRequests = true
        client.mustSignRequests = profile == .fapi2MessageSigning
        return client
    }

    private static func registration(_ profile: SecurityProfile) throws -> ClientRegistration.Values {
        var values = ClientRegistration.Values(clientID: "fapi")
        values.redirectURIs = ["http://127.0.0.1:8400/callback"]
        values.scopes = ["openid", "profile", "offline_access"]
        values.authentication = .privateKeyJWT(SigningKeySource(try key.get()))
        if profile == .fapi2MessageSigning { values.requestObjectKey = SigningKeySource(try key.get()) }
        values.securityProfile = profile
        return values
    }

    private static func prepare(_ environment: EmulatorEnvironment) {
        environment.emulator.pushedRequests = .always
        environment.emulator.dpop = .requiredWithNonce
        environment.emulator.resourceRequiresNonce = true
    }

    // MARK: Kinds of rows

    private enum Variant: Sendable {
        case plain
        case signing
    }

    private static func row(
        _ number: String,
        _ name: String,
        _ demand: String,
        _ outcome: Outcome,
        _ fault: EmulatorFault? = nil,
        _ variant: Variant = .plain,
        _ change: @escaping @Sendable (EmulatorEnvironment) -> Void = { _ in }
    ) -> ConformanceRow {
        let profile: SecurityProfile = variant == .signing ? .fapi2MessageSigning : .fapi2
        return .row(number, prefix + name, demand, clients: [client(profile)]) { environment in
            prepare(environment)
            change(environment)
            environment.emulator.fault = fault
            let client = try environment.client(registration: try registration(profile))
            switch outcome {
            case .accepted:
                let signIn = try await client.signIn()
                try ConformanceRow.require(
                    signIn.credential.identity?.subject == "248289761001",
                    "Alice must be signed in."
                )
                _ = try await client.userInfo()
                let visited = environment.emulator.receivedRequests.filter { $0.path == "/authorize" }
                try ConformanceRow.require(
                    visited.count == 1
                        && visited.allSatisfy { $0.query.names.sorted() == ["client_id", "request_uri"] },
                    "Only client_id and request_uri may go through the browser."
                )
            case .refused(let code, let last):
                do {
                    _ = try await client.signIn()
                } catch let error as AuthError {
                    let name = error.code.rawValue
                    try ConformanceRow.require(error.code == code, "The code must be \(code.rawValue), not \(name).")
                    let heard = environment.emulator.requests.last { $0 != "POST /revoke" } ?? "nothing"
                    try ConformanceRow.require(heard == last, "The last request must be \(last), not \(heard).")
                    return
                }
                try ConformanceRow.require(false, "The sign-in must be rejected.")
            }
        }
    }

    private static func row(
        _ number: String,
        _ name: String,
        _ demand: String,
        _ outcome: Outcome,
        _ variant: Variant
    ) -> ConformanceRow {
        row(number, name, demand, outcome, nil, variant)
    }

    private static func idToken(
        _ number: String,
        _ name: String,
        _ demand: String,
        _ fault: IDTokenFault
    ) -> ConformanceRow {
        row(number, name, demand, .refused(.invalidIDToken, last: "POST /token"), .idToken(fault))
    }

    private static func response(
        _ number: String,
        _ name: String,
        _ demand: String,
        _ fault: CallbackFault,
        _ code: AuthError.Code
    ) -> ConformanceRow {
        row(number, name, demand, .refused(code, last: "POST /consent"), .callback(fault))
    }

    private static func jarm(
        _ number: String,
        _ name: String,
        _ demand: String,
        _ fault: SignedResponseFault,
        last: String = "POST /consent"
    ) -> ConformanceRow {
        row(
            number,
            name,
            demand,
            .refused(.invalidCallback, last: last),
            .signedResponse(fault),
            .signing
        )
    }
}
