import AuthFlowJSON
import AuthFlowResourceServer
import AuthFlowTesting
import Testing

typealias Change = @Sendable (inout [String: JSON]) -> Void

/// JWT access tokens (RFC 9068 section 4).
@Suite struct AccessTokenTests {
    @Test(arguments: [SignatureAlgorithm.es256, .es384, .es512, .rs256, .ps256, .edDSA])
    func acceptsAJWTAccessTokenFromATrustedIssuer(_ algorithm: SignatureAlgorithm) async throws {
        let scene = try ResourceServerScene()
        let token = try scene.token(by: algorithm)
        let authorization = try await scene.api().authorize(
            ResourceServerScene.request("Bearer \(token)"),
            requiring: ["orders:read"]
        )
        #expect(authorization.subject == "alice")
        #expect(authorization.clientID == "app")
        #expect(authorization.scopes == ["orders:read", "orders:write"])
        #expect(authorization.issuer == ResourceServerScene.issuer)
        #expect(!authorization.isDPoPBound)
    }

    static let refusedClaims: [Case<Change>] = [
        Case("another issuer") { $0["iss"] = "https://evil.example.com" },
        Case("the issuer with a trailing slash") { $0["iss"] = "https://id.example.com/" },
        Case("no issuer") { $0["iss"] = nil },
        Case("another API of the issuer") { $0["aud"] = "https://api.example.com/invoices" },
        Case("an audience that has the API as a prefix") { $0["aud"] = "https://api.example.com/orders/admin" },
        Case("a prefix of the API's identifier") { $0["aud"] = "https://api.example.com" },
        Case("no audience") { $0["aud"] = nil },
        Case("an audience that is not a string") { $0["aud"] = 1 },
        Case("expired") { $0["exp"] = 1_799_999_900 },
        Case("no expiry") { $0["exp"] = nil },
        Case("an expiry that is a string") { $0["exp"] = "1900000000" },
        Case("not valid yet") { $0["nbf"] = 1_800_000_100 },
        Case("issued in the future") { $0["iat"] = 1_800_000_100 },
        Case("no iat") { $0["iat"] = nil },
        Case("no subject") { $0["sub"] = nil },
        Case("no client") { $0["client_id"] = nil },
        Case("no identifier") { $0["jti"] = nil },
        Case("an unknown binding") { $0["cnf"] = ["kid": "1"] },
        Case("an unknown binding together with a known binding") { $0["cnf"] = ["x5t#S256": "a", "kid": "1"] },
        Case("an empty binding") { $0["cnf"] = [:] },
        Case("a binding that is not an object") { $0["cnf"] = "jkt" },
    ]

    @Test(arguments: refusedClaims) func rejectsATokenWithInvalidClaims(_ claims: Case<Change>) async throws {
        let scene = try ResourceServerScene()
        let rejection = try await refusal(
            scene.api(),
            ResourceServerScene.request("Bearer \(try scene.token(claims.value))")
        )
        #expect(rejection.response.status == 401)
        #expect(rejection.error == "invalid_token")
    }

    static let refusedHeaders: [Case<Change>] = [
        Case("the type of an ID Token") { $0["typ"] = "JWT" },
        Case("no type") { $0["typ"] = nil },
        Case("the type of a logout token") { $0["typ"] = "logout+jwt" },
        Case("a critical extension") { $0["crit"] = ["b64"] },
        Case("an unknown key") { $0["kid"] = "unknown" },
        Case("no algorithm") { $0["alg"] = "none" },
        Case("a symmetric algorithm") { $0["alg"] = "HS256" },
        Case("an algorithm other than the key's") { $0["alg"] = "ES384" },
    ]

    @Test(arguments: refusedHeaders) func rejectsATokenWithAnInvalidHeader(_ header: Case<Change>) async throws {
        let scene = try ResourceServerScene()
        let rejection = try await refusal(
            scene.api(),
            ResourceServerScene.request("Bearer \(try scene.token(header: header.value))")
        )
        #expect(rejection.response.status == 401)
        #expect(rejection.error == "invalid_token")
    }

    @Test func rejectsATokenSignedWithAnotherKey() async throws {
        let scene = try ResourceServerScene()
        let other = try scene.keys.decoys()
        let token = try other.sign(.object(scene.claims), header: .object(scene.header()), with: .es256)
        let rejection = try await refusal(scene.api(), ResourceServerScene.request("Bearer \(token)"))
        #expect(rejection.error == "invalid_token")
    }

    @Test func aKeyInTheHeaderIsNotUsed() async throws {
        let scene = try ResourceServerScene()
        let attacker = try EmulatorKeys()
        let own = try #require(try attacker.jwks()["keys"]?.array?.first { $0["crv"] == "P-256" })
        var header = scene.header()
        header["jwk"] = own
        header["jku"] = "https://evil.example.com/jwks"
        let token = try attacker.sign(.object(scene.claims), header: .object(header), with: .es256)
        #expect(try await refusal(scene.api(), ResourceServerScene.request("Bearer \(token)")).error == "invalid_token")
        #expect(!scene.provider.requests.contains { $0.contains("evil") })
    }

