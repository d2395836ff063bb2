import AuthFlow
import AuthFlowGitHub
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Testing

/// The keys of a GitHub profile.
@Suite struct GitHubConfigurationTests {
    @Test(arguments: [
        ("github.com", "https://github.com", "https://api.github.com"),
        ("https://github.com/", "https://github.com", "https://api.github.com"),
        ("Octo.GHE.com", "https://octo.ghe.com", "https://api.octo.ghe.com"),
        ("git.example.com", "https://git.example.com", "https://git.example.com/api/v3"),
        ("https://git.example.com:8443", "https://git.example.com:8443", "https://git.example.com:8443/api/v3"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080", "http://127.0.0.1:8080/api/v3"),
        ("notgithub.com", "https://notgithub.com", "https://notgithub.com/api/v3"),
    ]) func derivesTheAPIURLFromTheHost(_ name: String, _ pages: String, _ api: String) throws {
        let host = try GitHubHost(name)
        #expect(host.webURL == pages)
        #expect(host.apiURL == api)
    }

    @Test(arguments: ["", "http://git.example.com", "github.com/login", "github.com?x=1", "user@github.com", "a b"])
    func rejectsInvalidHosts(_ name: String) {
        expectError(.invalidConfiguration) { try GitHubHost(name) }
    }

    @Test func aProfileWithThePresetNeedsNoSecret() async throws {
        struct Presenter: DevicePresenter {
            func present<Return: Sendable>(
                _ authorization: DeviceAuthorization,
                while body: () async throws -> Return
            ) async throws -> Return { try await body() }
        }
        let text =
            #"{"profiles": {"work": {"preset": "github", "client_id": "Iv1.0123456789abcdef", "store": "memory"}}}"#
        let client = try AuthClient(
            profile: try ConfigurationFile(text: Array(text.utf8), presets: [.gitHub]).profile(),
            providers: [.gitHub],
            userAgents: [],
            devicePresenter: Presenter()
        )
        let metadata = try await client.metadata()
        #expect(metadata.deviceAuthorizationEndpoint?.url == "https://github.com/login/device/code")
        #expect(client.registration.authentication.method == .none)
    }

    @Test func signsInFromAConfigurationFile() async throws {
        let app = GitHubEmulator.App()
        try await GitHubEnvironment.with(.sockets) { environment in
            let file = try ConfigurationFile(
                text: Array(
                    """
                    {"profiles": {"work": {
                      "provider": "github", "host": "\(environment.emulator.origin)", "client_id": "\(app.id)",
                      "client_secret": {"env": "GITHUB_SECRET"}, "scopes": ["gist"],
                      "parameters": {"authorization": {"prompt": "select_account"}}, "sign_out": "grant", "store": "memory",
                      "user_agent": {
                        "name": "headless", "username": "octocat", "password": {"env": "PASSWORD"},
                        "origins": ["\(environment.emulator.origin)"]
                      }
                    }}}
                    """.utf8
                )
            )
            let client = try AuthClient(
                profile: try file.profile(),
                providers: [.gitHub],
                userAgents: [.headless],
                host: HostServices(environment: ["GITHUB_SECRET": app.secret, "PASSWORD": "meow"])
            )
            #expect(try await client.signIn().credential.identity?.subject == "583231")
            // GitHub's documentation specifies form parameters.
            let exchange = environment.emulator.receivedRequests.first { $0.path == "/login/oauth/access_token" }
            #expect(exchange?.form["client_secret"] == app.secret)
            #expect(exchange?.request.headerFields[.authorization] == nil)
        }
    }

    @Test(arguments: [
        ("user:email", ["user"], true), ("read:org", ["admin:org"], true), ("public_repo", ["repo"], true),
        ("repo", ["public_repo"], false), ("gist", [], false), ("user", ["user"], true),
        ("read:enterprise", ["admin:enterprise"], true),
    ]) func determinesWhetherGrantedScopesCoverAScope(_ scope: String, _ granted: [String], _ isCovered: Bool) {
        #expect(GitHubScopes.covers(scope, granted: granted) == isCovered)
    }

    @Test(arguments: [
        ("https://example.com/path", true), ("https://example.com/path/subdir/other", true),
        ("https://oauth.example.com/path", true), ("https://oauth.example.com/path/subdir/other", true),
        ("https://example.com/bar", false), ("https://example.com/", false), ("https://example.com:8080/path", false),
        ("https://oauth.example.com:8080/path", false), ("https://example.org", false),
    ]) func emulatesGitHubsRedirectURIMatching(_ uri: String, _ isAccepted: Bool) async {
        #expect(await accepts(uri, callback: "https://example.com/path") == isAccepted)
    }

    @Test(arguments: [
        ("https://example.com/", "https://example.com/cb", true),
        ("https://example.com/path/", "https://example.com/path/cb", true),
        ("https://example.com/path/", "https://example.com/pathology", false),
        ("https://example.com/path/", "https://example.com/", false),
    ]) func matchesRedirectURIsBelowACallbackURLThatEndsInASlash(
        _ callback: String,
        _ uri: String,
        _ isAccepted: Bool
    ) async {
        #expect(await accepts(uri, callback: callback) == isAccepted)
    }

    /// Whether the emulator shows a page instead of an error for this redirect URI.
    private func accepts(_ uri: String, callback: String) async -> Bool {
        let app = GitHubEmulator.App(callback: callback, matchesBelow: true)
        let emulator = GitHubEmulator(apps: [app])
        let query = FormURLEncoding.encodeQuery(["client_id": app.id, "redirect_uri": uri, "state": "s"])
        let request = HTTPRequest(
            method: .get,
            scheme: "https",
            authority: "github.com",
            path: "/login/oauth/authorize?\(query)"
        )
        return await emulator.handle(request, body: []).status == 200
    }
}
