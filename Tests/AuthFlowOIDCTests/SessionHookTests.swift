import AuthFlow
import AuthFlowServer
import AuthFlowTesting
import ConformanceRows
import Expectations
import HTTPTypes
import Synchronization
import Testing

private struct Basket: SessionData, Equatable {
    var items: [String] = []
}

private struct HookError: Error {}

/// The notifications that a test's hooks received.
private final class Notes: Sendable {
    private let state = Mutex<[String]>([])
    var all: [String] { state.withLock { $0 } }
    func add(_ note: String) { state.withLock { $0.append(note) } }
}

/// A store that, like a database, abandons the reads of a cancelled task.
private struct CancellableReadsStore: ForwardingSessionStore {
    let base = MemoryTokenStore()

    func bytes(for key: RecordKey) async throws -> [UInt8]? {
        try Task.checkCancellation()
        return await base.bytes(for: key)
    }

    func records(tagged tag: RecordTag) async throws -> [TaggedRecord] {
        try Task.checkCancellation()
        return await base.records(tagged: tag)
    }
}

@Suite struct SessionHookTests {
    private func server(_ web: WebEnvironment, _ hooks: (inout SessionHooks) -> Void) throws -> SessionServer {
        try web.process(options: { hooks(&$0.hooks) })
    }

    @Test func theSignInHookSetsTheSessionDataAndTheReturnPath() async throws {
        try await WebEnvironment.run { web in
            let notes = Notes()
            let server = try server(web) {
                $0.onSignIn = { signIn in
                    notes.add("\(signIn.identity?.subject ?? "") \(signIn.returnPath) \(signIn.previous == nil)")
                    return try .accept(Basket(items: ["welcome"]), returningTo: "/welcome")
                }
            }
            let browser = WebBrowser()
            let response = try await browser.signIn(web, at: server, returnTo: "/orders?page=2")
            #expect(String(decoding: response.body, as: UTF8.self).contains("url=/welcome\""))
            let session = try #require(try await browser.session(at: server))
            #expect(notes.all == ["\(session.identity?.subject ?? "") /orders?page=2 true"])
            #expect(try await server.data(Basket.self, of: session) == Basket(items: ["welcome"]))
        }
    }

    enum Refusal: CaseIterable { case refused, redirected, thrown, cancelled, hanging }

    @Test(arguments: Refusal.allCases) func aSignInNotAcceptedByTheHookCreatesNoSessionAndRevokesItsTokens(
        _ refusal: Refusal
    )
        async throws
    {
        try await WebEnvironment.run { web in
            let server = try server(web) {
                $0.onSignIn = { _ in
                    switch refusal {
                    case .refused: return .refuse("Ask <your> administrator.")
                    case .redirected: return .redirect(to: "https://help.example.com/")
                    case .thrown: throw HookError()
                    case .cancelled: throw CancellationError()
                    case .hanging:
                        // The loop ends when the task is cancelled.
                        for await _ in AsyncStream<Void>.makeStream().stream {}
                        throw CancellationError()
                    }
                }
                if refusal == .hanging { $0.timeout = .zero }
            }
            let browser = WebBrowser()
            let response = try await browser.signIn(web, at: server)
            #expect(browser.session == nil)
            let page = String(decoding: response.body, as: UTF8.self)
            switch refusal {
            case .refused:
                #expect(response.status == 403)
                #expect(page.contains("Ask &lt;your&gt; administrator."))
            case .redirected:
                #expect(response.head.headerFields[.location] == "https://help.example.com/")
            case .thrown, .cancelled, .hanging:
                #expect(response.status == 500)
                #expect(!page.contains("HookError"))
            }
            #expect(await server.drain(within: .seconds(20)))
            #expect(web.environment.emulator.requests.count { $0 == "POST /revoke" } == 2)
            #expect(browser.cookies.isEmpty)
        }
    }

