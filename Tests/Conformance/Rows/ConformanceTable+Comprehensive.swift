import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import HTTPTypes

extension ConformanceTable {
    static let comprehensive: [ConformanceRow] =
        [
            .refuses(
                "41",
                "oidcc-client-test-missing-aud",
                "Reject an ID Token without aud.",
                fault: .idToken(.missingAudience)
            ),
            .refuses(
                "42",
                "oidcc-client-test-invalid-sig-es256",
                "Reject an invalid ES256 signature.",
                fault: .idToken(.badSignature),
                last: "GET /jwks"
            ),
            .refuses(
                "43",
                "oidcc-client-test-invalid-sig-hs256",
                "Reject an invalid HS256 signature.",
                fault: .idToken(.badSignature),
                algorithm: .hs256,
                client: .confidential,
                settings: hmac
            ),
            .row("44", "oidcc-client-test-userinfo-bearer-header", "Send the access token in the header.") {
                environment in
                try await ConformanceRow.signsIn(environment)
                for request in environment.emulator.receivedRequests where request.path == "/userinfo" {
                    let field = request.request.headerFields[.authorization] ?? ""
                    try ConformanceRow.require(field.hasPrefix("Bearer "), "The header must contain the token.")
                    try ConformanceRow.require(request.query.pairs.isEmpty, "The query must be empty.")
                }
            },
            .notApplicable(
                "45",
                "oidcc-client-test-userinfo-bearer-body",
                "An alternative to row 44: the client sends the token in the header."
            ),
            .notApplicable("46", "oidcc-client-test-aggregated-claims", "Aggregated claims are passed on unchanged."),
            .notApplicable("47", "oidcc-client-test-distributed-claims", "Distributed claims are passed on unchanged."),
            certified(
                "48",
                "oidcc-client-test-mtls-endpoint-aliases",
                .tlsClientAuth,
                "Use only the mTLS endpoint aliases."
            ),
            .accepts("49", "client authentication: none", "Send no client authentication.", client: .init(id: "public"))
            {
                $0.clientID = "public"
            },
            .accepts(
                "50",
                "client authentication: client_secret_post",
                "Send the secret in the body.",
                client: .init(id: "a:b", secret: "p:s%+ &=é", authenticationMethod: "client_secret_post")
            ) {
                $0.clientID = "a:b"
                $0.authentication = .clientSecretPost(Secret("p:s%+ &=é"))
            },
            .accepts(
                "51",
                "client authentication: client_secret_jwt",
                "Send an assertion signed with the secret.",
                client: .init(
                    id: "jwt",
                    secret: "0123456789abcdef0123456789abcdef",
                    authenticationMethod: "client_secret_jwt",
                    redirectURIs: ["http://127.0.0.1/callback"]
                )
            ) {
                $0.clientID = "jwt"
                $0.authentication = .clientSecretJWT(Secret("0123456789abcdef0123456789abcdef"))
            },
            .accepts(
                "52",
                "client authentication: private_key_jwt",
                "Send an assertion signed with the private key.",
                client: keyClient
            ) {
                $0.clientID = "key"
                $0.authentication = .privateKeyJWT(SigningKeySource(try key.get()))
            },
            certified("53", "client authentication: tls_client_auth", .tlsClientAuth, "Present a certificate."),
            certified(
                "54",
                "client authentication: self_signed_tls_client_auth",
                .selfSignedTLSClientAuth,
                "Present a registered certificate."
            ),
            .row("55", "request object by value", "Send a signed request object.", clients: [keyClient]) {
                environment in
                try await ConformanceRow.signsIn(environment) {
                    $0.clientID = "key"
                    $0.authentication = .privateKeyJWT(SigningKeySource(try key.get()))
                    $0.requestObjectKey = SigningKeySource(try key.get())
                }
                let visited = environment.emulator.receivedRequests.first { $0.path == "/authorize" }
                try ConformanceRow.require(
                    visited?.query["request"] != nil,
                    "The request must contain a request object."
                )
            },
            .accepts("74", "rp-id_token-sig-es256", "Accept an ES256 signature."),
            .accepts(
                "75",
                "rp-id_token-sig-hs256",
                "Accept an HS256 signature made with the client secret.",
                algorithm: .hs256,
                client: .confidential,
                settings: hmac
            ),
        ] + encryptedIDTokens + [
            .row("78", "rp-claims_request-id_token", "Request ID Token claims, and validate essential claims.") {
                environment in
                let claims = #"{"id_token":{"acr":{"essential":true,"values":["gold"]}}}"#
                try await ConformanceRow.signsIn(environment) { $0.parameters[.authorization] = ["claims": claims] }
                let asked = environment.emulator.receivedRequests.first { $0.path == "/authorize" }?.query["claims"]
                try ConformanceRow.require(asked == claims, "The claims must be requested.")
                environment.emulator.fault = .idToken(.claim("acr", "silver"))
                try await ConformanceRow.requireError(.insufficientUserAuthentication) {
                    try await ConformanceRow.signsIn(environment) { $0.parameters[.authorization] = ["claims": claims] }
                }
            },
            .row("79", "rp-claims_request-userinfo", "Request userinfo claims.") { environment in
                let claims = #"{"userinfo":{"picture":null}}"#
                try await ConformanceRow.signsIn(environment) { $0.parameters[.authorization] = ["claims": claims] }
                let asked = environment.emulator.receivedRequests.first { $0.path == "/authorize" }?.query["claims"]
                try ConformanceRow.require(asked == claims, "The claims must be requested.")
            },
        ] + encryptedUserInfo

