import AuthFlow
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// The behavior of several processes that share one sign-in and one store.
@Suite struct ProcessesTests {
    private func step(_ arguments: String...) async throws -> String {
        try await CommandHarness.run(arguments, program: "sign-in-steps").output
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    @Test func aSignInStartedInOneProcessIsFinishedOnceInAnother() async throws {
        try await EmulatorEnvironment.with(.sockets) { environment in
            try await CommandHarness.withConfiguration("{}") { _, folder in
                let (issuer, store) = (environment.emulator.issuer, "\(folder)/store")
                let url = try await step("begin", issuer, store)
                let callback = try await environment.visit(url)
                #expect(try await step("finish", issuer, store, callback) == "Alice Example")
                #expect(try await step("token", issuer, store) == "openid profile offline_access")
                let replay = try await step("finish", issuer, store, callback)
                #expect(replay.contains("the request was already used"), "\(replay)")
                #expect(environment.emulator.requests.count { $0 == "POST /token" } == 1)
            }
        }
    }

    @Test func aSealedAuthorizationRequestIsFinishedInAnotherProcess() async throws {
        try await EmulatorEnvironment.with(.sockets) { environment in
            let (issuer, key) = (environment.emulator.issuer, String(repeating: "k", count: 43))
            let lines = try await step("seal", issuer, key).split(separator: "\n").map(String.init)
            try #require(lines.count == 2)
            let callback = try await environment.visit(lines[0])
            #expect(try await step("open", issuer, key, lines[1], callback) == "Alice Example")
            let replay = try await step("open", issuer, key, lines[1], callback)
            #expect(replay.contains("error"), "The server rejects the code: \(replay)")
            let stranger = try await step("open", issuer, String(repeating: "x", count: 43), lines[1], callback)
            #expect(stranger.contains("cannot be opened"))
        }
    }

    @Test func saysThatTheLimitOnOpenFilesIsTooLow() async throws {
        let program = CommandHarness.folder.appendingPathComponent("authflow").path
        let outcome = try await CommandHarness.run(
            ["-c", #"ulimit -n 10; exec "$0" config presets"#, program],
            program: "/bin/sh"
        )
        #expect(outcome.status == 1 && outcome.output.isEmpty)
        #expect(outcome.standardError.contains("The limit on open files is too low"), "\(outcome.standardError)")
    }

    /// A user who has forgotten the input presses Ctrl-C.
    @Test(
        "a signal cancels a command that waits for its input",
        arguments: [
            ["credential", "git", "get"], ["credential", "docker", "get"], ["handle-redirect"],
            ["access-token", "check", "--config", "authflow.json"],
            ["curl", "--config", "authflow.json", "--data", "@-", "https://127.0.0.1:1/"],
            ["curl", "--config", "authflow.json", "--data", "@input", "https://127.0.0.1:1/"],
            ["client-metadata", "check", "--file", "input", "https://app.example.com/client"],
        ]
    ) func aSignalCancelsACommandThatWaitsForItsInput(_ arguments: [String]) async throws {
        let api = """
            {"resource_server": {"resource": "https://api.example.com/", "issuers": ["https://127.0.0.1:1"]}}
            """
        // The pipe has a writer, this script, that writes nothing. The signal is sent once the program handles it: SIGTERM is bit 14 of the
        // mask (proc(5)).
        let script = #"""
            mkfifo input && exec 3<> input || exit 99
            "$0" "$@" < input 3<&- &
            until grep -q '^SigCgt:.*[4567cdef]...$' "/proc/$!/status"; do :; done
            kill -s TERM $!
            wait $!
            """#
        try await CommandHarness.withConfiguration(api) { _, folder in
            let program = CommandHarness.folder.appendingPathComponent("authflow").path
            let outcome = try await CommandHarness.run(
                ["-c", script, program] + arguments,
                program: "/bin/sh",
                environment: ["HOME": folder, "XDG_RUNTIME_DIR": folder],
                folder: folder
            )
            #expect(outcome.status == 130 && outcome.output.isEmpty, "\(outcome)")
            // Without the cancellation, the program exits without a message when the time limit for cancelled work is reached.
            #expect(outcome.standardError.hasSuffix("Cancelled.\n"), "\(outcome)")
        }
    }

    /// An emulator with a delayed token endpoint.
    private struct HoldingEmulator: ProviderEmulator {
        let base: OIDCEmulator
        let held: @Sendable (HTTPRequest) async -> Void
        var origins: [String] { base.origins }
        func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
            await held(request)
            return await base.handle(request, body: body)
        }
    }

    /// A refresh that waits for the provider's response.
    private struct HeldRefresh {
        let process: Int32
        let folder: String
        let issuer: String
        /// Lets the provider respond.
        let release: () -> Void
        let outcome: Task<CommandHarness.Outcome, any Error>
    }

    /// - Parameter command: The command that refreshes the tokens. Its input names the registry for Docker's helper.
    private func withHeldRefresh(
        by command: [String] = ["token"],
        _ body: (HeldRefresh) async throws -> Void
    ) async throws {
        let isHeld = Mutex(false)
        let hasArrived = Mutex(false)
        let (arrived, arrival) = AsyncStream<Void>.makeStream()
        let (released, release) = AsyncStream<Void>.makeStream()
        try await EmulatorServer.run { issuer in
            let base = try OIDCEmulator(issuer: issuer)
            base.accessTokenLifetime = 0
            return HoldingEmulator(base: base) { request in
                guard request.path == "/token", isHeld.withLock({ $0 }) else { return }
                hasArrived.withLock { $0 = true }
                arrival.finish()
                for await _ in released {}
            }
        } _: { emulator in
            let profile = CommandHarness.profile(
                emulator.base.issuer,
                [
                    "scopes": #"["openid", "profile", "offline_access"]"#,
                    "helpers": #"{"docker": {"registries": ["r.example.com"]}}"#,
                ]
            )
            let program = CommandHarness.folder.appendingPathComponent("authflow").path
            try await CommandHarness.withConfiguration(profile) { path, folder in
                let login = try await CommandHarness.run(
                    ["login", "--config", path],
                    environment: ["PASSWORD": "wonderland"]
                )
                try #require(login.status == 0, "\(login.standardError)")
                isHeld.withLock { $0 = true }
                let process = Mutex<Int32>(0)
                let outcome = Task<CommandHarness.Outcome, any Error> {
                    defer { arrival.finish() }
                    return try await CommandHarness.run(
                        ["-c", "exec \"$0\" \"$@\" <<END\nr.example.com\nEND", program] + command + ["--config", path],
                        program: "/bin/sh",
                        environment: ["PASSWORD": "wonderland"],
                        started: { number in process.withLock { $0 = number } }
                    )
                }
                for await _ in arrived {}
                defer { release.finish() }
                // Otherwise the process has already exited.
                try #require(hasArrived.withLock { $0 })
                try await body(
                    HeldRefresh(
                        process: process.withLock { $0 },
                        folder: folder,
                        issuer: emulator.base.issuer,
                        release: { release.finish() },
                        outcome: outcome
                    )
                )
            }
        }
    }

    /// Log rotation or another program may send such signals, whose default action is to terminate the process.
    @Test(arguments: [SIGUSR1, SIGUSR2]) func aSignalWithoutAMeaningDoesNotEndARefresh(_ signal: Int32) async throws {
        try await withHeldRefresh { refresh in
            kill(refresh.process, signal)
            refresh.release()
            let outcome = try await refresh.outcome.value
            #expect(outcome.status == 0, "\(outcome.standardError)")
        }
    }

    /// The refreshed tokens are stored.
    @Test(arguments: [SIGTERM, SIGALRM]) func aRefreshIsCompletedAfterASignalThatEndsTheProcess(_ signal: Int32)
        async throws
    {
        try await withHeldRefresh { refresh in
            let store = FileTokenStore(directory: "\(refresh.folder)/store")
            let key = RecordKey(name: "work", issuer: refresh.issuer, clientID: "authflow-demo")
            let before = try #require(try await store.bytes(for: key))
            kill(refresh.process, signal)
            refresh.release()
            let outcome = try await refresh.outcome.value
            #expect(outcome.status == 130, "\(outcome.standardError)")
            #expect(try await store.bytes(for: key) != before)
        }
    }

    /// Docker shows the helper's output as an error message.
    @Test func dockersHelperPrintsNothingAfterASignal() async throws {
        try await withHeldRefresh(by: ["credential", "docker", "get"]) { refresh in
            kill(refresh.process, SIGTERM)
            refresh.release()
            let outcome = try await refresh.outcome.value
            #expect(outcome.status == 130 && outcome.output.isEmpty, "\(outcome.output)\(outcome.standardError)")
        }
    }

    /// A process is stopped in the middle of a refresh for longer than its lease. Another process takes over, and its
    /// writes are not overwritten.
    @Test func aProcessStoppedBeyondItsLeaseDoesNotOverwriteTheRecord() async throws {
        try await withHeldRefresh { refresh in
            kill(refresh.process, SIGSTOP)
            refresh.release()
            // This store waits for a hundredth of the time, and the stopped process does not renew its lease in the
            // meantime.
            let store = FileTokenStore(directory: "\(refresh.folder)/store", clock: FastClock())
            let key = RecordKey(name: "work", issuer: refresh.issuer, clientID: "authflow-demo")
            let stored = try #require(try await store.bytes(for: key))
            // Another process has refreshed the credential in the meantime, and the new access token is fresh.
            let written = Array(
                String(decoding: stored, as: UTF8.self)
                    .replacing(/"expires_at": [0-9.]+/, with: "\"expires_at\": 4000000000").utf8
            )
            try #require(written != stored)
            try await store.set(written, for: key)
            kill(refresh.process, SIGCONT)
            let outcome = try await refresh.outcome.value
            #expect(try await store.bytes(for: key) == written, "\(outcome.standardError)")
        }
    }
}

/// A clock whose sleeps take a hundredth of their duration.
private struct FastClock: Clock {
    typealias Instant = ContinuousClock.Instant
    var now: Instant { .now }
    var minimumResolution: Duration { .zero }
    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        try await ContinuousClock().sleep(for: (deadline - .now) / 100)
    }
}
