import AuthFlow
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowPresets
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// A server like Mastodon's: OAuth 2.0 with authorization server metadata (RFC 8414), no OpenID
/// Connect, and the userinfo endpoint below /oauth.
private struct PlainServer: ProviderEmulator {
    let base: OIDCEmulator
    var origins: [String] { base.origins }

    func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        var request = request
        switch request.path {
        case "/.well-known/openid-configuration": return TransportResponse(head: HTTPResponse(status: .notFound))
        case "/.well-known/oauth-authorization-server": request.path = "/.well-known/openid-configuration"
        case "/oauth/userinfo": request.path = "/userinfo"
        default: break
        }
        return await base.handle(request, body: body)
    }
}

/// A multi-tenant server that assigns each of its keys to one issuer.
private struct KeyIssuerServer: ProviderEmulator {
    let base: OIDCEmulator
    let keyIssuer: String
    var origins: [String] { base.origins }

    func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        var response = await base.handle(request, body: body)
        guard request.path?.hasSuffix("/jwks") == true, let keys = try? JSON(parsing: response.body)["keys"]?.array
        else {
            return response
        }
        let owned = keys.map { JSON.object(($0.object ?? [:]).merging(["issuer": .string(keyIssuer)]) { $1 }) }
        response.body = (try? JSON.object(["keys": .array(owned)]).serialized()) ?? []
        return response
    }
}

