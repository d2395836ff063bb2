import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Expectations
import Foundation
import HTTPTypes
import Testing

/// DPoP-bound tokens (RFC 9449), with a provider that checks every proof.
@Suite struct DPoPTests {
    private static func settings(_ change: (inout ClientRegistration.Values) -> Void = { _ in }) throws
        -> ClientRegistration.Values
    {
        var settings = try EmulatorEnvironment.registration()
        settings.usesDPoP = true
        settings.scopes.append("offline_access")
        change(&settings)
        return settings
    }

    /// The decoded proofs in the requests that a provider has received at a path.
    private func proofs(_ environment: EmulatorEnvironment, at path: String) throws -> [(header: JSON, claims: JSON)] {
        try environment.emulator.receivedRequests.filter { $0.path == path }.compactMap { received in
            guard let text = received.request.headerFields[HTTPField.Name("DPoP")!] else { return nil }
            let parts = text.split(separator: ".")
            return (
                try JSON(parsing: try #require(Base64URL.decode(parts[0]))),
                try JSON(parsing: try #require(Base64URL.decode(parts[1])))
            )
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases, [DPoPPolicy.required, .requiredWithNonce])
    func sendsADPoPProofWithEveryRequest(_ setting: EmulatorEnvironment.Setting, _ policy: DPoPPolicy) async throws {
        // Row I11.
        try await EmulatorEnvironment.with(setting) { environment in
            environment.emulator.dpop = policy
            let client = try environment.client(registration: Self.settings())
            let signIn = try await client.signIn()
            #expect(signIn.credential.tokens.tokenType == "DPoP")
            _ = try await client.userInfo()
            _ = try await client.refresh()
            _ = try await client.userInfo()
            let (atToken, atResource) = (
                try proofs(environment, at: "/token"), try proofs(environment, at: "/userinfo")
            )
            // One request with the code, one with the refresh token and, if a nonce is required, one retry.
            #expect(atToken.count == (policy == .required ? 2 : 3))
            for (header, claims) in atToken + atResource {
                #expect(header["typ"] == "dpop+jwt")
                #expect(header["alg"] == "ES256")
                #expect(header["jwk"]?["d"] == nil)
                #expect((claims["jti"]?.string ?? "").utf8.count == 43)
            }
            #expect(Set((atToken + atResource).map { $0.header["jwk"] }).count == 1)
            #expect(Set((atToken + atResource).map { $0.claims["jti"] }).count == atToken.count + atResource.count)
            #expect(atToken.allSatisfy { $0.claims["ath"] == nil && $0.claims["htm"] == "POST" })
            #expect(atResource.allSatisfy { $0.claims["ath"] != nil && $0.claims["htm"] == "GET" })
            #expect(atToken.allSatisfy { $0.claims["htu"]?.string == "\(environment.emulator.issuer)/token" })
            let announced = environment.emulator.receivedRequests.first { $0.path == "/authorize" }?.query["dpop_jkt"]
            #expect(announced?.utf8.count == 43)
        }
    }

    @Test func reusesAServersDPoPNonceAndRetriesWithANewNonce() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.dpop = .requiredWithNonce
            environment.emulator.resourceRequiresNonce = true
            var options = AuthClient.Options()
            options.apiOrigins = [Endpoint("https://id.example.com")]
            let client = try environment.client(registration: Self.settings(), options: options)
            _ = try await client.signIn()
            let before = environment.emulator.requests.count
            _ = try await client.userInfo()
            // The client already has the nonce from the token endpoint.
            #expect(environment.emulator.requests.count == before + 1)
            environment.emulator.changeDPoPNonce()
            let response = try await client.send(
                TransportRequest(.get, Endpoint("\(environment.emulator.issuer)/userinfo"))
            )
            #expect(response.status == 200)
            #expect(environment.emulator.requests.count == before + 3)
        }
    }

    @Test func retriesOnlyOnceWithANewNonce() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            // A server that rejects even the nonce that it has provided.
            environment.emulator.dpop = .requiredWithNonce
            let transport = FlakyTransport(environment.transport)
            var fields = HTTPFields()
            fields[.contentType] = "application/json"
            fields[HTTPField.Name("DPoP-Nonce")!] = "always-new"
            let refusal = TransportResponse(
                head: HTTPResponse(status: .badRequest, headerFields: fields),
                body: Array(#"{"error":"use_dpop_nonce"}"#.utf8)
            )
            transport.respond(refusal)
            let client = try environment.client(registration: Self.settings(), transport: transport)
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.providerError?.error == "use_dpop_nonce")
            #expect(transport.calls == 2)
        }
    }

    private static let api = "https://api.example.com/"

    /// Rejects proofs for the userinfo endpoint and for an API whose `iat` differs from the current time by more than a minute.
    private struct StrictTransport: HTTPTransport {
        let base: any HTTPTransport
        let time: VirtualTime

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            let proof = request.head.headerFields[HTTPField.Name("DPoP")!]
            guard request.url.hasSuffix("/userinfo") || request.url == DPoPTests.api,
                let claims = proof?.split(separator: ".").dropFirst().first,
                let json = Base64URL.decode(claims).flatMap({ try? JSON(parsing: $0) }),
                let issued = json["iat"]?.number
            else { return try await base.send(request) }
            guard abs(issued - time.now.timeIntervalSince1970) > 60 else {
                return request.url == DPoPTests.api
                    ? TransportResponse(head: HTTPResponse(status: .ok)) : try await base.send(request)
            }
            return TransportResponse(
                head: HTTPResponse(
                    status: .unauthorized,
                    headerFields: [
                        .date: HTTPDate.text(time.now), .wwwAuthenticate: #"DPoP error="invalid_dpop_proof""#,
                    ]
                )
            )
        }
    }

    @Test func theProofForAnAPIHasTheTimeOfTheAPI() async throws {
        let (time, ahead) = (VirtualTime(), VirtualTime(start: Date() + 150))
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            environment.emulator.dpop = .required
            var options = AuthClient.Options()
            options.apiOrigins = [Endpoint("https://api.example.com")]
            let client = try environment.client(
                registration: Self.settings(),
                options: options,
                transport: StrictTransport(base: environment.transport, time: time),
                host: ahead.host
            )
            _ = try await client.signIn()
            let requests = environment.emulator.requests.count
            for _ in 0..<2 {
                let response = try await client.send(TransportRequest(.get, Endpoint(Self.api)))
                #expect(response.status == 200)
            }
            // A new token would not have helped.
            #expect(environment.emulator.requests.count == requests)
        }
    }

    /// Rejects every proof for one URL, with a time that is an hour behind.
    private struct ForgedTimeTransport: HTTPTransport {
        let base: any HTTPTransport
        let url: String

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            guard request.url == url else { return try await base.send(request) }
            let fields: HTTPFields = [
                .date: HTTPDate.text(Date() - 3600), .wwwAuthenticate: #"DPoP error="invalid_dpop_proof""#,
            ]
            return TransportResponse(head: HTTPResponse(status: .unauthorized, headerFields: fields))
        }
    }

    /// A hostile API, such as another tenant's, may share the authorization server's origin.
    @Test func theTimeOfAnAPIDoesNotChangeThatOfTheAuthorizationServer() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.dpop = .required
            let api = "\(environment.emulator.issuer)/tenants/other"
            var options = AuthClient.Options()
            options.apiOrigins = [try Endpoint(environment.emulator.issuer)]
            let client = try environment.client(
                registration: Self.settings(),
                options: options,
                transport: ForgedTimeTransport(base: environment.transport, url: api)
            )
            _ = try await client.signIn()
            let response = try await client.send(TransportRequest(.get, Endpoint(api)))
            #expect(response.status == 401)
            #expect(client.server.clockCorrection == 0)
        }
    }

    @Test func theProofForTheUserInfoEndpointHasTheServersTime() async throws {
        let (time, ahead) = (VirtualTime(), VirtualTime(start: Date() + 150))
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            environment.emulator.dpop = .required
            let transport = StrictTransport(base: environment.transport, time: time)
            let store = MemoryTokenStore()
            func client() throws -> AuthClient {
                try environment.client(
                    registration: Self.settings(),
                    store: store,
                    transport: transport,
                    host: ahead.host
                )
            }
            let signIn = try await client().signIn()
            #expect(signIn.identity?.email != nil)
            // A client in another process does not have the server's clock offset.
            let requests = environment.emulator.requests.count
            #expect(try await client().userInfo()["email"]?.string != nil)
            #expect(!environment.emulator.requests.dropFirst(requests).contains("POST /token"))
        }
    }

    @Test func sendsNoDPoPProofByDefault() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let signIn = try await environment.client().signIn()
            #expect(signIn.credential.tokens.tokenType == "Bearer")
            #expect(try proofs(environment, at: "/token").isEmpty)
            #expect(environment.emulator.receivedRequests.allSatisfy { $0.query["dpop_jkt"] == nil })
        }
    }

    /// A response that rejects the proof and provides this nonce.
    private func refusal(_ nonce: String?) -> TransportResponse {
        var fields: HTTPFields = [.contentType: "application/json"]
        if let nonce { fields[HTTPField.Name("DPoP-Nonce")!] = nonce }
        return TransportResponse(
            head: HTTPResponse(status: .badRequest, headerFields: fields),
            body: Array(#"{"error":"use_dpop_nonce"}"#.utf8)
        )
    }

    @Test(arguments: [nil, "", "two words", "quo\"te", String(repeating: "n", count: 1025)] as [String?])
    func doesNotRetryWithAnInvalidNonce(_ nonce: String?) async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let transport = FlakyTransport(environment.transport)
            transport.respond(refusal(nonce))
            let client = try environment.client(registration: Self.settings(), transport: transport)
            await expectError(.providerRejected) { try await client.signIn() }
            #expect(transport.calls == 1)
        }
    }

    @Test func doesNotRetryWithTheSameNonce() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let transport = FlakyTransport(environment.transport)
            transport.respond(refusal("same"))
            let client = try environment.client(registration: Self.settings(), transport: transport)
            await expectError(.providerRejected) { try await client.signIn() }
            #expect(transport.calls == 2)
            // The client already has the nonce, which was rejected, so it does not retry.
            await expectError(.providerRejected) { try await client.signIn() }
            #expect(transport.calls == 3)
        }
    }

    @Test func storesTheDPoPKeyWithTheTokens() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.dpop = .required
            let store = MemoryTokenStore()
            let signIn = try await environment.client(registration: Self.settings(), store: store).signIn()
            // Another process uses the key from the store, regardless of its configuration.
            let later = try environment.client(registration: Self.settings { $0.usesDPoP = false }, store: store)
            #expect(try await later.credential() == signIn.credential)
            _ = try await later.refresh()
            _ = try await later.userInfo()
            #expect(Set(try proofs(environment, at: "/token").map { $0.header["jwk"] }).count == 1)
            var dumped = ""
            dump(signIn.credential, to: &dumped)
            let stored = try JSON(
                parsing: try #require(
                    await store.bytes(
                        for: RecordKey(name: "default", issuer: "https://id.example.com", clientID: "authflow-demo")
                    )
                )
            )
            let key = try #require(stored["accounts"]?.array?.first?["dpop_key"]?.string)
            #expect(!dumped.contains(key))
            // Every sign-in has a separate key.
            _ = try await environment.client(registration: Self.settings()).signIn()
            #expect(Set(try proofs(environment, at: "/token").map { $0.header["jwk"] }).count == 2)
        }
    }

    @Test func rejectsBearerTokensIfDPoPWasRequested() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .tokenResponse(.member("token_type", "Bearer"))
            let client = try environment.client(registration: Self.settings())
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .unsupported)
            #expect(try await client.credential() == nil)
        }
    }

    @Test func rejectsDPoPTokensThatWereNotRequested() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .tokenResponse(.member("token_type", "DPoP"))
            let client = try environment.client()
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .unsupported)
        }
    }

    @Test func reportsThatTheProviderDoesNotSupportTheProofAlgorithm() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .metadata(.member("dpop_signing_alg_values_supported", ["RS256"]))
            let client = try environment.client(registration: Self.settings())
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .unsupported)
        }
    }

    /// RFC 8414 section 2: an empty list must be omitted.
    @Test func anEmptyListOfProofAlgorithmsIsTreatedAsAbsent() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .metadata(.member("dpop_signing_alg_values_supported", []))
            let signIn = try await environment.client(registration: Self.settings()).signIn()
            #expect(signIn.credential.tokens.tokenType == "DPoP")
        }
    }

    @Test func aStolenTokenIsUselessWithoutItsKey() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.dpop = .required
            let tokens = try await environment.client(registration: Self.settings()).signIn().credential.tokens
            let call = TransportRequest(
                .get,
                try Endpoint("\(environment.emulator.issuer)/userinfo"),
                headerFields: [.authorization: "Bearer \(tokens.accessToken.exposed)"]
            )
            #expect(try await environment.transport.send(call).status == 401)
        }
    }

    @Test func bindsDeviceFlowTokensWithDPoP() async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            emulator.dpop = .requiredWithNonce
            let client = try environment.client(
                registration: Self.settings(),
                devicePresenter: DecidingPresenter { emulator.decide($0.userCode, as: .alice) },
                flows: [.device],
                host: time.host
            )
            #expect(try await client.signIn().credential.tokens.tokenType == "DPoP")
            _ = try await client.userInfo()
        }
    }
}
