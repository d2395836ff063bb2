// Repeatedly validates an ID Token, validates an access token as an API does (ALGORITHM api-RS256), or runs a flow, and prints the nanoseconds
// per operation:
//
//     Peer authflow|jwt-kit FOLDER ALGORITHM SECONDS
//     Peer callback|fresh FOLDER callback SECONDS      from an authorization request to validated tokens; a fresh token from memory
//     Peer waiters FOLDER callback 0                   1,000 tasks request fresh tokens after expiry: number of token requests, milliseconds
//
// FOLDER contains the output of Benchmarks/Peers/peers.py: jwks.json and ALGORITHM.jwt.

import AuthFlow
import AuthFlowOIDC
import AuthFlowResourceServer
import AuthFlowTesting
import Foundation
import HTTPTypes
import JWTKit
import Synchronization

let arguments = CommandLine.arguments
let (library, folder, algorithm) = (arguments[1], arguments[2], arguments[3])
let seconds = Double(arguments[4]) ?? 1
let keys = try Data(contentsOf: URL(fileURLWithPath: "\(folder)/jwks.json"))
let token = try String(contentsOfFile: "\(folder)/\(algorithm).jwt", encoding: .utf8)

/// Repeats an operation for a given time.
nonisolated func measure(_ seconds: Double, _ work: () async throws -> Void) async rethrows {
    for _ in 0..<200 { try await work() }
    let clock = ContinuousClock()
    let (start, limit) = (clock.now, Duration.seconds(seconds))
    var count = 0
    while start.duration(to: clock.now) < limit {
        for _ in 0..<50 { try await work() }
        count += 50
    }
    print(start.duration(to: clock.now) / .nanoseconds(count))
}

/// The claims of an ID Token that are checked in addition to its signature.
struct Claims: JWTPayload {
    let iss: IssuerClaim
    let aud: AudienceClaim
    let exp: ExpirationClaim
    let sub: SubjectClaim
    let nonce: String

    func verify(using key: some JWTAlgorithm) throws {
        try exp.verifyNotExpired()
        try aud.verifyIntendedAudience(includes: "client")
        guard iss.value == "https://id.example.com", nonce == "nonce" else {
            throw JWTError.claimVerificationFailure(failedClaim: iss, reason: "issuer or nonce")
        }
    }
}

/// The claims of an access token that are checked in addition to its signature.
struct AccessClaims: JWTPayload {
    let iss: IssuerClaim
    let aud: AudienceClaim
    let exp: ExpirationClaim
    let sub: SubjectClaim
    let scope: String

    func verify(using key: some JWTAlgorithm) throws {
        try exp.verifyNotExpired()
        try aud.verifyIntendedAudience(includes: "https://api.example.com")
        guard iss.value == "https://id.example.com", scope.split(separator: " ").contains("orders:read") else {
            throw JWTError.claimVerificationFailure(failedClaim: iss, reason: "issuer or scope")
        }
    }
}

/// The number of requests to the token endpoint.
let tokenRequests = Mutex(0)

/// A client whose provider is simulated in memory.
nonisolated func client(delay: Duration = .zero) throws -> OAuthClient {
    let origin = "https://id.example.com"
    let metadata = Data(
        #"{"issuer": "\#(origin)", "jwks_uri": "\#(origin)/jwks", "token_endpoint": "\#(origin)/token", "authorization_endpoint": "\#(origin)/authorize", "id_token_signing_alg_values_supported": ["RS256", "ES256"]}"#
            .utf8
    )
    let tokens = Data(
        #"{"access_token": "access", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "refresh", "id_token": "\#(token)"}"#
            .utf8
    )
    let transport = InProcessTransport(origin: origin) { request, _ in
        var head = HTTPResponse(status: .ok)
        head.headerFields[.contentType] = "application/json"
        switch request.path {
        case "/jwks": return TransportResponse(head: head, body: Array(keys))
        case "/token":
            tokenRequests.withLock { $0 += 1 }
            if delay > .zero { try await Task.sleep(for: delay) }
            return TransportResponse(head: head, body: Array(tokens))
        default: return TransportResponse(head: head, body: Array(metadata))
        }
    }
    // A sign-in generates a state, a code_verifier, a nonce (equal to the token's), and a value for internal use.
    let calls = Mutex(0)
    let host = HostServices(randomBytes: { count in
        let isThird = calls.withLock { calls in
            calls += count == 32 ? 1 : 0
            return calls % 4 == 3
        }
        return count == 32 && isThird ? [UInt8](repeating: 0, count: count) : HostServices.systemRandomBytes(count)
    })
    return OAuthClient(
        server: AuthorizationServer(OIDCProvider(issuer: origin), transport: transport, host: host),
        registration: try ClientRegistration(clientID: "client") {
            $0.redirectURIs = ["https://app.example.com/callback"]
            $0.scopes = ["openid"]
            $0.authentication = .clientSecretBasic(Secret("secret"))
        }
    )
}

