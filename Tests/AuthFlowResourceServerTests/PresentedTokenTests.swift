import AuthFlowJSON
import AuthFlowResourceServer
import AuthFlowTesting
import Expectations
import Synchronization
import Testing

/// Tokens in requests, and the challenges in responses (RFC 6750, RFC 9728, RFC 9470).
@Suite struct PresentedTokenTests {
    /// Combining marks in two orders, which Swift's `Character` and `==` take quadratic time to normalize.
    private static let marks =
        String(repeating: "\u{0301}", count: 19_000) + String(repeating: "\u{0316}", count: 19_000)

    /// The last two values took seconds when the scheme was compared as a `String`.
    @Test(arguments: [nil, "Basic YTpi", "Negotiate abc", "", "Bearertoken", "a\(marks)", "Bearer\(marks) a"])
    func aRequestWithoutATokenReceivesAChallengeWithoutAnErrorCode(_ authorization: String?) async throws {
        let environment = try ResourceServerEnvironment()
        let rejection = try await refusal(
            environment.api(),
            ResourceServerEnvironment.request(authorization),
            requiring: ["orders:read"]
        )
        #expect(rejection.response.status == 401)
        #expect(rejection.error == nil)
        let challenges = AuthenticationChallenge.challenges(in: rejection.response.head.headerFields)
        #expect(challenges.map(\.scheme) == ["bearer", "dpop"])
        for challenge in challenges {
            #expect(
                challenge.parameters["resource_metadata"]
                    == "https://api.example.com/.well-known/oauth-protected-resource/orders"
            )
            #expect(challenge.parameters["scope"] == "orders:read")
        }
        #expect(challenges[1].parameters["algs"]?.contains("ES256") == true)
        #expect(rejection.response.body.isEmpty)
    }

    @Test(arguments: [
        "Bearer \(marks)", "Bearer", "Bearer ", "Bearer a b", "Bearer a,b", "Bearer \"a\"", "Bearer =", "Bearer a=b",
        "Bearer ä",
        "DPoP",
        "Bearer " + String(repeating: "a", count: 40_000),
    ])
    func aMalformedTokenIsAnInvalidRequest(_ authorization: String) async throws {
        let environment = try ResourceServerEnvironment()
        let rejection = try await refusal(environment.api(), ResourceServerEnvironment.request(authorization))
        #expect(rejection.response.status == 400)
        #expect(rejection.error == "invalid_request")
    }

    @Test func severalTokensAreAnInvalidRequest() async throws {
        let environment = try ResourceServerEnvironment()
        let token = try environment.token()
        var twice = ResourceServerEnvironment.request("Bearer \(token)")
        twice.headerFields.append(HTTPField(name: .authorization, value: "Bearer \(token)"))
        #expect(try await refusal(environment.api(), twice).error == "invalid_request")
        for path in ["/orders/1?access_token=a", "/orders/1?b=1&access%5Ftoken=a", "/orders/1?access_token"] {
            let request = ResourceServerEnvironment.request("Bearer \(token)", path)
            #expect(try await refusal(environment.api(), request).error == "invalid_request")
        }
    }

    @Test func aTokenInTheQueryIsNotRead() async throws {
        let environment = try ResourceServerEnvironment()
        let request = ResourceServerEnvironment.request(nil, "/orders/1?access_token=\(try environment.token())")
        let rejection = try await refusal(environment.api(), request)
        #expect(rejection.response.status == 401)
        #expect(rejection.error == nil)
    }

    @Test(arguments: ["bearer", "BEARER", "Bearer "]) func theAuthorizationSchemeIsCaseInsensitive(_ scheme: String)
        async throws
    {
        let environment = try ResourceServerEnvironment()
        _ = try await environment.api().authorize(
            ResourceServerEnvironment.request("\(scheme) \(try environment.token())")
        )
    }

    @Test func aTokenWithTooFewScopesReceivesAnInsufficientScopeChallenge() async throws {
        let environment = try ResourceServerEnvironment()
        let rejection = try await refusal(
            environment.api(),
            ResourceServerEnvironment.request("Bearer \(try environment.token { $0["scope"] = "orders:readonly" })"),
            requiring: ["orders:read", "orders:delete"]
        )
        #expect(rejection.response.status == 403)
        let challenge = AuthenticationChallenge.challenges(in: rejection.response.head.headerFields)[0]
        #expect(challenge.parameters["error"] == "insufficient_scope")
        #expect(challenge.parameters["scope"] == "orders:read orders:delete")
    }

    static let weak: [Case<Change>] = [
        Case("no acr") { $0["auth_time"] = 1_800_000_000 },
        Case("another acr") { ($0["acr"], $0["auth_time"]) = ("pwd", 1_800_000_000) },
        Case("no time") { $0["acr"] = "mfa" },
        Case("long ago") { ($0["acr"], $0["auth_time"]) = ("mfa", 1_799_990_000) },
    ]

    @Test(arguments: weak) func aWeakAuthenticationReceivesAStepUpChallenge(_ claims: Case<Change>) async throws {
        let environment = try ResourceServerEnvironment()
        let requirement = Requirement(scopes: [], acrValues: ["mfa", "hwk"], maximumAge: .seconds(300))
        let rejection = try await refusal(
            environment.api(),
            ResourceServerEnvironment.request("Bearer \(try environment.token(claims.value))"),
            requiring: requirement
        )
        #expect(rejection.response.status == 401)
        let challenge = AuthenticationChallenge.challenges(in: rejection.response.head.headerFields)[0]
        #expect(challenge.parameters["error"] == "insufficient_user_authentication")
        #expect(challenge.parameters["acr_values"] == "mfa hwk")
        #expect(challenge.parameters["max_age"] == "300")
        let strong = try environment.token { ($0["acr"], $0["auth_time"]) = ("hwk", 1_799_999_990) }
        _ = try await environment.api().authorize(
            ResourceServerEnvironment.request("Bearer \(strong)"),
            requiring: requirement
        )
    }

    @Test func theResponseDoesNotRevealTheRejectionReason() async throws {
        let environment = try ResourceServerEnvironment()
        let token = try environment.token { $0["exp"] = 1_700_000_000 }
        let rejection = try await refusal(environment.api(), ResourceServerEnvironment.request("Bearer \(token)"))
        let text = String(decoding: rejection.response.body, as: UTF8.self) + "\(rejection.response.head.headerFields)"
        #expect(!text.contains("expired"))
        #expect(!text.contains(token))
        #expect(rejection.reason.contains("expired"))
        #expect(!rejection.reason.contains(token))
    }

    /// If a byte is changed, the payload is usually no longer valid JSON.
    @Test func theReasonDistinguishesADamagedJWTFromAnOpaqueToken() async throws {
        let environment = try ResourceServerEnvironment()
        let parts = try environment.token().split(separator: ".")
        let cases = [
            "\(parts[0]).AAAA.\(parts[2])": "it is a malformed JWT",
            "opaque": "it is not a JWT, and introspection is not configured",
        ]
        for (token, reason) in cases {
            let rejection = try await refusal(environment.api(), ResourceServerEnvironment.request("Bearer \(token)"))
            #expect(rejection.reason.contains(reason))
        }
    }

    @Test func aHEADRequestReceivesAResponseWithoutContent() async throws {
        let environment = try ResourceServerEnvironment()
        let rejection = try await refusal(
            environment.api(),
            ResourceServerEnvironment.request("Bearer x", method: .head)
        )
        #expect(rejection.response.body.isEmpty)
    }

    @Test func anAuthorizedHEADRequestReceivesAResponseWithoutContentFromANestedRoute() async throws {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api()
        let request = ResourceServerEnvironment.request("Bearer \(try environment.token())", method: .head)
        let authorization = try await api.authorize(request)
        let rejection = #expect(throws: Rejection.self) { try api.isAuthorized(authorization, requiring: ["admin"]) }
        #expect(rejection?.response.body.isEmpty == true)
    }

    @Test func anAuthorizationIsDescribedInOneLine() async throws {
        let environment = try ResourceServerEnvironment()
        let token = try environment.token { $0["sub"] = "alice\nERROR: nothing" }
        let authorization = try await environment.api().authorize(ResourceServerEnvironment.request("Bearer \(token)"))
        #expect(!authorization.description.contains("\n"))
    }

    @Test func theMetadataIsServedAtTheWellKnownPath() throws {
        let environment = try ResourceServerEnvironment()
        let api = try environment.api { $0.supportedScopes = ["orders:read"] }
        let path = "/.well-known/oauth-protected-resource/orders"
        let response = try #require(api.metadataResponse(to: ResourceServerEnvironment.request(nil, path)))
        let json = try JSON(parsing: response.body)
        #expect(json["resource"]?.string == ResourceServerEnvironment.resource)
        #expect(json["authorization_servers"]?.strings == [ResourceServerEnvironment.issuer])
        #expect(json["bearer_methods_supported"]?.strings == ["header"])
        #expect(json["scopes_supported"]?.strings == ["orders:read"])
        #expect(response.head.headerFields[.accessControlAllowOrigin] == "*")
        #expect(api.metadataResponse(to: ResourceServerEnvironment.request(nil, path + "/more")) == nil)
        #expect(api.metadataResponse(to: ResourceServerEnvironment.request(nil, "/orders")) == nil)
        #expect(api.metadataResponse(to: ResourceServerEnvironment.request(nil, path, method: .post))?.status == 405)
    }

    /// RFC 9728 section 2: a client with a certificate can otherwise not find out that the API accepts tokens that are bound to it.
    @Test(arguments: [
        (RequiredBinding.asIssued, false, false), (.asIssued, true, true), (.dpop, false, false),
        (.certificate, false, true), (.dpopOrCertificate, false, true),
    ])
    func theMetadataIndicatesSupportForCertificateBoundTokens(
        _ binding: RequiredBinding,
        _ hasField: Bool,
        _ isSupported: Bool
    ) throws {
        let api = try ResourceServerEnvironment().api {
            $0.binding = binding
            $0.certificateField = hasField ? ClientCertificateField.clientCert : nil
        }
        // RFC 9728 section 2: an absent member has the value false.
        #expect((api.metadata["tls_client_certificate_bound_access_tokens"]?.bool ?? false) == isSupported)
        #expect((api.metadata["dpop_bound_access_tokens_required"]?.bool ?? false) == (binding == .dpop))
    }

    /// A client would obtain a token that is bound only to its DPoP key, which the API rejects.
    @Test(
        "An API that requires certificate-bound tokens does not advertise DPoP",
        arguments: [
            (RequiredBinding.asIssued, ["bearer", "dpop"]), (.dpop, ["dpop"]), (.certificate, ["bearer"]),
            (.dpopOrCertificate, ["bearer", "dpop"]),
        ]
    )
    func advertisesOnlyUsableBindings(_ binding: RequiredBinding, _ schemes: [String]) async throws {
        let api = try ResourceServerEnvironment().api { $0.binding = binding }
        let isAdvertised = api.metadata["dpop_signing_alg_values_supported"] != nil
        #expect(isAdvertised == schemes.contains("dpop"))
        let rejection = await #expect(throws: Rejection.self) {
            try await api.authorize(ResourceServerEnvironment.request(nil))
        }
        let fields = try #require(rejection?.response.head.headerFields)
        #expect(AuthenticationChallenge.challenges(in: fields).map(\.scheme) == schemes)
    }

    @Test func rejectsMissingOrAmbiguousTrustedIssuers() throws {
        let environment = try ResourceServerEnvironment()
        let (one, two) = (environment.server, AuthorizationServer(issuer: "https://two.example.com"))
        let both = [
            TrustedIssuer(one, introspector: try environment.introspector(one)),
            TrustedIssuer(two, introspector: try environment.introspector(two)),
        ]
        // The second issuer is a tenant of the first, so it would be ambiguous which issuer's rules apply.
        let tenants = try TokenIssuerTemplate("https://two.example.com/{t}/v2", claim: "t", tenants: ["a"])
        let tenant = AuthorizationServer(issuer: "https://two.example.com/a/v2")
        let overlapping = [TrustedIssuer(two, tenants: tenants), TrustedIssuer(tenant)]
        let same = try TokenIssuerTemplate("https://two.example.com/{tenant}/v2", claim: "tenant")
        let overlappingTemplates = [TrustedIssuer(one, tenants: tenants), TrustedIssuer(two, tenants: same)]
        let cases: [(issuers: [TrustedIssuer], reason: String)] = [
            ([], "needs at least one issuer"), (both, "Only one issuer can have an introspector"),
            (overlapping, "also a tenant of another issuer"), (overlappingTemplates, "also a tenant of another issuer"),
            ([TrustedIssuer(one), TrustedIssuer(one)], "lists an issuer more than once"),
            ([TrustedIssuer(one, introspectsJWTs: true)], "enabled for an issuer with no introspector"),
        ]
        for (issuers, reason) in cases {
            let error = #expect(throws: AuthError.self) {
                _ = try ResourceServer(ResourceServerEnvironment.resource, issuers: issuers)
            }
            #expect(error?.code == .invalidConfiguration)
            #expect(error?.message.contains(reason) == true, "\(error as Any)")
        }
        expectError(.invalidConfiguration) {
            _ = try ResourceServer("http://api.example.com", issuers: [TrustedIssuer(one)])
        }
        // Templates without a common issuer are not ambiguous.
        let other = try TokenIssuerTemplate("https://one.example.com/{t}/v2", claim: "t")
        let separate = [TrustedIssuer(one, tenants: other), TrustedIssuer(two, tenants: tenants)]
        _ = try ResourceServer(ResourceServerEnvironment.resource, issuers: separate)
    }

    @Test(
        "Rules for DPoP proofs that no client can meet are rejected",
        arguments: [
            ([SignatureAlgorithm.hs256, .es256], RequiredBinding.asIssued, true, true), ([], .asIssued, true, true),
            ([.es256], .dpop, false, true), ([], .asIssued, false, false), ([.es256], .dpop, true, false),
        ] as [([SignatureAlgorithm], RequiredBinding, Bool, Bool)]
    )
    func rejectsRulesForProofsThatNoClientCanMeet(
        _ algorithms: [SignatureAlgorithm],
        _ binding: RequiredBinding,
        _ isAccepted: Bool,
        _ isRejected: Bool
    ) throws {
        var rules = ResourceServerRules()
        (rules.dpop.algorithms, rules.dpop.isAccepted, rules.binding) = (algorithms, isAccepted, binding)
        let issuers = [TrustedIssuer(try ResourceServerEnvironment().server)]
        do throws(AuthError) {
            _ = try ResourceServer(ResourceServerEnvironment.resource, issuers: issuers, rules: rules)
            #expect(!isRejected)
        } catch {
            #expect(isRejected && error.code == .invalidConfiguration)
        }
    }

    @Test func anObserverReceivesEachDecision() async throws {
        let environment = try ResourceServerEnvironment()
        let outcomes = Mutex<[String]>([])
        let api = try ResourceServer(
            ResourceServerEnvironment.resource,
            issuers: [TrustedIssuer(environment.server)],
            host: environment.host,
            observer: { decision in outcomes.withLock { $0.append(decision.outcome) } }
        )
        let token = try environment.token()
        _ = try await api.authorize(ResourceServerEnvironment.request("Bearer \(token)"))
        for (authorization, requirement) in [
            (nil, []), ("Bearer x.y.z", []), ("Bearer \(token)", ["admin"]), ("Bearer", []),
        ] as [(String?, Requirement)] {
            _ = try? await api.authorize(ResourceServerEnvironment.request(authorization), requiring: requirement)
        }
        environment.provider.takeDown()
        environment.advance(100_000)
        _ = try? await api.authorize(ResourceServerEnvironment.request("Bearer \(try environment.token())"))
        #expect(
            outcomes.withLock { $0 } == [
                "authorized", "unauthenticated", "invalid_token", "insufficient_scope", "invalid_request",
                "temporarily_unavailable",
            ]
        )
    }
}
