import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Responses of the token endpoint, and the advice in their errors.
@Suite struct TokenResponseTests {
    private static let issuer = "https://id.example.com"

    private static func response(_ status: Int, _ body: String, date: Date? = nil) -> TransportResponse {
        var head = HTTPResponse(status: .init(code: status), headerFields: [.contentType: "application/json"])
        head.headerFields[.date] = date.map(HTTPDate.text)
        return TransportResponse(head: head, body: Array(body.utf8))
    }

    /// A client of a provider that has only a token endpoint.
    private func client(
        _ authentication: ClientAuthentication,
        host: HostServices = .system,
        _ respond: @escaping @Sendable () -> TransportResponse
    ) throws -> OAuthClient {
        let transport = InProcessTransport(origin: Self.issuer) { request, _ in
            guard request.path != "/token" else { return respond() }
            return Self.response(200, #"{"issuer": "\#(Self.issuer)", "token_endpoint": "\#(Self.issuer)/token"}"#)
        }
        return OAuthClient(
            server: AuthorizationServer(OIDCProvider(issuer: Self.issuer), transport: transport, host: host),
            registration: try ClientRegistration(clientID: "client") { $0.authentication = authentication }
        )
    }

    // MARK: Unusable responses

    /// An error response may repeat the tokens of the request, which must stay valid.
    @Test(arguments: [400, 403]) func tokensInAnErrorResponseAreNeitherUsedNorRevoked(_ status: Int) async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: Self.issuer))
        environment.emulator.fault = .tokenResponse(.response { $0.head.status = .init(code: status) })
        let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
        #expect(error?.code == .invalidResponse && error?.status == status, "\(error as Any)")
        #expect(!environment.emulator.requests.contains("POST /revoke"))
    }

    @Test(
        arguments: [
            (nil, #"list "none""#, true), ("example", "bearer_token_types", true),
            ("DPoP", "bearer_token_types", false), ("mac", "bearer_token_types", false),
        ] as [(String?, String, Bool)]
    )
    func suggestsConfiguringABearerTokenTypeOnlyIfTheTokenCouldBeOne(
        _ type: String?,
        _ words: String,
        _ isSuggested: Bool
    ) async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: Self.issuer))
        environment.emulator.fault = .tokenResponse(.member("token_type", type.map(JSON.string)))
        let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
        let code: AuthError.Code = type == nil ? .invalidResponse : .unsupported
        #expect(error?.code == code)
        #expect(error?.message.contains(words) == isSuggested, "\(error as Any)")
    }

    /// Azure AD B2C issues no access token if only openid and offline_access are requested.
    @Test(arguments: [(nil, true), ("", false)] as [(JSON?, Bool)])
    func suggestsAScopeOnlyIfTheResponseHasJustAnIDToken(_ accessToken: JSON?, _ isSuggested: Bool) async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: Self.issuer))
        environment.emulator.fault = .tokenResponse(.member("access_token", accessToken))
        let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
        #expect(error?.code == .invalidResponse)
        #expect(error?.message.contains("add the API's scope") == isSuggested, "\(error as Any)")
    }

    @Test func anOpaqueAccessTokenDoesNotIdentifyTheUser() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: Self.issuer))
        var values = try EmulatorEnvironment.registration()
        values.scopes = ["repo"]
        let adapter = OIDCProvider(issuer: Self.issuer, identitySource: .accessToken)
        let client = try environment.client(registration: values, adapter: adapter)
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("The access token is not a signed JWT") == true, "\(error as Any)")
    }

    // MARK: Rejected clients

    struct Rejection: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let authentication: ClientAuthentication
        var status = 400
        var body = #"{"error": "invalid_client"}"#
        /// The advice; nil for none.
        let words: String?
    }

    private static let rejections = [
        Rejection(
            testDescription: "a secret with a special character in HTTP Basic",
            authentication: .clientSecretBasic(Secret("s+")),
            words: "decode incorrectly in HTTP Basic"
        ),
        Rejection(
            testDescription: "a secret with a special character in the form",
            authentication: .clientSecretPost(Secret("s+")),
            words: #"Check "client_id", "client_secret" and "client_authentication""#
        ),
        Rejection(
            testDescription: "a client assertion",
            authentication: .custom(.init(rawValue: "private_key_jwt")) { _ in ["client_assertion": "x"] },
            words: "the client's public key is registered"
        ),
        Rejection(
            testDescription: "another error",
            authentication: .clientSecretBasic(Secret("s+")),
            body: #"{"error": "invalid_grant"}"#,
            words: nil
        ),
        Rejection(
            testDescription: "an error without a code",
            authentication: .clientSecretBasic(Secret("s+")),
            status: 401,
            body: "{}",
            words: nil
        ),
    ]

    @Test(arguments: rejections)
    func theAdviceForARejectedClientMatchesItsAuthentication(_ test: Rejection) async throws {
        let client = try client(test.authentication) { Self.response(test.status, test.body) }
        let error = await #expect(throws: AuthError.self) { try await client.clientCredentials(scopes: ["a"]) }
        let message = error?.message ?? ""
        if let words = test.words { #expect(message.contains(words), "\(message)") }
        #expect(message.contains("client_authentication") == (test.words != nil), "\(message)")
    }

    /// RFC 6749 section 5.2 and RFC 9449 section 5 define these errors with status 400 or 401.
    @Test(arguments: [(400, 2), (401, 2), (403, 1), (200, 1)])
    func aRequestIsRepeatedWithTheServersTimeOnlyAfterStatus400Or401(_ status: Int, _ expected: Int) async throws {
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        let requests = Mutex(0)
        let key = SigningKeySource(try PrivateKey(generatedFor: .es256))
        let client = try client(.privateKeyJWT(key), host: HostServices(now: { now })) {
            requests.withLock { $0 += 1 }
            return Self.response(status, #"{"error": "invalid_client"}"#, date: now - 600)
        }
        let error = await #expect(throws: AuthError.self) { try await client.clientCredentials(scopes: ["a"]) }
        #expect(error?.providerError?.error == "invalid_client")
        #expect(requests.withLock { $0 } == expected)
    }

    // MARK: Revocation

    @Test func revokingNoTokensRequiresNoRevocationEndpoint() async throws {
        let client = try client(.none) { Self.response(500, "") }
        try await client.revoke([RevocableToken]())
    }
}
