import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import Synchronization
import Testing

/// ID Tokens in refresh responses (OpenID Connect Core section 12.2).
@Suite struct RefreshedIDTokenTests {
    /// In GitLab, Doorkeeper and Django, auth_time is the time of the user's most recent sign-in in any browser.
    @Test(arguments: [3600, -3600] as [TimeInterval])
    func aChangedAuthTimeInARefreshedIDTokenKeepsTheOriginalAuthentication(_ difference: TimeInterval) async throws {
        let life = try TokenLifeEnvironment()
        let store = MemoryTokenStore()
        let events = Mutex<[FlowEvent]>([])
        let client = try life.client(store: store, observer: { event in events.withLock { $0.append(event) } })
        let first = try await client.signIn().credential
        let authentication = try #require(first.authentication)
        let time = try #require(authentication.time)
        life.time.advance(7200)
        let elsewhere = time.timeIntervalSince1970 + difference
        life.environment.emulator.fault = .idToken(.claim("auth_time", .integer(Int64(elsewhere))))
        #expect(try await client.freshTokens().accessToken != first.tokens.accessToken)
        let refreshed = try #require(try await client.credential())
        #expect(refreshed.authentication == authentication)
        #expect(refreshed.tokens.verifiedIDToken?.claims["auth_time"]?.number == elsewhere)
        #expect(events.withLock { $0 }.contains { $0.details["auth_time"] == "of another sign-in" })
        // The authentication also remains unchanged in the next process, after a refresh there.
        life.time.advance(7200)
        let next = try life.client(store: store)
        _ = try await next.freshTokens()
        #expect(try await next.credential()?.authentication == authentication)
        #expect(life.refreshes == 2)
    }

    @Test(arguments: [false, true]) func anAuthTimeThatIsUnchangedOrAbsentIsNotReported(_ isAbsent: Bool) async throws {
        let life = try TokenLifeEnvironment()
        let events = Mutex<[FlowEvent]>([])
        let client = try life.client(observer: { event in events.withLock { $0.append(event) } })
        let first = try await client.signIn().credential
        #expect(first.authentication?.time != nil)
        if isAbsent { life.environment.emulator.fault = .idToken(.claim("auth_time", .null)) }
        #expect(try await client.refresh().tokens.accessToken != first.tokens.accessToken)
        #expect(!events.withLock { $0 }.contains { $0.details["auth_time"] != nil })
    }

    /// Some servers send null for absent claims.
    @Test(arguments: ["nonce", "azp", "at_hash"]) func aNullClaimInARefreshedIDTokenIsAbsent(_ name: String)
        async throws
    {
        let life = try TokenLifeEnvironment()
        let client = try life.client()
        let first = try await client.signIn().credential
        life.environment.emulator.fault = .idToken(.claim(name, .null))
        #expect(try await client.refresh().tokens.accessToken != first.tokens.accessToken)
    }

    @Test func aRefreshedIDTokenIssuedAFewSecondsBeforeTheFirstIsAccepted() async throws {
        let life = try TokenLifeEnvironment()
        let client = try life.client()
        let first = try await client.signIn().credential
        let issued = try #require(first.tokens.verifiedIDToken?.issuedAt)
        life.environment.emulator.fault = .idToken(.claim("iat", .integer(Int64(issued.timeIntervalSince1970) - 5)))
        #expect(try await client.refresh().tokens.accessToken != first.tokens.accessToken)
    }
}
