import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlow

@Suite struct AuthorizationServerTests {
    /// An adapter with the metadata of its choice.
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
    func readsMetadataFromASuccessfulResponseOnly(_ status: Int, _ isRead: Bool) async throws {
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

    @Test func refusesMetadataOfAnotherIssuerFromAnAdapter() async throws {
        let other = Described(metadata: ProviderMetadata(issuer: "https://id.example.com/other"))
        let error = await #expect(throws: AuthError.self) { try await server(other).metadata() }
        #expect(error?.code == .issuerMismatch)
    }

    /// What the configuration leaves out is left out: a document that was not asked for says nothing about it.
    @Test func metadataThatWasNotDiscoveredIsNotSupplemented() async throws {
        let requests = Mutex(0)
        let server = server(Described(metadata: ProviderMetadata(issuer: Self.issuer))) { _ in
            requests.withLock { $0 += 1 }
            return Self.response(.ok, Self.document)
        }
        #expect(try await server.metadata(with: \.revocationEndpoint).revocationEndpoint == nil)
        #expect(requests.withLock { $0 } == 0)
    }

    /// A `Date` header has whole seconds and is on its way for a while, so a small difference is none.
    @Test(arguments: [(0, 0), (4, 0), (-4, 0), (5, 5), (-5, -5), (300, 300), (-3600, -3600)])
    func theServersTimeIsUsedWhereItDiffersForCertain(_ ahead: Int, _ corrected: Int) throws {
        let server = server()
        let date = HTTPDate.text(Self.now - TimeInterval(ahead))
        var response = TransportResponse(head: HTTPResponse(status: .ok))
        response.head.headerFields[.date] = date
        #expect(server.learnClock(from: response) == TimeInterval(ahead))
        #expect(server.time == Self.now - TimeInterval(corrected))
    }

    @Test func aStateIsUsedOnceAlsoAfterThousandsOfOthers() {
        let states = UsedStates()
        for number in 0..<4096 { #expect(states.use(Secret("\(number)"))) }
        for number in 0..<4096 { #expect(!states.use(Secret("\(number)"))) }
        #expect(states.use(Secret("new")))
        #expect(!states.use(Secret("new")))
        #expect(!states.use(Secret("7")))
    }
}
