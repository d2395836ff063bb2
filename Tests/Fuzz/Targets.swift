import AuthFlow
import AuthFlowGitHub
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowLoopback
import AuthFlowMCP
import AuthFlowOIDC
import AuthFlowTesting
import Foundation
import HTTPTypes
import Synchronization

/// An input with a forbidden effect.
struct Finding: Error, CustomStringConvertible {
    let description: String
}

/// A provider whose responses a target can set.
final class PuppetProvider: Sendable {
    static let issuer = "https://id.example.com"

    let keys: EmulatorKeys
    let metadata: [UInt8]
    let keySet: [UInt8]
    private let responses: Mutex<[String: [UInt8]]>
    private let paths = Mutex<[String: Int]>([:])

    init() throws {
        keys = try EmulatorKeys()
        keySet = try keys.jwks().serialized()
        metadata = try JSON.object([
            "issuer": .string(Self.issuer), "authorization_endpoint": .string("\(Self.issuer)/authorize"),
            "token_endpoint": .string("\(Self.issuer)/token"), "jwks_uri": .string("\(Self.issuer)/jwks"),
            "id_token_signing_alg_values_supported": ["RS256", "PS256", "ES256", "ES512", "EdDSA"],
            "code_challenge_methods_supported": ["S256"], "authorization_response_iss_parameter_supported": true,
        ]).serialized()
        responses = Mutex(["/.well-known/openid-configuration": metadata, "/jwks": keySet])
    }

    /// Sets the response body for a path.
    func say(_ body: [UInt8], at path: String) { responses.withLock { $0[path] = body } }

    /// The number of requests to a path.
    func count(of path: String) -> Int { paths.withLock { $0[path] ?? 0 } }

    func client(_ change: @escaping (inout ClientRegistration.Values) -> Void = { _ in }) throws -> AuthClient {
        let transport = InProcessTransport(origin: Self.issuer) { [self] request, _ in
            let path = request.path ?? ""
            paths.withLock { $0[path, default: 0] += 1 }
            let body = responses.withLock { $0[path] }
            return TransportResponse(head: HTTPResponse(status: body == nil ? .notFound : .ok), body: body ?? [])
        }
        return AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(OIDCProvider(issuer: Self.issuer), transport: transport),
                registration: try ClientRegistration(clientID: "client") {
                    $0.redirectURIs = [RedirectURI("https://app.example.com/callback")]
                    change(&$0)
                }
            ),
            methods: [.userAgent(LoopbackUserAgent(launcher: nil))]
        )
    }

    func token(
        _ algorithm: SignatureAlgorithm,
        signedBy keys: EmulatorKeys? = nil,
        nonce: String = "nonce"
    ) throws -> String {
        let now = Int64(HostServices.system.now().timeIntervalSince1970)
        let keys = keys ?? self.keys
        let claims: JSON = [
            "iss": .string(Self.issuer), "sub": "alice", "aud": "client", "iat": .integer(now),
            "exp": .integer(now + 86_400), "nonce": .string(nonce), "auth_time": .integer(now),
        ]
        let header: JSON = ["alg": .string(algorithm.rawValue), "kid": .string(self.keys.keyID(for: algorithm))]
        return try keys.sign(claims, header: header, with: algorithm)
    }
}

/// A fuzz target: the code under test and its inputs.
struct Target: Sendable {
    let name: String
    /// Feeds one input.
    /// - Throws: ``Finding`` if the code under test accepts an input that it must reject. Crashes and hangs need no check.
    let feed: @Sendable (inout Mutator) async throws -> Void
}

extension Target {
    static func all() throws -> [Target] {
        [
            try callback(), try token(), try keySet(), try discovery(), try response(), try gitHubResponse(),
            try server(), try pushedAuthorization(), try signedResponse(), try privateKey(), try encryptedToken(),
            try decryptionKey(), assertion(),
            request, configuration, challenge, resourceMetadata, eventStream,
        ]
    }

