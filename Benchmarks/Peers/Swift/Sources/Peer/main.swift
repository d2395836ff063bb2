// Validates an ID Token again and again, and prints the nanoseconds of one validation:
//
//     Peer authflow|jwt-kit FOLDER ALGORITHM SECONDS
//
// FOLDER has what Benchmarks/Peers/peers.py writes: jwks.json and ALGORITHM.jwt.

import AuthFlow
import AuthFlowOIDC
import AuthFlowTesting
import Foundation
import HTTPTypes
import JWTKit

let arguments = CommandLine.arguments
let (library, folder, algorithm) = (arguments[1], arguments[2], arguments[3])
let seconds = Double(arguments[4]) ?? 1
let keys = try Data(contentsOf: URL(fileURLWithPath: "\(folder)/jwks.json"))
let token = try String(contentsOfFile: "\(folder)/\(algorithm).jwt", encoding: .utf8)

/// Repeats work for a while.
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

/// What is checked beside the signature.
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

// Not on the main actor, which a server does not use either: every call would begin and end with a change of threads.
try await Task.detached { try await run() }.value

@Sendable func run() async throws {
    switch library {
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
        let (secret, nonce) = (Secret(token), Secret("nonce"))
        try await measure(seconds) {
            _ = try await server.verify(secret, audience: "client", nonce: nonce, issuedWithin: nil)
        }
    default:
        let collection = try await JWTKeyCollection().add(jwks: JSONDecoder().decode(JWKS.self, from: keys))
        try await measure(seconds) { _ = try await collection.verify(token, as: Claims.self) }
    }
}