    /// Revocation could make the provider revoke the whole grant, and thus end the session that must continue.
    @Test func aHookErrorDoesNotRevokeTokensOfAUserWhoIsStillSignedIn() async throws {
        try await WebEnvironment.run { web in
            let isDown = Mutex(false)
            let server = try server(web) { hooks in
                hooks.onSignIn = { _ in
                    if isDown.withLock({ $0 }) { throw HookError() }
                    return .accept
                }
            }
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            isDown.withLock { $0 = true }
            let response = try await browser.signIn(web, at: server)
            #expect(response.status == 500)
            #expect(await server.drain(within: .seconds(20)))
            #expect(!web.environment.emulator.requests.contains("POST /revoke"))
            let session = try #require(try await browser.session(at: server))
            _ = try await server.freshTokens(for: session)
        }
    }

    /// A hook that waits for an `EventLoopFuture` does not respond to task cancellation.
    @Test(.timeLimit(.minutes(1))) func aHookThatIgnoresItsCancellationDoesNotBlockSignInAndSignOut() async throws {
        try await WebEnvironment.run { web in
            let (releases, release) = AsyncStream.makeStream(of: Void.self)
            let waiting = SharedTask { for await _ in releases {} }
            @Sendable func hang() async {
                let task = Task.detached { _ = try? await waiting.value() }
                await task.value
            }
            let server = try server(web) { hooks in
                hooks.timeout = .milliseconds(50)
                hooks.onSignIn = { _ in
                    await hang()
                    return .accept
                }
                hooks.onSignOut = { _ in await hang() }
            }
            let browser = WebBrowser()
            try await browser.signIn(web, at: try web.process())
            let rejected = try await browser.signIn(web, at: server)
            #expect(rejected.status == 500)
            #expect(try await browser.session(at: server) != nil)
            _ = try await browser.send(.post, "/logout", to: server, WebBrowser.ownPage)
            #expect(try await browser.session(at: server) == nil)
            release.finish()
        }
    }

    /// When a user signs in through a link on another site, the accounts must not be linked.
    @Test func theHookReceivesNoPreviousSessionWithoutAccountLinking() async throws {
        try await WebEnvironment.run { web in
            let notes = Notes()
            let server = try server(web) {
                $0.onSignIn = { signIn in
                    notes.add("\(signIn.previous == nil)")
                    return .accept
                }
            }
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            try await browser.signIn(web, at: server, user: .bob)
            #expect(notes.all == ["true", "true"])
        }
    }

    @Test func preservesSessionDataThatChangesDuringASignIn() async throws {
        try await WebEnvironment.run { web in
            let hook = Mutex<(@Sendable () async throws -> Void)?>(nil)
            let server = try server(web) { hooks in
                hooks.onSignIn = { _ in
                    try await hook.withLock { $0 }?()
                    return .accept
                }
            }
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let session = try #require(try await browser.session(at: server))
            try await server.updateData(of: session) { (basket: inout Basket?) in basket = Basket(items: ["a"]) }
            hook.withLock {
                $0 = {
                    try await server.updateData(of: session) { (basket: inout Basket?) in basket?.items.append("b") }
                }
            }
            try await browser.signIn(web, at: server)
            #expect(try await browser.data(Basket.self, at: server)?.items == ["a", "b"])
        }
    }

    @Test func rejectingAnotherUserPreservesThePreviousSession() async throws {
        try await WebEnvironment.run { web in
            let notes = Notes()
            let server = try server(web) {
                $0.onSignIn = { signIn in
                    guard let previous = signIn.previous else { return try .accept(Basket(items: ["tea"])) }
                    notes.add("\(try previous.data(Basket.self)?.items ?? [])")
                    return .refuse("One user at a time.")
                }
            }
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let first = browser.session
            var options = SessionSignInOptions()
            options.linksAccounts = true
            let response = await server.signIn(browser.request(.get, "/"), options)
            browser.keep(response)
            let callback = try await web.environment.visit(
                try #require(response.head.headerFields[.location]),
                user: .bob
            )
            _ = try await browser.send(.get, String(callback.dropFirst(WebEnvironment.origin.count)), to: server)
            #expect(browser.session == first)
            #expect(try await browser.data(Basket.self, at: server) == Basket(items: ["tea"]))
            #expect(notes.all == [#"["tea"]"#])
            #expect(await server.drain(within: .seconds(20)))
            #expect(web.environment.emulator.requests.count { $0 == "POST /revoke" } == 2)
        }
    }

