import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes
import Testing

@testable import AuthFlowHTTP
@testable import AuthFlowJOSE
@testable import AuthFlowOAuth
@testable import AuthFlowResourceClient
@testable import AuthFlowSignIn
@testable import AuthFlowTransport

/// Text whose grapheme clusters (Swift's `Character`) differ from its code points: a combining mark merges with the
/// separator before it, and a letter such as U+0D4E merges with the code point after it.
@Suite struct HostileTextTests {
    static let joiners = ["\u{0301}", "\u{0D4E}", "\u{200D}", "\u{FE0F}", "\u{0600}"]

    @Test(arguments: joiners) func escapesHTMLByCodePoints(_ joiner: String) {
        for text in ["\(joiner)<meta>\(joiner)", "\"\(joiner) onload=x", "<\(joiner)b>\(joiner)&\(joiner)'\(joiner)"] {
            let escaped = DisplayText.escapedForHTML(text).unicodeScalars
            for scalar in "<>\"'".unicodeScalars { #expect(!escaped.contains(scalar)) }
            #expect(
                escaped.filter { $0 == "&" }.count
                    == text.unicodeScalars.filter { "<>\"'&".unicodeScalars.contains($0) }.count
            )
        }
    }

    @Test(arguments: joiners) func redactsURLsByCodePoints(_ joiner: String) {
        for url in [
            "https://id.example.com/cb?\(joiner)code=hunter2", "https://id.example.com/cb?code=\(joiner)hunter2",
            "https://id.example.com/cb#\(joiner)code=hunter2", "https://id.example.com/cb?a=1&\(joiner)code=hunter2",
            "https://alice:hunter2@\(joiner)id.example.com/", "https://id.example.com/code=\(joiner)hunter2",
        ] {
            #expect(!Redaction.url(url).contains("hunter2"), "\(url)")
        }
    }

    @Test(arguments: joiners) func splitsFormsByBytes(_ joiner: String) throws {
        let encoded = "a=1&\(joiner)state=x&b=\(joiner)2"
        let parameters = try #require(FormURLEncoding.decode(encoded))
        #expect(parameters.pairs.count == 3)
        #expect(parameters["a"] == "1")
        #expect(parameters["b"]?.unicodeScalars.last == "2")
    }

    @Test(arguments: joiners) func redactsCookieValues(_ joiner: String) {
        var response = TransportResponse(head: HTTPResponse(status: .ok))
        response.head.headerFields.append(HTTPField(name: .setCookie, value: "session=\(joiner)hunter2; Path=/"))
        let shown = RedactedMessage(response).parameters.map { "\($0.name) \($0.value)" }.joined()
        #expect(!shown.contains("hunter2"))
    }

    @Test func showsOnlyTheLengthOfAQueryThatCannotBeDecoded() {
        let shown = RedactedMessage(visit: "https://id.example.com/cb?code=hunter2%zz").parameters
        #expect(shown.map { "\($0.name) \($0.value)" } == ["(not a form) (15 characters)"])
    }

    @Test func rejectsARedirectThatIsNotAValidURI() {
        #expect(RedirectResponse.encoded(in: "app.x:/cb?\u{0301}&state=s", at: "app.x:/cb", .query) == nil)
        #expect(RedirectResponse.encoded(in: "app.x:/cb?state=s", at: "app.x:/cb", .query) == "state=s")
    }

    @Test func comparesTextByCodePoints() throws {
        // K is the normal form of the Kelvin sign, and é is the normal form of e with a combining accent.
        for (left, right) in [("K", "\u{212A}"), ("\u{E9}", "e\u{301}"), ("\u{212B}", "A\u{30A}")] {
            #expect(left == right)
            #expect(!left.isIdentical(to: right))
            #expect(JSON.string(left) != JSON.string(right))
            #expect(JSON.object([left: 1]) != JSON.object([right: 1]))
            #expect(JSON.object([left: 1])[right] == nil)
            #expect(Identity(issuer: "i", subject: left) != Identity(issuer: "i", subject: right))
            #expect(Identity(issuer: left, subject: "s") != Identity(issuer: right, subject: "s"))
        }
        #expect(throws: JSONError.self) { try JSON(parsing: Array(#"{"é": 1, "\#("e\u{301}")": 2}"#.utf8)) }
    }

