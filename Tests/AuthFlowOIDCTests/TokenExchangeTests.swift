import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Testing

/// Token exchange (RFC 8693).
@Suite struct TokenExchangeTests {
    private static func response(
        _ tokenType: String,
        _ issued: TokenExchange.TokenType?,
        idToken: String? = "e30.e30.AAAA",
        refreshToken: String? = nil
    ) -> TransportResponse {
        var members: [String: JSON] = ["access_token": "issued", "token_type": .string(tokenType)]
        members["refresh_token"] = refreshToken.map(JSON.string)
        members["issued_token_type"] = issued.map { .string($0.rawValue) }
        members["id_token"] = idToken.map(JSON.string)
        return TransportResponse(
            head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
            body: (try? JSON.object(members).serialized()) ?? []
        )
    }

    private func client(
        _ response: TransportResponse,
        of emulator: OIDCEmulator? = nil
    ) throws -> OAuthClient {
        let environment = EmulatorEnvironment(try emulator ?? OIDCEmulator(issuer: "https://id.example.com"))
        let network = FlakyTransport(environment.transport)
        network.respond(response)
        return try environment.client(transport: network).client
    }

    private func exchange(
        for requested: TokenExchange.TokenType?,
        _ response: TransportResponse = response("N_A", .jwt)
    ) async throws -> TokenSet {
        var exchange = TokenExchange(Secret("subject"), type: .accessToken)
        exchange.requestedTokenType = requested
        return try await client(response).tokenExchange(exchange)
    }

    /// RFC 8693 section 2.2.1 requires it, but some providers omit it.
    @Test func acceptsAResponseWithoutTheTypeOfTheIssuedToken() async throws {
        let tokens = try await exchange(for: .accessToken, Self.response("Bearer", nil, idToken: nil))
        #expect(tokens.accessToken.exposed == "issued")
    }

