import AuthFlow
import Expectations
import Testing

@testable import AuthFlowOAuth

@Suite struct AuthenticationDemandTests {
    @Test func readsMaxAgeAndEssentialClaims() throws {
        #expect(try AuthenticationDemand(["scope": "openid"]) == AuthenticationDemand())
        #expect(try AuthenticationDemand(["max_age": "0"]).maximumAge == 0)
        let claims = #"{"id_token":{"acr":{"essential":true,"values":["a","b"]},"auth_time":{"essential":true}}}"#
        let demand = try AuthenticationDemand(["claims": claims])
        #expect(demand.essentialACRValues == ["a", "b"])
        #expect(demand.maximumAge == .infinity)
        #expect(try AuthenticationDemand(["claims": claims, "max_age": "60"]).maximumAge == 60)
        let one = #"{"id_token":{"acr":{"essential":true,"value":"a"}}}"#
        #expect(try AuthenticationDemand(["claims": one]).essentialACRValues == ["a"])
        let any = #"{"id_token":{"acr":{"essential":true}}}"#
        #expect(try AuthenticationDemand(["claims": any]).essentialACRValues == [])
        // Only essential claims are requirements (OIDC Core section 5.5.1).
        let voluntary = #"{"id_token":{"acr":{"values":["a"]},"auth_time":null}}"#
        #expect(try AuthenticationDemand(["claims": voluntary]) == AuthenticationDemand())
    }

    @Test(
        arguments: [["max_age": "-1"], ["max_age": "soon"], ["max_age": ""], ["claims": "{"], ["claims": ""]]
            as [FormParameters]
    )
    func rejectsMalformedMaxAgeAndClaims(_ parameters: FormParameters) {
        expectError(.invalidConfiguration) { try AuthenticationDemand(parameters) }
    }
}