/// The presets as data, with an emulator at each provider's URL. The presets have not been tested against the actual
/// services.
@Suite struct PresetTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let preset: ProviderPreset
        var values: [String: String] = [:]
        let issuer: String
        /// Additional members of the profile.
        var members = ""
        var testDescription: String { "\(preset.name) \(values)" }
    }

    static let cases: [Case] = [
        Case(
            preset: .amazonCognito,
            values: ["region": "eu-central-1", "pool": "eu-central-1_AbCdEfGhI"],
            issuer: "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_AbCdEfGhI"
        ),
        Case(preset: .apple, issuer: "https://appleid.apple.com", members: #""client_secret": {"env": "SECRET"},"#),
        Case(preset: .auth0, values: ["domain": "example.eu.auth0.com"], issuer: "https://example.eu.auth0.com/"),
        Case(
            preset: .cloudentity,
            values: ["tenant": "acme", "workspace": "demo"],
            issuer: "https://acme.eu.authz.cloudentity.io/acme/demo"
        ),
        Case(preset: .gitLab, issuer: "https://gitlab.com"),
        Case(preset: .gitLab, values: ["host": "git.example.com:8443"], issuer: "https://git.example.com:8443"),
        Case(preset: .google, issuer: "https://accounts.google.com"),
        Case(preset: .huggingFace, issuer: "https://huggingface.co"),
        Case(
            preset: .keycloak,
            values: ["url": "https://id.example.com/auth", "realm": "staff"],
            issuer: "https://id.example.com/auth/realms/staff"
        ),
        Case(preset: .mastodon, values: ["host": "mastodon.example"], issuer: "https://mastodon.example/"),
        Case(
            preset: .microsoftEntra,
            values: ["tenant": tenant],
            issuer: "https://login.microsoftonline.com/\(tenant)/v2.0"
        ),
        Case(preset: .microsoftEntraMultitenant, issuer: "https://login.microsoftonline.com/organizations/v2.0"),
        Case(
            preset: .pingOne,
            values: ["environment": tenant, "region": "auth.pingone.eu"],
            issuer: "https://auth.pingone.eu/\(tenant)/as"
        ),
    ]

    private static let tenant = "8eaef023-2b34-4da1-9baa-8bc8c9d6a490"

    private func text(_ preset: ProviderPreset, _ values: [String: String], _ members: String = "") throws -> [UInt8] {
        var choice = values.mapValues(JSON.string)
        choice["name"] = .string(preset.name)
        let shown = String(decoding: try JSON.object(choice).serialized(), as: UTF8.self)
        return Array(
            """
            {"profiles": {"work": {
              "preset": \(values.isEmpty ? "\"\(preset.name)\"" : shown), "client_id": "authflow-demo", \(members)
              "user_agent": {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": ["https://\(Self.host)"]},
              "store": "memory"
            }}}
            """.utf8
        )
    }

    /// The placeholder for the origin of each case.
    private static let host = "origin.invalid"

    private func client(
        _ item: Case,
        _ emulator: OIDCEmulator,
        members: String = "",
        server: (any ProviderEmulator)? = nil
    ) throws -> AuthClient {
        let text = String(decoding: try text(item.preset, item.values, item.members + members), as: UTF8.self)
            .replacing("https://\(Self.host)", with: try Endpoint(item.issuer).origin)
        let plain: any ProviderEmulator = item.preset.name == "mastodon" ? PlainServer(base: emulator) : emulator
        let transport = InProcessTransport(server ?? plain)
        return try AuthClient(
            profile: try ConfigurationFile(text: Array(text.utf8), presets: ProviderPreset.all).profile(),
            providers: [.oidc],
            userAgents: [.headless(transport: transport)],
            transport: transport,
            host: HostServices(environment: ["PASSWORD": "wonderland", "SECRET": "a JWT of the team's"])
        )
    }

    private func emulator(_ item: Case) throws -> OIDCEmulator {
        let redirectURI = item.preset.members["redirect_uri"]?.string
        let emulator = try OIDCEmulator(
            issuer: item.issuer,
            clients: [
                OIDCEmulator.Client(
                    id: "authflow-demo",
                    secret: item.members.isEmpty ? nil : "a JWT of the team's",
                    authenticationMethod: item.members.isEmpty ? "none" : "client_secret_post",
                    redirectURIs: [redirectURI ?? "http://127.0.0.1/callback"]
                )
            ]
        )
        if item.preset.members["token_issuer"] != nil { emulator.tenancy = Self.tenancy }
        return emulator
    }

    private static let tenancy = OIDCEmulator.Tenancy(
        template: "https://login.microsoftonline.com/{tenantid}/v2.0",
        claim: "tid",
        tenant: tenant
    )

    @Test(arguments: cases) func signsInWithAPreset(_ item: Case) async throws {
        let emulator = try emulator(item)
        let client = try client(item, emulator)
        let identity = try #require(try await client.signIn().identity)
        #expect(identity.subject == "248289761001")
        let request = try #require(emulator.receivedRequests.first { $0.path.hasSuffix("/authorize") })
        for (name, value) in item.preset.members["parameters"]?["authorization"]?.object ?? [:] {
            #expect(request.query[name] == value.string)
        }
        #expect(request.query["response_mode"] == item.preset.members["response_mode"]?.string)
    }

    /// `authflow init --client-secret-file` adds the secret to any preset.
    @Test(arguments: cases.filter(\.members.isEmpty)) func aPresetAcceptsAClientSecret(_ item: Case) throws {
        let client = try client(item, try emulator(item), members: #""client_secret": {"env": "SECRET"},"#)
        #expect(client.registration.authentication.method != .none)
    }

    @Test func everyPresetHasATestCaseAndASourceURL() {
        #expect(Set(Self.cases.map(\.preset.name)) == Set(ProviderPreset.all.map(\.name)))
        for preset in ProviderPreset.all {
            #expect(preset.source.hasPrefix("https://") && !preset.registration.isEmpty, "\(preset.name)")
        }
    }

    @Test func profileMembersOverridePresetMembers() throws {
        let text = try text(.gitLab, [:], #""scopes": ["openid", "api"],"#)
        let client = try AuthClient(
            profile: try ConfigurationFile(text: text, presets: ProviderPreset.all).profile(),
            providers: [.oidc],
            userAgents: [.headless],
            host: HostServices(environment: ["PASSWORD": "wonderland"])
        )
        #expect(client.registration.scopes == ["openid", "api"])
    }

    @Test(arguments: [
        ("another server's path", ProviderPreset.keycloak, ["url": "https://id.example.com", "realm": "a/../b"]),
        ("another host", .gitLab, ["host": "git.example.com@evil.example"]),
        ("a path", .gitLab, ["host": "git.example.com/evil"]),
        ("a query", .auth0, ["domain": "example.auth0.com?"]),
        ("no TLS", .keycloak, ["url": "http://id.example.com", "realm": "staff"]),
        ("a parameter in a parameter", .cloudentity, ["tenant": "{workspace}", "workspace": "demo"]),
        ("dots", .microsoftEntra, ["tenant": ".."]), ("nothing", .microsoftEntra, ["tenant": ""]),
        ("a long name", .microsoftEntra, ["tenant": String(repeating: "a", count: 201)]),
        ("a missing value", .auth0, [:]), ("an unknown value", .google, ["tenant": "a"]),
    ]) func anInvalidPresetParameterIsReportedWithItsKeyPath(
        _ name: String,
        _ preset: ProviderPreset,
        _ values: [String: String]
    ) throws {
        let text = try text(preset, values)
        let error = #expect(throws: ConfigurationError.self) {
            try ConfigurationFile(text: text, presets: ProviderPreset.all)
        }
        #expect(error?.issues.first?.keyPath.hasPrefix("profiles.work.preset") == true)
    }

    @Test(arguments: [
        ("5", "", "must be the name of a preset"),
        (#"{"domain": "example.auth0.com"}"#, "", "must be the name of a preset"),
        (#"{"name": 5}"#, "", "must be the name of a preset"),
        (#"{"name": "auth0", "domain": 5}"#, ".domain", "must be a string"),
    ]) func aPresetWhoseNameOrParameterIsNotAStringIsReported(_ choice: String, _ key: String, _ words: String) throws {
        let text = Array(#"{"profiles": {"work": {"preset": \#(choice), "client_id": "a"}}}"#.utf8)
        let error = #expect(throws: ConfigurationError.self) {
            try ConfigurationFile(text: text, presets: ProviderPreset.all)
        }
        #expect(error?.issues.first?.keyPath == "profiles.work.preset\(key)")
        #expect(error?.issues.first?.problem.contains(words) == true, "\(error?.description ?? "")")
    }

    @Test func suggestsTheClosestNameForAnUnknownPreset() throws {
        let text = Array(#"{"profiles": {"work": {"preset": "gogle", "client_id": "a"}}}"#.utf8)
        let error = #expect(throws: ConfigurationError.self) {
            try ConfigurationFile(text: text, presets: ProviderPreset.all)
        }
        #expect(error.map { "\($0)" }?.contains("Did you mean \"google\"?") == true)
    }

    // MARK: A secret that is a JWT

    /// A stand-in for Apple's token endpoint: records the client secrets, and replaces them with the registered secret.
    private struct SecretServer: ProviderEmulator {
        let base: OIDCEmulator
        let seen = Seen()
        var origins: [String] { base.origins }

        final class Seen: Sendable {
            private let secrets = Mutex<[String]>([])
            var all: [String] {
                get { secrets.withLock { $0 } }
                set { secrets.withLock { $0 = newValue } }
            }
        }

        func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
            guard request.path == "/token", var form = FormURLEncoding.decode(String(decoding: body, as: UTF8.self)),
                let secret = form["client_secret"]
            else { return await base.handle(request, body: body) }
            seen.all.append(secret)
            form["client_secret"] = "the registered one"
            return await base.handle(request, body: Array(FormURLEncoding.encodeQuery(form).utf8))
        }
    }

    @Test func signsTheAppleClientSecretForEachTokenRequest() async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("apple-\(UUID().uuidString).p8").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let key = try PrivateKey(generatedFor: .es256)
        _ = FileManager.default.createFile(
            atPath: path,
            contents: Data(key.pem.exposed.utf8),
            attributes: [.posixPermissions: 0o600]
        )
        let item = Case(
            preset: .apple,
            issuer: "https://appleid.apple.com",
            members: #""client_key": {"file": "\#(path)", "kid": "ABC123DEFG"}, "client_secret_issuer": "TEAM123456","#
        )
        let emulator = try OIDCEmulator(
            issuer: item.issuer,
            clients: [
                OIDCEmulator.Client(
                    id: "authflow-demo",
                    secret: "the registered one",
                    authenticationMethod: "client_secret_post",
                    redirectURIs: ["http://127.0.0.1/callback"]
                )
            ]
        )
        let server = SecretServer(base: emulator)
        let client = try client(item, emulator, server: server)
        for _ in 0..<2 { _ = try await client.signIn(.replaceAccount) }
        let secrets = server.seen.all
        #expect(secrets.count == 2)
        for secret in secrets {
            let parts = secret.split(separator: ".")
            let header = try JSON(parsing: Base64URL.decode(String(parts[0])) ?? [])
            let claims = try JSON(parsing: Base64URL.decode(String(parts[1])) ?? [])
            #expect(header["alg"] == "ES256" && header["kid"] == "ABC123DEFG")
            #expect(claims["iss"] == "TEAM123456" && claims["sub"] == "authflow-demo")
            #expect(claims["aud"] == "https://appleid.apple.com")
            let life = try #require(claims["exp"]?.integer) - (try #require(claims["iat"]?.integer))
            // Apple: "must not be greater than 15777000 (6 months in seconds)".
            #expect((1...300).contains(life))
        }
    }

    @Test(arguments: [
        #""client_secret": {"env": "SECRET"}, "client_secret_issuer": "TEAM123456","#,
        #""client_secret_issuer": "TEAM123456","#,
    ]) func aSignedClientSecretRequiresAKeyAndExcludesAStaticSecret(_ members: String) throws {
        let item = Case(preset: .apple, issuer: "https://appleid.apple.com", members: members)
        let error = #expect(throws: ConfigurationError.self) { try client(item, try emulator(item)) }
        #expect(error?.description.contains("client_") == true)
    }

    // MARK: Tokens of several tenants

    private static let multitenant = Case(
        preset: .microsoftEntraMultitenant,
        issuer: "https://login.microsoftonline.com/organizations/v2.0"
    )

    @Test func equalSubjectsInDifferentTenantsAreDifferentUsers() async throws {
        let emulator = try emulator(Self.multitenant)
        let first = try await client(Self.multitenant, emulator).signIn().identity
        emulator.tenancy?.tenant = "82229342-1101-4ab6-817b-70c0747630f3"
        let second = try await client(Self.multitenant, emulator).signIn().identity
        #expect(first?.issuer == "https://login.microsoftonline.com/\(Self.tenant)/v2.0")
        #expect(first?.subject == second?.subject && first != second)
    }

    @Test func anAccountOfAServerWithSeveralTenantsIsNamedByItsIssuerToo() async throws {
        let emulator = try emulator(Self.multitenant)
        let client = try client(Self.multitenant, emulator)
        let user = try #require(try await client.signIn().identity)
        func signIn(_ account: String) async throws {
            _ = try await self.client(Self.multitenant, emulator, members: #""account": "\#(account)","#).signIn()
        }
        await expectError(.accountMismatch) { try await signIn(user.subject) }
        try await signIn("\(user.issuer) \(user.subject)")
        emulator.tenancy?.tenant = "82229342-1101-4ab6-817b-70c0747630f3"
        await expectError(.accountMismatch) { try await signIn("\(user.issuer) \(user.subject)") }
        // Neither of two equal subjects is preferred.
        let other = try #require(try await client.signIn(.addAccount).identity)
        await expectError(.invalidConfiguration) { _ = try await client.freshTokens(account: user.subject) }
        await expectError(.invalidConfiguration) { try await client.selectAccount(user.subject) }
        try await client.selectAccount("\(user.issuer) \(user.subject)")
        #expect(try await client.accounts().map(\.issuer) == [user.issuer, other.issuer])
    }

    @Test(arguments: [
        ("the issuer of another tenant", "tid", "82229342-1101-4ab6-817b-70c0747630f3"),
        ("no tenant", "tid", nil), ("a tenant with a path", "tid", "x/../y"),
        ("the template itself", "iss", "https://login.microsoftonline.com/{tenantid}/v2.0"),
        ("the server", "iss", "https://login.microsoftonline.com/organizations/v2.0"),
    ]) func rejectsAnIDTokenWhoseIssuerDoesNotMatchItsTenant(_ name: String, _ claim: String, _ value: String?)
        async throws
    {
        let emulator = try emulator(Self.multitenant)
        emulator.fault = .idToken(.claim(claim, value.map(JSON.string)))
        let client = try client(Self.multitenant, emulator)
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.code == .invalidIDToken)
    }

    @Test(arguments: [
        ("the template", "https://login.microsoftonline.com/{tenantid}/v2.0", true),
        ("the tenant", "https://login.microsoftonline.com/8eaef023-2b34-4da1-9baa-8bc8c9d6a490/v2.0", true),
        ("another tenant", "https://login.microsoftonline.com/82229342-1101-4ab6-817b-70c0747630f3/v2.0", false),
    ]) func aTenantsSigningKeyIsNotAcceptedForAnotherTenant(_ name: String, _ keyIssuer: String, _ isAccepted: Bool)
        async throws
    {
        let emulator = try emulator(Self.multitenant)
        let server = KeyIssuerServer(base: emulator, keyIssuer: keyIssuer)
        let client = try client(Self.multitenant, emulator, server: server)
        do {
            _ = try await client.signIn()
            #expect(isAccepted)
        } catch let error as AuthError where error.code == .invalidIDToken {
            #expect(!isAccepted)
        }
    }

    @Test func aMultitenantProviderRequiresAnIDToken() async throws {
        let emulator = try emulator(Self.multitenant)
        let client = try client(Self.multitenant, emulator, members: #""scopes": ["profile"],"#)
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.code == .invalidIDToken)
        #expect(throws: ConfigurationError.self) {
            try self.client(Self.multitenant, emulator, members: #""identity": "userinfo","#)
        }
    }

    @Test func anUnlistedTenantIsRejected() async throws {
        let rule =
            #""token_issuer": {"issuer": "https://login.microsoftonline.com/{tenantid}/v2.0", "claim": "tid", "tenants": ["TENANT"]},"#
        for (tenant, isAccepted) in [(Self.tenant, true), ("82229342-1101-4ab6-817b-70c0747630f3", false)] {
            let emulator = try emulator(Self.multitenant)
            let client = try client(Self.multitenant, emulator, members: rule.replacing("TENANT", with: tenant))
            let identity = try? await client.signIn().identity
            #expect((identity != nil) == isAccepted)
        }
    }

    @Test(arguments: [
        "https://{tenant}.example.com/v2.0", "https://login.example.com/v2.0", "{tenant}", "https://a.example/{a}/{b}",
        "http://login.example.com/{tenant}",
    ]) func rejectsInvalidTokenIssuerTemplates(_ text: String) throws {
        expectError(.invalidConfiguration) { try TokenIssuerTemplate(text, claim: "tid") }
    }
}
