import AuthFlow
import AuthFlowJSON
import AuthFlowMCP
import AuthFlowTesting
import HTTPTypes

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// The requirements of MCP authorization and transport for clients, numbered like the scenarios in ResourceScenario.

extension ConformanceTable {
    static let resources: [ConformanceRow] = [
        .calls(1, "Connect, list the tools, and call one with numeric arguments.") { _, host in
            let sum = try await host.call("add_numbers", ["a": 5, "b": 3])
            try ConformanceRow.require(
                sum["result"]?["content"]?.array?.first?["text"]?.string == "8.0",
                "The sum must be returned."
            )
        },
        .modern(2, "Send the same protocol version in header and body; forward the list of versions.") { _, host in
            let refused = try await host.ask("tools/list", version: "2099-01-01")
            try ConformanceRow.require(refused["error"]?["code"]?.integer == -32022, "The error must be forwarded.")
            try ConformanceRow.require(
                refused["error"]?["data"]?["supported"]?.strings == ["2026-07-28"],
                "The supported revisions must be forwarded."
            )
        },
        .signsIn(3, "Use the metadata URL in the challenge, and never request the root document."),
        .signsIn(4, "Find the resource metadata at the well-known URL; use OpenID Connect discovery."),
        .signsIn(5, "Find the metadata at the root without a challenge; insert .well-known before the issuer's path."),
        .signsIn(6, "Use a metadata URL that only the challenge contains; append .well-known to the issuer's path."),
        .signsIn(7, "Use the URL of the client ID metadata document as the client ID.") {
            $0.clientMetadataDocument = "https://conformance-test.local/client-metadata.json"
        } then: { environment, _ in
            try ConformanceRow.require(environment.emulator.registrations == 0, "No client may be registered.")
        },
        .signsIn(8, "Request the scopes in the challenge.") { environment, _ in
            try ConformanceRow.require(
                environment.emulator.authorizations == [["mcp:basic"]],
                "The request must contain the challenge's scope."
            )
        },
        .signsIn(9, "Request all scopes that the resource lists.") { environment, _ in
            try ConformanceRow.require(
                environment.emulator.authorizations == [["mcp:basic", "mcp:read", "mcp:write"]],
                "All listed scopes must be requested."
            )
        },
        .signsIn(10, "Omit the scope if no challenge or metadata contains one.") { environment, _ in
            try ConformanceRow.require(environment.emulator.authorizations == [[]], "No scope may be requested.")
        },
        .signsIn(11, "Step up with the union of the old and new scopes.") { environment, _ in
            try ConformanceRow.require(
                environment.emulator.authorizations == [["mcp:basic"], ["mcp:basic", "mcp:write"]],
                "The second request must contain both scopes."
            )
        },
        .refuses(12, "Stop if new tokens do not satisfy the challenge.", code: .insufficientScope) { environment in
            try ConformanceRow.require(
                (1...3).contains(environment.emulator.authorizations.count),
                "There must be one to three sign-ins."
            )
        },
        .signsIn(13, "Authenticate with client_secret_basic if it is registered."),
        .signsIn(14, "Authenticate with client_secret_post if it is registered."),
        .signsIn(15, "Send no secret if none is registered."),
        .withClient(16, "Use the preregistered client.") { environment in
            try environment.registered("pre-registered") {
                $0.authentication = .clientSecretBasic(Secret("a secret: of both%kinds"))
            }
        },
        .refuses(17, "Reject metadata for another resource before any authorization request.", code: .discoveryFailed) {
            environment in
            try ConformanceRow.require(
                environment.emulator.authorizations.isEmpty,
                "No authorization request may be sent."
            )
        },
        .signsIn(18, "Request offline_access if the server lists it.") { environment, _ in
            try ConformanceRow.require(
                environment.emulator.authorizations == [["mcp:basic", "offline_access"]],
                "offline_access must be requested."
            )
        },
        .signsIn(19, "Do not request offline_access if the server does not list it."),
        .signsIn(20, "Register again with a new authorization server, and never send it the old credentials.") {
            environment,
            client in
            let again = try await environment.call(client)
            try ConformanceRow.require(
                again == 200 && environment.emulator.registrations == 2,
                "A second client must be registered."
            )
        },
        .signsIn(21, "Accept the correct iss."),
        .signsIn(22, "Accept a missing iss if support for iss is not advertised."),
        .refuses(23, "Reject a response without the advertised iss.", code: .issuerMismatch, last: "/authorize"),
        .refuses(24, "Reject another issuer's iss.", code: .issuerMismatch, last: "/authorize"),
        .refuses(
            25,
            "Reject a wrong iss, even if support for iss is not advertised.",
            code: .issuerMismatch,
            last: "/authorize"
        ),
        .refuses(26, "Compare iss without normalization.", code: .issuerMismatch, last: "/authorize"),
        .refuses(
            27,
            "Reject metadata that contains a different issuer.",
            code: .issuerMismatch,
            last: "/.well-known/oauth-authorization-server"
        ),
        .modern(28, "Forward requestState unchanged, and only in the retry.") { environment, host in
            let first = try await host.call("asks")
            let state = first["result"]?["requestState"]
            let second = try await host.call("asks", ["answered": true], ["requestState": state ?? .null])
            try ConformanceRow.require(second["result"]?["resultType"] == nil, "The retry must complete.")
            let other = try await host.call("test-tool")
            try ConformanceRow.require(other["result"] != nil, "A call to another tool must not contain requestState.")
        },
        .modern(29, "Mirror the method and the name in the headers.") { _, host in
            try ConformanceRow.require(
                try await host.ask("server/discover")["result"] != nil,
                "Discovery must succeed."
            )
            try ConformanceRow.require(try await host.call("test-tool")["result"] != nil, "A call must succeed.")
        },
        .modern(30, "Mirror annotated arguments: plain, encoded, or not at all.") { _, host in
            for region in ["eu-west1", "Hello, 世界", " blank ", "=?base64?eA==?=", "", "tab\there"] {
                let arguments: [String: JSON] = ["region": .string(region), "count": -7, "dry": false, "plain": "x"]
                try ConformanceRow.require(
                    try await host.call("annotated", arguments)["result"] != nil,
                    "\(region) must be mirrored."
                )
            }
            try ConformanceRow.require(
                try await host.call("annotated", ["region": .null])["result"] != nil,
                "A null argument must have no header."
            )
            try ConformanceRow.require(
                try await host.call("plain", ["region": "x"])["result"] != nil,
                "An argument without an annotation must have no header."
            )
        },
        .modern(31, "Omit tools with forbidden annotations from the list.") { _, host in
            let tools = try await host.ask("tools/list")["result"]?["tools"]?.array ?? []
            try ConformanceRow.require(
                tools.compactMap { $0["name"]?.string } == ["test-tool", "valid_tool"],
                "Only the allowed tools must be listed."
            )
            try ConformanceRow.require(
                try await host.call("valid_tool", ["region": "x"])["result"] != nil,
                "The valid tool must be called."
            )
        },
        .calls(32, "Do not fetch URLs that a schema references.") { environment, host in
            let tools = try await host.ask("tools/list")["result"]?["tools"]?.array
            try ConformanceRow.require(tools?.last?["inputSchema"]?["$ref"] != nil, "The schema must be forwarded.")
        },
        .withClient(
            33,
            "Use client credentials with private_key_jwt, and the issuer as the audience.",
            methods: [.clientCredentials]
        ) { environment in
            let key = try PrivateKey(generatedFor: .es256)
            environment.emulator.settings.clientKey = key.publicJWK
            return try environment.registered("machine") { $0.authentication = .privateKeyJWT(SigningKeySource(key)) }
        },
        .withClient(34, "Use client credentials with client_secret_basic.", methods: [.clientCredentials]) {
            environment in
            try environment.registered("machine") {
                $0.authentication = .clientSecretBasic(Secret("a secret: of both%kinds"))
            }
        },
        .enterprise(35, "Exchange the enterprise ID Token for an identity assertion, and the assertion for a token."),
        .signsIn(36, "Bind tokens to a key, and prove possession in every request."),
        .signsIn(37, "Use both servers' nonces, each with a new proof."),
        .workload(38, "Send a workload's assertion only once, even if it is rejected."),
        .calls(39, "Forward a schema unchanged.") { _, host in
            let tools = try await host.ask("tools/list")["result"]?["tools"]?.array
            let schema = tools?.last?["inputSchema"]
            try ConformanceRow.require(
                schema?["$defs"]?["a"]?["$anchor"]?.string == "a" && schema?["allOf"] != nil
                    && schema?["$schema"] != nil,
                "The schema must be complete."
            )
        },
        .signsIn(40, "Use the origin as the authorization server if an option allows it.") {
            $0.assumesAuthorizationServerAtOrigin = true
        },
        .signsIn(41, "Use the endpoint URLs of revision 2025-03-26 if an option allows it.") {
            $0.assumesAuthorizationServerAtOrigin = true
        },
        .calls(42, "Send an initialize request with a protocol version and the host's name."),
        .calls(43, "Resume a broken stream after the server's retry time.") { environment, host in
            let response = try await host.call("test-tool")
            try ConformanceRow.require(response["result"] != nil, "The second stream must return the response.")
        },
        .calls(44, "Forward notifications that the server sends before its response.") { _, host in
            _ = try await host.call("test-tool")
            try ConformanceRow.require(
                host.notifications.contains { $0["method"]?.string == "notifications/message" },
                "The host must receive the notification."
            )
        },
    ]
}

