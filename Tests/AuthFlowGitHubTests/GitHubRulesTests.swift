import AuthFlow
import AuthFlowGitHub
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Foundation
import HTTPTypes
import Synchronization
import Testing

@Suite struct GitHubRulesTests {
    private func client(_ keys: String) throws -> AuthClient {
        let text = #"{"profiles": {"a": {"provider": "github", "client_id": "c", \#(keys) "store": "memory"}}}"#
        return try AuthClient(
            profile: try ConfigurationFile(text: Array(text.utf8)).profile(),
            providers: [.gitHub],
            userAgents: [],
            devicePresenter: HeadlessPresenter(),
            host: HostServices(environment: ["S": "secret"])
        )
    }

    private struct HeadlessPresenter: DevicePresenter {
        func present<Return: Sendable>(
            _ authorization: DeviceAuthorization,
            while body: () async throws -> Return
        ) async throws -> Return { try await body() }
    }

    @Test func requestsNoScopeByDefault() throws {
        #expect(try client(#""client_secret": {"env": "S"},"#).registration.scopes == [])
        #expect(try client(#""client_secret": {"env": "S"}, "scopes": [],"#).registration.scopes == [])
        #expect(try client(#""client_secret": {"env": "S"}, "scopes": ["gist"],"#).registration.scopes == ["gist"])
    }

    struct Mistake: CustomTestStringConvertible {
        let keys: String
        let words: String
        var testDescription: String { keys.isEmpty ? "no keys" : keys }
    }

