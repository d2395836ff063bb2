import AuthFlow
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import ConformanceRows
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Sign-in with the device grant (RFC 8628). Time advances only during waits.
@Suite struct DeviceGrantTests {
    private static func settings(_ change: (inout ClientRegistration.Values) -> Void = { _ in }) throws
        -> ClientRegistration.Values
    {
        var settings = try EmulatorEnvironment.registration()
        change(&settings)
        return settings
    }

    /// RFC 8628 does not specify an ID Token.
    @Test(arguments: [(OIDCProvider.IdentitySource.userInfo, true), (.idToken, true), (.idToken, false)])
    func aDeviceSignInWithoutAnIDTokenRequiresUserInfo(
        _ source: OIDCProvider.IdentitySource,
        _ hasUserInfo: Bool
    ) async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            emulator.fault = .tokenResponse(.missingIDToken)
            let server = AuthorizationServer(OIDCProvider(issuer: emulator.issuer), transport: environment.transport)
            var metadata = try await server.metadata()
            if !hasUserInfo { metadata.userInfoEndpoint = nil }
            let client = try environment.client(
                registration: try Self.settings { $0.scopes.append("offline_access") },
                adapter: OIDCProvider(metadata: metadata, identitySource: source),
                devicePresenter: DecidingPresenter { emulator.decide($0.userCode, as: .alice) },
                flows: [.device],
                host: time.host
            )
            if hasUserInfo {
                #expect(try await client.signIn().identity?.subject == "248289761001")
                #expect(!emulator.requests.contains("POST /revoke"))
                #expect(try await client.refresh().identity?.subject == "248289761001")
                #expect(try await client.userInfo()["sub"] == "248289761001")
            } else {
                let error = await #expect(throws: AuthError.self) { try await client.signIn() }
                #expect(error?.code == .invalidIDToken)
                #expect(error?.message.contains("identity") == true)
                // The tokens of the rejected sign-in are revoked.
                #expect(emulator.requests.last == "POST /revoke")
            }
        }
    }

    @Test(arguments: ["", 7, nil] as [JSON?]) func aDeviceSignInIsRejectedIfUserInfoDoesNotIdentifyTheUser(
        _ subject: JSON?
    ) async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            emulator.fault = .tokenResponse(.missingIDToken)
            emulator.customResponse = { exchange in
                guard exchange.request.path == "/userinfo" else { return exchange.response }
                return TransportResponse(
                    head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                    body: (try? (["name": "A"] as JSON).replacing("sub", with: subject).serialized()) ?? []
                )
            }
            let client = try environment.client(
                registration: Self.settings(),
                devicePresenter: DecidingPresenter { emulator.decide($0.userCode, as: .alice) },
                flows: [.device],
                host: time.host
            )
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .invalidUserInfo)
            #expect(error?.message.contains("has no \"sub\"") == true)
            #expect(try await client.credential() == nil)
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases)
    func signsInWithTheDeviceGrantThroughTheProvidersPages(
        _ setting: EmulatorEnvironment.Setting
    ) async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(setting, now: { time.now }) { environment in
            let presenter = HeadlessDevicePresenter(driver: try environment.driver(), transport: environment.transport)
            let settings = try Self.settings { $0.scopes.append("offline_access") }
            let client = try environment.client(
                registration: settings,
                devicePresenter: presenter,
                flows: [.device],
                host: time.host
            )
            let signIn = try await client.signIn()
            #expect(signIn.credential.identity?.displayName == "Alice Example")
            #expect(signIn.credential.tokens.verifiedIDToken?.claims["nonce"] == nil)
            #expect(signIn.authorizationParameters.pairs.isEmpty)
            let refreshed = try await client.refresh()
            #expect(refreshed.tokens.accessToken != signIn.credential.tokens.accessToken)
        }
    }

    private struct LimitedPresenter: DevicePresenter {
        let maximumWait: Duration?

        func present<Return: Sendable>(
            _ authorization: DeviceAuthorization,
            while body: () async throws -> Return
        ) async throws -> Return {
            try await body()
        }
    }

    /// A sign-in to a protected resource must remain recorded for as long as it may store tokens.
    @Test(arguments: [(nil, 3600), (60, 300), (900, 900), (7200, 3600)] as [(Int?, Int)])
    func theMaximumWaitOfASignInIncludesTheLifetimeOfADeviceCode(_ presenterWait: Int?, _ expected: Int) {
        let presenter = LimitedPresenter(maximumWait: presenterWait.map { .seconds($0) })
        let timeout = Duration.seconds(300)
        #expect(SignInMethods(methods: [.device(presenter)]).maximumWait(timeout) == .seconds(expected))
        #expect(SignInMethods(methods: []).maximumWait(timeout) == timeout)
    }

    /// The emulator's access tokens for a resource are JWTs (RFC 9068).
    @Test(arguments: [true, false]) func aDeviceSignInObtainsATokenForItsResource(_ usesPages: Bool) async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            let pages = HeadlessDevicePresenter(driver: try environment.driver(), transport: environment.transport)
            let api = DecidingPresenter { emulator.decide($0.userCode, as: .alice) }
            let presenter: any DevicePresenter = usesPages ? pages : api
            let client = try environment.client(
                registration: Self.settings { $0.resources = ["https://api.example.com"] },
                devicePresenter: presenter,
                flows: [.device],
                host: time.host
            )
            let token = try await client.signIn().credential.tokens.accessToken
            #expect(try JWS(token).payload["aud"] == "https://api.example.com")
        }
    }

    /// The registration lists neither the resource of the client nor that of a request.
    @Test(arguments: [true, false]) func aDeviceSignInRequestsAResourceThatIsNotRegistered(_ isOfClient: Bool)
        async throws
    {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            let resource = "https://api.example.com"
            var options = AuthClient.Options()
            options.resource = isOfClient ? resource : nil
            let client = try environment.client(
                registration: Self.settings(),
                devicePresenter: DecidingPresenter { emulator.decide($0.userCode, as: .alice) },
                flows: [.device],
                options: options,
                host: time.host
            )
            let request = AuthorizationOptions(resources: isOfClient ? nil : [resource])
            let credential = try await client.signIn(options: request).credential
            #expect(credential.resources == [resource])
            #expect(try JWS(credential.tokens.accessToken).payload["aud"]?.string == resource)
        }
    }

    /// Options that a device authorization request cannot express.
    static let demands: [(String, AuthorizationOptions)] = [
        ("prompt", AuthorizationOptions(prompt: .login)), ("login_hint", AuthorizationOptions(loginHint: "bob")),
        ("max_age", AuthorizationOptions(maxAge: .seconds(60))),
    ]

    @Test(arguments: demands)
    func aDeviceSignInRejectsUnsupportedAuthorizationOptions(_ name: String, _ options: AuthorizationOptions)
        async throws
    {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let client = try environment.client(
                registration: Self.settings(),
                devicePresenter: DecidingPresenter { _ in Issue.record("A code was shown.") },
                flows: [.device],
                host: time.host
            )
            let error = await #expect(throws: AuthError.self) { try await client.signIn(options: options) }
            #expect(error?.code == .unsupported)
            #expect(error?.message.contains(name) == true)
        }
    }

    /// A configured requirement applies to every sign-in, but a device authorization request cannot express it.
    @Test(
        arguments: [
            ["max_age": "300"], ["claims": #"{"id_token":{"acr":{"essential":true,"value":"mfa"}}}"#],
            ["claims": #"{"id_token":{"auth_time":{"essential":true}}}"#],
            ["claims": #"{"id_token":{"sub":{"value":"248289761001"}}}"#],
        ] as [FormParameters]
    )
    func aDeviceSignInRejectsAConfiguredAuthenticationRequirement(_ configured: FormParameters) async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let client = try environment.client(
                registration: Self.settings { $0.parameters[.authorization] = configured },
                devicePresenter: DecidingPresenter { _ in Issue.record("A code was shown.") },
                flows: [.device],
                host: time.host
            )
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .unsupported)
            #expect(error?.message.contains("max_age") == true)
            #expect(!environment.emulator.requests.contains { $0.contains("device") })
        }
    }

    /// `parameters.authorization` often has other parameters, such as `prompt=consent` for a refresh token.
    @Test func aDeviceSignInIgnoresConfiguredParametersOfAuthorizationRequestsThatRequireNothing() async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            let client = try environment.client(
                registration: Self.settings {
                    $0.parameters[.authorization] = [
                        "prompt": "consent", "acr_values": "mfa", "claims": #"{"userinfo":{"picture":null}}"#,
                    ]
                },
                devicePresenter: DecidingPresenter { emulator.decide($0.userCode, as: .alice) },
                flows: [.device],
                host: time.host
            )
            #expect(try await client.signIn().identity?.displayName == "Alice Example")
        }
    }

    @Test func aDeviceSignInRequestsTheScopesOfTheOptions() async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            let client = try environment.client(
                registration: Self.settings(),
                devicePresenter: DecidingPresenter { emulator.decide($0.userCode, as: .alice) },
                flows: [.device],
                host: time.host
            )
            let options = AuthorizationOptions(prompt: .consent, scopes: ["openid"])
            #expect(try await client.signIn(options: options).credential.tokens.scopes == ["openid"])
        }
    }

    /// The device grant has no redirect URI, so every redirect is followed, including a redirect to the same page with
    /// a different query.
    @Test func followsARedirectToTheVerificationPageWithADifferentQuery() async throws {
        struct Detour: HTTPTransport {
            let base: any HTTPTransport

            func send(_ call: TransportRequest) async throws -> TransportResponse {
                let path = call.head.path ?? ""
                guard path.hasPrefix("/device?"), !path.hasSuffix("&step=2") else { return try await base.send(call) }
                let location = path.dropFirst("/device".count) + "&step=2"
                return TransportResponse(
                    head: HTTPResponse(status: .found, headerFields: [.location: String(location)])
                )
            }
        }
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let client = try environment.client(
                registration: Self.settings(),
                devicePresenter: HeadlessDevicePresenter(
                    driver: try environment.driver(),
                    transport: Detour(base: environment.transport)
                ),
                flows: [.device],
                host: time.host
            )
            #expect(try await client.signIn().identity?.name == "Alice Example")
        }
    }

    @Test func reportsThatTheUserDeniedTheDeviceAuthorization() async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let presenter = HeadlessDevicePresenter(
                driver: try environment.driver(consent: .deny),
                transport: environment.transport
            )
            let client = try environment.client(
                registration: Self.settings(),
                devicePresenter: presenter,
                flows: [.device],
                host: time.host
            )
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .accessDenied)
            #expect(try await client.credential() == nil)
        }
    }

    @Test func showsTheUserTheVerificationURIAndTheUserCode() async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let seen = Mutex<DeviceAuthorization?>(nil)
            let events = Mutex<[String]>([])
            let emulator = environment.emulator
            let client = try environment.client(
                registration: Self.settings(),
                devicePresenter: DecidingPresenter { authorization in
                    seen.withLock { $0 = authorization }
                    emulator.decide(authorization.userCode, as: .bob)
                },
                flows: [.device],
                host: time.host
            ) { event in events.withLock { $0.append("\(event)") } }
            #expect(try await client.signIn().credential.identity?.displayName == "Bob Example")
            let authorization = try #require(seen.withLock { $0 })
            #expect(authorization.verificationURI.url == "https://id.example.com/device")
            #expect(authorization.verificationURIComplete?.url.hasSuffix(authorization.userCode) == true)
            #expect(authorization.lifetime == .seconds(600))
            // The codes are for the user, not for logs.
            var dumped = ""
            dump(authorization, to: &dumped)
            let lines = events.withLock { $0 } + [dumped, "\(authorization)"]
            #expect(!lines.contains { $0.contains(authorization.userCode) })
        }
    }

    // MARK: Polling

    private func waits(
        _ responses: [DevicePollResponse],
        drift: Double = 1,
        transport: (@Sendable (EmulatorEnvironment) -> any HTTPTransport)? = nil
    ) async throws -> [Double] {
        let time = VirtualTime(drift: drift)
        return try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            emulator.devicePollResponses = responses
            let client = try environment.client(
                registration: Self.settings(),
                devicePresenter: DecidingPresenter { emulator.decide($0.userCode, as: .alice) },
                flows: [.device],
                transport: transport?(environment),
                host: time.host
            )
            _ = try await client.signIn()
            let times = emulator.receivedRequests
                .filter { ["/device_authorization", "/token"].contains($0.path) }.map(\.time)
            return zip(times.dropFirst(), times).map { ($0.timeIntervalSince($1) * 10).rounded() / 10 }
        }
    }

    @Test func usesTheProvidersPollingIntervalIfItIsLonger() async throws {
        let waits = try await waits([.slowDown(interval: 40), .error("authorization_pending")])
        #expect(waits.count == 3 && waits.dropFirst().allSatisfy { $0 >= 40 })
    }

    @Test func ignoresASlowDownIntervalThatIsShorterThanTheCurrentOne() async throws {
        let waits = try await waits([.slowDown(interval: 1), .slowDown(interval: 0)])
        #expect(waits.count == 3 && waits[1] >= 10 && waits[2] >= 15)
    }

    /// RFC 8628 section 3.5: the interval is increased "for this and all subsequent requests". Auth0 sends this error with status 429.
    @Test func honorsSlowDownRegardlessOfTheHTTPStatus() async throws {
        let waits = try await waits([.slowDown(interval: nil), .error("authorization_pending")]) { environment in
            ChangedTransport(environment.transport) { response in
                if response.providerError?.error == "slow_down" { response.head.status = .tooManyRequests }
            }
        }
        #expect(waits.count == 3 && waits.dropFirst().allSatisfy { $0 >= 10 }, "\(waits)")
    }

    /// Some providers send every error with status 200.
    @Test(arguments: [HTTPResponse.Status.ok, .badRequest]) func continuesPollingAfterAServerErrorWithAnyStatus(
        _ status: HTTPResponse.Status
    ) async throws {
        let waits = try await waits([.error("server_error")]) { environment in
            ChangedTransport(environment.transport) { response in
                if response.providerError?.error == "server_error" { response.head.status = status }
            }
        }
        #expect(waits.count == 2)
    }

    /// The first response, `authorization_pending`, confirms that the URL is that of the token endpoint.
    @Test(arguments: [HTTPResponse.Status.ok, .noContent, .notFound, .found]) func continuesPollingAfterAPageOfAProxy(
        _ status: HTTPResponse.Status
    ) async throws {
        let waits = try await waits([.error("authorization_pending"), .error("access_denied")]) { environment in
            ChangedTransport(environment.transport) { response in
                guard response.providerError?.error == "access_denied" else { return }
                response.head.status = status
                response.body = status == .noContent ? [] : Array("<html></html>".utf8)
            }
        }
        #expect(waits.count == 3)
    }

    /// - Parameter response: The response to the first poll, after which the user never approves the sign-in.
    /// - Returns: The error, and the number of seconds before it was thrown.
    private func failure(after response: DevicePollResponse) async throws -> (error: AuthError?, seconds: Double) {
        let time = VirtualTime()
        return try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            environment.emulator.devicePollResponses = [response]
            let client = try environment.client(
                registration: Self.settings(),
                devicePresenter: DecidingPresenter { _ in },
                flows: [.device],
                host: time.host
            )
            let start = time.now
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            return (error, time.now.timeIntervalSince(start))
        }
    }

    /// The interval of an earlier `slow_down` may be longer than the rest of the code's lifetime.
    @Test func reportsTheExpiryOfACodeAfterASlowDown() async throws {
        let error = try await failure(after: .slowDown(interval: 200)).error
        #expect(error?.code == .timedOut)
        #expect(error?.message.hasPrefix("The code expired") == true, "\(error?.message ?? "")")
    }

    @Test func endsImmediatelyIfTheProviderRequestsALongerIntervalThanTheCodesLifetime() async throws {
        let (error, seconds) = try await failure(after: .slowDown(interval: 10_000))
        #expect(error?.code == .timedOut)
        #expect(error?.message.contains("10000 s") == true)
        #expect(seconds < 60)
    }

    @Test func endsImmediatelyIfTheProviderIsUnavailableUntilTheCodeExpires() async throws {
        let (error, seconds) = try await failure(after: .unavailable(retryAfter: 3600))
        #expect(error?.code == .temporarilyUnavailable)
        #expect(error?.retryAfter == .seconds(3600))
        #expect(seconds < 60)
    }

    /// Twitch sends the error code as the error message.
    @Test func continuesPollingIfTheErrorCodeIsOnlyInTheMessage() async throws {
        let waits = try await waits([.error("authorization_pending")]) { environment in
            ChangedTransport(environment.transport) { response in
                guard let error = response.providerError?.error, error == "authorization_pending" else { return }
                response.body = Array(#"{"status": 400, "message": "\#(error)"}"#.utf8)
            }
        }
        #expect(waits.count == 2)
    }

    private struct ChangedTransport: HTTPTransport {
        let base: any HTTPTransport
        let change: @Sendable (inout TransportResponse) -> Void

        init(_ base: any HTTPTransport, _ change: @escaping @Sendable (inout TransportResponse) -> Void) {
            (self.base, self.change) = (base, change)
        }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            var response = try await base.send(request)
            change(&response)
            return response
        }
    }

    @Test func backsOffWhileTheProviderIsUnavailableAndThenRecovers() async throws {
        let pending = DevicePollResponse.error("authorization_pending")
        let silent = DevicePollResponse.unavailable(retryAfter: nil)
        #expect(try await waits([silent, .brokenGateway, silent, pending]) == [5, 10, 20, 40, 5])
        #expect(try await waits([.unavailable(retryAfter: 33), pending]) == [5, 33, 5])
    }

    /// The code is valid for 600 seconds. The polls at 5, 15, 35, 75, 135, ... fail; the backoff after the last of them would end after the expiry.
    @Test func sendsALastPollBeforeTheCodeExpires() async throws {
        let waits = try await waits([]) { OutageTransport($0.transport, failures: 12) }
        #expect(waits == [595])
    }

    @Test func resumesPollingWhenTheNetworkComesBack() async throws {
        let waits = try await waits([]) { OutageTransport($0.transport, failures: 3) }
        // 5, 10, 20 and 40 seconds; the first three polls did not arrive.
        #expect(waits == [75])
    }

    /// If its timers run fast, the client polls too early, and the emulator increases its interval each time. A
    /// client that never slows down never succeeds.
    @Test(arguments: [1.1, 1.3, 1.8]) func pollingSucceedsWithTimersThatRunFast(_ drift: Double) async throws {
        let waits = try await waits([], drift: drift)
        #expect(waits.count < 8)
    }

    @Test func stopsPollingWhenTheDeviceCodeHasExpired() async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let client = try environment.client(
                registration: Self.settings(),
                devicePresenter: DecidingPresenter { _ in },
                flows: [.device],
                host: time.host
            )
            let began = time.now
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .timedOut)
            #expect(time.now.timeIntervalSince(began) == 600)
            #expect(try await client.credential() == nil)
        }
    }

    @Test func stopsTheDeviceGrantAtOnceWhenItIsCancelled() async throws {
        // With the system clock, the first poll would follow only after the interval of five seconds.
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let (shown, continuation) = AsyncStream.makeStream(of: Void.self)
            let client = try environment.client(
                registration: Self.settings(),
                devicePresenter: DecidingPresenter { _ in continuation.yield() },
                flows: [.device]
            )
            let task = Task { try await client.signIn() }
            for await _ in shown { break }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(!environment.emulator.requests.contains("POST /token"))
        }
    }

    @Test func failsWithTheErrorThatThePresenterThrows() async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            let client = try environment.client(
                registration: Self.settings(),
                devicePresenter: DecidingPresenter { _ in throw AuthError(.userAgentFailed, "No screen.") },
                flows: [.device]
            )
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.message == "No screen.")
        }
    }

    // MARK: Choosing the flow

    @Test func fallsBackToTheDeviceGrantWhenNoUserAgentCanStart() async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            let events = Mutex<[FlowEvent]>([])
            let client = AuthClient(
                client: OAuthClient(
                    server: AuthorizationServer(
                        OIDCProvider(issuer: emulator.issuer),
                        transport: environment.transport,
                        host: time.host
                    ),
                    registration: try ClientRegistration(Self.settings())
                ),
                methods: [
                    .userAgent(AbsentUserAgent()),
                    .device(DecidingPresenter { emulator.decide($0.userCode, as: .alice) }),
                ]
            ) { event in events.withLock { $0.append(event) } }
            #expect(try await client.signIn().credential.identity?.displayName == "Alice Example")
            let choice = events.withLock { $0.first { $0.step == .flowChoice } }
            #expect(choice?.details["passed_over"] == "authorization_code")
        }
    }

    @Test(arguments: [
        EmulatorFault.deviceAuthorization(.member("error", "unauthorized_client")),
        .deviceAuthorization(.response { $0 = .init(head: HTTPResponse(status: .notFound)) }),
        // The default error response of a web framework: the error is not an OAuth error code.
        .deviceAuthorization(
            .response {
                $0 = .init(
                    head: HTTPResponse(status: .notFound),
                    body: Array(#"{"status": 404, "error": "Not Found", "path": "/device"}"#.utf8)
                )
            }
        ),
        .metadata(.member("device_authorization_endpoint", nil)),
    ]) func fallsBackToTheAuthorizationCodeGrantWhenTheDeviceGrantIsUnsupported(_ fault: EmulatorFault) async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = fault
            let settings = try Self.settings()
            let client = try environment.client(
                registration: settings,
                devicePresenter: DecidingPresenter { _ in },
                flows: [.device, .authorizationCode]
            )
            #expect(try await client.signIn().credential.identity?.displayName == "Alice Example")
            let alone = try environment.client(
                registration: Self.settings(),
                devicePresenter: DecidingPresenter { _ in },
                flows: [.device]
            )
            let error = await #expect(throws: AuthError.self) { try await alone.signIn() }
            #expect(error?.code == .unsupported)
        }
    }

    @Test func triesNoOtherGrantOnceTheUserWasShownACode() async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            let settings = try Self.settings()
            let client = try environment.client(
                registration: settings,
                devicePresenter: DecidingPresenter { _ in throw AuthError(.unsupported, "Shown, and gone.") },
                flows: [.device, .authorizationCode],
                host: time.host
            )
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.message == "Shown, and gone.")
            #expect(!emulator.requests.contains("GET /authorize"))
        }
    }
}

/// A user agent that cannot start.
private struct AbsentUserAgent: UserAgent {
    func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        throw AuthError(.userAgentFailed, "No browser.")
    }
}

/// A network that is down during the first polls.
private final class OutageTransport: HTTPTransport {
    private let base: any HTTPTransport
    private let failures: Mutex<Int>

    init(_ base: any HTTPTransport, failures: Int) {
        self.base = base
        self.failures = Mutex(failures)
    }

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        let isDown = failures.withLock { failures in
            guard call.head.path == "/token", failures > 0 else { return false }
            failures -= 1
            return true
        }
        if isDown { throw AuthError(.networkFailed, "The network is down.") }
        return try await base.send(call)
    }
}
