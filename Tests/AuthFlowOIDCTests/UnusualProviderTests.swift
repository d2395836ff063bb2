import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import HTTPTypes
import Testing

/// Providers with rare but unambiguous behavior.
@Suite struct UnusualProviderTests {
    struct Quirk: CustomTestStringConvertible {
        let name: String
        let fault: EmulatorFault
        var testDescription: String { name }
    }

    private static func withMark(_ response: inout TransportResponse) {
        response.body = [0xEF, 0xBB, 0xBF] + response.body
    }

    @Test(arguments: [
        Quirk(name: "tokens with status 201", fault: .tokenResponse(.response { $0.head.status = .created })),
        Quirk(name: "tokens after a byte order mark", fault: .tokenResponse(.response(withMark))),
        Quirk(name: "metadata after a byte order mark", fault: .metadata(.response(withMark))),
        Quirk(name: "keys after a byte order mark", fault: .jwks(.response(withMark))),
        Quirk(name: "an empty error together with tokens", fault: .tokenResponse(.member("error", ""))),
        Quirk(name: "an empty URL for a missing endpoint", fault: .metadata(.member("revocation_endpoint", ""))),
    ]) func signsInAndRefreshes(_ quirk: Quirk) async throws {
        let time = VirtualTime()
        try await EmulatorScene.with(.inProcess, now: { time.now }) { scene in
            scene.emulator.fault = quirk.fault
            var registration = try EmulatorScene.registration()
            registration.scopes.append("offline_access")
            let client = try scene.client(
                registration: registration,
                host: time.host
            )
            let first = try await client.signIn().credential.tokens
            time.advance(by: .seconds(scene.emulator.accessTokenLifetime + 1))
            let second = try await client.freshTokens()
            #expect(second.accessToken != first.accessToken && second.refreshToken != first.refreshToken)
        }
    }

    /// RFC 6749 section 5.2 defines a description for developers. Some servers copy received values into it.
    @Test(arguments: ["json", "challenge", "page"]) func whatAServerRepeatsOfARequestIsNotShown(_ place: String)
        async throws
    {
        let origin = "https://id.example.com"
        let metadata = #"{"issuer": "\#(origin)", "revocation_endpoint": "\#(origin)/revoke"}"#
        let transport = InProcessTransport(origin: origin) { request, body in
            var head = HTTPResponse(status: .ok)
            head.headerFields[.contentType] = "application/json"
            guard request.path == "/revoke" else { return TransportResponse(head: head, body: Array(metadata.utf8)) }
            head.status = .badRequest
            let echo = String(decoding: body, as: UTF8.self) + " " + (request.headerFields[.authorization] ?? "")
            switch place {
            case "challenge":
                head.headerFields[.wwwAuthenticate] = #"Bearer error="invalid_request", error_description="\#(echo)""#
                return TransportResponse(head: head, body: [])
            case "page": return TransportResponse(head: head, body: Array(#"{"message": "\#(echo)"}"#.utf8))
            default:
                let error: JSON = ["error": "invalid_grant", "error_description": .string(echo)]
                return TransportResponse(head: head, body: (try? error.serialized()) ?? [])
            }
        }
        let client = OAuthClient(
            server: AuthorizationServer(OIDCProvider(issuer: origin), transport: transport),
            registration: try ClientRegistration(clientID: "client") {
                $0.authentication = .clientSecretBasic(Secret("the+client/secret"))
            }
        )
        let secrets = ["a/token+of-a-user", "a%2Ftoken%2Bof-a-user", #"a\/token+of-a-user"#, "the+client"]
        let error = await #expect(throws: AuthError.self) {
            try await client.revoke([RevocableToken(Secret(secrets[0]))])
        }
        let shown = "\(error as Any) \(error?.providerError?.errorDescription ?? "")"
        #expect(shown.contains("<redacted>"))
        let basic = Base64URL.encode(Array("client:the%2Bclient%2Fsecret".utf8)).prefix(20)
        for secret in secrets + [String(basic)] { #expect(!shown.contains(secret), "\(shown)") }
    }
}
