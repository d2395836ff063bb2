import AuthFlowJSON

/// A behavior of a protected resource that a client must handle or reject, with its number in the conformance table.
public struct ResourceScenario: Sendable {
    /// The number.
    public let number: Int
    /// The name in the MCP conformance suite.
    public let name: String
    /// The settings of the emulator.
    public let settings: ResourceSettings

    init(_ number: Int, _ name: String, _ change: (inout ResourceSettings) -> Void = { _ in }) {
        var settings = ResourceSettings()
        change(&settings)
        self.number = number
        self.name = name
        self.settings = settings
    }

    /// The scenario with the given number or name; nil if there is none.
    public static func named(_ name: String) -> ResourceScenario? {
        all.first { "\($0.number)" == name || $0.name == name || $0.name.hasSuffix("/\(name)") }
    }

    /// A tool whose schema has these properties.
    static func tool(_ name: String, _ properties: [String: JSON] = [:]) -> JSON {
        ["name": .string(name), "inputSchema": ["type": "object", "properties": .object(properties)]]
    }

    /// Tools with invalid annotations, and one tool with a valid annotation.
    static let annotatedTools: [JSON] = {
        func property(_ header: JSON, type: JSON = "string") -> JSON { ["type": type, "x-mcp-header": header] }
        return [
            tool("valid_tool", ["region": property("Region")]), tool("empty", ["a": property("")]),
            tool("object", ["a": property("A", type: "object")]), tool("array", ["a": property("A", type: "array")]),
            tool("null", ["a": property("A", type: "null")]), tool("number", ["a": property("A", type: "number")]),
            tool("duplicate", ["a": property("A"), "b": property("A")]),
            tool("duplicate_case", ["a": property("A"), "b": property("a")]), tool("blank", ["a": property("A B")]),
            tool("colon", ["a": property("A:B")]), tool("non_ascii", ["a": property("Ä")]),
            tool("control", ["a": property("A\u{1}")]),
        ]
    }()