extension ConformanceRow {
    private static func resource(
        _ number: Int,
        _ demand: String,
        _ body: @escaping @Sendable (ResourceEnvironment) async throws -> Void
    ) -> ConformanceRow {
        let scenario = ResourceScenario.named("\(number)")
        return ConformanceRow(
            number: "M\(number)",
            name: scenario?.name ?? "",
            demand: demand,
            check: .trial { setting in
                try await ResourceEnvironment.with(setting, scenario?.settings ?? ResourceSettings()) { environment in
                    try await body(environment)
                    try require(
                        environment.emulator.violations.isEmpty,
                        environment.emulator.violations.joined(separator: "; ")
                    )
                }
            }
        )
    }

    /// A row in which a client signs in when the server requires it, and calls a tool.
    fileprivate static func signsIn(
        _ number: Int,
        _ demand: String,
        options change: @escaping @Sendable (inout ResourceClient.Options) -> Void = { _ in },
        then body: @escaping @Sendable (ResourceEnvironment, ResourceClient) async throws -> Void = { _, _ in }
    ) -> ConformanceRow {
        resource(number, demand) { environment in
            var options = ResourceClient.Options()
            change(&options)
            let client = try environment.client(options: options)
            let status = try await environment.call(client)
            try require(status == 200, "The status of the call must be 200, not \(status).")
            try await body(environment, client)
        }
    }

