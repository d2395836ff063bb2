import AuthFlow
import AuthFlowEssentials
import AuthFlowJSON
import AuthFlowResourceServer
import Foundation
import HTTPTypes
import Testing

extension GlewlwydTests {
    /// An API that receives Glewlwyd's access tokens. Run by `Tests/Interop/glewlwyd.sh`, which starts Glewlwyd.
    @Suite struct API {
        /// Glewlwyd uses the scopes of a token as its audience if the client requests no resource.
        private static let audience = "openid profile email"

        private func api(
            audience: String = audience,
            introspectsJWTs: Bool = false,
            isSigned: Bool = false,
            _ change: (inout ResourceServerRules) -> Void = { _ in }
        ) throws -> ResourceServer {
            let issuer = try #require(ProcessInfo.processInfo.environment["AUTHFLOW_GLEWLWYD_ISSUER"])
            let server = AuthorizationServer(issuer: issuer)
            let introspector = OAuthClient(
                server: server,
                registration: try ClientRegistration(clientID: "authflow-interop-confidential") {
                    $0.authentication = .clientSecretBasic(Secret("interop-secret-of-some-length"))
                    if isSigned { $0.signedIntrospection = SignedIntrospection(audience: audience) }
                }
            )
            var rules = ResourceServerRules()
            change(&rules)
            return try ResourceServer(
                "https://api.example.com",
                issuers: [
                    TrustedIssuer(
                        server,
                        audiences: [audience],
                        introspector: introspectsJWTs ? introspector : nil,
                        introspectsJWTs: introspectsJWTs
                    )
                ],
                rules: rules
            )
        }

        private func request(_ authorization: String) -> HTTPRequest {
            var request = HTTPRequest(method: .get, scheme: "https", authority: "api.example.com", path: "/")
            request.headerFields[.authorization] = authorization
            return request
        }

        @Test func acceptsAGlewlwydAccessTokenAndRejectsTamperedVariants() async throws {
            let credential = try await GlewlwydTests().client(hasSecret: true).signIn().credential
            let token = credential.tokens.accessToken.exposed
            let authorization = try await api().authorize(request("Bearer \(token)"), requiring: ["profile"])
            #expect(authorization.subject == credential.identity?.subject)
            #expect(authorization.clientID == "authflow-interop-confidential")

            let parts = token.split(separator: ".").map(String.init)
            var claims = try JSON(parsing: Base64URL.decode(parts[1]) ?? []).object ?? [:]
            claims["scope"] = "openid profile email admin"
            let changed = Base64URL.encode(try JSON.object(claims).serialized())
            let idToken = try #require(credential.tokens.idToken?.exposed)
            for (forged, name) in [
                ("\(parts[0]).\(changed).\(parts[2])", "changed claims"),
                ("\(parts[0]).\(parts[1]).\(parts[2].dropLast(8))AAAAAAAA", "changed signature"),
                ("\(Base64URL.encode(#"{"alg":"none","typ":"at+jwt"}"#.utf8)).\(parts[1]).", "no signature"),
                (idToken, "the ID Token"),
            ] {
                let rejection = await #expect(throws: Rejection.self, "\(name)") {
                    _ = try await api().authorize(request("Bearer \(forged)"))
                }
                #expect(rejection?.response.status == 401, "\(name)")
            }
            await #expect(throws: Rejection.self) {
                _ = try await api(audience: "openid").authorize(request("Bearer \(token)"))
            }
            let rejection = await #expect(throws: Rejection.self) {
                _ = try await api().authorize(request("Bearer \(token)"), requiring: ["admin"])
            }
            #expect(rejection?.response.status == 403)
        }

        /// Introspection with plain responses (RFC 7662) and with JWT responses that Glewlwyd signs (RFC 9701).
        @Test(arguments: [false, true]) func aRevokedTokenIsRejectedAfterIntrospection(isSigned: Bool)
            async throws
        {
            let client = try GlewlwydTests().client(hasSecret: true)
            let credential = try await client.signIn().credential
            let token = credential.tokens.accessToken
            let api = try api(introspectsJWTs: true, isSigned: isSigned) { $0.introspectionCacheTime = .zero }
            _ = try await api.authorize(request("Bearer \(token.exposed)"))
            try await client.client.revoke(credential)
            let rejection = await #expect(throws: Rejection.self) {
                _ = try await api.authorize(request("Bearer \(token.exposed)"))
            }
            // For a revoked token, Glewlwyd 2.7.5 responds with status 400 instead of a JWT with "active": false.
            #expect(rejection?.response.status == (isSigned ? 503 : 401))
            #expect(rejection?.reason.contains(isSigned ? "(status 400)" : "did not report it as active") == true)
        }

        @Test func aDPoPBoundTokenIsRejectedWithoutAProof() async throws {
            let token = try await GlewlwydTests().client(dpop: true).signIn().credential.tokens.accessToken.exposed
            for scheme in ["Bearer", "DPoP"] {
                await #expect(throws: Rejection.self) { _ = try await api().authorize(request("\(scheme) \(token)")) }
            }
        }
    }
}
