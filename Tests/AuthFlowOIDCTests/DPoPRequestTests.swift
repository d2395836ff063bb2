import AuthFlow
import AuthFlowOIDC
import AuthFlowTesting
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Streamed requests with DPoP-bound tokens (RFC 9449 section 9), and tokens that are bound to a configured key.
@Suite struct DPoPRequestTests {
    struct Reply: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var isBound = true
        var status = 401
        var nonce: String? = "new"
        var requests = 1
    }

    private static let replies = [
        Reply(testDescription: "the required nonce", requests: 2),
        Reply(testDescription: "a bearer token", isBound: false), Reply(testDescription: "no nonce", nonce: nil),
        Reply(testDescription: "a new nonce in a successful response", status: 200),
    ]

    /// A client, and tokens that are bound to a key.
    private static func client(_ transport: InProcessTransport) throws -> (client: OAuthClient, tokens: TokenSet) {
        let client = OAuthClient(
            server: AuthorizationServer(OIDCProvider(issuer: "https://id.example.com"), transport: transport),
            registration: try ClientRegistration(clientID: "client")
        )
        var tokens = TokenSet(accessToken: Secret("access"))
        tokens.dpopKey = try DPoPKey(host: .system)
        return (client, tokens)
    }

    @Test(arguments: replies) func aStreamedRequestIsRepeatedOnlyWithTheRequiredNonce(_ reply: Reply) async throws {
        let requests = Mutex(0)
        let transport = InProcessTransport(origin: "https://id.example.com") { _, _ in
            requests.withLock { $0 += 1 }
            var fields: HTTPFields = [.wwwAuthenticate: #"DPoP error="use_dpop_nonce""#]
            fields[HTTPField.Name("DPoP-Nonce")!] = reply.nonce
            return TransportResponse(head: HTTPResponse(status: .init(code: reply.status), headerFields: fields))
        }
        let (client, bound) = try Self.client(transport)
        var tokens = bound
        if !reply.isBound { tokens.dpopKey = nil }
        let request = TransportRequest(.post, Endpoint("https://id.example.com/orders"))
        #expect(try await client.stream(request, with: tokens).head.status.code == reply.status)
        #expect(requests.withLock { $0 } == reply.requests)
    }

    /// A server that repeats the nonce that it rejects would otherwise receive every request twice.
    @Test func aStreamedRequestIsNotRepeatedWithTheNonceThatWasRejected() async throws {
        let requests = Mutex(0)
        let transport = InProcessTransport(origin: "https://id.example.com") { _, _ in
            requests.withLock { $0 += 1 }
            var fields: HTTPFields = [.wwwAuthenticate: #"DPoP error="use_dpop_nonce""#]
            fields[HTTPField.Name("DPoP-Nonce")!] = "same"
            return TransportResponse(head: HTTPResponse(status: .unauthorized, headerFields: fields))
        }
        let (client, tokens) = try Self.client(transport)
        let request = TransportRequest(.post, Endpoint("https://id.example.com/orders"))
        for expected in [2, 3] {
            _ = try await client.stream(request, with: tokens)
            #expect(requests.withLock { $0 } == expected)
        }
    }

    /// Each check of a server may reject one proof.
    @Test(arguments: [["use_dpop_nonce", "invalid_dpop_proof"], ["invalid_dpop_proof", "use_dpop_nonce"]])
    func aStreamedRequestIsRepeatedWithTheRequiredNonceAndTheTimeOfTheServer(_ errors: [String]) async throws {
        let requests = Mutex(0)
        let transport = InProcessTransport(origin: "https://id.example.com") { _, _ in
            let number = requests.withLock { requests in
                defer { requests += 1 }
                return requests
            }
            guard errors.indices.contains(number) else { return TransportResponse(head: HTTPResponse(status: .ok)) }
            var fields: HTTPFields = [
                .date: HTTPDate.text(Date() - 3600), .wwwAuthenticate: #"DPoP error="\#(errors[number])""#,
            ]
            if errors[number] == "use_dpop_nonce" { fields[HTTPField.Name("DPoP-Nonce")!] = "new" }
            return TransportResponse(head: HTTPResponse(status: .unauthorized, headerFields: fields))
        }
        let (client, tokens) = try Self.client(transport)
        let request = TransportRequest(.post, Endpoint("https://id.example.com/orders"))
        #expect(try await client.stream(request, with: tokens).head.status == .ok)
        #expect(requests.withLock { $0 } == 3)
    }

    @Test func sendsNoTokensThatAreBoundToAKeyOtherThanTheConfiguredOne() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        func newClient() throws -> OAuthClient {
            var values = try EmulatorEnvironment.registration()
            values.usesDPoP = true
            values.dpopKey = SigningKeySource(try PrivateKey(generatedFor: .es256))
            return OAuthClient(server: environment.server(), registration: try ClientRegistration(values))
        }
        let (client, other) = (try newClient(), try newClient())
        let request = try await client.authorizationRequest()
        let tokens = try await client.exchange(try await environment.visit(request.url), for: request).tokens
        let requests = environment.emulator.requests.count { $0 == "GET /userinfo" }
        let error = await #expect(throws: AuthError.self) { try await other.userInfo(tokens) }
        #expect(error?.code == .keyUnavailable)
        #expect(error?.message.contains("bound to a key that is no longer configured") == true, "\(error as Any)")
        #expect(environment.emulator.requests.count { $0 == "GET /userinfo" } == requests)
    }
}
