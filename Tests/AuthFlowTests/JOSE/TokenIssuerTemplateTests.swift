import AuthFlow
import AuthFlowJSON
import Expectations
import Testing

/// The issuers in the tokens of a multi-tenant server.
@Suite struct TokenIssuerTemplateTests {
    private func template(_ tenants: [String]? = nil) throws -> TokenIssuerTemplate {
        try TokenIssuerTemplate("https://id.example.com/{tenantid}/v2.0", claim: "tid", tenants: tenants)
    }

    @Test func rejectsATemplateWithoutAClaim() {
        expectError(.invalidConfiguration) { try TokenIssuerTemplate("https://id.example.com/{t}", claim: "") }
    }

    @Test(arguments: ["one", "9188040d-6c67-4c5b-b112-36a304b66dad", String(repeating: "a", count: 64)])
    func theIssuerOfATokenContainsItsTenant(_ tenant: String) throws {
        #expect(try template().issuer(for: ["tid": .string(tenant)]) == "https://id.example.com/\(tenant)/v2.0")
    }

    /// The holder of a token must not be able to choose another path on the server.
    @Test(
        arguments: [
            [:], ["other": "one"], ["tid": .null], ["tid": 1], ["tid": ""], ["tid": "one/two"], ["tid": "one?"],
            ["tid": ".."], ["tid": "%6Fne"], ["tid": "on\u{E9}"], ["tid": .string(String(repeating: "a", count: 65))],
        ] as [JSON]
    ) func aTokenWithoutAValidTenantHasNoIssuer(_ claims: JSON) throws {
        #expect(try template().issuer(for: claims) == nil)
    }

    @Test func aTokenOfAnUnlistedTenantHasNoIssuer() throws {
        #expect(try template(["one"]).issuer(for: ["tid": "one"]) == "https://id.example.com/one/v2.0")
        #expect(try template(["one"]).issuer(for: ["tid": "two"]) == nil)
    }

    @Test(
        arguments: [
            ("https://id.example.com/one/v2.0", true), ("https://id.example.com/two/v2.0", false),
            ("https://ix.example.com/one/v2.0", false), ("https://id.example.com/one/v1.0", false),
        ] as [(String, Bool)]
    ) func coversTheIssuersOfListedTenants(_ issuer: String, _ isCovered: Bool) throws {
        #expect(try template(["one"]).covers(issuer) == isCovered)
    }

    @Test(
        arguments: [
            ("https://id.example.com/one/v2.0", true), ("https://ix.example.com/one/v2.0", false),
            ("https://id.example.com/one/v1.0", false), ("https://id.example.com/one/two/v2.0", false),
            ("https://id.example.com//v2.0", false), ("https://id.example.com/v2.0", false),
        ] as [(String, Bool)]
    ) func coversTheIssuersOfAllTenantsWhenNoneAreListed(_ issuer: String, _ isCovered: Bool) throws {
        #expect(try template().covers(issuer) == isCovered)
    }
}
