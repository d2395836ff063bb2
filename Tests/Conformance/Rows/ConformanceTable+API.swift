import AuthFlow
import AuthFlowEssentials
import AuthFlowJOSE
import AuthFlowJSON
import AuthFlowResourceServer
import AuthFlowTesting
import HTTPTypes
import Synchronization

/// Rows for an API and the access tokens that it accepts, by clause of RFC 6750, 7662, 8705, 9068, 9449, 9470 and 9728.
extension ConformanceTable {
    typealias Change = @Sendable (_ request: inout APIRequest, _ environment: APIEnvironment) throws -> Void
    /// An API, and the valid request of a row.
    struct APISettings: Sendable {
        var requirement = Requirement()
        var rules: @Sendable (_ rules: inout ResourceServerRules) -> Void = { _ in }
        var issuer: @Sendable (_ server: AuthorizationServer, _ environment: APIEnvironment) throws -> TrustedIssuer = {
            server,
            _ in
            TrustedIssuer(server)
        }
        var good: Change = { _, _ in }
    }

    /// A row with a custom test.
    static func api(
        _ number: String,
        _ name: String,
        _ demand: String,
        on settings: APISettings = APISettings(),
        _ body: @escaping @Sendable (APIEnvironment) async throws -> Void
    ) -> ConformanceRow {
        ConformanceRow(
            number: number,
            name: name,
            demand: demand,
            check: .trial { setting in
                try await APIEnvironment.with(setting) { environment in
                    var rules = ResourceServerRules()
                    settings.rules(&rules)
                    let issuer = try settings.issuer(environment.server, environment)
                    let server = try ResourceServer(environment.resource, issuers: [issuer], rules: rules)
                    environment.host.serve(server, settings.requirement)
                    try await body(environment)
                }
            }
        )
    }

    /// A row in which a request is accepted.
    static func apiAccepts(
        _ number: String,
        _ name: String,
        _ demand: String,
        on settings: APISettings = APISettings(),
        _ change: @escaping Change = { _, _ in }
    ) -> ConformanceRow {
        api(number, name, demand, on: settings) { environment in
            var request = APIRequest(environment)
            try settings.good(&request, environment)
            try change(&request, environment)
            try requireAccepted(try await environment.send(request))
        }
    }

    /// A row in which a request is accepted, and a modified request is rejected.
    /// - Parameter parameters: The parameters that the challenge with the error must contain.
    static func apiRefuses(
        _ number: String,
        _ name: String,
        _ demand: String,
        status: Int = 401,
        error: String? = "invalid_token",
        parameters: [String: String] = [:],
        on settings: APISettings = APISettings(),
        _ change: @escaping Change
    ) -> ConformanceRow {
        api(number, name, demand, on: settings) { environment in
            var good = APIRequest(environment)
            try settings.good(&good, environment)
            try requireAccepted(try await environment.send(good))
            var bad = APIRequest(environment)
            try settings.good(&bad, environment)
            try change(&bad, environment)
            let response = try await environment.send(bad)
            try requireRefused(response, status, error)
            let challenge = AuthenticationChallenge.challenges(in: response.head.headerFields)
                .first { $0.parameters["error"] == error }
            for (name, value) in parameters {
                try ConformanceRow.require(
                    challenge?.parameters[name] == value,
                    "The challenge must contain \(name)=\"\(value)\"."
                )
            }
        }
    }

    private static func requireAccepted(_ response: TransportResponse) throws {
        try ConformanceRow.require(
            response.status == 200,
            "The request must be accepted, but the status is \(response.status)."
        )
    }

    private static func requireRefused(_ response: TransportResponse, _ status: Int, _ error: String?) throws {
        try ConformanceRow.require(response.status == status, "The status must be \(status), not \(response.status).")
        let challenges = AuthenticationChallenge.challenges(in: response.head.headerFields)
        let named = challenges.compactMap { $0.parameters["error"] }
        try ConformanceRow.require(
            named == [error].compactMap { $0 },
            "The error must be \(error ?? "none"), not \(named)."
        )
        try ConformanceRow.require(
            response.head.headerFields[.cacheControl] == "no-store",
            "The response must not be cacheable."
        )
        try ConformanceRow.require(
            challenges.allSatisfy { $0.parameters["resource_metadata"] != nil },
            "Every challenge must contain the metadata URL (RFC 9728 section 5.1)."
        )
    }

    static let apiRows: [ConformanceRow] =
        presentedTokens + jwtAccessTokens + boundTokens + introspectedTokens + routeDemands + apiMetadata

    // MARK: - Reading the request

