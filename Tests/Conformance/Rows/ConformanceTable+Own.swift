import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes

extension ConformanceTable {
    static let requests: [ConformanceRow] = [
        request("I1", "scope", "Request the openid scope.") { environment in
            try ConformanceRow.require(
                environment.authorization?["scope"]?.hasPrefix("openid") == true,
                "The openid scope must be requested."
            )
        },
        request("I2", "redirect_uri", "Send the registered redirect URI.") { environment in
            let uri = environment.authorization?["redirect_uri"]
            try ConformanceRow.require(
                uri == "http://127.0.0.1:8400/callback",
                "The redirect URI must be the registered URI."
            )
        },
        request("I3", "redirect_uri at the token endpoint", "Repeat the authorization request's value.") {
            environment in
            let uri = environment.tokenRequest?["redirect_uri"]
            try ConformanceRow.require(uri == environment.authorization?["redirect_uri"], "The values must match.")
        },
        request("I4", "client_id at the token endpoint", "Repeat the authorization request's value.") { environment in
            try ConformanceRow.require(
                environment.tokenRequest?["client_id"] == "authflow-demo",
                "The values must match."
            )
        },
        .row("I5", "client authentication", "Use only one method.", clients: [.confidential]) { environment in
            try await ConformanceRow.signsIn(environment) { $0.becomeConfidential() }
            let request = environment.emulator.receivedRequests.first { $0.path == "/token" }
            try ConformanceRow.require(request?.request.headerFields[.authorization] != nil, "The header must be used.")
            let repeated = ["client_id", "client_secret", "client_assertion"].contains { request?.form[$0] != nil }
            try ConformanceRow.require(!repeated, "The body must not be used.")
        },
        .row("I6", "PKCE", "Use S256 with a new 256-bit verifier each time.") { environment in
            for _ in 0..<2 { try await ConformanceRow.signsIn(environment) }
            let requests = environment.emulator.receivedRequests
            let methods = requests.filter { $0.path == "/authorize" }.map { $0.query["code_challenge_method"] }
            try ConformanceRow.require(methods == ["S256", "S256"], "The method must be S256.")
            let verifiers = requests.filter { $0.path == "/token" }.compactMap { $0.form["code_verifier"] }
            try ConformanceRow.require(Set(verifiers).count == 2, "Each verifier must be new.")
            try ConformanceRow.require(verifiers.allSatisfy { $0.utf8.count == 43 }, "Verifiers must have 256 bits.")
        },
        request("I7", "access token", "Send it only in the Authorization header.") { environment in
            let users = environment.emulator.receivedRequests.filter { $0.request.headerFields[.authorization] != nil }
            try ConformanceRow.require(!users.isEmpty, "The access token must be used.")
            let isElsewhere = environment.emulator.receivedRequests.contains {
                $0.query["access_token"] != nil || $0.form["access_token"] != nil
            }
            try ConformanceRow.require(!isElsewhere, "The access token must be sent only in the header.")
        },
        bound("I11", "DPoP proofs", "Create a new proof for each request, with ath only for resources.") {
            environment in
            environment.emulator.dpop = .requiredWithNonce
        },
    ]

