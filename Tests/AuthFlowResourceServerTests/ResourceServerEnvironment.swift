import AuthFlowEssentials
import AuthFlowJSON
import AuthFlowResourceServer
import AuthFlowTesting
import Crypto
import Foundation
import Synchronization
import Testing

/// An API, its issuer, and a clock that tests can set.
final class ResourceServerEnvironment: Sendable {
    static let issuer = "https://id.example.com"
    static let resource = "https://api.example.com/orders"

    let keys: EmulatorKeys
    let provider: IssuerTransport
    private let time = Mutex(Date(timeIntervalSince1970: 1_800_000_000))

    init() throws {
        self.keys = try EmulatorKeys()
        self.provider = IssuerTransport(try keys.jwks())
    }

    var now: Date { time.withLock { $0 } }
    func advance(_ seconds: TimeInterval) { time.withLock { $0 += seconds } }
    var host: HostServices { HostServices(now: { [self] in now }) }

    var server: AuthorizationServer {
        AuthorizationServer(issuer: Self.issuer, transport: provider, host: host)
    }

    /// The API's registration at its issuer, for introspection.
    func introspector(_ server: AuthorizationServer) throws -> OAuthClient {
        OAuthClient(
            server: server,
            registration: try ClientRegistration(clientID: "orders-api") {
                $0.authentication = .clientSecretBasic(Secret("secret"))
            }
        )
    }

    func api(
        _ change: (inout ResourceServerRules) -> Void = { _ in },
        issuer: (AuthorizationServer) throws -> TrustedIssuer = { TrustedIssuer($0) }
    ) throws -> ResourceServer {
        var rules = ResourceServerRules()
        change(&rules)
        return try ResourceServer(Self.resource, issuers: [issuer(server)], rules: rules, host: host)
    }

    // MARK: - Tokens

    var claims: [String: JSON] {
        let time = Int64(now.timeIntervalSince1970)
        return [
            "iss": .string(Self.issuer), "aud": .string(Self.resource), "sub": "alice", "client_id": "app", "jti": "1",
            "iat": .integer(time), "exp": .integer(time + 600), "scope": "orders:read orders:write",
        ]
    }

    func header(_ algorithm: SignatureAlgorithm = .es256) -> [String: JSON] {
        ["alg": .string(algorithm.rawValue), "kid": .string(keys.keyID(for: algorithm)), "typ": "at+jwt"]
    }

    func token(
        _ change: (inout [String: JSON]) -> Void = { _ in },
        header: (inout [String: JSON]) -> Void = { _ in },
        by algorithm: SignatureAlgorithm = .es256
    ) throws -> String {
        var (head, claims) = (self.header(algorithm), self.claims)
        header(&head)
        change(&claims)
        return try keys.sign(.object(claims), header: .object(head), with: algorithm)
    }

    /// A token that was signed with a different key under the same key ID.
    func decoyToken() throws -> String {
        try keys.decoys().sign(.object(claims), header: .object(header()), with: .es256)
    }

    static func request(
        _ authorization: String?,
        _ path: String = "/orders/1",
        method: HTTPRequest.Method = .get,
        proof: String? = nil
    ) -> HTTPRequest {
        var request = HTTPRequest(method: method, scheme: "https", authority: "api.example.com", path: path)
        if let authorization { request.headerFields[.authorization] = authorization }
        if let proof { request.headerFields[HTTPField.Name("DPoP")!] = proof }
        return request
    }
}

/// An in-process issuer: metadata, keys, introspection.
final class IssuerTransport: HTTPTransport {
    private struct State {
        var jwks: JSON
        var isDown = false
        var requests: [String] = []
        var introspection: JSON = ["active": false]
    }

    private let state: Mutex<State>

    init(_ jwks: JSON) { self.state = Mutex(State(jwks: jwks)) }

