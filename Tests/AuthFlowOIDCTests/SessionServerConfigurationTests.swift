import AuthFlow
import AuthFlowOIDC
import AuthFlowServerConfiguration
import AuthFlowTesting
import ConformanceRows
import Foundation
import HTTPTypes
import Testing

@Suite struct SessionServerConfigurationTests {
    private static func profile(_ name: String, _ members: String = "") -> String {
        """
        "\(name)": {
          "provider": "oidc", "issuer": "https://\(name).example.com", "client_id": "web", "client_secret": {"env": "SECRET"},
          "redirect_uri": "https://app.example.com/\(name)/callback", "store": "memory"\(members)
        }
        """
    }

    private func server(
        _ section: String,
        _ profiles: [String] = [profile("staff"), profile("guests")]
    ) throws -> SessionServer {
        let text = "{\"profiles\": {\(profiles.joined(separator: ", "))}, \"default_profile\": \"staff\"\(section)}"
        return try SessionServer(
            configuration: try ConfigurationFile(text: Array(text.utf8)),
            providers: [.oidc],
            host: HostServices(environment: ["SECRET": "a secret of some length", "TAGS": "a key of some length"])
        )
    }

    private func isRoute(_ path: String, of server: SessionServer) -> Bool {
        server.handles(HTTPRequest(method: .get, scheme: "https", authority: "app.example.com", path: path))
    }

    @Test func aConfigurationWithoutAServerSectionUsesTheDefaults() throws {
        let server = try server("")
        for path in ["/login", "/logout", "/session", "/backchannel-logout", "/staff/callback"] {
            #expect(isRoute(path, of: server), "\(path)")
        }
        #expect(!isRoute("/guests/callback", of: server))
        #expect(!isRoute("/frontchannel-logout", of: server))
    }

    @Test func theServerSectionConfiguresProvidersAndRoutes() throws {
        let server = try server(
            """
            , "server": {
              "providers": ["guests", {"profile": "staff", "name": "employees", "display_name": "Employees"}],
              "login_path": "/auth/login", "logout_path": "/auth/logout", "session_path": "/auth/session",
              "backchannel_logout_path": "/auth/bc", "frontchannel_logout_path": "/auth/fc", "start_path": "/home",
              "return_prefixes": ["/home"], "sign_in_parameters": ["login_hint", "ui_locales"], "session_claims": ["email"],
              "idle_time": 600, "lifetime": 3600, "sessions_per_user": 3, "persistent": true, "cookie_name": "__Host-app",
              "same_site": "lax", "header_name": "X-App", "tag_keys": [{"env": "TAGS"}], "application_name": "Orders",
              "requires_logout_token_type": true, "logout_token_age": 120
            }
            """
        )
        let paths = [
            "/auth/login", "/auth/logout", "/auth/session", "/auth/bc/guests", "/auth/bc/employees", "/auth/fc",
            "/staff/callback", "/guests/callback",
        ]
        for path in paths { #expect(isRoute(path, of: server), "\(path)") }
        #expect(!isRoute("/login", of: server) && !isRoute("/auth/bc/staff", of: server))
    }

    @Test(arguments: [
        (#"{"same_site": "none"}"#, "same_site"), (#"{"providers": ["nobody"]}"#, "nobody"),
        (#"{"sign_in_parameters": ["scope"]}"#, "sign_in_parameters"),
        (#"{"sessions_per_user": 0}"#, "sessions_per_user"),
        (#"{"login_path": "/logout"}"#, "server"), (#"{"origin": "https://other.example.com"}"#, "server"),
        (#"{"tag_keys": ["in the file"]}"#, "tag_keys"), (#"{"cookie": "a"}"#, "cookie"),
        (#"{"providers": [{"profile": "staff", "name": "Not A Name"}]}"#, "server"),
        (#"{"idle_time": 1}"#, "idle_time"),
        (#"{"tag_keys": [{"env": "NOT_SET"}]}"#, "tag_keys"),
    ]) func aConfigurationErrorContainsItsLocation(_ section: String, _ place: String) throws {
        let error = #expect(throws: ConfigurationError.self) { try server(", \"server\": \(section)") }
        let issues = "\(error?.issues ?? [])"
        #expect(issues.contains(place))
    }

    /// The tokens are valid for an hour, and at most a quarter of that is the margin.
    @Test(arguments: ["", #", "server": {"providers": [{"profile": "staff", "name": "only"}]}"#])
    func theFreshnessMarginOfTheProfileAppliesToItsSessions(_ section: String) async throws {
        let time = VirtualTime()
        let clients = [WebEnvironment.client]
        try await EmulatorEnvironment.with(.inProcess, clients: clients, now: { time.now }) { environment in
            var host = time.host
            host.environment = ["SECRET": WebEnvironment.client.secret ?? ""]
            let text = """
                {"profiles": {"staff": {
                  "provider": "oidc", "issuer": "\(environment.emulator.issuer)", "client_id": "web", "client_secret": {"env": "SECRET"},
                  "scopes": ["openid", "offline_access"], "redirect_uri": "\(WebEnvironment.origin)/callback", "store": "memory",
                  "freshness_margin": 900
                }}\(section)}
                """
            let server = try SessionServer(
                configuration: try ConfigurationFile(text: Array(text.utf8)),
                providers: [.oidc],
                transport: environment.transport,
                host: host
            )
            let browser = WebBrowser()
            try await browser.signIn(WebEnvironment(environment), at: server)
            let session = try #require(try await browser.session(at: server))
            let first = try await server.freshTokens(for: session)
            time.advance(by: .seconds(2760))
            #expect(try await server.freshTokens(for: session).accessToken != first.accessToken)
        }
    }

    /// The key would otherwise be ignored, and every user of the provider could sign in.
    @Test func aProfileForOneAccountIsRejectedForAWebApplication() throws {
        let error = #expect(throws: ConfigurationError.self) {
            try server("", [Self.profile("staff", #", "account": "248289761001""#)])
        }
        let issues = "\(error?.issues ?? [])"
        #expect(issues.contains("\"account\""))
        // A profile that no provider of the application uses may have an account.
        _ = try server("", [Self.profile("staff"), Self.profile("guests", #", "account": "248289761001""#)])
    }

    @Test func aFileStoreIsRejectedForSessions() throws {
        let text =
            "{\"profiles\": {\(Self.profile("staff").replacing("\"memory\"", with: "{\"name\": \"file\", \"directory\": \"/tmp/none\"}"))}}"
        let error = #expect(throws: ConfigurationError.self) {
            try SessionServer(
                configuration: try ConfigurationFile(text: Array(text.utf8)),
                providers: [.oidc],
                host: HostServices(environment: ["SECRET": "a secret of some length"])
            )
        }
        let issues = "\(error?.issues ?? [])"
        #expect(issues.contains("cannot store the sessions"))
    }

    @Test func aPublicClientIsRejectedByTheSessionServer() throws {
        let text =
            "{\"profiles\": {\(Self.profile("staff").replacing("\"client_secret\": {\"env\": \"SECRET\"},", with: ""))}}"
        #expect(throws: ConfigurationError.self) {
            try SessionServer(configuration: try ConfigurationFile(text: Array(text.utf8)), providers: [.oidc])
        }
    }
}