    @Test func sendsNoRequestForAnUntrustedIssuer() async throws {
        let scene = try ResourceServerScene()
        let token = try scene.token { $0["iss"] = "https://evil.example.com" }
        _ = try await refusal(scene.api(), ResourceServerScene.request("Bearer \(token)"))
        #expect(scene.provider.requests.isEmpty)
    }

    @Test func limitsKeyFetchesForTokensWithForgedKeyIDs() async throws {
        let scene = try ResourceServerScene()
        let api = try scene.api()
        for number in 0..<50 {
            let token = try scene.token(header: { $0["kid"] = .string("forged-\(number)") })
            _ = try await refusal(api, ResourceServerScene.request("Bearer \(token)"))
        }
        #expect(scene.provider.requests.count <= 4)
    }

    @Test func findsTheNewKeyAfterAKeyRotation() async throws {
        let scene = try ResourceServerScene()
        let api = try scene.api()
        _ = try await api.authorize(ResourceServerScene.request("Bearer \(try scene.token())"))
        let next = try EmulatorKeys()
        scene.provider.publish(try next.jwks())
        var header = scene.header()
        header["kid"] = .string(next.keyID(for: .es256))
        let token = try next.sign(.object(scene.claims), header: .object(header), with: .es256)
        scene.advance(31)
        _ = try await api.authorize(ResourceServerScene.request("Bearer \(token)"))
    }