    var requests: [String] { state.withLock { $0.requests } }
    func takeDown(_ isDown: Bool = true) { state.withLock { $0.isDown = isDown } }
    func introspect(as json: JSON) { state.withLock { $0.introspection = json } }
    func publish(_ jwks: JSON) { state.withLock { $0.jwks = jwks } }

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        let path = call.head.path ?? ""
        let state = state.withLock { state in
            state.requests.append(path)
            return state
        }
        if state.isDown { throw AuthError(.networkFailed, "The network is down.") }
        let issuer = ResourceServerEnvironment.issuer
        switch path {
        case "/.well-known/openid-configuration":
            return Self.json([
                "issuer": .string(issuer), "authorization_endpoint": .string("\(issuer)/authorize"),
                "token_endpoint": .string("\(issuer)/token"), "jwks_uri": .string("\(issuer)/jwks"),
                "introspection_endpoint": .string("\(issuer)/introspect"), "response_types_supported": ["code"],
                "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"],
            ])
        case "/jwks": return Self.json(state.jwks)
        case "/introspect": return Self.json(state.introspection)
        default: return TransportResponse(head: HTTPResponse(status: .notFound))
        }
    }

    private static func json(_ json: JSON) -> TransportResponse {
        TransportResponse(
            head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
            body: (try? json.serialized()) ?? []
        )
    }
}

/// A client's DPoP key, with which tests create valid and faulty proofs.
struct ProofKey {
    let key = P256.Signing.PrivateKey()

    var jwk: [String: JSON] {
        let point = key.publicKey.rawRepresentation
        return [
            "kty": "EC", "crv": "P-256", "x": .string(Base64URL.encode(point.prefix(32))),
            "y": .string(Base64URL.encode(point.suffix(32))),
        ]
    }

    var thumbprint: String {
        let (x, y) = (jwk["x"]?.string ?? "", jwk["y"]?.string ?? "")
        let members = #"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#
        return Base64URL.encode(SHA256.hash(data: Array(members.utf8)))
    }

    func proof(
        of token: String,
        at now: Date,
        _ changeClaims: (inout [String: JSON]) -> Void = { _ in },
        header change: (inout [String: JSON]) -> Void = { _ in }
    ) throws -> String {
        var header: [String: JSON] = ["typ": "dpop+jwt", "alg": "ES256", "jwk": .object(jwk)]
        var claims: [String: JSON] = [
            "jti": .string(Base64URL.encode(HostServices.systemRandomBytes(12))), "htm": "GET",
            "htu": "https://api.example.com/orders/1", "iat": .integer(Int64(now.timeIntervalSince1970)),
            "ath": .string(Base64URL.encode(SHA256.hash(data: Array(token.utf8)))),
        ]
        change(&header)
        changeClaims(&claims)
        let text =
            Base64URL.encode(try JSON.object(header).serialized()) + "."
            + Base64URL.encode(try JSON.object(claims).serialized())
        let signature = try key.signature(for: Array(text.utf8))
        return "\(text).\(Base64URL.encode(signature.rawRepresentation))"
    }
}

/// A named case in a table.
struct Case<Value: Sendable>: Sendable, CustomTestStringConvertible {
    let name: String
    let value: Value
    init(_ name: String, _ value: Value) { (self.name, self.value) = (name, value) }
    var testDescription: String { name }
}

/// Authorizes a request that must be rejected, and returns the rejection.
func refusal(
    _ api: ResourceServer,
    _ request: HTTPRequest,
    requiring requirement: Requirement = Requirement(),
    clientCertificate: [UInt8]? = nil
) async throws -> Rejection {
    let error = await #expect(throws: Rejection.self) {
        _ = try await api.authorize(request, requiring: requirement, clientCertificate: clientCertificate)
    }
    let rejection = try #require(error)
    // The parameters of the challenge. Without a challenge (503), only the body contains the code.
    let challenges = AuthenticationChallenge.challenges(in: rejection.response.head.headerFields)
    let told = challenges.compactMap { $0.parameters["error"] }
    #expect(told == (challenges.isEmpty ? [] : [rejection.error].compactMap { $0 }))
    return rejection
}