    private static let presentedTokens: [ConformanceRow] = [
        apiAccepts("A1", "RFC 6750 2.1", "accepts a token in the Authorization header"),
        apiAccepts("A2", "RFC 9110 11.1", "ignores the case of the scheme") { request, _ in request.scheme = "bEARER" },
        api("A3", "RFC 6750 3.1, no credentials", "responds with 401, a challenge and no error code") { environment in
            var request = APIRequest(environment)
            request.scheme = nil
            try requireRefused(try await environment.send(request), 401, nil)
        },
        api("A4", "another scheme", "responds as if there were no credentials") { environment in
            var request = APIRequest(environment)
            request.scheme = "Basic"
            try requireRefused(try await environment.send(request), 401, nil)
        },
        apiRefuses(
            "A5",
            "RFC 6750 2, two methods",
            "rejects a token in the query in addition to the header",
            status: 400,
            error: "invalid_request"
        ) {
            request,
            _ in request.path += "?access_token=a"
        },
        api("A6", "RFC 9700 4.3.2", "ignores a token in the query") { environment in
            var request = APIRequest(environment)
            request.scheme = nil
            request.path += "?access_token=a"
            try requireRefused(try await environment.send(request), 401, nil)
        },
        apiRefuses("A7", "several Authorization headers", "rejects them", status: 400, error: "invalid_request") {
            request,
            _ in
            request.fields.append(HTTPField(name: .authorization, value: "Bearer a"))
        },
        apiRefuses("A8", "RFC 6750 2.1, b64token", "rejects other characters", status: 400, error: "invalid_request") {
            request,
            _ in
            request.token = "a,b"
        },
        apiRefuses("A9", "no token after the scheme", "rejects the request", status: 400, error: "invalid_request") {
            request,
            _ in
            request.token = ""
        },
        apiRefuses("A10", "a token of 40 KiB", "rejects it without parsing it", status: 400, error: "invalid_request") {
            request,
            _ in
            request.token = String(repeating: "a", count: 40 * 1024)
        },
    ]

    // MARK: - JWT access tokens (RFC 9068)

    private static func claims(_ change: @escaping @Sendable (inout [String: JSON]) -> Void) -> Change {
        { request, _ in change(&request.claims) }
    }

    private static func header(_ change: @escaping @Sendable (inout [String: JSON]) -> Void) -> Change {
        { request, _ in change(&request.tokenHeader) }
    }

    private static let anyJWT = APISettings(
        issuer: { server, _ in TrustedIssuer(server, tokenType: .riskyAnyJWT) },
        good: header { $0["typ"] = "JWT" }
    )

