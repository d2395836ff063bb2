import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Clients that authenticate with a signed assertion (RFC 7523).
@Suite struct ClientAssertionTests {
    static let keys: [SignatureAlgorithm: PrivateKey] = Dictionary(
        uniqueKeysWithValues: [SignatureAlgorithm.es256, .es384, .ps256, .edDSA].compactMap { algorithm in
            (try? PrivateKey(generatedFor: algorithm)).map { (algorithm, $0) }
        }
    )

    static func client(_ key: PrivateKey, method: String = "private_key_jwt") -> OIDCEmulator.Client {
        var client = OIDCEmulator.Client(id: "machine", authenticationMethod: method)
        client.jwks = ["keys": [key.publicJWK]]
        return client
    }

    private func registration(_ authentication: ClientAuthentication) throws -> ClientRegistration.Values {
        var values = ClientRegistration.Values(clientID: "machine")
        values.redirectURIs = ["http://127.0.0.1:8400/callback"]
        values.scopes = ["openid", "profile", "offline_access"]
        values.authentication = authentication
        return values
    }

    /// The claims of the assertions that the provider has received.
    private func assertions(_ environment: EmulatorEnvironment) -> [JSON] {
        environment.emulator.receivedRequests.compactMap { $0.form["client_assertion"] }.compactMap { text in
            text.split(separator: ".").dropFirst().first.flatMap { Base64URL.decode($0) }.flatMap {
                try? JSON(parsing: $0)
            }
        }
    }

