import AuthFlowHTTP
import AuthFlowJSON
import AuthFlowResourceServerConfiguration
import AuthFlowTesting
import Foundation
import Testing

/// The "resource_server" section of a configuration file.
@Suite struct ResourceServerConfigurationTests {
    private static let resource = ResourceServerEnvironment.resource

    private func api(
        _ section: JSON,
        _ environment: ResourceServerEnvironment,
        environment variables: [String: String] = [:]
    ) throws -> ResourceServer {
        let text = try JSON.object(["resource_server": section]).serialized()
        return try ResourceServer(
            configuration: try ConfigurationFile(text: text),
            transport: environment.provider,
            host: HostServices(now: { environment.now }, environment: variables)
        )
    }

    @Test func aResourceIdentifierAndIssuersAreSufficient() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try api(
            ["resource": .string(Self.resource), "issuers": [.string(ResourceServerEnvironment.issuer)]],
            environment
        )
        let request = ResourceServerEnvironment.request("Bearer \(try environment.token())")
        #expect(try await api.authorize(request).subject == "alice")
    }

    @Test func everySettingExceptThoseForEncryptionIsRead() async throws {
        let environment = try ResourceServerEnvironment()
        let key = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let api = try api(
            [
                "resource": .string(Self.resource), "scopes": ["a", "b"], "required_binding": "dpop-or-certificate",
                "dpop": [
                    "algorithms": ["ES256"], "window": 30, "nonce_key": ["env": "NONCE_KEY"], "nonce_lifetime": 60,
                ], "certificate_field": ["name": "X-Certificate", "encoding": "escaped-pem"], "clock_leeway": 5,
                "cached_tokens": 10, "verification_cache_time": 20, "introspection_cache_time": 3,
                "exposes_challenges_to_browsers": true,
                "issuers": [
                    [
                        "issuer": .string(ResourceServerEnvironment.issuer), "audiences": ["orders"],
                        "token_type": "risky-any-jwt", "algorithms": ["RS256"],
                        "token_issuer": [
                            "issuer": "https://id.example.com/{tenant}/", "claim": "tid", "tenants": ["a"],
                        ],
                        "introspection": [
                            "client_id": "orders-api", "client_secret": ["env": "SECRET"], "jwts": true,
                            "trusts_issuer_to_check_audience": true, "signed_introspection": true,
                        ],
                    ]
                ],
            ],
            environment,
            environment: ["NONCE_KEY": key, "SECRET": "secret"]
        )
        let rules = api.rules
        #expect(rules.supportedScopes == ["a", "b"])
        #expect(rules.binding == .dpopOrCertificate)
        #expect(rules.dpop.algorithms == [.es256])
        #expect(rules.dpop.window == .seconds(30))
        #expect(rules.dpop.nonces?.lifetime == .seconds(60))
        #expect(rules.certificateField?.name.rawName == "X-Certificate")
        #expect(rules.certificateField?.encoding == .escapedPEM)
        #expect(rules.clockLeeway == .seconds(5))
        #expect(rules.cachedTokens == 10)
        #expect(rules.verificationCacheTime == .seconds(20))
        #expect(rules.introspectionCacheTime == .seconds(3))
        #expect(rules.exposesChallengesToBrowsers)
        let issuer = try #require(api.issuers.first)
        #expect(issuer.audiences == ["orders"])
        #expect(issuer.tokenType == .riskyAnyJWT)
        #expect(issuer.algorithms == [.rs256])
        #expect(issuer.tenants?.tenants == ["a"])
        #expect(issuer.introspectsJWTs)
        #expect(issuer.trustsIssuerToCheckAudience)
        #expect(issuer.introspector?.registration.signedIntrospection != nil)
    }

    /// A client's leeway is at most 300 seconds.
    @Test(arguments: [(5, 5), (600, 300)])
    func theClockLeewayAlsoAppliesToSignedIntrospectionResponses(_ leeway: Int64, _ expected: Int64) throws {
        let api = try api(
            [
                "resource": .string(Self.resource), "clock_leeway": .integer(leeway),
                "issuers": [
                    [
                        "issuer": .string(ResourceServerEnvironment.issuer),
                        "introspection": [
                            "client_id": "orders-api", "client_secret": ["env": "SECRET"],
                            "signed_introspection": true,
                        ],
                    ]
                ],
            ],
            try ResourceServerEnvironment(),
            environment: ["SECRET": "secret"]
        )
        let introspector = try #require(api.issuers.first?.introspector)
        #expect(introspector.registration.clockLeeway == .seconds(expected))
    }

    /// RFC 9701 section 5: a signed introspection response may also be encrypted.
    @Test func theDecryptionKeyOfAnIssuerAlsoDecryptsItsIntrospectionResponses() throws {
        let environment = try ResourceServerEnvironment()
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("decryption-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let pem = try #require(try DecryptionKey().pem)
        _ = FileManager.default.createFile(
            atPath: path,
            contents: Data(pem.exposed.utf8),
            attributes: [.posixPermissions: 0o600]
        )
        let api = try api(
            [
                "resource": .string(Self.resource),
                "issuers": [
                    [
                        "issuer": .string(ResourceServerEnvironment.issuer), "decryption_key": .string(path),
                        "introspection": [
                            "client_id": "orders-api", "client_secret": ["env": "SECRET"],
                            "signed_introspection": true,
                        ],
                    ]
                ],
            ],
            environment,
            environment: ["SECRET": "secret"]
        )
        let introspector = try #require(api.issuers.first?.introspector)
        #expect(try introspector.registration.decryptionKeys?.keys().count == 1)
    }

    static let faults: [Case<JSON>] = [
        Case("no issuer", ["resource": .string(resource)]),
        Case("an empty list of issuers", ["resource": .string(resource), "issuers": []]),
        Case("plain HTTP", ["resource": "http://api.example.com/", "issuers": ["https://id.example.com"]]),
        Case("a query", ["resource": "https://api.example.com/?a", "issuers": ["https://id.example.com"]]),
        Case(
            "a duplicate issuer",
            ["resource": .string(resource), "issuers": ["https://id.example.com", "https://id.example.com"]]
        ),
        Case(
            "a secret in the file",
            [
                "resource": .string(resource),
                "issuers": [
                    [
                        "issuer": "https://id.example.com",
                        "introspection": ["client_id": "a", "client_secret": "b"],
                    ]
                ],
            ]
        ),
        Case(
            "introspection without authentication",
            [
                "resource": .string(resource),
                "issuers": [["issuer": "https://id.example.com", "introspection": ["client_id": "a"]]],
            ]
        ),
        Case(
            "introspection with a missing certificate",
            [
                "resource": .string(resource),
                "issuers": [
                    [
                        "issuer": "https://id.example.com",
                        "introspection": ["client_id": "a", "client_authentication": "tls_client_auth"],
                    ]
                ],
            ]
        ),
        Case(
            "encryption without a key",
            [
                "resource": .string(resource),
                "issuers": [["issuer": "https://id.example.com", "requires_encryption": true]],
            ]
        ),
        Case(
            "tenants without a list",
            [
                "resource": .string(resource),
                "issuers": [
                    [
                        "issuer": "https://id.example.com",
                        "token_issuer": ["issuer": "https://id.example.com/{t}/", "claim": "t"],
                    ]
                ],
            ]
        ),
        Case(
            "an HMAC algorithm",
            [
                "resource": .string(resource),
                "issuers": [["issuer": "https://id.example.com", "algorithms": ["HS256"]]],
            ]
        ),
        Case(
            "DPoP required but not accepted",
            [
                "resource": .string(resource), "issuers": ["https://id.example.com"], "required_binding": "dpop",
                "dpop": false,
            ]
        ),
        Case(
            "a misspelled key",
            ["resource": .string(resource), "issuers": ["https://id.example.com"], "audience": "x"]
        ),
        Case(
            "a short nonce key",
            [
                "resource": .string(resource), "issuers": ["https://id.example.com"],
                "dpop": ["nonce_key": ["env": "SHORT"]],
            ]
        ),
    ]

    @Test(arguments: faults) func rejectsAnInvalidResourceServerSection(_ section: Case<JSON>) throws {
        let environment = try ResourceServerEnvironment()
        let error = #expect(throws: ConfigurationError.self) {
            _ = try api(section.value, environment, environment: ["SHORT": "abc"])
        }
        #expect(error?.issues.allSatisfy { $0.keyPath.hasPrefix("resource_server") } == true)
    }

    @Test func rejectsAFileWithoutAResourceServerSection() throws {
        let file = try ConfigurationFile(text: Array(#"{"resource_client": {}}"#.utf8))
        #expect(throws: ConfigurationError.self) { _ = try ResourceServer(configuration: file) }
    }

    @Test func theSchemaHasEveryKey() {
        let schema = ConfigurationFile.jsonSchema(
            providers: [],
            userAgents: [],
            resourceServer: ResourceServer.configurationKeys
        )
        let names = schema["properties"]?["resource_server"]?["properties"]?.object?.keys
        #expect(names?.count == ResourceServer.configurationKeys.count)
    }
}