    /// A token with a forged key ID uses up the rate-limited key fetch, but the next valid token must not be rejected
    /// as invalid for that reason.
    @Test func aTokenSignedWithANewKeyIsNotRejectedAsInvalidAfterAForgedToken() async throws {
        let scene = try ResourceServerScene()
        let api = try scene.api()
        _ = try await api.authorize(ResourceServerScene.request("Bearer \(try scene.token())"))
        let forged = try scene.token(header: { $0["kid"] = "forged" })
        #expect(
            try await refusal(api, ResourceServerScene.request("Bearer \(forged)")).response.status == 401
        )
        let next = try EmulatorKeys()
        scene.provider.publish(try next.jwks())
        var header = scene.header()
        header["kid"] = .string(next.keyID(for: .es256))
        let token = try next.sign(.object(scene.claims), header: .object(header), with: .es256)
        let rejection = try await refusal(api, ResourceServerScene.request("Bearer \(token)"))
        #expect(rejection.response.status == 503)
        #expect(rejection.response.head.headerFields[.retryAfter] == "30")
        scene.advance(31)
        _ = try await api.authorize(ResourceServerScene.request("Bearer \(token)"))
    }

    @Test func returns503WhenTheIssuerIsUnavailable() async throws {
        let scene = try ResourceServerScene()
        scene.provider.takeDown()
        let rejection = try await refusal(scene.api(), ResourceServerScene.request("Bearer \(try scene.token())"))
        #expect(rejection.response.status == 503)
        #expect(rejection.response.head.headerFields[.retryAfter] != nil)
        #expect(rejection.response.head.headerFields[.wwwAuthenticate] == nil)
        #expect(rejection.underlyingError != nil)
    }

    // MARK: - Servers that predate RFC 9068

    static let marks: [Case<Change>] = [
        Case("a nonce") { $0["nonce"] = "n" },
        Case("at_hash") { $0["at_hash"] = "h" },
        Case("its audience as azp") { $0["azp"] = .string(ResourceServerScene.resource) },
        Case("the type of a Keycloak ID Token") { $0["typ"] = "ID" },
        Case("events") { $0["events"] = [:] },
        Case("neither subject nor client") { ($0["sub"], $0["client_id"]) = (nil, nil) },
        Case("another audience") { $0["aud"] = "https://api.example.com/invoices" },
    ]

    @Test(arguments: marks) func riskyAnyJWTRejectsIDTokensLogoutTokensAndOtherAudiences(_ mark: Case<Change>)
        async throws
    {
        let scene = try ResourceServerScene()
        let api = try scene.api(issuer: { TrustedIssuer($0, tokenType: .riskyAnyJWT) })
        let token = try scene.token(mark.value, header: { $0["typ"] = "JWT" })
        #expect(try await refusal(api, ResourceServerScene.request("Bearer \(token)")).error == "invalid_token")
    }

    @Test(arguments: ["JWT", nil]) func riskyAnyJWTAcceptsTokensOfServersThatPredateRFC9068(_ type: String?)
        async throws
    {
        let scene = try ResourceServerScene()
        let api = try scene.api(issuer: { TrustedIssuer($0, audiences: ["orders"], tokenType: .riskyAnyJWT) })
        let token = try scene.token {
            ($0["jti"], $0["client_id"], $0["scope"]) = (nil, nil, nil)
            ($0["azp"], $0["scp"], $0["aud"]) = ("app", ["orders:read"], ["orders", "other"])
        } header: {
            $0["typ"] = type.map(JSON.string)
        }
        let authorization = try await api.authorize(
            ResourceServerScene.request("Bearer \(token)"),
            requiring: ["orders:read"]
        )
        #expect(authorization.clientID == "app")
    }

    @Test func acceptsTokensOnlyFromConfiguredTenants() async throws {
        let scene = try ResourceServerScene()
        let tenants = try TokenIssuerTemplate("https://id.example.com/{tenantid}/v2.0", claim: "tid", tenants: ["one"])
        let api = try scene.api(issuer: { TrustedIssuer($0, tenants: tenants) })
        func token(_ issuer: String, _ tenant: String) throws -> String {
            try scene.token { ($0["iss"], $0["tid"]) = (.string(issuer), .string(tenant)) }
        }
        let good = try token("https://id.example.com/one/v2.0", "one")
        _ = try await api.authorize(ResourceServerScene.request("Bearer \(good)"))
        for (issuer, tenant) in [
            ("https://id.example.com/two/v2.0", "two"), ("https://id.example.com/two/v2.0", "one"),
            (ResourceServerScene.issuer, "one"),
        ] {
            let bad = try token(issuer, tenant)
            #expect(try await refusal(api, ResourceServerScene.request("Bearer \(bad)")).error == "invalid_token")
        }
    }

    @Test func rejectsATokenSignedWithAnotherTenantsKey() async throws {
        let scene = try ResourceServerScene()
        let issuer = "https://id.example.com/one/v2.0"
        let tenants = try TokenIssuerTemplate("https://id.example.com/{tenantid}/v2.0", claim: "tid", tenants: ["one"])
        let request = ResourceServerScene.request(
            "Bearer \(try scene.token { ($0["iss"], $0["tid"]) = (.string(issuer), "one") })"
        )
        let keys = try scene.keys.jwks()["keys"]?.array ?? []
        func publish(as owner: String) {
            let marked = keys.map { key in
                JSON.object((key.object ?? [:]).merging(["issuer": .string(owner)]) { $1 })
            }
            scene.provider.publish(["keys": .array(marked)])
        }
        publish(as: issuer)
        _ = try await scene.api(issuer: { TrustedIssuer($0, tenants: tenants) }).authorize(request)
        publish(as: "https://id.example.com/two/v2.0")
        let api = try scene.api(issuer: { TrustedIssuer($0, tenants: tenants) })
        #expect(try await refusal(api, request).error == "invalid_token")
    }

    // MARK: - The cache

    @Test func aCachedTokenIsRejectedAfterItsExpiry() async throws {
        let scene = try ResourceServerScene()
        let api = try scene.api { $0.clockLeeway = .zero }
        let request = ResourceServerScene.request("Bearer \(try scene.token())")
        _ = try await api.authorize(request)
        scene.advance(599)
        _ = try await api.authorize(request)
        scene.advance(2)
        #expect(try await refusal(api, request).error == "invalid_token")
    }

    @Test func aTokenSignedWithAWithdrawnKeyIsRejectedOnceTheCacheExpires() async throws {
        let scene = try ResourceServerScene()
        let api = try scene.api { $0.verificationCacheTime = .seconds(60) }
        let request = ResourceServerScene.request("Bearer \(try scene.token { $0["exp"] = 1_800_009_000 })")
        _ = try await api.authorize(request)
        scene.provider.publish(try EmulatorKeys().jwks())
        scene.advance(700)
        #expect(try await refusal(api, request).error == "invalid_token")
    }

    @Test func requiredScopesAreCheckedForACachedToken() async throws {
        let scene = try ResourceServerScene()
        let api = try scene.api()
        let request = ResourceServerScene.request("Bearer \(try scene.token())")
        _ = try await api.authorize(request)
        #expect(try await refusal(api, request, requiring: ["orders:delete"]).error == "insufficient_scope")
    }

    @Test func anAuthTimeInTheFutureDoesNotSatisfyTheMaximumAge() async throws {
        let scene = try ResourceServerScene()
        let token = try scene.token { $0["auth_time"] = 1_800_000_000_000 }
        let requirement = Requirement(scopes: [], maximumAge: .seconds(300))
        let request = ResourceServerScene.request("Bearer \(token)")
        let rejection = try await refusal(scene.api(), request, requiring: requirement)
        #expect(rejection.error == "insufficient_user_authentication")
    }

    @Test func aCanonicallyEquivalentScopeIsNotAccepted() async throws {
        let scene = try ResourceServerScene()
        let token = try scene.token { $0["scope"] = "orders:\u{212A}" }
        let request = ResourceServerScene.request("Bearer \(token)")
        #expect(try await refusal(scene.api(), request, requiring: ["orders:K"]).error == "insufficient_scope")
    }
}
