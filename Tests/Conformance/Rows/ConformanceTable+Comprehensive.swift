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
                "Refuse an ID Token without aud.",
                fault: .idToken(.missingAudience)
            ),
            .refuses(
                "42",
                "oidcc-client-test-invalid-sig-es256",
                "Refuse a wrong ES256 signature.",
                fault: .idToken(.badSignature),
                last: "GET /jwks"
            ),
            .refuses(
                "43",
                "oidcc-client-test-invalid-sig-hs256",
                "Refuse a wrong HS256 signature.",
                fault: .idToken(.badSignature),
                algorithm: .hs256,
                client: .confidential,
                settings: hmac
            ),
            .row("44", "oidcc-client-test-userinfo-bearer-header", "Send the access token in the header.") { scene in
                try await ConformanceRow.signsIn(scene)
                for request in scene.emulator.receivedRequests where request.path == "/userinfo" {
                    let field = request.request.headerFields[.authorization] ?? ""
                    try ConformanceRow.require(field.hasPrefix("Bearer "), "The header carries it.")
                    try ConformanceRow.require(request.query.pairs.isEmpty, "The query carries nothing.")
                }
            },
            .notApplicable("45", "oidcc-client-test-userinfo-bearer-body", "The alternative to 44, which is used."),
            .notApplicable("46", "oidcc-client-test-aggregated-claims", "Aggregated claims are passed on unchanged."),
            .notApplicable("47", "oidcc-client-test-distributed-claims", "Distributed claims are passed on unchanged."),
            certified(
                "48",
                "oidcc-client-test-mtls-endpoint-aliases",
                .tlsClientAuth,
                "Use the aliases, and no others."
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
            certified("53", "client authentication: tls_client_auth", .tlsClientAuth, "Authenticate by a certificate."),
            certified(
                "54",
                "client authentication: self_signed_tls_client_auth",
                .selfSignedTLSClientAuth,
                "Authenticate by a registered certificate."
            ),
            .row("55", "request object by value", "Sign the request.", clients: [keyClient]) { scene in
                try await ConformanceRow.signsIn(scene) {
                    $0.clientID = "key"
                    $0.authentication = .privateKeyJWT(SigningKeySource(try key.get()))
                    $0.requestObjectKey = SigningKeySource(try key.get())
                }
                let visited = scene.emulator.receivedRequests.first { $0.path == "/authorize" }
                try ConformanceRow.require(visited?.query["request"] != nil, "The request is signed.")
            },
            .accepts("74", "rp-id_token-sig-es256", "Accept ES256."),
            .accepts(
                "75",
                "rp-id_token-sig-hs256",
                "Accept HS256 made with the client secret.",
                algorithm: .hs256,
                client: .confidential,
                settings: hmac
            ),
        ] + encryptedIDTokens + [
            .row("78", "rp-claims_request-id_token", "Request claims of the ID Token, and check essential ones.") {
                scene in
                let claims = #"{"id_token":{"acr":{"essential":true,"values":["gold"]}}}"#
                try await ConformanceRow.signsIn(scene) { $0.parameters[.authorization] = ["claims": claims] }
            },
            .row("79", "rp-claims_request-userinfo", "Request claims of userinfo.") { scene in
                let claims = #"{"userinfo":{"picture":null}}"#
                try await ConformanceRow.signsIn(scene) { $0.parameters[.authorization] = ["claims": claims] }
                let asked = scene.emulator.receivedRequests.first { $0.path == "/authorize" }?.query["claims"]
                try ConformanceRow.require(asked == claims, "The claims are requested.")
            },
        ] + encryptedUserInfo

    static let life: [ConformanceRow] = [
        .row("56", "oidcc-client-test-refresh-token", "Refresh, and call userinfo with the new token.") { scene in
            let (client, first) = try await signedInForLong(scene)
            let second = try await client.refresh()
            try ConformanceRow.require(second.tokens.accessToken != first.tokens.accessToken, "The token is new.")
            try ConformanceRow.require(second.tokens.refreshToken != first.tokens.refreshToken, "Both tokens are new.")
            let claims = try await client.userInfo()
            try ConformanceRow.require(claims["sub"] == "248289761001", "Userinfo accepts the new token.")
            let asked = scene.emulator.receivedRequests.last { $0.path == "/token" }?.form["scope"]
            let granted = Set(first.tokens.scopes)
            let isWithin = asked.map { granted.isSuperset(of: $0.split(separator: " ").map(String.init)) } ?? true
            try ConformanceRow.require(isWithin, "No more scopes are requested than were granted.")
        },
        refusesRefresh("57", "oidcc-client-test-refresh-token-invalid-issuer", "Refuse another issuer.", .wrongIssuer),
        refusesRefresh("58", "oidcc-client-test-refresh-token-invalid-sub", "Refuse another subject.", .wrongSubject),
        .notApplicable(
            "59",
            "oidcc-client-test-3rd-party-init-login",
            "An initiate_login_uri is a page of a website; an app that has one calls signIn() there."
        ),
        .row("60", "oidcc-client-test-rp-init-logout", "Sign out at the provider and handle the redirect.") { scene in
            let (credential, signOut) = try await signsOut(scene, fault: nil)
            guard case .done = signOut.endSession else {
                throw ConformanceRow.Failure(description: "The session has ended: \(signOut.endSession)")
            }
            let request = scene.emulator.receivedRequests.last { $0.path == "/end_session" }?.query
            let hint = credential.tokens.idToken?.exposed
            try ConformanceRow.require(request?["id_token_hint"] == hint, "The hint is the ID Token.")
            let uri = request?["post_logout_redirect_uri"]
            try ConformanceRow.require(uri == "http://127.0.0.1:8400/callback", "The URI is the registered one.")
        },
        .row("61", "oidcc-client-test-rp-init-logout-other-state", "Detect another state in the redirect.") { scene in
            try await noticesTheReturn(scene, .wrongState)
        },
        .row("62", "oidcc-client-test-rp-init-logout-no-state", "Detect a redirect without a state.") { scene in
            try await noticesTheReturn(scene, .missingState)
        },
        .notApplicable("63 to 70", "back-channel logout", "The provider calls a website; apps cannot be called."),
        .notApplicable(
            "71 to 73",
            "front-channel logout, session management",
            "Session management is a frame in a website's pages. A server can have front-channel logout as an option."
        ),
    ]

    private static let hmac: @Sendable (inout ClientRegistration.Values) throws -> Void = {
        $0.becomeConfidential()
        $0.idTokenSigningAlgorithms = [.hs256]
    }

    /// A sign-in whose transport shows a certificate. TLS itself is tried with Glewlwyd and nginx in `make interop`.
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
        return .row(number, name, demand, clients: [registered]) { scene in
            scene.emulator.pushedRequests = .always
            var settings = try EmulatorScene.registration()
            settings.clientID = registered.id
            settings.scopes.append("offline_access")
            settings.authentication = method == .tlsClientAuth ? .tlsClientAuth : .selfSignedTLSClientAuth
            settings.certificate = CertificateBinding(certificate: certificate)
            let client = try scene.client(
                registration: settings,
                transport: CertificateTransport(scene.transport, certificate: certificate)
            )
            _ = try await client.signIn()
            _ = try await client.userInfo()
            _ = try await client.refresh()
            let called = Set(scene.emulator.receivedRequests.map(\.path))
            for name in ["token", "par", "userinfo"] {
                try ConformanceRow.require(called.contains("/mtls/\(name)"), "The alias of \(name) is used.")
                try ConformanceRow.require(!called.contains("/\(name)"), "\(name) itself is not used.")
            }
            let without = try scene.client(registration: settings)
            do {
                _ = try await without.signIn()
            } catch let error as AuthError {
                return try ConformanceRow.require(
                    error.providerError?.error == "invalid_client",
                    "Without the certificate the provider refuses."
                )
            }
            throw ConformanceRow.Failure(description: "Without the certificate the provider refuses.")
        }
    }
    private static let key = Result { try PrivateKey(generatedFor: .es256) }
    private static let keyClient: OIDCEmulator.Client = {
        var client = OIDCEmulator.Client(id: "key", authenticationMethod: "private_key_jwt")
        client.jwks = ["keys": .array([(try? key.get())?.publicJWK ?? [:]])]
        return client
    }()

    private static func signsOut(_ scene: EmulatorScene, fault: CallbackFault?) async throws -> (Credential, SignOut) {
        var settings = try EmulatorScene.registration()
        settings.postLogoutRedirectURI = settings.redirectURIs.first
        let client = try scene.client(registration: settings)
        let credential = try await client.signIn().credential
        scene.emulator.fault = fault.map { .callback($0) }
        let signOut = try await client.signOut(endingSession: true)
        try ConformanceRow.require(try await client.credential() == nil, "The credential is deleted.")
        return (credential, signOut)
    }

    private static func noticesTheReturn(_ scene: EmulatorScene, _ fault: CallbackFault) async throws {
        let (_, signOut) = try await signsOut(scene, fault: fault)
        guard case .failed(let error) = signOut.endSession, error.code == .invalidCallback else {
            throw ConformanceRow.Failure(description: "The end is reported as not confirmed: \(signOut.endSession)")
        }
    }

    /// Signs in with `offline_access`, to obtain a refresh token.
    static func signedInForLong(_ scene: EmulatorScene) async throws -> (AuthClient, Credential) {
        var settings = try EmulatorScene.registration()
        settings.scopes.append("offline_access")
        let client = try scene.client(registration: settings)
        return (client, try await client.signIn().credential)
    }

    /// A row in which the ID Token of a refresh must be rejected.
    static func refusesRefresh(
        _ number: String,
        _ name: String,
        _ demand: String,
        _ faults: IDTokenFault...
    ) -> ConformanceRow {
        .row(number, name, demand) { scene in
            for fault in faults {
                scene.emulator.fault = nil
                let (client, first) = try await signedInForLong(scene)
                scene.emulator.fault = .idToken(fault)
                do {
                    _ = try await client.refresh()
                } catch let error as AuthError {
                    try ConformanceRow.require(error.code == .invalidIDToken, "It is refused as expected: \(error)")
                    let last = scene.emulator.requests.last
                    try ConformanceRow.require(last == "POST /token", "No further request is sent.")
                    // The provider has rotated the refresh token; nothing else of the rejected response is stored.
                    let kept = try await client.credential()?.tokens
                    try ConformanceRow.require(
                        kept?.accessToken == first.tokens.accessToken && kept?.idToken == first.tokens.idToken,
                        "Nothing that was refused is stored."
                    )
                    continue
                }
                throw ConformanceRow.Failure(description: "It is refused.")
            }
        }
    }
}
