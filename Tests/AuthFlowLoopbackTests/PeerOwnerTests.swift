#if os(Linux)
import AuthFlow
import AuthFlowDesktop
import AuthFlowTesting
import Foundation
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowLoopback

/// Programs run by other users of the same machine, which may have read the start page's URL from a command line.
@Suite(.timeLimit(.minutes(1))) struct PeerOwnerTests {
    private func ask(_ host: String, _ ask: (Int) async throws -> Void) async throws -> [uid_t?] {
        let owners = Mutex<[uid_t?]>([])
        try await LoopbackServer.run(host: host, port: nil) { _ in
            { _, _ in
                owners.withLock { $0.append(LoopbackServer.peer?.userID) }
                return TransportResponse(head: HTTPResponse(status: .noContent))
            }
        } _: { port in
            try await ask(port)
        }
        return owners.withLock { $0 }
    }

    private static let hosts =
        (try? LoopbackPort.tryOut(host: "[::1]")) == nil ? ["127.0.0.1"] : ["127.0.0.1", "[::1]"]

    @Test(arguments: hosts)
    func theOwnerOfAConnectionIsKnown(_ host: String) async throws {
        let owners = try await ask(host) { port in
            _ = try await SystemTransport().send(TransportRequest(.get, Endpoint("http://\(host):\(port)/")))
        }
        #expect(owners == [geteuid()])
    }

    /// A visit by another user's program, followed by a visit by the user's own browser.
    private final class Visits: Sendable {
        let answers = Mutex<[String]>([])

        func browse(_ url: String) async throws {
            let stranger = try await getAsAnother(url)
            // The user's own browser visits after the other user's program, and its sign-in continues.
            let own = try await SystemTransport().send(TransportRequest(.get, Endpoint(url)))
            let redirectURI = own.head.headerFields[.location].flatMap { $0.split(separator: "=").last } ?? ""
            let callback = try Endpoint("\(redirectURI)?code=1&state=the-state")
            let forged = try await getAsAnother(callback.url)
            answers.withLock { $0 = [stranger, "\(own.status)", forged] }
            _ = try await SystemTransport().send(TransportRequest(.get, callback))
        }

        private static let otherUser = "65534"

        /// Requests a page as another user.
        private func getAsAnother(_ url: String) async throws -> String {
            let endpoint = try Endpoint(url)
            let script = """
                exec 3<>/dev/tcp/127.0.0.1/\(endpoint.port ?? 0)
                printf 'GET \(endpoint.path)\(endpoint.query.map { "?\($0)" } ?? "") HTTP/1.1\\r\\nHost: \(endpoint.authority)\\r\\nConnection: close\\r\\n\\r\\n' >&3
                cat <&3
                """
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/setpriv")
            process.arguments = ["--reuid", Self.otherUser, "--clear-groups", "bash", "-c", script]
            let output = Pipe()
            process.standardOutput = output
            try process.run()
            return try await BlockingCall.run {
                let bytes = output.fileHandleForReading.readDataToEndOfFile()
                process.waitUntilExit()
                return String(decoding: bytes, as: UTF8.self)
            } onCancel: {
            }
        }
    }

    @Test(.enabled(if: geteuid() == 0, "Only root can run a program as another user."))
    func theStartPageIsNotShownToAnotherUser() async throws {
        let options = RedirectOptions(
            redirectURIs: [.loopback],
            state: Secret("the-state"),
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
        let visits = Visits()
        let agent = LoopbackUserAgent(
            launcher: BrowserLauncher { url in
                Task { try await visits.browse(url) }
                return "test"
            }
        )
        let response = try await agent.withRedirectSession(options) { session in
            try await session.visit("https://id.example.com/authorize?redirect_uri=\(session.redirectURI)")
        }
        #expect(response.hasSuffix("?code=1&state=the-state"))
        let answers = visits.answers.withLock { $0 }
        #expect(answers.count == 3)
        #expect(answers[0].hasPrefix("HTTP/1.1 403") && !answers[0].contains("id.example.com"))
        #expect(answers[1] == "302" || answers[1] == "303")
        #expect(answers[2].hasPrefix("HTTP/1.1 403"))
    }
}
#endif
