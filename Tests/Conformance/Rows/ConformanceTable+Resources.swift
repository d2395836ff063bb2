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

// The requirements of MCP's authorization and transport for a client, by the numbers of ResourceScenario.

extension ConformanceTable {
    static let resources: [ConformanceRow] = [
        .calls(1, "Connect, list the tools, and call one with numbers.") { _, host in
            let sum = try await host.call("add_numbers", ["a": 5, "b": 3])
            try ConformanceRow.require(
                sum["result"]?["content"]?.array?.first?["text"]?.string == "8.0",
                "The sum is returned."
            )
        },
        .modern(2, "Name the revision in the header as in the body; pass on which ones the server speaks.") { _, host in
            let refused = try await host.ask("tools/list", version: "2099-01-01")
            try ConformanceRow.require(refused["error"]?["code"]?.integer == -32022, "The error is passed on.")
            try ConformanceRow.require(
                refused["error"]?["data"]?["supported"]?.strings == ["2026-07-28"],
                "What the server speaks is passed on."
            )
        },
        .signsIn(3, "Take the metadata address of the challenge, and never ask the root."),
        .signsIn(4, "Find the metadata at the well-known address, and OpenID Connect's document."),
        .signsIn(5, "Find the metadata at the root without a challenge; insert the issuer's path."),
        .signsIn(6, "Take a metadata address that only the challenge names; append to the issuer's path."),
        .signsIn(7, "Be the address of the own description.") {
            $0.clientMetadataDocument = "https://conformance-test.local/client-metadata.json"
        } then: { scene, _ in
            try ConformanceRow.require(scene.emulator.registrations == 0, "No client registers.")
        },
        .signsIn(8, "Ask for the scopes of the challenge.") { scene, _ in
            try ConformanceRow.require(
                scene.emulator.authorizations == [["mcp:basic"]],
                "The scope is that of the challenge."
            )
        },
        .signsIn(9, "Ask for all scopes that the resource lists.") { scene, _ in
            try ConformanceRow.require(
                scene.emulator.authorizations == [["mcp:basic", "mcp:read", "mcp:write"]],
                "All of them are asked for."
            )
        },
        .signsIn(10, "Leave the scope out where nothing names one.") { scene, _ in
            try ConformanceRow.require(scene.emulator.authorizations == [[]], "No scope is asked for.")
        },
        .signsIn(11, "Step up with the union of the scopes.") { scene, _ in
            try ConformanceRow.require(
                scene.emulator.authorizations == [["mcp:basic"], ["mcp:basic", "mcp:write"]],
                "The second request has both scopes."
            )
        },
        .refuses(12, "Give up when new tokens do not help.", code: .insufficientScope) { scene in
            try ConformanceRow.require(
                (1...3).contains(scene.emulator.authorizations.count),
                "There are one to three sign-ins."
            )
        },
        .signsIn(13, "Authenticate by client_secret_basic where that is registered."),
        .signsIn(14, "Authenticate by client_secret_post where that is registered."),
        .signsIn(15, "Send no secret where none is registered."),
        .withClient(16, "Use the client that was registered beforehand.") { scene in
            try scene.registered("pre-registered") {
                $0.authentication = .clientSecretBasic(Secret("a secret: of both%kinds"))
            }
        },
        .refuses(17, "Refuse metadata of another resource before any authorization request.", code: .discoveryFailed) {
            scene in
            try ConformanceRow.require(scene.emulator.authorizations.isEmpty, "No authorization request is sent.")
        },
        .signsIn(18, "Ask for offline_access where the server lists it.") { scene, _ in
            try ConformanceRow.require(
                scene.emulator.authorizations == [["mcp:basic", "offline_access"]],
                "It is asked for."
            )
        },
        .signsIn(19, "Do not ask for offline_access where the server does not list it."),
        .signsIn(20, "Register anew when the resource names another server, and show it nothing of the first.") {
            scene,
            client in
            let again = try await scene.call(client)
            try ConformanceRow.require(again == 200 && scene.emulator.registrations == 2, "A second client registers.")
        },
        .signsIn(21, "Accept the right iss."), .signsIn(22, "Accept no iss where none is announced."),
        .refuses(23, "Refuse a response without the announced iss.", code: .issuerMismatch, last: "/authorize"),
        .refuses(24, "Refuse the iss of another.", code: .issuerMismatch, last: "/authorize"),
        .refuses(25, "Refuse a wrong iss where none is announced.", code: .issuerMismatch, last: "/authorize"),
        .refuses(26, "Compare iss without normalization.", code: .issuerMismatch, last: "/authorize"),
        .refuses(
            27,
            "Use nothing of metadata that names another issuer.",
            code: .issuerMismatch,
            last: "/.well-known/oauth-authorization-server"
        ),
        .modern(28, "Pass requestState on, exactly and nowhere else.") { scene, host in
            let first = try await host.call("asks")
            let state = first["result"]?["requestState"]
            let second = try await host.call("asks", ["answered": true], ["requestState": state ?? .null])
            try ConformanceRow.require(second["result"]?["resultType"] == nil, "The retry is complete.")
            let other = try await host.call("test-tool")
            try ConformanceRow.require(other["result"] != nil, "Another call has nothing of it.")
        },
        .modern(29, "Mirror the method and the name in the header.") { _, host in
            try ConformanceRow.require(try await host.ask("server/discover")["result"] != nil, "Discovery succeeds.")
            try ConformanceRow.require(try await host.call("test-tool")["result"] != nil, "A call succeeds.")
        },
        .modern(30, "Mirror annotated arguments: plain, encoded, or not at all.") { _, host in
            for region in ["eu-west1", "Hello, 世界", " blank ", "=?base64?eA==?=", "", "tab\there"] {
                let arguments: [String: JSON] = ["region": .string(region), "count": -7, "dry": false, "plain": "x"]
                try ConformanceRow.require(
                    try await host.call("annotated", arguments)["result"] != nil,
                    "\(region) is mirrored."
                )
            }
            try ConformanceRow.require(
                try await host.call("annotated", ["region": .null])["result"] != nil,
                "Null has no field."
            )
            try ConformanceRow.require(
                try await host.call("plain", ["region": "x"])["result"] != nil,
                "Others have none."
            )
        },
        .modern(31, "Leave tools with annotations that are not allowed out of the list.") { _, host in
            let tools = try await host.ask("tools/list")["result"]?["tools"]?.array ?? []
            try ConformanceRow.require(
                tools.compactMap { $0["name"]?.string } == ["test-tool", "valid_tool"],
                "Only the allowed ones are listed."
            )
            try ConformanceRow.require(
                try await host.call("valid_tool", ["region": "x"])["result"] != nil,
                "The valid one is called."
            )
        },
        .calls(32, "Fetch no address that a schema refers to.") { scene, host in
            let tools = try await host.ask("tools/list")["result"]?["tools"]?.array
            try ConformanceRow.require(tools?.last?["inputSchema"]?["$ref"] != nil, "The schema is passed on.")
        },
        .withClient(
            33,
            "Authenticate as the client itself by private_key_jwt, for the issuer.",
            methods: [.clientCredentials]
        ) { scene in
            let key = try PrivateKey(generatedFor: .es256)
            scene.emulator.settings.clientKey = key.publicJWK
            return try scene.registered("machine") { $0.authentication = .privateKeyJWT(SigningKeySource(key)) }
        },
        .withClient(34, "Authenticate as the client itself by client_secret_basic.", methods: [.clientCredentials]) {
            scene in
            try scene.registered("machine") {
                $0.authentication = .clientSecretBasic(Secret("a secret: of both%kinds"))
            }
        },
        .enterprise(35, "Exchange the enterprise's ID Token for an identity assertion, and that for a token."),
        .signsIn(36, "Bind tokens to a key, and prove it in every request."),
        .signsIn(37, "Honor the nonces of both servers, each with a fresh proof."),
        .workload(38, "Send a workload's assertion once, and no other."),
        .calls(39, "Pass a schema on as it is.") { _, host in
            let tools = try await host.ask("tools/list")["result"]?["tools"]?.array
            let schema = tools?.last?["inputSchema"]
            try ConformanceRow.require(
                schema?["$defs"]?["a"]?["$anchor"]?.string == "a" && schema?["allOf"] != nil
                    && schema?["$schema"] != nil,
                "Nothing of it is lost."
            )
        },
        .signsIn(40, "Take the origin for the authorization server where that is allowed by name.") {
            $0.assumesAuthorizationServerAtOrigin = true
        },
        .signsIn(41, "Take the addresses of 2025-03-26 where that is allowed by name.") {
            $0.assumesAuthorizationServerAtOrigin = true
        },
        .calls(42, "Initialize with a revision and the host's name."),
        .calls(43, "Resume a broken stream after the time that the server asks for.") { scene, host in
            let response = try await host.call("test-tool")
            try ConformanceRow.require(response["result"] != nil, "The response comes by the second stream.")
        },
        .calls(44, "Pass on what the server says before its response.") { _, host in
            _ = try await host.call("test-tool")
            try ConformanceRow.require(
                host.notifications.contains { $0["method"]?.string == "notifications/message" },
                "The host has heard it."
            )
        },
    ]
}

