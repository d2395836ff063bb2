// Runs the flows whose files are listed in docs/architecture.md, with a provider in another process. Run by
// `make trace-flows`.
//
//     flow-trace ISSUER BROWSER DIRECTORY    writes the calls of each flow to DIRECTORY

import AuthFlow
import AuthFlowDesktop
import AuthFlowLoopback
import AuthFlowOIDC
import AuthFlowServer
import FlowTraceCalls
import Foundation
import HTTPTypes

let (issuer, browser, folder) = (CommandLine.arguments[1], CommandLine.arguments[2], CommandLine.arguments[3])

func traced<Return>(_ name: String, _ flow: () async throws -> Return) async rethrows -> Return {
    calls_begin()
    defer { unsafe calls_write("\(folder)/\(name)") }
    return try await flow()
}

func registration(_ redirectURI: RedirectURI) throws -> ClientRegistration {
    try ClientRegistration(clientID: "authflow-demo") {
        $0.redirectURIs = [redirectURI]
        $0.scopes = ["openid", "profile", "offline_access"]
    }
}

let server = AuthorizationServer(issuer: issuer)
let userAgent = LoopbackUserAgent(
    launcher: BrowserLauncher { url in
        _ = try Process.run(URL(filePath: "/usr/bin/env"), arguments: ["python3", browser, url])
        return "a script"
    }
)
let client = AuthClient(
    client: OAuthClient(server: server, registration: try registration("http://127.0.0.1/callback")),
    methods: [.userAgent(userAgent)],
    store: FileTokenStore(directory: "\(folder)/store")
)
_ = try await traced("login") { try await client.signIn() }
_ = try await traced("refresh") { try await client.refresh() }

// A web application: the browser is redirected to the provider, and returns with the response.
let origin = "https://app.example.com"
let web = try SessionServer(
    client: OAuthClient(
        server: server,
        registration: try ClientRegistration(clientID: "authflow-web") {
            $0.authentication = .clientSecretBasic(Secret("authflow-web-secret"))
            $0.redirectURIs = [try RedirectURI("\(origin)/callback")]
            $0.scopes = ["openid", "profile", "offline_access"]
        }
    ),
    store: MemoryTokenStore(),
    options: SessionServerOptions(origin: origin)
)
func visit(_ path: String, cookie: String? = nil) async -> TransportResponse? {
    var request = HTTPRequest(method: .get, scheme: "https", authority: "app.example.com", path: path)
    request.headerFields[.cookie] = cookie
    return await web.response(to: request)
}
let begun = await visit("/login")
let process = Process()
let output = Pipe()
process.executableURL = URL(filePath: "/usr/bin/env")
process.arguments = ["python3", browser, begun?.head.headerFields[.location] ?? ""]
process.standardOutput = output
try process.run()
let callback = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
let cookie = begun?.head.headerFields[.setCookie]?.split(separator: ";").first.map(String.init)
let response = await traced("callback") { await visit(String(callback.dropFirst(origin.count)), cookie: cookie) }
guard response?.status == 200 else { fatalError("The callback failed with status \(response?.status ?? 0).") }