    static let life: [ConformanceRow] = [
        .row("56", "oidcc-client-test-refresh-token", "Refresh, and call userinfo with the new token.") { environment in
            let (client, first) = try await signedInForLong(environment)
            let second = try await client.refresh()
            try ConformanceRow.require(
                second.tokens.accessToken != first.tokens.accessToken,
                "The access token must change."
            )
            try ConformanceRow.require(
                second.tokens.refreshToken != first.tokens.refreshToken,
                "The refresh token must change."
            )
            let claims = try await client.userInfo()
            try ConformanceRow.require(
                claims["sub"] == "248289761001",
                "The UserInfo endpoint must accept the new token."
            )
            let asked = environment.emulator.receivedRequests.last { $0.path == "/token" }?.form["scope"]
            let granted = Set(first.tokens.scopes)
            let isWithin = asked.map { granted.isSuperset(of: $0.split(separator: " ").map(String.init)) } ?? true
            try ConformanceRow.require(isWithin, "The refresh may request only granted scopes.")
        },
        refusesRefresh("57", "oidcc-client-test-refresh-token-invalid-issuer", "Reject a wrong issuer.", .wrongIssuer),
        .row("58", "oidcc-client-test-refresh-token-invalid-sub", "Reject a wrong subject.") { environment in
            let (client, _) = try await signedInForLong(environment)
            environment.emulator.fault = .idToken(.wrongSubject)
            do {
                _ = try await client.refresh()
            } catch let error as AuthError where error.code == .loginRequired {
                let cause = error.underlyingError as? AuthError
                try ConformanceRow.require(cause?.code == .invalidIDToken, "The ID Token must be rejected: \(error)")
                // The refresh token in the response is the other user's.
                let kept = try await client.credential()
                try ConformanceRow.require(kept == nil, "The session must end.")
                return
            }
            throw ConformanceRow.Failure(description: "The ID Token must be rejected.")
        },
        .notApplicable(
            "59",
            "oidcc-client-test-3rd-party-init-login",
            "The initiate_login_uri is a page of the application, which starts the sign-in there with signIn()."
        ),
        .row("60", "oidcc-client-test-rp-init-logout", "Sign out at the provider and handle the redirect.") {
            environment in
            let (credential, signOut) = try await signsOut(environment, fault: nil)
            guard case .done = signOut.endSession else {
                throw ConformanceRow.Failure(description: "The session must end: \(signOut.endSession)")
            }
            let request = environment.emulator.receivedRequests.last { $0.path == "/end_session" }?.query
            let hint = credential.tokens.idToken?.exposed
            try ConformanceRow.require(request?["id_token_hint"] == hint, "The id_token_hint must be the ID Token.")
            let uri = request?["post_logout_redirect_uri"]
            try ConformanceRow.require(uri == "http://127.0.0.1:8400/callback", "The URI must be the registered one.")
        },
        .row("61", "oidcc-client-test-rp-init-logout-other-state", "Detect a wrong state in the redirect.") {
            environment in
            try await noticesTheReturn(environment, .wrongState)
        },
        .row("62", "oidcc-client-test-rp-init-logout-no-state", "Detect a missing state in the redirect.") {
            environment in
            try await noticesTheReturn(environment, .missingState)
        },
        .notApplicable(
            "63 to 70",
            "back-channel logout",
            "The provider sends a POST request, which cannot reach an app."
        ),
        .notApplicable(
            "71 to 73",
            "front-channel logout, session management",
            "Session management uses an iframe in a website. Front-channel logout is an option for servers."
        ),
    ]

    private static let hmac: @Sendable (inout ClientRegistration.Values) throws -> Void = {
        $0.becomeConfidential()
        $0.idTokenSigningAlgorithms = [.hs256]
    }

