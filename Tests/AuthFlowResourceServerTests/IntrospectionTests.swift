import AuthFlowJSON
import AuthFlowResourceServer
import AuthFlowTesting
import Testing

/// Tokens that are not JWTs (RFC 7662).
@Suite struct IntrospectionTests {
    private func api(_ scene: ResourceServerScene, introspectsJWTs: Bool = false) throws -> ResourceServer {
        try scene.api(issuer: {
            TrustedIssuer($0, introspector: try scene.introspector($0), introspectsJWTs: introspectsJWTs)
        })
    }

    private static let active: [String: JSON] = [
        "active": true, "scope": "orders:read", "client_id": "app", "sub": "alice", "exp": 1_800_000_600,
        "aud": .string(ResourceServerScene.resource), "iss": .string(ResourceServerScene.issuer),
    ]

    private func introspections(_ scene: ResourceServerScene) -> Int {
        scene.provider.requests.count { $0 == "/introspect" }
    }

    @Test func anActiveTokenIsAcceptedAndItsIntrospectionIsCached() async throws {
        let scene = try ResourceServerScene()
        let api = try api(scene)
        scene.provider.introspect(as: .object(Self.active))
        let request = ResourceServerScene.request("Bearer opaque")
        let subjects = try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<20 { group.addTask { try await api.authorize(request, requiring: ["orders:read"]).subject } }
            return try await group.reduce(into: Set<String?>()) { $0.insert($1) }
        }
        #expect(subjects == ["alice"])
        #expect(introspections(scene) == 1)
        scene.advance(31)
        _ = try await api.authorize(request)
        #expect(introspections(scene) == 2)
    }

    static let refused: [Case<Change>] = [
        Case("inactive") { $0 = ["active": false] },
        Case("token_use of a refresh token") { $0["token_use"] = "refresh_token" },
        Case("the type of a refresh token") { $0["typ"] = "Refresh" },
        Case("active that is not a boolean") { $0["active"] = "true" },
        Case("no audience") { $0["aud"] = nil },
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
        let scene = try ResourceServerScene()
        var members = Self.active
        change.value(&members)
        scene.provider.introspect(as: .object(members))
        let rejection = try await refusal(try api(scene), ResourceServerScene.request("Bearer opaque"))
        #expect(rejection.error == "invalid_token" || rejection.response.status == 503)
        #expect(members["active"]?.bool == nil || rejection.response.status == 401)
    }

    @Test func anInactiveIntrospectionResultIsCached() async throws {
        let scene = try ResourceServerScene()
        let api = try api(scene)
        for _ in 0..<5 { _ = try await refusal(api, ResourceServerScene.request("Bearer opaque")) }
        #expect(introspections(scene) == 1)
        scene.advance(11)
        scene.provider.introspect(as: .object(Self.active))
        _ = try await api.authorize(ResourceServerScene.request("Bearer opaque"))
    }

    @Test func anIntrospectionResultIsNotCachedBeyondTheTokensExpiry() async throws {
        let scene = try ResourceServerScene()
        let api = try api(scene)
        var members = Self.active
        members["exp"] = 1_800_000_005
        scene.provider.introspect(as: .object(members))
        _ = try await api.authorize(ResourceServerScene.request("Bearer opaque"))
        scene.provider.introspect(as: ["active": false])
        scene.advance(6)
        #expect(try await refusal(api, ResourceServerScene.request("Bearer opaque")).error == "invalid_token")
    }

    @Test func anUnavailableIssuerResultsInStatus503() async throws {
        let scene = try ResourceServerScene()
        let api = try api(scene)
        scene.provider.takeDown()
        #expect(try await refusal(api, ResourceServerScene.request("Bearer opaque")).response.status == 503)
    }

    @Test func rejectsAnOpaqueTokenWithoutIntrospection() async throws {
        let scene = try ResourceServerScene()
        #expect(try await refusal(scene.api(), ResourceServerScene.request("Bearer opaque")).error == "invalid_token")
        #expect(scene.provider.requests.isEmpty)
    }

    @Test func rejectsARevokedJWTIfJWTsAreIntrospected() async throws {
        let scene = try ResourceServerScene()
        let request = ResourceServerScene.request("Bearer \(try scene.token())")
        #expect(try await refusal(try api(scene, introspectsJWTs: true), request).error == "invalid_token")
        _ = try await api(scene).authorize(request)
        scene.provider.introspect(as: .object(Self.active))
        let api = try api(scene, introspectsJWTs: true)
        scene.advance(11)
        _ = try await api.authorize(request)
        // A token that was accepted a moment ago may also become inactive.
        scene.provider.introspect(as: ["active": false])
        scene.advance(31)
        #expect(try await refusal(api, request).error == "invalid_token")
    }

    @Test func rejectsAnActiveJWTThatIsNotAnAccessTokenForTheAPI() async throws {
        let scene = try ResourceServerScene()
        scene.provider.introspect(as: ["active": true])
        let api = try api(scene, introspectsJWTs: true)
        for token in [
            try scene.token { $0["aud"] = nil }, try scene.token(header: { $0["typ"] = "JWT" }),
            try scene.token { $0["exp"] = nil }, try scene.decoyToken(),
        ] {
            #expect(try await refusal(api, ResourceServerScene.request("Bearer \(token)")).error == "invalid_token")
        }
        _ = try await api.authorize(ResourceServerScene.request("Bearer \(try scene.token())"))
    }

    @Test func acceptsAMissingAudienceIfTheIssuerIsTrustedToCheckIt() async throws {
        let scene = try ResourceServerScene()
        scene.provider.introspect(as: ["active": true, "sub": "alice"])
        let api = try scene.api(issuer: {
            TrustedIssuer($0, introspector: try scene.introspector($0), trustsIssuerToCheckAudience: true)
        })
        #expect(try await api.authorize(ResourceServerScene.request("Bearer opaque")).subject == "alice")
    }

    /// One issuer encrypts its tokens or issues malformed ones. The other issuer introspects opaque tokens, and must
    /// not receive these tokens.
    @Test func anUnreadableJWTIsNotSentToAnotherIssuer() async throws {
        let scene = try ResourceServerScene()
        let (first, second) = (scene.server, AuthorizationServer(issuer: "https://two.example.com"))
        let api = try ResourceServer(
            ResourceServerScene.resource,
            issuers: [TrustedIssuer(first, introspector: try scene.introspector(first)), TrustedIssuer(second)],
            host: scene.host
        )
        scene.provider.introspect(as: .object(Self.active))
        let twice = Base64URL.encode(#"{"iss":"https://two.example.com","iss":"x"}"#.utf8)
        let header = Base64URL.encode(#"{"alg":"ES256"}"#.utf8)
        for token in ["\(header).\(twice).AAAA", "\(header).\(Base64URL.encode("{}".utf8)).AAAA", "\(header).a.b.c.d"] {
            #expect(try await refusal(api, ResourceServerScene.request("Bearer \(token)")).error == "invalid_token")
        }
        #expect(introspections(scene) == 0)
        _ = try await api.authorize(ResourceServerScene.request("Bearer opaque"))
    }

    @Test func aLargeIntrospectionResultIsNotCached() async throws {
        let scene = try ResourceServerScene()
        let api = try api(scene)
        var members = Self.active
        members["authorization_details"] = .array((0..<4000).map { [.integer(Int64($0))] })
        scene.provider.introspect(as: .object(members))
        for _ in 0..<2 { _ = try await api.authorize(ResourceServerScene.request("Bearer opaque")) }
        #expect(introspections(scene) == 2)
    }
}
