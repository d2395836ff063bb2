import AuthFlowJSON
import AuthFlowResourceServer
import AuthFlowTesting
import Testing

typealias Change = @Sendable (inout [String: JSON]) -> Void

/// A change that makes a valid input invalid, and a part of the reason for its rejection.
struct Flaw: Sendable {
    let reason: String
    let change: Change
    init(_ reason: String, _ change: @escaping Change) { (self.reason, self.change) = (reason, change) }
}

/// JWT access tokens (RFC 9068 section 4).
@Suite struct AccessTokenTests {
    @Test(arguments: [SignatureAlgorithm.es256, .es384, .es512, .rs256, .ps256, .edDSA])
    func acceptsAJWTAccessTokenFromATrustedIssuer(_ algorithm: SignatureAlgorithm) async throws {
        let environment = try ResourceServerEnvironment()
        let token = try environment.token(by: algorithm)
        let authorization = try await environment.api().authorize(
            ResourceServerEnvironment.request("Bearer \(token)"),
            requiring: ["orders:read"]
        )
        #expect(authorization.subject == "alice")
        #expect(authorization.clientID == "app")
        #expect(authorization.scopes == ["orders:read", "orders:write"])
        #expect(authorization.issuer == ResourceServerEnvironment.issuer)
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
        let environment = try ResourceServerEnvironment()
        let rejection = try await refusal(
            environment.api(),
            ResourceServerEnvironment.request("Bearer \(try environment.token(claims.value))")
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
        let environment = try ResourceServerEnvironment()
        let rejection = try await refusal(
            environment.api(),
            ResourceServerEnvironment.request("Bearer \(try environment.token(header: header.value))")
        )
        #expect(rejection.response.status == 401)
        #expect(rejection.error == "invalid_token")
    }

    @Test func rejectsATokenSignedWithAnotherKey() async throws {
        let environment = try ResourceServerEnvironment()
        let other = try environment.keys.decoys()
        let token = try other.sign(.object(environment.claims), header: .object(environment.header()), with: .es256)
        let rejection = try await refusal(environment.api(), ResourceServerEnvironment.request("Bearer \(token)"))
        #expect(rejection.error == "invalid_token")
    }

    @Test func aKeyInTheHeaderIsNotUsed() async throws {
        let environment = try ResourceServerEnvironment()
        let attacker = try EmulatorKeys()
        let own = try #require(try attacker.jwks()["keys"]?.array?.first { $0["crv"] == "P-256" })
        var header = environment.header()
        header["jwk"] = own
        header["jku"] = "https://evil.example.com/jwks"
        let token = try attacker.sign(.object(environment.claims), header: .object(header), with: .es256)
        #expect(
            try await refusal(environment.api(), ResourceServerEnvironment.request("Bearer \(token)")).error
                == "invalid_token"
        )
        #expect(!environment.provider.requests.contains { $0.contains("evil") })
    }

    @Test func sendsNoRequestForAnUntrustedIssuer() async throws {
        let environment = try ResourceServerEnvironment()
        let token = try environment.token { $0["iss"] = "https://evil.example.com" }
        _ = try await refusal(environment.api(), ResourceServerEnvironment.request("Bearer \(token)"))
        #expect(environment.provider.requests.isEmpty)
    }