    /// The user chose a different account, so neither data nor session is shared.
    @Test func sessionDataIsNotCarriedOverToAnotherUser() async throws {
        try await WebEnvironment.run { web in
            let notes = Notes()
            let server = try server(web) {
                $0.onEnd = { notes.add("\($0.reason.rawValue) \($0.session.identity?.subject ?? "")") }
            }
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let alice = try #require(try await browser.session(at: server))
            try await server.updateData(of: alice) { (basket: inout Basket?) in basket = Basket(items: ["secret"]) }
            try await browser.signIn(web, at: server)
            let again = try #require(try await browser.session(at: server))
            #expect(try await server.data(Basket.self, of: again) == Basket(items: ["secret"]))
            #expect(again.name != alice.name)
            try await browser.signIn(web, at: server, user: .bob)
            #expect(try await browser.data(Basket.self, at: server) == nil)
            #expect(await server.drain(within: .seconds(20)))
            let subject = alice.identity?.subject ?? ""
            #expect(notes.all == ["replaced \(subject)", "replaced \(subject)"])
        }
    }

    /// Plain OAuth 2.0 does not identify the user, so two sign-ins may belong to different users.
    @Test func sessionDataOfAnUnidentifiedUserIsNotCarriedOver() async throws {
        try await WebEnvironment.run { web in
            let server = try web.process(registration: { $0.scopes = ["repo", "offline_access"] })
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let alice = try #require(try await browser.session(at: server))
            #expect(alice.identity == nil)
            try await server.updateData(of: alice) { (basket: inout Basket?) in basket = Basket(items: ["secret"]) }
            try await browser.signIn(web, at: server, user: .bob)
            #expect(try await browser.data(Basket.self, at: server) == nil)
        }
    }

    /// The user closes the page, or the process shuts down, while the hook runs.
    @Test func aCancelledSignOutStillEndsTheSessionAndReportsItsEnd() async throws {
        try await WebEnvironment.run { web in
            let notes = Notes()
            let request = Mutex<Task<Void, any Error>?>(nil)
            let server = try server(web) {
                $0.onSignOut = { _ in request.withLock { $0?.cancel() } }
                $0.onEnd = { notes.add($0.reason.rawValue) }
            }
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            // The hook waits for the lock, so it finds the task.
            let signOut = request.withLock { request in
                let task = Task { _ = try await browser.send(.post, "/logout", to: server, WebBrowser.ownPage) }
                request = task
                return task
            }
            try await signOut.value
            #expect(await server.drain(within: .seconds(20)))
            #expect(try await browser.session(at: server) == nil)
            #expect(notes.all == ["signed_out"])
        }
    }

    @Test(arguments: ["/logout", "/logout?everywhere=1", "/backchannel-logout", "/ended", nil])
    func aSignOutThatIsCancelledBeforeItsFirstReadEndsTheSession(_ path: String?) async throws {
        try await WebEnvironment.run { web in
            let application = WebEnvironment(web.environment, store: CancellableReadsStore())
            let server = try application.process(options: { $0.frontChannelLogoutPath = "/ended" })
            let browser = WebBrowser()
            try await browser.signIn(application, at: server)
            let session = try #require(try await browser.session(at: server))
            let subject = session.identity?.subject
            let sessionID = try #require(session.authentication?.sessionID)
            let query = FormURLEncoding.encodeQuery(["iss": web.environment.emulator.issuer, "sid": sessionID])
            let token = try application.environment.emulator.logoutToken(
                for: WebEnvironment.client.id,
                subject: subject
            )
            let signOut = Task {
                // The loop ends when the task is cancelled.
                while !Task.isCancelled { await Task.yield() }
                if path == "/ended" {
                    _ = try await browser.send(.get, "/ended?\(query)", to: server)
                } else if let path {
                    let body = Array("logout_token=\(token)".utf8)
                    _ = try await browser.send(.post, path, to: server, WebBrowser.ownPage, body: body)
                } else {
                    try? await server.endSessions(ofUserOf: session)
                }
            }
            signOut.cancel()
            try await signOut.value
            #expect(await server.drain(within: .seconds(20)))
            #expect(try await browser.session(at: server) == nil)
        }
    }

