import AuthFlow
import AuthFlowDesktop
import AuthFlowHeadless
import AuthFlowLoopback
import AuthFlowTesting
import Foundation
import HTTPTypes
import Testing

/// The loopback, system browser and headless user agents pass the conformance suite for third-party user agents.
@Suite struct UserAgentConformanceTests {
    @Test(arguments: ["http://127.0.0.1/callback", "http://localhost/callback", "http://localhost"])
    func loopbackUserAgentConforms(_ redirectURI: String) async throws {
        let agent = LoopbackUserAgent(launcher: nil)
        try await UserAgentConformance(agent: agent, redirectURI: try RedirectURI(redirectURI)) { response in
            _ = try await SystemTransport().send(TransportRequest(.get, Endpoint(response)))
        }.run()
    }

    @Test func theConformanceSuiteThrowsTheErrorOfAFailedDelivery() async throws {
        struct Unreachable: Error {}
        let suite = UserAgentConformance(agent: LoopbackUserAgent(launcher: nil), redirectURI: .loopback) { _ in
            throw Unreachable()
        }
        await #expect(throws: Unreachable.self) { try await suite.run() }
    }

    @Test func systemBrowserUserAgentConforms() async throws {
        let folder = "/tmp/authflow-\(UUID().uuidString.prefix(8))"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let handoff = RedirectHandoff(directory: folder)
        let agent = SystemBrowserUserAgent(launcher: nil, handoff: handoff)
        try await UserAgentConformance(agent: agent, redirectURI: RedirectURI("com.example.app:/callback")) {
            response in
            let outcome = try handoff.deliver(response)
            #expect(outcome == .taken)
        }.run()
    }

    @Test func headlessUserAgentConforms() async throws {
        let provider = InProcessTransport(origin: "https://id.example.com") { request, _ in
            let query = FormURLEncoding.decode((request.path ?? "").drop { $0 != "?" }.dropFirst())
            let response = FormURLEncoding.encodeQuery(["code": "conformance", "state": query?["state"] ?? ""])
            let location = "\(query?["redirect_uri"] ?? "")?\(response)"
            return TransportResponse(head: HTTPResponse(status: .found, headerFields: [.location: location]))
        }
        let driver = HTMLFormDriver(username: "alice", password: Secret("wonderland"), origins: [])
        let agent = HeadlessUserAgent(driver: driver, transport: provider)
        try await UserAgentConformance(agent: agent, redirectURI: RedirectURI("com.example.app:/callback")) { _ in }
            .run()
    }
}
