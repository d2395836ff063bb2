import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import HTTPTypes
import Testing

/// Token exchange (RFC 8693).
@Suite struct TokenExchangeTests {
    private static func response(_ tokenType: String, _ issued: TokenExchange.TokenType) -> TransportResponse {
        TransportResponse(
            head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
            body: Array(
                #"{"access_token": "issued", "token_type": "\#(tokenType)", "issued_token_type": "\#(issued.rawValue)", "id_token": "e30.e30.AAAA"}"#
                    .utf8
            )
        )
    }

    private func exchange(
        for requested: TokenExchange.TokenType?,
        _ response: TransportResponse = response("N_A", .jwt)
    ) async throws -> TokenSet {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        let network = FlakyTransport(environment.transport)
        network.respond(response)
        let client = try environment.client(transport: network)
        var exchange = TokenExchange(Secret("subject"), type: .accessToken)
        exchange.requestedTokenType = requested
        return try await client.client.tokenExchange(exchange)
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

    @Test func anUnverifiedIDTokenInATokenExchangeResponseIsNotReturned() async throws {
        let tokens = try await exchange(for: .jwt)
        #expect(tokens.accessToken.exposed == "issued")
        #expect(tokens.idToken == nil)
    }
}
