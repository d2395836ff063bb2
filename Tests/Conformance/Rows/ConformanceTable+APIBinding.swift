import AuthFlow
import AuthFlowEssentials
import AuthFlowJSON
import AuthFlowResourceServer
import AuthFlowTesting
import Crypto
import HTTPTypes
import Synchronization

/// Rows for bound tokens (RFC 9449, RFC 8705), introspection (RFC 7662), and route requirements (RFC 6750, RFC 9470).
extension ConformanceTable {
    private static let bound: Change = { request, _ in try request.bind(to: try EmulatorKeys()) }

    /// A certificate-bound token, with the certificate in the proxy's header field.
    private static let shown: Change = { request, _ in
        let certificate = Array("a certificate".utf8)
        let thumbprint = Base64URL.encode(SHA256.hash(data: certificate))
        request.claims["cnf"] = ["x5t#S256": .string(thumbprint)]
        request.fields[.clientCert] = ":\(Data(certificate).base64EncodedString()):"
    }

    private static func refusesProof(
        _ number: String,
        _ name: String,
        _ demand: String,
        error: String = "invalid_dpop_proof",
        _ change: @escaping Change
    ) -> ConformanceRow {
        apiRefuses(number, name, demand, error: error, on: APISettings(good: bound), change)
    }

    private static func proof(_ claims: [String: JSON] = [:], header: [String: JSON] = [:], lacks: Set<String> = [])
        -> Change
    {
        { request, _ in (request.proofClaims, request.proofHeader, request.proofLacks) = (claims, header, lacks) }
    }

    static let boundTokens: [ConformanceRow] = [
        apiAccepts("A42", "RFC 9449 7.1", "accepts a bound token with its proof", bound),
        refusesProof("A43", "RFC 9449 7.2, scheme Bearer", "rejects a bound token", error: "invalid_token") {
            request,
            _ in
            request.scheme = "Bearer"
        },
        refusesProof("A44", "RFC 9449 7.1, no jkt", "rejects an unbound token sent with DPoP", error: "invalid_token") {
            request,
            _ in request.claims["cnf"] = nil
        },
        refusesProof("A45", "RFC 9449 4.3, 1", "rejects two proofs") { request, _ in
            request.fields.append(HTTPField(name: .dpop, value: "a.b.c"))
        },
        refusesProof("A46", "no proof", "rejects the request") { request, _ in request.proofKey = nil },
        refusesProof("A47", "RFC 9449 4.3, 4, typ", "rejects a different type", proof(header: ["typ": "JWT"])),
        refusesProof("A48", "RFC 9449 4.3, 5, alg", "rejects a symmetric algorithm", proof(header: ["alg": "HS256"])),
        refusesProof("A49", "RFC 9449 4.3, 6, signature", "rejects a different key's signature") { request, _ in
            let own = try EmulatorKeys()
            request.proofHeader["jwk"] = try APIRequest.jwk(of: request.proofKey ?? own)
            request.proofKey = try own.decoys()
        },
        refusesProof("A50", "RFC 9449 4.3, 7, jwk", "rejects a private key") { request, _ in
            guard let own = request.proofKey else { return }
            var jwk = try APIRequest.jwk(of: own).object ?? [:]
            jwk["d"] = "AAAA"
            request.proofHeader["jwk"] = .object(jwk)
        },
        refusesProof("A51", "RFC 9449 4.3, 8, htm", "rejects a different method", proof(["htm": "POST"])),
        refusesProof("A52", "RFC 9449 4.3, 9, htu", "rejects a different URL") { request, environment in
            request.proofClaims["htu"] = .string("\(environment.host.origin)/orders/2")
        },
        apiAccepts("A53", "RFC 9449 4.3, htu, normal form", "compares normalized URLs without query and fragment") {
            request,
            environment in
            try bound(&request, environment)
            request.path = "/orders/1?page=2"
            request.proofClaims["htu"] = .string("\(environment.host.origin)/x/../orders/%31?a#b")
        },
        refusesProof("A54", "RFC 9449 4.3, 11, iat", "rejects an old proof", proof(["iat": 1_700_000_000])),
        refusesProof("A55", "iat in the future", "rejects the proof", proof(["iat": 99_000_000_000])),
        refusesProof("A56", "RFC 9449 4.3, 12, ath", "rejects a proof for a different token", proof(["ath": "AAAA"])),
        refusesProof("A57", "no ath", "rejects the proof", proof(lacks: ["ath"])),
        refusesProof("A58", "RFC 9449 6, thumbprint", "rejects a different key's proof", error: "invalid_dpop_proof") {
            request,
            _ in request.proofKey = try EmulatorKeys()
        },
        refusesProof("A59", "no jti", "rejects the proof", proof(lacks: ["jti"])),
        api("A60", "RFC 9449 11.1, replay", "accepts a proof only once") { environment in
            var request = APIRequest(environment)
            try bound(&request, environment)
            let call = try request.call(environment)
            for (status, error) in [(200, nil), (401, "invalid_dpop_proof")] {
                let response = try await environment.transport.send(call)
                try ConformanceRow.require(
                    response.status == status,
                    "The status must be \(status), not \(response.status)."
                )
                let challenges = AuthenticationChallenge.challenges(in: response.head.headerFields)
                try ConformanceRow.require(
                    challenges.compactMap { $0.parameters["error"] }.first == error,
                    "The error must be \(error ?? "none")."
                )
            }
        },
        api(
            "A61",
            "RFC 9449 9, nonce",
            "requires a nonce, provides it, and accepts a proof with it",
            on: APISettings(rules: { $0.dpop.nonces = .random() })
        ) { environment in
            var request = APIRequest(environment)
            try bound(&request, environment)
            let first = try await environment.send(request)
            let challenges = AuthenticationChallenge.challenges(in: first.head.headerFields)
            try ConformanceRow.require(
                first.status == 401 && challenges.contains { $0.parameters["error"] == "use_dpop_nonce" },
                "The first response must require a nonce."
            )
            request.proofClaims["nonce"] = first.head.headerFields[.dpopNonce].map(JSON.string) ?? .null
            try ConformanceRow.require(try await environment.send(request).status == 200, "The nonce must be accepted.")
            request.proofClaims["nonce"] = "of-its-own"
            try ConformanceRow.require(
                try await environment.send(request).status == 401,
                "Another nonce must be rejected."
            )
        },
        apiRefuses(
            "A62",
            "RFC 8705 3.1, certificate",
            "rejects a certificate other than the one that the token is bound to",
            on: APISettings(rules: { $0.certificateField = .clientCert }, good: shown)
        ) { request, _ in request.fields[.clientCert] = ":\(Data("another".utf8).base64EncodedString()):" },
        apiRefuses("A63", "a certificate header that is not configured", "ignores the certificate", shown),
        apiRefuses("A64", "RFC 7800, unknown binding", "rejects a binding that it cannot check") { request, _ in
            request.claims["cnf"] = ["kid": "1"]
        },
        apiRefuses(
            "A65",
            "required bound tokens",
            "rejects a bearer token",
            on: APISettings(rules: { $0.binding = .dpop }, good: bound)
        ) { request, _ in
            request.claims["cnf"] = nil
            request.proofKey = nil
            request.scheme = "Bearer"
        },
        apiRefuses(
            "A82",
            "RFC 8705 3, no certificate",
            "rejects a certificate-bound token",
            on: APISettings(rules: { $0.certificateField = .clientCert }, good: shown)
        ) { request, _ in request.fields[.clientCert] = nil },
    ]

