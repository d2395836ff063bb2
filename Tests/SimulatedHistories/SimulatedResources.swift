import AuthFlow
import AuthFlowEssentials
import AuthFlowSimulation
import Crypto

/// Protected resources (RFC 9728) whose authorization server is the simulated provider, which registers any client (RFC 7591).
final class SimulatedResources: @unchecked Sendable {  // All jobs of a simulation run on one thread.
    /// The access that an authorization request asks for, which the provider grants.
    private struct Access {
        var scopes: [String] = []
        /// The requested authentication context classes (RFC 9470).
        var classes: [String] = []
    }

    /// An authorization code.
    private struct Code {
        let client: Int
        let challenge: String
        let resource: String
        let access: Access
        var isUsed = false
    }

    let urls: [String]
    private let provider: SimulatedProvider
    private let records: SimulatedRecords
    private var codes: [Code] = []
    /// Whether the provider still recognizes each registered client.
    private(set) var clients: [Bool] = []
    /// The client and the access of each grant.
    private var grants: [Int: (client: Int, access: Access)] = [:]
    /// The tokens that the resources reject although their grants are valid.
    private var rejected: Set<String> = []
    private var world: World { provider.world }
    private var simulation: Simulation { provider.simulation }

    init(_ urls: [String], provider: SimulatedProvider, records: SimulatedRecords) {
        (self.urls, self.provider, self.records) = (urls, provider, records)
    }

    /// The valid grants for a resource.
    func validGrants(for resource: String) -> [Int] {
        provider.grants.indices.filter { provider.grants[$0].end == nil && provider.grants[$0].resources == [resource] }
    }

    /// Deletes a random registration, and with it the client's tokens.
    func forgetClient() {
        guard let client = clients.indices.randomElement(using: &simulation.random), clients[client] else { return }
        clients[client] = false
        world.note("provider: client.\(client) is deleted")
        for (grant, owner) in grants where owner.client == client { provider.end(grant, "its client was deleted") }
    }

    // MARK: The authorization endpoint

    /// The redirect after an authorization request that the user accepts or denies.
    func redirect(from url: String, isAccepted: Bool) -> String {
        let query = FormURLEncoding.decode(String(url.drop { $0 != "?" }.dropFirst()))
        guard let query, let state = query["state"], let challenge = query["code_challenge"],
            let resource = query["resource"], let redirect = query["redirect_uri"],
            let client = query["client_id"].flatMap(Self.number), clients.indices.contains(client)
        else {
            world.require(false, "an authorization request is incomplete")
            return ""
        }
        let issuer = FormURLEncoding.encode(SimulatedProvider.issuer)
        guard clients[client] else { return "\(redirect)?error=unauthorized_client&state=\(state)&iss=\(issuer)" }
        guard isAccepted else { return "\(redirect)?error=access_denied&state=\(state)&iss=\(issuer)" }
        let access = Access(scopes: Self.words(query["scope"]), classes: Self.words(query["acr_values"]))
        codes.append(Code(client: client, challenge: challenge, resource: resource, access: access))
        return "\(redirect)?code=code.\(codes.count - 1)&state=\(state)&iss=\(issuer)"
    }

    private static func words(_ text: String?) -> [String] { (text ?? "").split(separator: " ").map(String.init) }

    private static func number(_ name: String) -> Int? { Int(name.drop { $0 != "." }.dropFirst()) }

    // MARK: Requests

    /// Checks the token of a request to a resource when the process sends the request.
    func check(_ call: TransportRequest, of process: Simulation.Process) {
        guard let url = resource(of: call), let token = Self.token(of: call),
            let (grant, _, tokenResource) = SimulatedProvider.parts(of: token)
        else { return }
        world.require(tokenResource == url, "\(token) is sent to \(url)")
        guard let removal = records.removals[grant] else { return }
        let age = simulation.now - removal
        let isKnown = age > CredentialHistory.longestCacheTime && !world.mayKnowLess(process)
        world.require(!isKnown, "\(token) is sent \(age) after its removal")
    }

    private func resource(of call: TransportRequest) -> String? { urls.first { call.url.hasPrefix($0) } }

    private static func token(of call: TransportRequest) -> String? {
        call.head.headerFields[.authorization].map { String($0.dropFirst("Bearer ".count)) }
    }

