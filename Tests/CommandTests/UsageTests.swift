import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import CommandHarness
import Foundation
import Testing

/// The tool's messages about an invalid command line.
@Suite struct UsageTests {
    struct Line: CustomTestStringConvertible {
        let arguments: [String]
        let words: String
        var status: Int32 = 2
        var testDescription: String { arguments.joined(separator: " ") }
    }

    private static let client = ["--issuer", "https://id.example.com", "--client-id", "client"]

    static let lines = [
        Line(arguments: [], words: "No command was specified."),
        Line(arguments: ["loign"], words: "Did you mean \"login\"?"),
        Line(arguments: ["loign", "--help"], words: "Did you mean \"login\"?"),
        Line(arguments: ["help", "loign"], words: "Did you mean \"login\"?"),
        Line(arguments: ["xyzzy"], words: "See: authflow --help"),
        Line(arguments: ["credential", "gti"], words: "Did you mean \"git\"?"),
        Line(arguments: ["config", "cehck"], words: "Did you mean \"check\"?"),
        Line(
            arguments: ["login", "--isuer", "https://id.example.com", "--client-id", "client"],
            words: "Did you mean '--issuer'?"
        ),
        Line(arguments: ["login", "--timeout", "1"], words: "Unknown option '--timeout'"),
        Line(arguments: ["login", "example.com"], words: "\"example.com\" is not a URL"),
        Line(arguments: ["login", "--issuer", "https://id.example.com"], words: "--issuer needs --client-id"),
        Line(arguments: ["login", "--client-id", "client"], words: "--client-id needs --issuer"),
        Line(arguments: ["login", "--issuer", "", "--client-id", "client"], words: "--client-id needs --issuer"),
        Line(
            arguments: ["login", "--issuer", "https://id.example.com", "--client-id", ""],
            words: "--issuer needs --client-id"
        ),
        Line(
            arguments: ["login", "--issuer", "id.example.com", "--client-id", "client"],
            words: "--issuer: The issuer"
        ),
        Line(
            arguments: ["login", "--issuer", "http://id.example.com", "--client-id", "client"],
            words: "--issuer: The issuer"
        ),
        Line(arguments: ["login", "--scope", "a b"] + client, words: "--scope takes one scope"),
        Line(
            arguments: ["init", "--issuer", "https://id.example.com", "--client-id", ""],
            words: "--client-id is empty"
        ),
        Line(
            arguments: ["init", "--issuer", "id.example.com", "--client-id", "client"],
            words: "--issuer: The issuer"
        ),
        Line(arguments: ["init", "--scope", "a b"] + client, words: "--scope takes one scope"),
        Line(arguments: ["init", "--redirect-uri", "foo"] + client, words: "--redirect-uri: "),
        Line(arguments: ["init", "--client-secret-file", "nope"] + client, words: "nope is empty, cannot be read"),
        Line(arguments: ["access-token", "check", "--max-age=-1"], words: "--max-age must be a number of seconds"),
        Line(arguments: ["config", "check", "a.json", "--config", "b.json"], words: "but not both"),
        Line(
            arguments: ["dev-idp", "--web-client", "http://127.0.0.1:8400/a?b=1"],
            words: "--web-client must be a URL without a query or a trailing slash"
        ),
        Line(
            arguments: ["dev-idp", "--web-client", "http://127.0.0.1:8400/"],
            words: "--web-client must be a URL without a query or a trailing slash"
        ),
        Line(arguments: ["exec", "echo", "hi"], words: "Put -- before the program: authflow exec -- echo"),
        Line(arguments: ["exec"], words: "Missing expected argument '-- <command> ...'"),
        Line(arguments: ["status", "-q", "-v"], words: "--quiet and --verbose cannot be combined"),
        Line(arguments: ["login", "--scope", "a"], words: "--scope needs the URL of a resource, or --issuer"),
        Line(
            arguments: ["logout", "--resource", "https://a.example"],
            words: "--resource needs the URL of a resource"
        ),
        Line(arguments: ["status", "--assume-origin"], words: "--assume-origin needs the URL of a resource"),
        Line(arguments: ["login", "work", "--account", "x"], words: "\"work\" is not a URL"),
        Line(
            arguments: ["token", "https://a.example", "--client-id", "x"],
            words: "--client-id and --issuer cannot be combined with the URL"
        ),
        Line(arguments: ["status", "--config", "none.json"], words: "It is named on the command line."),
        Line(arguments: ["status"], words: "neither ./authflow.json nor "),
        Line(arguments: ["credential", "kubernetes"], words: "but not ./authflow.json"),
        Line(
            arguments: ["exec", "--variable", "LD_PRELOAD"] + client + ["--", "true"],
            words: "LD_PRELOAD is used by"
        ),
        Line(arguments: ["token", "--min-ttl", "86401"] + client, words: "--min-ttl must be a number of seconds"),
        Line(arguments: ["token", "https://api.example.com", "--refresh"], words: "--refresh needs a profile"),
        Line(
            arguments: ["mcp", "connect", "https://api.example.com", "--silence", "0"],
            words: "--silence must be a number of seconds"
        ),
        Line(arguments: ["register", "new", "https://id.example.com", "--output", ""], words: "--output is empty"),
        // Standard output or the arguments belong to another program, so the failure is not reported as JSON.
        Line(arguments: ["exec", "--", "true", "--json"], words: "There is no configuration file"),
        Line(arguments: ["curl", "https://api.example.com", "--json"], words: "Unknown option '--json'"),
        Line(
            arguments: ["exec", "--variable", "DYLD_INSERT_LIBRARIES"] + client + ["--", "true"],
            words: "DYLD_INSERT_LIBRARIES is used by"
        ),
        Line(arguments: ["exec", "--file", "BASH_ENV"] + client + ["--", "true"], words: "BASH_ENV is used by"),
        Line(arguments: ["exec", "--min-ttl", "86401"] + client + ["--", "true"], words: "from 0 to 86400"),
        Line(arguments: ["init", "--set", "a=b"] + client, words: "--set needs --preset"),
        Line(
            arguments: ["init", "--preset", "gitlab", "--set", "host", "--client-id", "client"],
            words: "--set needs name=value"
        ),
        Line(arguments: ["init", "--register"] + client, words: "--register cannot be combined with --client-id"),
        Line(
            arguments: ["login", "--add-account", "--replace-account"] + client,
            words: "--add-account and --replace-account cannot be combined"
        ),
        Line(arguments: ["login", "--acr-values", "a"] + client, words: "need the URL of a resource"),
        Line(arguments: ["access-token", "check"], words: "contains \"resource_server\" with --config"),
        // The scopes of a profile's own token cannot be selected.
        Line(arguments: ["token", "--scope", "read"] + client, words: "--scope needs --resource"),
        Line(arguments: ["token", "--scope", "read"], words: "--scope needs --resource"),
        Line(
            arguments: ["token", "--resource", "https://api.example.com", "--assume-origin"] + client,
            words: "--assume-origin needs the URL of a resource"
        ),
        Line(arguments: ["login", "--max-age", "60"] + client, words: "need the URL of a resource"),
        Line(arguments: ["login", "--max-age=-1", "https://api.example.com"], words: "from 0 to 31536000"),
        Line(arguments: ["logout", "--local", "--browser"] + client, words: "--local and --browser cannot be"),
        Line(
            arguments: ["keys", "show", "pkcs11:token=a;object=b", "--pin-from", "NO_SUCH_VARIABLE"],
            words: "NO_SUCH_VARIABLE is not set"
        ),
        Line(
            arguments: ["exec", "--variable", "HOME", "--", "true"],
            words: "HOME is used by the system or the shell"
        ),
        Line(arguments: ["dev-idp", "--resource", "--provider", "okta"], words: "--resource requires --provider oidc"),
        Line(
            arguments: ["dev-idp", "--provider", "okta", "--web-client", "http://127.0.0.1:8400"],
            words: "--web-client and --machine-client"
        ),
        Line(
            arguments: ["dev-idp", "--token-lifetime", "9223372036854775807"],
            words: "are limited to 315360000 seconds"
        ),
        Line(arguments: ["dev-idp", "--refresh-leeway", "inf"], words: "are limited to 315360000 seconds"),
        Line(
            arguments: ["dev-idp", "--provider", "forgerock", "--cookie-lifetime", "9223372036854775807"],
            words: "are limited to 315360000 seconds"
        ),
        Line(
            arguments: ["init", "--output", "no/such/a.json"] + client,
            words: "its directory does not exist",
            status: 8
        ),
    ]

