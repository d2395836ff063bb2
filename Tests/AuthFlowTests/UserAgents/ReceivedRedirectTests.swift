import AuthFlow
import AuthFlowTesting
import CommandHarness
import Expectations
import Foundation
import Synchronization
import Testing

@testable import AuthFlowDesktop

/// Redirects that do not arrive through the user agent, but are pasted or come from an app's URL handler or another
/// process.
@Suite struct ReceivedRedirectTests {
    private static let redirectURI = "com.example.app:/callback"

    private func options(
        responseMode: ResponseMode = .query,
        state: Secret = Secret("the-right-state"),
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> RedirectOptions {
        RedirectOptions(
            redirectURIs: [try RedirectURI(Self.redirectURI)],
            state: state,
            responseMode: responseMode,
            reporter: FlowReporter(observer: observer),
            clock: ContinuousClock()
        )
    }

    struct Ignored: CustomTestStringConvertible {
        let parameters: String
        let reason: String
        var testDescription: String { parameters }
    }

    @Test(arguments: [
        Ignored(parameters: "code=1", reason: "has no state"),
        Ignored(parameters: "code=1&state=other", reason: "does not match this request"),
        Ignored(parameters: "response=a.b.c&response=a.b.c", reason: "or more than one"),
        Ignored(parameters: "state=the-right-state&error=50%+off", reason: "not form-encoded"),
        Ignored(parameters: "response=eyJhbGciOiJSU0EtT0FFUC0yNTYifQ.a.b.c.d", reason: "cannot be read"),
    ]) func theTimeoutAdviceExplainsWhyAResponseWasIgnored(_ test: Ignored) throws {
        let options = try options()
        #expect(options.ignoredResponseReason.advice.isEmpty)
        #expect(!options.accepts("\(Self.redirectURI)?\(test.parameters)", at: Self.redirectURI))
        #expect(options.ignoredResponseReason.advice.contains(test.reason), "\(options.ignoredResponseReason.advice)")
        // A different URL is unrelated to this sign-in.
        let other = try self.options()
        #expect(!other.accepts("https://example.com/?\(test.parameters)", at: Self.redirectURI))
        #expect(other.ignoredResponseReason.advice.isEmpty)
    }

    struct Redirect: CustomTestStringConvertible {
        let url: String
        let mode: ResponseMode
        let isAccepted: Bool
        var testDescription: String { url }
    }

    /// RFC 3986 section 6.2.3: browsers send "/" for an empty path, and Microsoft Entra also does so in a redirect to a private-use scheme.
    @Test(arguments: [
        ("https://app.example.com", "https://app.example.com/?code=1", true),
        ("https://app.example.com", "https://app.example.com?code=1", true),
        ("http://127.0.0.1:8456", "http://127.0.0.1:8456/?code=1", true),
        ("https://app.example.com", "https://app.example.com//?code=1", false),
        ("https://app.example.com", "https://app.example.com/x?code=1", false),
        ("https://app.example.com", "https://app.example.com.evil.example/?code=1", false),
        ("https://app.example.com/cb", "https://app.example.com/cb/?code=1", false),
        ("https://app.example.com?x=1", "https://app.example.com?x=1/&code=1", false),
        ("com.example.app://auth", "com.example.app://auth/?code=1", true),
        ("com.example.app://auth", "com.example.app://auth?code=1", true),
        ("com.example.app://auth/", "com.example.app://auth?code=1", true),
        ("com.example.app://auth?x=1", "com.example.app://auth/?x=1&code=1", true),
        ("com.example.app://auth", "com.example.app://auth//?code=1", false),
        ("com.example.app://auth", "com.example.app://auth/x?code=1", false),
        ("com.example.app://auth", "com.example.app://author/?code=1", false),
        ("com.example.app://auth:443", "com.example.app://auth/?code=1", false),
        ("com.example.app://auth/cb", "com.example.app://auth/cb/?code=1", false),
        ("com.example.app:", "com.example.app:/?code=1", false),
    ])
    func anEmptyPathOfARedirectURIIsEquivalentToASlash(_ redirectURI: String, _ url: String, _ isAccepted: Bool) {
        #expect((RedirectResponse.encoded(in: url, at: redirectURI, .query) == "code=1") == isAccepted)
    }

    /// RFC 3986 sections 6.2.2.1 and 6.2.3: browsers send a host in lower case and omit the default port, however the redirect URI is registered.
    @Test(arguments: [
        ("https://App.example.com/cb", "https://app.example.com/cb?code=1", true),
        ("https://App.example.com/cb", "https://App.example.com/cb?code=1", true),
        ("https://app.example.com:443/cb", "https://app.example.com/cb?code=1", true),
        ("https://app.example.com/cb", "https://app.example.com:443/cb?code=1", true),
        ("https://app.example.com?x=1", "https://app.example.com/?x=1&code=1", true),
        ("https://app.example.com/Cb", "https://app.example.com/cb?code=1", false),
        ("https://app.example.com:443/cb", "https://app.example.com:8443/cb?code=1", false),
        ("https://app.example.com:80/cb", "https://app.example.com/cb?code=1", false),
        ("https://app.example.com/cb", "https://app.example.com:443@evil.example/cb?code=1", false),
        ("com.example.app://Cb/", "com.example.app://cb/?code=1", false),
    ])
    func theHostOfARedirectIsComparedAsBrowsersSendIt(_ redirectURI: String, _ url: String, _ isAccepted: Bool) {
        #expect((RedirectResponse.encoded(in: url, at: redirectURI, .query) == "code=1") == isAccepted)
    }

    /// RFC 3986 section 6.2.2.1: browsers send a scheme in lower case.
    @Test(arguments: [
        ("com.Example.App:/cb", "com.example.app:/cb?code=1", true),
        ("com.example.app:/cb", "COM.EXAMPLE.APP:/cb?code=1", true),
        ("com.example.app:/cb", "com.example.app:/CB?code=1", false),
        ("com.example.app:/cb", "com.example.apq:/cb?code=1", false),
    ])
    func theSchemeOfARedirectIsCaseInsensitive(_ redirectURI: String, _ url: String, _ isAccepted: Bool) {
        #expect((RedirectResponse.encoded(in: url, at: redirectURI, .query) == "code=1") == isAccepted)
    }

    static let redirects: [Redirect] = [
        Redirect(url: "com.example.app:/callback?code=1&state=the-right-state", mode: .query, isAccepted: true),
        Redirect(
            url: "com.example.app:/callback?error=access_denied&state=the-right-state",
            mode: .query,
            isAccepted: true
        ),
        Redirect(url: "com.example.app:/callback#code=1&state=the-right-state", mode: .fragment, isAccepted: true),
        Redirect(url: "com.example.app:/callback#code=1&state=the-right-state", mode: .query, isAccepted: false),
        Redirect(url: "com.example.app:/callback?code=1&state=the-right-state", mode: .fragment, isAccepted: false),
        // Some providers append an empty or meaningless fragment.
        Redirect(url: "com.example.app:/callback?code=1&state=the-right-state#", mode: .query, isAccepted: true),
        Redirect(url: "com.example.app:/callback?code=1&state=the-right-state#_=_", mode: .query, isAccepted: true),
        Redirect(url: "com.example.app:/callback?code=1&state=the-right-state#_", mode: .query, isAccepted: true),
        Redirect(url: "com.example.app:/callback?code=1&state=the-right-state#__", mode: .query, isAccepted: false),
        Redirect(url: "com.example.app:/callback?code=1&state=the-right-state#_=_x", mode: .query, isAccepted: false),
        Redirect(url: "com.example.app:/callback?code=1&state=the-right-state##", mode: .query, isAccepted: false),
        Redirect(url: "com.example.app:/callback?code=1&state=the-right-state#x", mode: .query, isAccepted: false),
        Redirect(url: "com.example.app:/callback?code=1&state=wrong", mode: .query, isAccepted: false),
        Redirect(url: "com.example.app:/callback?code=1", mode: .query, isAccepted: false),
        Redirect(
            url: "com.example.app:/callback?state=the-right-state&state=the-right-state",
            mode: .query,
            isAccepted: false
        ),
        Redirect(url: "com.example.app:/callbackx?code=1&state=the-right-state", mode: .query, isAccepted: false),
        Redirect(url: "com.example.app:/other?code=1&state=the-right-state", mode: .query, isAccepted: false),
        Redirect(url: "com.example.xyz:/callback?code=1&state=the-right-state", mode: .query, isAccepted: false),
        Redirect(
            url: "https://evil.example/com.example.app:/callback?state=the-right-state",
            mode: .query,
            isAccepted: false
        ),
        Redirect(url: "the-right-state", mode: .query, isAccepted: false),
        Redirect(url: "", mode: .query, isAccepted: false),
    ]

    @Test(arguments: redirects)
    func acceptsOnlyTheAuthorizationResponseToTheCurrentRequest(_ redirect: Redirect)
        throws
    {
        let options = try options(responseMode: redirect.mode)
        #expect(options.accepts(redirect.url, at: Self.redirectURI) == redirect.isAccepted)
    }

    // MARK: From another process

    private func withFolder(_ body: (_ folder: String, _ handoff: RedirectHandoff) async throws -> Void) async throws {
        let folder = "/tmp/authflow-\(UUID().uuidString.prefix(8))"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await body(folder, RedirectHandoff(directory: folder))
    }

    /// Some providers encode descriptions in Latin-1.
    @Test(arguments: ["", "#", "&error_description=f%FCr"])
    func receivesTheRedirectFromAnotherProcess(_ suffix: String) async throws {
        try await withFolder { folder, handoff in
            let agent = SystemBrowserUserAgent(launcher: nil, handoff: handoff)
            let outcomes = Mutex<[RedirectHandoff.Outcome]>([])
            let names = Mutex<[String]>([])
            let response = try await agent.withRedirectSession(try options()) { session in
                #expect(session.redirectURI == Self.redirectURI)
                async let response = session.visit("https://id.example.com/authorize")
                let files = try FileManager.default.contentsOfDirectory(atPath: folder)
                names.withLock { $0 = files }
                let mode = try FileManager.default.attributesOfItem(atPath: "\(folder)/\(files[0])")[.posixPermissions]
                #expect(mode as? Int == 0o600)
                for url in [
                    "com.example.app:/callback?code=1&state=wrong", "com.example.app:/callback",
                    "com.example.app:/other?code=1&state=the-right-state",
                    "com.example.app:/callback?code=1&state=the-right-state#code=2",
                    "com.example.app:/callback?code=1&state=the-right-state\(suffix)",
                ] {
                    // This background thread blocks, as a separate process would.
                    let outcome = try await Self.inBackground { try handoff.deliver(url) }
                    outcomes.withLock { $0.append(outcome) }
                }
                return try await response
            }
            #expect(response == "com.example.app:/callback?code=1&state=the-right-state\(suffix)")
            #expect(outcomes.withLock { $0 } == [.noListener, .noListener, .refused, .refused, .taken])
            // The socket's name does not reveal the state, and the socket is removed afterwards.
            #expect(names.withLock { $0 }.allSatisfy { $0.count == 37 && !$0.contains("the-right") })
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder).isEmpty)
            #expect(try handoff.deliver(response) == .noListener)
        }
    }

    /// The state is a claim of the response (JARM). An encrypted response, which only one process can decrypt, is offered to every process.
    @Test(arguments: [
        ("?response=\(signedResponse)", ResponseMode.queryJWT, false),
        ("#response=\(signedResponse)", .fragmentJWT, false), ("?response=a.b.c.d.e", .jwt, true),
    ])
    func receivesASignedResponseFromAnotherProcess(_ response: String, _ mode: ResponseMode, _ isEncrypted: Bool)
        async throws
    {
        try await withFolder { folder, handoff in
            let agent = SystemBrowserUserAgent(launcher: nil, handoff: handoff)
            // The other sign-in has no decryption key.
            let other = try self.options(responseMode: mode, state: Secret("another-state"))
            var options = try self.options(responseMode: mode)
            options.decrypt = { (text) throws(AuthError) in
                text == Secret("a.b.c.d.e") ? Secret(Self.signedResponse) : text
            }
            let redirect = "\(Self.redirectURI)\(response)"
            let received: String = try await agent.withRedirectSession(other) { [options] _ in
                let refused = try await Self.inBackground { try handoff.deliver(redirect) }
                #expect(refused == (isEncrypted ? .refused : .noListener))
                // The redirect is not recorded as an ignored response to the other sign-in.
                if !isEncrypted { #expect(other.ignoredResponseReason.advice.isEmpty) }
                return try await agent.withRedirectSession(options) { session in
                    async let received = session.visit("https://id.example.com/authorize")
                    let taken = try await Self.inBackground { try handoff.deliver(redirect) }
                    #expect(taken == .taken)
                    return try await received
                }
            }
            #expect(received == redirect)
            #expect(try handoff.deliver(redirect) == .noListener)
        }
    }

    /// A JWS with the claim `state`; the user agent does not verify its signature.
    private static let signedResponse =
        "eyJhbGciOiJFUzI1NiJ9.eyJzdGF0ZSI6InRoZS1yaWdodC1zdGF0ZSJ9.c2lnbmF0dXJl"

    @Test func deliveringARedirectCreatesNoDirectoryIfNoSignInIsPending() async throws {
        try await withFolder { folder, handoff in
            let outcome = try handoff.deliver("com.example.app:/callback?state=x")
            #expect(outcome == .noListener)
            #expect(!FileManager.default.fileExists(atPath: folder))
        }
    }

    @Test func removesTheSocketsOfKilledProcesses() async throws {
        try await withFolder { folder, handoff in
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            try await Self.leaveDeadSocket("\(folder)/dead.sock")
            try Data().write(to: URL(fileURLWithPath: "\(folder)/note.txt"))
            #expect(try handoff.deliver("com.example.app:/callback?state=x") == .noListener)
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["note.txt"])
        }
    }

    /// A socket has a temporary name, with the ID of its process, until that process listens.
    @Test func removesTheUnfinishedSocketsOfKilledProcessesOnly() async throws {
        try await withFolder { folder, handoff in
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            // Process 1 belongs to the superuser; no process has the highest ID.
            let own = ProcessInfo.processInfo.processIdentifier
            let kept = ["1-a.new", "0-a.new", "a.new"] + (0..<4).map { "\(own)-\($0).new" }
            for (index, name) in kept.enumerated() {
                for file in [name, "\(Int32.max)-\(index).new"] {
                    try Data().write(to: URL(fileURLWithPath: "\(folder)/\(file)"))
                }
            }
            #expect(try handoff.deliver("com.example.app:/callback?state=x") == .noListener)
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder).sorted() == kept.sorted())
        }
    }

    @Test func reportsWhyASocketCannotBeCreated() async throws {
        try await withFolder { folder, _ in
            let occupied = "\(folder)/a.sock"
            try FileManager.default.createDirectory(atPath: occupied, withIntermediateDirectories: true)
            let long = "\(folder)/\(String(repeating: "x", count: 200)).d/a.sock"
            for (path, reason) in [(occupied, "Is a directory"), (long, "File name too long")] {
                let error = #expect(throws: AuthError.self) { try LocalSocket.listen(at: path) }
                #expect(error?.code == .userAgentFailed)
                #expect(error?.message.contains(reason) == true, "\(error?.message ?? "")")
            }
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["a.sock"])
        }
    }

    /// A socket's temporary name is shorter than its final name, to which the other process connects.
    @Test func rejectsADirectoryInWhichOnlyTheTemporaryNameOfASocketIsShortEnough() async throws {
        try await withFolder { folder, _ in
            let directory = "\(folder)/\(String(repeating: "x", count: 57))"
            let agent = SystemBrowserUserAgent(launcher: nil, handoff: RedirectHandoff(directory: directory))
            let options = try options()
            await expectError(.userAgentFailed) {
                try await agent.withRedirectSession(options) { session in session.redirectURI }
            }
        }
    }

    /// Such a sender would otherwise block the next redirect.
    @Test func stopsReadingFromASenderWhenTheTimeIsUp() async throws {
        try await withFolder { folder, _ in
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let listener = try LocalSocket.listen(at: "\(folder)/a.sock")
            let sender = try #require(LocalSocket.connect(to: "\(folder)/a.sock"))
            let receiver = accept(listener, nil, nil)
            defer { for descriptor in [receiver, sender, listener] { close(descriptor) } }
            #expect(LocalSocket.readLine(from: receiver, maximumSize: 32, waitTimeout: 10) == nil)
            LocalSocket.write(Array("late\n".utf8), to: sender)
            #expect(LocalSocket.readLine(from: receiver, maximumSize: 32, waitTimeout: 0) == nil)
            #expect(LocalSocket.readLine(from: receiver, maximumSize: 32, waitTimeout: 60_000) == "late")
        }
    }

    /// A sign-in that was suspended with Ctrl-Z listens but does not respond.
    @Test func doesNotWaitForASuspendedSignIn() async throws {
        try await withFolder { folder, handoff in
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            let path = "\(folder)/stopped.sock"
            let listener = try LocalSocket.listen(at: path)
            var callers: [Int32] = []
            while let caller = LocalSocket.connect(to: path) { callers.append(caller) }
            #expect(try handoff.deliver("com.example.app:/callback?state=x") == .noListener)
            #expect(FileManager.default.fileExists(atPath: path))
            for descriptor in callers + [listener] { close(descriptor) }
        }
    }

    @Test func rejectsAWorldWritableSocketDirectory() async throws {
        try await withFolder { folder, handoff in
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder)
            expectError(.storageFailed) { try handoff.deliver("com.example.app:/callback?state=x") }
            await expectError(.storageFailed) {
                try await SystemBrowserUserAgent(launcher: nil, handoff: handoff)
                    .withRedirectSession(try options()) { _ in }
            }
        }
    }

    @Test func cancellationLeavesNoSocketBehind() async throws {
        try await withFolder { folder, handoff in
            let agent = SystemBrowserUserAgent(launcher: nil, handoff: handoff)
            let (starts, start) = AsyncStream<Void>.makeStream()
            let options = try options { event in if event.url != nil { start.finish() } }
            let task = Task {
                try await agent.withRedirectSession(options) { try await $0.visit("https://id.example.com/authorize") }
            }
            for await _ in starts {}
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder).isEmpty)
        }
    }

    @Test func rejectsFormPostForAPrivateUseURIScheme() async throws {
        await expectError(.unsupported) {
            try await SystemBrowserUserAgent(launcher: nil)
                .withRedirectSession(try options(responseMode: .formPost)) { _ in }
        }
    }

    private static func inBackground<Return: Sendable>(_ body: @escaping @Sendable () throws -> Return) async throws
        -> Return
    {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
        }
    }

    /// A socket without a listener, such as one left behind by a killed process.
    private static func leaveDeadSocket(_ path: String) async throws {
        let script = "import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"
        _ = try await CommandHarness.run(["python3", "-c", script, path], program: "/usr/bin/env")
        try #require(FileManager.default.fileExists(atPath: path))
    }
}
