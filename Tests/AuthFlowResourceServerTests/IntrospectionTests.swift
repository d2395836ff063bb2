import AuthFlowJSON
import AuthFlowResourceServer
import AuthFlowTesting
import Testing

/// Token introspection (RFC 7662).
@Suite struct IntrospectionTests {
    private func api(_ environment: ResourceServerEnvironment, introspectsJWTs: Bool = false) throws -> ResourceServer {
        try environment.api(issuer: {
            TrustedIssuer($0, introspector: try environment.introspector($0), introspectsJWTs: introspectsJWTs)
        })
    }

    private static let active: [String: JSON] = [
        "active": true, "scope": "orders:read", "client_id": "app", "sub": "alice", "exp": 1_800_000_600,
        "aud": .string(ResourceServerEnvironment.resource), "iss": .string(ResourceServerEnvironment.issuer),
    ]

    private func introspections(_ environment: ResourceServerEnvironment) -> Int {
        environment.provider.requests.count { $0 == "/introspect" }
    }

    @Test func anActiveTokenIsAcceptedAndItsIntrospectionIsCached() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try api(environment)
        environment.provider.introspect(as: .object(Self.active))
        let request = ResourceServerEnvironment.request("Bearer opaque")
        let subjects = try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<20 { group.addTask { try await api.authorize(request, requiring: ["orders:read"]).subject } }
            return try await group.reduce(into: Set<String?>()) { $0.insert($1) }
        }
        #expect(subjects == ["alice"])
        #expect(introspections(environment) == 1)
        environment.advance(31)
        _ = try await api.authorize(request)
        #expect(introspections(environment) == 2)
    }

    static let refused: [Case<Change>] = [
        Case("inactive") { $0 = ["active": false] },
        Case("token_use of a refresh token") { $0["token_use"] = "refresh_token" },
        Case("the type of a refresh token") { $0["typ"] = "Refresh" },
        Case("active that is not a boolean") { $0["active"] = "true" },
        Case("no audience") { $0["aud"] = nil },
        Case("an empty audience") { $0["aud"] = [] },
        Case("a bound token without its key") { $0["token_type"] = "DPoP" },
        Case("another API") { $0["aud"] = "https://api.example.com/invoices" },
        Case("another issuer") { $0["iss"] = "https://evil.example.com" },
        Case("expired") { $0["exp"] = 1_799_999_000 },
        Case("not valid yet") { $0["nbf"] = 1_800_000_500 },
        Case("a refresh token") { $0["token_type"] = "refresh_token" },
        Case("bound to a key") { $0["cnf"] = ["jkt": "a"] },
        Case("bound in an unknown way") { $0["cnf"] = ["other": "a"] },
    ]

    @Test(arguments: refused) func rejectsATokenThatFailsIntrospectionChecks(_ change: Case<Change>) async throws {
        let environment = try ResourceServerEnvironment()
        var members = Self.active
        change.value(&members)
        environment.provider.introspect(as: .object(members))
        let rejection = try await refusal(try api(environment), ResourceServerEnvironment.request("Bearer opaque"))
        #expect(rejection.error == "invalid_token" || rejection.response.status == 503)
        #expect(members["active"]?.bool == nil || rejection.response.status == 401)
    }

    /// The clock is far behind or ahead, so that a default value would be accepted.
    @Test(arguments: ["exp", "nbf"], [-1e9, 1e9])
    func rejectsAnIntrospectedTimeThatIsNotANumber(_ member: String, _ offset: Double) async throws {
        let environment = try ResourceServerEnvironment()
        environment.advance(offset)
        var members = Self.active
        members["exp"] = 4_000_000_000
        members[member] = "soon"
        environment.provider.introspect(as: .object(members))
        let rejection = try await refusal(try api(environment), ResourceServerEnvironment.request("Bearer opaque"))
        #expect(rejection.error == "invalid_token")
        #expect(rejection.reason.contains("(\(member))"), "\(rejection.reason)")
    }

    /// Some servers send null instead of omitting a member.
    @Test func aNullMemberOfAnIntrospectionResponseIsAbsent() async throws {
        let environment = try ResourceServerEnvironment()
        var members = Self.active
        for name in ["nbf", "token_use", "iss", "cnf"] { members[name] = .null }
        environment.provider.introspect(as: .object(members))
        _ = try await api(environment).authorize(ResourceServerEnvironment.request("Bearer opaque"))
    }

    @Test func anInactiveIntrospectionResultIsCached() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try api(environment)
        for _ in 0..<5 { _ = try await refusal(api, ResourceServerEnvironment.request("Bearer opaque")) }
        #expect(introspections(environment) == 1)
        environment.advance(11)
        environment.provider.introspect(as: .object(Self.active))
        _ = try await api.authorize(ResourceServerEnvironment.request("Bearer opaque"))
    }

    @Test func anIntrospectionResultIsNotCachedBeyondTheTokensExpiry() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try api(environment)
        var members = Self.active
        members["exp"] = 1_800_000_005
        environment.provider.introspect(as: .object(members))
        _ = try await api.authorize(ResourceServerEnvironment.request("Bearer opaque"))
        environment.provider.introspect(as: ["active": false])
        environment.advance(6)
        #expect(try await refusal(api, ResourceServerEnvironment.request("Bearer opaque")).error == "invalid_token")
    }

    /// The result would otherwise be used for longer than the cache time.
    @Test func anIntrospectionResultIsNotUsedAfterTheClockWasSetBack() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try api(environment)
        environment.provider.introspect(as: .object(Self.active))
        _ = try await api.authorize(ResourceServerEnvironment.request("Bearer opaque"))
        environment.advance(-100)
        environment.provider.introspect(as: ["active": false])
        let rejection = try await refusal(api, ResourceServerEnvironment.request("Bearer opaque"))
        #expect(rejection.error == "invalid_token")
        #expect(introspections(environment) == 2)
    }

    @Test func aLimitOfZeroTokensDisablesTheCache() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api({ $0.cachedTokens = 0 }) {
            TrustedIssuer($0, introspector: try environment.introspector($0))
        }
        environment.provider.introspect(as: .object(Self.active))
        for _ in 0..<2 { _ = try await api.authorize(ResourceServerEnvironment.request("Bearer opaque")) }
        #expect(introspections(environment) == 2)
    }

    @Test func anUnavailableIssuerResultsInStatus503() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try api(environment)
        environment.provider.takeDown()
        #expect(try await refusal(api, ResourceServerEnvironment.request("Bearer opaque")).response.status == 503)
    }

    @Test func rejectsAnOpaqueTokenWithoutIntrospection() async throws {
        let environment = try ResourceServerEnvironment()
        #expect(
            try await refusal(environment.api(), ResourceServerEnvironment.request("Bearer opaque")).error
                == "invalid_token"
        )
        #expect(environment.provider.requests.isEmpty)
    }

    @Test func rejectsARevokedJWTIfJWTsAreIntrospected() async throws {
        let environment = try ResourceServerEnvironment()
        let request = ResourceServerEnvironment.request("Bearer \(try environment.token())")
        #expect(try await refusal(try api(environment, introspectsJWTs: true), request).error == "invalid_token")
        _ = try await api(environment).authorize(request)
        environment.provider.introspect(as: .object(Self.active))
        let api = try api(environment, introspectsJWTs: true)
        environment.advance(11)
        _ = try await api.authorize(request)
        // A token that was accepted a moment ago may also become inactive.
        environment.provider.introspect(as: ["active": false])
        environment.advance(31)
        #expect(try await refusal(api, request).error == "invalid_token")
    }

    @Test func rejectsAnActiveJWTThatIsNotAnAccessTokenForTheAPI() async throws {
        let environment = try ResourceServerEnvironment()
        environment.provider.introspect(as: ["active": true])
        let api = try api(environment, introspectsJWTs: true)
        for token in [
            try environment.token { $0["aud"] = nil }, try environment.token(header: { $0["typ"] = "JWT" }),
            try environment.token { $0["exp"] = nil }, try environment.decoyToken(),
        ] {
            #expect(
                try await refusal(api, ResourceServerEnvironment.request("Bearer \(token)")).error == "invalid_token"
            )
        }
        _ = try await api.authorize(ResourceServerEnvironment.request("Bearer \(try environment.token())"))
    }

    /// Ory Hydra reports a token without an audience with an empty array.
    @Test(arguments: [nil, [], .null] as [JSON?])
    func acceptsAMissingAudienceIfTheIssuerIsTrustedToCheckIt(_ audience: JSON?) async throws {
        let environment = try ResourceServerEnvironment()
        var members: [String: JSON] = ["active": true, "sub": "alice"]
        members["aud"] = audience
        environment.provider.introspect(as: .object(members))
        let api = try environment.api(issuer: {
            TrustedIssuer($0, introspector: try environment.introspector($0), trustsIssuerToCheckAudience: true)
        })
        #expect(try await api.authorize(ResourceServerEnvironment.request("Bearer opaque")).subject == "alice")
    }

    @Test func aJWTWithoutAnIssuerIsIntrospectedAtTheOnlyIssuer() async throws {
        let environment = try ResourceServerEnvironment()
        environment.provider.introspect(as: .object(Self.active))
        let request = ResourceServerEnvironment.request("Bearer \(try environment.token { $0["iss"] = nil })")
        #expect(try await api(environment).authorize(request).subject == "alice")
        #expect(introspections(environment) == 1)
        let rejection = try await refusal(environment.api(), request)
        #expect(rejection.error == "invalid_token")
        #expect(rejection.reason.contains("it has no issuer (iss)"), "\(rejection.reason)")
    }

    @Test func aJWTIsNotIntrospectedAtAnotherIssuer() async throws {
        let environment = try ResourceServerEnvironment()
        let server = environment.server
        let tenants = try TokenIssuerTemplate("https://id.example.com/{tenantid}/v2.0", claim: "tid", tenants: ["one"])
        let introspector = try environment.introspector(server)
        let api = try ResourceServer(
            ResourceServerEnvironment.resource,
            issuers: [
                TrustedIssuer(server, introspector: introspector, introspectsJWTs: true),
                TrustedIssuer(server, tenants: tenants),
            ],
            host: environment.host
        )
        let token = try environment.token { ($0["iss"], $0["tid"]) = ("https://id.example.com/one/v2.0", "one") }
        _ = try await api.authorize(ResourceServerEnvironment.request("Bearer \(token)"))
        #expect(introspections(environment) == 0)
        let own = ResourceServerEnvironment.request("Bearer \(try environment.token())")
        #expect(try await refusal(api, own).error == "invalid_token")
        #expect(introspections(environment) == 1)
    }

    /// The token may belong to the issuer that encrypts its tokens.
    @Test func anEncryptedTokenThatCannotBeDecryptedIsNotSentToAnotherIssuer() async throws {
        let environment = try ResourceServerEnvironment()
        let (first, second) = (environment.server, AuthorizationServer(issuer: "https://two.example.com"))
        let keys = DecryptionKeySource([try DecryptionKey()])
        let api = try ResourceServer(
            ResourceServerEnvironment.resource,
            issuers: [
                TrustedIssuer(first, introspector: try environment.introspector(first)),
                TrustedIssuer(second, decryptionKeys: keys),
            ],
            host: environment.host
        )
        environment.provider.introspect(as: .object(Self.active))
        let rejection = try await refusal(api, ResourceServerEnvironment.request("Bearer a.b.c.d.e"))
        #expect(rejection.error == "invalid_token")
        #expect(rejection.reason.contains("none of the configured keys can decrypt it"), "\(rejection.reason)")
        #expect(introspections(environment) == 0)
    }

    /// One issuer encrypts its tokens or issues malformed tokens. The other issuer provides introspection of opaque tokens,
    /// and must not receive these tokens.
    @Test func anUnreadableJWTIsNotSentToAnotherIssuer() async throws {
        let environment = try ResourceServerEnvironment()
        let (first, second) = (environment.server, AuthorizationServer(issuer: "https://two.example.com"))
        let api = try ResourceServer(
            ResourceServerEnvironment.resource,
            issuers: [TrustedIssuer(first, introspector: try environment.introspector(first)), TrustedIssuer(second)],
            host: environment.host
        )
        environment.provider.introspect(as: .object(Self.active))
        let twice = Base64URL.encode(#"{"iss":"https://two.example.com","iss":"x"}"#.utf8)
        let header = Base64URL.encode(#"{"alg":"ES256"}"#.utf8)
        for token in ["\(header).\(twice).AAAA", "\(header).\(Base64URL.encode("{}".utf8)).AAAA", "\(header).a.b.c.d"] {
            #expect(
                try await refusal(api, ResourceServerEnvironment.request("Bearer \(token)")).error == "invalid_token"
            )
        }
        #expect(introspections(environment) == 0)
        _ = try await api.authorize(ResourceServerEnvironment.request("Bearer opaque"))
    }

    @Test func aLargeIntrospectionResultIsNotCached() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try api(environment)
        var members = Self.active
        members["authorization_details"] = .array((0..<4000).map { [.integer(Int64($0))] })
        environment.provider.introspect(as: .object(members))
        for _ in 0..<2 { _ = try await api.authorize(ResourceServerEnvironment.request("Bearer opaque")) }
        #expect(introspections(environment) == 2)
    }
}
