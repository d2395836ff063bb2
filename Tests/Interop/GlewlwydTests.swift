import AuthFlow
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowOIDC
import Foundation
import Testing

/// Sign-in at a third-party provider. Run by `Tests/Interop/glewlwyd.sh`, which starts the provider.
///
/// Every test that signs in at Glewlwyd is in this serialized suite, because with SQLite, concurrent writes read
/// each other's last inserted row ID, and fail with status 500.
@Suite(.serialized, .enabled(if: ProcessInfo.processInfo.environment["AUTHFLOW_GLEWLWYD_ISSUER"] != nil))
struct GlewlwydTests {
    private let environment = ProcessInfo.processInfo.environment

    func client(
        hasSecret: Bool = false,
        password: String = "wonderland",
        scopes: String = #"["openid", "profile", "email"]"#,
        flows: [SignInFlow]? = nil,
        dpop: Bool = false,
        responseMode: ResponseMode = .query
    ) throws
        -> AuthClient
    {
        let issuer = try #require(environment["AUTHFLOW_GLEWLWYD_ISSUER"])
        let redirectURI = try #require(environment["AUTHFLOW_GLEWLWYD_REDIRECT"])
        let configuration = """
            {
              "profiles": {
                "glewlwyd": {
                  "provider": "oidc",
                  "issuer": "\(issuer)",
                  \(hasSecret ? #""client_secret": {"env": "SECRET"},"# : "")
                  "client_id": "authflow-interop\(hasSecret ? "-confidential" : "")",
                  "redirect_uri": "\(redirectURI)",
                  "post_logout_redirect_uri": "\(redirectURI)",
                  "scopes": \(scopes),
                  "dpop": \(dpop),
                  "response_mode": "\(responseMode.rawValue)",
                  "user_agent": {
                    "name": "glewlwyd", "username": "alice", "password": {"env": "PASSWORD"}, "origin": "\(issuer)"
                  },
                  "store": "memory"
                }
              }
            }
            """
        return try AuthClient(
            profile: try ConfigurationFile(text: Array(configuration.utf8)).profile(),
            providers: [.oidc],
            userAgents: [.glewlwyd],
            devicePresenter: HeadlessDevicePresenter(
                driver: GlewlwydLoginDriver(
                    username: "alice",
                    password: Secret(password),
                    origin: try Endpoint(issuer).origin
                )
            ),
            overrides: .init(flows: flows),
            host: HostServices(environment: ["PASSWORD": password, "SECRET": "interop-secret-of-some-length"])
        )
    }

    @Test func signsInReadsUserInfoAndSignsOut() async throws {
        let client = try client()
        let credential = try await client.signIn().credential
        #expect(credential.identity?.displayName == "Alice Example")
        #expect(credential.identity?.claims["email"] == "alice@example.com")
        #expect(credential.tokens.verifiedIDToken?.header.algorithm == .rs256)
        #expect(credential.tokens.tokenType == "bearer")
        let userInfo = try await client.userInfo()
        #expect(userInfo["sub"]?.string == credential.identity?.subject)
        #expect(try await client.signOutLocally())
        let error = await #expect(throws: AuthError.self) { try await client.userInfo() }
        #expect(error?.code == .loginRequired)
    }

    @Test func signsInWithTheDeviceGrant() async throws {
        let client = try client(flows: [.device])
        let credential = try await client.signIn().credential
        #expect(credential.identity?.displayName == "Alice Example")
        #expect(try await client.userInfo()["sub"]?.string == credential.identity?.subject)
        #expect(try await client.refresh().tokens.accessToken != credential.tokens.accessToken)
    }

    @Test func signsInWithDPoPBoundTokens() async throws {
        let client = try client(dpop: true)
        let credential = try await client.signIn().credential
        #expect(credential.tokens.tokenType.lowercased() == "dpop")
        #expect(try await client.userInfo()["sub"]?.string == credential.identity?.subject)
        #expect(try await client.refresh().tokens.accessToken != credential.tokens.accessToken)
        #expect(try await client.userInfo()["sub"]?.string == credential.identity?.subject)
    }

    @Test func refreshesRevokesAndEndsTheSession() async throws {
        let client = try client(hasSecret: true)
        let first = try await client.signIn().credential
        let second = try await client.refresh()
        #expect(second.tokens.accessToken != first.tokens.accessToken)
        #expect(try await client.userInfo()["sub"]?.string == first.identity?.subject)
        let signOut = try await client.signOut(endingSession: true)
        guard case .done = signOut.revocation, case .done = signOut.endSession else {
            Issue.record("\(signOut)")
            return
        }
        #expect(try await client.credential() == nil)
    }

    @Test(arguments: [ResponseMode.jwt, .queryJWT]) func signsInWithASignedAuthorizationResponse(_ mode: ResponseMode)
        async throws
    {
        let credential = try await client(responseMode: mode).signIn().credential
        #expect(credential.identity?.displayName == "Alice Example")
    }

    /// A client of an issuer, configured entirely from a file.
    private func client(of issuer: String, _ members: String) throws -> AuthClient {
        let redirectURI = try #require(environment["AUTHFLOW_GLEWLWYD_REDIRECT"])
        let configuration = """
            {"profiles": {"glewlwyd": {
              "provider": "oidc", "issuer": "\(issuer)", "redirect_uri": "\(redirectURI)", "store": "memory",
              "user_agent": {
                "name": "glewlwyd", "username": "alice", "password": {"env": "PASSWORD"}, "origin": "\(issuer)"
              },
              \(members)
            }}}
            """
        return try AuthClient(
            profile: try ConfigurationFile(text: Array(configuration.utf8)).profile(),
            providers: [.oidc],
            userAgents: [.glewlwyd],
            host: HostServices(environment: ["PASSWORD": "wonderland", "SECRET": "interop-secret-of-some-length"])
        )
    }

