import AuthFlow
import AuthFlowJSON
import AuthFlowTesting

extension ConformanceTable {
    private static let prefix = "fapi2-security-profile-final-client-test-"

    static let fapi: [ConformanceRow] =
        [
            bound("87", prefix + "happy-path", "Sign in and call a resource with DPoP nonces.") { environment in
                environment.emulator.dpop = .requiredWithNonce
                environment.emulator.resourceRequiresNonce = true
            },
            .refuses(
                "88",
                prefix + "discovery-issuer-mismatch",
                "Stop if the metadata contains a different issuer.",
                fault: .metadata(.wrongIssuer),
                code: .issuerMismatch,
                last: "GET /.well-known/openid-configuration"
            ),
            .refuses("89", prefix + "invalid-iss", "Reject a wrong issuer.", fault: .idToken(.wrongIssuer)),
            .refuses("90", prefix + "invalid-aud", "Reject a wrong audience.", fault: .idToken(.wrongAudience)),
            .refuses(
                "91",
                prefix + "invalid-secondary-aud",
                "Reject an additional audience that is not trusted.",
                fault: .idToken(.secondAudience)
            ),
            .refuses("92", prefix + "invalid-null-alg", "Reject an unsigned ID Token.", fault: .idToken(.unsigned)),
            .refuses(
                "93",
                prefix + "invalid-alternate-alg",
                "Reject a valid signature made with an algorithm that is not registered for the client.",
                fault: .idToken(.signed(with: .rs256))
            ) { $0.idTokenSigningAlgorithms = [.ps256, .es256] },
            .refuses(
                "94",
                prefix + "invalid-expired-exp",
                "Reject an ID Token that expired six minutes ago.",
                fault: .idToken(.expired(secondsAgo: 360))
            ),
            .refuses("95", prefix + "invalid-missing-exp", "Reject a missing exp.", fault: .idToken(.missingExpiry)),
            .refuses("96", prefix + "invalid-missing-aud", "Reject a missing aud.", fault: .idToken(.missingAudience)),
            .refuses("97", prefix + "invalid-missing-iss", "Reject a missing iss.", fault: .idToken(.missingIssuer)),
            .accepts("98", prefix + "valid-aud-as-array", "Accept aud as an array.", fault: .idToken(.audienceAsArray)),
            .refuses("99", prefix + "invalid-nonce", "Reject a wrong nonce.", fault: .idToken(.wrongNonce)),
            .refuses(
                "100",
                prefix + "invalid-missing-nonce",
                "Reject a missing nonce.",
                fault: .idToken(.missingNonce)
            ),
            refusesAnswer(
                "101",
                "invalid-authorization-response-iss",
                "Reject an authorization response from another issuer.",
                .wrongIss,
                .issuerMismatch
            ),
            refusesAnswer(
                "102",
                "remove-authorization-response-iss",
                "Reject an authorization response without iss.",
                .missingIss,
                .issuerMismatch
            ),
            refusesAnswer(
                "103",
                "ensure-authorization-response-with-invalid-state-fails",
                "Reject an authorization response with a wrong state.",
                .wrongState,
                .invalidCallback
            ),
            refusesAnswer(
                "104",
                "ensure-authorization-response-with-invalid-missing-state-fails",
                "Reject an authorization response without a state.",
                .missingState,
                .invalidCallback
            ),
            .accepts(
                "105",
                prefix + "token-endpoint-response-without-expires_in",
                "Accept a token response without expires_in.",
                fault: .tokenResponse(.missingExpiry)
            ),
            .accepts(
                "106",
                prefix + "token-type-case-insensitivity",
                "Compare token_type case-insensitively.",
                fault: .tokenResponse(.oddlyCasedTokenType)
            ),
            bound("106b", prefix + "token-type-case-insensitivity", "Ignore the case of the type DPoP.") {
                environment in
                environment.emulator.dpop = .required
                environment.emulator.fault = .tokenResponse(.member("token_type", "dpOp"))
            },
            bound(
                "107",
                prefix + "rs-dpop-auth-scheme-case-insensitivity",
                "Use the nonce from a challenge whose scheme is spelled dPoP."
            ) { environment in
                environment.emulator.dpop = .required
                environment.emulator.resourceRequiresNonce = true
            },
            bound("108", prefix + "happy-path-no-dpop-nonce", "Sign in and call a resource without DPoP nonces.") {
                environment in
                environment.emulator.dpop = .required
            },
            .row(
                "109",
                "fapi2-security-profile-final-client-refresh-token-test",
                "Refresh with the latest refresh token whenever the resource rejects the access token."
            ) { environment in
                environment.emulator.dpop = .requiredWithNonce
                var settings = try boundSettings()
                settings.scopes.append("offline_access")
                let client = try environment.client(registration: settings)
                var tokens = [try await client.signIn().credential.tokens.refreshToken]
                for _ in 0..<2 {
                    environment.emulator.revokeAccessTokens()
                    _ = try await client.userInfo()
                    tokens.append(try await client.freshTokens().refreshToken)
                }
                try ConformanceRow.require(Set(tokens).count == 3, "Each refresh must return a new refresh token.")
            },
            .notApplicable("110", "invalid-openbanking-intent-id", "Specific to Open Banking in the United Kingdom."),
            .refuses("120", "iat one week ago", "Reject the ID Token.", fault: .idToken(.issuedLongAgo)),
            .accepts("121", "at_hash absent", "Accept the ID Token.", fault: .idToken(.claim("at_hash", nil))),
            .accepts(
                "122",
                "scope absent from the token response",
                "Assume the requested scopes.",
                fault: .tokenResponse(.missingScope)
            ),
        ] + encryptedFAPI + [
            .refuses("125", "invalid signature", "Reject it.", fault: .idToken(.badSignature), last: "GET /jwks")
        ]

    /// The settings of a client with DPoP-bound tokens.
    static func boundSettings() throws -> ClientRegistration.Values {
        var settings = try EmulatorEnvironment.registration()
        settings.usesDPoP = true
        return settings
    }

    /// A row with DPoP-bound tokens, at a provider that checks every proof (row I11).
    static func bound(
        _ number: String,
        _ name: String,
        _ demand: String,
        _ prepare: @escaping @Sendable (EmulatorEnvironment) -> Void
    ) -> ConformanceRow {
        .row(number, name, demand) { environment in
            prepare(environment)
            try await ConformanceRow.signsIn(environment) { $0 = try boundSettings() }
        }
    }

    private static func refusesAnswer(
        _ number: String,
        _ name: String,
        _ demand: String,
        _ fault: CallbackFault,
        _ code: AuthError.Code
    ) -> ConformanceRow {
        .refuses(number, prefix + name, demand, fault: .callback(fault), code: code, last: "POST /consent")
    }
}
