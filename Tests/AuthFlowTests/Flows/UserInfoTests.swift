import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes
import Testing

@testable import AuthFlowOAuth

/// A provider with fixed metadata.
private struct FixedProvider: ProviderAdapter {
    var issuer: String { fixed.issuer }
    let fixed: ProviderMetadata
    func metadata(in context: ServerContext) -> ProviderMetadata { fixed }
}

/// Userinfo, plain and signed (OIDC Core section 5.3.2; rows 11 and 25).
@Suite struct UserInfoTests {
    private static let issuer = "https://id.example.com"
    private static let time: Int64 = 1_800_000_000

    private let keys: EmulatorKeys

    init() throws { keys = try EmulatorKeys() }

    private func ask(_ response: TransportResponse, tokens: TokenSet? = nil) async throws -> JSON {
        let set = try keys.jwks()
        let transport = InProcessTransport(origin: Self.issuer) { request, _ in
            request.path == "/jwks"
                ? TransportResponse(head: HTTPResponse(status: .ok), body: try set.serialized()) : response
        }
        let metadata = try ProviderMetadata([
            "issuer": .string(Self.issuer), "jwks_uri": .string("\(Self.issuer)/jwks"),
            "userinfo_endpoint": .string("\(Self.issuer)/userinfo"),
            "userinfo_signing_alg_values_supported": ["ES256", "RS256", "HS256"],
        ])
        let client = OAuthClient(
            server: AuthorizationServer(
                FixedProvider(fixed: metadata),
                transport: transport,
                host: HostServices(now: { Date(timeIntervalSince1970: TimeInterval(Self.time)) })
            ),
            registration: try ClientRegistration(clientID: "client")
        )
        return try await client.userInfo(try tokens ?? Self.tokens())
    }

    private static func tokens() throws -> TokenSet {
        let claims: JSON = [
            "iss": .string(issuer), "sub": "alice", "aud": "client", "exp": .integer(time + 60), "iat": .integer(time),
        ]
        var tokens = TokenSet(accessToken: Secret("access"))
        tokens.verifiedIDToken = IDToken(stored: ["header": ["alg": "ES256"], "claims": claims])
        return tokens
    }

    private func signed(
        _ change: [String: JSON?] = [:],
        header: [String: JSON] = [:],
        algorithm: SignatureAlgorithm = .es256
    ) throws -> TransportResponse {
        var claims: [String: JSON] = [
            "iss": .string(Self.issuer), "aud": ["client", "other"], "sub": "alice", "name": "A",
        ]
        for (name, value) in change { claims[name] = value }
        let own: [String: JSON] = ["alg": .string(algorithm.rawValue), "kid": .string(keys.keyID(for: algorithm))]
        let token = try keys.sign(.object(claims), header: .object(own.merging(header) { $1 }), with: algorithm)
        return response(token, type: "application/jwt")
    }

    private func response(_ body: String, type: String = "application/json", status: Int = 200) -> TransportResponse {
        TransportResponse(
            head: HTTPResponse(status: .init(code: status), headerFields: [.contentType: type]),
            body: Array(body.utf8)
        )
    }

    @Test func readsPlainAndSignedUserInfo() async throws {
        #expect(try await ask(response(#"{"sub":"alice","name":"A"}"#))["name"] == "A")
        #expect(try await ask(try signed())["name"] == "A")
        #expect(try await ask(try signed(["exp": .integer(Self.time + 1), "aud": "client"]))["name"] == "A")
        #expect(try await ask(try signed(algorithm: .rs256))["name"] == "A")
        // OIDC Core section 5.3.2: iss and aud SHOULD be present in signed userinfo.
        #expect(try await ask(try signed(["iss": nil]))["name"] == "A")
        #expect(try await ask(try signed(["aud": nil, "iss": nil]))["name"] == "A")
    }

    /// Some servers send null for absent claims.
    @Test(arguments: ["iss", "aud", "exp", "nbf"])
    func aNullClaimInSignedUserInfoIsAbsent(_ name: String) async throws {
        #expect(try await ask(try signed([name: JSON.null]))["name"] == "A")
    }

    static let refusedClaims: [[String: JSON?]] = [
        ["iss": "https://id.example.com1"], ["aud": "other"], ["aud": []], ["sub": "bob"],
        ["sub": nil], ["exp": .integer(time - 60)], ["exp": "never"],
    ]

    @Test(arguments: refusedClaims) func rejectsSignedUserInfoWithInvalidClaims(_ change: [String: JSON?]) async throws
    {
        let response = try signed(change)
        let error = await #expect(throws: AuthError.self) { try await ask(response) }
        #expect(error?.code == .invalidUserInfo)
    }

    @Test(
        arguments: [
            ["crit": ["x"]], ["alg": "none"], ["alg": "HS256"], ["alg": "PS256"], ["kid": "other"], ["kid": 1],
            ["typ": "at+jwt"],
            ["typ": "logout+jwt"], ["typ": 1],
        ] as [[String: JSON]]
    )
    func rejectsSignedUserInfoWithAnInvalidHeader(_ header: [String: JSON]) async throws {
        let response = try signed(header: header)
        let error = await #expect(throws: AuthError.self) { try await ask(response) }
        #expect(error?.code == .invalidUserInfo)
    }

    @Test func rejectsAUserInfoSigningAlgorithmThatIsNotInTheMetadata() async throws {
        let response = try signed(algorithm: .ps256)
        let error = await #expect(throws: AuthError.self) { try await ask(response) }
        #expect(error?.code == .invalidUserInfo)
    }

    @Test func rejectsInvalidUserInfoResponses() async throws {
        let strange = TransportResponse(
            head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/jwt"]),
            body: [0xFF, 0xFE]
        )
        let cases: [(TransportResponse, AuthError.Code)] = [
            (response("not a token", type: "application/jwt"), .invalidUserInfo), (strange, .invalidUserInfo),
            (response("a.b.c.d.e", type: "application/jwt"), .unsupported), (response("[]"), .invalidResponse),
            (response("{}"), .invalidUserInfo), (response("{}", status: 401), .accessTokenRejected),
            (response(#"{"sub":"alice"}"#, status: 500), .temporarilyUnavailable),
            (response(#"{"error":"insufficient_scope"}"#), .insufficientScope),
            (response(#"{"ok":false,"error":"missing_scope"}"#), .insufficientScope),
            (response(#"{"ok":false,"error":"token_revoked"}"#), .accessTokenRejected),
        ]
        for (response, code) in cases {
            let error = await #expect(throws: AuthError.self) { try await ask(response) }
            #expect(error?.code == code)
        }
        // Without a verified ID Token there is no subject to compare with.
        let plain = response(#"{"sub":"alice"}"#)
        let error = await #expect(throws: AuthError.self) {
            try await ask(plain, tokens: TokenSet(accessToken: Secret("access")))
        }
        #expect(error?.code == .unsupported)
    }
}
