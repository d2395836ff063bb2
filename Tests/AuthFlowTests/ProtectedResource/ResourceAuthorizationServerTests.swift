import AuthFlow
import AuthFlowJSON
import Synchronization
import Testing

@testable import AuthFlowHTTP
@testable import AuthFlowOAuth
@testable import AuthFlowResourceClient

/// Mix-up defense (RFC 9700 section 4.4) against authorization servers that protected resource metadata contains.
@Suite struct ResourceAuthorizationServerTests {
    private static let issuer = "https://id.example"

    struct Server: CustomTestStringConvertible {
        let testDescription: String
        var authorizationEndpoint = "https://id.example/authorize"
        var redirectURI = "http://127.0.0.1/callback"
        var namesIssuer = false
        var isListed = false
        let isAccepted: Bool
    }

    private static let ownRedirectURI = "http://127.0.0.1/callback\(RedirectURI.pathSegment(of: issuer))"

    @Test(arguments: [
        Server(testDescription: "a shared redirect URI", isAccepted: false),
        Server(testDescription: "a redirect URI for this server", redirectURI: ownRedirectURI, isAccepted: true),
        Server(
            testDescription: "an endpoint at another origin",
            authorizationEndpoint: "https://other.example/authorize",
            redirectURI: ownRedirectURI,
            isAccepted: false
        ),
        Server(
            testDescription: "responses that contain iss",
            authorizationEndpoint: "https://other.example/authorize",
            namesIssuer: true,
            isAccepted: true
        ),
        Server(
            testDescription: "a trusted issuer",
            authorizationEndpoint: "https://other.example/authorize",
            isListed: true,
            isAccepted: true
        ),
    ]) func rejectsAnAuthorizationServerWithoutAMixUpDefense(_ test: Server) throws {
        let metadata = try ProviderMetadata([
            "issuer": .string(Self.issuer), "authorization_endpoint": .string(test.authorizationEndpoint),
            "token_endpoint": "https://id.example/token",
            "authorization_response_iss_parameter_supported": .bool(test.namesIssuer),
        ])
        let server = ResourceAuthorizationServer(issuer: Self.issuer, isAssumed: false, isListed: test.isListed)
        let result = Result { () throws(AuthError) in
            try server.requireMixUpDefense(metadata, redirectURI: test.redirectURI)
            if test.isListed || test.namesIssuer { try server.requireOwnEndpoints(metadata) }
        }
        guard case .failure(let error) = result else {
            #expect(test.isAccepted)
            return
        }
        #expect(!test.isAccepted && error.code == .unsupported, "\(error)")
    }

    struct Device: CustomTestStringConvertible {
        let testDescription: String
        var purpose = ProviderRequest.Purpose.deviceAuthorization
        var isListed = false
        let isAccepted: Bool
    }

    @Test(arguments: [
        Device(testDescription: "the device authorization endpoint", isAccepted: false),
        Device(testDescription: "the token endpoint", purpose: .token, isAccepted: true),
        Device(testDescription: "that of a trusted issuer", isListed: true, isAccepted: true),
    ]) func aDeviceAuthorizationEndpointAtAnotherOriginIsRejected(_ test: Device) async throws {
        let server = ResourceAuthorizationServer(issuer: Self.issuer, isAssumed: false, isListed: test.isListed)
        let client = OAuthClient(
            server: AuthorizationServer(server),
            registration: try ClientRegistration(clientID: "client")
        )
        var request = ProviderRequest(
            purpose: test.purpose,
            endpoint: "https://other.example/device",
            parameters: [:],
            protectedParameters: [:]
        )
        do {
            try await server.prepare(&request, in: client.providerContext)
            #expect(test.isAccepted)
        } catch let error as AuthError {
            #expect(!test.isAccepted && error.code == .unsupported)
        }
    }

    @Test(arguments: [
        ("http://127.0.0.1/callback", true), ("com.example.app:/callback", true),
        ("https://app.example/callback", false), ("com.example.app:/callback?a=b", false),
    ]) func aRedirectURIIsDistinctPerIssuerIfItCanBeVaried(_ uri: String, _ isVaried: Bool) throws {
        let redirectURI = try RedirectURI(uri)
        #expect((redirectURI.own(for: Self.issuer) != redirectURI) == isVaried)
    }

    /// A resource can name another server in every response.
    @Test func theNumberOfSharedServersIsLimited() throws {
        let client = try ResourceClient("https://api.example/mcp", methods: [], store: MemoryTokenStore())
        let last = (0..<100).map { client.server("https://id\($0).example") }.last
        let count = client.state.withLock { $0.servers.count }
        #expect(count <= 8)
        #expect(client.server("https://id99.example") === last)
    }
}