    @Test func findsARepeatedNameInOnePass() {
        var parameters = FormParameters()
        for number in 0..<20_000 { parameters.append("p\(number)", "") }
        #expect(parameters.repeatedName == nil)
        parameters.append("p7", "")
        #expect(parameters.repeatedName == "p7")
    }

    struct RefusedTokens: CustomTestStringConvertible {
        let name: String
        let change: @Sendable (inout TokenSet) -> Void
        var testDescription: String { name }
    }

    static let refusedTokens: [RefusedTokens] = [
        RefusedTokens(name: "escape", change: { $0.accessToken = Secret("a\u{1B}[2J") }),
        RefusedTokens(name: "bell", change: { $0.accessToken = Secret("a\u{7}") }),
        RefusedTokens(name: "line break", change: { $0.accessToken = Secret("a\nb") }),
        RefusedTokens(name: "C1", change: { $0.accessToken = Secret("a\u{9B}31m") }),
        RefusedTokens(name: "letter", change: { $0.accessToken = Secret("aé") }),
        RefusedTokens(name: "refresh token", change: { $0.refreshToken = Secret("\u{202E}") }),
        RefusedTokens(name: "type", change: { $0.tokenType = "Bea\u{0}rer" }),
        RefusedTokens(name: "type with a space", change: { $0.tokenType = "Bearer x" }),
        RefusedTokens(name: "scope", change: { $0.scopes = ["a\"b"] }),
        RefusedTokens(name: "scope with a combining mark", change: { $0.scopes = ["a\u{301}"] }),
        RefusedTokens(name: "device secret", change: { $0.deviceSecret = Secret("\u{7F}") }),
        RefusedTokens(name: "ID Token", change: { $0.idToken = Secret("é.b.c") }),
    ]

    @Test(arguments: refusedTokens) func rejectsTokensWithForbiddenCharacters(
        _ test: RefusedTokens
    ) throws {
        var tokens = TokenSet(accessToken: Secret("a b~"), refreshToken: Secret("r"), scopes: ["openid", "a:b/c"])
        try tokens.requireTransportableCharacters()
        test.change(&tokens)
        let error = #expect(throws: AuthError.self) { try tokens.requireTransportableCharacters() }
        #expect(error?.code == .invalidResponse)
    }

    // MARK: Challenges

    struct Challenge: CustomTestStringConvertible {
        let field: String
        let expected: [AuthenticationChallenge]
        var testDescription: String { field }
    }

