import AuthFlow
import AuthFlowForgeRock
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Trees selected by `acr_values`, and realm URLs.
@Suite struct ACRTests {
    @Test func requestsATreeByItsACRValue() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let tokens = try await environment.client(acrValues: ["unmapped", "basic"]).signIn().credential.tokens
            #expect(tokens.verifiedIDToken?.claims["acr"] == "basic")
            // Only the authorization request contains the values.
            let request = try #require(environment.emulator.oauth.receivedRequests.last { $0.path.hasSuffix("/token") })
            #expect(request.form["acr_values"] == nil)
        }
    }

    @Test(
        arguments: [
            ([], false, nil, false), ([], true, nil, false),
            (["basic", "other"], false, "basic other", false), (["basic", "other"], true, nil, true),
        ] as [([String], Bool, String?, Bool)]
    ) func requestsTheACRAsAnEssentialClaimOnlyIfItIsRequired(
        _ acrValues: [String],
        _ requiresACR: Bool,
        _ parameter: String?,
        _ hasClaim: Bool
    ) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let client = try environment.client(acrValues: acrValues, requiresACR: requiresACR)
            let request = try await client.client.authorizationRequest()
            let query = FormURLEncoding.decode(request.url.drop { $0 != "?" }.dropFirst())
            #expect(query?["acr_values"] == parameter)
            #expect((query?["claims"] != nil) == hasClaim)
        }
    }

    /// The configured values are "basic" and "mfa".
    @Test(
        arguments: [
            (["mfa"], nil, ["mfa"]), (["other", "mfa"], nil, ["mfa"]), (["other"], nil, ["basic", "mfa"]),
            ([], ["essential": true, "values": ["mfa"]], ["mfa"]), ([], ["essential": true], ["basic", "mfa"]),
            ([], ["values": ["mfa"]], ["basic", "mfa"]),
        ] as [([String], JSON?, [String])]
    ) func aStepUpRequiresItsOwnACRValues(_ acrValues: [String], _ claim: JSON?, _ required: [String]) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let client = try environment.client(acrValues: ["basic", "mfa"], requiresACR: true)
            var options = AuthorizationOptions()
            options.acrValues = acrValues
            options.claims = claim.map { ["id_token": ["acr": $0]] }
            let request = try await client.client.authorizationRequest(options)
            let query = FormURLEncoding.decode(request.url.drop { $0 != "?" }.dropFirst())
            let claims = try JSON(parsing: Array((query?["claims"] ?? "").utf8))
            #expect(claims["id_token"]?["acr"]?["values"]?.strings == required)
            #expect(claims["id_token"]?["acr"]?["essential"] == true)
        }
    }

    /// A customized sign-in URL can name the tree with the parameters of the REST API instead of `service`.
    @Test func walksTheTreeNamedInTheLongerFormOfTheSignInURL() async throws {
        struct CustomSignInPage: HTTPTransport {
            let base: any HTTPTransport
            func send(_ call: TransportRequest) async throws -> TransportResponse {
                var response = try await base.send(call)
                guard let location = response.head.headerFields[.location] else { return response }
                response.head.headerFields[.location] = location.replacing(
                    "service=",
                    with: "authIndexType=service&authIndexValue="
                )
                return response
            }
        }
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let transport = CustomSignInPage(base: environment.transport)
            let client = try environment.client(
                acrValues: ["persistent-cookie"],
                requiresACR: true,
                transport: transport
            )
            let signIn = try await client.signIn()
            #expect(signIn.credential.tokens.verifiedIDToken?.claims["acr"] == "persistent-cookie")
        }
    }

    @Test func rejectsASignInWithoutTheRequiredACR() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let good = try await environment.client(acrValues: ["persistent-cookie"], requiresACR: true).signIn()
            #expect(good.credential.tokens.verifiedIDToken?.claims["acr"] == "persistent-cookie")
            // A server that ignores the requested acr.
            environment.emulator.oauth.fault = .idToken(.claim("acr", "0"))
            let client = try environment.client(acrValues: ["persistent-cookie"], requiresACR: true)
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .insufficientUserAuthentication)
            #expect(try await client.credential() == nil)
        }
    }

    /// The claim restricts the configured values and does not replace them.
    @Test func anEssentialACRClaimInARequestDoesNotPermitOtherValues() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let client = try environment.client(acrValues: ["basic"], requiresACR: true)
            var options = AuthorizationOptions()
            options.claims = ["id_token": ["acr": ["essential": true, "values": ["persistent-cookie"]]]]
            await expectError(.insufficientUserAuthentication) { [options] in
                try await client.signIn(options: options)
            }
        }
    }

    /// OpenID Connect Core section 12.2 does not require `acr` in a refreshed ID Token.
    @Test(arguments: [("another acr", JSON.string("0"), false), ("a null acr", .null, true), ("no acr", nil, true)])
    func aRefreshedIDTokenMustNotHaveAnotherACR(_ name: String, _ acr: JSON?, _ isAccepted: Bool) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let client = try environment.client(
                acrValues: ["persistent-cookie"],
                requiresACR: true,
                scopes: ["openid", "offline_access"]
            )
            _ = try await client.signIn()
            environment.emulator.oauth.fault = .idToken(.claim("acr", acr))
            do {
                _ = try await client.refresh()
                #expect(isAccepted)
            } catch {
                #expect(!isAccepted && (error as? AuthError)?.code == .insufficientUserAuthentication, "\(error)")
            }
        }
    }

    @Test(arguments: [
        (JSON.integer(5), true), (.integer(6), true), (.integer(4), false), (.string("9"), false), (.null, false),
    ]) func rejectsAnAuthLevelBelowTheMinimum(_ level: JSON, _ isEnough: Bool) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let payload = Base64URL.encode(try JSON.object(["auth_level": level]).serialized())
            let realm = try ForgeRockRealm(baseURL: environment.emulator.baseURL, path: "/alpha")
            let provider = ForgeRockProvider(realm: realm, minimumAuthLevel: 5)
            let context = try environment.client().providerContext
            for token in ["e30.\(payload).x"] + (isEnough ? [] : ["opaque", "a.b.c"]) {
                let credential = Credential(
                    tokens: TokenSet(accessToken: Secret(token)),
                    identity: Identity(issuer: "i", subject: "s"),
                    signedInAt: Date()
                )
                if isEnough {
                    try await provider.check(credential, replacing: nil, in: context)
                } else {
                    let error = await #expect(throws: AuthError.self) {
                        try await provider.check(credential, replacing: nil, in: context)
                    }
                    #expect(error?.code == .insufficientUserAuthentication)
                }
                // After a refresh, the access token need not contain the claim.
                let isTooLow = !isEnough && level != .null && token.hasPrefix("e30")
                do {
                    try await provider.check(credential, replacing: credential, in: context)
                    #expect(!isTooLow)
                } catch {
                    #expect(isTooLow && (error as? AuthError)?.code == .insufficientUserAuthentication)
                }
            }
        }
    }

    @Test func reportsTheCallbacksOfEachTreeStepWithoutTheirValues() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let events = Mutex<[String]>([])
            _ = try await environment.client { event in events.withLock { $0.append("\(event)") } }.signIn()
            let lines = events.withLock { $0 }
            #expect(lines.contains { $0.contains("tree_step=NameCallback PasswordCallback") })
            #expect(!lines.contains { $0.contains("wonderland") })
        }
    }

    @Test func correctsAWrongRevocationEndpointInTheMetadata() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.hasRevokeQuirk = true
            let client = try environment.client()
            _ = try await client.signIn()
            guard case .done = try await client.signOut().revocation else {
                Issue.record("The tokens were not revoked.")
                return
            }
        }
    }

    @Test(arguments: [
        ("/", "https://a.example.com/am/oauth2/realms/root"),
        ("/alpha", "https://a.example.com/am/oauth2/realms/root/realms/alpha"),
        ("alpha/sales", "https://a.example.com/am/oauth2/realms/root/realms/alpha/realms/sales"),
    ]) func derivesTheIssuerFromTheRealm(_ path: String, _ issuer: String) async throws {
        let realm = try ForgeRockRealm(baseURL: "https://a.example.com/am/", path: path)
        let asked = Mutex<[String]>([])
        let transport = InProcessTransport(origin: "https://a.example.com") { request, _ in
            asked.withLock { $0.append(request.path ?? "") }
            return TransportResponse(head: HTTPResponse(status: .notFound))
        }
        let client = AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(ForgeRockProvider(realm: realm), transport: transport),
                registration: try ClientRegistration(clientID: "c")
            ),
            methods: [.userAgent(HeadlessUserAgent(driver: TreeDriver(realm: realm, handlers: [])))]
        )
        await expectError(.discoveryFailed) { try await client.metadata() }
        #expect(
            asked.withLock { $0 } == [
                "\(issuer.dropFirst("https://a.example.com".count))/.well-known/openid-configuration"
            ]
        )
    }

    @Test(arguments: ["/..", "/a?b", "/a b", "/a#b", "/a%2fb"]) func rejectsInvalidRealmPaths(_ path: String) {
        expectError(.invalidConfiguration) { try ForgeRockRealm(baseURL: "https://a.example.com/am", path: path) }
    }

    /// The paths of the realm's endpoints are appended to the base URL.
    @Test func rejectsABaseURLWithAQuery() {
        let error = #expect(throws: AuthError.self) { try ForgeRockRealm(baseURL: "https://a.example.com/am?x=y") }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains("Use a base URL without a query") == true)
    }

    @Test func acceptsTheIssuerOfAnOlderServerWhenConfigured() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let other = "https://id.example.com/am/oauth2"
            environment.emulator.oauth.fault = .metadata(.member("issuer", .string(other)))
            let realm = try ForgeRockRealm(baseURL: environment.emulator.baseURL, path: "/alpha")
            func client(_ issuer: String?) throws -> AuthClient {
                AuthClient(
                    client: OAuthClient(
                        server: AuthorizationServer(
                            ForgeRockProvider(realm: realm, issuer: issuer),
                            transport: environment.transport
                        ),
                        registration: try ClientRegistration(clientID: "authflow-demo")
                    ),
                    methods: [.userAgent(HeadlessUserAgent(driver: TreeDriver(realm: realm, handlers: [])))]
                )
            }
            #expect(try await client(other).metadata().issuer == other)
            let error = await #expect(throws: AuthError.self) { try await client(nil).metadata() }
            #expect(error?.code == .issuerMismatch)
        }
    }
}
