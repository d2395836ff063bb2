import AuthFlow
import Expectations
import Testing

@testable import AuthFlowOAuth

@Suite struct AuthenticationRequirementsTests {
    @Test func readsMaxAgeAndEssentialClaims() throws {
        #expect(try AuthenticationRequirements(["scope": "openid"]) == AuthenticationRequirements())
        #expect(try AuthenticationRequirements(["max_age": "0"]).maximumAge == 0)
        let claims = #"{"id_token":{"acr":{"essential":true,"values":["a","b"]},"auth_time":{"essential":true}}}"#
        let requirements = try AuthenticationRequirements(["claims": claims])
        #expect(requirements.essentialACRValues == ["a", "b"])
        #expect(requirements.maximumAge == .infinity)
        #expect(try AuthenticationRequirements(["claims": claims, "max_age": "60"]).maximumAge == 60)
        let one = #"{"id_token":{"acr":{"essential":true,"value":"a"}}}"#
        #expect(try AuthenticationRequirements(["claims": one]).essentialACRValues == ["a"])
        let any = #"{"id_token":{"acr":{"essential":true}}}"#
        #expect(try AuthenticationRequirements(["claims": any]).essentialACRValues == [])
        // Only essential claims are requirements (OIDC Core section 5.5.1).
        let voluntary = #"{"id_token":{"acr":{"values":["a"]},"auth_time":null}}"#
        #expect(try AuthenticationRequirements(["claims": voluntary]) == AuthenticationRequirements())
    }

    /// OIDC Core section 5.5.1: `value` and `values` need not be essential.
    @Test func readsTheRequestedSubject() throws {
        func subjects(_ claims: String) throws -> [String]? {
            try AuthenticationRequirements(["claims": claims]).subjects
        }
        #expect(try subjects(#"{"id_token":{"sub":{"value":"a"}}}"#) == ["a"])
        #expect(try subjects(#"{"userinfo":{"sub":{"values":["a","b"]}}}"#) == ["a", "b"])
        #expect(try subjects(#"{"id_token":{"sub":{"values":["a","b"]}},"userinfo":{"sub":{"value":"b"}}}"#) == ["b"])
        #expect(try subjects(#"{"id_token":{"sub":{"value":"a"}},"userinfo":{"sub":{"value":"b"}}}"#) == [])
        #expect(try subjects(#"{"id_token":{"sub":null},"userinfo":{"sub":{"essential":true}}}"#) == nil)
    }

    @Test(
        arguments: [["max_age": "-1"], ["max_age": "soon"], ["max_age": ""], ["claims": "{"], ["claims": ""]]
            as [FormParameters]
    )
    func rejectsMalformedMaxAgeAndClaims(_ parameters: FormParameters) {
        expectError(.invalidConfiguration) { try AuthenticationRequirements(parameters) }
    }

    /// Otherwise, a weaker authentication would be accepted.
    @Test(arguments: [
        #""acr":{"essential":true,"values":"gold"}"#, #""acr":{"essential":true,"values":[1]}"#,
        #""acr":{"essential":true,"values":[]}"#, #""acr":{"essential":true,"value":1}"#,
        #""acr":{"essential":"true","value":"gold"}"#, #""auth_time":{"essential":1}"#, #""sub":{"value":1}"#,
        #""sub":{"values":[]}"#,
    ])
    func rejectsAnEssentialClaimThatCannotBeChecked(_ claim: String) {
        expectError(.invalidConfiguration) { try AuthenticationRequirements(["claims": "{\"id_token\":{\(claim)}}"]) }
    }
}
