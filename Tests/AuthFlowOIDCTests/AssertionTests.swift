import AuthFlow
import AuthFlowDesktop
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Testing

/// The JWT bearer grant (RFC 7523), and the sources of assertions.
@Suite struct AssertionTests {
    private static let robot = OIDCEmulator.Client(id: "robot")

    /// A platform that issues JWTs to its workloads, and a provider that trusts it.
    private struct Environment {
        let platform: OIDCEmulator
        let environment: EmulatorEnvironment

        init(
            _ client: OIDCEmulator.Client = AssertionTests.robot,
            issuer: String = "https://id.example.com",
            now: @escaping @Sendable () -> Date = { Date() }
        ) throws {
            platform = try OIDCEmulator(issuer: "https://platform.example.com", clients: [], now: now)
            environment = EmulatorEnvironment(try OIDCEmulator(issuer: issuer, clients: [client], now: now))
            environment.emulator.trustedIssuers = [platform.issuer: try platform.publicKeys()]
        }

        func assertion(_ claims: [String: JSON] = [:]) throws -> String {
            let usual: [String: JSON] = ["sub": "system:serviceaccount:robots:one", "aud": "https://id.example.com"]
            return try platform.assertion(claims.merging(usual) { own, _ in own })
        }

        func client(_ source: AssertionSource, host: HostServices = .system) throws -> AuthClient {
            var values = ClientRegistration.Values(clientID: "robot")
            values.scopes = ["reports"]
            return try environment.client(registration: values, flows: [.jwtBearer], assertions: source, host: host)
        }
    }

    private func withFile<Return>(_ body: (String) async throws -> Return) async throws -> Return {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("assertion-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        return try await body(path)
    }

    @Test func exchangesThePlatformTokenAndRereadsItForEachTokenRequest() async throws {
        let time = VirtualTime()
        let environment = try Environment(now: { time.now })
        try await withFile { path in
            try (environment.assertion(["jti": "one"]) + "\n").write(toFile: path, atomically: true, encoding: .utf8)
            let client = try environment.client(.file(path: path), host: HostServices(now: { time.now }))
            let first = try await client.freshTokens()
            #expect(first.scopes == ["reports"] && first.refreshToken == nil)
            #expect(try await client.freshTokens().accessToken == first.accessToken)
            // The platform replaces the file before the token in it expires.
            time.advance(by: .seconds(3590))
            try environment.assertion(["jti": "two"]).write(toFile: path, atomically: true, encoding: .utf8)
            #expect(try await client.freshTokens().accessToken != first.accessToken)
            let sent = environment.environment.emulator.receivedRequests.filter { $0.path == "/token" }
            #expect(sent.count == 2 && Set(sent.compactMap { $0.form["assertion"] }).count == 2)
            #expect(sent.allSatisfy { $0.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer" })
        }
    }

    @Test func aHundredCallersSendOneAssertion() async throws {
        let environment = try Environment()
        let text = try environment.assertion()
        let client = try environment.client(AssertionSource("a source") { _ in try Assertion(Secret(text)) })
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<100 { group.addTask { _ = try await client.freshTokens() } }
            try await group.waitForAll()
        }
        #expect(environment.environment.emulator.requests.count { $0 == "POST /token" } == 1)
    }

