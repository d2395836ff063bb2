import AuthFlow
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Testing

/// Authorization responses as signed JWTs (JARM).
@Suite struct SignedResponseTests {
    struct Refused: CustomTestStringConvertible {
        let name: String
        let fault: SignedResponseFault
        var testDescription: String { name }
    }

    static let refused: [Refused] = [
        Refused(name: "no iss", fault: .missingIssuer), Refused(name: "another iss", fault: .wrongIssuer),
        Refused(name: "no aud", fault: .missingAudience), Refused(name: "another aud", fault: .wrongAudience),
        Refused(name: "a second aud", fault: .claim("aud", ["authflow-demo", "other"])),
        Refused(name: "no exp", fault: .missingExpiry), Refused(name: "expired", fault: .expired),
        Refused(name: "exp as a string", fault: .claim("exp", "tomorrow")),
        Refused(name: "a wrong signature", fault: .badSignature), Refused(name: "alg none", fault: .unsigned),
        Refused(name: "HMAC", fault: .signed(with: .hs256)),
        Refused(name: "a critical extension", fault: .header { $0["crit"] = ["b64"] }),
        Refused(name: "another type", fault: .header { $0["typ"] = "logout+jwt" }),
        Refused(name: "a key ID that is not a string", fault: .header { $0["kid"] = 1 }),
        Refused(name: "not valid yet", fault: .claim("nbf", 4_102_444_800)),
        Refused(name: "a code outside the JWT", fault: .unsignedCode), Refused(name: "not signed", fault: .plain),
        Refused(name: "another iss outside the JWT", fault: .redirect { $0.append("iss", "https://other.example") }),
        Refused(name: "two responses", fault: .redirect { $0.append("response", $0["response"] ?? "") }),
        Refused(name: "no code", fault: .claim("code", nil)),
        Refused(name: "a code that is not a string", fault: .claim("code", ["x"])),
        Refused(name: "a code that is a number", fault: .claim("code", 7)),
        Refused(name: "another state", fault: .claims { $0["state"] = "other" }),
        Refused(name: "no state", fault: .claim("state", nil)),
        Refused(name: "no JWT", fault: .redirect { $0["response"] = "nonsense" }),
        Refused(name: "encrypted", fault: .redirect { $0["response"] = "a.b.c.d.e" }),
    ]

    private func client(_ environment: EmulatorEnvironment, _ mode: ResponseMode = .jwt) throws -> OAuthClient {
        var values = try EmulatorEnvironment.registration()
        values.responseMode = mode
        return OAuthClient(server: environment.server(), registration: try ClientRegistration(values))
    }

    @Test(arguments: refused) func rejectsAnInvalidSignedResponseAndSendsNoTokenRequest(_ refused: Refused) async throws
    {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        let client = try client(environment)
        let request = try await client.authorizationRequest()
        environment.emulator.fault = .signedResponse(refused.fault)
        let callback = try environment.emulator.redirect(for: request.url, as: "alice")
        await #expect(throws: AuthError.self) { try await client.exchange(callback, for: request) }
        #expect(!environment.emulator.requests.contains("POST /token"))
    }

