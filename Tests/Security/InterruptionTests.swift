import AuthFlow
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// A signal to the real tool while a token response is in transit, when the provider has already rotated the token.
@Suite struct InterruptionTests {
    private static let environment = ["PASSWORD": "wonderland"]

    private static func isTokenRequest(_ grant: String) -> @Sendable (HTTPRequest, [UInt8]) -> Bool {
        { request, body in
            request.path == "/token" && String(decoding: body, as: UTF8.self).contains("grant_type=\(grant)")
        }
    }

    private func withProvider(
        holding grant: String,
        _ body: @Sendable (_ emulator: OIDCEmulator, _ provider: HeldBack, _ path: String) async throws -> Void
    ) async throws {
        let made = Mutex<OIDCEmulator?>(nil)
        try await EmulatorServer.run { issuer in
            let emulator = try OIDCEmulator(issuer: issuer)
            made.withLock { $0 = emulator }
            return HeldBack(emulator, Self.isTokenRequest(grant))
        } _: { provider in
            let emulator = try #require(made.withLock { $0 })
            let text = CommandHarness.profile(
                emulator.issuer,
                ["scopes": #"["openid", "profile", "offline_access"]"#]
            )
            try await CommandHarness.withConfiguration(text) { path, _ in try await body(emulator, provider, path) }
        }
    }

    @Test(arguments: [SIGINT, SIGTERM, SIGHUP, SIGQUIT])
    func aSignalDuringARefreshStillStoresTheNewTokens(_ signal: Int32) async throws {
        try await withProvider(holding: "refresh_token") { emulator, provider, path in
            emulator.accessTokenLifetime = 0
            let login = try await CommandHarness.run(["login", "--config", path], environment: Self.environment)
            #expect(login.status == 0, "\(login.standardError)")
            emulator.accessTokenLifetime = 3600
            let process = Mutex<Int32>(0)
            async let interrupted = CommandHarness.run(
                ["token", "--config", path],
                environment: Self.environment,
                started: { identifier in process.withLock { $0 = identifier } }
            )
            await provider.arrival()
            kill(process.withLock { $0 }, signal)
            provider.release()
            let outcome = try await interrupted
            #expect(outcome.status == 130, "\(outcome.standardError)")
            #expect(outcome.output.isEmpty)
            // The new refresh token is stored. Reusing the old refresh token would end the session.
            let next = try await CommandHarness.run(["token", "--config", path], environment: Self.environment)
            #expect(next.status == 0, "\(next.standardError)")
            let status = try await CommandHarness.run(["status", "--config", path], environment: Self.environment)
            #expect(status.status == 0)
        }
    }

    /// The profile's token requires an assertion from the sign-in of another profile, whose refresh token is rotated.
    @Test func aSignalDuringTheRefreshOfAnAssertionsSignInWaitsForItsTokens() async throws {
        try await withProvider(holding: "refresh_token") { work, provider, path in
            let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
            let configuration = """
                {"default_profile": "api", "profiles": {
                  "work": {
                    "provider": "oidc", "issuer": "\(work.issuer)", "client_id": "authflow-demo",
                    "scopes": ["openid", "offline_access"], "store": {"name": "file", "directory": "\(folder)/store"},
                    "user_agent": {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": ["\(work.issuer)"]}
                  },
                  "api": {
                    "provider": "oidc", "issuer": "\(work.issuer)", "client_id": "authflow-demo", "flow": "jwt_bearer",
                    "scopes": ["chat.read"], "store": {"name": "file", "directory": "\(folder)/store"},
                    "assertion": {"name": "profile", "profile": "work"}
                  }
                }}
                """
            try Data(configuration.utf8).write(to: URL(fileURLWithPath: path))
            work.accessTokenLifetime = 0
            let login = try await CommandHarness.run(
                ["login", "--config", path, "--profile", "work"],
                environment: Self.environment
            )
            #expect(login.status == 0, "\(login.standardError)")
            work.accessTokenLifetime = 3600
            let process = Mutex<Int32>(0)
            async let interrupted = CommandHarness.run(
                ["token", "--config", path],
                environment: Self.environment,
                started: { identifier in process.withLock { $0 = identifier } },
                interruptWhen: { said in
                    // The tool waits for the response of the other profile's provider.
                    if said.hasSuffix("may end your session.\n") { provider.release() }
                    return false
                }
            )
            await provider.arrival()
            kill(process.withLock { $0 }, SIGINT)
            let outcome = try await interrupted
            provider.release()
            #expect(outcome.status == 130, "\(outcome.standardError)")
            #expect(outcome.standardError.contains("any new token was stored"), "\(outcome.standardError)")
            let next = try await CommandHarness.run(["token", "--config", path, "--profile", "work"])
            #expect(next.status == 0, "\(next.standardError)")
        }
    }

    /// timeout(1) signals its child, and then the process group of both. When a terminal is closed, the process may
    /// also receive the signal twice: from the kernel and from the shell.
    @Test(arguments: [SIGINT, SIGTERM, SIGHUP]) func aSignalThatIsSentTwiceCountsOnce(_ signal: Int32) async throws {
        try await withProvider(holding: "refresh_token") { emulator, provider, path in
            emulator.accessTokenLifetime = 0
            _ = try await CommandHarness.run(["login", "--config", path], environment: Self.environment)
            emulator.accessTokenLifetime = 3600
            let process = Mutex<Int32>(0)
            async let interrupted = CommandHarness.run(
                ["token", "--config", path],
                environment: Self.environment,
                started: { identifier in process.withLock { $0 = identifier } },
                interruptWhen: { said in
                    if said.hasSuffix("may end your session.\n") {
                        kill(process.withLock { $0 }, signal)
                        provider.release()
                    }
                    return false
                }
            )
            await provider.arrival()
            kill(process.withLock { $0 }, signal)
            #expect(try await interrupted.status == 130)
            let next = try await CommandHarness.run(["token", "--config", path], environment: Self.environment)
            #expect(next.status == 0, "\(next.standardError)")
        }
    }

    @Test func aSignalDuringACodeExchangeStillStoresTheTokens() async throws {
        try await withProvider(holding: "authorization_code") { _, provider, path in
            let process = Mutex<Int32>(0)
            async let interrupted = CommandHarness.run(
                ["login", "--config", path],
                environment: Self.environment,
                started: { identifier in process.withLock { $0 = identifier } }
            )
            await provider.arrival()
            kill(process.withLock { $0 }, SIGINT)
            provider.release()
            #expect(try await interrupted.status == 130)
            let token = try await CommandHarness.run(["token", "--config", path], environment: Self.environment)
            #expect(token.status == 0, "\(token.standardError)")
        }
    }

    @Test func aSecondSignalEndsTheToolAtOnce() async throws {
        try await withProvider(holding: "refresh_token") { emulator, provider, path in
            emulator.accessTokenLifetime = 0
            _ = try await CommandHarness.run(["login", "--config", path], environment: Self.environment)
            let process = Mutex<Int32>(0)
            async let interrupted = CommandHarness.run(
                ["token", "--config", path],
                environment: Self.environment,
                started: { identifier in process.withLock { $0 = identifier } }
            )
            await provider.arrival()
            let identifier = process.withLock { $0 }
            // Signals are sent until the tool exits: a signal that arrives before the first signal was handled does
            // not count as the second.
            let killer = Task {
                while !Task.isCancelled {
                    kill(identifier, SIGINT)
                    await Task.yield()
                }
            }
            let outcome = try await interrupted
            killer.cancel()
            #expect(outcome.status == 130)
            // The timeout did not expire; if it had, the tool would have reported it.
            #expect(!outcome.standardError.contains("in time"), "\(outcome.standardError)")
            provider.release()
        }
    }
}
