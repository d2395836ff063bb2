import AuthFlow
import AuthFlowJSON
import AuthFlowLoopback
import AuthFlowOIDC
import AuthFlowTesting
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowHeadless
@testable import AuthFlowIssuer
@testable import AuthFlowOAuth
@testable import AuthFlowResourceClient

/// Host names that resolve to addresses outside the allowed network reach.
@Suite struct ConnectionReachTests {
    private func serve<Return: Sendable>(_ body: (Int) async throws -> Return) async throws -> (Return, requests: Int) {
        let requests = Mutex(0)
        let result = try await LoopbackServer.run(host: "127.0.0.1", port: nil) { _ in
            { _, _ in
                requests.withLock { $0 += 1 }
                return TransportResponse(head: HTTPResponse(status: .ok))
            }
        } _: { port in
            try await body(port)
        }
        return (result, requests.withLock { $0 })
    }

    private func limited(_ url: String, to reach: NetworkReach) throws -> TransportRequest {
        var request = TransportRequest(.get, try Endpoint(url))
        request.allowedReach = reach
        return request
    }

    @Test(arguments: ["127.0.0.1", "localhost"])
    func doesNotConnectToAHostThatResolvesToLoopback(_ host: String) async throws {
        let (_, requests) = try await serve { port in
            let request = try limited("http://\(host):\(port)/", to: .privateNetwork)
            let error = await #expect(throws: AuthError.self) { try await CurlTransport().send(request) }
            #expect(error?.code == .networkFailed)
            #expect(error?.message.contains("resolves to a loopback") == true, "\(error as Any)")
        }
        #expect(requests == 0)
    }

    @Test func connectsToAConfiguredAddressDespiteTheAllowedReach() async throws {
        let (_, requests) = try await serve { port in
            var settings = NetworkSettings()
            settings.addresses = ["localhost:\(port)": "127.0.0.1"]
            _ = try await CurlTransport(settings).send(limited("http://localhost:\(port)/", to: .anywhere))
        }
        #expect(requests == 1)
    }

    /// A server at a given network reach, and the allowed reach of each request that it received.
    private final class Network: HTTPTransport {
        private let documents: [String: JSON]
        private let reach: NetworkReach?
        let allowed = Mutex<[String: NetworkReach]>([:])

        init(_ documents: [String: JSON], reach: NetworkReach?) {
            self.documents = documents
            self.reach = reach
        }

        func send(_ call: TransportRequest) async throws -> TransportResponse {
            allowed.withLock { $0[call.url] = call.allowedReach }
            let document = documents[call.url]
            var response = TransportResponse(
                head: HTTPResponse(
                    status: document == nil ? .notFound : .ok,
                    headerFields: [.contentType: "application/json"]
                ),
                body: try document?.serialized() ?? []
            )
            response.reach = reach
            return response
        }
    }

    struct Case: CustomTestStringConvertible {
        let reach: NetworkReach?
        let limit: NetworkReach
        let testDescription: String
    }

    static let cases = [
        Case(reach: .anywhere, limit: .anywhere, testDescription: "a public provider"),
        Case(reach: .privateNetwork, limit: .privateNetwork, testDescription: "a provider on a private network"),
        Case(reach: nil, limit: .loopback, testDescription: "a provider behind a proxy"),
    ]

    private let home = "https://id.example.com"

    @Test(arguments: cases) func metadataEndpointsAtOtherOriginsAreLimitedToTheProvidersReach(_ test: Case) async throws
    {
        let network = Network(
            [
                "\(home)/.well-known/openid-configuration": [
                    "issuer": .string(home), "token_endpoint": "https://id.example.com/token",
                    "jwks_uri": "https://keys.example.net/jwks", "userinfo_endpoint": "https://api.example.net/me",
                    "mtls_endpoint_aliases": ["token_endpoint": "https://mtls.example.net/token"],
                ]
            ],
            reach: test.reach
        )
        let server = AuthorizationServer(issuer: home, transport: network)
        let metadata = try await server.metadata()
        #expect(metadata.userInfoEndpoint?.allowedReach == test.limit)
        #expect(metadata.tokenEndpoint?.allowedReach == .loopback)
        let aliases = try metadata.withMTLSEndpointAliases()
        #expect(aliases.tokenEndpoint?.allowedReach == test.limit)
        #expect(aliases.userInfoEndpoint?.allowedReach == test.limit)
        _ = try await server.send(TransportRequest(.get, try #require(metadata.jwksURI)))
        #expect(network.allowed.withLock { $0["https://keys.example.net/jwks"] } == test.limit)
    }

    @Test func aConfiguredEndpointIsNotLimitedInReach() async throws {
        var metadata = try ProviderMetadata(["issuer": .string(home), "token_endpoint": "https://tokens.example.net/t"])
        metadata.limitReach(to: .anywhere)
        var own = ProviderMetadata(issuer: home)
        own.jwksURI = Endpoint("https://keys.example.net/jwks")
        metadata.replaceEndpoints(by: own)
        #expect(metadata.jwksURI?.allowedReach == .loopback)
        #expect(metadata.tokenEndpoint?.allowedReach == .anywhere)
    }

    @Test(arguments: cases) func authorizationServersOfAResourceAreLimitedToItsReach(_ test: Case) async throws {
        let api = "https://api.example.com/mcp"
        let network = Network(
            [
                "https://api.example.com/.well-known/oauth-protected-resource/mcp": [
                    "resource": .string(api), "authorization_servers": ["https://id.example.net"],
                ],
                "https://id.example.net/.well-known/oauth-authorization-server": [
                    "issuer": "https://id.example.net", "token_endpoint": "https://id.example.net/token",
                ],
            ],
            reach: test.reach
        )
        let client = try ResourceClient(api, methods: [], store: MemoryTokenStore(), transport: network)
        _ = try? await client.find(nil)
        #expect(
            network.allowed.withLock { $0["https://id.example.net/.well-known/oauth-authorization-server"] }
                == test.limit
        )
        // The reach of an earlier connection does not limit later connections to the resource itself.
        network.allowed.withLock { $0 = [:] }
        _ = try? await client.find(nil)
        #expect(
            network.allowed.withLock { $0["https://api.example.com/.well-known/oauth-protected-resource/mcp"] }
                == .loopback
        )
    }

    @Test(arguments: cases) func redirectsAreLimitedToTheReachOfTheRedirectingServer(_ test: Case) async throws {
        let network = Redirects(reach: test.reach)
        let browser = HeadlessBrowser(
            transport: network,
            now: HostServices.system.now,
            reporter: FlowReporter(host: .system, observer: nil)
        )
        _ = try await browser.navigate(.visit(try Endpoint("\(home)/a")), until: "http://127.0.0.1:1/done")
        #expect(network.allowed.withLock { $0["https://next.example.net/"] } == test.limit)
    }

    private final class Redirects: HTTPTransport {
        let reach: NetworkReach?
        let allowed = Mutex<[String: NetworkReach]>([:])
        init(reach: NetworkReach?) { self.reach = reach }

        func send(_ call: TransportRequest) async throws -> TransportResponse {
            allowed.withLock { $0[call.url] = call.allowedReach }
            let isFirst = call.url.hasSuffix("/a")
            var response = TransportResponse(
                head: HTTPResponse(
                    status: isFirst ? .found : .ok,
                    headerFields: isFirst ? [.location: "https://next.example.net/"] : [.contentType: "text/html"]
                )
            )
            response.reach = reach
            return response
        }
    }
}
