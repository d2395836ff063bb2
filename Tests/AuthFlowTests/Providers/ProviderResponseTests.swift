import AuthFlow
import AuthFlowJSON
import HTTPTypes
import Testing

/// Provider responses, in the two formats that providers use.
@Suite struct ProviderResponseTests {
    private func response(_ body: [UInt8], mediaType: String = "application/x-www-form-urlencoded") throws
        -> ProviderResponse
    {
        ProviderResponse(
            purpose: .token,
            endpoint: Endpoint("https://id.example.com/token"),
            http: TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: mediaType]),
                body: body
            )
        )
    }

    @Test func readsFormEncodedResponses() throws {
        let parameters = try response(Array("access_token=a%20b&scope=".utf8)).parameters()
        #expect(parameters == ["access_token": "a b", "scope": ""])
    }

    @Test(arguments: [
        Array("a=%".utf8), Array("a=%FF".utf8), [0xFF], Array("a=1&a=2".utf8), Array("a=1&b=2&%61=1".utf8),
    ])
    func rejectsMalformedFormEncodedResponses(_ body: [UInt8]) throws {
        let response = try response(body)
        let error = #expect(throws: AuthError.self) { try response.parameters() }
        #expect(error?.code == .invalidResponse)
    }

    @Test(arguments: ["", "[]", "\"a\"", "{", "{\"a\":1,\"a\":2}", "a=1"])
    func rejectsAJSONResponseThatIsNotAValidObject(_ body: String)
        throws
    {
        let response = try response(Array(body.utf8), mediaType: "application/json")
        let error = #expect(throws: AuthError.self) { try response.parameters() }
        #expect(error?.code == .invalidResponse)
    }
}
