import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Testing

/// Invalid and valid device authorization responses and token responses (RFC 8628 section 3.2).
@Suite struct DeviceGrantFaultsTests {
    struct BadResponse: CustomTestStringConvertible {
        let name: String
        let fault: EmulatorFault
        let code: AuthError.Code
        var testDescription: String { name }
    }

    static let badResponses: [BadResponse] = [
        BadResponse(
            name: "empty device_code",
            fault: .deviceAuthorization(.member("device_code", "")),
            code: .invalidResponse
        ),
        BadResponse(
            name: "no user_code",
            fault: .deviceAuthorization(.member("user_code", nil)),
            code: .invalidResponse
        ),
        BadResponse(
            name: "empty user_code",
            fault: .deviceAuthorization(.member("user_code", "")),
            code: .invalidResponse
        ),
        BadResponse(
            name: "user_code with a terminal escape sequence",
            fault: .deviceAuthorization(.member("user_code", "A\u{1B}[2J")),
            code: .invalidResponse
        ),
        BadResponse(
            name: "endless user_code",
            fault: .deviceAuthorization(.member("user_code", .string(String(repeating: "A", count: 99)))),
            code: .invalidResponse
        ),
        BadResponse(
            name: "no verification_uri",
            fault: .deviceAuthorization(.member("verification_uri", nil)),
            code: .invalidResponse
        ),
        BadResponse(
            name: "javascript URL as verification_uri",
            fault: .deviceAuthorization(.member("verification_uri", "javascript:alert(1)")),
            code: .invalidResponse
        ),
        BadResponse(
            name: "http",
            fault: .deviceAuthorization(.member("verification_uri", "http://id.example.com/device")),
            code: .invalidResponse
        ),
        BadResponse(
            name: "expires_in as a non-numeric string",
            fault: .deviceAuthorization(.member("expires_in", "soon")),
            code: .invalidResponse
        ),
        BadResponse(
            name: "expires_in of zero",
            fault: .deviceAuthorization(.member("expires_in", 0)),
            code: .invalidResponse
        ),
        BadResponse(
            name: "negative expires_in",
            fault: .deviceAuthorization(.member("expires_in", -5)),
            code: .invalidResponse
        ),
        BadResponse(
            name: "non-numeric interval",
            fault: .deviceAuthorization(.member("interval", "often")),
            code: .invalidResponse
        ),
        BadResponse(name: "a page", fault: .deviceAuthorization(.notJSON), code: .invalidResponse),
        BadResponse(name: "nothing", fault: .deviceAuthorization(.empty), code: .invalidResponse),
        BadResponse(
            name: "an HTML page with status 502",
            fault: .deviceAuthorization(.brokenGateway),
            code: .temporarilyUnavailable
        ),
        BadResponse(name: "too much", fault: .deviceAuthorization(.oversized), code: .invalidResponse),
        BadResponse(name: "another address", fault: .deviceAuthorization(.redirected), code: .invalidResponse),
        BadResponse(name: "unavailable", fault: .deviceAuthorization(.unavailable), code: .temporarilyUnavailable),
        BadResponse(
            name: "an error",
            fault: .deviceAuthorization(.member("error", "invalid_scope")),
            code: .providerRejected
        ),
        BadResponse(
            name: "a server error with status 200",
            fault: .deviceAuthorization(.member("error", "server_error")),
            code: .temporarilyUnavailable
        ),
        BadResponse(
            name: "Google's rate limit",
            fault: .deviceAuthorization(
                .response {
                    $0.head.status = .forbidden
                    $0.body = Array(#"{"error_code": "rate_limit_exceeded"}"#.utf8)
                }
            ),
            code: .temporarilyUnavailable
        ),
        BadResponse(
            name: "an interval longer than the code's lifetime",
            fault: .deviceAuthorization(.member("interval", 600)),
            code: .invalidResponse
        ),
        BadResponse(name: "an ID Token with a nonce", fault: .idToken(.claim("nonce", "n")), code: .invalidIDToken),
        BadResponse(name: "a wrong at_hash", fault: .idToken(.wrongAccessTokenHash), code: .invalidIDToken),
        BadResponse(name: "a wrong issuer", fault: .idToken(.wrongIssuer), code: .invalidIDToken),
        BadResponse(name: "an HTML page instead of tokens", fault: .tokenResponse(.notJSON), code: .invalidResponse),
    ]

    @Test(arguments: badResponses) func rejectsBadDeviceAuthorizationAndTokenResponses(
        _ test: BadResponse
    ) async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            emulator.fault = test.fault
            let client = try environment.client(
                registration: EmulatorEnvironment.registration(),
                devicePresenter: DecidingPresenter { emulator.decide($0.userCode, as: .alice) },
                flows: [.device],
                host: time.host
            )
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == test.code, "\(String(describing: error))")
            #expect(try await client.credential() == nil)
        }
    }

    /// A user, or an automated user agent with a password, would visit the URL.
    @Test(
        arguments: ["verification_uri", "verification_uri_complete"],
        ["http://127.0.0.1:8080/", "http://localhost/", "https://192.168.1.1/"]
    )
    func aPublicProviderCannotDirectTheUserToALocalAddress(_ member: String, _ uri: String) async throws {
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .deviceAuthorization(.member(member, .string(uri)))
            let registration = try ClientRegistration(EmulatorEnvironment.registration())
            let client = OAuthClient(server: environment.server(), registration: registration)
            let error = await #expect(throws: AuthError.self) { try await client.deviceAuthorization() }
            #expect(error?.code == .invalidResponse)
            #expect(error?.message.contains("a loopback or private network address") == true)
        }
    }

    /// The user enters the code at `verification_uri` instead.
    @Test(arguments: ["file:///etc/passwd", "javascript:alert(1)", "", "http://id.example.com/device?user_code=1"])
    func anUnusableVerificationURIWithTheCodeIsNotShown(_ uri: String) async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            emulator.fault = .deviceAuthorization(.member("verification_uri_complete", .string(uri)))
            let client = try environment.client(
                registration: EmulatorEnvironment.registration(),
                devicePresenter: DecidingPresenter { authorization in
                    #expect(authorization.verificationURIComplete == nil)
                    emulator.decide(authorization.userCode, as: .alice)
                },
                flows: [.device],
                host: time.host
            )
            _ = try await client.signIn()
        }
    }

    /// On a site with client-side routing, the fragment identifies the page, so the user must be shown all of the URL.
    @Test func theVerificationURIsMayHaveAFragment() async throws {
        let uri = "https://id.example.com/start/#/device"
        try await EmulatorEnvironment.with(.inProcess) { environment in
            environment.emulator.fault = .deviceAuthorization(
                .members { members in
                    members["verification_uri"] = .string(uri)
                    members["verification_uri_complete"] = .string("\(uri)?user_code=ABCD")
                }
            )
            let registration = try ClientRegistration(EmulatorEnvironment.registration())
            let client = OAuthClient(server: environment.server(), registration: registration)
            let authorization = try await client.deviceAuthorization()
            #expect(authorization.verificationURI.url == uri)
            #expect(authorization.verificationURI.path == "/start/")
            let complete = try #require(authorization.verificationURIComplete)
            #expect(complete.url == "\(uri)?user_code=ABCD")
            #expect(complete.query == nil)
            #expect("\(complete)" == "https://id.example.com/start/#/device?user_code=…")
            // A headless browser does not send the fragment.
            #expect(TransportRequest(.get, complete).url == "https://id.example.com/start/")
        }
    }

    static let tolerated: [EmulatorFault] = [
        .deviceAuthorization(.member("interval", nil)),
        .deviceAuthorization(.member("interval", 0)),
        .deviceAuthorization(.member("interval", "5")),
        .deviceAuthorization(.member("expires_in", "600")),
        .deviceAuthorization(.member("verification_uri_complete", nil)),
        .deviceAuthorization(.member("verification_uri_complete", "")),
        .deviceAuthorization(.members { $0["verification_url"] = $0.removeValue(forKey: "verification_uri") }),
    ]

    @Test(arguments: tolerated) func toleratesUnusualDeviceAuthorizationResponses(_ fault: EmulatorFault) async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            emulator.fault = fault
            let client = try environment.client(
                registration: EmulatorEnvironment.registration(),
                devicePresenter: DecidingPresenter { emulator.decide($0.userCode, as: .alice) },
                flows: [.device],
                host: time.host
            )
            _ = try await client.signIn()
            #expect(emulator.requests.count { $0 == "POST /token" } <= 3)
        }
    }
}
