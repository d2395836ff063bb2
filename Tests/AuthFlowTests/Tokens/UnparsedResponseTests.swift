import AuthFlow
import Testing

@testable import AuthFlowOAuth

/// Tokens in a response that is not acceptable JSON.
@Suite struct UnparsedResponseTests {
    @Test(
        arguments: [
            (#"{"a":1,"a":2, "refresh_token" : "new"}"#, "new"), (#"{"refresh_token":"a","refresh_token":"b"}"#, nil),
            (#"{"access_token":"new"}"#, nil), (#"{"refresh_token","new"}"#, nil), (#"{"refresh_token":5new"}"#, nil),
            (#"{"refresh_token":""}"#, nil), (#"{"refresh_token":"ne\u0077"}"#, nil), (#"{"refresh_token":"new"#, nil),
        ] as [(String, String?)]
    )
    func findsATokenOnlyIfItIsUnambiguous(_ body: String, _ token: String?) {
        #expect(UnparsedResponse(body: Array(body.utf8)).token("refresh_token")?.exposed == token)
    }
}