    /// The provider, which has a different JWE implementation, encrypts ID Tokens for the client.
    @Test(arguments: ["RSA-OAEP-256", "RSA-OAEP", "ECDH-ES", "ECDH-ES+A128KW", "ECDH-ES+A256KW"])
    func signsInWithEncryptedIDTokens(_ algorithm: String) async throws {
        let issuer = try #require(environment["AUTHFLOW_GLEWLWYD_ISSUER"])
        let keys = try #require(environment["AUTHFLOW_GLEWLWYD_DECRYPTION_KEYS"])
        // The provider's library removes leading zeros from the shared secret, although RFC 7518 section 4.6.2 derives the key from
        // every octet: one in 256 tokens cannot be decrypted.
        for attempt in 1... {
            let client = try client(
                of: issuer,
                """
                "client_id": "authflow-interop-\(algorithm.replacing("+", with: "-"))", "client_secret": {"env": "SECRET"},
                "decryption_key": {"file": "\(keys)", "algorithm": "\(algorithm)"}, "encrypted_responses": ["id_token"],
                "scopes": ["openid", "profile"]
                """
            )
            do {
                let credential = try await client.signIn().credential
                #expect(credential.identity?.displayName == "Alice Example")
                #expect(try await client.refresh().tokens.accessToken != credential.tokens.accessToken)
                return
            } catch let error as AuthError
                where error.message.contains("cannot be decrypted") && algorithm.hasPrefix("ECDH") && attempt < 4
            {
                continue
            }
        }
    }

    /// Mutual TLS: either the provider requests the certificate itself, or a proxy in front of it does.
    @Test(arguments: [
        ("TLS", "tls_client_auth", "tls", "client"), ("HEADER", "tls_client_auth", "tls", "client"),
        ("HEADER", "self_signed_tls_client_auth", "self-signed", "self"),
    ]) func signsInWithACertificate(_ place: String, _ method: String, _ name: String, _ file: String) async throws {
        let folder = try #require(environment["AUTHFLOW_GLEWLWYD_CERTIFICATES"])
        let client = try client(
            of: try #require(environment["AUTHFLOW_GLEWLWYD_\(place)_ISSUER"]),
            """
            "client_id": "authflow-interop-\(name)", "client_authentication": "\(method)", "ca_file": "\(folder)/ca.pem",
            "client_certificate": {"certificate": "\(folder)/\(file).pem", "key": "\(folder)/\(file).key"},
            "scopes": ["openid", "profile"]
            """
        )
        let tokens = try await client.signIn().credential.tokens
        // RFC 8705 section 3.1: the token's `cnf` claim contains the certificate's thumbprint, which the client has
        // already verified.
        let claims = try JWT.payload(of: tokens.accessToken)
        #expect(claims["cnf"]?["x5t#S256"]?.string?.utf8.count == 43)
        #expect(try await client.refresh().tokens.accessToken != tokens.accessToken)
    }

    /// A client of the strict issuer. This provider accepts only the endpoint's URL as the audience of an assertion.
    private func strictClient(_ members: String) throws -> AuthClient {
        let issuer = try #require(environment["AUTHFLOW_GLEWLWYD_ISSUER"]).replacing("/api/oidc", with: "/api/fapi")
        let key = try #require(environment["AUTHFLOW_GLEWLWYD_KEY"])
        return try client(
            of: issuer,
            """
            "client_id": "authflow-interop-key", "client_key": "\(key)", "client_assertion_audience": "endpoint",
            \(members)
            """
        )
    }

    @Test(arguments: [false, true]) func signsInWithAPushedRequestAPrivateKeyAndDPoPNonces(_ isSigned: Bool)
        async throws
    {
        let members = #""scopes": ["openid", "profile"], "dpop": true, "signed_requests": \#(isSigned)"#
        let client = try strictClient(members)
        let credential = try await client.signIn().credential
        #expect(credential.identity?.displayName == "Alice Example")
        #expect(credential.tokens.tokenType.lowercased() == "dpop")
        #expect(try await client.refresh().tokens.accessToken != credential.tokens.accessToken)
    }

    @Test func obtainsTokensWithClientCredentials() async throws {
        let client = try strictClient(#""flow": "client_credentials", "scopes": ["profile"]"#)
        let tokens = try await client.freshTokens()
        #expect(!tokens.accessToken.exposed.isEmpty && tokens.refreshToken == nil)
        #expect(try await client.freshTokens().accessToken == tokens.accessToken)
    }

    /// The provider uses the scopes of the token as the audience of its signed response.
    @Test func verifiesASignedIntrospectionResponse() async throws {
        let members =
            #""scopes": ["openid", "profile"], "dpop": true, "signed_introspection": {"audience": "openid profile"}"#
        let client = try strictClient(members)
        _ = try await client.signIn()
        #expect(try await client.introspect()["active"] == true)
    }

    @Test func reportsAWrongPassword() async throws {
        let client = try client(password: "looking-glass")
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.code == .accessDenied)
        #expect(error.map { "\($0)" }?.contains("looking-glass") == false)
    }

    @Test func aSignInWithUnknownScopesFails() async throws {
        let client = try client(scopes: #"["unknown"]"#)
        await #expect(throws: AuthError.self) { try await client.signIn() }
    }
}

private enum JWT {
    static func payload(of token: Secret) throws -> JSON {
        let parts = token.exposed.split(separator: ".")
        return try JSON(parsing: try #require(parts.count == 3 ? Base64URL.decode(parts[1]) : nil))
    }
}