    /// The tokens may belong to any user.
    @Test func aSharedSignInIsRejectedIfTheIssuedTokensDoNotIdentifyTheUser() async throws {
        var exchange = TokenExchange(Secret("subject"), type: .idToken, scopes: ["profile"])
        exchange.subject = "alice"
        let client = try client(Self.response("Bearer", .accessToken, idToken: nil))
        let error = await #expect(throws: AuthError.self) {
            try await client.signIn(by: exchange, reporter: FlowReporter())
        }
        #expect(error?.code == .invalidIDToken)
        #expect(error?.message.contains("do not belong to the user whose sign-in was shared") == true)
    }

    /// RFC 8693 section 2.1 requires the type.
    @Test func anActorTokenWithoutItsTypeIsNotSent() async throws {
        let emulator = try OIDCEmulator(issuer: "https://id.example.com")
        let client = try client(Self.response("Bearer", .accessToken, idToken: nil), of: emulator)
        var exchange = TokenExchange(Secret("subject"), type: .accessToken)
        exchange.actorToken = Secret("actor")
        let untyped = exchange
        let error = await #expect(throws: AuthError.self) { try await client.tokenExchange(untyped) }
        #expect(error?.code == .invalidConfiguration)
        exchange.actorTokenType = .accessToken
        #expect(try await client.tokenExchange(exchange).accessToken.exposed == "issued")
    }

    /// RFC 8693 section 2.1 and RFC 8707 section 2, for every request that names a resource: "MUST be an absolute URI", without a fragment.
    @Test(
        arguments: [
            ProviderRequest.Purpose.tokenExchange, .jwtBearer, .clientCredentials, .deviceAuthorization, .authorization,
            .refresh,
        ],
        ["orders", "https://api.example.com/orders#all", "http://api.example.com/orders"]
    )
    func aResourceThatIsNotAnAbsoluteURIIsNotSent(_ purpose: ProviderRequest.Purpose, _ resource: String) async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        let registration = try ClientRegistration(clientID: "robot") {
            $0.authentication = .clientSecretBasic(Secret("secret"))
        }
        let client = OAuthClient(server: environment.server(), registration: registration)
        let error = await #expect(throws: AuthError.self) {
            switch purpose {
            case .jwtBearer:
                let assertion = try Assertion(Secret("eyJhbGciOiJSUzI1NiJ9.e30.AAAA"))
                _ = try await client.jwtBearer(assertion, resources: [resource])
            case .clientCredentials: _ = try await client.clientCredentials(resources: [resource])
            case .deviceAuthorization:
                _ = try await client.deviceAuthorization(scopes: nil, resources: [resource])
            case .authorization:
                let options = AuthorizationOptions(resources: [resource])
                _ = try await client.authorizationRequest(options, redirectURI: "http://127.0.0.1:1/", state: "state")
            case .refresh:
                let tokens = TokenSet(accessToken: Secret("access"), refreshToken: Secret("refresh"))
                let credential = Credential(tokens: tokens, identity: nil, signedInAt: Date())
                _ = try await client.refresh(credential, resources: [resource])
            default:
                let exchange = TokenExchange(Secret("subject"), type: .accessToken, resource: [resource])
                _ = try await client.tokenExchange(exchange)
            }
        }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains("resource") == true, "\(error?.message ?? "")")
        #expect(environment.emulator.requests.allSatisfy { !$0.hasPrefix("POST ") })
    }

    @Test(arguments: [nil, TokenExchange.TokenType.accessToken])
    func rejectsAnIssuedTokenThatIsNotAnAccessToken(_ requested: TokenExchange.TokenType?) async throws {
        await expectError(.unsupported) { try await exchange(for: requested) }
    }

    @Test(arguments: [
        ("Bearer", TokenExchange.TokenType.refreshToken, TokenExchange.TokenType?.none),
        ("Bearer", .refreshToken, .accessToken), ("n_a", .refreshToken, .jwt), ("n_a", .accessToken, nil),
    ])
    func rejectsAnIssuedTokenOfTheWrongType(
        _ tokenType: String,
        _ issued: TokenExchange.TokenType,
        _ requested: TokenExchange.TokenType?
    ) async throws {
        await expectError(.unsupported) {
            try await exchange(for: requested, Self.response(tokenType, issued))
        }
    }

    /// Nothing uses the tokens, but they would remain valid. The refresh token of an exchange is not revoked, because the user's session might end.
    @Test(arguments: [ProviderRequest.Purpose.tokenExchange, .jwtBearer])
    func rejectedTokensOfAGrantWithoutASignInAreRevoked(_ grant: ProviderRequest.Purpose) async throws {
        let emulator = try OIDCEmulator(issuer: "https://id.example.com")
        let refreshToken = grant == .tokenExchange ? "refresh" : nil
        let client = try client(
            Self.response("mac", nil, idToken: nil, refreshToken: refreshToken),
            of: emulator
        )
        await expectError(.unsupported) {
            if grant == .jwtBearer {
                _ = try await client.jwtBearer(Assertion(Secret("eyJhbGciOiJSUzI1NiJ9.e30.AAAA")))
            } else {
                _ = try await client.tokenExchange(TokenExchange(Secret("subject"), type: .accessToken))
            }
        }
        let revoked = emulator.receivedRequests.filter { $0.path == "/revoke" }.compactMap { $0.form["token"] }
        #expect(revoked == ["issued"])
    }

    /// An identity assertion is requested without scopes if the client that needs it has none.
    @Test(arguments: [(nil, "orders"), (["profile"], "profile"), ([], "orders")] as [([String]?, String)])
    func theScopeParameterAppliesToAnExchangeWithoutScopes(_ scopes: [String]?, _ expected: String) async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        var values = try EmulatorEnvironment.registration()
        values.parameters[.tokenExchange] = ["scope": "orders"]
        let client = try environment.client(registration: values).client
        // The emulator rejects the exchange.
        _ = try? await client.tokenExchange(TokenExchange(Secret("subject"), type: .idToken, scopes: scopes))
        let sent = environment.emulator.receivedRequests.filter { $0.form["subject_token"] == "subject" }
        #expect(sent.map { $0.form["scope"] } == [expected])
    }

    /// The response has no token type. A provider may also return the subject token itself, which the user still needs.
    @Test(arguments: [("issued", ["issued"]), ("subject", [])] as [(String, [String])])
    func onlyTheAccessTokenOfAnUnusableExchangeIsRevoked(_ accessToken: String, _ expected: [String]) async throws {
        let emulator = try OIDCEmulator(issuer: "https://id.example.com")
        let members: JSON = ["access_token": .string(accessToken), "refresh_token": "refresh"]
        let response = TransportResponse(
            head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
            body: try members.serialized()
        )
        let client = try client(response, of: emulator)
        await expectError(.invalidResponse) {
            _ = try await client.tokenExchange(TokenExchange(Secret("subject"), type: .accessToken))
        }
        let revoked = emulator.receivedRequests.filter { $0.path == "/revoke" }.compactMap { $0.form["token"] }
        #expect(revoked == expected)
    }

    @Test func anUnverifiedIDTokenInATokenExchangeResponseIsNotReturned() async throws {
        let tokens = try await exchange(for: .jwt)
        #expect(tokens.accessToken.exposed == "issued")
        #expect(tokens.idToken == nil)
    }
}
