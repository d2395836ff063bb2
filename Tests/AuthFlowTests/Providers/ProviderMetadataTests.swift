import AuthFlow
import AuthFlowJSON
import Testing

/// Metadata documents, member by member (OpenID Connect Discovery section 3, RFC 8414 section 2).
@Suite struct ProviderMetadataTests {
    private func metadata(_ members: [String: JSON]) throws -> ProviderMetadata {
        try ProviderMetadata(.object(members.merging(["issuer": "https://id.example.com"]) { own, _ in own }))
    }

    @Test(
        arguments: [
            ["issuer": 5], ["issuer": .null], ["token_endpoint": 5], ["token_endpoint": false],
            ["jwks_uri": ["https://a"]],
            ["userinfo_endpoint": "http://id.example.com/userinfo"],
            ["authorization_response_iss_parameter_supported": "true"],
            ["authorization_response_iss_parameter_supported": 1],
            ["code_challenge_methods_supported": "S256"], ["scopes_supported": ["openid", 5]],
        ] as [[String: JSON]]
    ) func refusesMetadataMembersOfTheWrongType(_ members: [String: JSON]) {
        let error = #expect(throws: AuthError.self) { try metadata(members) }
        #expect(error?.code == .discoveryFailed)
    }

    @Test func treatsNullMembersAsAbsent() throws {
        let metadata = try metadata([
            "token_endpoint": .null, "scopes_supported": .null,
            "authorization_response_iss_parameter_supported": .null,
        ])
        #expect(metadata.tokenEndpoint == nil)
        #expect(metadata.scopes == nil)
        #expect(!metadata.namesIssuerInResponses)
    }
}
