import AuthFlow
import AuthFlowEssentials
import AuthFlowJOSE
import AuthFlowJSON
import AuthFlowResourceServer
import AuthFlowTesting
import Crypto
import HTTPTypes
import Synchronization

/// An API and the issuer of its tokens, either in process or each behind a separate socket.
struct APIEnvironment: Sendable {
    let issuer: APIIssuer
    let host: APIHost
    let transport: any HTTPTransport

    /// The API's identifier.
    var resource: String { "\(host.origin)/orders" }

    static func with(
        _ setting: EmulatorEnvironment.Setting,
        _ body: @Sendable (APIEnvironment) async throws -> Void
    ) async throws {
        switch setting {
        case .inProcess:
            let issuer = try APIIssuer(origin: "https://id.example.com")
            let host = APIHost(origin: "https://api.example.com")
            try await body(APIEnvironment(issuer: issuer, host: host, transport: InProcessTransport(issuer, host)))
        case .sockets:
            try await EmulatorServer.run(APIIssuer.init) { issuer in
                try await EmulatorServer.run(APIHost.init) { host in
                    try await body(APIEnvironment(issuer: issuer, host: host, transport: SystemTransport()))
                }
            }
        }
    }

    var server: AuthorizationServer { AuthorizationServer(issuer: issuer.origin, transport: transport) }

    /// The API as a client of its issuer, for introspection.
    func introspector(_ server: AuthorizationServer) throws -> OAuthClient {
        OAuthClient(
            server: server,
            registration: try ClientRegistration(clientID: "orders-api") {
                $0.authentication = .clientSecretBasic(Secret("secret"))
            }
        )
    }

    /// Sends a request to the API.
    func send(_ request: APIRequest) async throws -> TransportResponse {
        let call = try request.call(self)
        return try await transport.send(call)
    }
}

/// Serves an API whose resource server and requirement a row can set.
final class APIHost: ProviderEmulator {
    let origin: String
    private let api = Mutex<(server: ResourceServer, requirement: Requirement)?>(nil)

    init(origin: String) { self.origin = origin }

    var origins: [String] { [origin] }

    func serve(_ server: ResourceServer, _ requirement: Requirement) { api.withLock { $0 = (server, requirement) } }

    func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        guard let (server, requirement) = api.withLock({ $0 }) else {
            return TransportResponse(head: HTTPResponse(status: .notFound))
        }
        if let response = server.metadataResponse(to: request) { return response }
        do throws(Rejection) {
            let authorization = try await server.authorize(request, requiring: requirement)
            let head = HTTPResponse(status: .ok, headerFields: authorization.responseFields)
            return TransportResponse(head: head, body: Array((authorization.subject ?? "").utf8))
        } catch {
            return error.response
        }
    }
}

/// An issuer: its metadata, its keys, and its introspection responses.
final class APIIssuer: ProviderEmulator {
    struct State {
        var keys: EmulatorKeys
        var introspection: JSON = ["active": false]
        var isDown = false
        var requests: [String] = []
    }

    let origin: String
    let state: Mutex<State>

    init(origin: String) throws {
        self.origin = origin
        self.state = Mutex(State(keys: try EmulatorKeys()))
    }

    var origins: [String] { [origin] }
    var keys: EmulatorKeys { state.withLock { $0.keys } }

    func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        let path = request.path ?? ""
        let state = state.withLock { state in
            state.requests.append(path)
            return state
        }
        guard !state.isDown else { return TransportResponse(head: HTTPResponse(status: .serviceUnavailable)) }
        let document: JSON? =
            switch path {
            case "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server":
                [
                    "issuer": .string(origin), "authorization_endpoint": .string("\(origin)/authorize"),
                    "token_endpoint": .string("\(origin)/token"), "jwks_uri": .string("\(origin)/jwks"),
                    "introspection_endpoint": .string("\(origin)/introspect"), "response_types_supported": ["code"],
                    "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"],
                ]
            case "/jwks": try? state.keys.jwks()
            case "/introspect": state.introspection
            default: nil
            }
        guard let bytes = try? document?.serialized() else {
            return TransportResponse(head: HTTPResponse(status: .notFound))
        }
        return TransportResponse(
            head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
            body: bytes
        )
    }
}