    static let own: [ConformanceRow] = [
        .refuses("O1", "azp of another client", "Reject the ID Token.", fault: .idToken(.wrongAuthorizedParty)),
        .refuses("O2", "exp is now", "Reject it.", fault: .idToken(.expired(secondsAgo: 0))) { $0.clockLeeway = .zero },
        .refuses("O3", "wrong at_hash", "Reject the ID Token.", fault: .idToken(.wrongAccessTokenHash)),
        .row("O4", "repeated code, state or iss", "Reject the response.") { environment in
            for fault in [CallbackFault.repeatedCode, .repeatedState, .repeatedIss] {
                environment.emulator.fault = .callback(fault)
                try await refused(environment, .invalidCallback)
                let last = environment.emulator.requests.last { $0 != "POST /revoke" }
                try ConformanceRow.require(last == "POST /consent", "No further request may be sent.")
            }
        },
        .refuses("O5", "crit in the header", "Reject the ID Token.", fault: .idToken(.criticalHeader)),
        .row("O6", "a nonce that was not sent", "Reject the ID Token.") { environment in
            // Without the openid scope, no nonce is sent and no ID Token is expected. If the provider returns
            // an ID Token anyway, it must not contain a nonce.
            environment.emulator.fault = .tokenResponse(
                .member("id_token", .string(try unexpectedIDToken(environment.emulator.issuer)))
            )
            var settings = try EmulatorEnvironment.registration()
            settings.scopes = ["profile"]
            try await refused(environment, .invalidIDToken, settings)
        },
        .accepts("O7", "keys with the same ID", "Select keys by type, and try each.", fault: .jwks(.decoys)),
        .accepts("O8", "keys that cannot be parsed", "Skip them.", fault: .jwks(.unreadableKeys)),
        .accepts("O9", "encryption keys and unknown curves", "Skip them.", fault: .jwks(.withoutKeyIDs)),
        .row("O10", "oversized responses", "Reject them.") { environment in
            for fault in [
                EmulatorFault.jwks(.oversized), .tokenResponse(.oversized), .userInfo(.oversized),
            ] {
                environment.emulator.fault = fault
                try await refused(environment, .invalidResponse)
            }
            environment.emulator.fault = .metadata(.oversized)
            try await refused(environment, .discoveryFailed)
        },
        .row("O11", "redirects of back-channel requests", "Do not follow them.") { environment in
            let faults: [EmulatorFault] = [.jwks(.redirected), .tokenResponse(.redirected), .userInfo(.redirected)]
            for fault in faults {
                environment.emulator.fault = fault
                try await refused(environment, .invalidResponse)
            }
            environment.emulator.fault = .metadata(.redirected)
            try await refused(environment, .discoveryFailed)
        },
        .row("O12", "many unknown key IDs", "Fetch the keys at most twice.") { environment in
            environment.emulator.fault = .idToken(.unknownKeyID)
            let client = try environment.client()
            for _ in 0..<4 {
                do {
                    _ = try await client.signIn()
                    throw ConformanceRow.Failure(description: "The ID Token must be rejected.")
                } catch is AuthError {}
            }
            let fetches = environment.emulator.requests.count { $0 == "GET /jwks" }
            try ConformanceRow.require(fetches <= 2, "The keys may be fetched twice, not \(fetches) times.")
        },
        refusesRefresh(
            "O13",
            "refreshed ID Token with a different aud",
            "Reject the ID Token.",
            .wrongAudience,
            .secondAudience
        ),
        .row("O14", "auth_time and max_age", "Reject an authentication that is too old.") { environment in
            var settings = try EmulatorEnvironment.registration()
            settings.parameters[.authorization] = ["max_age": "60"]
            try await ConformanceRow.signsIn(environment) { [settings] in $0 = settings }
            for fault in [IDTokenFault.authenticatedAnHourAgo, .missingAuthenticationTime] {
                environment.emulator.fault = .idToken(fault)
                try await refused(environment, .insufficientUserAuthentication, settings)
            }
        },
        .row(
            "O15",
            "HS256 with the public key as the secret",
            "Reject the ID Token, even if the client allows HS256.",
            clients: [.confidential]
        ) { environment in
            environment.emulator.signingAlgorithm = .rs256
            environment.emulator.fault = .idToken(.publicKeyAsSecret)
            var settings = try EmulatorEnvironment.registration()
            settings.becomeConfidential()
            try await refused(environment, .invalidIDToken, settings)
            settings.idTokenSigningAlgorithms = [.rs256, .hs256]
            try await refused(environment, .invalidIDToken, settings)
        },
    ]

    /// A row about the requests of a sign-in.
    private static func request(
        _ number: String,
        _ name: String,
        _ demand: String,
        _ check: @escaping @Sendable (EmulatorEnvironment) throws -> Void
    ) -> ConformanceRow {
        .row(number, name, demand) { environment in
            try await ConformanceRow.signsIn(environment)
            try check(environment)
        }
    }

    private static func refused(
        _ environment: EmulatorEnvironment,
        _ code: AuthError.Code,
        _ settings: ClientRegistration.Values? = nil
    )
        async throws
    {
        do {
            _ = try await environment.client(registration: settings).signIn()
        } catch let error as AuthError {
            return try ConformanceRow.require(error.code == code, "The code must be \(code.rawValue): \(error)")
        }
        throw ConformanceRow.Failure(description: "The sign-in must be rejected.")
    }

    /// An ID Token with a nonce that was not sent. Its claims are rejected before its signature is verified.
    private static func unexpectedIDToken(_ issuer: String) throws -> String {
        let keys = try EmulatorKeys()
        let now = Int64(HostServices.system.now().timeIntervalSince1970)
        let claims: JSON = [
            "iss": .string(issuer), "sub": "248289761001", "aud": "authflow-demo", "exp": .integer(now + 300),
            "iat": .integer(now), "nonce": "unexpected",
        ]
        return try keys.sign(claims, header: ["alg": "ES256"], with: .es256)
    }
}

extension EmulatorEnvironment {
    /// The parameters of the last authorization request.
    fileprivate var authorization: FormParameters? {
        emulator.receivedRequests.last { $0.path == "/authorize" }?.query
    }

    /// The parameters of the last token request.
    fileprivate var tokenRequest: FormParameters? {
        emulator.receivedRequests.last { $0.path == "/token" }?.form
    }
}