    static let challenges: [Challenge] = [
        Challenge(field: "Basic realm=\"x\"", expected: [.init(scheme: "basic", parameters: ["realm": "x"])]),
        Challenge(
            field: #"Bearer error="invalid_token", error_description="It, \"has\" expired=", realm=x"#,
            expected: [
                .init(
                    scheme: "bearer",
                    parameters: ["error": "invalid_token", "error_description": #"It, "has" expired="#, "realm": "x"]
                )
            ]
        ),
        Challenge(
            field: #"Negotiate, Basic realm="a", DPoP algs="ES256", error=use_dpop_nonce"#,
            expected: [
                .init(scheme: "negotiate", parameters: [:]), .init(scheme: "basic", parameters: ["realm": "a"]),
                .init(scheme: "dpop", parameters: ["algs": "ES256", "error": "use_dpop_nonce"]),
            ]
        ),
        Challenge(
            field: "NTLM TlRMTVNTUAAB==, Bearer",
            expected: [.init(scheme: "ntlm", token68: "TlRMTVNTUAAB=="), .init(scheme: "bearer")]
        ),
        Challenge(field: "Bearer error = \"x\"", expected: [.init(scheme: "bearer", parameters: ["error": "x"])]),
        Challenge(field: ", ,Bearer", expected: [.init(scheme: "bearer", parameters: [:])]),
        Challenge(field: "", expected: []), Challenge(field: "\"", expected: []),
        Challenge(field: #"Bearer error="never ends"#, expected: []),
        Challenge(field: "Bearer error=\"a\", ERROR=\"b\", Basic", expected: [.init(scheme: "basic")]),
        Challenge(
            field: #"Bearer x_scope="no", error_description="need scope=x, Basic y=", scope="a b""#,
            expected: [
                .init(
                    scheme: "bearer",
                    parameters: ["x_scope": "no", "error_description": "need scope=x, Basic y=", "scope": "a b"]
                )
            ]
        ),
        Challenge(
            field: "Bearer resource_metadata=https://a.example/x?y=1, scope=z",
            expected: [
                .init(scheme: "bearer", parameters: ["resource_metadata": "https://a.example/x?y=1", "scope": "z"])
            ]
        ),
        Challenge(field: "Bearer , , realm = x", expected: [.init(scheme: "bearer", parameters: ["realm": "x"])]),
        Challenge(
            field: "Basic QWxh==, Bearer a=b",
            expected: [.init(scheme: "basic", token68: "QWxh=="), .init(scheme: "bearer", parameters: ["a": "b"])]
        ),
        Challenge(
            field: "Basic QWxh=a, Bearer",
            expected: [.init(scheme: "basic", parameters: ["qwxh": "a"]), .init(scheme: "bearer")]
        ),
        Challenge(field: "Bearer,realm=x", expected: [.init(scheme: "bearer")]),
        Challenge(field: "Bearer a b c", expected: []),
        Challenge(field: "Bearer a=\"b\"c=d", expected: []),
    ]

    @Test(arguments: challenges)
    func parsesAuthenticationChallenges(_ test: Challenge) {
        var response = TransportResponse(head: HTTPResponse(status: .unauthorized))
        response.head.headerFields[.wwwAuthenticate] = test.field
        let found = AuthenticationChallenge.challenges(in: response)
        #expect(found == test.expected)
    }

    @Test func anUnterminatedChallengeDoesNotHideChallengesInOtherFields() {
        var fields = HTTPFields()
        fields[values: .wwwAuthenticate] = ["Basic realm=\"x", "", "DPoP", "Bearer scope=\"a\"", "realm=y"]
        #expect(
            AuthenticationChallenge.challenges(in: fields) == [
                .init(scheme: "dpop"), .init(scheme: "bearer", parameters: ["scope": "a", "realm": "y"]),
            ]
        )
    }

    @Test(arguments: [("\", DPoP", ["bearer"]), ("DPoP", ["dpop", "bearer"])])
    func aTrailingEscapeDoesNotContinueIntoTheNextField(_ next: String, _ schemes: [String]) {
        var fields = HTTPFields()
        fields[values: .wwwAuthenticate] = ["Basic realm=\"x\\", next, "Bearer"]
        #expect(AuthenticationChallenge.challenges(in: fields) == schemes.map { AuthenticationChallenge(scheme: $0) })
    }

    @Test(arguments: [(16384, 1), (16385, 0)])
    func ignoresAChallengeFieldThatIsTooLong(_ length: Int, _ count: Int) {
        let start = "DPoP a=\""
        var response = TransportResponse(head: HTTPResponse(status: .unauthorized))
        response.head.headerFields[.wwwAuthenticate] =
            start + String(repeating: "x", count: length - start.utf8.count - 1) + "\""
        #expect(AuthenticationChallenge.challenges(in: response).count == count)
    }

    @Test(.timeLimit(.minutes(1)), arguments: [",", "a ", "a=", "a=b,", "a \"", "a b=\"\\"])
    func parsesLongChallengesInBoundedTime(_ part: String) {
        let fields = [String](repeating: String(repeating: part, count: 8000 / part.utf8.count), count: 100)
        var response = TransportResponse(head: HTTPResponse(status: .unauthorized))
        response.head.headerFields[values: .wwwAuthenticate] = fields
        _ = AuthenticationChallenge.challenges(in: response)
    }

    struct Words: CustomTestStringConvertible {
        let body: String
        let field: String?
        let expected: String?
        var testDescription: String { body }
    }

    static let words: [Words] = [
        Words(body: #"{"error": "slow", "error_description": "Later."}"#, field: nil, expected: "slow: Later."),
        Words(
            body: #"{"message": "Resource protected by organization SAML enforcement."}"#,
            field: nil,
            expected: "status 403: Resource protected by organization SAML enforcement."
        ),
        Words(body: #"{"error": {"code": 403, "message": "No."}}"#, field: nil, expected: "status 403: No."),
        Words(body: #"{"errors": [{"message": "one"}, "two"]}"#, field: nil, expected: "status 403: one; two"),
        Words(body: #"{"title": "Forbidden"}"#, field: nil, expected: "status 403: Forbidden"),
        Words(body: "<html>", field: nil, expected: nil), Words(body: "[]", field: nil, expected: nil),
        Words(
            body: "",
            field: #"Bearer error="insufficient_scope", error_description="Needs gist.""#,
            expected: "insufficient_scope: Needs gist."
        ),
    ]

    @Test(arguments: words) func extractsTheErrorMessageFromAResponse(_ test: Words) {
        var response = TransportResponse(head: HTTPResponse(status: .forbidden), body: Array(test.body.utf8))
        response.head.headerFields[.wwwAuthenticate] = test.field
        #expect(response.providerError.map { "\($0)" } == test.expected)
    }

    @Test func theServersErrorAppearsOnlyOnceInADescription() {
        let denied = ProviderError(error: "access_denied", errorDescription: "No.")
        let error = AuthError(.accessDenied, "No user is signed in.", providerError: denied)
        #expect("\(error)" == "No user is signed in. (the server returned: access_denied: No.)")
        let quoted = AuthError(.accessDenied, "The server returned access_denied: No.", providerError: denied)
        #expect("\(quoted)" == "The server returned access_denied: No.")
    }

    @Test(arguments: [
        (#"{"error": "invalid_request", "reason": "Invalid Token!"}"#, "invalid_request: Invalid Token!"),
        (#"{"error": "invalid_request", "message": "No token."}"#, "invalid_request: No token."),
        (#"{"error": "bad", "error_description": "First.", "reason": "Second."}"#, "bad: First."),
        (#"{"error": "bad", "error_description": null, "reason": {"code": 5}}"#, "bad"),
    ]) func findsTheDescriptionOfAnErrorInMembersThatProvidersUse(_ body: String, _ words: String) {
        let response = TransportResponse(head: HTTPResponse(status: .badRequest), body: Array(body.utf8))
        #expect(response.providerError.map { "\($0)" } == words)
    }

    @Test(
        "The message states no retry delay of zero",
        arguments: ["0", "Thu, 01 Jan 2026 00:00:00 GMT"],
        [HTTPResponse.Status.tooManyRequests, .serviceUnavailable]
    )
    func statesNoRetryDelayOfZero(_ retryAfter: String, _ status: HTTPResponse.Status) throws {
        var response = TransportResponse(head: HTTPResponse(status: status))
        response.head.headerFields[.retryAfter] = retryAfter
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        let error = #expect(throws: AuthError.self) { try response.requireAvailable(from: "api", now: now) }
        #expect(error?.retryAfter == .zero)
        #expect(error?.message.hasSuffix("Try again later.") == true, "\(error as Any)")
    }

    @Test func reportsServerErrorsAndRateLimitsWithTheRetryDelay() throws {
        var limited = TransportResponse(
            head: HTTPResponse(status: .tooManyRequests),
            body: Array(#"{"message": "Too fast."}"#.utf8)
        )
        limited.head.headerFields[.retryAfter] = "17"
        let error = #expect(throws: AuthError.self) { try limited.requireAvailable(from: "api", now: Date()) }
        #expect(error.map { "\($0)" }?.contains("Try again in 17 s.") == true)
        #expect(error.map { "\($0)" }?.contains("Too fast.") == true)
        // No header field identifies GitHub's secondary rate limit.
        let named = TransportResponse(
            head: HTTPResponse(status: .forbidden),
            body: Array(#"{"message": "You have exceeded a secondary rate limit."}"#.utf8)
        )
        let secondary = #expect(throws: AuthError.self) { try named.requireAvailable(from: "api", now: Date()) }
        #expect(secondary?.code == .temporarilyUnavailable)
        // The response of Google's device authorization endpoint.
        let coded = TransportResponse(
            head: HTTPResponse(status: .forbidden),
            body: Array(#"{"error_code": "rate_limit_exceeded"}"#.utf8)
        )
        let exceeded = #expect(throws: AuthError.self) { try coded.requireAvailable(from: "api", now: Date()) }
        #expect(exceeded?.code == .temporarilyUnavailable)
        #expect(exceeded?.message.contains("limits the request rate") == true)
        let broken = TransportResponse(head: HTTPResponse(status: .badGateway))
        let fault = #expect(throws: AuthError.self) { try broken.requireAvailable(from: "api", now: Date()) }
        #expect(fault?.message.contains("server error (status 502)") == true)
        // Some servers send these errors with status 400.
        let busy = TransportResponse(
            head: HTTPResponse(status: .badRequest),
            body: Array(#"{"error": "temporarily_unavailable"}"#.utf8)
        )
        let wait = #expect(throws: AuthError.self) { try busy.requireAvailable(from: "api", now: Date()) }
        #expect(wait?.code == .temporarilyUnavailable)
        // Some servers send all OAuth errors with status 500.
        try TransportResponse(
            head: HTTPResponse(status: .internalServerError),
            body: Array(#"{"error": "invalid_grant"}"#.utf8)
        )
        .requireAvailable(from: "api", now: Date())
        // A response without an error status is a result, whatever its members are called.
        try TransportResponse(
            head: HTTPResponse(status: .ok),
            body: Array(#"{"error": "temporarily_unavailable"}"#.utf8)
        )
        .requireAvailable(from: "api", now: Date())
    }

    /// Envoy sends the number of seconds until the reset, GitHub the time of the reset.
    @Test(arguments: ["45", "1800000045"]) func readsTheDelayOrTheTimeOfTheNextReset(_ reset: String) throws {
        var head = HTTPResponse(status: .tooManyRequests)
        for (name, value) in ["X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset] {
            head.headerFields[try #require(HTTPField.Name(name))] = value
        }
        let limited = TransportResponse(head: head)
        let error = #expect(throws: AuthError.self) {
            try limited.requireAvailable(from: "api", now: Date(timeIntervalSince1970: 1_800_000_000))
        }
        #expect(error?.retryAfter == .seconds(45))
    }

    /// This machine's clock may be wrong by hours, or start in 1970, and the response contains the server's time. If the server's clock is wrong, so is
    /// the retry time.
    @Test(arguments: [-7200, 0, 7200, -1_800_000_000, 172_800] as [Double])
    func computesTheDelayUntilARetryTimeByTheServersClock(_ offset: Double) throws {
        let serverTime = Date(timeIntervalSince1970: 1_800_000_000)
        for fields in [
            ["Retry-After": HTTPDate.text(serverTime + 45)],
            ["X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1800000045"],
        ] {
            var head = HTTPResponse(status: .tooManyRequests, headerFields: [.date: HTTPDate.text(serverTime)])
            for (name, value) in fields { head.headerFields[try #require(HTTPField.Name(name))] = value }
            let limited = TransportResponse(head: head)
            let error = #expect(throws: AuthError.self) {
                try limited.requireAvailable(from: "api", now: serverTime + offset)
            }
            #expect(error?.retryAfter == .seconds(45), "\(fields)")
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func rejectsTextWithExcessiveCombiningMarksWhenParsing() throws {
        let marks = String(repeating: "\u{301}", count: 100_000) + String(repeating: "\u{323}", count: 100_000)
        #expect(FormURLEncoding.decode("\(marks)=1&access_token=a&\(marks)=2") == nil)
        #expect(FormURLEncoding.decode("a=\(FormURLEncoding.encode(marks))") == nil)
        #expect(FormURLEncoding.decode("a=\(FormURLEncoding.encode(marks))", displaying: ["a"]) == nil)
        var head = ResponseHead()
        try head.read("HTTP/1.1 200 OK\r\n".utf8)
        try head.read(
            "Content-Type: \(marks.prefix(10_000).unicodeScalars.prefix(10_000).map(String.init).joined())\r\n".utf8
        )
        #expect(throws: ResponseHead.Fault.self) { try head.read("\r\n".utf8) }
        #expect(FormURLEncoding.decode("name=Vie\u{323}\u{302}t")?["name"] != nil)
    }

    /// A backslash that escapes a mark is not part of the value.
    @Test func ignoresAChallengeParameterWithExcessiveEscapedCombiningMarks() {
        let marks = Array(repeating: "\\\u{301}", count: 200).joined()
        let response = TransportResponse(
            head: HTTPResponse(
                status: .unauthorized,
                headerFields: [.wwwAuthenticate: "Bearer error=\"\(marks)\""]
            )
        )
        #expect(AuthenticationChallenge.challenges(in: response).allSatisfy { $0.parameters["error"] == nil })
    }
}