    /// A sign-in whose transport presents a certificate. `make interop` tests TLS itself, with Glewlwyd and nginx.
    private static func certified(
        _ number: String,
        _ name: String,
        _ method: ClientAuthentication.Method,
        _ demand: String
    ) -> ConformanceRow {
        let certificate: [UInt8] = [0x30, 0x82, 1, 2, 3]
        var client = OIDCEmulator.Client(id: "certified", authenticationMethod: method.rawValue)
        client.certificateThumbprint = try? CertificateBinding(certificate: certificate).thumbprint()
        let registered = client
        return .row(number, name, demand, clients: [registered]) { environment in
            environment.emulator.pushedRequests = .always
            var settings = try EmulatorEnvironment.registration()
            settings.clientID = registered.id
            settings.scopes.append("offline_access")
            settings.authentication = method == .tlsClientAuth ? .tlsClientAuth : .selfSignedTLSClientAuth
            settings.certificate = CertificateBinding(certificate: certificate)
            let client = try environment.client(
                registration: settings,
                transport: CertificateTransport(environment.transport, certificate: certificate)
            )
            _ = try await client.signIn()
            _ = try await client.userInfo()
            _ = try await client.refresh()
            let called = Set(environment.emulator.receivedRequests.map(\.path))
            for name in ["token", "par", "userinfo"] {
                try ConformanceRow.require(called.contains("/mtls/\(name)"), "The alias of \(name) must be used.")
                try ConformanceRow.require(!called.contains("/\(name)"), "\(name) itself must not be used.")
            }
            let without = try environment.client(registration: settings)
            do {
                _ = try await without.signIn()
            } catch let error as AuthError {
                return try ConformanceRow.require(
                    error.providerError?.error == "invalid_client",
                    "The provider must reject a client without the certificate."
                )
            }
            throw ConformanceRow.Failure(description: "The provider must reject a client without the certificate.")
        }
    }
    private static let key = Result { try PrivateKey(generatedFor: .es256) }
    private static let keyClient: OIDCEmulator.Client = {
        var client = OIDCEmulator.Client(id: "key", authenticationMethod: "private_key_jwt")
        client.jwks = ["keys": .array([(try? key.get())?.publicJWK ?? [:]])]
        return client
    }()

    private static func signsOut(_ environment: EmulatorEnvironment, fault: CallbackFault?) async throws -> (
        Credential, SignOut
    ) {
        var settings = try EmulatorEnvironment.registration()
        settings.postLogoutRedirectURI = settings.redirectURIs.first
        let client = try environment.client(registration: settings)
        let credential = try await client.signIn().credential
        environment.emulator.fault = fault.map { .callback($0) }
        let signOut = try await client.signOut(endingSession: true)
        try ConformanceRow.require(try await client.credential() == nil, "The credential must be deleted.")
        return (credential, signOut)
    }

    private static func noticesTheReturn(_ environment: EmulatorEnvironment, _ fault: CallbackFault) async throws {
        let (_, signOut) = try await signsOut(environment, fault: fault)
        guard case .failed(let error) = signOut.endSession, error.code == .invalidCallback else {
            throw ConformanceRow.Failure(description: "The sign-out must be reported as failed: \(signOut.endSession)")
        }
    }

    /// Signs in with `offline_access`, to obtain a refresh token.
    static func signedInForLong(_ environment: EmulatorEnvironment) async throws -> (AuthClient, Credential) {
        var settings = try EmulatorEnvironment.registration()
        settings.scopes.append("offline_access")
        let client = try environment.client(registration: settings)
        return (client, try await client.signIn().credential)
    }

    /// A row in which the client must reject a refreshed ID Token.
    static func refusesRefresh(
        _ number: String,
        _ name: String,
        _ demand: String,
        _ faults: IDTokenFault...
    ) -> ConformanceRow {
        .row(number, name, demand) { environment in
            for fault in faults {
                environment.emulator.fault = nil
                let (client, first) = try await signedInForLong(environment)
                environment.emulator.fault = .idToken(fault)
                do {
                    _ = try await client.refresh()
                } catch let error as AuthError {
                    try ConformanceRow.require(
                        error.code == .invalidIDToken,
                        "The error code must be invalidIDToken: \(error)"
                    )
                    let last = environment.emulator.requests.last
                    try ConformanceRow.require(last == "POST /token", "No further request may be sent.")
                    // From the rejected response, only the rotated refresh token is stored.
                    let kept = try await client.credential()?.tokens
                    try ConformanceRow.require(
                        kept?.accessToken == first.tokens.accessToken && kept?.idToken == first.tokens.idToken,
                        "The rejected tokens must not be stored."
                    )
                    continue
                }
                throw ConformanceRow.Failure(description: "The ID Token must be rejected.")
            }
        }
    }
}
