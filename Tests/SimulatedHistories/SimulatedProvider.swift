package import AuthFlow
package import AuthFlowEssentials
package import AuthFlowSimulation

/// A provider that rotates refresh tokens, and revokes all tokens of a grant when a refresh token is reused (RFC 9700
/// section 4.14.2).
package final class SimulatedProvider: @unchecked Sendable {  // All jobs of a simulation run on one thread.
    package static let issuer = "https://provider.example"

    /// The grant of a sign-in.
    package struct Grant: Sendable {
        package let user: String
        package let session: String
        package let resources: [String]
        /// The number of the currently valid refresh token.
        package var serial = 0
        package var accessSerial = 0
        /// The reason why the grant's tokens are no longer valid; nil while they are valid.
        package var end: String?
        /// The session at the provider in which the grant was issued, for sign-ins in a browser.
        var userSession: Int?
        /// The issue time of its ID Token, in seconds.
        var issuedAt: Int64 = 0
        /// The uses of its refresh tokens, in order.
        package var rotations: [Rotation] = []
    }

    package struct Rotation: Sendable {
        let process: Simulation.Process
        /// The time at which the process sent the request.
        let sentAt: Duration
        /// The time at which the process received the response; nil if it has not received it.
        var receivedAt: Duration?
    }

    let world: World
    var simulation: Simulation { world.simulation }
    package internal(set) var grants: [Grant] = []
    /// The users who are signed in at the provider itself, each in one browser.
    var userSessions: [UserSession] = []
    var codes: [Code] = []
    private(set) lazy var key = SimulatedKey()
    package private(set) var requests = 0
    /// The lifetime of access tokens, in seconds.
    package var lifetime: Int64
    /// The policy that restricts tokens for one resource.
    var policy: ResourcePolicy?
    /// The protected resources whose users sign in at this provider.
    weak var resources: SimulatedResources?

    package init(world: World) {
        self.world = world
        self.lifetime = 60 + Int64(world.simulation.random.next() % 540)
        world.isEnded = { [unowned self] in grants[$0].end != nil }
        world.user = { [unowned self] in grants[$0].user }
    }

    // MARK: Grants

    /// Signs a user in.
    package func signIn(_ user: String, session: String, resources: [String], at now: Date) -> Credential {
        grants.append(Grant(user: user, session: session, resources: resources))
        return Self.credential(grants.count - 1, of: user, resources: resources, at: now, lifetime: lifetime)
    }

    /// Adds a grant for one protected resource.
    /// - Returns: The number of the grant.
    func addGrant(for resource: String) -> Int {
        grants.append(Grant(user: "", session: "", resources: [resource]))
        return grants.count - 1
    }

    /// The credential of a grant, as issued at sign-in.
    static func credential(
        _ grant: Int,
        of user: String,
        resources: [String] = [],
        at now: Date,
        lifetime: Int64
    ) -> Credential {
        let issuer = JSON.string(Self.issuer)
        var json: [String: JSON] = [
            "access_token": .string("at.\(grant).0.-"), "refresh_token": .string("rt.\(grant).0"),
            "token_type": "Bearer",
            "scopes": [], "signed_in_at": .double(now.timeIntervalSince1970),
            "obtained_at": .double(now.timeIntervalSince1970),
            "expires_at": .double(now.timeIntervalSince1970 + Double(lifetime)),
            "identity": ["issuer": issuer, "subject": .string(user)],
            "binding": ["issuer": issuer, "endpoints": .object(endpoints)],
        ]
        if !resources.isEmpty { json["resources"] = .array(resources.map(JSON.string)) }
        guard let credential = Credential(.object(json)) else {
            preconditionFailure("The JSON format of credentials has changed.")
        }
        return credential
    }

    package func end(_ grant: Int, _ reason: String) {
        guard grants.indices.contains(grant), grants[grant].end == nil else { return }
        world.note("provider: grant \(grant) ends: \(reason)")
        grants[grant].end = reason
    }

    /// The parts of a token: its grant, its number, and its resource.
    package static func parts(of token: String) -> (grant: Int, serial: Int, resource: String?)? {
        let parts = token.split(separator: ".", maxSplits: 3)
        guard parts.count >= 3, let grant = Int(parts[1]), let serial = Int(parts[2]) else { return nil }
        return (grant, serial, parts.count == 4 && parts[3] != "-" ? String(parts[3]) : nil)
    }

    /// The grant of a credential.
    static func grant(of credential: Credential) -> Int? {
        credential.tokens.refreshToken.flatMap { parts(of: $0.exposed)?.grant }
    }

    /// Whether a lost response, or a process that may have lost its lease before it stored the response, explains why a refresh token is still in use
    /// after it was exchanged.
    private func isReuseExplained(_ grant: Int, of serial: Int) -> Bool {
        let rotation = grants[grant].rotations[serial]
        return rotation.receivedAt == nil || world.couldNotWrite(rotation.process, since: rotation.sentAt)
    }

    /// Whether the response to the exchange of a refresh token was lost, or its process was killed before it could store the response. Only that
    /// process can have exchanged later refresh tokens.
    func isLossExplained(_ grant: Int, of serial: Int) -> Bool {
        let rotation = grants[grant].rotations[serial]
        return rotation.receivedAt.map { world.wasKilled(rotation.process, beforeStoringResponseOf: $0) } ?? true
    }

    // MARK: Requests

    private static let endpoints: [String: JSON] = [
        "authorization_endpoint": .string("\(issuer)/authorize"), "token_endpoint": .string("\(issuer)/token"),
        "revocation_endpoint": .string("\(issuer)/revoke"), "jwks_uri": .string("\(issuer)/keys"),
    ]

    static let metadata: JSON = .object(
        endpoints.merging([
            "issuer": .string(issuer), "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
            "id_token_signing_alg_values_supported": [.string(SimulatedKey.algorithm.rawValue)],
        ]) { $1 }
    )

    /// Whether the tokens of a grant may be revoked now.
    package var mayRevoke: (Int) -> Bool = { _ in true }

    /// The adapter of the provider, whose endpoints are fixed, and whose token responses identify the user.
    package struct Adapter: UserInfoProviding {
        package init() {}
        package func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity? {
            tokens.parameters.exposed["user"]?.string.map { Identity(issuer: issuer, subject: $0) }
        }
        package var issuer: String { SimulatedProvider.issuer }
        package func metadata(in context: ServerContext) async throws -> ProviderMetadata {
            try ProviderMetadata(SimulatedProvider.metadata)
        }
    }

    /// The network between a process and the provider.
    package struct Transport: HTTPTransport {
        let provider: SimulatedProvider
        let process: Simulation.Process

        package init(_ provider: SimulatedProvider, _ process: Simulation.Process) {
            self.provider = provider
            self.process = process
        }

        package func send(_ call: TransportRequest) async throws -> TransportResponse {
            try await provider.send(call, from: process)
        }
    }

    private enum Fault: CaseIterable {
        case slow, unreachable, cutOffBefore, cutOffAfter, gatewayBefore, gatewayAfter, tooMany, refused
    }

    private func send(_ call: TransportRequest, from process: Simulation.Process) async throws -> TransportResponse {
        resources?.check(call, of: process)
        let hasFault = simulation.random.happens(world.faults.provider)
        let fault = hasFault ? Fault.allCases.randomElement(using: &simulation.random) : nil
        // The request may have to wait for a connection.
        if simulation.random.happens(0.1) {
            try await simulation.clock.sleep(for: simulation.random.duration(.zero, .seconds(20)))
        }
        try call.willSend()
        requests += 1
        let sentAt = simulation.now
        let isSlow = fault == .slow
        let times = (
            world.latency(isSlow ? .seconds(40) : .seconds(4)), world.latency(isSlow ? .seconds(40) : .seconds(4))
        )
        if fault == .unreachable { throw Self.failed }
        let isLate = times.0 + times.1 > call.timeout
        let response = try await simulation.inWorld { [self] in
            let answer = Task { () async -> (TransportResponse, Use?) in
                try? await simulation.clock.sleep(for: times.0)
                switch fault {
                case .cutOffBefore, .gatewayBefore: return (Self.response(502), nil)
                case .tooMany: return (Self.response(429, retryAfter: 1 + Int(simulation.random.next() % 20)), nil)
                case .refused: return (Self.response(400), nil)
                default: break
                }
                let answer = handle(call, from: process, sentAt: sentAt, isLate: isLate)
                try? await simulation.clock.sleep(for: times.1)
                return answer
            }
            if isLate {
                try await simulation.clock.sleep(for: call.timeout)
                throw AuthError(.timedOut, "The provider did not respond in time.")
            }
            return await answer.value
        }
        switch fault {
        case .cutOffBefore, .cutOffAfter: throw Self.failed
        case .gatewayAfter: return Self.response(504)
        default: break
        }
        switch response.1 {
        case .exchanged(let grant, let serial): grants[grant].rotations[serial].receivedAt = simulation.now
        case .refusedResource(let grant): policy?.isDelivered(to: process, of: grant, at: simulation.now)
        case nil: break
        }
        return response.0
    }

    private static let failed = AuthError(.networkFailed, "The connection failed.")

    static func response(_ status: Int, retryAfter: Int? = nil, _ json: JSON? = nil) -> TransportResponse {
        var head = HTTPResponse(status: .init(code: status))
        head.headerFields[.contentType] = "application/json"
        head.headerFields[.retryAfter] = retryAfter.map { "\($0)" }
        return TransportResponse(head: head, body: json.flatMap { try? $0.serialized() } ?? [])
    }

    /// The use of a refresh token.
    private enum Use {
        case exchanged(grant: Int, serial: Int)
        case refusedResource(grant: Int)
    }

    /// - Parameter isLate: Whether the response will arrive after the sender's timeout.
    private func handle(
        _ call: TransportRequest,
        from process: Simulation.Process,
        sentAt: Duration,
        isLate: Bool
    ) -> (TransportResponse, Use?) {
        if let response = resources?.response(to: call) { return (response, nil) }
        if call.head.path == "/keys" { return (Self.response(200, key.publicKeys), nil) }
        let parameters = FormURLEncoding.decode(String(decoding: call.body, as: UTF8.self))
        if let code = parameters?["code"] {
            return (exchange(code, parameters?["code_verifier"] ?? ""), nil)
        }
        let token = parameters?["refresh_token"] ?? parameters?["token"] ?? ""
        guard let (grant, serial, _) = Self.parts(of: token), grants.indices.contains(grant) else {
            return (Self.response(400, ["error": "invalid_request"]), nil)
        }
        if call.head.path == "/revoke" {
            world.require(mayRevoke(grant), "the tokens of grant \(grant) are revoked although its session continues")
            end(grant, "revoked")
            return (Self.response(200), nil)
        }
        let ended = (Self.response(400, ["error": "invalid_grant"]), nil as Use?)
        guard grants[grant].end == nil else {
            world.note("provider: \(token) of P\(process.index) is rejected: \(grants[grant].end ?? "")")
            return ended
        }
        guard serial == grants[grant].serial else {
            // A process that was paused until its lease had expired may have sent this request before the other
            // request.
            world.require(
                isLate || isReuseExplained(grant, of: serial) || world.couldNotWrite(process, since: sentAt),
                "\(token) was sent twice, by P\(grants[grant].rotations[serial].process.index) and P\(process.index)"
            )
            end(grant, "\(token) was used twice")
            return ended
        }
        let resources = parameters?.values(for: "resource") ?? []
        let resource = resources.count == 1 ? resources.first : nil
        if let policy, policy.refuses(resource, at: simulation.now) {
            world.note("provider: \(token) of P\(process.index) is not exchanged for \(policy.resource)")
            world.require(
                !policy.isKnown(to: process, of: grant, at: sentAt),
                "P\(process.index) repeats a request for \(policy.resource) just after its refusal"
            )
            return (Self.response(400, policy.refusal), .refusedResource(grant: grant))
        }
        grants[grant].serial += 1
        grants[grant].accessSerial += 1
        grants[grant].rotations.append(Rotation(process: process, sentAt: sentAt))
        let (refresh, access) = (grants[grant].serial, grants[grant].accessSerial)
        world.note("provider: \(token) of P\(process.index) is exchanged for rt.\(grant).\(refresh)")
        let json: JSON = [
            "access_token": .string("at.\(grant).\(access).\(resource ?? "-")"),
            "refresh_token": .string("rt.\(grant).\(refresh)"),
            "token_type": "Bearer", "expires_in": .integer(lifetime), "user": .string(grants[grant].user),
        ]
        return (Self.response(200, json), .exchanged(grant: grant, serial: serial))
    }
}