    fileprivate static func signsIn(
        _ number: Int,
        _ demand: String,
        _ body: @escaping @Sendable (ResourceEnvironment, ResourceClient) async throws -> Void
    ) -> ConformanceRow { signsIn(number, demand, then: body) }

    /// A row in which a preregistered client calls a tool.
    fileprivate static func withClient(
        _ number: Int,
        _ demand: String,
        methods: [SignInMethod]? = nil,
        _ registered: @escaping @Sendable (ResourceEnvironment) throws -> OAuthClient
    ) -> ConformanceRow {
        resource(number, demand) { environment in
            let client = try environment.client(methods: methods, registered: try registered(environment))
            let status = try await environment.call(client)
            try require(status == 200, "The status of the call must be 200, not \(status).")
        }
    }

    /// A row in which the client must reject a sign-in, and send only revocation requests after the request `last`, if given.
    fileprivate static func refuses(
        _ number: Int,
        _ demand: String,
        code: AuthError.Code,
        last: String? = nil,
        _ body: @escaping @Sendable (ResourceEnvironment) throws -> Void = { _ in }
    ) -> ConformanceRow {
        resource(number, demand) { environment in
            let client = try environment.client()
            do {
                _ = try await environment.call(client)
            } catch let error as AuthError {
                try require(error.code == code, "The code must be \(code.rawValue), not \(error.code.rawValue).")
                if let last {
                    let heard = environment.emulator.requests.last { $0 != "POST /revoke" } ?? ""
                    try require(heard.hasSuffix(last), "The last request must be to \(last), not \(heard).")
                    try require(try await client.status()?.credential == nil, "No credential may be stored.")
                }
                return try body(environment)
            }
            throw Failure(description: "The sign-in must be rejected.")
        }
    }

    /// A row in which a host calls tools through a bridge, in a session of an older protocol version.
    fileprivate static func calls(
        _ number: Int,
        _ demand: String,
        _ body: @escaping @Sendable (ResourceEnvironment, BridgedHost) async throws -> Void = { _, _ in }
    ) -> ConformanceRow {
        resource(number, demand) { environment in
            let host = environment.host(try environment.client())
            let initialized = try await host.initialize()
            try require(initialized["result"]?["protocolVersion"]?.string == "2025-11-25", "The revision must match.")
            let tools = try await host.ask("tools/list")
            try require(tools["result"]?["tools"]?.array?.isEmpty == false, "The tools must be listed.")
            try await body(environment, host)
            await host.close()
        }
    }

