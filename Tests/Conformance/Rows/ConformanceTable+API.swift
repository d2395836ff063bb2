import AuthFlow
import AuthFlowEssentials
import AuthFlowJOSE
import AuthFlowJSON
import AuthFlowResourceServer
import AuthFlowTesting
import HTTPTypes
import Synchronization

/// Rows for an API and the access tokens that it accepts, by the clauses of RFC 6750, 7662, 8705, 9068, 9449, 9470 and 9728.
extension ConformanceTable {
    typealias Change = @Sendable (_ request: inout APIRequest, _ scene: APIScene) throws -> Void
    /// An API, and the valid request of a row.
    struct APISettings: Sendable {
        var requirement = Requirement()
        var rules: @Sendable (_ rules: inout ResourceServerRules) -> Void = { _ in }
        var issuer: @Sendable (_ server: AuthorizationServer, _ scene: APIScene) throws -> TrustedIssuer = {
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
        _ body: @escaping @Sendable (APIScene) async throws -> Void
    ) -> ConformanceRow {
        ConformanceRow(
            number: number,
            name: name,
            demand: demand,
            check: .trial { setting in
                try await APIScene.with(setting) { scene in
                    var rules = ResourceServerRules()
                    settings.rules(&rules)
                    let issuer = try settings.issuer(scene.server, scene)
                    let server = try ResourceServer(scene.resource, issuers: [issuer], rules: rules)
                    scene.host.serve(server, settings.requirement)
                    try await body(scene)
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
        api(number, name, demand, on: settings) { scene in
            var request = APIRequest(scene)
            try settings.good(&request, scene)
            try change(&request, scene)
            try requireAccepted(try await scene.send(request))
        }
    }

    /// A row in which a request is accepted, and rejected after a change.
    static func apiRefuses(
        _ number: String,
        _ name: String,
        _ demand: String,
        status: Int = 401,
        error: String? = "invalid_token",
        on settings: APISettings = APISettings(),
        _ change: @escaping Change
    ) -> ConformanceRow {
        api(number, name, demand, on: settings) { scene in
            var good = APIRequest(scene)
            try settings.good(&good, scene)
            try requireAccepted(try await scene.send(good))
            var bad = APIRequest(scene)
            try settings.good(&bad, scene)
            try change(&bad, scene)
            try requireRefused(try await scene.send(bad), status, error)
        }
    }

    private static func requireAccepted(_ response: TransportResponse) throws {
        try ConformanceRow.require(response.status == 200, "The good request is accepted, not \(response.status).")
    }

    private static func requireRefused(_ response: TransportResponse, _ status: Int, _ error: String?) throws {
        try ConformanceRow.require(response.status == status, "The status is \(status), not \(response.status).")
        let challenges = AuthenticationChallenge.challenges(in: response.head.headerFields)
        let named = challenges.compactMap { $0.parameters["error"] }
        try ConformanceRow.require(named == [error].compactMap { $0 }, "The error is \(error ?? "none"), not \(named).")
        try ConformanceRow.require(
            response.head.headerFields[.cacheControl] == "no-store",
            "No cache keeps the response."
        )
        try ConformanceRow.require(
            challenges.allSatisfy { $0.parameters["resource_metadata"] != nil },
            "Every challenge names the metadata (RFC 9728 section 5.1)."
        )
    }

    static let apiRows: [ConformanceRow] =
        presentedTokens + jwtAccessTokens + boundTokens + introspectedTokens + routeDemands + apiMetadata

    // MARK: - Reading the request

    private static let presentedTokens: [ConformanceRow] = [
        apiAccepts("A1", "RFC 6750 2.1", "accepts a token in the Authorization field"),
        apiAccepts("A2", "RFC 9110 11.1", "reads the scheme without case") { request, _ in request.scheme = "bEARER" },
        api("A3", "RFC 6750 3.1, no credentials", "answers 401 with a challenge and no error code") { scene in
            var request = APIRequest(scene)
            request.scheme = nil
            try requireRefused(try await scene.send(request), 401, nil)
        },
        api("A4", "another scheme", "answers as without credentials") { scene in
            var request = APIRequest(scene)
            request.scheme = "Basic"
            try requireRefused(try await scene.send(request), 401, nil)
        },
        apiRefuses(
            "A5",
            "RFC 6750 2, two methods",
            "refuses a token in the query beside the field",
            status: 400,
            error: "invalid_request"
        ) {
            request,
            _ in request.path += "?access_token=a"
        },
        api("A6", "RFC 9700 4.3.2", "reads no token from the query") { scene in
            var request = APIRequest(scene)
            request.scheme = nil
            request.path += "?access_token=a"
            try requireRefused(try await scene.send(request), 401, nil)
        },
        apiRefuses("A7", "several Authorization fields", "refuses them", status: 400, error: "invalid_request") {
            request,
            _ in
            request.fields.append(HTTPField(name: .authorization, value: "Bearer a"))
        },
        apiRefuses("A8", "RFC 6750 2.1, b64token", "refuses other characters", status: 400, error: "invalid_request") {
            request,
            _ in
            request.token = "a,b"
        },
        apiRefuses("A9", "no token after the scheme", "refuses the request", status: 400, error: "invalid_request") {
            request,
            _ in
            request.token = ""
        },
        apiRefuses("A10", "a token of 40 KiB", "refuses it unread", status: 400, error: "invalid_request") {
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
        apiRefuses("A11", "RFC 9068 4, typ", "refuses an ID Token's type", header { $0["typ"] = "JWT" }),
        apiRefuses("A12", "RFC 9068 4, no typ", "refuses it", header { $0["typ"] = nil }),
        apiAccepts("A13", "RFC 9068 4, typ", "accepts application/at+jwt, in any case") { request, _ in
            request.tokenHeader["typ"] = "Application/AT+JWT"
        },
        apiRefuses(
            "A14",
            "RFC 8725 3.1, alg",
            "refuses one that is not on the list",
            on: APISettings(issuer: { server, _ in TrustedIssuer(server, algorithms: [.es256]) })
        ) { request, _ in request.algorithm = .rs256 },
        apiRefuses("A15", "RFC 9068 4, alg none", "refuses it") { request, _ in
            request.token = try unsigned(request)
        },
        apiRefuses("A16", "RFC 7515 4.1.11, crit", "refuses it", header { $0["crit"] = ["exp"] }),
        apiRefuses("A17", "RFC 9068 4, iss", "refuses another issuer", claims { $0["iss"] = "https://evil.example" }),
        apiRefuses("A18", "iss, by a prefix", "refuses it") { request, scene in
            request.claims["iss"] = .string("\(scene.issuer.origin)/")
        },
        apiRefuses("A19", "no iss", "refuses it", claims { $0["iss"] = nil }),
        apiRefuses("A20", "RFC 9068 4, aud", "refuses a token for another API") { request, scene in
            request.claims["aud"] = .string("\(scene.host.origin)/other")
        },
        apiRefuses("A21", "aud, by a prefix", "refuses it") { request, scene in
            request.claims["aud"] = .string("\(scene.resource)/")
        },
        apiRefuses("A22", "no aud", "refuses it", claims { $0["aud"] = nil }),
        apiAccepts("A23", "aud, several", "accepts one that is among others") { request, scene in
            request.claims["aud"] = ["https://other.example.com", .string(scene.resource)]
        },
        apiRefuses("A24", "RFC 9068 4, exp", "refuses an expired token", claims { $0["exp"] = 1_700_000_000 }),
        apiRefuses("A25", "no exp", "refuses it", claims { $0["exp"] = nil }),
        apiRefuses("A26", "nbf", "refuses a token that has not begun", claims { $0["nbf"] = 99_000_000_000 }),
        apiRefuses("A27", "iat", "refuses a token of the future", claims { $0["iat"] = 99_000_000_000 }),
        apiRefuses("A28", "RFC 9068 2.2, sub", "refuses a token without it", claims { $0["sub"] = nil }),
        apiRefuses("A29", "RFC 9068 2.2, client_id", "refuses a token without it", claims { $0["client_id"] = nil }),
        apiRefuses("A30", "RFC 9068 2.2, jti", "refuses a token without it", claims { $0["jti"] = nil }),
        apiRefuses("A31", "RFC 9068 4, signature", "refuses one by another key with the same name") { request, scene in
            request.signer = try scene.issuer.keys.decoys()
        },
        apiRefuses("A32", "RFC 8725 3.10, jwk in the header", "uses no key that the token brings") { request, scene in
            let own = try EmulatorKeys()
            request.signer = own
            request.tokenHeader["jwk"] = try APIRequest.jwk(of: own)
            request.tokenHeader["kid"] = .string(own.keyID(for: .es256))
        },
        api("A33", "jku and x5u in the header", "fetches nothing from there") { scene in
            var request = APIRequest(scene)
            let own = try EmulatorKeys()
            request.signer = own
            request.tokenHeader["kid"] = .string(own.keyID(for: .es256))
            request.tokenHeader["jku"] = .string("\(scene.issuer.origin)/own-keys")
            request.tokenHeader["x5u"] = .string("\(scene.issuer.origin)/own-keys")
            try requireRefused(try await scene.send(request), 401, "invalid_token")
            let requests = scene.issuer.state.withLock { $0.requests }
            try ConformanceRow.require(!requests.contains("/own-keys"), "Nothing is fetched from there.")
        },
        api("A34", "an issuer that only the token names", "fetches nothing") { scene in
            var request = APIRequest(scene)
            request.claims["iss"] = "https://evil.example"
            try requireRefused(try await scene.send(request), 401, "invalid_token")
            try ConformanceRow.require(scene.issuer.state.withLock { $0.requests.isEmpty }, "Nothing is fetched.")
        },
        api("A35", "keys that cannot be fetched", "answers 503 without a challenge, and not 401") { scene in
            scene.issuer.state.withLock { $0.isDown = true }
            let response = try await scene.send(APIRequest(scene))
            try ConformanceRow.require(response.status == 503, "The status is 503, not \(response.status).")
            try ConformanceRow.require(response.head.headerFields[.wwwAuthenticate] == nil, "There is no challenge.")
            try ConformanceRow.require(response.head.headerFields[.retryAfter] != nil, "The client may try again.")
        },
        api("A36", "keys that have been rotated", "finds the new ones") { scene in
            try requireAccepted(try await scene.send(APIRequest(scene)))
            let next = try EmulatorKeys()
            scene.issuer.state.withLock { $0.keys = next }
            try requireAccepted(try await scene.send(APIRequest(scene)))
        },
        apiAccepts("A37", "typ JWT, by a setting", "accepts a token of an older server", on: anyJWT) { request, _ in
            request.claims["jti"] = nil
        },
        apiRefuses(
            "A38",
            "typ JWT, nonce",
            "refuses an ID Token by its claims",
            on: anyJWT,
            claims { $0["nonce"] = "n" }
        ),
        apiRefuses(
            "A39",
            "typ JWT, at_hash",
            "refuses an ID Token by its claims",
            on: anyJWT,
            claims { $0["at_hash"] = "a" }
        ),
        apiRefuses(
            "A40",
            "typ JWT, azp",
            "refuses a token that was issued to its own audience",
            on: anyJWT
        ) { request, scene in request.claims["azp"] = .string(scene.resource) },
        api(
            "A41",
            "RFC 9068 4, encryption that was agreed",
            "refuses a plain token",
            on: APISettings(issuer: { server, _ in TrustedIssuer(server, requiresEncryption: true) })
        ) { scene in try requireRefused(try await scene.send(APIRequest(scene)), 401, "invalid_token") },
    ]

    private static func unsigned(_ request: APIRequest) throws -> String {
        let header: JSON = ["alg": "none", "typ": "at+jwt"]
        return
            "\(Base64URL.encode(try header.serialized())).\(Base64URL.encode(try JSON.object(request.claims).serialized()))."
    }
}