extension ConformanceRow {
    private static func resource(
        _ number: Int,
        _ demand: String,
        _ body: @escaping @Sendable (ResourceScene) async throws -> Void
    ) -> ConformanceRow {
        let scenario = ResourceScenario.named("\(number)")
        return ConformanceRow(
            number: "M\(number)",
            name: scenario?.name ?? "",
            demand: demand,
            check: .trial { setting in
                try await ResourceScene.with(setting, scenario?.settings ?? ResourceSettings()) { scene in
                    try await body(scene)
                    try require(scene.emulator.violations.isEmpty, scene.emulator.violations.joined(separator: "; "))
                }
            }
        )
    }

    /// A row in which a client signs in when the server requires it, and calls a tool.
    fileprivate static func signsIn(
        _ number: Int,
        _ demand: String,
        options change: @escaping @Sendable (inout ResourceClient.Options) -> Void = { _ in },
        then body: @escaping @Sendable (ResourceScene, ResourceClient) async throws -> Void = { _, _ in }
    ) -> ConformanceRow {
        resource(number, demand) { scene in
            var options = ResourceClient.Options()
            change(&options)
            let client = try scene.client(options: options)
            let status = try await scene.call(client)
            try require(status == 200, "The call is answered with 200, not \(status).")
            try await body(scene, client)
        }
    }

