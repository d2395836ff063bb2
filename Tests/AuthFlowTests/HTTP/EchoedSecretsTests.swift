import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes
import Testing

@testable import AuthFlowResourceClient

@Suite struct EchoedSecretsTests {
    private func redacted(
        _ body: String,
        status: HTTPResponse.Status = .badRequest,
        sent: FormParameters = ["refresh_token": "a/refresh+token=="],
        authorization: String? = nil,
        type: String = "application/json"
    ) throws -> String {
        var request = TransportRequest(
            .post,
            Endpoint("https://id.example.com/token"),
            body: Array(FormURLEncoding.encodeForm(sent).utf8)
        )
        request.head.headerFields[.authorization] = authorization
        var head = HTTPResponse(status: status)
        head.headerFields[.contentType] = type
        let response = TransportResponse(head: head, body: Array(body.utf8))
        return String(decoding: response.redactingSecrets(of: request).body, as: UTF8.self)
    }

    @Test(arguments: [
        #"{"error":"invalid_grant","error_description":"bad a/refresh+token=="}"#,
        #"{"error":"invalid_grant","error_description":"bad a\/refresh\u002btoken\u003d="}"#,
        #"{"error":"invalid_grant","error_description":"bad a%2Frefresh%2Btoken%3D%3D"}"#,
        #"{"error":"invalid_grant","error_description":"a/refresh+token==\u0301"}"#,
        #"{"error":"the token a/refresh+token== is bad"}"#, #"{"errors":[{"message":"a/refresh+token=="}]}"#,
    ]) func redactsRequestSecretsInErrorResponses(_ body: String) throws {
        for status in [HTTPResponse.Status.badRequest, .internalServerError] {
            let text = try redacted(body, status: status)
            let json = try JSON(parsing: Array(text.utf8))
            #expect(text.contains("redacted") && !"\(json)".contains("refresh"), "\(text)")
        }
    }

    @Test(arguments: [
        #"{"error":"invalid_token","error_description":"token abc.def-ghi is not valid here"}"#,
        #"{"message":"abc.def-ghi"}"#, #"{"error":"abc.def-ghi"}"#,
        #"{"error":"x","error_description":"bad abc.def-ghi","access_token":1}"#,
    ]) func redactsTheAccessTokenInProtectedResourceErrors(_ body: String) {
        let response = TransportResponse(head: HTTPResponse(status: .badRequest), body: Array(body.utf8))
        let words = response.providerError(redacting: [Secret("abc.def-ghi")]).map { "\($0)" }
        #expect(words?.contains("<redacted>") == true)
        #expect(words?.contains("abc") == false)
    }

    /// Only the beginning of a long secret is compared at each position of the text.
    @Test(
        arguments: [
            // One secret in two encodings.
            ["refresh_token": "\(header)/payload+signature=="],
            // Two tokens with the same header.
            ["subject_token": "\(header).payload-a", "actor_token": "\(header).payload"],
        ] as [FormParameters]
    ) func aLongSecretIsRedactedCompletely(_ sent: FormParameters) throws {
        for secret in sent.pairs.map(\.value) {
            let body: JSON = ["error": "invalid_grant", "error_description": .string("bad \(secret) token")]
            let text = try redacted(String(decoding: try body.serialized(), as: UTF8.self), sent: sent)
            #expect(try JSON(parsing: Array(text.utf8))["error_description"]?.string == "bad <redacted> token")
        }
    }

    @Test("The ID Token in a pushed authorization request is redacted in the error response")
    func redactsAPushedIDTokenHint() throws {
        let text = try redacted(
            #"{"error":"invalid_request","error_description":"id_token_hint eyJhbGciOi.e30.c2ln is expired"}"#,
            sent: ["id_token_hint": "eyJhbGciOi.e30.c2ln", "scope": "openid"]
        )
        let description = try JSON(parsing: Array(text.utf8))["error_description"]?.string
        #expect(description == "id_token_hint <redacted> is expired")
    }

    private static let header = String(repeating: "eyJhbGciOiJSUzI1NiJ9", count: 4)