    /// Like `calls`, but with requests of protocol version 2026-07-28.
    fileprivate static func modern(
        _ number: Int,
        _ demand: String,
        _ body: @escaping @Sendable (ResourceEnvironment, BridgedHost) async throws -> Void
    ) -> ConformanceRow {
        resource(number, demand) { environment in
            let host = environment.host(try environment.client(), version: "2026-07-28")
            let tools = try await host.ask("tools/list")
            try require(tools["result"]?["tools"]?.array?.isEmpty == false, "The tools must be listed.")
            try await body(environment, host)
            await host.close()
        }
    }

    /// Row 35: both legs of the identity assertion grant.
    fileprivate static func enterprise(_ number: Int, _ demand: String) -> ConformanceRow {
        resource(number, demand) { environment in
            let provider = OAuthClient(
                server: AuthorizationServer(
                    FixedServer(
                        issuer: "\(environment.emulator.origin)/idp",
                        token: "\(environment.emulator.origin)/idp/token"
                    ),
                    transport: environment.transport
                ),
                registration: try ClientRegistration(clientID: "at-the-idp") { $0.scopes = [] }
            )
            let source = AssertionSource("the enterprise") { request in
                try await provider.identityAssertion(
                    for: Secret("id-token"),
                    audience: request.issuer,
                    resources: request.resources,
                    scopes: request.scopes
                )
            }
            let registered = try environment.registered("enterprise") {
                $0.authentication = .clientSecretBasic(Secret("secret"))
            }
            let client = try environment.client(methods: [.jwtBearer(source)], registered: registered)
            let status = try await environment.call(client)
            try require(status == 200, "The status of the call must be 200, not \(status).")
        }
    }

    /// Row 38: an assertion from the platform that the server accepts, and one that the server rejects.
    fileprivate static func workload(_ number: Int, _ demand: String) -> ConformanceRow {
        resource(number, demand) { environment in
            func client(_ assertion: Assertion) throws -> ResourceClient {
                try environment.client(
                    methods: [.jwtBearer(AssertionSource("the platform") { _ in assertion })],
                    registered: try environment.registered("workload") { _ in }
                )
            }
            let keys = try EmulatorKeys()
            func assertion(_ subject: String) throws -> Assertion {
                let now = Int64(Date().timeIntervalSince1970)
                return try Assertion(
                    Secret(
                        try keys.sign(
                            [
                                "iss": "https://platform", "sub": .string(subject),
                                "aud": .string(environment.emulator.origin), "exp": .integer(now + 300),
                            ],
                            header: ["alg": "ES256"],
                            with: .es256
                        )
                    )
                )
            }
            let (good, bad) = (try assertion("good"), try assertion("bad"))
            environment.emulator.settings.assertions = [good.jwt.exposed]
            let status = try await environment.call(try client(good))
            try require(status == 200, "The status of the call must be 200, not \(status).")
            let before = environment.emulator.requests.filter { $0 == "POST /token" }.count
            try require(before == 1, "There must be one token request.")
            do {
                _ = try await environment.call(try client(bad))
            } catch {
                let after = environment.emulator.requests.filter { $0 == "POST /token" }.count
                return try require(after == before + 1, "A rejected assertion must not be sent again.")
            }
            throw Failure(description: "The assertion must be rejected.")
        }
    }
}

/// A server whose metadata contains only the issuer and the token endpoint.
private struct FixedServer: ProviderAdapter {
    let issuer: String
    let token: String
    func metadata(in context: ServerContext) async throws -> ProviderMetadata {
        ProviderMetadata(issuer: issuer, tokenEndpoint: try Endpoint(token))
    }
}

extension ResourceEnvironment {
    /// Lists the tools and calls one of them, and returns the status of the call.
    fileprivate func call(_ client: ResourceClient) async throws -> Int {
        for message in [
            #"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#,
            #"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test-tool","arguments":{}}}"#,
        ] {
            let response = try await client.send(
                TransportRequest(
                    .post,
                    client.address,
                    headerFields: [
                        .contentType: "application/json", .accept: "application/json, text/event-stream",
                        HTTPField.Name("MCP-Protocol-Version") ?? .te: "2025-11-25",
                    ],
                    body: Array(message.utf8)
                )
            )
            guard response.status == 200, message.contains("tools/call") else {
                guard response.status == 200 else { return response.status }
                continue
            }
        }
        return 200
    }
}
