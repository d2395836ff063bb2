import AuthFlow
import AuthFlowGitHub
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes
import Testing

/// The device flow in each of GitHub's response formats.
@Suite struct GitHubDeviceFlowTests {
    @Test(arguments: EmulatorEnvironment.Setting.allCases, GitHubEmulator.Format.allCases)
    func signsInWithTheDeviceFlowWithoutASecret(_ setting: EmulatorEnvironment.Setting, _ format: GitHubEmulator.Format)
        async throws
    {
        let time = VirtualTime()
        try await GitHubEnvironment.with(setting, apps: [.init(kind: .expiringOAuthApp)], now: { time.now }) {
            environment in
            environment.emulator.settings.format = format
            let settings = try environment.settings(secret: nil)
            let client = try environment.client(registration: settings, flows: [.device], host: time.host)
            let credential = try await client.signIn().credential
            #expect(credential.identity?.subject == "583231")
            #expect(credential.tokens.scopes == ["user:email", "gist"])
            // Tokens from the device flow can also be refreshed without a client secret.
            let refreshed = try await client.refresh()
            #expect(refreshed.tokens.accessToken != credential.tokens.accessToken)
        }
    }

    @Test(arguments: GitHubEmulator.Format.allCases)
    func readsTheNewPollingIntervalInEveryFormat(_ format: GitHubEmulator.Format) async throws {
        // If the client's timers run fast, the emulator's interval grows to 10, 15, 20 ... seconds, and each response
        // contains it.
        let time = VirtualTime(drift: 1.5)
        try await GitHubEnvironment.with(.inProcess, now: { time.now }) { environment in
            environment.emulator.settings.format = format
            let client = try environment.client(flows: [.device], host: time.host)
            _ = try await client.signIn()
            let polls = environment.emulator.requests.count { $0 == "POST /login/oauth/access_token" }
            #expect((2...6).contains(polls))
        }
    }

    struct Ending: CustomTestStringConvertible {
        let name: String
        let code: AuthError.Code
        let error: String?
        var testDescription: String { name }
    }

    static let endings: [Ending] = [
        Ending(name: "denied", code: .accessDenied, error: "access_denied"),
        Ending(name: "expired", code: .timedOut, error: nil),
    ]

    @Test(arguments: endings)
    func stopsADeniedOrExpiredDeviceFlow(_ test: Ending) async throws {
        let time = VirtualTime()
        try await GitHubEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            let client = AuthClient(
                client: OAuthClient(
                    server: AuthorizationServer(
                        try environment.provider(),
                        transport: environment.transport,
                        host: time.host
                    ),
                    registration: try ClientRegistration(try environment.settings())
                ),
                methods: [
                    .device(
                        DecidingPresenter {
                            if test.name == "denied" { emulator.decide($0.userCode, as: nil) }
                        }
                    )
                ]
            )
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == test.code)
            #expect(error?.providerError?.error == test.error)
            #expect(try await client.credential() == nil)
        }
    }

    /// Both documented spellings of the same error, and the other errors that end a device flow.
    @Test(arguments: [
        ("expired_token", AuthError.Code.timedOut), ("token_expired", .timedOut), ("access_denied", .accessDenied),
        ("incorrect_device_code", .providerRejected), ("unsupported_grant_type", .providerRejected),
        ("incorrect_client_credentials", .providerRejected), ("device_flow_disabled", .providerRejected),
    ]) func mapsEveryErrorThatEndsTheDeviceFlow(_ error: String, _ code: AuthError.Code) async throws {
        let time = VirtualTime()
        try await GitHubEnvironment.with(.inProcess, now: { time.now }) { environment in
            environment.emulator.settings.fault = .tokenResponse(
                .members { $0 = ["error": .string(error), "error_description": "words"] }
            )
            let client = try environment.client(flows: [.device], host: time.host)
            let thrown = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(thrown?.code == code)
            #expect(thrown?.providerError?.error == error)
        }
    }

    @Test(arguments: [200, 400])
    func fallsBackToTheAuthorizationCodeGrantWhenTheDeviceFlowIsDisabled(_ status: Int) async throws {
        try await GitHubEnvironment.with(.inProcess, apps: [.init(hasDeviceFlow: false)]) { environment in
            environment.emulator.settings.errorStatus = status
            let signIn = try await environment.client(flows: [.device, .authorizationCode]).signIn()
            #expect(signIn.identity?.subject == "583231")
        }
    }

    @Test func fallsBackToTheAuthorizationCodeGrantOnAnOldServerWithoutDeviceFlow() async throws {
        try await GitHubEnvironment.with(.sockets) { environment in
            environment.emulator.settings.hasDeviceFlow = false
            let signIn = try await environment.client(flows: [.device, .authorizationCode]).signIn()
            #expect(signIn.identity?.subject == "583231")
        }
    }
}