    @Test func redactsSecretsOfAJSONRequestBodyInErrorMessages() throws {
        let body: JSON = ["access_token": "abc.def-ghi", "note": "visible"]
        let request = TransportRequest(
            .delete,
            Endpoint("https://api.example.com/token"),
            body: try body.serialized()
        )
        let answer = Array(#"{"message":"bad {\"access_token\": \"abc.def-ghi\", \"note\": \"visible\"}"}"#.utf8)
        let response = TransportResponse(head: HTTPResponse(status: .badRequest), body: answer)
        let words = response.redactingSecrets(of: request).providerError.map { "\($0)" }
        #expect(words?.contains("<redacted>") == true && words?.contains("visible") == true)
        #expect(words?.contains("abc") == false)
    }

    /// The default error response of a web framework names the status instead of an OAuth error.
    @Test(arguments: [
        (404, #"{"status":404,"error":"Not Found","message":"No route","path":"/x"}"#, "status 404" as String?),
        (401, #"{"error":"Unauthorized"}"#, nil), (400, #"{"error":"Bad Request"}"#, nil),
        (400, #"{"error":"Not Found"}"#, "Not Found"), (400, #"{"error":"invalid_grant"}"#, "invalid_grant"),
    ])
    func anHTTPReasonPhraseIsNotUsedAsAnErrorCode(_ status: Int, _ body: String, _ expected: String?) {
        let response = TransportResponse(
            head: HTTPResponse(status: .init(code: status)),
            body: Array(body.utf8)
        )
        #expect(response.providerError?.error == expected)
    }

    @Test func redactsRequestSecretsInAnErrorWithStatus200() throws {
        let body = #"{"error":"bad_refresh_token","error_description":"a/refresh+token=="}"#
        #expect(try redacted(body, status: .ok).contains("<redacted>"))
    }

    @Test func doesNotRedactTokensInATokenResponse() throws {
        for member in ["", #","error":null"#, #","error":"""#] {
            let body = #"{"access_token":"x","refresh_token":"a/refresh+token=="\#(member)}"#
            #expect(try redacted(body, status: .ok) == body)
        }
    }

    /// Programs parse these values, so they must stay unchanged even if the client's secret is a dictionary word.
    @Test(arguments: ["client", "invalid", "message", "pending", "authorization", "server_error"])
    func doesNotRedactErrorCodesAndMemberNames(_ secret: String) throws {
        for code in ["invalid_client", "authorization_pending", "server_error", "invalid_grant"] {
            let body = #"{"error":"\#(code)","message":"m"}"#
            #expect(try redacted(body, sent: ["client_secret": secret]) == body)
        }
    }

    /// A provider can choose any value for its tokens.
    @Test(.timeLimit(.minutes(1)), arguments: ["redacted", "<redacted>", "edacte"])
    func redactionHandlesATokenContainedInThePlaceholder(_ token: String) throws {
        let body = #"{"error":"invalid_grant","error_description":"\#(token) \#(token)"}"#
        let text = try redacted(body, sent: ["refresh_token": token, "code": "redact"])
        #expect(text == #"{"error":"invalid_grant","error_description":"<redacted> <redacted>"}"#)
    }

    @Test func redactsTheClientSecretSentInTheBasicHeader() throws {
        let basic = "Basic " + Data("client:hunter22%2Fx".utf8).base64EncodedString()
        for shown in ["hunter22/x", "hunter22%2Fx", String(basic.dropFirst(6))] {
            let body = #"{"error":"invalid_client","error_description":"not \#(shown)"}"#
            let text = try redacted(body, sent: [:], authorization: basic)
            #expect(text.contains("not <redacted>") && text.contains("invalid_client"), "\(text)")
        }
    }

    @Test func redactsRequestSecretsInFormEncodedErrors() throws {
        let form = "error=invalid_grant&error_description=a%2Frefresh%2Btoken%3D%3D+is+bad"
        let text = try redacted(form, type: "application/x-www-form-urlencoded")
        #expect(text == "error=invalid_grant&error_description=%3Credacted%3E+is+bad")
    }

    /// The formats in which a server can report an error, whatever its status.
    @Test(
        arguments: [
            ("application/json", #"{"\u0065rror":"invalid_grant","error_description":"bad a/refresh+token=="}"#),
            (
                "application/json",
                #"{"access_token":"x","error":"invalid_grant","error_description":"bad a/refresh+token=="}"#
            ),
            ("application/json", #"{"error":"a/refresh+token==","error_uri":"https://x/?t=a/refresh+token=="}"#),
            (
                "application/x-www-form-urlencoded",
                "error=invalid_grant&error_description=bad+a%2Frefresh%2Btoken%3D%3D"
            ),
        ],
        [HTTPResponse.Status.ok, .badRequest, .unauthorized]
    )
    func theErrorOfAReceivedResponseContainsNoRequestSecrets(
        _ body: (type: String, text: String),
        _ status: HTTPResponse.Status
    ) async throws {
        let request = TransportRequest(
            .post,
            Endpoint("https://id.example.com/token"),
            body: Array(FormURLEncoding.encodeForm(["refresh_token": "a/refresh+token=="]).utf8)
        )
        let received = try await ExchangeLimits.send(
            request,
            by: Echo { _ in
                TransportResponse(
                    head: HTTPResponse(status: status, headerFields: [.contentType: body.type]),
                    body: Array(body.text.utf8)
                )
            },
            clock: ContinuousClock()
        )
        let response = ProviderResponse(purpose: .refresh, endpoint: "https://id.example.com/token", http: received)
        let error = received.providerError(in: try response.parameters())
        #expect(error.map { "\($0) \($0.errorURI ?? "")" }?.contains("<redacted>") == true)
        #expect(error.map { "\($0) \($0.errorURI ?? "")" }?.contains("refresh") == false)
        let other = received.providerError
        #expect(other.map { "\($0)" }?.contains("refresh") != true)
    }

    /// The provider chooses the authorization code and the text, so the redaction time must not be proportional to the
    /// product of their lengths.
    @Test(.timeLimit(.minutes(1)), arguments: [0, 100, 4000])
    func aLongSecretIsRedactedInALongText(_ offset: Int) async throws {
        let secret = String(repeating: "a", count: 60_000) + "b"
        let request = TransportRequest(
            .post,
            Endpoint("https://id.example.com/token"),
            body: Array(FormURLEncoding.encodeForm(["code": secret]).utf8)
        )
        let text = String(repeating: "x", count: offset) + String(repeating: "a", count: 1_000_000)
        let body = try JSON.object(["error": "invalid_grant", "error_description": .string(text)]).serialized()
        let received = try await ExchangeLimits.send(
            request,
            by: Echo { _ in
                TransportResponse(
                    head: HTTPResponse(status: .badRequest, headerFields: [.contentType: "application/json"]),
                    body: body
                )
            },
            clock: ContinuousClock()
        )
        let description = try #require(received.providerError?.errorDescription)
        #expect(description == String(repeating: "x", count: offset) + "<redacted>")
    }

    /// The text is truncated before it is redacted.
    @Test func aSecretAtTheEndOfAShortenedTextIsRedacted() async throws {
        let request = TransportRequest(
            .post,
            Endpoint("https://id.example.com/token"),
            body: Array(FormURLEncoding.encodeForm(["code": "the-authorization-code"]).utf8)
        )
        let text = String(repeating: "x", count: 4086) + "the-authorization-code"
        let body = try JSON.object(["error": "invalid_grant", "error_description": .string(text)]).serialized()
        let received = try await ExchangeLimits.send(
            request,
            by: Echo { _ in TransportResponse(head: HTTPResponse(status: .badRequest), body: body) },
            clock: ContinuousClock()
        )
        let description = try #require(received.providerError?.errorDescription)
        #expect(description == String(repeating: "x", count: 4086) + "<redacted>")
    }

    @Test(arguments: ["body", "challenge"])
    func theErrorOfADeletedRegistrationContainsNoRegistrationAccessToken(_ location: String) async throws {
        let token = "registration-access-token"
        let stored = try #require(
            StoredRegistration([
                "issuer": "https://id.example.com", "client_id": "c", "redirect_uris": ["http://127.0.0.1/callback"],
                "registered_at": 1, "token_endpoint_auth_method": "none",
                "registration_client_uri": "https://id.example.com/clients/c",
                "registration_access_token": .string(token),
            ])
        )
        let echo = Echo { request in
            let authorization = request.head.headerFields[.authorization] ?? ""
            var head = HTTPResponse(status: .badRequest)
            var body: JSON = [:]
            if location == "body" {
                body = ["error": "invalid_request", "error_description": .string(authorization)]
            } else {
                head.headerFields[.wwwAuthenticate] =
                    #"Bearer error="invalid_request", error_description="\#(authorization)""#
            }
            return TransportResponse(head: head, body: (try? body.serialized()) ?? [])
        }
        let error = await #expect(throws: AuthError.self) { try await stored.unregister(transport: echo) }
        #expect(error?.providerError?.error == "invalid_request")
        #expect(error.map { "\($0)" }?.contains(token) == false)
    }
}

/// A provider with one response to every request.
private struct Echo: HTTPTransport {
    let response: @Sendable (TransportRequest) -> TransportResponse

    init(_ response: @escaping @Sendable (TransportRequest) -> TransportResponse) { self.response = response }

    func send(_ call: TransportRequest) async throws -> TransportResponse { response(call) }
}