    fileprivate static func signsIn(
        _ number: Int,
        _ demand: String,
        _ body: @escaping @Sendable (ResourceScene, ResourceClient) async throws -> Void
    ) -> ConformanceRow { signsIn(number, demand, then: body) }

    /// A row in which a client that was registered beforehand calls a tool.
    fileprivate static func withClient(
        _ number: Int,
        _ demand: String,
        methods: [SignInMethod]? = nil,
        _ registered: @escaping @Sendable (ResourceScene) throws -> OAuthClient
    ) -> ConformanceRow {
        resource(number, demand) { scene in
            let client = try scene.client(methods: methods, registered: try registered(scene))
            let status = try await scene.call(client)
            try require(status == 200, "The call is answered with 200, not \(status).")
        }
    }

    /// A row in which a sign-in must be rejected, and nothing be sent after the invalid message.
    fileprivate static func refuses(
        _ number: Int,
        _ demand: String,
        code: AuthError.Code,
        last: String? = nil,
        _ body: @escaping @Sendable (ResourceScene) throws -> Void = { _ in }
    ) -> ConformanceRow {
        resource(number, demand) { scene in
            let client = try scene.client()
            do {
                _ = try await scene.call(client)
            } catch let error as AuthError {
                try require(error.code == code, "It is refused with \(code.rawValue), not \(error.code.rawValue).")
                if let last {
                    let heard = scene.emulator.requests.last { $0 != "POST /revoke" } ?? ""
                    try require(heard.hasSuffix(last), "The last request is to \(last), not \(heard).")
                    try require(try await client.status()?.credential == nil, "Nothing is kept.")
                }
                return try body(scene)
            }
            throw Failure(description: "It is refused.")
        }
    }