    private static let jwtAccessTokens: [ConformanceRow] = [
        apiRefuses("A11", "RFC 9068 4, typ", "rejects typ JWT, the type of an ID Token", header { $0["typ"] = "JWT" }),
        apiRefuses("A12", "RFC 9068 4, no typ", "rejects the token", header { $0["typ"] = nil }),
        apiAccepts("A13", "RFC 9068 4, typ", "accepts application/at+jwt case-insensitively") { request, _ in
            request.tokenHeader["typ"] = "Application/AT+JWT"
        },
        apiRefuses(
            "A14",
            "RFC 8725 3.1, alg",
            "rejects an algorithm that is not on the list",
            on: APISettings(issuer: { server, _ in TrustedIssuer(server, algorithms: [.es256]) })
        ) { request, _ in request.algorithm = .rs256 },
        apiRefuses("A15", "RFC 9068 4, alg none", "rejects the token") { request, _ in
            request.token = try unsigned(request)
        },
        apiRefuses("A16", "RFC 7515 4.1.11, crit", "rejects the token", header { $0["crit"] = ["exp"] }),
        apiRefuses("A17", "RFC 9068 4, iss", "rejects another issuer", claims { $0["iss"] = "https://evil.example" }),
        apiRefuses("A18", "iss with a trailing slash", "rejects the token") { request, environment in
            request.claims["iss"] = .string("\(environment.issuer.origin)/")
        },
        apiRefuses("A19", "no iss", "rejects the token", claims { $0["iss"] = nil }),
        apiRefuses("A20", "RFC 9068 4, aud", "rejects a token for a different API") { request, environment in
            request.claims["aud"] = .string("\(environment.host.origin)/other")
        },
        apiRefuses("A21", "aud with a trailing slash", "rejects the token") { request, environment in
            request.claims["aud"] = .string("\(environment.resource)/")
        },
        apiRefuses("A22", "no aud", "rejects the token", claims { $0["aud"] = nil }),
        apiAccepts("A23", "aud, several", "accepts a list that contains the API") { request, environment in
            request.claims["aud"] = ["https://other.example.com", .string(environment.resource)]
        },
        apiRefuses("A24", "RFC 9068 4, exp", "rejects an expired token", claims { $0["exp"] = 1_700_000_000 }),
        apiRefuses("A25", "no exp", "rejects the token", claims { $0["exp"] = nil }),
        apiRefuses("A26", "nbf", "rejects a token that is not valid yet", claims { $0["nbf"] = 99_000_000_000 }),
        apiRefuses("A27", "iat", "rejects a token issued in the future", claims { $0["iat"] = 99_000_000_000 }),
        apiRefuses("A28", "RFC 9068 2.2, sub", "requires sub", claims { $0["sub"] = nil }),
        apiRefuses("A29", "RFC 9068 2.2, client_id", "requires client_id", claims { $0["client_id"] = nil }),
        apiRefuses("A30", "RFC 9068 2.2, jti", "requires jti", claims { $0["jti"] = nil }),
        apiRefuses("A31", "RFC 9068 4, signature", "rejects a different key's signature") { request, environment in
            request.signer = try environment.issuer.keys.decoys()
        },
        apiRefuses("A32", "RFC 8725 3.10, jwk in the header", "ignores a key in the token") { request, environment in
            let own = try EmulatorKeys()
            request.signer = own
            request.tokenHeader["jwk"] = try APIRequest.jwk(of: own)
            request.tokenHeader["kid"] = .string(own.keyID(for: .es256))
        },
        api("A33", "jku and x5u in the header", "fetches no keys from these URLs") { environment in
            var request = APIRequest(environment)
            let own = try EmulatorKeys()
            request.signer = own
            request.tokenHeader["kid"] = .string(own.keyID(for: .es256))
            request.tokenHeader["jku"] = .string("\(environment.issuer.origin)/own-keys")
            request.tokenHeader["x5u"] = .string("\(environment.issuer.origin)/own-keys")
            try requireRefused(try await environment.send(request), 401, "invalid_token")
            let requests = environment.issuer.state.withLock { $0.requests }
            try ConformanceRow.require(!requests.contains("/own-keys"), "The URL in the token must not be fetched.")
        },
        api("A34", "an issuer that is not configured", "fetches nothing") { environment in
            var request = APIRequest(environment)
            request.claims["iss"] = "https://evil.example"
            try requireRefused(try await environment.send(request), 401, "invalid_token")
            try ConformanceRow.require(
                environment.issuer.state.withLock { $0.requests.isEmpty },
                "The issuer must not receive any request."
            )
        },
        api("A35", "keys that cannot be fetched", "responds with 503 without a challenge, not with 401") {
            environment in
            environment.issuer.state.withLock { $0.isDown = true }
            let response = try await environment.send(APIRequest(environment))
            try ConformanceRow.require(response.status == 503, "The status must be 503, not \(response.status).")
            try ConformanceRow.require(response.head.headerFields[.wwwAuthenticate] == nil, "No challenge is expected.")
            try ConformanceRow.require(response.head.headerFields[.retryAfter] != nil, "Retry-After is missing.")
        },
        api("A36", "keys that have been rotated", "fetches the new keys") { environment in
            try requireAccepted(try await environment.send(APIRequest(environment)))
            let next = try EmulatorKeys()
            environment.issuer.state.withLock { $0.keys = next }
            try requireAccepted(try await environment.send(APIRequest(environment)))
        },
        apiAccepts("A37", "typ JWT, if configured", "accepts a token from an older server", on: anyJWT) { request, _ in
            request.claims["jti"] = nil
        },
        apiRefuses(
            "A38",
            "typ JWT, nonce",
            "rejects an ID Token based on its claims",
            on: anyJWT,
            claims { $0["nonce"] = "n" }
        ),
        apiRefuses(
            "A39",
            "typ JWT, at_hash",
            "rejects an ID Token based on its claims",
            on: anyJWT,
            claims { $0["at_hash"] = "a" }
        ),
        apiRefuses(
            "A40",
            "typ JWT, azp",
            "rejects a token whose azp is its audience",
            on: anyJWT
        ) { request, environment in request.claims["azp"] = .string(environment.resource) },
        api(
            "A41",
            "RFC 9068 4, required encryption",
            "rejects an unencrypted token",
            on: APISettings(issuer: { server, _ in TrustedIssuer(server, requiresEncryption: true) })
        ) { environment in try requireRefused(try await environment.send(APIRequest(environment)), 401, "invalid_token")
        },
    ]

    private static func unsigned(_ request: APIRequest) throws -> String {
        let header: JSON = ["alg": "none", "typ": "at+jwt"]
        return
            "\(Base64URL.encode(try header.serialized())).\(Base64URL.encode(try JSON.object(request.claims).serialized()))."
    }
}