    /// Microsoft Entra identifies the key by its certificate, and ignores `kid`.
    @Test func theClientAssertionHeaderContainsTheCertificateThumbprint() async throws {
        let key = try #require(Self.keys[.ps256])
        let certificate = CertificateBinding(certificate: Array("certificate".utf8))
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.client(key)]) { environment in
            let values = try registration(.privateKeyJWT(SigningKeySource(key), certificate: certificate))
            _ = try await environment.client(registration: values).signIn()
            let assertion = try #require(
                environment.emulator.receivedRequests.compactMap { $0.form["client_assertion"] }.first
            )
            let header = try JSON(parsing: try #require(Base64URL.decode(assertion.prefix { $0 != "." })))
            #expect(header["x5t#S256"]?.string == (try certificate.thumbprint()))
        }
    }

    @Test(arguments: [SignatureAlgorithm.es256, .es384, .ps256, .edDSA, .rs256])
    func signsInAndRefreshesWithPrivateKeyJWT(_ algorithm: SignatureAlgorithm) async throws {
        let key = try #require(Self.keys[algorithm == .rs256 ? .ps256 : algorithm])
        // A key that specifies an algorithm is used only with that algorithm.
        let signing = algorithm == .rs256 ? try PrivateKey(pem: key.pem) : key
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.client(signing)]) { environment in
            let values = try registration(.privateKeyJWT(SigningKeySource(signing), algorithm: algorithm))
            let client = try environment.client(registration: values)
            _ = try await client.signIn()
            _ = try await client.refresh()
            _ = try await client.signOut()
            let assertions = assertions(environment)
            #expect(assertions.count >= 3)
            #expect(Set(assertions.compactMap { $0["jti"]?.string }).count == assertions.count)
            for claims in assertions {
                // FAPI 2.0 section 5.3.3.1: the audience is the issuer, as a string.
                #expect(claims["aud"]?.string == environment.emulator.issuer)
                #expect(claims["iss"] == "machine" && claims["sub"] == "machine")
                let lifetime = (claims["exp"]?.number ?? 0) - (claims["iat"]?.number ?? 0)
                #expect(lifetime == 65 && claims["nbf"]?.integer == claims["iat"]?.integer.map { $0 - 25 })
            }
        }
    }

    @Test(arguments: ClientAuthentication.Audience.allCases)
    func sendsTheClientAssertionWithTheConfiguredAudience(_ audience: ClientAuthentication.Audience) async throws {
        let key = try #require(Self.keys[.es256])
        var registered = Self.client(key)
        registered.assertionAudiences = [audience]
        try await EmulatorEnvironment.with(.inProcess, clients: [registered]) { environment in
            for tried in ClientAuthentication.Audience.allCases {
                let values = try registration(.privateKeyJWT(SigningKeySource(key), audience: tried))
                let client = try environment.client(registration: values)
                // At the token endpoint, the last two audiences are identical.
                let isAccepted = tried == audience || (tried != .issuer && audience != .issuer)
                if isAccepted {
                    _ = try await client.signIn()
                } else {
                    let error = await #expect(throws: AuthError.self) { try await client.signIn() }
                    #expect(error?.providerError?.error == "invalid_client")
                }
            }
        }
    }

    @Test(arguments: [SignatureAlgorithm.hs256, .hs384, .hs512])
    func clientSecretJWTSignsInWithoutSendingTheSecret(_ algorithm: SignatureAlgorithm) async throws {
        let secret = String(repeating: "s", count: 64)
        let registered = OIDCEmulator.Client(id: "machine", secret: secret, authenticationMethod: "client_secret_jwt")
        try await EmulatorEnvironment.with(.inProcess, clients: [registered]) { environment in
            let values = try registration(.clientSecretJWT(Secret(secret), algorithm: algorithm))
            _ = try await environment.client(registration: values).signIn()
            // The secret itself is never sent.
            #expect(!environment.emulator.receivedRequests.contains { "\($0.form.pairs)".contains(secret) })
            let wrong = try registration(.clientSecretJWT(Secret(secret + "s"), algorithm: algorithm))
            let client = try environment.client(registration: wrong)
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.providerError?.error == "invalid_client")
            let advice = #"see "client_secret" and "client_assertion_audience"."#
            #expect(error?.message.contains(advice) == true, "\(error as Any)")
        }
        expectError(.invalidConfiguration) {
            try ClientRegistration(registration(.clientSecretJWT(Secret("short"), algorithm: algorithm)))
        }
    }

    @Test(arguments: [SignatureAlgorithm.es256, .rs256, .edDSA])
    func clientSecretJWTRequiresAnHMACAlgorithm(_ algorithm: SignatureAlgorithm) {
        let secret = Secret(String(repeating: "s", count: 64))
        let error = #expect(throws: AuthError.self) {
            try ClientRegistration(registration(.clientSecretJWT(secret, algorithm: algorithm)))
        }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains("HS256, HS384 or HS512") == true, "\(error as Any)")
    }

    @Test func aRetryUsesANewClientAssertion() async throws {
        let key = try #require(Self.keys[.es256])
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.client(key)]) { environment in
            environment.emulator.dpop = .requiredWithNonce
            var values = try registration(.privateKeyJWT(SigningKeySource(key)))
            values.usesDPoP = true
            let client = try environment.client(registration: values)
            #expect(try await client.signIn().credential.tokens.tokenType == "DPoP")
            // The first attempt has no nonce. The retry needs a new assertion, because the server rejects a reused
            // assertion.
            let identifiers = assertions(environment).compactMap { $0["jti"]?.string }
            #expect(identifiers.count == 2 && Set(identifiers).count == 2)
        }
    }

    @Test func anUnregisteredClientKeyIsReportedAsInvalidClient() async throws {
        let registered = try #require(Self.keys[.es256])
        let other = try PrivateKey(generatedFor: .es256)
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.client(registered)]) { environment in
            let values = try registration(.privateKeyJWT(SigningKeySource(other)))
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(registration: values).signIn()
            }
            #expect(error?.code == .providerRejected)
            #expect(error?.providerError?.error == "invalid_client")
        }
    }

    @Test func doesNotSignClientAssertionsWithAnUnadvertisedAlgorithm() async throws {
        let key = try #require(Self.keys[.es384])
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.client(key)]) { environment in
            environment.emulator.fault = .metadata(
                .member("token_endpoint_auth_signing_alg_values_supported", ["PS256"])
            )
            let values = try registration(.privateKeyJWT(SigningKeySource(key)))
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(registration: values).signIn()
            }
            #expect(error?.code == .unsupported && error?.message.contains("PS256") == true)
            #expect(!environment.emulator.requests.contains("POST /token"))
        }
    }

    /// RFC 8414 section 2: an empty list must be omitted.
    @Test func anEmptyListOfClientAssertionAlgorithmsIsTreatedAsAbsent() async throws {
        let key = try #require(Self.keys[.es384])
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.client(key)]) { environment in
            environment.emulator.fault = .metadata(.member("token_endpoint_auth_signing_alg_values_supported", []))
            let values = try registration(.privateKeyJWT(SigningKeySource(key)))
            _ = try await environment.client(registration: values).signIn()
        }
    }

    /// FAPI 2.0 section 5.3.3.1, note 1: clocks differ, and the server's Date header shows the difference.
    @Test(arguments: [-600.0, 600.0, -7200.0]) func correctsClockSkewInClientAssertionsWithTheServersTime(
        _ ahead: Double
    ) async throws {
        let key = try #require(Self.keys[.es256])
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.client(key)]) { environment in
            let host = HostServices(now: { Date() + ahead })
            let client = OAuthClient(
                server: environment.server(host: host),
                registration: try ClientRegistration(registration(.privateKeyJWT(SigningKeySource(key))))
            )
            let credential = try await client.clientCredentials(scopes: ["profile"])
            #expect(!credential.tokens.accessToken.exposed.isEmpty)
            // The first call is retried once with the time from the error response; the second call needs no
            // retry.
            _ = try await client.clientCredentials(scopes: ["profile"])
            #expect(environment.emulator.requests.count { $0 == "POST /token" } == 3)
        }
    }

    /// Okta's format of errors: JSON with other members than those of OAuth.
    @Test func correctsClockSkewIfOnlyTheAdapterFindsTheErrorCode() async throws {
        struct OtherFormat: ProviderAdapter, ResponseParsing {
            let base: OIDCProvider
            var issuer: String { base.issuer }
            func metadata(in context: ServerContext) async throws -> ProviderMetadata {
                try await base.metadata(in: context)
            }
            func parameters(of response: ProviderResponse) throws -> JSON {
                let json = try response.parameters()
                return json["errorCode"].map { ["error": $0] } ?? json
            }
        }
        let key = try #require(Self.keys[.es256])
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.client(key)]) { environment in
            environment.emulator.customResponse = { exchange in
                guard let error = (try? JSON(parsing: exchange.response.body))?["error"],
                    let body = try? JSON.object(["errorCode": error, "errorSummary": "Rejected."]).serialized()
                else { return exchange.response }
                var response = exchange.response
                response.body = body
                return response
            }
            let adapter = OtherFormat(base: OIDCProvider(issuer: environment.emulator.issuer))
            let client = OAuthClient(
                server: environment.server(adapter, host: HostServices(now: { Date() + 600 })),
                registration: try ClientRegistration(registration(.privateKeyJWT(SigningKeySource(key))))
            )
            _ = try await client.clientCredentials(scopes: ["profile"])
            #expect(environment.emulator.requests.count { $0 == "POST /token" } == 2)
            // A rejection for another reason does not blame the assertion.
            let error = await #expect(throws: AuthError.self) { try await client.clientCredentials(scopes: ["openid"]) }
            #expect(error?.providerError?.error == "invalid_scope")
            #expect(error?.message.contains("assertion") == false, "\(error?.message ?? "")")
        }
    }

    /// A client secret that is a JWT contains timestamps, so it also depends on the clock.
    @Test func regeneratesASignedClientSecretWithTheServersTime() async throws {
        let registered = OIDCEmulator.Client(
            id: "machine",
            secret: "the registered one",
            authenticationMethod: "client_secret_post"
        )
        try await EmulatorEnvironment.with(.inProcess, clients: [registered]) { environment in
            let authentication = ClientAuthentication.signedSecret(by: SigningKeySource(try PrivateKey()), issuer: "T")
            let client = OAuthClient(
                server: environment.server(host: HostServices(now: { Date() + 600 })),
                registration: try ClientRegistration(registration(authentication))
            )
            let error = await #expect(throws: AuthError.self) {
                try await client.clientCredentials(scopes: ["profile"])
            }
            #expect(error?.providerError?.error == "invalid_client")
            let times = environment.emulator.receivedRequests.compactMap { request -> Int64? in
                let parts = request.form["client_secret"]?.split(separator: ".") ?? []
                guard parts.count == 3, let payload = Base64URL.decode(parts[1]) else { return nil }
                return (try? JSON(parsing: payload))?["iat"]?.integer
            }
            try #require(times.count == 2)
            #expect(times[0] - times[1] > 500)
        }
    }

    /// A hostile provider that advertises another server's token endpoint does not receive an assertion that is valid
    /// there.
    @Test func sendsNoAssertionWithAnotherServersTokenEndpointAsAudience() async throws {
        let key = try #require(Self.keys[.es256])
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.client(key)]) { environment in
            environment.emulator.pushedRequests = .automatic
            environment.emulator.fault = .metadata(.member("token_endpoint", "https://honest.example.com/token"))
            let values = try registration(.privateKeyJWT(SigningKeySource(key), audience: .tokenEndpoint))
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(registration: values).signIn()
            }
            #expect(error?.code == .unsupported)
            #expect(assertions(environment).isEmpty)
        }
    }

    @Test func customClientAuthenticationIsCalledForTheTokenRequest() async throws {
        let registered = OIDCEmulator.Client(id: "machine", secret: "s", authenticationMethod: "client_secret_post")
        try await EmulatorEnvironment.with(.inProcess, clients: [registered]) { environment in
            let asked = Mutex<[String]>([])
            let authentication = ClientAuthentication.custom(.init(rawValue: "vault")) { request in
                asked.withLock { $0.append("\(request.endpoint.path) \(request.clientID)") }
                return ["client_secret": "s"]
            }
            _ = try await environment.client(registration: registration(authentication)).signIn()
            #expect(asked.withLock { $0 } == ["/token machine"])
        }
    }
}
