import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Tokens for other programs. `Tests/Interop/helpers.sh` tests the credential helpers with real programs.
@Suite struct CredentialHelperTests {
    /// Runs `body` with a provider and a function that runs the tool, without a signed-in user.
    private func signedIn(
        _ changes: [String: String?] = [:],
        _ body: (
            _ emulator: OIDCEmulator,
            _ tool: (_ arguments: [String], _ input: String, _ environment: [String: String]) async throws ->
                CommandHarness.Outcome
        ) async throws -> Void
    ) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let scopes = ["scopes": #"["openid", "profile", "offline_access"]"#].merging(changes) { $1 ?? $0 }
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, scopes)) { path, _ in
                let tool = CommandHarness.folder.appendingPathComponent("authflow").path
                try await body(emulator) { arguments, input, environment in
                    // The calling program sends its input through a pipe.
                    try await CommandHarness.run(
                        ["-c", #"input=$1; shift; printf '%b' "$input" | "$@""#, "sh", input, tool] + arguments,
                        program: "/bin/sh",
                        environment: ["PASSWORD": "wonderland", "AUTHFLOW_CONFIG": path].merging(environment) { $1 }
                    )
                }
            }
        }
    }

    private static let helpers = [
        "helpers": #"{"git": {"hosts": ["git.example.com:8443"]}, "docker": {"registries": ["r.example.com"]}}"#
    ]

    @Test(arguments: [
        ("raw", "%"), ("header", "Authorization: Bearer %"),
        ("curl", #"header = "Authorization: Bearer %""#),
        ("env", "export ACCESS_TOKEN='%'"),
    ]) func printsTheTokenInTheRequestedFormat(_ format: String, _ expected: String) async throws {
        try await signedIn { _, tool in
            _ = try await tool(["login"], "", [:])
            let token = try await tool(["token"], "", [:]).output.dropLast()
            let outcome = try await tool(["token", "--format", format], "", [:])
            #expect(outcome.output == expected.replacing("%", with: token) + "\n")
        }
    }

    @Test(arguments: ["header", "curl", "env"]) func aDPoPBoundTokenIsNotPrintedAsABearerToken(_ format: String)
        async throws
    {
        try await signedIn(["dpop": "true"]) { _, tool in
            _ = try await tool(["login"], "", [:])
            let outcome = try await tool(["token", "--format", format], "", [:])
            #expect(outcome.status > 0 && outcome.output.isEmpty)
            #expect(outcome.standardError.contains("authflow curl"))
        }
    }

    /// Quotation marks and backslashes would end the quoted string in a shell or in curl's configuration.
    @Test(arguments: ["'", "\"", "\\"]) func aTokenWithAQuotationMarkOrABackslashIsPrintedOnlyRaw(_ mark: String)
        async throws
    {
        try await signedIn(["scopes": #"["profile"]"#]) { emulator, tool in
            emulator.fault = .tokenResponse(.member("access_token", .string("a\(mark)b")))
            let login = try await tool(["login"], "", [:])
            try #require(login.status == 0, "\(login.standardError)")
            #expect(try await tool(["token"], "", [:]).output == "a\(mark)b\n")
            for format in ["header", "curl", "env"] {
                let outcome = try await tool(["token", "--format", format], "", [:])
                #expect(outcome.status == 1 && outcome.output.isEmpty, "\(format)")
                #expect(outcome.standardError.contains("not allowed in a bearer token"), "\(outcome.standardError)")
            }
        }
    }

    @Test(arguments: [
        ("the host of the profile", #"protocol=https\nhost=git.example.com:8443\n\n"#, true),
        ("the same host in uppercase", #"protocol=https\nhost=GIT.example.com:8443\n"#, true),
        ("another port", #"protocol=https\nhost=git.example.com\n\n"#, false),
        ("a host with the same prefix", #"protocol=https\nhost=git.example.com:8443.evil.example\n\n"#, false),
        ("no TLS", #"protocol=http\nhost=git.example.com:8443\n\n"#, false),
        ("another user", #"protocol=https\nhost=git.example.com:8443\nusername=bob\n\n"#, false),
        ("a second request after the first", #"protocol=https\nhost=a.example\n\nhost=git.example.com:8443\n"#, false),
        ("nothing", "", false),
    ]) func gitGetsATokenOnlyForTheHostsOfTheProfile(_ name: String, _ input: String, _ isGiven: Bool) async throws {
        try await signedIn(Self.helpers) { _, tool in
            _ = try await tool(["login"], "", [:])
            let outcome = try await tool(["credential", "git", "get"], input, [:])
            #expect(outcome.status == 0)
            #expect(outcome.output.contains("password=") == isGiven)
            #expect(outcome.output.isEmpty == !isGiven)
        }
    }

    /// The programs pass the port of the URL even if it is the default.
    @Test(
        arguments: [
            (["git", "get"], #"protocol=https\nhost=git.example.com:443\n"#, true),
            (["git", "get"], #"protocol=https\nhost=other.example.com\n"#, true),
            (["git", "get"], #"protocol=https\nhost=git.example.com:80\n"#, false),
            (["git", "get"], #"protocol=https\nhost=git.example.com:1443\n"#, false),
            (["git", "get"], #"protocol=http\nhost=git.example.com:443\n"#, false),
            (["docker", "get"], "r.example.com:443", true), (["docker", "get"], "https://r.example.com:443/v1/", true),
            (["docker", "get"], "r.example.com:80", false),
        ] as [([String], String, Bool)]
    )
    func theDefaultPortMayBeOmitted(_ arguments: [String], _ input: String, _ isGiven: Bool) async throws {
        let git = #"{"hosts": ["git.example.com", "other.example.com:443"]}"#
        let helpers = #"{"git": \#(git), "docker": {"registries": ["r.example.com"]}}"#
        try await signedIn(["helpers": helpers]) { _, tool in
            _ = try await tool(["login"], "", [:])
            let token = try await tool(["token"], "", [:]).output.dropLast()
            let outcome = try await tool(["credential"] + arguments, input, [:])
            #expect(!token.isEmpty && outcome.output.contains(token) == isGiven, "\(outcome)")
        }
    }

    @Test func aProfileWithoutHelpersReturnsNoCredentials() async throws {
        try await signedIn { _, tool in
            _ = try await tool(["login"], "", [:])
            let git = try await tool(["credential", "git", "get"], #"protocol=https\nhost=git.example.com\n"#, [:])
            #expect(git.output.isEmpty && git.status == 0)
            let docker = try await tool(["credential", "docker", "get"], "r.example.com", [:])
            #expect(docker.output == "credentials not found in native keychain\n" && docker.status == 1)
            let kubernetes = try await tool(["credential", "kubernetes"], "", [:])
            #expect(kubernetes.status == 2 && kubernetes.output.isEmpty)
            let aws = try await tool(["credential", "aws"], "", [:])
            #expect(aws.status == 2 && aws.output.isEmpty)
        }
    }

    /// "get" uses the first profile that lists the registry.
    @Test func dockerListNamesTheUserOfTheProfileThatGetUses() async throws {
        func profile(_ user: String, _ registries: String) -> String {
            #"{"helpers": {"docker": {"registries": [\#(registries)], "username": "\#(user)"}}}"#
        }
        let (first, second) = (profile("ua", #""r.example.com""#), profile("ub", #""r.example.com", "s.example.com""#))
        let text = #"{"profiles": {"a": \#(first), "b": \#(second)}}"#
        try await CommandHarness.withConfiguration(text) { path, _ in
            let list = try await CommandHarness.run(["credential", "docker", "list", "--config", path])
            let users = try JSON(parsing: Array(list.output.utf8))
            #expect(users == ["r.example.com": "ua", "s.example.com": "ub"], "\(list.standardError)")
        }
    }

    /// A Security Token Service with one response for all requests.
    private struct SecurityTokenService: ProviderEmulator {
        let origins: [String]
        let response: STSResponse

        func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
            TransportResponse(head: HTTPResponse(status: response.status), body: Array(response.body.utf8))
        }
    }

    private static let credentials = """
        <Credentials><AccessKeyId>a</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
        <Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>
        """

    private static func sessionCredentials(_ credentials: String) -> String {
        """
        <AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>\(credentials)\
        </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>
        """
    }

    struct STSResponse: CustomTestStringConvertible {
        let testDescription: String
        let status: HTTPResponse.Status
        let body: String
        let message: String
    }

    @Test(arguments: [
        STSResponse(
            testDescription: "a load balancer's error page",
            status: .serviceUnavailable,
            body: "<html><p>Unavailable<br></html>",
            message: "status 503"
        ),
        STSResponse(
            testDescription: "an error",
            status: .forbidden,
            body: "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>",
            message: "(AccessDenied)"
        ),
        STSResponse(
            testDescription: "empty credentials",
            status: .ok,
            body: """
                <AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId></AccessKeyId>\
                <SecretAccessKey></SecretAccessKey><SessionToken></SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration>\
                </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>
                """,
            message: "contains no credentials"
        ),
        STSResponse(
            testDescription: "the credentials of two roles",
            status: .ok,
            body: sessionCredentials(String(repeating: credentials, count: 2)),
            message: "contains no credentials"
        ),
        STSResponse(
            testDescription: "expired credentials, because this machine's clock is ahead",
            status: .ok,
            body: sessionCredentials(credentials.replacing("2100-", with: "2000-")),
            message: "have already expired"
        ),
    ]) func anAWSResponseWithoutUsableCredentialsIsAnError(_ response: STSResponse) async throws {
        try await expectError(for: response)
    }

    /// Expects that the credential helper for AWS reports the response of the token service as an error.
    private func expectError(for response: STSResponse, _ environment: [String: String] = [:]) async throws {
        try await EmulatorServer.run {
            SecurityTokenService(origins: [$0], response: response)
        } _: { service in
            let helpers = #"{"aws": {"role_arn": "arn:aws:iam::1:role/a", "endpoint": "\#(service.origins[0])/"}}"#
            try await signedIn(["helpers": helpers]) { _, tool in
                _ = try await tool(["login"], "", [:])
                let outcome = try await tool(["credential", "aws"], "", environment)
                #expect(outcome.status > 0 && outcome.output.isEmpty)
                #expect(outcome.standardError.contains(response.message), "\(outcome.standardError)")
            }
        }
    }

    /// A Security Token Service that counts its requests.
    private final class CountingTokenService: ProviderEmulator {
        let origins: [String]
        private let requests = Mutex(0)
        private let failure = Mutex<HTTPResponse.Status?>(nil)
        private let hook = Mutex<(@Sendable () -> Void)?>(nil)
        private let expiration: Date

        /// The beginning of the year 2100.
        static let farExpiration = Date(timeIntervalSince1970: 4_102_444_800)

        /// - Parameter expiration: The expiry of the credentials; default: ``farExpiration``.
        init(_ origin: String, expiration: Date = farExpiration) {
            origins = [origin]
            self.expiration = expiration
        }

        var count: Int { requests.withLock { $0 } }

        func fail(_ status: HTTPResponse.Status) { failure.withLock { $0 = status } }

        /// Runs `body` during each of the following requests.
        func onRequest(_ body: @escaping @Sendable () -> Void) { hook.withLock { $0 = body } }

        func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
            requests.withLock { $0 += 1 }
            let action = hook.withLock { $0 }
            action?()
            if let status = failure.withLock({ $0 }) { return TransportResponse(head: HTTPResponse(status: status)) }
            let credentials = CredentialHelperTests.credentials.replacing(
                "2100-01-01T00:00:00Z",
                with: expiration.formatted(.iso8601)
            )
            let response = CredentialHelperTests.sessionCredentials(credentials)
            return TransportResponse(head: HTTPResponse(status: .ok), body: Array(response.utf8))
        }
    }

    /// Runs `body` with a signed-in user whose AWS credentials are stored.
    /// - Parameters:
    ///   - expiration: The expiry of the credentials; default: the beginning of the year 2100.
    ///   - body: Receives the token service, the directory of the store, the first outcome of the helper, and a function that runs it again.
    private func withAWSCredentials(
        expiration: Date = CountingTokenService.farExpiration,
        _ body: (
            _ service: CountingTokenService, _ store: String, _ first: CommandHarness.Outcome,
            _ again: () async throws -> CommandHarness.Outcome
        ) async throws -> Void
    ) async throws {
        try await withAWSProfile(expiration: expiration) { service, path, folder, first, _ in
            try await body(service, "\(folder)/store", first) { try await Self.tool(["credential", "aws"], path) }
        }
    }

    private static func tool(_ arguments: [String], _ path: String) async throws -> CommandHarness.Outcome {
        try await CommandHarness.run(arguments + ["--config", path], environment: ["PASSWORD": "wonderland"])
    }

    /// Like ``withAWSCredentials(expiration:_:)``.
    /// - Parameter body: Also receives the path of the configuration file, its directory, and a function that returns its text with other keys.
    private func withAWSProfile(
        expiration: Date = CountingTokenService.farExpiration,
        _ body: (
            _ service: CountingTokenService, _ path: String, _ folder: String, _ first: CommandHarness.Outcome,
            _ text: (_ keys: [String: String]) -> String
        ) async throws -> Void
    ) async throws {
        try await EmulatorServer.run {
            CountingTokenService($0, expiration: expiration)
        } _: { service in
            try await EmulatorServer.run {
                try OIDCEmulator(issuer: $0)
            } _: { emulator in
                let helpers = #"{"aws": {"role_arn": "arn:aws:iam::1:role/a", "endpoint": "\#(service.origins[0])/"}}"#
                func text(_ keys: [String: String] = [:]) -> String {
                    CommandHarness.profile(emulator.issuer, keys.merging(["helpers": helpers]) { $1 })
                }
                try await CommandHarness.withConfiguration(text()) { path, folder in
                    _ = try await Self.tool(["login"], path)
                    let first = try await Self.tool(["credential", "aws"], path)
                    try #require(first.status == 0, "\(first.standardError)")
                    try await body(service, path, folder, first, text)
                }
            }
        }
    }

    /// The credentials are renewed 15 minutes before they expire, but they remain valid.
    @Test(
        arguments: [(.serviceUnavailable, 600, 0), (.serviceUnavailable, 30, 7), (.forbidden, 600, 1)]
            as [(HTTPResponse.Status, TimeInterval, Int32)]
    )
    func storedAWSCredentialsAreUsedDuringAnOutageUntilTheyExpire(
        _ failure: HTTPResponse.Status,
        _ secondsLeft: TimeInterval,
        _ status: Int32
    ) async throws {
        let expiration = Date(timeIntervalSinceNow: secondsLeft)
        try await withAWSCredentials(expiration: expiration) { service, store, first, again in
            // As if the credentials had been obtained long ago.
            for name in try FileManager.default.contentsOfDirectory(atPath: store) {
                let file = URL(fileURLWithPath: "\(store)/\(name)")
                guard let json = try? JSON(parsing: Array(try Data(contentsOf: file))),
                    var members = json.object, members["obtained_at"] != nil
                else { continue }
                members["obtained_at"] = 0
                try Data(try JSON.object(members).serialized()).write(to: file)
            }
            service.fail(failure)
            let second = try await again()
            #expect(second.status == status, "\(second.standardError)")
            #expect(second.output == (status == 0 ? first.output : ""))
            #expect(service.count == 2)
        }
    }

    @Test func storedAWSCredentialsAreUsedWhileTheStoreCannotBeWritten() async throws {
        try await withAWSCredentials { service, store, first, again in
            try Self.share(store)
            let second = try await again()
            #expect(second.status == 0, "\(second.standardError)")
            #expect(second.output == first.output)
            #expect(service.count == 1)
        }
    }

    /// The file with the stored AWS credentials.
    private static func awsRecord(in store: String) throws -> String {
        let files = try FileManager.default.contentsOfDirectory(atPath: store).map { "\(store)/\($0)" }
        let found = files.first { file in
            let data = try? Data(contentsOf: URL(fileURLWithPath: file))
            return (try? JSON(parsing: Array(data ?? Data())))?["obtained_at"] != nil
        }
        return try #require(found)
    }

    @Test("A cancelled sign-out removes the AWS credentials that a helper stored after the sign-out had started")
    func aCancelledSignOutRemovesLaterAWSCredentials() async throws {
        try await withAWSProfile { _, path, folder, _, text in
            let record = try Self.awsRecord(in: "\(folder)/store")
            let bytes = try Data(contentsOf: URL(fileURLWithPath: record))
            let loopback = text([
                "post_logout_redirect_uri": #""http://127.0.0.1/callback""#,
                "user_agent": #"{"name": "loopback", "browser": ["/bin/true", "%s"]}"#,
            ])
            try Data(loopback.utf8).write(to: URL(fileURLWithPath: path))
            let logout = try await CommandHarness.run(
                ["logout", "--browser", "--config", path],
                interruptWhen: { text in
                    guard text.hasSuffix("(Ctrl-C to stop).\n") else { return false }
                    let mode = [FileAttributeKey.posixPermissions: 0o600]
                    return FileManager.default.createFile(atPath: record, contents: bytes, attributes: mode)
                }
            )
            #expect(logout.status == 130, "\(logout.standardError)")
            #expect(!FileManager.default.fileExists(atPath: record))
        }
    }

    @Test func awsCredentialsAreReturnedEvenIfTheyCannotBeStored() async throws {
        try await withAWSCredentials { service, store, first, again in
            let record = try Self.awsRecord(in: store)
            try FileManager.default.removeItem(atPath: record)
            // A file cannot replace a directory.
            service.onRequest {
                try? FileManager.default.createDirectory(atPath: record, withIntermediateDirectories: false)
            }
            let second = try await again()
            #expect(second.status == 0, "\(second.standardError)")
            #expect(second.output == first.output)
            #expect(second.standardError.contains("could not be stored"), "\(second.standardError)")
            #expect(service.count == 2)
        }
    }

    /// The credentials belong to the user whose token was exchanged for them.
    @Test func awsCredentialsAreStoredButNotUsedForAnotherUser() async throws {
        try await EmulatorServer.run {
            CountingTokenService($0)
        } _: { service in
            try await EmulatorServer.run {
                try OIDCEmulator(issuer: $0)
            } _: { emulator in
                try await CommandHarness.withConfiguration("{}") { path, _ in
                    for (index, user) in [OIDCEmulator.User.alice, .bob].enumerated() {
                        let agent = """
                            {"name": "headless", "username": "\(user.username)", "password": {"env": "PASSWORD"}, "origins": ["\(emulator.issuer)"]}
                            """
                        let helpers =
                            #"{"aws": {"role_arn": "arn:aws:iam::1:role/a", "endpoint": "\#(service.origins[0])/"}}"#
                        let text = CommandHarness.profile(emulator.issuer, ["user_agent": agent, "helpers": helpers])
                        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
                        for command in [
                            ["login", "--replace-account"], ["credential", "aws"], ["credential", "aws"],
                        ] {
                            let outcome = try await CommandHarness.run(
                                command + ["--config", path],
                                environment: ["PASSWORD": user.password]
                            )
                            #expect(outcome.status == 0, "\(outcome.standardError)")
                        }
                        #expect(service.count == index + 1)
                    }
                }
            }
        }
    }

    #if os(Linux)
    @Test func saysWhichLibraryIsMissingForAnAWSResponse() async throws {
        let response = STSResponse(
            testDescription: "",
            status: .ok,
            body: Self.sessionCredentials(Self.credentials),
            message: "libxml2 is not installed"
        )
        try await CommandHarness.withoutLibraries(["libxml2.so.2", "libxml2.so.16"]) { environment in
            try await expectError(for: response, environment)
        }
    }
    #endif

    @Test func gitEraseCausesTheNextGetToReturnANewToken() async throws {
        try await signedIn(Self.helpers) { emulator, tool in
            _ = try await tool(["login"], "", [:])
            let asked = #"protocol=https\nhost=git.example.com:8443\n"#
            let first = try await tool(["credential", "git", "get"], asked, [:]).output
            let password = try #require(first.split(separator: "\n").first { $0.hasPrefix("password=") })
            // An erase request for a different password does not affect this password.
            _ = try await tool(["credential", "git", "erase"], asked + #"password=other\n"#, [:])
            let same = try await tool(["credential", "git", "get"], asked, [:]).output
            #expect(same == first)
            _ = try await tool(["credential", "git", "erase"], asked + "\(password)\\n", [:])
            let second = try await tool(["credential", "git", "get"], asked, [:]).output
            #expect(second.contains("password=") && second != first)
            #expect(emulator.receivedRequests.count { $0.form["grant_type"] == "refresh_token" } == 1)
        }
    }

    @Test func gitEraseForADifferentTokenDoesNotRefreshAnExpiredToken() async throws {
        try await signedIn(Self.helpers) { emulator, tool in
            emulator.accessTokenLifetime = 0
            _ = try await tool(["login"], "", [:])
            let input = #"protocol=https\nhost=git.example.com:8443\npassword=other\n"#
            #expect(try await tool(["credential", "git", "erase"], input, [:]).status == 0)
            #expect(!emulator.receivedRequests.contains { $0.form["grant_type"] == "refresh_token" })
        }
    }

    /// The token cannot be replaced, and a different service may still accept the token.
    @Test(arguments: [
        ("git", #"protocol=https\nhost=git.example.com:8443\npassword=%\n"#), ("docker", "r.example.com"),
    ]) func eraseHasNoEffectWithoutARefreshToken(_ helper: String, _ input: String) async throws {
        let scopes = ["scopes": #"["openid", "profile"]"#]
        try await signedIn(scopes.merging(Self.helpers) { $1 }) { _, tool in
            _ = try await tool(["login"], "", [:])
            let token = try await tool(["token"], "", [:]).output
            let erase = try await tool(
                ["credential", helper, "erase"],
                input.replacing("%", with: token.dropLast()),
                [:]
            )
            #expect(erase.status == 0 && erase.output.isEmpty && erase.standardError.isEmpty, "\(erase)")
            #expect(try await tool(["token"], "", [:]).output == token)
        }
    }

    @Test(
        arguments: [
            (#"protocol=https\nhost\n"#, "oauth2", 2, "has no equals sign"),
            (#"protocol=https\nhost=git.example.com\n"#, #"a\nb"#, 1, "contains a newline"),
        ] as [(String, String, Int32, String)]
    ) func gitGetsNoTokenForAnInvalidRequestOrUsername(
        _ input: String,
        _ username: String,
        _ status: Int32,
        _ words: String
    ) async throws {
        let helpers = #"{"git": {"hosts": ["git.example.com"], "username": "\#(username)"}}"#
        try await signedIn(["helpers": helpers]) { _, tool in
            _ = try await tool(["login"], "", [:])
            let outcome = try await tool(["credential", "git", "get"], input, [:])
            #expect(outcome.status == status && outcome.output.isEmpty, "\(outcome.output)")
            #expect(outcome.standardError.contains(words), "\(outcome.standardError)")
        }
    }

    /// git-credential(1), since Git 2.46.
    @Test func gitGetsABearerTokenOnlyIfItSupportsAuthtype() async throws {
        let helpers = ["helpers": #"{"git": {"hosts": ["git.example.com"], "scheme": "bearer"}}"#]
        try await signedIn(helpers) { emulator, tool in
            _ = try await tool(["login"], "", [:])
            let old = try await tool(
                ["credential", "git", "get"],
                #"capability[]=state\nprotocol=https\nhost=git.example.com\n"#,
                [:]
            )
            #expect(old.status == 1 && old.output.isEmpty && old.standardError.contains("2.46"))
            let asked = #"capability[]=authtype\ncapability[]=state\nprotocol=https\nhost=git.example.com\n"#
            let first = try await tool(["credential", "git", "get"], asked, [:]).output
            let token = try await tool(["token"], "", [:]).output
            #expect(first.hasPrefix("capability[]=authtype\nauthtype=Bearer\ncredential=\(token)ephemeral=1\n"))
            #expect(!first.contains("password="))
            let rejected = asked + #"authtype=Bearer\ncredential="# + token.dropLast() + #"\n"#
            _ = try await tool(["credential", "git", "erase"], rejected, [:])
            #expect(try await tool(["token"], "", [:]).output != token)
            #expect(emulator.receivedRequests.count { $0.form["grant_type"] == "refresh_token" } == 1)
        }
    }

    @Test(arguments: [
        ("not JSON", "is not a valid ExecCredential", "{"),
        (
            "another kind", "is not a valid ExecCredential",
            #"{"kind":"Pod","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{"server":"https://k8s.example.com"}}}"#
        ),
        (
            "no version", "is not a valid ExecCredential",
            #"{"kind":"ExecCredential","spec":{"cluster":{"server":"https://k8s.example.com"}}}"#
        ),
        (
            "another version", "v1alpha1 is not supported",
            #"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1alpha1","spec":{"cluster":{"server":"https://k8s.example.com"}}}"#
        ),
        (
            "another server", "is not listed in",
            #"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{"server":"https://k8s.example.com.evil.example"}}}"#
        ),
        (
            "no certificate verification", "disables verification",
            #"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{"server":"https://k8s.example.com","insecure-skip-tls-verify":true}}}"#
        ),
        (
            "a proxy", "specifies a proxy",
            #"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{"server":"https://k8s.example.com","proxy-url":"http://evil.example"}}}"#
        ),
        (
            "a different TLS server name", "a different TLS server name",
            #"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{"server":"https://k8s.example.com","tls-server-name":"evil.example"}}}"#
        ),
        (
            "a custom certificate authority", "certificate authority that is not in",
            #"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{"server":"https://k8s.example.com","certificate-authority-data":"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="}}}"#
        ),
        (
            "another cluster behind the same host", "is not listed in",
            #"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{"server":"https://k8s.example.com/k8s/clusters/evil"}}}"#
        ),
        (
            "no server", "does not provide the URL of the server",
            #"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{}}"#
        ),
    ])
    func rejectsInvalidKubernetesExecInfoWithoutPrintingAToken(
        _ name: String,
        _ words: String,
        _ information: String
    ) async throws {
        try await signedIn(["helpers": #"{"kubernetes": {"servers": ["https://k8s.example.com"]}}"#]) { _, tool in
            _ = try await tool(["login"], "", [:])
            let outcome = try await tool(["credential", "kubernetes"], "", ["KUBERNETES_EXEC_INFO": information])
            #expect(outcome.status == 2 && outcome.output.isEmpty && !outcome.standardError.contains("eyJ"))
            #expect(outcome.standardError.contains(words), "\(outcome.standardError)")
            let right =
                #"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","spec":{"cluster":{"server":"https://k8s.example.com/"}}}"#
            let given = try await tool(["credential", "kubernetes"], "", ["KUBERNETES_EXEC_INFO": right])
            let json = try JSON(parsing: Array(given.output.utf8))
            #expect(json["apiVersion"] == "client.authentication.k8s.io/v1beta1")
            #expect(json["status"]?["token"]?.string?.hasPrefix("eyJ") == true)
        }
    }

    /// A profile with "servers" needs the URL of the server, and a file in the working directory is ignored.
    @Test func theHelpForKubernetesDescribesASetupThatWorks() async throws {
        let help = try await CommandHarness.run(["credential", "kubernetes", "--help"]).output
        let words = help.split { $0.isWhitespace }.joined(separator: " ")
        #expect(words.contains("which authflow credential never uses"), "\(help)")
        #expect(words.contains(#""provideClusterInfo": true"#), "\(help)")
    }

    /// An empty variable counts as unset.
    @Test func kubernetesGetsATokenIfExecInfoIsEmpty() async throws {
        try await signedIn(["helpers": #"{"kubernetes": {}}"#]) { _, tool in
            _ = try await tool(["login"], "", [:])
            let outcome = try await tool(["credential", "kubernetes"], "", ["KUBERNETES_EXEC_INFO": ""])
            #expect(outcome.status == 0, "\(outcome.standardError)")
            let json = try JSON(parsing: Array(outcome.output.utf8))
            #expect(json["apiVersion"] == "client.authentication.k8s.io/v1")
            #expect(json["status"]?["token"]?.string?.hasPrefix("eyJ") == true)
        }
    }

    /// If the last ID Token had expired when it was issued, a refresh would not help.
    @Test(
        arguments: [
            (30, #"["openid", "offline_access"]"#, true), (30, #"["openid"]"#, false),
            (-1, #"["openid", "offline_access"]"#, false),
        ] as [(Int64, String, Bool)]
    )
    func anIDTokenThatIsAboutToExpireIsRefreshedOrRejected(
        _ secondsLeft: Int64,
        _ scopes: String,
        _ isRefreshed: Bool
    ) async throws {
        try await signedIn(["scopes": scopes, "helpers": #"{"kubernetes": {}}"#]) { emulator, tool in
            emulator.fault = Self.idToken(expiringIn: secondsLeft)
            let login = try await tool(["login"], "", [:])
            try #require(login.status == 0, "\(login.standardError)")
            emulator.fault = nil
            let outcome = try await tool(["credential", "kubernetes"], "", [:])
            #expect(outcome.status == (isRefreshed ? 0 : 4), "\(outcome.standardError)")
            #expect(outcome.output.contains("eyJ") == isRefreshed)
            #expect(outcome.standardError.contains("The ID Token has expired or is about to expire") == !isRefreshed)
            let refreshes = emulator.receivedRequests.count { $0.form["grant_type"] == "refresh_token" }
            #expect(refreshes == (isRefreshed ? 1 : 0))
        }
    }

    /// Like an access token, an ID Token is used during an outage until it expires.
    @Test func anIDTokenThatIsAboutToExpireIsUsedDuringAnOutage() async throws {
        let scopes = #"["openid", "offline_access"]"#
        try await signedIn(["scopes": scopes, "helpers": #"{"kubernetes": {}}"#]) { emulator, tool in
            emulator.fault = Self.idToken(expiringIn: 50)
            let login = try await tool(["login"], "", [:])
            try #require(login.status == 0, "\(login.standardError)")
            emulator.customResponse = { exchange in
                exchange.request.form["grant_type"] == "refresh_token"
                    ? TransportResponse(head: HTTPResponse(status: .serviceUnavailable)) : exchange.response
            }
            let outcome = try await tool(["credential", "kubernetes"], "", [:])
            #expect(outcome.status == 0, "\(outcome.standardError)")
            #expect(outcome.output.contains("eyJ"))
            #expect(emulator.receivedRequests.contains { $0.form["grant_type"] == "refresh_token" })
        }
    }

    /// Nor does a store that can be read, but not written.
    @Test func anIDTokenThatIsAboutToExpireIsUsedWhileTheStoreCannotBeWritten() async throws {
        try await CommandHarness.withConfiguration("") { _, folder in
            let changes: [String: String?] = [
                "scopes": #"["openid", "offline_access"]"#, "helpers": #"{"kubernetes": {}}"#,
                "store": #"{"name": "file", "directory": "\#(folder)/tokens"}"#,
            ]
            try await signedIn(changes) { emulator, tool in
                emulator.fault = Self.idToken(expiringIn: 50)
                let login = try await tool(["login"], "", [:])
                try #require(login.status == 0, "\(login.standardError)")
                try Self.share("\(folder)/tokens")
                let outcome = try await tool(["credential", "kubernetes"], "", [:])
                #expect(outcome.status == 0, "\(outcome.standardError)")
                #expect(outcome.output.contains("eyJ"))
            }
        }
    }

    /// Some providers return no ID Token when the tokens are refreshed. Otherwise, each call in its last minute would rotate the refresh token.
    @Test func anIDTokenThatARefreshDoesNotReplaceIsNotRefreshedAgainBeforeItsExpiry() async throws {
        try await CommandHarness.withConfiguration("") { _, folder in
            let changes: [String: String?] = [
                "scopes": #"["openid", "offline_access"]"#, "helpers": #"{"kubernetes": {}}"#,
                "store": #"{"name": "file", "directory": "\#(folder)/tokens"}"#,
            ]
            try await signedIn(changes) { emulator, tool in
                emulator.fault = Self.idToken(expiringIn: 50)
                let login = try await tool(["login"], "", [:])
                try #require(login.status == 0, "\(login.standardError)")
                try Self.backdateSignIn(in: "\(folder)/tokens")
                emulator.fault = nil
                emulator.customResponse = { exchange in
                    guard exchange.request.form["grant_type"] == "refresh_token" else { return exchange.response }
                    var response = exchange.response
                    var members = (try? JSON(parsing: response.body))?.object ?? [:]
                    members["id_token"] = nil
                    response.body = (try? JSON.object(members).serialized()) ?? []
                    return response
                }
                for _ in 0..<3 {
                    let outcome = try await tool(["credential", "kubernetes"], "", [:])
                    #expect(outcome.status == 4, "\(outcome.standardError)")
                    #expect(outcome.standardError.contains("The ID Token has expired or is about to expire"))
                }
                #expect(emulator.receivedRequests.count { $0.form["grant_type"] == "refresh_token" } == 1)
            }
        }
    }

    /// An ID Token with the given remaining lifetime in seconds, issued some minutes ago, because a short-lived token would count as fresh.
    private static func idToken(expiringIn secondsLeft: Int64) -> EmulatorFault {
        .idToken(
            .claims { claims in
                let time = claims["iat"]?.integer ?? 0
                claims["iat"] = .integer(time - 500)
                claims["exp"] = .integer(time + secondsLeft)
            }
        )
    }

    /// Changes the stored times as if the sign-in had taken place a minute ago.
    private static func backdateSignIn(in directory: String) throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: directory)
        let name = try #require(names.first { $0.hasSuffix(".json") })
        let file = URL(fileURLWithPath: "\(directory)/\(name)")
        let stored = try JSON(parsing: Array(try Data(contentsOf: file)))
        var members = try #require(stored.object)
        var account = try #require(stored["accounts"]?.array?.first?.object)
        for time in ["signed_in_at", "obtained_at"] {
            account[time] = .double(try #require(account[time]?.number) - 60)
        }
        members["accounts"] = .array([.object(account)])
        try Data(try JSON.object(members).serialized()).write(to: file)
    }

    /// Makes a store's directory writable for everyone, so that its files can be read, but nothing is stored in it.
    private static func share(_ directory: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: directory)
    }

    @Test func saysThatTheProviderReturnedNoIDToken() async throws {
        try await signedIn(["scopes": #"["profile"]"#, "helpers": #"{"kubernetes": {}}"#]) { _, tool in
            _ = try await tool(["login"], "", [:])
            let outcome = try await tool(["credential", "kubernetes"], "", [:])
            #expect(outcome.status == 1 && outcome.output.isEmpty)
            #expect(outcome.standardError.contains("returned no ID Token"), "\(outcome.standardError)")
        }
    }

    @Test func aDPoPBoundTokenIsNotGivenToGit() async throws {
        try await signedIn(Self.helpers.merging(["dpop": "true"]) { $1 }) { _, tool in
            _ = try await tool(["login"], "", [:])
            let asked = #"protocol=https\nhost=git.example.com:8443\n\n"#
            let outcome = try await tool(["credential", "git", "get"], asked, [:])
            #expect(outcome.status == 1 && outcome.output.isEmpty)
            #expect(outcome.standardError.contains("bound to a key (DPoP)"), "\(outcome.standardError)")
        }
    }

    @Test func rejectsAHelperRequestThatIsTooLarge() async throws {
        let tool = CommandHarness.folder.appendingPathComponent("authflow").path
        let outcome = try await CommandHarness.run(
            ["-c", #"head -c 300000 /dev/zero | "$0" credential git get"#, tool],
            program: "/bin/sh"
        )
        #expect(outcome.status == 2 && outcome.output.isEmpty)
        #expect(outcome.standardError.contains("input is too large"), "\(outcome.standardError)")
    }

    @Test func execPassesTheTokenInAVariableOrAFileDescriptor() async throws {
        try await signedIn { emulator, tool in
            let out = try await tool(["exec", "--", "true"], "", [:])
            #expect(out.status == 4 && out.standardError.contains("authflow login"))
            _ = try await tool(["login"], "", [:])
            let token = try await tool(["token"], "", [:]).output
            let variable = try await tool(["exec", "--", "sh", "-c", "echo $ACCESS_TOKEN; exit 3"], "", [:])
            #expect(variable.output == token && variable.status == 3)
            let input = try await tool(
                ["exec", "--variable", "T", "--", "sh", "-c", "cat; echo; echo $T"],
                "input",
                [:]
            )
            #expect(input.output == "input\n\(token)")
            // Connections could also use these descriptor numbers, because each run refreshes and therefore opens
            // connections.
            emulator.accessTokenLifetime = 0
            _ = try await tool(["token", "--refresh"], "", [:])
            let refreshes = { emulator.requests.filter { $0 == "POST /token" }.count }
            let before = refreshes()
            for number in [3, 5, 7, 8, 9] {
                let descriptor = try await tool(
                    [
                        "exec", "--descriptor", "\(number)", "--", "sh", "-c",
                        "cat <&\(number); env",
                    ],
                    "",
                    ["ACCESS_TOKEN": "other"]
                )
                let lines = descriptor.output.split(separator: "\n")
                let handed = try #require(lines.first)
                #expect(handed.count == token.count - 1, "\(number): \(descriptor.standardError)")
                #expect(!lines.dropFirst().contains { $0.contains(handed) })
            }
            #expect(refreshes() == before + 5)
        }
    }

    @Test func theErrorOfAHelperForAMissingFileNamesTheVariableWithItsPath() async throws {
        let outcome = try await CommandHarness.run(
            ["credential", "kubernetes"],
            environment: ["AUTHFLOW_CONFIG": "/nowhere/authflow.json"]
        )
        #expect(
            outcome.status == 2 && outcome.standardError.contains("It is named by AUTHFLOW_CONFIG."),
            "\(outcome.standardError)"
        )
    }

    /// Otherwise, the helper would use the user's own configuration file instead of the file that the variable names.
    @Test func aHelperRejectsARelativePathInTheEnvironment() async throws {
        let outcome = try await CommandHarness.run(
            ["credential", "kubernetes"],
            environment: ["AUTHFLOW_CONFIG": "authflow.json"]
        )
        #expect(
            outcome.status == 2 && outcome.standardError.contains("AUTHFLOW_CONFIG must be an absolute path."),
            "\(outcome.standardError)"
        )
    }

    @Test func theTokenFileExistsOnlyWhileTheProgramRuns() async throws {
        try await signedIn { _, tool in
            _ = try await tool(["login"], "", [:])
            let token = try await tool(["token"], "", [:]).output.dropLast()
            let outcome = try await tool(
                ["exec", "--file", "F", "--", "sh", "-c", #"stat -c %a "$F"; cat "$F"; echo; echo "$F"; exit 5"#],
                "",
                [:]
            )
            let lines = outcome.output.split(separator: "\n")
            #expect(outcome.status == 5)
            try #require(lines.count == 3)
            #expect(lines[0] == "600" && lines[1] == token)
            #expect(!FileManager.default.fileExists(atPath: String(lines[2])))
        }
    }

    @Test(arguments: [
        ["exec"], ["exec", "--descriptor", "2", "--", "true"], ["exec", "--variable", "A B", "--", "true"],
        ["exec", "--variable", "A", "--file", "B", "--", "true"], ["exec", "--variable", "1A", "--", "true"],
        ["exec", "--", "no-such-program"], ["token", "--json", "--format", "raw"],
    ]) func rejectsInvalidExecAndTokenArguments(_ arguments: [String]) async throws {
        try await signedIn { _, tool in
            let outcome = try await tool(arguments, "", [:])
            #expect(outcome.status == 2)
        }
    }
}