    /// A row in which a host calls tools through a bridge, in a session of an older revision.
    fileprivate static func calls(
        _ number: Int,
        _ demand: String,
        _ body: @escaping @Sendable (ResourceScene, BridgedHost) async throws -> Void = { _, _ in }
    ) -> ConformanceRow {
        resource(number, demand) { scene in
            let host = scene.host(try scene.client())
            let initialized = try await host.initialize()
            try require(initialized["result"]?["protocolVersion"]?.string == "2025-11-25", "The revision is agreed on.")
            let tools = try await host.ask("tools/list")
            try require(tools["result"]?["tools"]?.array?.isEmpty == false, "The tools are listed.")
            try await body(scene, host)
            await host.close()
        }
    }

    /// The same, with the requests of revision 2026-07-28.
    fileprivate static func modern(
        _ number: Int,
        _ demand: String,
        _ body: @escaping @Sendable (ResourceScene, BridgedHost) async throws -> Void
    ) -> ConformanceRow {
        resource(number, demand) { scene in
            let host = scene.host(try scene.client(), version: "2026-07-28")
            let tools = try await host.ask("tools/list")
            try require(tools["result"]?["tools"]?.array?.isEmpty == false, "The tools are listed.")
            try await body(scene, host)
            await host.close()
        }
    }

    /// Row 35: both legs of the identity assertion grant.
    fileprivate static func enterprise(_ number: Int, _ demand: String) -> ConformanceRow {
        resource(number, demand) { scene in
            let provider = OAuthClient(
                server: AuthorizationServer(
                    FixedServer(issuer: "\(scene.emulator.origin)/idp", token: "\(scene.emulator.origin)/idp/token"),
                    transport: scene.transport
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
            let registered = try scene.registered("enterprise") {
                $0.authentication = .clientSecretBasic(Secret("secret"))
            }
            let client = try scene.client(methods: [.jwtBearer(source)], registered: registered)
            let status = try await scene.call(client)
            try require(status == 200, "The call is answered with 200, not \(status).")
        }
    }

    /// Row 38: an assertion of the platform, which is rejected when it has another audience or has expired.
    fileprivate static func workload(_ number: Int, _ demand: String) -> ConformanceRow {
        resource(number, demand) { scene in
            func client(_ assertion: Assertion) throws -> ResourceClient {
                try scene.client(
                    methods: [.jwtBearer(AssertionSource("the platform") { _ in assertion })],
                    registered: try scene.registered("workload") { _ in }
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
                                "aud": .string(scene.emulator.origin), "exp": .integer(now + 300),
                            ],
                            header: ["alg": "ES256"],
                            with: .es256
                        )
                    )
                )
            }
            let (good, bad) = (try assertion("good"), try assertion("bad"))
            scene.emulator.settings.assertions = [good.jwt.exposed]
            let status = try await scene.call(try client(good))
            try require(status == 200, "The call is answered with 200, not \(status).")
            let before = scene.emulator.requests.filter { $0 == "POST /token" }.count
            try require(before == 1, "There is one token request.")
            do {
                _ = try await scene.call(try client(bad))
            } catch {
                let after = scene.emulator.requests.filter { $0 == "POST /token" }.count
                return try require(after == before + 1, "A refused assertion is sent once.")
            }
            throw Failure(description: "It is refused.")
        }
    }
}

/// A server of which only the token endpoint is known.
private struct FixedServer: ProviderAdapter {
    let issuer: String
    let token: String
    func metadata(in context: ServerContext) async throws -> ProviderMetadata {
        ProviderMetadata(issuer: issuer, tokenEndpoint: try Endpoint(token))
    }
}

extension ResourceScene {
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