    /// A challenge: parsed names contain no separators, and parsed scopes contain no invalid characters.
    private static var challenge: Target {
        let field =
            #"Negotiate, Basic QWxh==, Bearer realm="a, \"b\"", scope="x y", resource_metadata="https://a.example/x", DPoP algs=ES256"#
        return Target(name: "challenge") { mutator in
            var fields = HTTPFields()
            fields[values: .wwwAuthenticate] = [mutator.mutate(field), mutator.mutate(field)]
            let challenges = AuthenticationChallenge.challenges(in: fields)
            let names = challenges.flatMap { [$0.scheme] + $0.parameters.keys }
            guard names.allSatisfy({ !$0.isEmpty && !$0.contains { " ,=\"".contains($0) } }) else {
                throw Finding(description: "\(challenges) was parsed from a challenge")
            }
            let scopes = ResourceChallenge(status: 401, challenges: challenges)?.scopes ?? []
            guard scopes.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } }) else {
                throw Finding(description: "\(scopes) were parsed as scopes")
            }
        }
    }

    /// A resource's metadata: requests are sent only over https and never to loopback, and their number is limited.
    private static var resourceMetadata: Target {
        let document =
            #"{"resource":"https://api.example.com/mcp","authorization_servers":["https://id.example.com"],"scopes_supported":["a"]}"#
        return Target(name: "resource metadata") { mutator in
            let (metadata, challenge) = (
                mutator.mutate(Array(document.utf8)),
                mutator.mutate("Bearer resource_metadata=\"https://api.example.com/prm\"")
            )
            let visited = Mutex<[String]>([])
            let transport = WatchedTransport { request in
                visited.withLock { $0.append(request.url) }
                guard request.url != "https://api.example.com/mcp" else {
                    var response = TransportResponse(head: HTTPResponse(status: .unauthorized))
                    response.head.headerFields[.wwwAuthenticate] = challenge
                    return response
                }
                return TransportResponse(
                    head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                    body: metadata
                )
            }
            let client = try ResourceClient("https://api.example.com/mcp", methods: [], transport: transport)
            do {
                _ = try await client.send(TransportRequest(.get, client.address))
            } catch is AuthError {}
            let urls = visited.withLock { $0 }
            for url in urls where !url.hasPrefix("https://") || url.contains("//127.") || url.contains("//localhost") {
                throw Finding(description: "\(url) was visited")
            }
            guard urls.count < 12 else { throw Finding(description: "\(urls.count) requests were sent") }
        }
    }

    /// An event stream: the host receives one response to its request, and every line is one message.
    private static var eventStream: Target {
        let stream =
            "\u{FEFF}: a\r\nid: 1\ndata:\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\n"
        return Target(name: "event stream") { mutator in
            let body = mutator.mutate(Array(stream.utf8))
            let transport = WatchedTransport { request in
                guard request.head.method == .post else {
                    return TransportResponse(head: HTTPResponse(status: .notFound))
                }
                return TransportResponse(
                    head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/event-stream"]),
                    body: body
                )
            }
            let answers = AsyncStream<[UInt8]>.makeStream()
            let bridge = MCPBridge(
                client: try ResourceClient("https://api.example.com/mcp", methods: [], transport: transport),
                transport: transport,
                clock: ImmediateClock()
            ) { answers.continuation.yield($0) }
            bridge.receive(Array(#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.utf8))
            for await line in answers.stream {
                guard !line.contains(0x0A), let json = try? JSON(parsing: line) else {
                    throw Finding(description: "the host received something other than a message")
                }
                if json["id"] == 1, json["method"] == nil { break }
            }
            await bridge.close()
        }
    }

    /// A request to the loopback port: an accepted request has a path, one host, a bounded body, and no line break
    /// where none is allowed.
    private static var request: Target {
        let head = """
            POST /callback?code=1&state=2 HTTP/1.1\r
            Host: 127.0.0.1:8400\r
            Content-Type: application/x-www-form-urlencoded\r
            Content-Length: 12\r
            Cookie: a=b
            """
        return Target(name: "request") { mutator in
            let bytes = mutator.mutate(Array(head.utf8))
            if let request = try? HTTPMessageReader.head(bytes[...]),
                let size = try? HTTPMessageReader.bodySize(of: request)
            {
                let values = request.headerFields.map(\.value) + [request.path ?? "", request.authority ?? "\n"]
                let isPlain = values.allSatisfy { !$0.utf8.contains { [0, 10, 13].contains($0) } }
                guard isPlain, request.path?.hasPrefix("/") == true, size <= HTTPMessageReader.maximumBodySize else {
                    throw Finding(description: "\(request) was accepted as a request")
                }
            }
        }
    }

    /// A redirect is accepted only if it is completely correct; its code is then sent to the provider.
    private static func callback() throws -> Target {
        let provider = try PuppetProvider()
        let client = try provider.client()
        let pending = Mutex<AuthorizationRequest?>(nil)
        return Target(name: "callback") { mutator in
            let known = pending.withLock { $0 }
            let request: AuthorizationRequest
            if let known { request = known } else { request = try await client.beginSignIn() }
            pending.withLock { $0 = request }
            let state = FormURLEncoding.decode(request.url.drop { $0 != "?" }.dropFirst())?["state"] ?? ""
            let iss = FormURLEncoding.encode(PuppetProvider.issuer)
            let bad = mutator.mutate("\(request.redirectURI)?code=c&state=\(state)&iss=\(iss)")
            let requests = provider.count(of: "/token")
            defer { if provider.count(of: "/token") != requests { pending.withLock { $0 = nil } } }
            do {
                _ = try await client.finishSignIn(request, with: bad)
                throw Finding(description: "a sign-in without tokens was completed")
            } catch let error as AuthError where error.code == .invalidCallback {
                // The request is still pending, so the valid response would still be accepted.
            } catch is AuthError {
                // The response was accepted, which consumed the request, or contained an error.
                pending.withLock { $0 = nil }
            }
            guard provider.count(of: "/token") != requests else { return }
            let received = FormURLEncoding.decode(bad.prefix { $0 != "#" }.drop { $0 != "?" }.dropFirst())
            guard received?["state"] == state, received?["iss"] == PuppetProvider.issuer else {
                throw Finding(description: "the code of another sign-in was sent: \(bad)")
            }
        }
    }

    /// Changing any character of a token invalidates it.
    private static func token() throws -> Target {
        let provider = try PuppetProvider()
        let client = try provider.client()
        let tokens = try [SignatureAlgorithm.rs256, .ps256, .es256, .es512, .edDSA].map { try provider.token($0) }
        return Target(name: "token") { mutator in
            let good = tokens.randomElement(using: &mutator.generator) ?? ""
            let bad = Bool.random(using: &mutator.generator) ? mutator.mutate(good) : mutator.mutateToken(good)
            do {
                _ = try await client.server.verify(Secret(bad), audience: "client", nonce: Secret("nonce"))
                guard bad == good else { throw Finding(description: "a modified token was accepted: \(bad)") }
            } catch is AuthError {}
        }
    }

    /// A token that is not signed with the provider's key is rejected, whatever the key set contains.
    private static func keySet() throws -> Target {
        let provider = try PuppetProvider()
        let forged = try provider.token(.es256, signedBy: EmulatorKeys())
        return Target(name: "key set") { mutator in
            provider.say(mutator.mutate(provider.keySet), at: "/jwks")
            do {
                _ = try await provider.client().server.verify(
                    Secret(forged),
                    audience: "client",
                    nonce: Secret("nonce")
                )
                throw Finding(description: "a forged token was accepted")
            } catch is AuthError {}
        }
    }

    /// No document makes this client accept another issuer or a URL without TLS.
    private static func discovery() throws -> Target {
        let provider = try PuppetProvider()
        return Target(name: "discovery") { mutator in
            provider.say(mutator.mutate(provider.metadata), at: "/.well-known/openid-configuration")
            do {
                let metadata = try await provider.client().metadata()
                let endpoints = [metadata.authorizationEndpoint, metadata.tokenEndpoint, metadata.jwksURI].compactMap {
                    $0
                }
                guard metadata.issuer == PuppetProvider.issuer, endpoints.allSatisfy({ $0.scheme == "https" }) else {
                    throw Finding(description: "another issuer or an unsafe URL was accepted")
                }
            } catch is AuthError {}
        }
    }

    /// No response signs a user in with a forged ID Token.
    private static func response() throws -> Target {
        let provider = try PuppetProvider()
        let client = try provider.client()
        let strange = try EmulatorKeys()
        return Target(name: "token response") { mutator in
            let pending = try await client.beginSignIn()
            let sent = FormURLEncoding.decode(pending.url.drop { $0 != "?" }.dropFirst())
            let state = sent?["state"] ?? ""
            // Everything but the signature is correct.
            let idToken = try provider.token(.es256, signedBy: strange, nonce: sent?["nonce"] ?? "")
            let good = try JSON.object([
                "access_token": "access", "token_type": "Bearer", "expires_in": 3600, "scope": "openid",
                "refresh_token": "refresh", "id_token": .string(idToken),
            ]).serialized()
            provider.say(mutator.mutate(good), at: "/token")
            let response =
                "\(pending.redirectURI)?code=c&state=\(state)&iss=\(FormURLEncoding.encode(PuppetProvider.issuer))"
            do {
                _ = try await client.finishSignIn(pending, with: response)
                throw Finding(description: "a forged ID Token signed a user in")
            } catch is AuthError {}
        }
    }

    /// Whatever the pushed authorization request endpoint returns, only the authorization endpoint is opened, with two
    /// parameters.
    private static func pushedAuthorization() throws -> Target {
        let provider = try PuppetProvider()
        var metadata = try JSON(parsing: provider.metadata).object ?? [:]
        metadata["pushed_authorization_request_endpoint"] = .string("\(PuppetProvider.issuer)/par")
        provider.say(try JSON.object(metadata).serialized(), at: "/.well-known/openid-configuration")
        let client = try provider.client { $0.pushedRequests = .always }
        let good = Array(
            #"{"request_uri":"urn:ietf:params:oauth:request_uri:6esc_11ACC5bwc014ltc14eY22c","expires_in":60}"#.utf8
        )
        return Target(name: "pushed request") { mutator in
            provider.say(mutator.mutate(good), at: "/par")
            do {
                let request = try await client.beginSignIn()
                let names = FormURLEncoding.decode(request.url.drop { $0 != "?" }.dropFirst())?.names
                guard request.url.hasPrefix("\(PuppetProvider.issuer)/authorize?"),
                    names == ["client_id", "request_uri"]
                else { throw Finding(description: "a different URL is opened") }
            } catch is AuthError {}
        }
    }

    /// An authorization response that was not signed with the provider's key is never accepted (JARM).
    private static func signedResponse() throws -> Target {
        let provider = try PuppetProvider()
        let client = try provider.client { $0.responseMode = .jwt }
        let strange = try EmulatorKeys()
        return Target(name: "signed response") { mutator in
            let pending = try await client.beginSignIn()
            let state = FormURLEncoding.decode(pending.url.drop { $0 != "?" }.dropFirst())?["state"] ?? ""
            let claims: JSON = [
                "iss": .string(PuppetProvider.issuer), "aud": "client", "exp": 4_102_444_800, "code": "c",
                "state": .string(state),
            ]
            let header: JSON = ["alg": "ES256", "kid": .string(provider.keys.keyID(for: .es256))]
            let text = try strange.sign(claims, header: header, with: .es256)
            let bent = String(decoding: mutator.mutate(Array(text.utf8)), as: UTF8.self)
            do {
                _ = try await client.finishSignIn(
                    pending,
                    with: "\(pending.redirectURI)?response=\(FormURLEncoding.encode(bent))"
                )
                throw Finding(description: "a forged response was accepted")
            } catch let error as AuthError {
                // The token endpoint does not respond, so an accepted response would fail there.
                if error.message.contains("/token") {
                    throw Finding(description: "the code of a forged response was sent")
                }
            }
        }
    }

    /// Private key files: a parsed key can sign, and nothing crashes.
    private static func privateKey() throws -> Target {
        let pem = try PrivateKey(generatedFor: .es256).pem.exposed
        let jwk =
            #"{"kty":"OKP","crv":"Ed25519","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#
        let texts = [pem, jwk, #"{"keys":[\#(jwk)]}"#]
        return Target(name: "private key") { mutator in
            for text in texts {
                let bent = String(decoding: mutator.mutate(Array(text.utf8)), as: UTF8.self)
                do {
                    let key = try PrivateKey(text: Secret(bent))
                    guard let algorithm = key.algorithms.first, key.publicJWK["d"] == nil else {
                        throw Finding(description: "a key without an algorithm, or a public key with a private part")
                    }
                    _ = try key.signature(over: [1, 2, 3], by: algorithm)
                } catch is AuthError {}
            }
        }
    }

    /// Encrypted tokens: a token that the provider did not sign is rejected, regardless of its JWE header.
    private static func encryptedToken() throws -> Target {
        let provider = try PuppetProvider()
        let server = try provider.client().server
        let keys = try [KeyManagementAlgorithm.ecdhES, .ecdhESA128KW, .rsaOAEP256].map {
            try DecryptionKey(generatedFor: $0)
        }
        let strange = try EmulatorKeys()
        let claims: JSON = [
            "iss": .string(PuppetProvider.issuer), "aud": "client", "sub": "x", "exp": 4_102_444_800,
            "iat": 1_700_000_000, "nonce": "nonce",
        ]
        let header: JSON = ["alg": "ES256", "kid": .string(provider.keys.keyID(for: .es256))]
        let inner = try strange.sign(claims, header: header, with: .es256)
        let tokens = try keys.flatMap { key in
            try [ContentEncryption.a128GCM, .a128CBCHS256].map { encryption in
                try EmulatedEncryption(
                    to: key.publicJWK,
                    algorithm: key.algorithms[0],
                    encryption: encryption
                ).encrypted(inner)
            }
        }
        return Target(name: "encrypted token") { mutator in
            let good = tokens.randomElement(using: &mutator.generator) ?? ""
            let bad = Bool.random(using: &mutator.generator) ? mutator.mutate(good) : mutator.mutateToken(good)
            do {
                _ = try await server.verify(
                    Secret(bad),
                    audience: "client",
                    issuedWithin: nil,
                    decryptionKeys: DecryptionKeySource(keys)
                )
                throw Finding(description: "a token that the provider did not sign was accepted")
            } catch is AuthError {}
        }
    }

    /// Decryption key files: a parsed key has an algorithm, and nothing crashes.
    private static func decryptionKey() throws -> Target {
        let pem = try DecryptionKey(generatedFor: .ecdhES).pem?.exposed ?? ""
        let jwk =
            #"{"kty":"EC","crv":"P-256","d":"VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw","use":"enc","alg":"ECDH-ES"}"#
        return Target(name: "decryption key") { mutator in
            let bentPEM = Secret(String(decoding: mutator.mutate(Array(pem.utf8)), as: UTF8.self))
            let bentJWK = mutator.mutate(Array(jwk.utf8))
            do {
                let key = try DecryptionKey(pem: bentPEM)
                guard !key.algorithms.isEmpty, key.publicJWK["d"] == nil else {
                    throw Finding(description: "a key without an algorithm, or a public key with a private part")
                }
            } catch is AuthError {}
            do {
                guard let json = try? JSON(parsing: bentJWK) else { return }
                guard try DecryptionKey(jwk: json).publicJWK["d"] == nil else {
                    throw Finding(description: "a public key with a private part")
                }
            } catch is AuthError {}
        }
    }

    /// A platform's output: an assertion has three parts, and its description is one line.
    private static func assertion() -> Target {
        let good = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJhIiwic3ViIjoiYiIsImF1ZCI6ImMiLCJleHAiOjQxMDI0NDQ4MDB9.AAAA"
        return Target(name: "assertion") { mutator in
            do {
                let assertion = try Assertion(Secret(String(decoding: mutator.mutate(Array(good.utf8)), as: UTF8.self)))
                guard assertion.description.allSatisfy({ !$0.isNewline }) else {
                    throw Finding(description: "a description with several lines")
                }
            } catch is AuthError {}
        }
    }

    /// GitHub responses in all three formats: a parsed response is an object, and nothing crashes.
    private static func gitHubResponse() throws -> Target {
        let json = #"{"access_token":"gho_x","scope":"repo,gist","token_type":"bearer","expires_in":28800}"#
        let form = "access_token=gho_x&scope=repo%2Cgist&token_type=bearer&expires_in=28800"
        let xml = "<OAuth><access_token>gho_x</access_token><scope>repo</scope><token_type>bearer</token_type></OAuth>"
        let formats = [
            ("application/json", json), ("application/x-www-form-urlencoded", form), ("application/xml", xml),
        ]
        let provider = GitHubProvider()
        let endpoint = Endpoint("https://github.com/login/oauth/access_token")
        return Target(name: "GitHub response") { mutator in
            for (type, text) in formats {
                let response = TransportResponse(
                    head: HTTPResponse(status: .ok, headerFields: [.contentType: type]),
                    body: mutator.mutate(Array(text.utf8))
                )
                do {
                    let parameters = try provider.parameters(
                        of: ProviderResponse(purpose: .token, endpoint: endpoint, http: response)
                    )
                    guard parameters.object != nil else { throw Finding(description: "parameters without names") }
                } catch is AuthError {}
            }
        }
    }

    /// A server's response, byte by byte: an accepted response is within its bounds, and nothing crashes.
    private static func server() throws -> Target {
        let server = try PuppetServer()
        let responses = [
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
            "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=x\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n2;x=y\r\n{}\r\n0\r\nX: y\r\n\r\n",
        ]
        let call = try TransportRequest(.get, Endpoint("http://127.0.0.1:\(server.port)/"), maximumResponseSize: 100)
        let transport = SystemTransport()
        return Target(name: "server") { mutator in
            server.say(mutator.mutate(Array((responses.randomElement(using: &mutator.generator) ?? "").utf8)))
            do {
                let response = try await transport.send(call)
                let values = response.head.headerFields.map(\.value)
                guard (200...599).contains(response.status), response.body.count <= 100,
                    values.allSatisfy({ !$0.utf8.contains { [0, 10, 13].contains($0) } })
                else { throw Finding(description: "\(response) was accepted as a response") }
            } catch is AuthError {}
        }
    }

    /// A configuration produces a client, or an error that describes the mistake.
    private static let configuration = Target(name: "configuration") { mutator in
        let good = """
            {"default_profile": "work", "profiles": {"work": {"provider": "oidc", "issuer": "https://id.example.com",
            "client_id": "c", "client_secret": {"env": "X"}, "scopes": ["openid", "email"], "response_mode": "form_post",
            "user_agent": ["loopback", {"name": "headless", "username": "a", "password": {"env": "P"},
            "origins": ["https://a.example.com"]}], "store": "memory", "id_token_signing_algorithms": ["RS256"],
            "parameters": {"authorization": {"prompt": "login"}}, "clock_leeway": 5, "timeout": 60}}}
            """
        do {
            _ = try AuthClient(
                profile: try ConfigurationFile(text: mutator.mutate(Array(good.utf8))).profile(),
                providers: [.oidc],
                userAgents: [.loopback, .headless],
                host: HostServices(environment: ["X": "x", "P": "p"])
            )
        } catch is ConfigurationError {
        } catch is AuthError {}
    }
}

/// A transport that calls a function.
private struct WatchedTransport: HTTPTransport {
    let respond: @Sendable (TransportRequest) throws -> TransportResponse
    init(_ respond: @escaping @Sendable (TransportRequest) throws -> TransportResponse) { self.respond = respond }
    func send(_ call: TransportRequest) async throws -> TransportResponse { try respond(call) }
}

/// A clock whose sleeps return immediately, except for long sleeps.
private struct ImmediateClock: Clock {
    var now: ContinuousClock.Instant { .now }
    var minimumResolution: Duration { .zero }
    func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
        guard deadline > .now + .seconds(300) else { return try Task.checkCancellation() }
        try await ContinuousClock().sleep(until: deadline, tolerance: tolerance)
    }
}
