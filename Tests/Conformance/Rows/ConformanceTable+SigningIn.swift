import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting

extension OIDCEmulator.Client {
    /// A client with a secret that is long enough for HS256 and contains characters that must be percent-encoded.
    static let confidential = OIDCEmulator.Client(
        id: "client:+%1",
        secret: "a secret of 32 bytes: %+&=é, or more",
        authenticationMethod: "client_secret_basic"
    )
}

extension ClientRegistration.Values {
    /// Changes these values to the settings of the confidential client.
    mutating func becomeConfidential() {
        clientID = OIDCEmulator.Client.confidential.id
        authentication = .clientSecretBasic(Secret(OIDCEmulator.Client.confidential.secret ?? ""))
    }
}

extension ConformanceTable {
    static let basic = codeFlow(from: 1, prefix: "oidcc-client-test", mode: .query)

    static let formPost =
        codeFlow(from: 26, prefix: "oidcc-client-test", mode: .formPost) + [
            .row("40", "oidcc-client-test-form-post-error", "Report the posted error.") { environment in
                var settings = try EmulatorEnvironment.registration()
                settings.responseMode = .formPost
                settings.parameters[.authorization] = ["max_age": "0", "prompt": "none"]
                do {
                    _ = try await environment.client(registration: settings).signIn()
                } catch let error as AuthError {
                    try ConformanceRow.require(
                        error.providerError?.error == "login_required",
                        "The error must be reported."
                    )
                    try ConformanceRow.require(
                        !environment.emulator.requests.contains("POST /token"),
                        "No code may be exchanged."
                    )
                    return
                }
                throw ConformanceRow.Failure(description: "The sign-in must fail.")
            }
        ]

    /// Rows 1 to 14, in one response mode.
    private static func codeFlow(from first: Int, prefix: String, mode: ResponseMode) -> [ConformanceRow] {
        let client = OIDCEmulator.Client.confidential
        let settings: @Sendable (inout ClientRegistration.Values) throws -> Void = {
            $0.becomeConfidential()
            $0.responseMode = mode
        }
        func number(_ offset: Int) -> String { "\(first + offset - 1)" }
        func accepts(
            _ offset: Int,
            _ name: String,
            _ demand: String,
            _ fault: EmulatorFault? = nil
        ) -> ConformanceRow {
            .accepts(
                number(offset),
                prefix + name,
                demand,
                fault: fault,
                algorithm: .rs256,
                client: client,
                settings: settings
            )
        }
        func refuses(
            _ offset: Int,
            _ name: String,
            _ demand: String,
            _ fault: EmulatorFault,
            _ code: AuthError.Code = .invalidIDToken,
            last: String = "POST /token"
        ) -> ConformanceRow {
            .refuses(
                number(offset),
                prefix + name,
                demand,
                fault: fault,
                algorithm: .rs256,
                code: code,
                last: last,
                client: client,
                settings: settings
            )
        }
        return [
            accepts(1, "", "Sign in and call userinfo."),
            refuses(2, "-invalid-iss", "Reject an ID Token from another issuer.", .idToken(.wrongIssuer)),
            refuses(3, "-missing-sub", "Reject an ID Token without sub.", .idToken(.missingSubject)),
            refuses(4, "-invalid-aud", "Reject an ID Token for another client.", .idToken(.wrongAudience)),
            refuses(5, "-missing-iat", "Reject an ID Token without iat.", .idToken(.missingIssuedAt)),
            accepts(
                6,
                "-kid-absent-single-jwks",
                "Select the key by type; skip unusable keys.",
                .jwks(.withoutKeyIDs)
            ),
            accepts(
                7,
                "-kid-absent-multiple-jwks",
                "Try every key of the type (the test also permits rejection).",
                .jwks(.severalWithoutKeyIDs)
            ),
            accepts(8, "-idtoken-sig-rs256", "Accept RS256."),
            refuses(
                9,
                "-idtoken-sig-none",
                "Reject an unsigned ID Token (the test also permits accepting it).",
                .idToken(.unsigned)
            ),
            refuses(
                10,
                "-invalid-sig-rs256",
                "Reject an invalid signature.",
                .idToken(.badSignature),
                last: "GET /jwks"
            ),
            refuses(
                11,
                "-userinfo-invalid-sub",
                "Reject userinfo for a different subject.",
                .userInfo(.wrongSubject),
                .invalidUserInfo,
                last: "GET /userinfo"
            ),
            refuses(12, "-nonce-invalid", "Reject a wrong nonce.", .idToken(.wrongNonce)),
            .row(number(13), prefix + "-scope-userinfo-claims", "Request claims with scopes.", clients: [client]) {
                environment in
                var own = try EmulatorEnvironment.registration()
                try settings(&own)
                own.scopes = ["openid", "profile", "email", "address", "phone"]
                let client = try environment.client(registration: own)
                let identity = try await client.signIn().credential.identity
                try ConformanceRow.require(identity?.claims["email"] == "alice@example.com", "The email must match.")
                try ConformanceRow.require(identity?.claims["name"] == "Alice Example", "The name must match.")
                let asked = environment.emulator.receivedRequests.first { $0.path == "/authorize" }?.query["scope"]
                try ConformanceRow.require(
                    asked == "openid profile email address phone",
                    "The scopes must be requested."
                )
            },
            accepts(14, "-client-secret-basic", "Form-encode the client ID and the secret in the Basic header."),
        ]
    }

