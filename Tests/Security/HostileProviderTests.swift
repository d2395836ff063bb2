import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// The command-line tool against providers with unusual responses over real sockets: its messages, its exit status,
/// and the text that it must never print.
@Suite struct HostileProviderTests {
    private static let environment = ["PASSWORD": "wonderland"]

    private typealias Responder = @Sendable (_ path: String, _ body: String) async -> TransportResponse?

    /// An emulator with some responses replaced.
    private func withProvider(
        _ changes: [String: String?] = [:],
        responding respond: @escaping Responder = { _, _ in nil },
        _ body: @Sendable (_ emulator: OIDCEmulator, _ witness: Witness, _ path: String) async throws -> Void
    ) async throws {
        let made = Mutex<OIDCEmulator?>(nil)
        try await EmulatorServer.run { issuer in
            let emulator = try OIDCEmulator(issuer: issuer)
            made.withLock { $0 = emulator }
            return Witness(issuer) { request, body in
                let path = String((request.path ?? "").prefix { $0 != "?" })
                if let response = await respond(path, String(decoding: body, as: UTF8.self)) { return response }
                return await emulator.handle(request, body: body)
            }
        } _: { witness in
            let emulator = try #require(made.withLock { $0 })
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, changes)) { path, _ in
                try await body(emulator, witness, path)
            }
        }
    }

    private func run(_ arguments: String...) async throws -> CommandHarness.Outcome {
        try await CommandHarness.run(arguments, environment: Self.environment)
    }

    private static let longScopes: [String: String?] = ["scopes": #"["openid", "profile", "offline_access"]"#]

    /// C0 and C1 control characters, a bidirectional override and an invisible character.
    private static let hostileText = "\u{1B}]0;owned\u{7}\u{9B}2J\u{202E}\u{200B}"

    private func isClean(_ text: String) -> Bool {
        !text.unicodeScalars.contains { $0 != "\n" && ($0.value < 32 || DisplayText.isInvisible($0)) }
    }

    // MARK: Exit statuses

    private struct Failing: CustomTestStringConvertible, Sendable {
        let name: String
        let path: String
        let response: TransportResponse
        let status: Int32
        let words: String
        var testDescription: String { name }
    }

    private static let failures: [Failing] = [
        Failing(
            name: "discovery redirects to another host",
            path: "/.well-known/openid-configuration",
            response: .redirect("https://other.example.com/"),
            status: 7,
            words: "redirect"
        ),
        Failing(
            name: "discovery with a server error",
            path: "/.well-known/openid-configuration",
            response: .text("", status: .badGateway),
            status: 7,
            words: "502"
        ),
        Failing(
            name: "a token endpoint with a server error",
            path: "/token",
            response: .text("", type: "text/html", status: .serviceUnavailable),
            status: 7,
            words: "503"
        ),
        Failing(
            name: "too many requests, with Retry-After",
            path: "/token",
            response: TransportResponse(
                head: HTTPResponse(status: .tooManyRequests, headerFields: [.retryAfter: "17"]),
                body: Array(#"{"error": "slow", "error_description": "Mind the limit."}"#.utf8)
            ),
            status: 7,
            words: "17 s"
        ),
        Failing(
            name: "an access token with control characters",
            path: "/token",
            response: .text(#"{"access_token": "a\u001b[2Jb", "token_type": "Bearer"}"#),
            status: 1,
            words: "access_token"
        ),
        Failing(
            name: "a token type with a line break",
            path: "/token",
            response: .text(#"{"access_token": "a", "token_type": "Bear\ner"}"#),
            status: 1,
            words: "token_type"
        ),
    ]

    @Test(arguments: failures) private func reportsProviderErrorsWithTheirExitStatus(_ test: Failing) async throws {
        try await withProvider {
            [test] path, _ in
            path == test.path ? test.response : nil
        } _: { _, _, path in
            let outcome = try await run("login", "--config", path)
            #expect(outcome.status == test.status, "\(outcome.standardError)")
            #expect(outcome.standardError.contains(test.words), "\(outcome.standardError)")
            #expect(isClean(outcome.standardError))
            #expect(outcome.output.isEmpty)
        }
    }

    @Test func failsAtOnceIfPARIsRequiredButHasNoEndpoint() async throws {
        let bend = MetadataFault.members { $0["require_pushed_authorization_requests"] = true }
        try await withProvider { emulator, witness, path in
            emulator.fault = .metadata(bend)
            let login = try await run("login", "--config", path)
            #expect(login.status == 1)
            #expect(login.standardError.contains("pushed authorization request"), "\(login.standardError)")
            #expect(!witness.requests.contains { $0.contains("/authorize") })
            let doctor = try await run("doctor", "--config", path)
            #expect(doctor.status == 1)
            #expect(doctor.output.contains("!!  PAR"))
        }
    }

    @Test func doctorFindsMetadataThatWouldBreakASignIn() async throws {
        let bend = MetadataFault.members {
            $0["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
            $0["code_challenge_methods_supported"] = ["plain"]
        }
        let changes: [String: String?] = [
            "client_secret": #"{"env": "PASSWORD"}"#, "scopes": #"["profile", "offline_access"]"#,
        ]
        try await withProvider(changes) { emulator, _, path in
            emulator.fault = .metadata(bend)
            let doctor = try await run("doctor", "--config", path)
            #expect(doctor.status == 1)
            for line in ["!!  client", "!!  PKCE", "--  user", "--  scopes"] {
                #expect(doctor.output.contains(line), "\(line): \(doctor.output)")
            }
            #expect(!doctor.output.split(separator: "\n", omittingEmptySubsequences: false).dropLast().contains(""))
            #expect(isClean(doctor.output))
        }
    }

    // MARK: Sessions

    @Test func anIncompleteSignOutExitsWithStatus9() async throws {
        try await withProvider {
            path,
            _ in
            path == "/revoke" ? .text("", status: .internalServerError) : nil
        } _: { _, _, path in
            #expect(try await run("login", "--config", path).status == 0)
            let outcome = try await run("logout", "--config", path)
            #expect(outcome.status == 9, "\(outcome.standardError)")
            #expect(outcome.standardError.contains("is signed out on this machine"))
            #expect(try await run("status", "--config", path).status == 4)
        }
    }

    @Test func anExpiredTokenWithoutARefreshTokenExitsWithStatus4() async throws {
        try await withProvider { emulator, _, path in
            emulator.accessTokenLifetime = 1
            #expect(try await run("login", "--config", path).status == 0)
            var outcome = try await run("status", "--config", path)
            while outcome.status == 0 { outcome = try await run("status", "--config", path) }
            #expect(outcome.status == 4, "\(outcome.output)\(outcome.standardError)")
            #expect(outcome.standardError.contains("expired"), "\(outcome.standardError)")
        }
    }

    @Test func repeatedRejectionsWithoutErrorCodeRequireSignInButRetainTheCredential() async throws {
        let isOver = Mutex(false)
        try await withProvider(Self.longScopes) { path, body in
            path == "/token" && isOver.withLock { $0 } ? .text("", status: .badRequest) : nil
        } _: { emulator, _, path in
            emulator.accessTokenLifetime = 0
            #expect(try await run("login", "--config", path).status == 0)
            isOver.withLock { $0 = true }
            _ = try await run("token", "--config", path)
            let second = try await run("token", "--config", path)
            #expect(second.status == 4, "\(second.standardError)")
            // The provider's error may have been temporary.
            isOver.withLock { $0 = false }
            emulator.accessTokenLifetime = 3600
            #expect(try await run("token", "--config", path).status == 0)
        }
    }

    @Test func shortLivedTokensAreNotRefreshedByEveryProcess() async throws {
        try await withProvider(Self.longScopes) { emulator, witness, path in
            emulator.accessTokenLifetime = 30
            #expect(try await run("login", "--config", path).status == 0)
            let tokens = try await withThrowingTaskGroup(of: CommandHarness.Outcome.self) { group in
                for _ in 0..<12 { group.addTask { try await run("token", "--config", path, "--min-ttl", "60") } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(tokens.allSatisfy { $0.status == 0 })
            // A token is replaced after three quarters of its lifetime, which may elapse on a slow machine.
            #expect(witness.requests.count { $0 == "POST /token" } <= 3)
        }
    }

    @Test func aDeniedSecondSignInKeepsTheFirstSession() async throws {
        try await withProvider { emulator, _, path in
            #expect(try await run("login", "--config", path).status == 0)
            let agent = """
                {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, \
                "origins": ["\(emulator.issuer)"], "consent": "deny"}
                """
            let text = CommandHarness.profile(emulator.issuer, ["user_agent": agent])
            try Data(text.utf8).write(to: URL(fileURLWithPath: path))
            let outcome = try await run("login", "--config", path)
            #expect(outcome.status == 5)
            #expect(!outcome.standardError.localizedCaseInsensitiveContains("no user is signed in"))
            #expect(try await run("token", "--config", path).status == 0)
        }
    }

    // MARK: Displayed text

    @Test func escapesProviderTextInAllOutput() async throws {
        let hostile = Self.hostileText
        #expect(!isClean(hostile))
        let bend = MetadataFault.members {
            $0["service_documentation"] = .string("https://id.example.com/\(hostile)")
            $0["scopes_supported"] = [.string(hostile)]
        }
        try await withProvider {
            path,
            _ in
            path == "/userinfo" ? .text("{\"sub\": \"248289761001\", \"name\": \"x\u{202E}\u{9B}y\"}") : nil
        } _: { emulator, _, path in
            emulator.fault = .metadata(bend)
            for arguments in [["discover"], ["login"], ["userinfo"], ["status", "--json"], ["doctor"]] {
                let outcome = try await CommandHarness.run(
                    arguments + ["--config", path],
                    environment: Self.environment
                )
                #expect(isClean(outcome.output + outcome.standardError), "\(arguments): \(outcome.output)")
                // If the provider's text is part of the result, it is printed, but escaped.
                let isEscaped = outcome.output.contains("\\u202e")
                #expect(
                    isEscaped == ["discover", "userinfo", "status"].contains(arguments[0]),
                    "\(arguments): \(outcome)"
                )
            }
        }
    }

    @Test func noBrowserPrintsTheURLAndDoesNotClaimToOpenABrowser() async throws {
        try await withProvider(["user_agent": nil]) { _, _, path in
            let outcome = try await CommandHarness.run(
                ["login", "--no-browser", "--config", path],
                environment: Self.environment,
                interruptWhen: { $0.contains("/authorize?") }
            )
            #expect(outcome.status == 130)
            #expect(outcome.standardError.contains("/authorize?"), "\(outcome.standardError)")
            #expect(!outcome.standardError.contains("opens automatically"))
        }
    }

    // MARK: Registration

    @Test func registerStoresAClientSecretIfTheResponseOmitsTheAuthMethod() async throws {
        // RFC 7591 section 2: "If unspecified or omitted, the default is 'client_secret_basic'".
        let response = #"{"client_id": "new-client", "client_secret": "s3cr3t-of-the-client"}"#
        try await withProvider {
            path,
            _ in
            path == "/register" ? .text(response, status: .created) : nil
        } _: { emulator, _, path in
            let output = "\(path).new"
            let outcome = try await run("register", emulator.issuer, "--output", output, "--name", "T")
            #expect(outcome.status == 0, "\(outcome.standardError)")
            #expect(try String(contentsOfFile: output, encoding: .utf8).contains("client-secret"))
            let secret = try String(contentsOfFile: "\(output).client-secret", encoding: .utf8)
            #expect(secret == "s3cr3t-of-the-client\n")
            #expect(!(outcome.standardError + outcome.output).contains("s3cr3t"))
        }
    }

    @Test func aClientWhoseRegistrationCannotBeStoredIsNamed() async throws {
        try await CommandHarness.withConfiguration("{}") { _, folder in
            let output = "\(folder)/new.json"
            try await withProvider { path, _ in
                guard path == "/register" else { return nil }
                // Another program creates the file during the request.
                try? Data().write(to: URL(fileURLWithPath: "\(output).registration"))
                return .text(#"{"client_id": "new-client", "token_endpoint_auth_method": "none"}"#, status: .created)
            } _: { emulator, _, _ in
                let outcome = try await run("register", emulator.issuer, "--output", output, "--name", "T")
                #expect(outcome.status == 8, "\(outcome.standardError)")
                let words = "The client new-client was registered with \(emulator.issuer), but"
                #expect(outcome.standardError.contains(words), "\(outcome.standardError)")
            }
        }
    }

    @Test func reportsWhyADynamicRegistrationIsRejected() async throws {
        let response = #"{"error": "invalid_redirect_uri", "error_description": "Only https is allowed\u001b[2J."}"#
        try await withProvider {
            path,
            _ in
            path == "/register" ? .text(response, status: .badRequest) : nil
        } _: { emulator, _, path in
            let outcome = try await run("register", emulator.issuer, "--output", "\(path).new", "--name", "T")
            #expect(outcome.status > 0)
            #expect(outcome.standardError.contains("Only https is allowed"), "\(outcome.standardError)")
            #expect(isClean(outcome.standardError))
        }
    }
}