    @Test(arguments: lines) func reportsTheMistakeInAnInvalidCommandLine(_ line: Line) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("usage-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let outcome = try await CommandHarness.run(line.arguments, environment: ["HOME": folder], folder: folder)
        #expect(outcome.status == line.status, "\(outcome.standardError)")
        #expect(outcome.standardError.contains(line.words), "\(outcome.standardError)")
        #expect(outcome.output.isEmpty)
        // The message contains neither a key path nor a temporary file name, because the user has not written a file.
        for words in ["options:", "configuration:", "profiles.", ".probe", ".new", ".tmp"] {
            #expect(!outcome.standardError.contains(words), "\(outcome.standardError)")
        }
    }

    @Test(arguments: [
        ["token", "--json"], ["token", "--format", "json"], ["token", "--format=json"], ["status", "--json"],
        ["login", "--json", "--user-agent", "loopback"],
    ]) func reportsAFailureAsJSONIfJSONOutputIsRequested(_ arguments: [String]) async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer)) { path, _ in
                let outcome = try await CommandHarness.run(
                    arguments + ["--config", path],
                    environment: ["PASSWORD": "wonderland"]
                )
                #expect(outcome.status == 4 || outcome.status == 2, "\(outcome.standardError)")
                let json = try JSON(parsing: Array(outcome.output.utf8))
                let code = try #require(json["error"]?.string)
                #expect(["login_required", "no_user_agent", "invalid_configuration"].contains(code))
                #expect(outcome.standardError.contains(try #require(json["message"]?.string?.prefix(40))))
                if code == "login_required" { #expect(json["command"]?.string?.contains("authflow login") == true) }
            }
        }
    }

    @Test func doctorReportsEachConfigurationErrorAndAPortInUse() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let port = emulator.issuer.split(separator: ":").last ?? ""
            let taken = ["redirect_uri": "\"http://127.0.0.1:\(port)/callback\"", "user_agent": #""loopback""#]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, taken)) { path, folder in
                let outcome = try await CommandHarness.run(["doctor", "--config", path], environment: ["HOME": folder])
                #expect(outcome.status == 1)
                #expect(
                    outcome.output.contains("!!  port          127.0.0.1:\(port), from the redirect URI, is in use")
                )
                #expect(outcome.output.contains("--  client ID     \"authflow-demo\""))
            }
            let faults = ["isuer": #""x""#, "scopes": "5", "par": #""sometimes""#]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, faults)) {
                path,
                folder in
                let outcome = try await CommandHarness.run(["doctor", "--config", path], environment: ["HOME": folder])
                #expect(outcome.status == 1)
                #expect(
                    outcome.output.split(separator: "\n").count { $0.hasPrefix("!!  configuration") } == 3,
                    "\(outcome.output)"
                )
            }
        }
    }

    @Test func statusReportsAnExpiredSessionAsEnded() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            emulator.accessTokenLifetime = 1
            let scopes = ["scopes": #"["openid"]"#]
            try await CommandHarness.withConfiguration(CommandHarness.profile(emulator.issuer, scopes)) { path, _ in
                let environment = ["PASSWORD": "wonderland"]
                let login = try await CommandHarness.run(["login", "--config", path], environment: environment)
                #expect(login.status == 0, "\(login.standardError)")
                var status = try await CommandHarness.run(
                    ["status", "--json", "--config", path],
                    environment: environment
                )
                while status.output.contains("\"state\": \"fresh\"") {
                    status = try await CommandHarness.run(
                        ["status", "--json", "--config", path],
                        environment: environment
                    )
                }
                #expect(status.status == 4)
                let json = try JSON(parsing: Array(status.output.utf8))
                #expect(json["state"] == "ended")
                let text = try await CommandHarness.run(["status", "--config", path], environment: environment)
                #expect(text.output.hasPrefix("The session for ") && text.output.contains(" has ended\n"))
                #expect(text.output.contains("access token  expired at"))
            }
        }
    }
}
