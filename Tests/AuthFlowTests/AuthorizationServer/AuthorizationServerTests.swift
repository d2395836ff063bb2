import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowIssuer
@testable import AuthFlowOAuth

@Suite struct AuthorizationServerTests {
    /// An adapter with configurable metadata.
    private struct Described: ProviderAdapter {
        var issuer = "https://id.example.com"
        var metadata: ProviderMetadata?

        func metadata(in context: ServerContext) async throws -> ProviderMetadata {
            if let metadata { return metadata }
            return try await context.discover()
        }
    }

    private static let issuer = "https://id.example.com"
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)

    private func server(
        _ adapter: Described = Described(),
        respond: @escaping @Sendable (HTTPRequest) -> TransportResponse = { _ in
            TransportResponse(head: HTTPResponse(status: .notFound))
        }
    ) -> AuthorizationServer {
        AuthorizationServer(
            adapter,
            transport: InProcessTransport(origin: Self.issuer) { request, _ in respond(request) },
            host: HostServices(now: { Self.now })
        )
    }

    private static let document: JSON = [
        "issuer": .string(issuer), "authorization_endpoint": "https://id.example.com/authorize",
        "token_endpoint": "https://id.example.com/token", "jwks_uri": "https://id.example.com/jwks",
    ]

    private static func response(_ status: HTTPResponse.Status, _ json: JSON) -> TransportResponse {
        TransportResponse(
            head: HTTPResponse(status: status, headerFields: [.contentType: "application/json"]),
            body: (try? json.serialized()) ?? []
        )
    }

    /// RFC 8414 section 3.2: "A successful response MUST use the 200 OK HTTP status code".
    @Test(arguments: [(200, true), (201, false), (203, false), (302, false), (400, false), (403, false)])
    func acceptsMetadataOnlyWithStatus200(_ status: Int, _ isRead: Bool) async throws {
        let server = server { _ in Self.response(HTTPResponse.Status(code: status), Self.document) }
        do {
            _ = try await server.metadata()
            #expect(isRead)
        } catch let error as AuthError {
            #expect(!isRead)
            #expect(error.code == .discoveryFailed)
            #expect(error.status == status)
        }
    }

    /// An API server must not block, so the cached metadata is used while new metadata is fetched from a slow issuer.
    @Test func returnsCachedMetadataWithoutWaitingForARefetch() async throws {
        let time = Mutex(Self.now)
        let requests = Mutex(0)
        let (released, release) = AsyncStream<Void>.makeStream()
        let server = AuthorizationServer(
            Described(),
            transport: InProcessTransport(origin: Self.issuer) { _, _ in
                let number = requests.withLock { requests in
                    requests += 1
                    return requests
                }
                if number > 1 { for await _ in released { break } }
                return Self.response(.ok, Self.document)
            },
            host: HostServices(now: { time.withLock { $0 } })
        )
        _ = try await server.metadata()
        time.withLock { $0 += 80_000 }
        // The second request hangs until it is released.
        for _ in 0..<3 { _ = try await server.metadataWhileRevalidating() }
        while requests.withLock({ $0 }) < 2 { await Task.yield() }
        release.finish()
        _ = try await server.metadata()
        #expect(requests.withLock { $0 } == 2)
    }

    struct Order: CustomTestStringConvertible {
        let issuer: String
        let order: DiscoveryOrder
        let paths: [String]
        var testDescription: String { "\(issuer) \(order)" }
    }

    static let orders: [Order] = [
        Order(
            issuer: "https://id.example.com/tenant1",
            order: .oauthFirst,
            paths: [
                "/.well-known/oauth-authorization-server/tenant1", "/.well-known/openid-configuration/tenant1",
                "/tenant1/.well-known/openid-configuration",
            ]
        ),
        Order(
            issuer: "https://id.example.com/t/",
            order: .oauthFirst,
            paths: [
                "/.well-known/oauth-authorization-server/t", "/.well-known/openid-configuration/t",
                "/t/.well-known/openid-configuration",
            ]
        ),
        Order(
            issuer: "https://id.example.com",
            order: .oauthFirst,
            paths: ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]
        ),
        Order(
            issuer: "https://id.example.com/",
            order: .oauthFirst,
            paths: ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]
        ),
        Order(
            issuer: "https://id.example.com/tenant1",
            order: .openIDFirst,
            paths: [
                "/tenant1/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/tenant1",
                "/.well-known/openid-configuration/tenant1",
            ]
        ),
    ]

    @Test(
        arguments: orders,
        [
            (404, "<html>"), (403, "<html>"), (302, "<html>"), (200, "<html>"), (200, "{}"),
            (200, #"{"issuer": ""}"#),
        ]
    )
    func requestsTheWellKnownURLsOfAnIssuerInOrder(
        _ order: Order,
        _ page: (status: Int, body: String)
    )
        async throws
    {
        struct Ordered: ProviderAdapter {
            let issuer: String
            let order: DiscoveryOrder
            func metadata(in context: ServerContext) async throws -> ProviderMetadata {
                try await context.discover(order: order)
            }
        }
        let paths = Mutex<[String]>([])
        let transport = InProcessTransport(origin: Self.issuer) { request, _ in
            paths.withLock { $0.append(request.path ?? "") }
            // Some applications return a page or another JSON document for every URL.
            return TransportResponse(head: HTTPResponse(status: .init(code: page.status)), body: Array(page.body.utf8))
        }
        let server = AuthorizationServer(Ordered(issuer: order.issuer, order: order.order), transport: transport)
        let error = await #expect(throws: AuthError.self) { try await server.metadata() }
        #expect(error?.code == .discoveryFailed)
        #expect(paths.withLock { $0 } == order.paths)
    }

    @Test func aServerErrorStopsDiscoveryAsTemporarilyUnavailable() async throws {
        let requests = Mutex(0)
        let server = server { _ in
            requests.withLock { $0 += 1 }
            return TransportResponse(head: HTTPResponse(status: .internalServerError))
        }
        let error = await #expect(throws: AuthError.self) { try await server.metadata() }
        #expect(error?.code == .temporarilyUnavailable)
        #expect(requests.withLock { $0 } == 1)
    }

    /// Microsoft Entra publishes such a document for the users of all tenants.
    @Test func reportsTheMissingSettingIfTheIssuerInTheMetadataIsATemplate() async throws {
        let server = server { _ in Self.response(.ok, ["issuer": "https://id.example.com/{tenantid}/v2.0"]) }
        let error = await #expect(throws: AuthError.self) { try await server.metadata() }
        #expect(error?.code == .issuerMismatch)
        #expect(error?.message.contains("Set \"token_issuer\"") == true, "\(error as Any)")
    }

    /// An endpoint that fails again and again must not cause a request for the metadata every time.
    @Test func metadataThatIsMarkedStaleIsFetchedAgainAtMostOncePerMinute() async throws {
        let time = Mutex(Self.now)
        let requests = Mutex(0)
        let server = AuthorizationServer(
            Described(),
            transport: InProcessTransport(origin: Self.issuer) { _, _ in
                requests.withLock { $0 += 1 }
                return Self.response(.ok, Self.document)
            },
            host: HostServices(now: { time.withLock { $0 } })
        )
        _ = try await server.metadata()
        for (seconds, expected) in [(59.0, 1), (1.0, 2), (1.0, 2)] {
            time.withLock { $0 += seconds }
            server.markMetadataStale()
            _ = try await server.metadata()
            #expect(requests.withLock { $0 } == expected)
        }
    }

    @Test func aLateSecondDocumentDoesNotReplaceMetadataThatWasFetchedAgain() async throws {
        let time = Mutex(Self.now)
        let current = Mutex<AuthorizationServer?>(nil)
        let requests = Mutex(0)
        let server = AuthorizationServer(
            Described(),
            transport: InProcessTransport(origin: Self.issuer) { request, _ in
                guard request.path == "/.well-known/oauth-authorization-server" else {
                    let number = requests.withLock { requests in
                        requests += 1
                        return requests
                    }
                    var members = Self.document.object ?? [:]
                    members["token_endpoint"] = .string("\(Self.issuer)/token\(number)")
                    return Self.response(.ok, .object(members))
                }
                // While the second document is awaited, the first one expires and is fetched again.
                time.withLock { $0 += 7200 }
                _ = try await current.withLock { $0 }?.metadata()
                return TransportResponse(head: HTTPResponse(status: .notFound))
            },
            host: HostServices(now: { time.withLock { $0 } })
        )
        current.withLock { $0 = server }
        _ = try await server.metadata(with: \.revocationEndpoint)
        #expect(requests.withLock { $0 } == 2)
        #expect(try await server.metadata().tokenEndpoint?.url == "https://id.example.com/token2")
    }

    @Test func rejectsAdapterMetadataOfAnotherIssuer() async throws {
        let other = Described(metadata: ProviderMetadata(issuer: "https://id.example.com/other"))
        let error = await #expect(throws: AuthError.self) { try await server(other).metadata() }
        #expect(error?.code == .issuerMismatch)
    }

    /// Members that are not configured are absent from the metadata, because no document is requested to supply them.
    @Test func configuredMetadataIsNotSupplementedByDiscovery() async throws {
        let requests = Mutex(0)
        let server = server(Described(metadata: ProviderMetadata(issuer: Self.issuer))) { _ in
            requests.withLock { $0 += 1 }
            return Self.response(.ok, Self.document)
        }
        #expect(try await server.metadata(with: \.revocationEndpoint).revocationEndpoint == nil)
        #expect(requests.withLock { $0 } == 0)
    }

    /// A `Date` header has whole seconds and is delayed in transit, so a small difference is ignored.
    @Test(arguments: [(0, 0), (4, 0), (-4, 0), (5, 5), (-5, -5), (300, 300), (-3600, -3600)])
    func clockSkewOfAtLeastFiveSecondsIsCorrectedFromTheDateHeader(_ ahead: Int, _ corrected: Int) throws {
        let server = server()
        let date = HTTPDate.text(Self.now - TimeInterval(ahead))
        var response = TransportResponse(head: HTTPResponse(status: .ok))
        response.head.headerFields[.date] = date
        #expect(server.updateClockOffset(from: response) == TimeInterval(ahead))
        #expect(server.time == Self.now - TimeInterval(corrected))
    }

    /// Many providers deliver their metadata and keys through a cache.
    @Test(arguments: [("1800", 0), ("0", 1800), ("soon", 1800)])
    func theAgeOfACachedResponseIsNotClockSkew(_ age: String, _ ahead: Int) {
        var response = TransportResponse(head: HTTPResponse(status: .ok))
        response.head.headerFields[.date] = HTTPDate.text(Self.now - 1800)
        response.head.headerFields[.age] = age
        #expect(response.clockOffset(at: Self.now) == TimeInterval(ahead))
        // Some caches replace the Date.
        response.head.headerFields[.date] = HTTPDate.text(Self.now)
        #expect(response.clockOffset(at: Self.now) == 0)
    }

    @Test func aStateIsAcceptedOnlyOnceEvenAfterThousandsOfOtherStates() {
        let states = UsedStates()
        for number in 0..<4096 { #expect(states.use(Secret("\(number)"))) }
        for number in 0..<4096 { #expect(!states.use(Secret("\(number)"))) }
        #expect(states.use(Secret("new")))
        #expect(!states.use(Secret("new")))
        #expect(!states.use(Secret("7")))
    }
}