    static let configuration: [ConformanceRow] = [
        .row("15", "oidcc-client-test-discovery-openid-config", "Fetch the metadata document and use it.") {
            environment in
            try await ConformanceRow.signsIn(environment)
            let first = environment.emulator.requests.first
            try ConformanceRow.require(
                first == "GET /.well-known/openid-configuration",
                "Discovery must be the first request."
            )
        },
        .row("16", "oidcc-client-test-discovery-jwks-uri-keys", "Use the jwks_uri in the document.") { environment in
            environment.emulator.fault = .metadata(
                .member("jwks_uri", .string("\(environment.emulator.issuer)/jwks?run=81623"))
            )
            try await ConformanceRow.signsIn(environment)
            let fetched = environment.emulator.receivedRequests.first { $0.path == "/jwks" }?.query["run"]
            try ConformanceRow.require(fetched == "81623", "The keys must be fetched from that URL.")
        },
        .refuses(
            "17",
            "oidcc-client-test-discovery-issuer-mismatch",
            "Stop if the metadata contains a different issuer.",
            fault: .metadata(.wrongIssuer),
            code: .issuerMismatch,
            last: "GET /.well-known/openid-configuration"
        ),
        .row(
            "18",
            "oidcc-client-test-signing-key-rotation-just-before-signing",
            "Fetch the JWK Set again for an unknown key ID."
        ) { environment in
            let client = try environment.client()
            _ = try await client.signIn()
            environment.emulator.fault = .jwks(.rotateBeforeSigning)
            _ = try await client.signIn()
            let fetches = environment.emulator.requests.count { $0 == "GET /jwks" }
            try ConformanceRow.require(fetches == 2, "The keys must be fetched twice.")
        },
        .row(
            "19",
            "oidcc-client-test-signing-key-rotation",
            "Sign in twice, with a key rotation in between."
        ) { environment in
            environment.emulator.fault = .jwks(.rotateAtAuthorization)
            let client = try environment.client()
            for _ in 0..<2 { _ = try await client.signIn() }
            let requests = environment.emulator.requests
            try ConformanceRow.require(requests.count { $0 == "GET /jwks" } == 2, "The keys must be fetched twice.")
            try ConformanceRow.require(
                requests.count { $0 == "GET /userinfo" } == 2,
                "Userinfo must be requested twice."
            )
        },
    ]
}