    /// The response to a request; nil for a refresh or revocation request of a registered client, to which the provider responds.
    func response(to call: TransportRequest) -> TransportResponse? {
        if let url = resource(of: call) { return response(to: call, at: url) }
        switch call.head.path ?? "" {
        case "/.well-known/oauth-protected-resource/mcp":
            let url = "https://\(call.head.authority ?? "")/mcp"
            return SimulatedProvider.response(
                200,
                ["resource": .string(url), "authorization_servers": [.string(SimulatedProvider.issuer)]]
            )
        case "/.well-known/oauth-authorization-server": return SimulatedProvider.response(200, metadata)
        case "/register": return register(call)
        case "/token", "/revoke": return tokenResponse(to: call)
        default: return SimulatedProvider.response(404)
        }
    }

    private var metadata: JSON {
        let more: [String: JSON] = [
            "registration_endpoint": .string("\(SimulatedProvider.issuer)/register"),
            "token_endpoint_auth_methods_supported": ["none"],
        ]
        return .object((SimulatedProvider.metadata.object ?? [:]).merging(more) { $1 })
    }

    private func register(_ call: TransportRequest) -> TransportResponse {
        clients.append(true)
        world.note("provider: client.\(clients.count - 1) is registered")
        return SimulatedProvider.response(
            201,
            [
                "client_id": .string("client.\(clients.count - 1)"), "token_endpoint_auth_method": "none",
                "redirect_uris": (try? JSON(parsing: call.body))?["redirect_uris"] ?? [],
            ]
        )
    }

    private func tokenResponse(to call: TransportRequest) -> TransportResponse? {
        let parameters = FormURLEncoding.decode(String(decoding: call.body, as: UTF8.self))
        guard let client = parameters?["client_id"].flatMap(Self.number), clients.indices.contains(client),
            clients[client]
        else { return SimulatedProvider.response(401, ["error": "invalid_client"]) }
        if let code = parameters?["code"].flatMap(Self.number) {
            return exchange(code, by: client, parameters?["code_verifier"] ?? "")
        }
        let token = parameters?["refresh_token"] ?? parameters?["token"] ?? ""
        if let grant = SimulatedProvider.parts(of: token)?.grant, let owner = grants[grant] {
            world.require(owner.client == client, "client.\(client) sends \(token) of client.\(owner.client)")
        }
        return nil
    }

    private func exchange(_ number: Int, by client: Int, _ verifier: String) -> TransportResponse {
        let code = codes[number]
        world.require(code.client == client, "client.\(client) exchanges a code of client.\(code.client)")
        // RFC 7636 section 4.6.
        let challenge = Base64URL.encode(SHA256.hash(data: Array(verifier.utf8)))
        world.require(challenge == code.challenge, "code.\(number) is sent with the code verifier of another request")
        world.require(!code.isUsed, "code.\(number) is sent twice")
        codes[number].isUsed = true
        let grant = provider.addGrant(for: code.resource)
        grants[grant] = (client, code.access)
        world.note("provider: code.\(number) is exchanged for grant \(grant)")
        return SimulatedProvider.response(
            200,
            [
                "access_token": .string("at.\(grant).0.\(code.resource)"), "refresh_token": .string("rt.\(grant).0"),
                "token_type": "Bearer", "expires_in": .integer(provider.lifetime),
                "scope": .string(code.access.scopes.joined(separator: " ")),
            ]
        )
    }

    // MARK: The resources

    private func response(to call: TransportRequest, at url: String) -> TransportResponse {
        guard let token = Self.token(of: call) else { return challenge(401, at: url, #"scope="read""#) }
        if simulation.random.happens(world.faults.provider / 5) { rejected.insert(token) }
        guard let grant = SimulatedProvider.parts(of: token)?.grant, let owner = grants[grant],
            provider.grants[grant].end == nil, !rejected.contains(token)
        else { return challenge(401, at: url, #"error="invalid_token""#) }
        if call.url.hasSuffix("/admin"), !owner.access.scopes.contains("write") {
            return challenge(403, at: url, #"error="insufficient_scope", scope="write""#)
        }
        if call.url.hasSuffix("/payments"), !owner.access.classes.contains("mfa") {
            return challenge(401, at: url, #"error="insufficient_user_authentication", acr_values="mfa""#)
        }
        return SimulatedProvider.response(200, ["grant": .integer(Int64(grant))])
    }

    private func challenge(_ status: Int, at url: String, _ parameters: String) -> TransportResponse {
        var response = SimulatedProvider.response(status)
        let metadata = url.replacing("/mcp", with: "/.well-known/oauth-protected-resource/mcp")
        response.head.headerFields[.wwwAuthenticate] = #"Bearer resource_metadata="\#(metadata)", \#(parameters)"#
        return response
    }
}
