import AuthFlow
import AuthFlowHeadless
import AuthFlowOIDC
import AuthFlowResourceServer
import Foundation
import HTTPTypes
import Testing

/// Sign-in at an idpyoidc provider by a client configured from a file. Run by `Tests/Interop/idpyoidc.sh`, which starts
/// the provider.
@Suite(.serialized, .enabled(if: ProcessInfo.processInfo.environment["AUTHFLOW_IDPYOIDC_ISSUER"] != nil))
struct IdpyoidcTests {
    private let environment = ProcessInfo.processInfo.environment

    private func client(_ members: String = "", audience: String = "endpoint") throws -> AuthClient {
        let issuer = try #require(environment["AUTHFLOW_IDPYOIDC_ISSUER"])
        let redirectURI = try #require(environment["AUTHFLOW_IDPYOIDC_REDIRECT"])
        let key = try #require(environment["AUTHFLOW_IDPYOIDC_KEY"])
        // This provider accepts only the endpoint's URL as the audience of an assertion, and also requires some of the
        // pushed parameters in the authorization request.
        let configuration = """
            {"profiles": {"idpyoidc": {
              "provider": "oidc", "issuer": "\(issuer)", "client_id": "authflow", "client_key": "\(key)",
              "client_assertion_audience": "\(audience)", "par": "always",
              "par_repeats": ["response_type", "scope", "redirect_uri"],
              "scopes": ["openid", "profile"],
              "redirect_uri": "\(redirectURI)", "store": "memory", \(members)
              "user_agent": {"name": "headless", "username": "diana", "password": {"env": "NONE"}, "origins": ["\(issuer)"]}
            }}}
            """
        return try AuthClient(
            profile: try ConfigurationFile(text: Array(configuration.utf8)).profile(),
            providers: [.oidc],
            userAgents: [.headless],
            host: HostServices(environment: ["NONE": "none"])
        )
    }

    @Test(arguments: [
        "", #""signed_requests": true,"#,
        #""signed_requests": true, "encrypted_requests": {"algorithm": "RSA-OAEP-256", "content": "A256GCM"},"#,
    ])
    func signsInWithAPushedRequestAndAPrivateKey(_ members: String) async throws {
        let client = try client(members)
        let credential = try await client.signIn().credential
        #expect(credential.identity?.displayName == "Diana Krall")
        #expect(try await client.userInfo()["name"] == "Diana Krall")
    }

    /// The provider rejects an assertion whose audience is its issuer. The error message contains that audience.
    @Test func theErrorDescribesTheRejectedClientAssertion() async throws {
        let client = try client(audience: "issuer")
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        let issuer = try #require(environment["AUTHFLOW_IDPYOIDC_ISSUER"])
        #expect(error?.message.contains("the audience \"\(issuer)\"") == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("interop-client") == true)
    }

    /// The provider's access tokens are JWTs that do not conform to RFC 9068: no `typ`, and the client as the audience.
    @Test func idpyoidcAccessTokensAreAcceptedOnlyWithRiskyAnyJWT() async throws {
        let issuer = try #require(environment["AUTHFLOW_IDPYOIDC_ISSUER"])
        let tokens = try await client().signIn().credential.tokens
        let token = tokens.accessToken.exposed
        func authorize(_ type: TrustedIssuer.TokenType, _ token: String) async throws -> Authorization {
            let server = TrustedIssuer(AuthorizationServer(issuer: issuer), audiences: ["authflow"], tokenType: type)
            var request = HTTPRequest(method: .get, scheme: "https", authority: "api.example.com", path: "/")
            request.headerFields[.authorization] = "Bearer \(token)"
            return try await ResourceServer("https://api.example.com", issuers: [server]).authorize(request)
        }
        await #expect(throws: Rejection.self) { _ = try await authorize(.accessToken, token) }
        #expect(try await authorize(.riskyAnyJWT, token).clientID == "authflow")
        // The ID Token has the access token's issuer, audience and signing key, but must be rejected.
        let idToken = try #require(tokens.idToken?.exposed)
        let parts = token.split(separator: ".").map(String.init)
        let changed = Base64URL.encode(#"{"iss":"\#(issuer)","aud":"authflow","exp":99000000000,"sub":"eve"}"#.utf8)
        for refused in [idToken, "\(parts[0]).\(changed).\(parts[2])"] {
            await #expect(throws: Rejection.self) { _ = try await authorize(.riskyAnyJWT, refused) }
        }
    }
}
