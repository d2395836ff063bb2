import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Testing

/// `authflow doctor`.
@Suite struct DoctorCommandTests {
    private func permissions(of path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    private func setPermissions(_ mode: Int, of path: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
    }

    @Test(arguments: [
        (["--issuer", "https://id.example.com"], "--issuer needs --client-id"),
        (["--client-id", "client"], "--client-id needs --issuer"),
    ]) func fixDoesNotChangeAFileThatIsNotUsed(_ options: [String], _ words: String) async throws {
        try await CommandHarness.withConfiguration("{}") { path, folder in
            try setPermissions(0o666, of: path)
            let outcome = try await CommandHarness.run(
                ["doctor", "--fix"] + options,
                environment: ["HOME": folder],
                folder: folder
            )
            #expect(outcome.status == 1 && outcome.output.contains(words), "\(outcome.output)")
            #expect(try permissions(of: path) == 0o666)
        }
    }

    @Test func fixDoesNotChangeADirectory() async throws {
        try await CommandHarness.withConfiguration("{}") { _, folder in
            let directory = "\(folder)/directory"
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
            try setPermissions(0o777, of: directory)
            let outcome = try await CommandHarness.run(
                ["doctor", "--fix", "--config", directory],
                environment: ["HOME": folder]
            )
            #expect(outcome.status == 1 && outcome.output.contains("is not a regular file"), "\(outcome.output)")
            #expect(try permissions(of: directory) == 0o777)
        }
    }

    @Test(.enabled(if: geteuid() == 0, "Only root can give a file to another user."))
    func fixDoesNotChangeAFileOfAnotherUser() async throws {
        try await CommandHarness.withConfiguration("{}") { path, folder in
            try setPermissions(0o666, of: path)
            // In a container, root may lack this user.
            guard unsafe chown(path, 65_534, 65_534) == 0 else { return }
            let outcome = try await CommandHarness.run(
                ["doctor", "--fix", "--config", path],
                environment: ["HOME": folder]
            )
            #expect(outcome.status == 1 && outcome.output.contains("belongs to another user"), "\(outcome.output)")
            #expect(try permissions(of: path) == 0o666)
        }
    }

    /// With the umask 002, a file is writable for its group, which on many systems is the private group of its owner.
    @Test(arguments: PrivateGroup.isUserPrivate(getegid()) ? [0o644, 0o664] : [0o644])
    func fixReportsNoChangeIfOnlyTheUserCanWriteToTheFile(_ mode: Int) async throws {
        let text = CommandHarness.profile("http://127.0.0.1:1", ["user_agent": nil])
        try await CommandHarness.withConfiguration(text) { path, folder in
            try setPermissions(mode, of: path)
            let outcome = try await CommandHarness.run(
                ["doctor", "--fix", "--config", path],
                environment: ["HOME": folder]
            )
            #expect(outcome.output.contains("ok  file"), "\(outcome.output)")
            #expect(!outcome.output.contains("fixed"), "\(outcome.output)")
            #expect(try permissions(of: path) == mode)
        }
    }

    /// Without the scheme, the command would use the redirect URI of the default profile.
    @Test func theCommandToRegisterASchemeNamesTheScheme() async throws {
        let text = CommandHarness.profile(
            "http://127.0.0.1:1",
            ["user_agent": nil, "redirect_uri": #""com.example.app:/callback""#]
        )
        try await CommandHarness.withConfiguration(text) { path, folder in
            let outcome = try await CommandHarness.run(
                ["doctor", "--config", path],
                environment: ["HOME": folder]
            )
            #expect(outcome.output.contains("Run: authflow scheme install com.example.app\n"), "\(outcome.output)")
        }
    }

    struct Comparison: CustomTestStringConvertible {
        let testDescription: String
        var responseModes: JSON? = ["query", "fragment"]
        var keys: [String: String?] = [:]
        /// The expected lines.
        var lines: [String] = []
    }

    private static let comparisons = [
        Comparison(testDescription: "everything is listed"),
        Comparison(testDescription: "one of two algorithms is listed", keys: algorithms(#"["ES384", "RS256"]"#)),
        Comparison(testDescription: "the list is missing", responseModes: nil),
        Comparison(
            testDescription: "nothing is listed",
            responseModes: ["fragment"],
            keys: algorithms(#"["ES384"]"#),
            lines: [
                "--  response_mode query, but the provider's response_modes_supported lists fragment",
                "--  id_token_signing_algorithms ES384, but the provider's id_token_signing_alg_values_supported lists RS256",
            ]
        ),
    ]

    private static func algorithms(_ list: String) -> [String: String?] { ["id_token_signing_algorithms": list] }

    @Test(arguments: comparisons) func reportsASettingThatIsNotInTheMetadata(_ comparison: Comparison) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.fault = .metadata(
                .members {
                    $0["response_modes_supported"] = comparison.responseModes
                    $0["id_token_signing_alg_values_supported"] = ["RS256"]
                }
            )
            let text = CommandHarness.profile(emulator.issuer, comparison.keys)
            try await CommandHarness.withConfiguration(text) { path, folder in
                let outcome = try await CommandHarness.run(
                    ["doctor", "--config", path],
                    environment: ["PASSWORD": "wonderland", "HOME": folder]
                )
                let lines = outcome.output.split(separator: "\n").map(String.init).filter {
                    $0.contains("response_mode") || $0.contains("id_token_signing")
                }
                #expect(lines == comparison.lines, "\(outcome.output)")
                // A line of the comparison that does not depend on these settings.
                #expect(outcome.output.contains("device grant"), "\(outcome.output)")
            }
        }
    }

    /// A device authorization request has neither a user agent nor PKCE, and is never pushed.
    @Test func doctorDoesNotApplyRequirementsOfAuthorizationRequestsToTheDeviceFlow() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.fault = .metadata(.member("code_challenge_methods_supported", .array(["plain"])))
            let keys: [String: String?] = ["flow": #""device""#, "par": #""always""#, "user_agent": nil]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, keys)) { path, folder in
                let outcome = try await CommandHarness.run(["doctor", "--config", path], environment: ["HOME": folder])
                #expect(outcome.status == 0, "\(outcome.output)")
                #expect(outcome.output.contains("ok  user agent    not needed"), "\(outcome.output)")
                #expect(!outcome.output.contains("PAR") && !outcome.output.contains("PKCE"), "\(outcome.output)")
                #expect(!outcome.output.contains("redirect URIs"), "\(outcome.output)")
            }
        }
    }

    /// A sign-in tries the flows in order, and shows a code if the provider offers the device flow.
    @Test(arguments: [true, false])
    func doctorDoesNotRequirePKCEIfTheDeviceFlowIsTriedFirst(_ isOffered: Bool) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.fault = .metadata(
                .members {
                    $0["code_challenge_methods_supported"] = ["plain"]
                    if !isOffered { $0["device_authorization_endpoint"] = nil }
                }
            )
            let text = CommandHarness.profile(emulator.issuer, ["flow": #"["device", "authorization_code"]"#])
            try await CommandHarness.withConfiguration(text) { path, folder in
                let outcome = try await CommandHarness.run(
                    ["doctor", "--config", path],
                    environment: ["PASSWORD": "wonderland", "HOME": folder]
                )
                #expect(outcome.status == (isOffered ? 0 : 1), "\(outcome.output)")
                #expect(outcome.output.contains("!!  PKCE") != isOffered, "\(outcome.output)")
            }
        }
    }

    /// The application, which is running, occupies the port of the redirect URI, here the emulator's.
    @Test func doctorNeedsNeitherAUserAgentNorThePortForTheProfileOfAWebApplication() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let keys: [String: String?] = [
                "client_secret": #"{"env": "PASSWORD"}"#, "redirect_uri": "\"\(emulator.issuer)/callback\"",
                "user_agent": nil,
            ]
            let profile = CommandHarness.profile(emulator.issuer, keys).dropLast()
            let text = "\(profile), \"server\": {\"allow_plain_http_on_loopback\": true}}"
            try await CommandHarness.withConfiguration(text) { path, folder in
                let outcome = try await CommandHarness.run(
                    ["doctor", "--config", path],
                    environment: ["PASSWORD": "wonderland", "HOME": folder]
                )
                #expect(outcome.status == 0, "\(outcome.output)")
                #expect(outcome.output.contains("ok  user agent    not needed"), "\(outcome.output)")
                #expect(outcome.output.contains("these redirect URIs"), "\(outcome.output)")
            }
        }
    }

    /// The port of the first redirect URI is the emulator's, so it is in use. A sign-in uses the next redirect URI in the list.
    @Test(arguments: [(#", "http://127.0.0.1/callback""#, Int32(0)), ("", Int32(1))])
    func anOccupiedPortIsAProblemOnlyIfTheProfileHasNoOtherRedirectURI(_ other: String, _ status: Int32) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let keys: [String: String?] = [
                "redirect_uri": "[\"\(emulator.issuer)/callback\"\(other)]",
                "user_agent": #"{"name": "loopback", "open_browser": false}"#,
            ]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, keys)) { path, folder in
                let outcome = try await CommandHarness.run(["doctor", "--config", path], environment: ["HOME": folder])
                #expect(outcome.status == status, "\(outcome.output)")
                #expect(outcome.output.contains("from the redirect URI, is in use"), "\(outcome.output)")
                #expect(outcome.output.contains("!!  port") == (status == 1), "\(outcome.output)")
            }
        }
    }

    /// Without `--profile` and `default_profile`, the profile of the first provider is examined.
    @Test func doctorExaminesTheFirstProviderOfAWebApplicationWithSeveralProviders() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let keys: [String: String?] = [
                "client_secret": #"{"env": "PASSWORD"}"#, "redirect_uri": "\"\(emulator.issuer)/callback\"",
                "user_agent": nil,
            ]
            let other =
                #""client_id": "app", "issuer": "https://a.example.com", "redirect_uri": "http://127.0.0.1:8499/callback""#
            let text = """
                \(CommandHarness.profile(emulator.issuer, keys).dropLast(2)),
                "another": {"provider": "oidc", \(other)}},
                "server": {"allow_plain_http_on_loopback": true, "providers": [
                  {"name": "1", "profile": "work"}, {"name": "2", "profile": "another"}
                ]}}
                """
            try await CommandHarness.withConfiguration(text) { path, folder in
                let outcome = try await CommandHarness.run(
                    ["doctor", "--config", path],
                    environment: ["PASSWORD": "wonderland", "HOME": folder]
                )
                #expect(outcome.status == 0, "\(outcome.output)")
                #expect(outcome.output.contains("ok  profile       work\n"), "\(outcome.output)")
                #expect(outcome.output.contains("(--profile): another\n"), "\(outcome.output)")
            }
        }
    }

    /// The flows apply only to sign-ins with the tool.
    @Test func doctorRequiresPKCEForAWebApplicationEvenIfTheDeviceFlowIsTriedFirst() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.fault = .metadata(.member("code_challenge_methods_supported", .array(["plain"])))
            let keys: [String: String?] = [
                "client_secret": #"{"env": "PASSWORD"}"#, "redirect_uri": "\"\(emulator.issuer)/callback\"",
                "flow": #"["device", "authorization_code"]"#, "user_agent": nil,
            ]
            let profile = CommandHarness.profile(emulator.issuer, keys).dropLast()
            let text = "\(profile), \"server\": {\"allow_plain_http_on_loopback\": true}}"
            try await CommandHarness.withConfiguration(text) { path, folder in
                let outcome = try await CommandHarness.run(
                    ["doctor", "--config", path],
                    environment: ["PASSWORD": "wonderland", "HOME": folder]
                )
                #expect(outcome.status == 1 && outcome.output.contains("!!  PKCE"), "\(outcome.output)")
            }
        }
    }

    /// A provider that does not know the URI does not redirect from its sign-out page.
    @Test(arguments: [
        (#""authorization_code""#, true, true), (#""device""#, false, true), (#""client_credentials""#, false, false),
    ])
    func doctorShowsThePostLogoutRedirectURIToRegister(_ flow: String, _ hasRedirect: Bool, _ hasPostLogout: Bool)
        async throws
    {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let keys: [String: String?] = [
                "flow": flow, "post_logout_redirect_uri": #""http://127.0.0.1:8499/bye""#, "user_agent": nil,
                "client_secret": flow.contains("credentials") ? #"{"env": "PASSWORD"}"# : nil,
            ]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, keys)) { path, folder in
                let outcome = try await CommandHarness.run(
                    ["doctor", "--config", path],
                    environment: ["PASSWORD": "wonderland", "HOME": folder]
                )
                let lines = """
                    --  to register   this post-logout redirect URI, exactly:
                                      http://127.0.0.1:8499/bye

                    """
                #expect(outcome.output.contains(lines) == hasPostLogout, "\(outcome.output)")
                #expect(outcome.output.contains("these redirect URIs") == hasRedirect, "\(outcome.output)")
            }
        }
    }

    #if os(Linux)
    /// The port of the redirect URI is the emulator's, so it is in use.
    @Test func doctorReportsNoProblemIfTheDeviceFlowIsUsedInsteadOfAnUnavailableUserAgent() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.fault = .metadata(.member("code_challenge_methods_supported", .array(["plain"])))
            let keys: [String: String?] = [
                "flow": #"["authorization_code", "device"]"#,
                "redirect_uri": "\"\(emulator.issuer)/callback\"",
                "user_agent": nil,
            ]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, keys)) { path, folder in
                let outcome = try await CommandHarness.run(["doctor", "--config", path], environment: ["HOME": folder])
                #expect(outcome.status == 0 && !outcome.output.contains("!!"), "\(outcome.output)")
                #expect(outcome.output.contains("the user signs in on another device"), "\(outcome.output)")
            }
        }
    }
    #endif

    @Test func doctorReportsThatTheProviderRequiresSignedRequests() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.fault = .metadata(.member("require_signed_request_object", true))
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, folder in
                let outcome = try await CommandHarness.run(
                    ["doctor", "--config", path],
                    environment: ["PASSWORD": "wonderland", "HOME": folder]
                )
                #expect(outcome.status == 1 && outcome.output.contains("!!  signed_requests"), "\(outcome.output)")
            }
        }
    }

    /// With configured endpoints, no metadata is requested.
    @Test func aCertificateIsNotReportedAsTrustedIfNoServerCanBeReached() async throws {
        let keys: [String: String?] = [
            "scopes": #"["profile"]"#, "user_agent": nil,
            "endpoints":
                #"{"authorization": "https://127.0.0.1:1/authorize", "token": "https://127.0.0.1:1/token"}"#,
        ]
        let text = CommandHarness.profile("https://127.0.0.1:1", keys)
        try await CommandHarness.withConfiguration(text) { path, folder in
            let outcome = try await CommandHarness.run(["doctor", "--config", path], environment: ["HOME": folder])
            #expect(outcome.status == 1 && outcome.output.contains("_endpoint"), "\(outcome.output)")
            #expect(!outcome.output.contains("TLS"), "\(outcome.output)")
        }
    }

    @Test func findsADeviceGrantThatOnlyTheRFC8414MetadataAnnounces() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let issuer = emulator.issuer
            emulator.fault = .metadata(.member("device_authorization_endpoint", nil))
            emulator.customResponse = { exchange in
                guard exchange.request.path == "/.well-known/oauth-authorization-server" else {
                    return exchange.response
                }
                let text = #"{"issuer": "\#(issuer)", "device_authorization_endpoint": "\#(issuer)/device"}"#
                return TransportResponse(
                    head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                    body: Array(text.utf8)
                )
            }
            try await CommandHarness.withConfiguration(CommandHarness.profile(issuer)) { path, folder in
                let outcome = try await CommandHarness.run(
                    ["doctor", "--config", path],
                    environment: ["PASSWORD": "wonderland", "HOME": folder]
                )
                let command = "authflow login --config \(path) --profile work --device"
                #expect(outcome.output.contains("offered (\(command))"), "\(outcome.output)")
            }
        }
    }
}