    struct Unusable: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let claims: [String: JSON]?
        let text: String?
        let words: String
    }

    private static let unusable = [
        Unusable(testDescription: "missing", claims: nil, text: nil, words: "does not exist"),
        Unusable(testDescription: "empty", claims: nil, text: " \n", words: "is empty"),
        Unusable(testDescription: "not a JWT", claims: nil, text: "abc", words: "not a signed JWT"),
        Unusable(
            testDescription: "too long",
            claims: nil,
            text: String(repeating: "a", count: 70_000),
            words: "larger than 65536 bytes"
        ),
        Unusable(testDescription: "expired", claims: ["exp": 1_000_000_000], text: nil, words: "has expired"),
        Unusable(testDescription: "without an expiry", claims: ["exp": .null], text: nil, words: "no numeric exp"),
        Unusable(
            testDescription: "for another audience",
            claims: ["aud": "https://other.example.com"],
            text: nil,
            words: "for an audience other than"
        ),
    ]

    @Test(arguments: unusable) func sendsNoTokenRequestWithAnUnusableAssertion(_ unusable: Unusable) async throws {
        let environment = try Environment()
        try await withFile { path in
            let text = try unusable.claims.map { try environment.assertion($0) } ?? unusable.text
            try text?.write(toFile: path, atomically: true, encoding: .utf8)
            let client = try environment.client(.file(path: path))
            let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(error?.code == .assertionUnusable)
            #expect(error?.message.contains(unusable.words) == true, "\(error?.message ?? "")")
            #expect(!environment.environment.emulator.requests.contains("POST /token"))
            if let text, text.count > 3 { #expect(error?.message.contains(text) == false) }
        }
    }

    struct Refused: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let claims: [String: JSON]
        let isTrusted: Bool
        let words: String
    }

    private static let refused = [
        Refused(
            testDescription: "another audience",
            claims: ["aud": "https://other.example.com"],
            isTrusted: true,
            words: "the audience \"https://other.example.com\""
        ),
        Refused(testDescription: "a wrong key", claims: [:], isTrusted: false, words: "signed by the key \"p256-"),
        Refused(
            testDescription: "an unknown issuer",
            claims: ["iss": "https://unknown.example.com"],
            isTrusted: true,
            words: "issued by \"https://unknown.example.com\""
        ),
    ]

    /// RFC 7523 section 3: "The token endpoint URL of the authorization server MAY be used" as the audience.
    @Test(arguments: ["https://id.example.com", "https://id.example.com/"])
    func anAssertionForTheTokenEndpointIsAcceptedWithAndWithoutASlashAtTheEndOfTheIssuer(_ issuer: String) async throws
    {
        let environment = try Environment(issuer: issuer)
        let audience = "https://id.example.com/token"
        let text = try environment.assertion(["aud": .string(audience)])
        let source = AssertionSource("the platform", audience: audience) { _ in try Assertion(Secret(text)) }
        #expect(try await environment.client(source).freshTokens().tokenType == "Bearer")
    }

    /// Other servers verify assertions with the public keys, so an HMAC algorithm for ID Tokens does not apply to them.
    @Test func anAssertionIsAcceptedIfItsIssuerSignsIDTokensWithAnHMACAlgorithm() async throws {
        let environment = try Environment()
        environment.platform.signingAlgorithm = .hs256
        let text = try environment.assertion()
        let source = AssertionSource("the platform") { _ in try Assertion(Secret(text)) }
        #expect(try await environment.client(source).freshTokens().tokenType == "Bearer")
    }

    @Test(arguments: refused) func theErrorDescribesTheRejectedAssertion(_ refused: Refused) async throws {
        let environment = try Environment()
        if !refused.isTrusted {
            environment.environment.emulator.trustedIssuers = [environment.platform.issuer: try EmulatorKeys().jwks()]
        }
        let text = try environment.assertion(refused.claims)
        let source = AssertionSource.environment("ID_TOKEN", audience: refused.claims["aud"]?.string)
        let client = try environment.client(source, host: HostServices(environment: ["ID_TOKEN": text]))
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(error?.providerError?.error == "invalid_grant")
        #expect(error?.message.contains(refused.words) == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("system:serviceaccount:robots:one") == true)
        #expect(error?.message.contains(text.suffix(20)) == false)
        #expect(error?.message.contains("see \"assertion\".") == true, "\(error?.message ?? "")")
    }

    @Test(arguments: [[:], ["ID_TOKEN": ""]])
    func theErrorNamesTheUnsetOrEmptyEnvironmentVariable(_ variables: [String: String]) async throws {
        let environment = try Environment()
        let client = try environment.client(.environment("ID_TOKEN"), host: HostServices(environment: variables))
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(error?.code == .assertionUnusable)
        #expect(error?.message.contains("ID_TOKEN is unset or empty") == true)
    }

    /// A runner that issues an ID Token on request.
    private struct Runner: HTTPTransport {
        let next: any HTTPTransport
        /// The status of a response without a token.
        var refusal = HTTPResponse.Status.forbidden
        let token: @Sendable (_ audience: String) -> String?

        func send(_ call: TransportRequest) async throws -> TransportResponse {
            guard call.head.authority == "runner.example.com" else { return try await next.send(call) }
            #expect(call.head.headerFields[.authorization] == "Bearer runner-secret")
            let query = FormURLEncoding.decode(String((call.head.path ?? "").drop { $0 != "?" }.dropFirst()))
            #expect(query?["api-version"] == "2.0")
            guard let token = token(query?["audience"] ?? "") else {
                // A value in an error response is not an ID Token.
                let body: JSON = ["value": "forbidden"]
                return TransportResponse(head: HTTPResponse(status: refusal), body: try body.serialized())
            }
            let body: JSON = ["count": 1, "value": .string(token)]
            return TransportResponse(head: HTTPResponse(status: .ok), body: try body.serialized())
        }
    }

    @Test(arguments: [nil, "sts.example.com"]) func requestsAnIDTokenFromTheActionsRunner(_ audience: String?)
        async throws
    {
        let environment = try Environment()
        let asked = audience ?? "https://id.example.com"
        let runner = Runner(next: environment.environment.transport) { audience in
            #expect(audience == asked)
            return try? environment.assertion(["aud": ["https://id.example.com", .string(audience)]])
        }
        let host = HostServices(environment: [
            "ACTIONS_ID_TOKEN_REQUEST_URL": "https://runner.example.com/token?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner-secret",
        ])
        let client = try environment.environment.client(
            registration: ClientRegistration.Values(clientID: "robot"),
            flows: [.jwtBearer],
            assertions: .actionsRunner(audience: audience),
            transport: runner,
            host: host
        )
        #expect(try await client.freshTokens().tokenType == "Bearer")
    }

    @Test func reportsAMissingIDTokenPermissionAndARunnerError() async throws {
        let environment = try Environment()
        var variables = ["ACTIONS_ID_TOKEN_REQUEST_URL": "https://runner.example.com/token?api-version=2.0"]
        let names = ["ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"]
        variables[names[1]] = "runner-secret"
        for (name, value) in [(names[0], nil), (names[0], ""), (names[1], nil), (names[1], "")] as [(String, String?)] {
            var incomplete = variables
            incomplete[name] = value
            let absent = try environment.client(.actionsRunner(), host: HostServices(environment: incomplete))
            let error = await #expect(throws: AuthError.self) { try await absent.freshTokens() }
            #expect(error?.message.contains("id-token: write") == true, "\(name): \(error?.message ?? "")")
        }
        let refusing = try environment.environment.client(
            registration: ClientRegistration.Values(clientID: "robot"),
            flows: [.jwtBearer],
            assertions: .actionsRunner(),
            transport: Runner(next: environment.environment.transport) { _ in nil },
            host: HostServices(environment: variables)
        )
        let error = await #expect(throws: AuthError.self) { try await refusing.freshTokens() }
        #expect(error?.message.contains("status 403") == true)
        #expect(error?.message.contains("runner-secret") == false)
    }

    @Test(arguments: [429, 503]) func reportsThatTheActionsRunnerIsTemporarilyUnavailable(_ status: Int) async throws {
        let environment = try Environment()
        let host = HostServices(environment: [
            "ACTIONS_ID_TOKEN_REQUEST_URL": "https://runner.example.com/token?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner-secret",
        ])
        let client = try environment.environment.client(
            registration: ClientRegistration.Values(clientID: "robot"),
            flows: [.jwtBearer],
            assertions: .actionsRunner(),
            transport: Runner(next: environment.environment.transport, refusal: .init(code: status)) { _ in nil },
            host: host
        )
        await expectError(.temporarilyUnavailable) { try await client.freshTokens() }
    }

    @Test func signsAnAssertionForASubjectWithAPrivateKey() async throws {
        let environment = try Environment()
        let key = try PrivateKey()
        environment.environment.emulator.trustedIssuers = ["robot": ["keys": [key.publicJWK]]]
        let client = try environment.client(.signed(by: SigningKeySource(key), subject: "report-writer"))
        #expect(try await client.freshTokens().scopes == ["reports"])
        // Google and DocuSign require the scopes in the assertion.
        let sent = environment.environment.emulator.receivedRequests.compactMap { $0.form["assertion"] }
        let payload = try #require(sent.first?.split(separator: ".").dropFirst().first)
        #expect(try JSON(parsing: Base64URL.decode(payload) ?? [])["scope"] == "reports")
    }

    // MARK: Programs

    private func tokens(of command: [String]) async throws -> TokenSet {
        let environment = try Environment()
        let host = HostServices(environment: ["PATH": "/usr/bin:/bin", "JWT": try environment.assertion()])
        return try await environment.client(.command(command), host: host).freshTokens()
    }

    @Test func runsAProgramThatPrintsAJWT() async throws {
        #expect(try await tokens(of: ["sh", "-c", "echo secret >&2; printenv JWT"]).scopes == ["reports"])
    }

    @Test(arguments: [
        (["no-such-program"], "not installed"), (["sh", "-c", "printenv JWT; exit 3"], "status 3"),
        (["true"], "is empty"), (["echo", "hello"], "not a signed JWT"),
        (["sh", "-c", "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done"], "more than 65536 bytes"),
    ]) func reportsACommandThatPrintsNoUsableAssertion(_ command: [String], _ words: String) async throws {
        let error = await #expect(throws: AuthError.self) { try await tokens(of: command) }
        #expect(error?.code == .assertionUnusable)
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
    }

    /// A clock whose sleeps complete only when a file appears.
    private struct FileClock: Clock {
        let path: String
        var now: ContinuousClock.Instant { ContinuousClock.now }
        var minimumResolution: Duration { .zero }

        func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
            while !FileManager.default.fileExists(atPath: path) {
                try Task.checkCancellation()
                await Task.yield()
            }
        }
    }

    @Test func aTimedOutCommandIsTerminatedWithItsChildProcesses() async throws {
        let environment = try Environment()
        try await withFile { lock in
            let (ready, pipe) = ("\(lock).ready", "\(lock).pipe")
            defer { for path in [ready, pipe] { try? FileManager.default.removeItem(atPath: path) } }
            #expect(unsafe mkfifo(pipe, 0o600) == 0)
            // A child process of the program holds the lock until it exits, and waits for a writer that never connects.
            let script = "exec 9>'\(lock)'; flock 9; (: >'\(ready)'; exec cat '\(pipe)') & wait"
            let host = HostServices(clock: FileClock(path: ready), environment: ["PATH": "/usr/bin:/bin"])
            let client = try environment.client(.command(["sh", "-c", script]), host: host)
            let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(error?.message.contains("in time") == true)
            let descriptor = unsafe open(lock, O_RDWR)
            defer { close(descriptor) }
            // This call would block forever if one of those processes were still running.
            #expect(flock(descriptor, LOCK_EX) == 0)
        }
    }

    @Test func doesNotWaitForChildProcessesThatACommandLeavesRunning() async throws {
        try await withFile { path in
            #expect(unsafe mkfifo(path, 0o600) == 0)
            // The child process keeps its output open until the test opens the other end of the pipe.
            let command = ["sh", "-c", "printenv JWT; setsid cat '\(path)' &"]
            let scopes = try await tokens(of: command).scopes
            #expect(scopes == ["reports"])
            unsafe close(open(path, O_RDWR))
        }
    }

    @Test func rejectsANamedPipeAsAnAssertionFileWithoutBlocking() async throws {
        let environment = try Environment()
        try await withFile { path in
            #expect(unsafe mkfifo(path, 0o600) == 0)
            let client = try environment.client(.file(path: path))
            let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(error?.code == .assertionUnusable)
        }
    }

    /// The failure to read an assertion is not cached, so the next call reads a file that has since been created.
    @Test func theFailureToReadAnAssertionIsNotCached() async throws {
        let environment = try Environment()
        try await withFile { path in
            let client = try environment.client(.file(path: path))
            await expectError(.assertionUnusable) { try await client.freshTokens() }
            try environment.assertion().write(toFile: path, atomically: true, encoding: .utf8)
            #expect(try await client.freshTokens().scopes == ["reports"])
        }
    }

    @Test func aTokenForOneSubjectIsNotReturnedForAnother() async throws {
        let environment = try Environment()
        let key = try PrivateKey()
        environment.environment.emulator.trustedIssuers = ["robot": ["keys": [key.publicJWK]]]
        let store = MemoryTokenStore()
        func tokens(_ subject: String) async throws -> TokenSet {
            var values = ClientRegistration.Values(clientID: "robot")
            values.scopes = ["reports"]
            let source = AssertionSource.signed(by: SigningKeySource(key), subject: subject)
            return try await environment.environment.client(
                registration: values,
                flows: [.jwtBearer],
                assertions: source,
                store: store
            ).freshTokens()
        }
        let alice = try await tokens("alice")
        #expect(try await tokens("alice").accessToken == alice.accessToken)
        #expect(try await tokens("bob").accessToken != alice.accessToken)
    }

    @Test func theJWTBearerGrantSendsTheRequestedResources() async throws {
        let environment = try Environment()
        let client = try environment.client(AssertionSource("none") { _ in throw CancellationError() }).client
        let assertion = try Assertion(Secret(try environment.assertion()), scopes: ["reports"])
        let credential = try await client.jwtBearer(assertion, resources: ["https://api.example.com/"])
        #expect(credential.resources == ["https://api.example.com/"])
        let sent = environment.environment.emulator.receivedRequests.last { $0.path == "/token" }
        #expect(sent?.form.values(for: "resource") == ["https://api.example.com/"] && sent?.form["scope"] == nil)
    }

    /// An assertion with scopes determines what its access token is for.
    @Test func withAnAssertionThatHasScopesNoRegisteredResourcesAndAuthorizationDetailsAreRequested() async throws {
        let environment = try Environment()
        var values = ClientRegistration.Values(clientID: "robot")
        values.resources = ["https://api.example.com/"]
        values.authorizationDetails = [["type": "payment"]]
        values.requiresExactAuthorizationDetails = true
        let source = AssertionSource("none") { _ in throw CancellationError() }
        let client = try environment.environment.client(
            registration: values,
            flows: [.jwtBearer],
            assertions: source
        ).client
        let assertion = try Assertion(Secret(try environment.assertion()), scopes: ["reports"])
        // The assertion was obtained for these resources, so the request does not repeat them.
        #expect(try await client.jwtBearer(assertion).resources == values.resources)
        let sent = environment.environment.emulator.receivedRequests.last { $0.path == "/token" }
        #expect(sent?.form["resource"] == nil && sent?.form["authorization_details"] == nil)
    }

    // MARK: Client authentication

    @Test(arguments: ["system:serviceaccount:robots:one", "spiffe://example.com/robot"])
    func authenticatesTheClientWithThePlatformsAssertion(_ subject: String) async throws {
        let isSPIFFE = subject.hasPrefix("spiffe:")
        var client = OIDCEmulator.Client(
            id: "robot",
            authenticationMethod: isSPIFFE ? "spiffe_jwt" : "private_key_jwt"
        )
        client.workload = OIDCEmulator.Workload(issuer: "https://platform.example.com", subject: subject)
        let environment = try Environment(client)
        let text = try environment.assertion(["sub": .string(subject)])
        var values = ClientRegistration.Values(clientID: "robot")
        values.authentication = .assertion(
            from: AssertionSource("the platform") { _ in try Assertion(Secret(text)) },
            isSPIFFE: isSPIFFE
        )
        values.scopes = ["reports"]
        let machine = try environment.environment.client(registration: values, flows: [.clientCredentials])
        #expect(try await machine.freshTokens().scopes == ["reports"])
    }

    /// `client_assertion_audience` cannot be set together with `client_assertion`.
    @Test func theErrorNamesTheConfigurationOfARejectedClientAssertion() async throws {
        var client = OIDCEmulator.Client(id: "robot", authenticationMethod: "private_key_jwt")
        client.workload = OIDCEmulator.Workload(issuer: "https://platform.example.com", subject: "another")
        let environment = try Environment(client)
        let text = try environment.assertion()
        var values = ClientRegistration.Values(clientID: "robot")
        values.authentication = .assertion(from: AssertionSource("the platform") { _ in try Assertion(Secret(text)) })
        values.scopes = ["reports"]
        let machine = try environment.environment.client(registration: values, flows: [.clientCredentials])
        let error = await #expect(throws: AuthError.self) { try await machine.freshTokens() }
        #expect(error?.providerError?.error == "invalid_client")
        #expect(error?.message.contains("see \"client_assertion\".") == true, "\(error?.message ?? "")")
    }

    /// A security profile also applies to assertions that a platform has signed.
    @Test(arguments: [("aud", "https://other.example.com"), ("alg", "")])
    func aSecurityProfileAppliesToThePlatformsClientAssertion(
        _ member: String,
        _ value: String
    ) async throws {
        var client = OIDCEmulator.Client(id: "robot", authenticationMethod: "private_key_jwt")
        client.workload = OIDCEmulator.Workload(
            issuer: "https://platform.example.com",
            subject: "system:serviceaccount:robots:one"
        )
        let environment = try Environment(client)
        if member == "alg" { environment.platform.signingAlgorithm = .rs256 }
        let text = try environment.assertion(member == "aud" ? ["aud": .string(value)] : [:])
        var values = ClientRegistration.Values(clientID: "robot")
        let audience = member == "aud" ? value : nil
        values.authentication = .assertion(
            from: AssertionSource("the platform", audience: audience) { _ in try Assertion(Secret(text)) }
        )
        values.scopes = ["reports"]
        values.securityProfile = .fapi2
        let machine = try environment.environment.client(registration: values, flows: [.clientCredentials])
        let error = await #expect(throws: AuthError.self) { try await machine.freshTokens() }
        #expect(error?.code == .assertionUnusable && error?.message.contains("security profile") == true)
    }

    @Test func aJWTWithoutASPIFFEIDIsNotSentAsAJWTSVID() async throws {
        let environment = try Environment()
        let text = try environment.assertion()
        var values = ClientRegistration.Values(clientID: "robot")
        values.authentication = .assertion(
            from: AssertionSource("the platform") { _ in try Assertion(Secret(text)) },
            isSPIFFE: true
        )
        let machine = try environment.environment.client(registration: values, flows: [.clientCredentials])
        let error = await #expect(throws: AuthError.self) { try await machine.freshTokens() }
        #expect(error?.code == .assertionUnusable)
        #expect(!environment.environment.emulator.requests.contains("POST /token"))
    }
}
