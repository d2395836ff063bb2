import AuthFlow
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowServer
import AuthFlowTesting
import Foundation
import HTTPTypes
import Testing

/// A web application with several processes that share a store. The provider's requests go to the first process.
private struct WebApplication: ProviderEmulator {
    let origins: [String]
    let processes: [SessionServer]
    let responses = AsyncStream<Int>.makeStream()

    func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        let response = await processes[0].response(to: request, body: body)
        responses.continuation.yield(response?.status ?? 404)
        return response ?? TransportResponse(head: HTTPResponse(status: .notFound))
    }
}

extension GlewlwydTests {
    /// Logout at a third-party provider.
    @Suite struct Logout {
        private let environment = ProcessInfo.processInfo.environment

        /// A process of the application.
        private func process(_ client: OAuthClient, _ origin: String, _ store: any SessionTokenStore) throws
            -> SessionServer
        {
            var options = SessionServerOptions(origin: origin)
            options.allowsPlainHTTPOnLoopback = true
            // This provider's logout tokens have no "exp".
            options.logoutTokens.maximumAgeWithoutExpiry = .seconds(120)
            return try SessionServer(client: client, store: store, options: options)
        }

        private func visit(
            _ url: String,
            returningTo redirectURI: String,
            _ issuer: String,
            _ purpose: RedirectOptions.Purpose = .signIn
        ) async throws -> String {
            let driver = GlewlwydLoginDriver(
                username: "alice",
                password: Secret("wonderland"),
                origin: try Endpoint(issuer).origin
            )
            let query = FormURLEncoding.decode(try Endpoint(url).query ?? "")
            let options = RedirectOptions(
                purpose: purpose,
                redirectURIs: [try RedirectURI(redirectURI)],
                state: Secret(query?["state"] ?? ""),
                reporter: FlowReporter(),
                clock: ContinuousClock()
            )
            return try await HeadlessUserAgent(driver: driver, transport: SystemTransport())
                .withRedirectSession(options) { try await $0.visit(url) }
        }

        private func cookies(of response: TransportResponse) -> String {
            response.head.headerFields[fields: .setCookie].map { String($0.value.prefix { $0 != ";" }) }
                .joined(separator: "; ")
        }

        @Test(.timeLimit(.minutes(1))) func aLogoutAtTheProviderEndsTheSessionInEveryProcess() async throws {
            let issuer = try #require(environment["AUTHFLOW_GLEWLWYD_ISSUER"])
            let callback = try Endpoint(try #require(environment["AUTHFLOW_GLEWLWYD_REDIRECT"]))
            var values = ClientRegistration.Values(clientID: "authflow-interop-web")
            values.authentication = .clientSecretBasic(Secret("interop-secret-of-some-length"))
            values.redirectURIs = [try RedirectURI(callback.url)]
            values.postLogoutRedirectURI = try RedirectURI("\(callback.origin)/")
            values.scopes = ["openid", "profile"]
            let client = OAuthClient(
                server: AuthorizationServer(OIDCProvider(issuer: issuer)),
                registration: try ClientRegistration(values)
            )
            let store = MemoryTokenStore()
            let first = try process(client, callback.origin, store)
            let second = try process(client, callback.origin, store)
            let application = WebApplication(origins: [callback.origin], processes: [first, second])
            try await EmulatorServer.run(port: callback.port) { _ in
                application
            } _: { _ in
                var request = HTTPRequest(method: .get, scheme: "http", authority: callback.host, path: "/login")
                let login = try #require(await first.response(to: request))
                let address = try #require(login.head.headerFields[.location])
                let redirect = try await visit(address, returningTo: callback.url, issuer)
                request.path = String(redirect.dropFirst(callback.origin.count))
                request.headerFields[.cookie] = cookies(of: login)
                // The callback goes to the other process.
                let signedIn = try #require(await second.response(to: request))
                try #require(signedIn.status == 200)
                let cookie = try #require(
                    signedIn.head.headerFields[fields: .setCookie].first { !$0.value.contains("-login-") }?
                        .value.prefix { $0 != ";" }
                )
                request.path = "/"
                request.headerFields[.cookie] = String(cookie)
                for process in application.processes {
                    #expect(try await process.session(of: request)?.identity?.displayName == "Alice Example")
                }

                let identifier = cookie.drop { $0 != "=" }.dropFirst()
                let credential = try await first.credentials.lastCredential(for: CredentialKey(String(identifier)))
                let end = try await client.endSessionRequest(for: credential)
                _ = try await visit(end.url, returningTo: end.redirectURI, issuer, .signOut)
                #expect(await application.responses.stream.first { _ in true } == 200)
                for process in application.processes { #expect(try await process.session(of: request) == nil) }
            }
        }
    }
}
