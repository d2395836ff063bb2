import AuthFlow
import AuthFlowJSON
import Expectations
import Testing

@testable import AuthFlowOAuth

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
            ["code_challenge_methods_supported": "S256"], ["token_endpoint_auth_methods_supported": ["none", 5]],
        ] as [[String: JSON]]
    ) func rejectsMetadataMembersOfTheWrongType(_ members: [String: JSON]) {
        let error = #expect(throws: AuthError.self) { try metadata(members) }
        #expect(error?.code == .discoveryFailed)
    }

    @Test func reportsThatAnEndpointOfAnHTTPSIssuerUsesHTTP() {
        let error = #expect(throws: AuthError.self) {
            try ProviderMetadata(["issuer": "https://127.0.0.1:8443", "token_endpoint": "http://127.0.0.1:8080/token"])
        }
        #expect(error?.code == .discoveryFailed)
        #expect(error?.message.contains("not an https URL") == true, "\(error as Any)")
    }

    @Test func treatsEmptyListsAsAbsent() throws {
        let metadata = try metadata([
            "id_token_signing_alg_values_supported": [], "token_endpoint_auth_methods_supported": [],
            "userinfo_signing_alg_values_supported": [],
        ])
        #expect(metadata.idTokenSigningAlgorithms == nil && metadata.tokenEndpointAuthMethods == nil)
        #expect(metadata.advertisedAlgorithms("userinfo_signing_alg_values_supported").count > 1)
    }

    @Test func treatsNullMembersAsAbsent() throws {
        let metadata = try metadata([
            "token_endpoint": .null, "scopes_supported": .null,
            "authorization_response_iss_parameter_supported": .null,
        ])
        #expect(metadata.tokenEndpoint == nil)
        #expect(metadata.scopes == nil)
        #expect(!metadata.sendsIssuerInResponses)
    }

    /// No check depends on this list, so it must not make a sign-in impossible.
    @Test(arguments: ["openid profile", ["openid", 5], [:]] as [JSON])
    func treatsScopesOfTheWrongTypeAsAbsent(_ scopes: JSON) throws {
        #expect(try metadata(["scopes_supported": scopes]).scopes == nil)
    }

    /// An adapter cannot disable the check of `iss`.
    @Test func aDocumentThatAnnouncesTheIssuerInResponsesTakesPrecedence() throws {
        var metadata = try metadata(["authorization_response_iss_parameter_supported": true])
        metadata.sendsIssuerInResponses = false
        #expect(metadata.sendsIssuerInResponses)
        var declared = ProviderMetadata(issuer: "https://id.example.com", sendsIssuerInResponses: true)
        #expect(declared.sendsIssuerInResponses)
        declared.sendsIssuerInResponses = false
        #expect(!declared.sendsIssuerInResponses)
    }

    private static let aliased: JSON = [
        "issuer": "https://id.example.com", "token_endpoint": "https://id.example.com/token",
        "userinfo_endpoint": "https://id.example.com/userinfo",
        "mtls_endpoint_aliases": ["token_endpoint": "https://mtls.example.com/token"],
    ]

    /// RFC 8705 section 5.
    @Test func mtlsAliasesReplaceTheMatchingEndpoints() throws {
        let metadata = try ProviderMetadata(Self.aliased).withMTLSEndpointAliases()
        #expect(metadata.tokenEndpoint?.url == "https://mtls.example.com/token")
        #expect(metadata.userInfoEndpoint?.url == "https://id.example.com/userinfo")
    }

    @Test func anMTLSAliasDoesNotReplaceAConfiguredEndpoint() throws {
        var metadata = try ProviderMetadata(Self.aliased)
        metadata.tokenEndpoint = "https://own.example.com/token"
        #expect(try metadata.withMTLSEndpointAliases().tokenEndpoint?.url == "https://own.example.com/token")
    }

    @Test(
        arguments: [
            ["token_endpoint": "http://example.com/token"], ["token_endpoint": 5],
            ["token_endpoint": "https://127.0.0.1/token"],
        ] as [JSON]
    ) func rejectsAnInvalidMTLSEndpointAlias(_ aliases: JSON) throws {
        var json = Self.aliased.object ?? [:]
        json["mtls_endpoint_aliases"] = aliases
        let metadata = try ProviderMetadata(.object(json))
        expectError(.discoveryFailed) { try metadata.withMTLSEndpointAliases() }
    }
}