    /// The browser closes its connection during the callback, so it cannot receive a cookie.
    @Test(arguments: [true, false]) func aCancelledCallbackStartsNoSessionAndRevokesItsTokens(
        _ isDuringHook: Bool
    ) async throws {
        try await WebEnvironment.run { web in
            let browser = WebBrowser()
            try await browser.signIn(web, at: try web.process())
            let previous = browser.session
            let notes = Notes()
            let request = Mutex<Task<Void, any Error>?>(nil)
            let held = HeldRequests(base: web.environment.transport, path: isDuringHook ? "" : "/token")
            let server = try web.process(
                transport: held,
                options: { options in
                    options.hooks.onSignIn = { _ in
                        notes.add("signing in")
                        request.withLock { $0?.cancel() }
                        return .accept
                    }
                }
            )
            let target = try await browser.visitProvider(web, at: server, user: .bob)
            // The hook waits for the lock, so it finds the task.
            let callback = request.withLock { request in
                let task = Task { _ = try await browser.send(.get, target, to: server) }
                request = task
                return task
            }
            if !isDuringHook {
                await held.arrivals(1)
                callback.cancel()
                held.released.continuation.finish()
            }
            try await callback.value
            #expect(await server.drain(within: .seconds(20)))
            #expect(notes.all == (isDuringHook ? ["signing in"] : []))
            #expect(web.environment.emulator.requests.count { $0 == "POST /revoke" } == 2)
            #expect(browser.session == previous)
            #expect(try await browser.session(at: server) != nil)
        }
    }

    @Test func eachSessionEndIsReportedOnceWithItsReason() async throws {
        try await WebEnvironment.run { web in
            let notes = Notes()
            let server = try server(web) {
                $0.onSignOut = { notes.add("signing out of \($0.name.count)") }
                $0.onEnd = {
                    notes.add("\($0.reason.rawValue) \((try? $0.session.data(Basket.self))??.items.joined() ?? "")")
                }
            }
            func browser() async throws -> (WebBrowser, Session) {
                let browser = WebBrowser()
                try await browser.signIn(web, at: server)
                let session = try #require(try await browser.session(at: server))
                try await server.updateData(of: session) { (basket: inout Basket?) in basket = Basket(items: ["x"]) }
                return (browser, session)
            }
            let (laptop, _) = try await browser()
            _ = try await laptop.send(.post, "/logout", to: server, WebBrowser.ownPage)
            #expect(await server.drain(within: .seconds(20)))
            #expect(notes.all == ["signing out of 43", "signed_out x"])

            let (phone, _) = try await browser()
            web.environment.emulator.endSessions()
            web.environment.emulator.revokeAccessTokens()
            await expectError(.loginRequired) {
                _ = try await server.credentials.refresh(CredentialKey(phone.session ?? ""))
            }
            #expect(await server.drain(within: .seconds(20)))
            #expect(notes.all.last == "refresh_refused x")
            #expect(notes.all.count == 3)
            // The remaining records of the ended session do not cause a second end-of-session event.
            try await phone.signIn(web, at: server)
            #expect(await server.drain(within: .seconds(20)))
            #expect(notes.all.count == 3)
        }
    }
}