/// Signs in, delivering the redirect as a browser would.
nonisolated func signIn(_ client: OAuthClient) async throws -> Credential {
    let request = try await client.authorizationRequest()
    let state = request.url.range(of: "&state=").map { request.url[$0.upperBound...].prefix(43) } ?? ""
    return try await client.exchange("https://app.example.com/callback?code=code&state=\(state)", for: request)
}

@Sendable func run() async throws {
    switch library {
    case "callback":
        let client = try client()
        try await measure(seconds) { _ = try await signIn(client) }
    case "fresh", "waiters":
        let client = try client(delay: library == "waiters" ? .milliseconds(20) : .zero)
        let credentials = CredentialManager(client: client, store: MemoryTokenStore())
        var credential = try await signIn(client)
        if library == "waiters" { credential.tokens.expiresAt = Date(timeIntervalSinceNow: -3600) }
        try await credentials.save(credential, for: "session")
        guard library == "waiters" else {
            return try await measure(seconds) { _ = try await credentials.freshTokens(for: "session") }
        }
        tokenRequests.withLock { $0 = 0 }
        let start = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<1000 { group.addTask { _ = try await credentials.freshTokens(for: "session") } }
            try await group.waitForAll()
        }
        print(tokenRequests.withLock { $0 }, start.duration(to: .now) / .milliseconds(1))
    case "authflow":
        let metadata = Data(
            #"{"issuer": "https://id.example.com", "jwks_uri": "https://id.example.com/jwks", "token_endpoint": "https://id.example.com/token", "authorization_endpoint": "https://id.example.com/authorize", "id_token_signing_alg_values_supported": ["RS256", "ES256"]}"#
                .utf8
        )
        let transport = InProcessTransport(origin: "https://id.example.com") { request, _ in
            var head = HTTPResponse(status: .ok)
            head.headerFields[.contentType] = "application/json"
            return TransportResponse(head: head, body: Array(request.path == "/jwks" ? keys : metadata))
        }
        let server = AuthorizationServer(OIDCProvider(issuer: "https://id.example.com"), transport: transport)
        if algorithm.hasPrefix("api-") {
            // Caching is disabled, so that each request costs as much as a request with a new token.
            var rules = ResourceServerRules()
            rules.cachedTokens = 0
            let api = try ResourceServer("https://api.example.com", issuers: [TrustedIssuer(server)], rules: rules)
            var request = HTTPRequest(method: .get, scheme: "https", authority: "api.example.com", path: "/orders")
            request.headerFields[.authorization] = "Bearer \(token)"
            return try await measure(seconds) { _ = try await api.authorize(request, requiring: ["orders:read"]) }
        }
        let (secret, nonce) = (Secret(token), Secret("nonce"))
        try await measure(seconds) {
            _ = try await server.verify(secret, audience: "client", nonce: nonce, issuedWithin: nil)
        }
    default:
        let collection = try await JWTKeyCollection().add(jwks: JSONDecoder().decode(JWKS.self, from: keys))
        guard algorithm.hasPrefix("api-") else {
            return try await measure(seconds) { _ = try await collection.verify(token, as: Claims.self) }
        }
        try await measure(seconds) { _ = try await collection.verify(token, as: AccessClaims.self) }
    }
}

// Runs off the main actor, like a server: on the main actor, every call would start and end with a thread switch.
try await Task.detached { try await run() }.value
