import AuthFlowJSON
import AuthFlowResourceServer
import AuthFlowTesting
import Crypto
import Foundation
import HTTPTypes

/// Compares the cost of authorizing an API request with that of the signature checks alone, in swift-crypto.
enum ResourceServerBench {
    private static let issuer = "https://id.example.com"
    private static let resource = "https://api.example.com/orders"

    static func run(_ isWithinBounds: inout Bool) async throws {
        let keys = try EmulatorKeys()
        let bench = try ValidationBench()
        print("\nAuthorization of a request to an API with cached keys, compared with the signature checks alone\n")
        print("| token | authorization | signatures | ratio | bound |")
        print("|---|---|---|---|---|")
        for (algorithm, bound) in [(SignatureAlgorithm.rs256, 1.3), (.es256, 1.3)] {
            let token = try token(keys, algorithm)
            let server = try server(keys, cachedTokens: 0)
            let check = try bench.signatureCheck(of: try bench.token(algorithm), algorithm)
            let request = request("Bearer \(token)")
            let result = try await Comparison.of {
                _ = try await server.authorize(request, requiring: ["orders:read"])
            } baseline: {
                guard check() else { throw AuthError(.invalidIDToken, "The signature is invalid.") }
            }
            show("JWT, \(algorithm.rawValue)", result, bound, &isWithinBounds)
        }
        try await bound(keys, bench, &isWithinBounds)
        let cached = try server(keys, cachedTokens: 10_000)
        let seen = request("Bearer \(try token(keys, .es256))")
        let result = try await Comparison.of(size: 1000) {
            _ = try await cached.authorize(seen, requiring: ["orders:read"])
        } baseline: {
            _ = SHA256.hash(data: Array((seen.headerFields[.authorization] ?? "").utf8))
        }
        print(
            String(
                format: "\nA cached token: %.2f us (bound 2), its hash alone %.2f us",
                result.subject / 1000,
                result.baseline / 1000
            )
        )
        if result.subject > 2000 { isWithinBounds = false }
        try await memory(keys)
    }

    private static func bound(_ keys: EmulatorKeys, _ bench: ValidationBench, _ isWithinBounds: inout Bool) async throws
    {
        let key = P256.Signing.PrivateKey()
        let point = key.publicKey.rawRepresentation
        let (x, y) = (Base64URL.encode(point.prefix(32)), Base64URL.encode(point.suffix(32)))
        let thumbprint = SHA256.hash(data: Array(#"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#.utf8))
        let token = try token(keys, .es256, ["jkt": .string(Base64URL.encode(thumbprint))])
        let hash = Base64URL.encode(SHA256.hash(data: Array(token.utf8)))
        let header = Base64URL.encode(
            try JSON.object([
                "typ": "dpop+jwt", "alg": "ES256",
                "jwk": ["kty": "EC", "crv": "P-256", "x": .string(x), "y": .string(y)],
            ]).serialized()
        )
        // Each proof is accepted only once.
        let requests = try (0..<5100).map { number in
            let claims: JSON = [
                "jti": .string("\(number)"), "htm": "GET", "htu": "https://api.example.com/orders/1",
                "iat": .integer(Int64(Date().timeIntervalSince1970)), "ath": .string(hash),
            ]
            let text = "\(header).\(Base64URL.encode(try claims.serialized()))"
            let signature = try key.signature(for: Array(text.utf8)).rawRepresentation
            return request("DPoP \(token)", proof: "\(text).\(Base64URL.encode(signature))")
        }
        let server = try server(keys, cachedTokens: 0)
        let check = try bench.signatureCheck(of: try bench.token(.es256), .es256)
        var next = 0
        let result = try await Comparison.of {
            _ = try await server.authorize(requests[next], requiring: ["orders:read"])
            next += 1
        } baseline: {
            guard check(), check() else { throw AuthError(.invalidIDToken, "The signature is invalid.") }
        }
        show("JWT with a DPoP proof, ES256", result, 2.3, &isWithinBounds)
    }

    /// The memory usage of 10,000 cached tokens.
    private static func memory(_ keys: EmulatorKeys) async throws {
        #if os(Linux)
        let server = try server(keys, cachedTokens: 20_000)
        let tokens = try (0..<10_000).map { request("Bearer \(try token(keys, .edDSA, nil, "\($0)"))") }
        let before = residentKilobytes()
        for token in tokens { _ = try await server.authorize(token) }
        print("10,000 tokens in memory: \((residentKilobytes() - before) / 1024) MB (goal 20)")
        #endif
    }

    private static func residentKilobytes() -> Int {
        let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix("VmRSS:") } ?? ""
        return Int(line.filter(\.isNumber)) ?? 0
    }

    private static func token(
        _ keys: EmulatorKeys,
        _ algorithm: SignatureAlgorithm,
        _ confirmation: JSON? = nil,
        _ identifier: String = "1"
    ) throws -> String {
        let now = Int64(Date().timeIntervalSince1970)
        var claims: [String: JSON] = [
            "iss": .string(issuer), "aud": .string(resource), "sub": "248289761001", "client_id": "app",
            "jti": .string(identifier), "iat": .integer(now), "exp": .integer(now + 86_400),
            "scope": "orders:read orders:write", "auth_time": .integer(now - 5), "acr": "urn:mace:incommon:iap:silver",
        ]
        claims["cnf"] = confirmation
        let header: JSON = [
            "alg": .string(algorithm.rawValue), "kid": .string(keys.keyID(for: algorithm)), "typ": "at+jwt",
        ]
        return try keys.sign(.object(claims), header: header, with: algorithm)
    }

    private static func server(_ keys: EmulatorKeys, cachedTokens: Int) throws -> ResourceServer {
        let metadata = try JSON.object(["issuer": .string(issuer), "jwks_uri": .string("\(issuer)/jwks")]).serialized()
        let jwks = try keys.jwks().serialized()
        let transport = InProcessTransport(origin: issuer) { request, _ in
            let body = request.path == "/jwks" ? jwks : metadata
            return TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                body: body
            )
        }
        var rules = ResourceServerRules()
        rules.cachedTokens = cachedTokens
        return try ResourceServer(
            resource,
            issuers: [TrustedIssuer(AuthorizationServer(issuer: issuer, transport: transport))],
            rules: rules
        )
    }

    private static func request(_ authorization: String, proof: String? = nil) -> HTTPRequest {
        var request = HTTPRequest(method: .get, scheme: "https", authority: "api.example.com", path: "/orders/1")
        request.headerFields[.authorization] = authorization
        if let proof, let name = HTTPField.Name("DPoP") { request.headerFields[name] = proof }
        return request
    }

    private static func show(_ name: String, _ result: Comparison, _ bound: Double, _ isWithinBounds: inout Bool) {
        let (subject, baseline) = (result.subject / 1000, result.baseline / 1000)
        print(
            "| \(name) | "
                + String(format: "%.1f us | %.1f us | %.2f | %.2f |", subject, baseline, result.ratio, bound)
        )
        if result.ratio > bound { isWithinBounds = false }
    }
}