    @Test(arguments: ResponseMode.allCases.filter(\.isSigned), [SignatureAlgorithm.ps256, .es256, .edDSA, .rs256])
    func acceptsASignedAuthorizationResponse(_ mode: ResponseMode, _ algorithm: SignatureAlgorithm) async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        environment.emulator.signingAlgorithm = algorithm
        var values = try EmulatorEnvironment.registration()
        values.responseMode = mode
        let client = try environment.client(registration: values)
        #expect(try await client.signIn().credential.identity?.subject == "248289761001")
    }

    /// OIDC Core section 10.1: the key of an HMAC signature is the client secret.
    @Test func theEmulatorSignsWithTheClientSecretIfItsAlgorithmIsSymmetric() async throws {
        let secret = String(repeating: "s", count: 32)
        var registered = OIDCEmulator.Client.demo
        registered.secret = secret
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [registered]))
        environment.emulator.signingAlgorithm = .hs256
        let request = try await client(environment).authorizationRequest()
        let redirect = try environment.emulator.redirect(for: request.url, as: "alice")
        let parameters = FormURLEncoding.decode(redirect.drop { $0 != "?" }.dropFirst())
        let response = try #require(parameters?["response"])
        let logoutToken = try environment.emulator.logoutToken(for: registered.id, subject: "alice")
        for text in [response, logoutToken] {
            let jws = try JWS(Secret(text))
            #expect(HMACSignature.isValid(jws.signature, for: jws.signedBytes, hash: .sha256, secret: Secret(secret)))
        }
    }

    /// RFC 7519 section 4.1.3: an array with one element is equivalent.
    @Test func acceptsAnAudienceAsAnArrayOfOne() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        environment.emulator.fault = .signedResponse(.claim("aud", ["authflow-demo"]))
        let client = try client(environment)
        let request = try await client.authorizationRequest()
        let callback = try environment.emulator.redirect(for: request.url, as: "alice")
        #expect(try await client.exchange(callback, for: request).identity != nil)
    }

    @Test func aNullErrorInASignedResponseIsNotAnError() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        environment.emulator.fault = .signedResponse(.claim("error", .null))
        let client = try client(environment)
        let request = try await client.authorizationRequest()
        let callback = try environment.emulator.redirect(for: request.url, as: "alice")
        #expect(try await client.exchange(callback, for: request).identity != nil)
    }

    /// The receiver of the redirect, such as a user agent, might not know that the client requires encryption.
    @Test func rejectsADecodedResponseThatIsNotEncryptedIfTheClientRequiresEncryption() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        var values = try EmulatorEnvironment.registration()
        values.responseMode = .jwt
        values.decryptionKeys = DecryptionKeySource([try DecryptionKey()])
        values.encryptedResponses = [.authorizationResponse]
        let client = OAuthClient(server: environment.server(), registration: try ClientRegistration(values))
        let request = try await client.authorizationRequest()
        let response = try RedirectResponse(
            try environment.emulator.redirect(for: request.url, as: "alice"),
            at: request.redirectURI,
            ResponseMode.jwt.delivery,
            decrypt: { $0 }
        )
        let error = await #expect(throws: AuthError.self) {
            _ = try await client.exchange(.response(response), for: request, reporter: FlowReporter())
        }
        #expect(error?.code == .invalidCallback)
        #expect(error?.message.contains("it is not encrypted") == true, "\(error as Any)")
        #expect(!environment.emulator.requests.contains("POST /token"))
    }

    @Test("The message about an error outside a signed response contains no secret of the response")
    func redactsTheSecretsOfAnUnsignedError() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        let client = try client(environment)
        let request = try await client.authorizationRequest()
        let parameters: FormParameters = [
            "state": request.state.exposed, "code": "SplxlOBeZQQ", "error": "server_error",
            "error_description": "The code SplxlOBeZQQ has expired.",
        ]
        let callback = "\(request.redirectURI)?\(FormURLEncoding.encodeQuery(parameters))"
        let error = await #expect(throws: AuthError.self) { try await client.exchange(callback, for: request) }
        #expect(error?.code == .invalidCallback)
        #expect(error?.providerError?.errorDescription == "The code <redacted> has expired.")
    }

    @Test func reportsTheErrorInASignedAuthorizationResponse() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        var values = try EmulatorEnvironment.registration()
        values.responseMode = .jwt
        let error = await #expect(throws: AuthError.self) {
            try await environment.client(registration: values, consent: .deny).signIn()
        }
        #expect(error?.code == .accessDenied)
    }

    /// Keys are fetched only for a response with the expected issuer and audience. Otherwise, an attacker could
    /// trigger fetches at will.
    @Test(arguments: [SignedResponseFault.wrongIssuer, .wrongAudience, .expired])
    func fetchesNoKeysForASignedResponseWithInvalidClaims(_ fault: SignedResponseFault) async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        let client = try client(environment)
        let request = try await client.authorizationRequest()
        environment.emulator.fault = .signedResponse(fault)
        let callback = try environment.emulator.redirect(for: request.url, as: "alice")
        await expectError(.invalidCallback) { try await client.exchange(callback, for: request) }
        #expect(!environment.emulator.requests.contains("GET /jwks"))
    }

    /// RFC 9207 section 2.4: next to a signed response, the parameter is unnecessary, but allowed.
    @Test func acceptsTheSameIssuerOutsideTheSignedResponse() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        environment.emulator.fault = .signedResponse(.redirect { $0.append("iss", "https://id.example.com") })
        let client = try client(environment)
        let request = try await client.authorizationRequest()
        let callback = try environment.emulator.redirect(for: request.url, as: "alice")
        #expect(try await client.exchange(callback, for: request).identity != nil)
    }

    /// Parameters outside the JWT are ignored, because some providers, such as Glewlwyd, add them.
    @Test func ignoresUnknownParametersOutsideTheSignedResponse() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        environment.emulator.fault = .signedResponse(.redirect { $0.append("session_state", "x") })
        let client = try client(environment)
        let request = try await client.authorizationRequest()
        let callback = try environment.emulator.redirect(for: request.url, as: "alice")
        #expect(try await client.exchange(callback, for: request).identity != nil)
    }
}
