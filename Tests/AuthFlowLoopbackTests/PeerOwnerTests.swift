#if os(Linux)
import AuthFlow
import AuthFlowDesktop
import AuthFlowTesting
import CommandHarness
import Foundation
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowLoopback

/// Programs run by other users of the same machine, which may have read the start page's URL from a command line.
@Suite(.timeLimit(.minutes(1))) struct PeerOwnerTests {
    private func ask(_ host: String, _ ask: (Int) async throws -> Void) async throws -> [PeerOwner.Owner?] {
        let owners = Mutex<[PeerOwner.Owner?]>([])
        try await LoopbackServer.run(host: host, port: nil) { _ in
            { _, _ in
                owners.withLock { $0.append(LoopbackServer.peer?.owner) }
                return TransportResponse(head: HTTPResponse(status: .noContent))
            }
        } _: { port in
            try await ask(port)
        }
        return owners.withLock { $0 }
    }

    private static let hosts =
        (try? LoopbackPort.probe(host: "[::1]")) == nil ? ["127.0.0.1"] : ["127.0.0.1", "[::1]"]

    @Test(arguments: hosts)
    func identifiesTheUserWhoOwnsALoopbackConnection(_ host: String) async throws {
        let owners = try await ask(host) { port in
            _ = try await SystemTransport().send(TransportRequest(.get, Endpoint("http://\(host):\(port)/")))
        }
        #expect(owners == [.user(geteuid())])
    }

    /// Runs a Perl program, and returns its output.
    private static func run(_ program: String, as user: String? = nil) async throws -> String {
        let own = user.map { ["--reuid", $0, "--clear-groups"] } ?? []
        return try await CommandHarness.run(
            own + ["/usr/bin/perl", "-MSocket", "-MSocket=IPPROTO_TCP,TCP_CORK", "-e", program],
            program: user == nil ? "/usr/bin/env" : "/usr/bin/setpriv",
            isAlone: false
        ).output
    }

    /// Unlike this peer, a browser waits for the response. TCP_CORK delays the partial segment until the socket is
    /// closed (or for 200 ms, tcp(7)).
    @Test func aClosedPeerSocketIsNotAttributedToTheUser() async throws {
        let owners = try await ask("127.0.0.1") { port in
            _ = try await Self.run(
                """
                socket(my $connection, AF_INET, SOCK_STREAM, 0) or die;
                connect($connection, pack_sockaddr_in(\(port), inet_aton("127.0.0.1"))) or die;
                setsockopt($connection, IPPROTO_TCP, TCP_CORK, pack("i", 1)) or die;
                syswrite($connection, "GET / HTTP/1.1\\r\\nHost: 127.0.0.1:\(port)\\r\\nConnection: close\\r\\n\\r\\n") or die;
                close($connection);
                """
            )
            _ = try await SystemTransport().send(TransportRequest(.get, Endpoint("http://127.0.0.1:\(port)/")))
        }
        // The server may discard the request of a connection that has been reset.
        #expect([[.gone, .user(geteuid())], [.user(geteuid())]].contains(owners))
    }

    /// A visit by another user's program, followed by a visit by the user's own browser.
    private final class Visits: Sendable {
        let answers = Mutex<[String]>([])
        let method: Method

        init(_ method: Method) { self.method = method }

        func browse(_ url: String) async throws {
            let stranger = try await getAsAnother(url)
            // The user's own browser visits after the other user's program, and the sign-in continues in the browser.
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
            let target = endpoint.path + (endpoint.query.map { "?\($0)" } ?? "")
            let port = endpoint.port ?? 0
            let plain = "(AF_INET, pack_sockaddr_in(\(port), inet_aton('127.0.0.1')))"
            let mapped = "(AF_INET6, pack_sockaddr_in6(\(port), Socket::inet_pton(AF_INET6, '::ffff:127.0.0.1')))"
            let script = """
                my ($family, $address) = \(method == .mapped ? mapped : plain);
                socket(my $connection, $family, SOCK_STREAM, 0) or die;
                connect($connection, $address) or die;
                syswrite($connection, "GET \(target) HTTP/1.1\\r\\nHost: \(endpoint.authority)\\r\\nConnection: close\\r\\n\\r\\n") or die;
                shutdown($connection, 1) if \(method == .halfClosed ? 1 : 0);
                while (sysread($connection, my $part, 65536)) { print $part; }
                """
            return try await PeerOwnerTests.run(script, as: Self.otherUser)
        }
    }

    /// The kind of connection that the other user's program makes.
    enum Method: CaseIterable { case plain, halfClosed, mapped }

    @Test(.enabled(if: geteuid() == 0, "Only root can run a program as another user."), arguments: Method.allCases)
    func rejectsLoopbackRequestsFromAnotherUsersProcess(_ method: Method) async throws {
        let users = Mutex<[String]>([])
        let options = RedirectOptions(
            redirectURIs: [.loopback],
            state: Secret("the-state"),
            reporter: FlowReporter { event in users.withLock { $0 += [event.details["user"]].compactMap(\.self) } },
            clock: ContinuousClock()
        )
        let visits = Visits(method)
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
        // Reported once, because the program may run under sudo, and the browser may be the user's own.
        #expect(users.withLock { $0 } == ["65534"])
    }
}
#endif