    /// The scenarios.
    public static let all: [ResourceScenario] = [
        ResourceScenario(1, "tools_call") {
            $0.tools = [tool("add_numbers", ["a": ["type": "number"], "b": ["type": "number"]])]
        },
        ResourceScenario(2, "request-metadata") { $0.version = "2026-07-28" },
        ResourceScenario(3, "auth/metadata-default"),
        ResourceScenario(4, "auth/metadata-var1") {
            $0.challengeNamesMetadata = false
            $0.serverMetadata = [.openIDAppended]
        },
        ResourceScenario(5, "auth/metadata-var2") {
            $0.challenges = false
            $0.challengeNamesMetadata = false
            $0.metadataPlace = .root
            $0.issuerPaths = ["/tenant1"]
        },
        ResourceScenario(6, "auth/metadata-var3") {
            $0.metadataPlace = .custom("/custom/metadata/location.json")
            $0.issuerPaths = ["/tenant1"]
            $0.serverMetadata = [.openIDAppended]
        },
        ResourceScenario(7, "auth/basic-cimd") {
            $0.supportsMetadataDocuments = true
            $0.expectedClientID = "https://conformance-test.local/client-metadata.json"
        },
        ResourceScenario(8, "auth/scope-from-www-authenticate") { $0.supportedScopes = ["mcp:other"] },
        ResourceScenario(9, "auth/scope-from-scopes-supported") {
            $0.challengeScopes = nil
            $0.supportedScopes = ["mcp:basic", "mcp:read", "mcp:write"]
        },
        ResourceScenario(10, "auth/scope-omitted-when-undefined") {
            ($0.challengeScopes, $0.supportedScopes) = (nil, nil)
        },
        ResourceScenario(11, "auth/scope-step-up") {
            $0.supportedScopes = ["mcp:profile"]
            $0.toolScopes = ["mcp:write"]
        },
        ResourceScenario(12, "auth/scope-retry-limit") {
            $0.toolScopes = ["mcp:admin"]
            $0.refusesCalls = true
        },
        ResourceScenario(13, "auth/token-endpoint-auth-basic") { $0.authenticationMethods = ["client_secret_basic"] },
        ResourceScenario(14, "auth/token-endpoint-auth-post") { $0.authenticationMethods = ["client_secret_post"] },
        ResourceScenario(15, "auth/token-endpoint-auth-none"),
        ResourceScenario(16, "auth/pre-registration") {
            $0.registers = false
            $0.authenticationMethods = ["client_secret_basic"]
            $0.registeredClients = ["pre-registered": "a secret: of both%kinds"]
        },
        ResourceScenario(17, "auth/resource-mismatch") { $0.resource = "https://evil.example.com/mcp" },
        ResourceScenario(18, "auth/offline-access-scope") {
            $0.serverScopes = ["mcp:basic", "offline_access"]
            $0.supportsMetadataDocuments = true
        },
        ResourceScenario(19, "auth/offline-access-not-supported") { $0.serverScopes = ["mcp:basic", "mcp:read"] },
        ResourceScenario(20, "auth/authorization-server-migration") {
            $0.issuerPaths = ["/first", "/second"]
            $0.migratesAfterFirstCall = true
        },
        ResourceScenario(21, "auth/iss-supported"),
        ResourceScenario(22, "auth/iss-not-advertised") { ($0.advertisesIssuer, $0.issuer) = (false, .missing) },
        ResourceScenario(23, "auth/iss-supported-missing") { $0.issuer = .missing },
        ResourceScenario(24, "auth/iss-wrong-issuer") { $0.issuer = .other("https://evil.example.com") },
        ResourceScenario(25, "auth/iss-unexpected") {
            ($0.advertisesIssuer, $0.issuer) = (false, .other("https://evil.example.com"))
        },
        ResourceScenario(26, "auth/iss-normalized") { $0.issuer = .withSlash },
        ResourceScenario(27, "auth/metadata-issuer-mismatch") { $0.issuerInMetadata = "https://attacker.example.com" },
        ResourceScenario(28, "sep-2322-client-request-state") {
            $0.version = "2026-07-28"
            $0.tools = [tool("asks")]
        },
        ResourceScenario(29, "http-standard-headers") { $0.version = "2026-07-28" },
        ResourceScenario(30, "http-custom-headers") {
            $0.version = "2026-07-28"
            $0.tools = [
                tool(
                    "annotated",
                    [
                        "region": ["type": "string", "x-mcp-header": "Region"],
                        "count": ["type": "integer", "x-mcp-header": "Count"],
                        "dry": ["type": "boolean", "x-mcp-header": "Dry-Run"], "plain": ["type": "string"],
                    ]
                ), tool("plain", ["region": ["type": "string"]]),
            ]
        },
        ResourceScenario(31, "http-invalid-tool-headers") {
            $0.version = "2026-07-28"
            $0.tools = annotatedTools
        },
        ResourceScenario(32, "json-schema-ref-no-deref") {
            $0.tools = [["name": "referring", "inputSchema": ["$ref": "http://127.0.0.1:9/schema.json"]]]
        },
        ResourceScenario(33, "auth/client-credentials-jwt") {
            $0.registers = false
            $0.grants = ["client_credentials"]
            $0.authenticationMethods = ["private_key_jwt"]
        },
        ResourceScenario(34, "auth/client-credentials-basic") {
            $0.registers = false
            $0.grants = ["client_credentials"]
            $0.authenticationMethods = ["client_secret_basic"]
            $0.registeredClients = ["machine": "a secret: of both%kinds"]
        },
        ResourceScenario(35, "auth/enterprise-managed-authorization") {
            $0.registers = false
            $0.grants = ["jwt-bearer"]
            $0.authenticationMethods = ["client_secret_basic"]
            $0.registeredClients = ["enterprise": "secret"]
            $0.identityToken = "id-token"
        },
        ResourceScenario(36, "auth/dpop") { $0.dpop = .required },
        ResourceScenario(37, "auth/dpop-nonce") { $0.dpop = .requiredWithNonce },
        ResourceScenario(38, "auth/wif-jwt-bearer") {
            $0.registers = false
            $0.grants = ["jwt-bearer"]
        },
        ResourceScenario(39, "json-schema-2020-12-preservation") {
            $0.tools = [
                [
                    "name": "json_schema_echo",
                    "inputSchema": [
                        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
                        "$defs": ["a": ["$anchor": "a", "type": "string"]],
                        "allOf": [["if": ["required": ["a"]], "then": ["required": ["b"]]]],
                    ],
                ]
            ]
        },
        ResourceScenario(40, "auth/2025-03-26-oauth-metadata-backcompat") {
            $0.challengeNamesMetadata = false
            $0.metadataPlace = .none
        },
        ResourceScenario(41, "auth/2025-03-26-oauth-endpoint-fallback") {
            $0.challengeNamesMetadata = false
            $0.metadataPlace = .none
            $0.serverMetadata = []
        },
        ResourceScenario(42, "initialize") { $0.supportsOnlyPOST = false },
        ResourceScenario(43, "sse-retry") {
            $0.supportsOnlyPOST = false
            $0.streams = true
            $0.breaksStreams = true
        },
        ResourceScenario(44, "elicitation-sep1034-client-defaults") {
            $0.supportsOnlyPOST = false
            $0.streams = true
        },
    ]
}
