import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Foundation
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
    ]) func signsInAndRefreshesDespiteHarmlessProviderQuirks(_ quirk: Quirk) async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            environment.emulator.fault = quirk.fault
            var registration = try EmulatorEnvironment.registration()
            registration.scopes.append("offline_access")
            let client = try environment.client(
                registration: registration,
                host: time.host
            )
            let first = try await client.signIn().credential.tokens
            time.advance(by: .seconds(environment.emulator.accessTokenLifetime + 1))
            let second = try await client.freshTokens()
            #expect(second.accessToken != first.accessToken && second.refreshToken != first.refreshToken)
        }
    }

    /// RFC 6749 section 5.1: the provider "SHOULD provide the expiration time via other means or document the default value".
    @Test(arguments: [Duration.seconds(7200), nil]) func aDocumentedLifetimeAppliesToTokensWithoutOne(
        _ lifetime: Duration?
    )
        async throws
    {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            var registration = try EmulatorEnvironment.registration()
            registration.defaultTokenLifetime = lifetime
            let client = try environment.client(registration: registration, host: time.host)
            let expiry = try await client.signIn().credential.tokens.expiresAt
            environment.emulator.fault = .tokenResponse(.member("expires_in", nil))
            let withoutLifetime = try await client.signIn().credential.tokens.expiresAt
            #expect(
                withoutLifetime
                    == lifetime.map { time.host.wholeSecond.addingTimeInterval(Double($0.components.seconds)) }
            )
            #expect(
                expiry == time.host.wholeSecond.addingTimeInterval(Double(environment.emulator.accessTokenLifetime))
            )
        }
    }

    /// Mailchimp and VK send 0 for a token that does not expire.
    @Test(arguments: [
        ["openid"], ["openid", "offline_access"],
    ]) func aLifetimeOfZeroMeansUnlimitedIfOnlyASignInCouldReplaceTheToken(_ scopes: [String]) async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .tokenResponse(.member("expires_in", 0))
            var registration = try EmulatorEnvironment.registration()
            registration.scopes = scopes
            let client = try environment.client(registration: registration)
            let tokens = try await client.signIn().credential.tokens
            #expect((tokens.expiresAt == nil) == (tokens.refreshToken == nil))
            let fresh = try await client.freshTokens()
            #expect((fresh == tokens) == (tokens.refreshToken == nil))
        }
    }

    @Test func aDocumentedLifetimeMustBePositive() {
        expectError(.invalidConfiguration) {
            try ClientRegistration(clientID: "app") { $0.defaultTokenLifetime = .zero }
        }
    }

    /// Azure AD B2C issues this subject to every user of an older policy.
    @Test func rejectsASubjectThatAllUsersShare() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .idToken(.claim("sub", "Not supported currently. Use oid claim."))
            var registration = try EmulatorEnvironment.registration()
            registration.scopes = ["openid"]
            let adapter = OIDCProvider(issuer: environment.emulator.issuer)
            let client = try environment.client(registration: registration, adapter: adapter)
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .invalidIDToken && error?.message.contains("same subject for every user") == true)
        }
    }

    @Test(arguments: ["bot", "User Access Token", nil])
    func acceptsAConfiguredTokenTypeAsABearerToken(_ type: String?) async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .tokenResponse(.member("token_type", type.map(JSON.string)))
            let refused = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(refused?.message.contains("bearer_token_types") == true)
            var registration = try EmulatorEnvironment.registration()
            registration.bearerTokenTypes = [type ?? ""]
            let tokens = try await environment.client(registration: registration).signIn().credential.tokens
            #expect(tokens.tokenType == "Bearer")
        }
    }

    @Test(arguments: ["DPoP", "mac", "N_A"]) func nonBearerTokenTypesCannotBeConfiguredAsBearerTokens(_ type: String)
        throws
    {
        #expect(throws: AuthError.self) {
            try ClientRegistration(clientID: "client") { $0.bearerTokenTypes = [type] }
        }
    }

    /// Azure AD B2C uses the tenant's ID in the issuer, but publishes the metadata document at a URL that contains the tenant's name.
    @Test func usesAConfiguredMetadataURLAndStillVerifiesTheIssuer() async throws {
        let issuer = "https://id.example.com/1234/v2.0/"
        let place = "https://id.example.com/contoso/sign-in/v2.0/.well-known/openid-configuration"
        let transport = InProcessTransport(origin: "https://id.example.com") { request, _ in
            guard request.path?.hasPrefix("/contoso/") == true else {
                return TransportResponse(head: HTTPResponse(status: .notFound))
            }
            return TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                body: Array(#"{"issuer": "\#(issuer)", "token_endpoint": "https://id.example.com/token"}"#.utf8)
            )
        }
        let wrong = OIDCProvider(issuer: String(place.dropLast("/.well-known/openid-configuration".count)))
        let error = await #expect(throws: AuthError.self) {
            try await AuthorizationServer(wrong, transport: transport).metadata()
        }
        #expect(error?.code == .issuerMismatch && error?.message.contains("metadata_url") == true)
        let provider = OIDCProvider(issuer: issuer, metadataURL: try Endpoint(place))
        let metadata = try await AuthorizationServer(provider, transport: transport).metadata()
        #expect(metadata.tokenEndpoint?.url == "https://id.example.com/token")
        let other = OIDCProvider(issuer: "https://evil.example.com", metadataURL: try Endpoint(place))
        await expectError(.issuerMismatch) { try await AuthorizationServer(other, transport: transport).metadata() }
    }

    @Test func nonStandardTokenErrorsIncludeTheClientAuthenticationHint() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let emulator = environment.emulator
            emulator.customResponse = { exchange in
                guard exchange.request.path == "/token" else { return exchange.response }
                return TransportResponse(
                    head: HTTPResponse(status: .badRequest, headerFields: [.contentType: "application/json"]),
                    body: Array(#"{"status": 400, "message": "missing client id"}"#.utf8)
                )
            }
            emulator.fault = .metadata(.member("token_endpoint_auth_methods_supported", ["client_secret_post"]))
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.message.contains("client_secret_post") == true, "\(error as Any)")
        }
    }

    /// RFC 6749 section 5.2 defines `error_description` for developers. Some servers copy received values into it.
    @Test(arguments: ["json", "challenge", "page"]) func redactsRequestSecretsEchoedInErrorResponses(_ place: String)
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

    /// RFC 8414 section 2: `revocation_endpoint_auth_methods_supported` and `introspection_endpoint_auth_methods_supported`.
    @Test(
        arguments: [
            (["client_secret_basic"], ["client_secret_post"], false),
            (["client_secret_post"], ["client_secret_basic"], true),
            (["client_secret_post"], nil, false), (["client_secret_post"], [], false),
        ] as [([String], [String]?, Bool)]
    )
    func authenticatesAtEachEndpointAsItsMetadataRequires(
        _ atTokenEndpoint: [String],
        _ own: [String]?,
        _ usesHeader: Bool
    ) async throws {
        let origin = "https://id.example.com"
        var metadata: [String: JSON] = [
            "issuer": .string(origin), "revocation_endpoint": .string("\(origin)/endpoint"),
            "introspection_endpoint": .string("\(origin)/endpoint"),
            "token_endpoint_auth_methods_supported": .array(atTokenEndpoint.map(JSON.string)),
        ]
        for name in ["revocation", "introspection"] {
            metadata["\(name)_endpoint_auth_methods_supported"] = own.map { .array($0.map(JSON.string)) }
        }
        let document = try JSON.object(metadata).serialized()
        let transport = InProcessTransport(origin: origin) { request, body in
            let head = HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"])
            guard request.path == "/endpoint" else { return TransportResponse(head: head, body: document) }
            let form = FormURLEncoding.decode(String(decoding: body, as: UTF8.self))
            #expect((request.headerFields[.authorization] != nil) == usesHeader)
            #expect((form?["client_secret"] == nil) == usesHeader)
            return TransportResponse(head: head, body: Array(#"{"active": true}"#.utf8))
        }
        let client = OAuthClient(
            server: AuthorizationServer(OIDCProvider(issuer: origin), transport: transport),
            registration: try ClientRegistration(clientID: "client") {
                $0.authentication = .clientSecret(Secret("secret"))
            }
        )
        try await client.revoke([RevocableToken(Secret("token"))])
        #expect(try await client.introspect(Secret("token"))["active"] == true)
    }

    /// RFC 7009 section 2.2.1 refers to RFC 6749 section 5.2, whose errors have status 400. With any other status, the error may refer to the
    /// request instead of the token.
    @Test(arguments: [(400, true), (401, false), (403, false), (503, false)])
    func anInvalidTokenErrorMeansThatTheTokenIsRevokedOnlyWithStatus400(_ status: Int, _ isRevoked: Bool) async throws {
        let origin = "https://id.example.com"
        let metadata = #"{"issuer": "\#(origin)", "revocation_endpoint": "\#(origin)/revoke"}"#
        let transport = InProcessTransport(origin: origin) { request, _ in
            var head = HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"])
            guard request.path == "/revoke" else { return TransportResponse(head: head, body: Array(metadata.utf8)) }
            head.status = .init(code: status)
            return TransportResponse(head: head, body: Array(#"{"error": "invalid_token"}"#.utf8))
        }
        let client = OAuthClient(
            server: AuthorizationServer(OIDCProvider(issuer: origin), transport: transport),
            registration: try ClientRegistration(clientID: "client")
        )
        do {
            try await client.revoke([RevocableToken(Secret("token"))])
            #expect(isRevoked)
        } catch {
            #expect(!isRevoked)
        }
    }
}