    // MARK: - Introspection (RFC 7662)

    private static let introspects = APISettings(issuer: { server, environment in
        TrustedIssuer(server, introspector: try environment.introspector(server))
    })

    private static func active(_ environment: APIEnvironment, _ change: (inout [String: JSON]) -> Void = { _ in }) {
        var members: [String: JSON] = [
            "active": true, "sub": "alice", "client_id": "app", "scope": "orders:read",
            "aud": .string(environment.resource), "iss": .string(environment.issuer.origin), "exp": 99_000_000_000,
        ]
        change(&members)
        environment.issuer.state.withLock { $0.introspection = .object(members) }
    }

    private static func introspection(
        _ number: String,
        _ name: String,
        _ demand: String,
        _ change: @escaping @Sendable (inout [String: JSON]) -> Void
    ) -> ConformanceRow {
        api(number, name, demand, on: introspects) { environment in
            func status(_ token: String) async throws -> Int {
                var request = APIRequest(environment)
                request.token = token
                return try await environment.send(request).status
            }
            active(environment)
            try ConformanceRow.require(try await status("good") == 200, "An active token must be accepted.")
            active(environment, change)
            let refused = try await status("bad")
            try ConformanceRow.require(refused == 401, "The status must be 401, not \(refused).")
        }
    }

    static let introspectedTokens: [ConformanceRow] = [
        introspection("A66", "RFC 7662 2.2, active", "rejects an inactive token", { $0["active"] = false }),
        api("A67", "active, not a boolean", "responds with 503 (unknown status)", on: introspects) { environment in
            active(environment) { $0["active"] = "true" }
            var request = APIRequest(environment)
            request.token = "opaque"
            let response = try await environment.send(request)
            try ConformanceRow.require(response.status == 503, "The status must be 503, not \(response.status).")
        },
        introspection("A68", "aud", "rejects a token for a different API", { $0["aud"] = "https://other.example" }),
        introspection("A69", "no aud", "rejects the token", { $0["aud"] = nil }),
        introspection("A70", "iss", "rejects another issuer", { $0["iss"] = "https://other.example" }),
        introspection("A71", "exp", "rejects an expired token", { $0["exp"] = 1_700_000_000 }),
        introspection("A72", "nbf", "rejects a token that is not valid yet", { $0["nbf"] = 99_000_000_000 }),
        introspection("A73", "token_type", "rejects a refresh token", { $0["token_type"] = "refresh_token" }),
        introspection("A74", "cnf", "rejects a binding that it cannot check", { $0["cnf"] = ["kid": "1"] }),
        api("A75", "the issuer is unavailable", "responds with 503, not with 401", on: introspects) { environment in
            environment.issuer.state.withLock { $0.isDown = true }
            var request = APIRequest(environment)
            request.token = "opaque"
            let response = try await environment.send(request)
            try ConformanceRow.require(response.status == 503, "The status must be 503, not \(response.status).")
        },
        api("A76", "a repeated token", "introspects it once", on: introspects) { environment in
            active(environment)
            var request = APIRequest(environment)
            request.token = "opaque"
            for _ in 0..<3 { _ = try await environment.send(request) }
            let count = environment.issuer.state.withLock { $0.requests.count { $0 == "/introspect" } }
            try ConformanceRow.require(count == 1, "The token must be introspected once, not \(count) times.")
        },
        api("A77", "an opaque token without introspection", "rejects the token") { environment in
            var request = APIRequest(environment)
            request.token = "opaque"
            let response = try await environment.send(request)
            try ConformanceRow.require(response.status == 401, "The status must be 401, not \(response.status).")
        },
    ]

