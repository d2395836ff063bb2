import AuthFlow
import AuthFlowServer
import AuthFlowTesting
import ConformanceRows
import Expectations
import HTTPTypes
import Synchronization
import Testing

/// A store that rejects a number of writes because the lease was lost.
private final class LosingStore: ForwardingSessionStore {
    let base = MemoryTokenStore()
    private let losses = Mutex(0)

    func loseLeases(_ count: Int) { losses.withLock { $0 = count } }

    func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        let isLost = losses.withLock { losses in
            losses -= 1
            return losses >= 0
        }
        if isLost { throw Lease.lost }
        try await base.write(bytes, under: lease)
    }
}

private struct Basket: SessionData, Equatable {
    var items: [String] = []
}

@Suite struct SessionDataTests {
    private struct Settings: SessionData, Equatable {
        static let version = 2
        var color = ""
        static func upgraded(from version: Int, _ json: [UInt8]) throws -> Settings {
            Settings(color: "upgraded from \(version)")
        }
    }

    private struct NewSettings: SessionData {
        static let version = 3
        var colors: [String] = []
    }

    private struct OldSettings: SessionData { var colour = "blue" }

    private func withSession(
        store: (any SessionTokenStore)? = nil,
        _ body: @Sendable (WebEnvironment, SessionServer, WebBrowser, Session) async throws -> Void
    ) async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [WebEnvironment.client]) { environment in
            let web = WebEnvironment(environment, store: store)
            let (server, browser) = (try web.process(), WebBrowser())
            try await browser.signIn(web, at: server)
            try await body(web, server, browser, try #require(try await browser.session(at: server)))
        }
    }

    @Test func sessionDataWrittenByOneProcessIsReadByOthers() async throws {
        try await withSession { web, server, browser, session in
            let changed = try await server.updateData(of: session) { (basket: inout Basket?) in
                basket = Basket(items: ["é"])
            }
            #expect(changed == Basket(items: ["é"]))
            #expect(try await browser.data(Basket.self, at: server)?.items == ["é"])
            #expect(try await browser.data(Basket.self, at: try web.process())?.items == ["é"])
            try await server.updateData(of: session) { (basket: inout Basket?) in basket = nil }
            #expect(try await browser.data(Basket.self, at: server) == nil)
        }
    }

    @Test func concurrentSessionDataUpdatesAreNotLost() async throws {
        try await withSession { web, server, browser, session in
            let processes = [server, try web.process(), try web.process()]
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<30 {
                    group.addTask {
                        try await processes[number % 3].updateData(of: session) { (basket: inout Basket?) in
                            basket = Basket(items: (basket?.items ?? []) + ["\(number)"])
                        }
                    }
                }
                try await group.waitForAll()
            }
            let items = try await browser.data(Basket.self, at: try web.process())?.items
            #expect(Set(items ?? []).count == 30)
        }
    }

    @Test func aRefreshPreservesSessionDataAndADataUpdatePreservesTheTokens() async throws {
        try await withSession { web, server, browser, session in
            try await server.updateData(of: session) { (basket: inout Basket?) in basket = Basket(items: ["a"]) }
            web.environment.emulator.revokeAccessTokens()
            let key = CredentialKey(browser.session ?? "")
            let refreshed = try await server.credentials.refresh(key)
            #expect(try await browser.data(Basket.self, at: server)?.items == ["a"])
            let elsewhere = try web.process()
            try await elsewhere.updateData(of: session) { (basket: inout Basket?) in basket = Basket(items: ["b"]) }
            #expect(try await elsewhere.freshTokens(for: session).accessToken == refreshed.tokens.accessToken)
            // The used refresh token was not written back.
            #expect(try await elsewhere.credentials.refresh(key).tokens.accessToken != refreshed.tokens.accessToken)
            #expect(try await browser.data(Basket.self, at: elsewhere)?.items == ["b"])
        }
    }

    @Test(arguments: [2, 3]) func aChangeOfSessionDataIsRetriedTwiceAfterALostLease(_ losses: Int) async throws {
        let store = LosingStore()
        try await withSession(store: store) { _, server, browser, session in
            store.loseLeases(losses)
            _ = try? await server.updateData(of: session) { (basket: inout Basket?) in basket = Basket(items: ["a"]) }
            store.loseLeases(0)
            let data = try await browser.data(Basket.self, at: server)
            #expect((data != nil) == (losses == 2))
        }
    }

    @Test func oversizedSessionDataIsRejectedAndTheOldDataIsKept() async throws {
        try await withSession { _, server, browser, session in
            try await server.updateData(of: session) { (basket: inout Basket?) in basket = Basket(items: ["a"]) }
            let error = await #expect(throws: AuthError.self) {
                try await server.updateData(of: session) { (basket: inout Basket?) in
                    basket = Basket(items: [String(repeating: "x", count: 16 * 1024)])
                }
            }
            #expect(error?.code == .sessionDataUnusable)
            #expect(try await browser.data(Basket.self, at: server)?.items == ["a"])
        }
    }

    @Test func dataThatMakesASessionTooLargeToStoreIsRejected() async throws {
        try await withSession { _, server, browser, session in
            try await server.updateData(of: session) { (basket: inout Basket?) in basket = Basket(items: ["a"]) }
            let error = await #expect(throws: AuthError.self) {
                try await server.credentials.changeApplicationData(of: CredentialKey(browser.session ?? "")) { _ in
                    Secret(String(repeating: "x", count: Credential.maximumSize))
                }
            }
            #expect(error?.code == .sessionDataUnusable)
            #expect(error?.message.contains("too large") == true)
            #expect(try await browser.data(Basket.self, at: server)?.items == ["a"])
        }
    }

    @Test func olderSessionDataIsUpgradedAndNewerDataIsNotOverwritten() async throws {
        try await withSession { _, server, browser, session in
            try await server.updateData(of: session) { (old: inout OldSettings?) in old = OldSettings() }
            let old = try #require(try await browser.session(at: server))
            #expect(try await server.data(Settings.self, of: old) == Settings(color: "upgraded from 1"))
            await expectError(.sessionDataUnusable) { try await server.data(NewSettings.self, of: old) }
            try await server.updateData(of: session) { (data: inout Settings?) in data = Settings(color: "green") }
            // A process that still runs the previous version does not replace data that it cannot decode.
            let error = await #expect(throws: AuthError.self) {
                try await server.updateData(of: session) { (data: inout OldSettings?) in data = OldSettings() }
            }
            #expect(error?.code == .sessionDataUnusable)
            #expect(try await browser.data(Settings.self, at: server) == Settings(color: "green"))
        }
    }

    /// The program upgrades older data, but cannot know what newer data means.
    @Test func newerSessionDataIsNotPassedToTheUpgrade() async throws {
        try await withSession { _, server, _, session in
            try await server.updateData(of: session) { (data: inout NewSettings?) in data = NewSettings() }
            let error = await #expect(throws: AuthError.self) { try await server.data(Settings.self, of: session) }
            #expect(error?.code == .sessionDataUnusable)
            #expect(error?.message.contains("newer than this program's version (2)") == true)
        }
    }

    @Test func dataOfAnEndedSessionCannotBeUpdated() async throws {
        try await withSession { web, server, browser, session in
            _ = try await browser.send(.post, "/logout", to: try web.process(), WebBrowser.ownPage)
            let error = await #expect(throws: AuthError.self) {
                try await server.updateData(of: session) { (basket: inout Basket?) in basket = Basket() }
            }
            #expect(error?.code == .loginRequired)
            #expect(try await browser.session(at: server) == nil)
        }
    }
}
