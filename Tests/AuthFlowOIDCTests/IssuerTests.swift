import AuthFlow
import AuthFlowJSON
import AuthFlowLoopback
import AuthFlowOIDC
import AuthFlowTesting
import ConformanceRows
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Issuers are never confused with one another, and their metadata is read from the specified URL.
@Suite struct IssuerTests {
    @Test func neverSendsATokenToAnotherIssuer() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            _ = try await environment.client(store: store).signIn()
            let other = try OIDCEmulator(issuer: "https://other.example.com")
            let client = try EmulatorEnvironment(other).client(store: store)
            let error = await #expect(throws: AuthError.self) { try await client.userInfo() }
            #expect(error?.code == .loginRequired)
            #expect(!other.requests.contains("GET /userinfo"))
        }
    }

    @Test func rejectsTheAuthorizationResponseOfAnotherProvider() async throws {
        // The mix-up attack of RFC 9700 section 4.4: the user signs in at one provider, and the response is delivered
        // to a sign-in at another provider, which would then receive the code.
        let (honest, evil) = (
            EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com")),
            EmulatorEnvironment(try OIDCEmulator(issuer: "https://evil.example.com"))
        )
        let wanted = try await honest.client().beginSignIn()
        let response = try await honest.visit(wanted.url)
        let client = try evil.client()
        let other = try await client.beginSignIn()
        func state(_ pending: AuthorizationRequest) throws -> String {
            try #require(FormURLEncoding.decode(pending.url.drop { $0 != "?" }.dropFirst())?["state"])
        }
        let mixed = response.replacing(try state(wanted), with: try state(other))
        let error = await #expect(throws: AuthError.self) { try await client.finishSignIn(other, with: mixed) }
        #expect(error?.code == .issuerMismatch)
        #expect(!evil.emulator.requests.contains("POST /token"))
    }

    @Test func neverSendsARefreshTokenToAnotherIssuer() async throws {
        let store = MemoryTokenStore()
        var settings = try EmulatorEnvironment.registration()
        settings.scopes.append("offline_access")
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        _ = try await environment.client(registration: settings, store: store).signIn()
        let other = EmulatorEnvironment(try OIDCEmulator(issuer: "https://other.example.com"))
        let client = try other.client(registration: settings, store: store)
        let error = await #expect(throws: AuthError.self) { try await client.refresh() }
        #expect(error?.code == .loginRequired)
        #expect(!other.emulator.requests.contains("POST /token"))
    }

    @Test func findsTheMetadataOfAnOAuthServer() async throws {
        // RFC 8414 section 3.1: the well-known path component is inserted between the host and the path.
        let paths = Mutex<[String]>([])
        let transport = InProcessTransport(origin: "https://id.example.com") { request, _ in
            paths.withLock { $0.append(request.path ?? "") }
            guard request.path == "/.well-known/oauth-authorization-server/tenant" else {
                return TransportResponse(head: HTTPResponse(status: .notFound))
            }
            return TransportResponse(
                head: HTTPResponse(status: .ok),
                body: Array(
                    #"{"issuer":"https://id.example.com/tenant","token_endpoint":"https://id.example.com/t"}"#.utf8
                )
            )
        }
        let client = AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(
                    OIDCProvider(issuer: "https://id.example.com/tenant"),
                    transport: transport
                ),
                registration: try ClientRegistration(clientID: "c")
            ),
            methods: [.userAgent(LoopbackUserAgent(launcher: nil))]
        )
        #expect(try await client.metadata().tokenEndpoint?.url == "https://id.example.com/t")
        #expect(
            paths.withLock { $0 } == [
                "/tenant/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/tenant",
            ]
        )
    }

    @Test(arguments: ["?tenant=1", "/.well-known/openid-configuration"])
    func rejectsAnIssuerWithAQueryOrAWellKnownPath(_ suffix: String) async throws {
        // RFC 8414 section 2.
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let client = try environment.client(
                adapter: OIDCProvider(issuer: "\(environment.emulator.issuer)\(suffix)")
            )
            let error = await #expect(throws: AuthError.self) { try await client.metadata() }
            #expect(error?.code == .invalidConfiguration)
            #expect(environment.emulator.requests.isEmpty)
        }
    }

    @Test func metadataRequestsDoNotFollowRedirects() async throws {
        // Row O11.
        let transport = InProcessTransport(origin: "https://id.example.com") { _, _ in
            TransportResponse(
                head: HTTPResponse(status: .found, headerFields: [.location: "https://evil.example.com/"])
            )
        }
        let client = AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(OIDCProvider(issuer: "https://id.example.com"), transport: transport),
                registration: try ClientRegistration(clientID: "c")
            ),
            methods: [.userAgent(LoopbackUserAgent(launcher: nil))]
        )
        let error = await #expect(throws: AuthError.self) { try await client.metadata() }
        #expect(error?.code == .discoveryFailed)
    }
}
