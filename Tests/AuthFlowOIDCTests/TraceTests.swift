import AuthFlow
import AuthFlowTesting
import AuthFlowTrace
import ConformanceRows
import Expectations
import HTTPTypes
import Synchronization
import Testing

/// A transport that records every value it sends or receives, so that the test can search for it afterwards.
private final class ValueCollector: HTTPTransport {
    private let base: any HTTPTransport
    private let seen = Mutex<Set<String>>([])

    init(_ base: any HTTPTransport) { self.base = base }

    /// The values that look like secrets: long values that are not dictionary words.
    var secrets: Set<String> {
        seen.withLock { $0 }.filter { $0.count >= 16 && $0.contains { $0.isNumber || $0.isUppercase } }
    }

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        let response = try await base.send(call)
        let texts = [
            String(decoding: call.body, as: UTF8.self), String(decoding: response.body, as: UTF8.self), call.url,
        ]
        for text in texts {
            let words = text.split { !($0.isLetter || $0.isNumber || "-_.".contains($0)) }
            seen.withLock { $0.formUnion(words.map(String.init)) }
        }
        return response
    }
}

@Suite struct TraceTests {
    @Test func tracesASignInWithItsChecksAndWithoutSecrets() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let trace = FlowTrace()
            let collector = ValueCollector(environment.transport)
            let client = try environment.client(transport: trace.transport(collector), observer: trace.observer)
            let tokens = try await client.signIn().credential.tokens
            let page = trace.html(title: "A <login>")
            #expect(page.contains("A &lt;login&gt;"))
            for words in [
                "app → provider</b> GET https://id.example.com/.well-known/openid-configuration",
                "app → provider</b> POST https://id.example.com/token",
                "redirect with code state iss",
                "authorization response: state <cite>RFC 6749 section 10.12</cite>",
                "authorization response: iss <cite>RFC 9207 section 2.4</cite>",
                "ID Token validation: nonce <cite>OpenID Connect Core section 3.1.3.7, item 11</cite>",
                "ID Token validation: at_hash <cite>OpenID Connect Core section 3.1.3.8</cite>",
                "ID Token validation: signature <cite>OpenID Connect Core section 3.1.3.7, item 6</cite>",
                "<dt>code_verifier</dt><dd>(43 characters)</dd>",
                "<dt>grant_type</dt><dd>authorization_code</dd>",
                "✓ storing",
            ] { #expect(page.contains(words), "\(words)") }
            #expect(!page.contains(tokens.accessToken.exposed))
            // The page contains no transmitted value that looks like a secret.
            #expect(collector.secrets.count >= 5)
            for secret in collector.secrets { #expect(!page.contains(secret), "\(secret)") }
        }
    }

    @Test func tracesTheCheckThatEndedASignIn() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let trace = FlowTrace()
            environment.emulator.fault = .idToken(.wrongNonce)
            let client = try environment.client(
                transport: trace.transport(environment.transport),
                observer: trace.observer
            )
            await expectError(.invalidIDToken) { try await client.signIn() }
            let page = trace.html()
            #expect(page.contains("✗ ID Token validation: invalid_id_token"))
            // The checks before the nonce check succeeded, and the nonce check failed.
            #expect(page.contains("ID Token validation: iat "))
            #expect(!page.contains("ID Token validation: nonce "))
        }
    }

    @Test func redactsEveryValueThatCouldBeSecret() throws {
        let call = TransportRequest(
            .post,
            Endpoint("https://id.example.com/token?session=ABCDEF"),
            headerFields: [
                .contentType: "application/x-www-form-urlencoded", .authorization: "Basic c2VjcmV0",
                .cookie: "sid=secret",
            ],
            body: Array("grant_type=refresh_token&refresh_token=SECRET&client_secret=SECRET&x%0Ay=SECRET".utf8)
        )
        let shown = "\(RedactedMessage(call))"
        for secret in ["SECRET", "ABCDEF", "c2VjcmV0", "sid=secret"] { #expect(!shown.contains(secret)) }
        #expect(shown.contains("refresh_token"))
        let response = TransportResponse(
            head: HTTPResponse(
                status: .found,
                headerFields: [
                    .location: "https://app.example.com/callback?code=SECRET&state=SECRET", .setCookie: "sid=SECRET",
                ]
            ),
            body: Array(#"{"access_token": "SECRET", "nested": {"id_token": "SECRET"}, "n": 12345}"#.utf8)
        )
        #expect(!"\(RedactedMessage(response))".contains("SECRET"))
        #expect(!"\(RedactedMessage(response))".contains("12345"))
        // A byte order mark is accepted, as it is by the readers of responses.
        let marked = TransportResponse(head: HTTPResponse(status: .ok), body: Array("\u{FEFF}{\"issuer\": \"a\"}".utf8))
        #expect(RedactedMessage(marked).parameters.map(\.name) == ["issuer"])
        #expect(!"\(RedactedMessage(visit: "https://id.example.com/a#id_token=SECRET&%FF=SECRET"))".contains("SECRET"))
        let ticket = RedactedMessage(visit: "https://id.example.com/resume?SECRET&scope=openid").parameters
        #expect(ticket.map(\.name) == ["(no name)", "scope"])
        #expect(ticket.map(\.value) == ["(6 characters)", "openid"])
    }
}