/// A request with an access token. Rows can change its parts.
struct APIRequest: Sendable {
    var tokenHeader: [String: JSON]
    var claims: [String: JSON]
    var algorithm = SignatureAlgorithm.es256
    /// The token, or nil for a JWT from the issuer with the header and claims above.
    var token: String?
    /// The keys that sign the token, or nil for the issuer's keys.
    var signer: EmulatorKeys?
    var scheme: String? = "Bearer"
    var method = HTTPRequest.Method.get
    var path = "/orders/1"
    var fields: HTTPFields = [:]
    /// The client's DPoP key, or nil to send no proof.
    var proofKey: EmulatorKeys?
    var proofHeader: [String: JSON] = [:]
    var proofClaims: [String: JSON] = [:]
    /// The members that are removed from the proof's header or its claims.
    var proofLacks: Set<String> = []

    init(_ environment: APIEnvironment) {
        let time = Int64(Date().timeIntervalSince1970)
        tokenHeader = ["typ": "at+jwt"]
        claims = [
            "iss": .string(environment.issuer.origin), "aud": .string(environment.resource), "sub": "alice",
            "client_id": "app",
            "jti": .string(HostServices.system.randomToken()), "iat": .integer(time), "exp": .integer(time + 600),
            "scope": "orders:read", "acr": "mfa", "auth_time": .integer(time),
        ]
    }

    /// Binds the token to a key, and sends a proof with that key.
    mutating func bind(to key: EmulatorKeys) throws {
        proofKey = key
        scheme = "DPoP"
        claims["cnf"] = ["jkt": .string(try Self.thumbprint(of: key))]
    }

    static func jwk(of key: EmulatorKeys) throws -> JSON {
        let id = key.keyID(for: .es256)
        guard let jwk = try key.jwks()["keys"]?.array?.first(where: { $0["kid"]?.string == id }) else {
            throw ConformanceRow.Failure(description: "The key is not in the published set.")
        }
        let members = ["kty", "crv", "x", "y"]
        return .object((jwk.object ?? [:]).filter { members.contains($0.key) })
    }

    private static func thumbprint(of key: EmulatorKeys) throws -> String { try jwk(of: key).jwkThumbprint ?? "" }

    func call(_ environment: APIEnvironment) throws -> TransportRequest {
        var header = tokenHeader
        header["alg"] = header["alg"] ?? .string(algorithm.rawValue)
        header["kid"] = header["kid"] ?? .string(environment.issuer.keys.keyID(for: algorithm))
        let signer = self.signer ?? environment.issuer.keys
        let token = try self.token ?? signer.sign(.object(claims), header: .object(header), with: algorithm)
        var fields = fields
        if let scheme { fields.append(HTTPField(name: .authorization, value: "\(scheme) \(token)")) }
        if let proofKey {
            fields.append(HTTPField(name: .dpop, value: try proof(by: proofKey, of: token, environment)))
        }
        var call = TransportRequest(method, try Endpoint(environment.host.origin + path))
        for field in fields { call.head.headerFields.append(field) }
        return call
    }

    private func proof(by key: EmulatorKeys, of token: String, _ environment: APIEnvironment) throws -> String {
        var header: [String: JSON] = ["typ": "dpop+jwt", "alg": "ES256", "jwk": try Self.jwk(of: key)]
        var claims: [String: JSON] = [
            "jti": .string(HostServices.system.randomToken()), "htm": .string(method.rawValue),
            "htu": .string(environment.host.origin + path.prefix { $0 != "?" }),
            "iat": .integer(Int64(Date().timeIntervalSince1970)),
            "ath": .string(Base64URL.encode(SHA256.hash(data: Array(token.utf8)))),
        ]
        header.merge(proofHeader) { $1 }
        claims.merge(proofClaims) { $1 }
        for name in proofLacks { (header[name], claims[name]) = (nil, nil) }
        return try key.sign(.object(claims), header: .object(header), with: .es256)
    }
}
