import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Foundation
import HTTPTypes
import Testing

/// Signed introspection responses (RFC 9701).
@Suite struct SignedIntrospectionTests {
    private static let robot = OIDCEmulator.Client(
        id: "api",
        secret: "s3cret",
        authenticationMethod: "client_secret_basic",
        redirectURIs: ["http://127.0.0.1:8400/callback"]
    )

    private static func registration(_ demand: SignedIntrospection? = SignedIntrospection())
        -> ClientRegistration.Values
    {
        var values = ClientRegistration.Values(clientID: "api")
        values.authentication = .clientSecretBasic(Secret("s3cret"))
        values.redirectURIs = ["http://127.0.0.1:8400/callback"]
        values.signedIntrospection = demand
        return values
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases)
    func verifiesASignedIntrospectionResponse(_ setting: EmulatorEnvironment.Setting) async throws {
        try await EmulatorEnvironment.with(setting, clients: [Self.robot]) { environment in
            let client = try environment.client(registration: Self.registration())
            _ = try await client.signIn()
            let claims = try await client.introspect()
            #expect(claims["active"] == true && claims["client_id"] == "api" && claims["iss"] == nil)
            #expect(try await client.introspect(Secret("unknown"))["active"] == false)
        }
    }

    @Test func decryptsAnEncryptedIntrospectionResponse() async throws {
        let key = try DecryptionKey()
        var registered = Self.robot
        registered.encryption = EmulatedEncryption(
            to: key.publicJWK,
            algorithm: .ecdhESA256KW,
            responses: [.introspection]
        )
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [registered]))
        var values = Self.registration()
        values.decryptionKeys = DecryptionKeySource([key])
        values.encryptedResponses = [.introspection]
        let client = try environment.client(registration: values)
        _ = try await client.signIn()
        #expect(try await client.introspect()["active"] == true)
    }

    struct Hostile: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let fault: SignedResponseFault
        let words: String
    }

    private static let hostile = [
        Hostile(testDescription: "another issuer", fault: .wrongIssuer, words: "(iss)"),
        Hostile(testDescription: "no issuer", fault: .missingIssuer, words: "iss"),
        Hostile(testDescription: "another audience", fault: .wrongAudience, words: "(aud)"),
        Hostile(testDescription: "no audience", fault: .missingAudience, words: "aud"),
        Hostile(testDescription: "no time", fault: .claim("iat", nil), words: "iat"),
        Hostile(testDescription: "issued years ago", fault: .claims { $0["iat"] = 1_700_000_000 }, words: "(iat)"),
        Hostile(testDescription: "expired", fault: .claims { $0["exp"] = 1_700_000_000 }, words: "(exp)"),
        Hostile(testDescription: "not valid yet", fault: .claims { $0["nbf"] = 4_102_444_800 }, words: "(nbf)"),
        Hostile(testDescription: "a wrong signature", fault: .badSignature, words: "signature"),
        Hostile(testDescription: "not signed", fault: .header { $0["alg"] = "none" }, words: "(alg)"),
        Hostile(testDescription: "signed with the client secret", fault: .signed(with: .hs256), words: "(alg)"),
        Hostile(testDescription: "another type", fault: .header { $0["typ"] = "JWT" }, words: "(typ)"),
        Hostile(testDescription: "no type", fault: .header { $0["typ"] = nil }, words: "(typ)"),
        Hostile(testDescription: "critical", fault: .header { $0["crit"] = ["x"] }, words: "crit"),
        Hostile(
            testDescription: "an older draft, with top-level members",
            fault: .claims {
                $0["token_introspection"] = nil
                $0["active"] = true
            },
            words: "whether the token is active"
        ),
        Hostile(
            testDescription: "active as a string",
            fault: .claim("token_introspection", ["active": "true"]),
            words: "whether the token is active"
        ),
    ]

    @Test(arguments: hostile) func rejectsAnInvalidSignedIntrospectionResponse(_ hostile: Hostile) async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot]))
        let client = try environment.client(registration: Self.registration())
        _ = try await client.signIn()
        environment.emulator.fault = .introspection(hostile.fault)
        let error = await #expect(throws: AuthError.self) { try await client.introspect() }
        #expect(error?.code == .invalidResponse)
        #expect(error?.message.contains(hostile.words) == true, "\(error?.message ?? "")")
    }

    /// A provider that does not support RFC 9701 responds with plain JSON.
    @Test func rejectsAnUnsignedIntrospectionResponse() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot]))
        let plain = try environment.client(registration: Self.registration(nil))
        let tokens = try await plain.signIn().credential.tokens
        #expect(try await plain.client.introspect(tokens.accessToken)["active"] == true)
        let asking = InProcessTransport(origin: "https://id.example.com") { request, body in
            var changed = request
            changed.headerFields[.accept] = "application/json"
            return try await environment.transport.send(
                TransportRequest(
                    request.method,
                    try Endpoint("https://id.example.com\(request.path ?? "")"),
                    headerFields: changed.headerFields,
                    body: body
                )
            )
        }
        let client = try environment.client(registration: Self.registration(), transport: asking)
        let error = await #expect(throws: AuthError.self) { try await client.client.introspect(tokens.accessToken) }
        #expect(error?.message.contains("not signed") == true, "\(error?.message ?? "")")
    }

    /// RFC 7662 section 2.2 and RFC 9701 section 5 define only responses with status 200.
    @Test(arguments: [nil, SignedIntrospection()] as [SignedIntrospection?])
    func rejectsAnIntrospectionResponseWithoutStatus200(_ demand: SignedIntrospection?) async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot]))
        environment.emulator.customResponse = { exchange in
            var response = exchange.response
            if exchange.request.path == "/introspect" { response.head.status = .created }
            return response
        }
        let client = try environment.client(registration: Self.registration(demand))
        _ = try await client.signIn()
        let error = await #expect(throws: AuthError.self) { try await client.introspect() }
        #expect(error?.code == .providerRejected && error?.status == 201)
        #expect(error?.message.contains("did not report whether the token is active") == true, "\(error as Any)")
    }

    /// Some providers send every error with status 200.
    @Test(arguments: [("server_error", AuthError.Code.temporarilyUnavailable), ("invalid_client", .providerRejected)])
    func anErrorWithStatus200InsteadOfASignedIntrospectionResponseIsReported(_ name: String, _ code: AuthError.Code)
        async throws
    {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot]))
        environment.emulator.customResponse = { exchange in
            guard exchange.request.path == "/introspect" else { return exchange.response }
            return TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                body: (try? JSON.object(["error": .string(name)]).serialized()) ?? []
            )
        }
        let client = try environment.client(registration: Self.registration())
        _ = try await client.signIn()
        let error = await #expect(throws: AuthError.self) { try await client.introspect() }
        #expect(error?.code == code && error?.providerError?.error == name, "\(error as Any)")
    }

    /// Some providers set the response's `aud` to the audience of the token.
    @Test func acceptsAnIntrospectionResponseForTheConfiguredAudience() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot]))
        environment.emulator.fault = .introspection(.claim("aud", ["https://api.example.com"]))
        let client = try environment.client(registration: Self.registration(.init(audience: "https://api.example.com")))
        _ = try await client.signIn()
        #expect(try await client.introspect()["active"] == true)
    }
}