    static let mistakes: [Mistake] = [
        Mistake(keys: "", words: "client_secret"),
        Mistake(keys: #""flow": ["device", "authorization_code"],"#, words: "client_secret"),
        Mistake(keys: #""client_secret": {"env": "S"}, "scopes": ["openid"],"#, words: "OpenID"),
        Mistake(keys: #""client_secret": {"env": "S"}, "host": "raw.github.com","#, words: "not a GitHub instance"),
        Mistake(keys: #""client_secret": {"env": "S"}, "host": "ghe.com","#, words: "not a GitHub instance"),
        Mistake(keys: #""client_secret": {"env": "S"}, "host": "api.ghe.com","#, words: "does not name a tenant"),
    ]

    @Test(arguments: mistakes) func rejectsInvalidGitHubConfigurations(_ test: Mistake) {
        let error = #expect(throws: (any Error).self) { try client(test.keys) }
        #expect(error.map { "\($0)" }?.contains(test.words) == true, "\(error.map { "\($0)" } ?? "")")
    }

    @Test func needsNoSecretForTheDeviceFlow() throws { _ = try client(#""flow": "device","#) }

    @Test(arguments: [
        ("www.github.com", "https://github.com", "https://api.github.com"),
        ("https://api.github.com", "https://github.com", "https://api.github.com"),
        ("api.octo.ghe.com", "https://octo.ghe.com", "https://api.octo.ghe.com"),
        ("octo.ghe.com", "https://octo.ghe.com", "https://api.octo.ghe.com"),
    ]) func normalizesGitHubHostNames(_ name: String, _ pages: String, _ api: String) throws {
        let host = try GitHubHost(name)
        #expect(host.webURL == pages)
        #expect(host.apiURL == api)
    }

    @Test func sendsAContentTypeAndReportsGitHubsErrorMessage() async throws {
        try await GitHubEnvironment.with(.inProcess) { environment in
            let client = try environment.client()
            _ = try await client.signIn()
            _ = try await client.signOut()
            let deletion = try #require(environment.emulator.receivedRequests.last { $0.request.method == .delete })
            #expect(deletion.request.headerFields[.contentType] == "application/json")
        }
        let transport = InProcessTransport(origin: "https://api.github.com") { _, _ in
            TransportResponse(
                head: HTTPResponse(status: .forbidden),
                body: Array(#"{"message": "Resource protected by organization SAML enforcement."}"#.utf8)
            )
        }
        let provider = GitHubProvider()
        let client = AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(provider, transport: transport),
                registration: try ClientRegistration(clientID: "c") { $0.scopes = [] }
            ),
            methods: [.userAgent(PasteUserAgent())]
        )
        let error = await #expect(throws: AuthError.self) {
            try await provider.userInfo(for: TokenSet(accessToken: Secret("t")), in: client.providerContext)
        }
        #expect(error.map { "\($0)" }?.contains("SAML enforcement") == true)
    }

    struct Document: CustomTestStringConvertible {
        let name: String
        let text: String
        /// A part of the error message; nil for a valid document.
        let problem: String?
        var testDescription: String { name }
    }

    static let documents: [Document] = [
        Document(
            name: "plain",
            text: "<OAuth><access_token>gho_x</access_token><token_type>bearer</token_type></OAuth>",
            problem: nil
        ),
        Document(
            name: "with an XML declaration",
            text:
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<OAuth><access_token>gho_x</access_token><token_type>bearer</token_type></OAuth>",
            problem: nil
        ),
        Document(
            name: "entities",
            text: "<!DOCTYPE OAuth [<!ENTITY a \"b\">]><OAuth><access_token>&a;</access_token></OAuth>",
            problem: "not well-formed"
        ),
        Document(
            name: "twice",
            text: "<OAuth><access_token>a</access_token><access_token>b</access_token></OAuth>",
            problem: "unexpected structure"
        ),
        Document(
            name: "nested",
            text: "<OAuth><access_token><b>a</b></access_token></OAuth>",
            problem: "unexpected structure"
        ),
        Document(
            name: "another root",
            text: "<x><access_token>a</access_token></x>",
            problem: "unexpected root"
        ),
        Document(name: "nothing", text: "", problem: "not well-formed"),
        Document(name: "no XML", text: "{}", problem: "not well-formed"),
        Document(name: "unfinished", text: "<OAuth><access_token>a", problem: "not well-formed"),
        Document(
            name: "a document type declaration without entities",
            text: "<!DOCTYPE OAuth><OAuth><access_token>gho_x</access_token></OAuth>",
            problem: "contains \"<!\""
        ),
        Document(
            name: "a comment after a character that combines with the next",
            text: "<OAuth><a>\u{0D4E}<!-- --></a><access_token>gho_x</access_token></OAuth>",
            problem: "contains \"<!\""
        ),
        Document(
            name: "a NUL character after the root element",
            text: "<OAuth><access_token>gho_x</access_token></OAuth>\0",
            problem: "not well-formed"
        ),
        Document(
            name: "more than 64 KiB",
            text: "<OAuth><access_token>gho_x</access_token>\(String(repeating: " ", count: 65_536))</OAuth>",
            problem: "larger than 64 KiB"
        ),
        Document(
            name: "nesting deeper than 16 elements",
            text: String(repeating: "<a>", count: 17) + String(repeating: "</a>", count: 17),
            problem: "not well-formed"
        ),
        Document(
            name: "excessive combining marks in a name",
            text: "<OAuth><a\(String(repeating: "\u{301}", count: 65))/><access_token>gho_x</access_token></OAuth>",
            problem: "not well-formed"
        ),
        Document(
            name: "excessive combining marks as character references",
            text: "<OAuth><access_token>gho_x</access_token><a>\(String(repeating: "&#x301;", count: 65))</a></OAuth>",
            problem: "not well-formed"
        ),
    ]

    @Test(arguments: documents) func parsesOnlyValidXMLTokenResponses(_ test: Document) throws {
        let response = ProviderResponse(
            purpose: .token,
            endpoint: Endpoint("https://github.com/login/oauth/access_token"),
            http: TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/xml; charset=utf-8"]),
                body: Array(test.text.utf8)
            )
        )
        guard let problem = test.problem else {
            #expect(try GitHubProvider().parameters(of: response)["access_token"] == "gho_x")
            return
        }
        let error = #expect(throws: AuthError.self) { try GitHubProvider().parameters(of: response) }
        #expect(error?.code == .invalidResponse)
        #expect(error?.message.contains(problem) == true, "\(error as Any)")
    }
}