    // MARK: - The requirements of a route, and the metadata

    static let routeDemands: [ConformanceRow] = [
        apiRefuses(
            "A78",
            "RFC 6750 3.1, insufficient_scope",
            "responds with 403 and the required scopes",
            status: 403,
            error: "insufficient_scope",
            parameters: ["scope": "orders:read"],
            on: APISettings(requirement: ["orders:read"])
        ) { request, _ in request.claims["scope"] = "orders" },
        apiRefuses(
            "A79",
            "RFC 9470 3, acr_values",
            "requires stronger authentication",
            status: 401,
            error: "insufficient_user_authentication",
            parameters: ["acr_values": "mfa"],
            on: APISettings(requirement: Requirement(scopes: [], acrValues: ["mfa"]))
        ) { request, _ in request.claims["acr"] = "pwd" },
        apiRefuses(
            "A80",
            "RFC 9470 3, max_age",
            "requires a more recent authentication",
            status: 401,
            error: "insufficient_user_authentication",
            parameters: ["max_age": "300"],
            on: APISettings(requirement: Requirement(scopes: [], maximumAge: .seconds(300)))
        ) { request, _ in request.claims["auth_time"] = 1_700_000_000 },
    ]

    static let apiMetadata: [ConformanceRow] = [
        api(
            "A81",
            "RFC 9728 3.1",
            "serves the metadata at the URL in the challenge",
            on: APISettings(requirement: ["orders:read"], rules: { $0.supportedScopes = ["orders:read"] })
        ) { environment in
            var request = APIRequest(environment)
            request.scheme = nil
            let refused = try await environment.send(request)
            let challenge = AuthenticationChallenge.challenges(in: refused.head.headerFields).first
            let address = challenge?.parameters["resource_metadata"] ?? ""
            try ConformanceRow.require(
                challenge?.parameters["scope"] == "orders:read",
                "The challenge must contain the scope."
            )
            let response = try await environment.transport.send(TransportRequest(.get, try Endpoint(address)))
            let document = try JSON(parsing: response.body)
            try ConformanceRow.require(
                document["resource"]?.string == environment.resource
                    && document["authorization_servers"]?.strings == [environment.issuer.origin]
                    && document["scopes_supported"]?.strings == ["orders:read"]
                    && document["bearer_methods_supported"]?.strings == ["header"],
                "The document must contain the API, its issuer, its scopes and the method \"header\": \(document)."
            )
        },
        api(
            "A83",
            "RFC 9449 7.1, RFC 9728 2, algorithms",
            "lists the accepted algorithms of proofs in the challenge and in the metadata",
            on: APISettings(rules: { $0.dpop.algorithms = [.es256, .edDSA] })
        ) { environment in
            var request = APIRequest(environment)
            request.scheme = nil
            let refused = try await environment.send(request)
            let challenge = AuthenticationChallenge.challenges(in: refused.head.headerFields)
                .first { $0.scheme == "dpop" }
            try ConformanceRow.require(
                challenge?.parameters["algs"] == "ES256 EdDSA",
                "The challenge must contain the algorithms."
            )
            try ConformanceRow.require(
                try await metadata(environment)["dpop_signing_alg_values_supported"]?.strings == ["ES256", "EdDSA"],
                "The metadata must contain the algorithms."
            )
        },
        api(
            "A84",
            "RFC 9728 2, certificates",
            "indicates support for certificate-bound tokens",
            on: APISettings(rules: { $0.certificateField = .clientCert })
        ) { environment in
            try ConformanceRow.require(
                try await metadata(environment)["tls_client_certificate_bound_access_tokens"] == true,
                "tls_client_certificate_bound_access_tokens must be true."
            )
        },
    ]

    /// The API's metadata.
    private static func metadata(_ environment: APIEnvironment) async throws -> JSON {
        let address = "\(environment.host.origin)/.well-known/oauth-protected-resource/orders"
        return try JSON(
            parsing: try await environment.transport.send(TransportRequest(.get, try Endpoint(address))).body
        )
    }
}

extension HTTPField.Name {
    fileprivate static let clientCert = HTTPField.Name("Client-Cert") ?? .cookie
}