    @Test func limitsKeyFetchesForTokensWithForgedKeyIDs() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api()
        for number in 0..<50 {
            let token = try environment.token(header: { $0["kid"] = .string("forged-\(number)") })
            _ = try await refusal(api, ResourceServerEnvironment.request("Bearer \(token)"))
        }
        #expect(environment.provider.requests.count <= 4)
    }

    @Test func findsTheNewKeyAfterAKeyRotation() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api()
        _ = try await api.authorize(ResourceServerEnvironment.request("Bearer \(try environment.token())"))
        let next = try EmulatorKeys()
        environment.provider.publish(try next.jwks())
        var header = environment.header()
        header["kid"] = .string(next.keyID(for: .es256))
        let token = try next.sign(.object(environment.claims), header: .object(header), with: .es256)
        environment.advance(31)
        _ = try await api.authorize(ResourceServerEnvironment.request("Bearer \(token)"))
    }

    /// A token with a forged key ID uses up the rate-limited key fetch, but the next valid token must not be rejected
    /// as invalid for that reason.
    @Test func aTokenSignedWithANewKeyIsNotRejectedAsInvalidAfterAForgedToken() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api()
        _ = try await api.authorize(ResourceServerEnvironment.request("Bearer \(try environment.token())"))
        let forged = try environment.token(header: { $0["kid"] = "forged" })
        #expect(
            try await refusal(api, ResourceServerEnvironment.request("Bearer \(forged)")).response.status == 401
        )
        let next = try EmulatorKeys()
        environment.provider.publish(try next.jwks())
        var header = environment.header()
        header["kid"] = .string(next.keyID(for: .es256))
        let token = try next.sign(.object(environment.claims), header: .object(header), with: .es256)
        let rejection = try await refusal(api, ResourceServerEnvironment.request("Bearer \(token)"))
        #expect(rejection.response.status == 503)
        #expect(rejection.response.head.headerFields[.retryAfter] == "30")
        environment.advance(31)
        _ = try await api.authorize(ResourceServerEnvironment.request("Bearer \(token)"))
    }

    @Test func returns503WhenTheIssuerIsUnavailable() async throws {
        let environment = try ResourceServerEnvironment()
        environment.provider.takeDown()
        let rejection = try await refusal(
            environment.api(),
            ResourceServerEnvironment.request("Bearer \(try environment.token())")
        )
        #expect(rejection.response.status == 503)
        #expect(rejection.response.head.headerFields[.retryAfter] != nil)
        #expect(rejection.response.head.headerFields[.wwwAuthenticate] == nil)
        #expect(rejection.underlyingError != nil)
    }

    // MARK: - Servers that predate RFC 9068

    static let marks: [Case<Change>] = [
        Case("a nonce") { $0["nonce"] = "n" },
        Case("at_hash") { $0["at_hash"] = "h" },
        Case("its audience as azp") { $0["azp"] = .string(ResourceServerEnvironment.resource) },
        Case("the type of a Keycloak ID Token") { $0["typ"] = "ID" },
        Case("events") { $0["events"] = [:] },
        Case("neither subject nor client") { ($0["sub"], $0["client_id"]) = (nil, nil) },
        Case("another audience") { $0["aud"] = "https://api.example.com/invoices" },
    ]

    @Test(arguments: marks) func riskyAnyJWTRejectsIDTokensLogoutTokensAndOtherAudiences(_ mark: Case<Change>)
        async throws
    {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api(issuer: { TrustedIssuer($0, tokenType: .riskyAnyJWT) })
        let token = try environment.token(mark.value, header: { $0["typ"] = "JWT" })
        #expect(try await refusal(api, ResourceServerEnvironment.request("Bearer \(token)")).error == "invalid_token")
    }

    static let otherKinds: [Case<Flaw>] = [
        Case(
            "azp that is one of several audiences",
            Flaw("its authorized party is its audience") {
                let resource = JSON.string(ResourceServerEnvironment.resource)
                ($0["azp"], $0["aud"]) = (resource, [resource, "https://api.example.com/invoices"])
            }
        ),
        Case("token_use of an ID Token", Flaw("it is a different kind of JWT (token_use)") { $0["token_use"] = "id" }),
        Case("an introspection response", Flaw("it is a different kind of JWT.") { $0["token_introspection"] = [:] }),
    ]

    @Test(arguments: otherKinds) func riskyAnyJWTRejectsOtherKindsOfJWTsAndStatesTheReason(_ kind: Case<Flaw>)
        async throws
    {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api(issuer: { TrustedIssuer($0, tokenType: .riskyAnyJWT) })
        let token = try environment.token(kind.value.change, header: { $0["typ"] = "JWT" })
        let rejection = try await refusal(api, ResourceServerEnvironment.request("Bearer \(token)"))
        #expect(rejection.error == "invalid_token")
        #expect(rejection.reason.contains(kind.value.reason), "\(rejection.reason)")
    }

    /// Some Keycloak installations add the nonce to access tokens.
    @Test(arguments: ["Bearer", "DPoP"]) func riskyAnyJWTAcceptsANonceInATokenThatIsMarkedAsAnAccessToken(
        _ type: String
    )
        async throws
    {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api(issuer: { TrustedIssuer($0, tokenType: .riskyAnyJWT) })
        let token = try environment.token {
            ($0["nonce"], $0["typ"]) = ("n", .string(type))
        } header: {
            $0["typ"] = "JWT"
        }
        _ = try await api.authorize(ResourceServerEnvironment.request("Bearer \(token)"))
    }

    /// Some servers send null instead of omitting a claim.
    @Test func aNullClaimOfATokenIsAbsent() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api(issuer: { TrustedIssuer($0, tokenType: .riskyAnyJWT) })
        let token = try environment.token {
            for name in ["nbf", "iat", "cnf", "nonce", "at_hash", "azp", "typ", "token_use", "events"] {
                $0[name] = .null
            }
        } header: {
            $0["typ"] = "JWT"
        }
        let request = ResourceServerEnvironment.request("Bearer \(token)")
        #expect(try await !api.authorize(request).isDPoPBound)
    }

    @Test(arguments: ["JWT", nil]) func riskyAnyJWTAcceptsTokensOfServersThatPredateRFC9068(_ type: String?)
        async throws
    {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api(issuer: { TrustedIssuer($0, audiences: ["orders"], tokenType: .riskyAnyJWT) })
        let token = try environment.token {
            ($0["jti"], $0["client_id"], $0["scope"]) = (nil, nil, nil)
            ($0["azp"], $0["scp"], $0["aud"]) = ("app", ["orders:read"], ["orders", "other"])
        } header: {
            $0["typ"] = type.map(JSON.string)
        }
        let authorization = try await api.authorize(
            ResourceServerEnvironment.request("Bearer \(token)"),
            requiring: ["orders:read"]
        )
        #expect(authorization.clientID == "app")
    }

    @Test func acceptsTokensOnlyFromConfiguredTenants() async throws {
        let environment = try ResourceServerEnvironment()
        let tenants = try TokenIssuerTemplate("https://id.example.com/{tenantid}/v2.0", claim: "tid", tenants: ["one"])
        let api = try environment.api(issuer: { TrustedIssuer($0, tenants: tenants) })
        func token(_ issuer: String, _ tenant: String) throws -> String {
            try environment.token { ($0["iss"], $0["tid"]) = (.string(issuer), .string(tenant)) }
        }
        let good = try token("https://id.example.com/one/v2.0", "one")
        _ = try await api.authorize(ResourceServerEnvironment.request("Bearer \(good)"))
        for (issuer, tenant) in [
            ("https://id.example.com/two/v2.0", "two"), ("https://id.example.com/two/v2.0", "one"),
            (ResourceServerEnvironment.issuer, "one"),
        ] {
            let bad = try token(issuer, tenant)
            #expect(try await refusal(api, ResourceServerEnvironment.request("Bearer \(bad)")).error == "invalid_token")
        }
    }

    @Test func rejectsATokenSignedWithAnotherTenantsKey() async throws {
        let environment = try ResourceServerEnvironment()
        let issuer = "https://id.example.com/one/v2.0"
        let tenants = try TokenIssuerTemplate("https://id.example.com/{tenantid}/v2.0", claim: "tid", tenants: ["one"])
        let request = ResourceServerEnvironment.request(
            "Bearer \(try environment.token { ($0["iss"], $0["tid"]) = (.string(issuer), "one") })"
        )
        let keys = try environment.keys.jwks()["keys"]?.array ?? []
        func publish(as owner: String) {
            let marked = keys.map { key in
                JSON.object((key.object ?? [:]).merging(["issuer": .string(owner)]) { $1 })
            }
            environment.provider.publish(["keys": .array(marked)])
        }
        publish(as: issuer)
        _ = try await environment.api(issuer: { TrustedIssuer($0, tenants: tenants) }).authorize(request)
        publish(as: "https://id.example.com/two/v2.0")
        let api = try environment.api(issuer: { TrustedIssuer($0, tenants: tenants) })
        #expect(try await refusal(api, request).error == "invalid_token")
    }

    // MARK: - The cache

    @Test func aCachedTokenIsRejectedAfterItsExpiry() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api { $0.clockLeeway = .zero }
        let request = ResourceServerEnvironment.request("Bearer \(try environment.token())")
        _ = try await api.authorize(request)
        environment.advance(599)
        _ = try await api.authorize(request)
        environment.advance(2)
        #expect(try await refusal(api, request).error == "invalid_token")
    }

    @Test func aTokenSignedWithAWithdrawnKeyIsRejectedOnceTheCacheExpires() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api { $0.verificationCacheTime = .seconds(60) }
        let request = ResourceServerEnvironment.request("Bearer \(try environment.token { $0["exp"] = 1_800_009_000 })")
        _ = try await api.authorize(request)
        environment.provider.publish(try EmulatorKeys().jwks())
        environment.advance(700)
        #expect(try await refusal(api, request).error == "invalid_token")
    }

    @Test func requiredScopesAreCheckedForACachedToken() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api()
        let request = ResourceServerEnvironment.request("Bearer \(try environment.token())")
        _ = try await api.authorize(request)
        #expect(try await refusal(api, request, requiring: ["orders:delete"]).error == "insufficient_scope")
    }

    @Test func anAuthTimeInTheFutureDoesNotSatisfyTheMaximumAge() async throws {
        let environment = try ResourceServerEnvironment()
        let token = try environment.token { $0["auth_time"] = 1_800_000_000_000 }
        let requirement = Requirement(scopes: [], maximumAge: .seconds(300))
        let request = ResourceServerEnvironment.request("Bearer \(token)")
        let rejection = try await refusal(environment.api(), request, requiring: requirement)
        #expect(rejection.error == "insufficient_user_authentication")
    }

    /// Even if every authentication would satisfy the maximum age, the token must contain `auth_time`.
    @Test(arguments: [3_000_000_000, Int64.max])
    func aTokenWithoutAnAuthTimeDoesNotSatisfyAnyMaximumAge(_ seconds: Int64) async throws {
        let environment = try ResourceServerEnvironment()
        environment.advance(1_000_000_000)
        let requirement = Requirement(scopes: [], maximumAge: .seconds(seconds))
        let request = ResourceServerEnvironment.request("Bearer \(try environment.token())")
        let rejection = try await refusal(environment.api(), request, requiring: requirement)
        #expect(rejection.error == "insufficient_user_authentication")
    }

    @Test func aCanonicallyEquivalentScopeIsNotAccepted() async throws {
        let environment = try ResourceServerEnvironment()
        let token = try environment.token { $0["scope"] = "orders:\u{212A}" }
        let request = ResourceServerEnvironment.request("Bearer \(token)")
        #expect(try await refusal(environment.api(), request, requiring: ["orders:K"]).error == "insufficient_scope")
    }

    /// Without a key ID, a token is decrypted with up to four keys of each issuer. A fifth key of one issuer may be the only key of another.
    @Test func aKeyThatWasNotTriedForOneIssuerIsTriedForAnother() async throws {
        let environment = try ResourceServerEnvironment()
        let keys = try (0..<5).map { _ in try DecryptionKey() }
        let other = AuthorizationServer(issuer: "https://two.example.com")
        let api = try ResourceServer(
            ResourceServerEnvironment.resource,
            issuers: [
                TrustedIssuer(other, decryptionKeys: DecryptionKeySource(keys)),
                TrustedIssuer(environment.server, decryptionKeys: DecryptionKeySource([keys[4]])),
            ],
            host: environment.host
        )
        var encryption = EmulatedEncryption(to: keys[4].publicJWK, algorithm: .ecdhESA256KW)
        encryption.header = { $0["kid"] = nil }
        let token = try encryption.encrypted(try environment.token())
        #expect(try await api.authorize(ResourceServerEnvironment.request("Bearer \(token)")).subject == "alice")
    }
}
