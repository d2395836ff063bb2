import AuthFlow
import Foundation
import Testing

@testable import AuthFlowCredentials

@Suite struct ProviderOutageTests {
    private static let start = Date(timeIntervalSince1970: 1_800_000_000)
    private static let away = AuthError(.networkFailed, "The provider cannot be reached.")

    /// An outage after failed requests for some users.
    private func outage(after users: Int, _ error: AuthError = away) -> ProviderOutage {
        var outage = ProviderOutage()
        for user in 0..<users { outage.failed([UInt8(user)], error, since: Self.start, at: Self.start, random: 127) }
        return outage
    }

    @Test func failuresForFourUsersDoNotThrottleRefreshes() {
        var outage = outage(after: 4)
        for _ in 0..<100 { outage.failed([0], Self.away, since: Self.start, at: Self.start, random: 127) }
        #expect(outage.admitRefresh(at: Self.start) == nil)
    }

    @Test func failuresForFiveUsersThrottleAllRefreshes() {
        var outage = outage(after: 5)
        #expect(outage.admitRefresh(at: Self.start + 1)?.code == .networkFailed)
        #expect(outage.admitRefresh(at: Self.start + 1)?.retryAfter == .seconds(4))
    }

    @Test func oneCallerRetriesAfterTheDelayAndItsFailureDoublesTheDelay() {
        var outage = outage(after: 5)
        #expect(outage.admitRefresh(at: Self.start + 6) == nil)
        #expect(outage.admitRefresh(at: Self.start + 6) != nil)
        // The request has failed, so the next delay is twice as long (exponential backoff).
        outage.failed([9], Self.away, since: Self.start + 7, at: Self.start + 7, random: 127)
        #expect(outage.admitRefresh(at: Self.start + 16) != nil)
        #expect(outage.admitRefresh(at: Self.start + 18) == nil)
    }

    @Test func aRejectedResponseEndsTheThrottlingAndAnUnsentRequestDoesNot() {
        for (code, isResponse) in [(AuthError.Code.invalidIDToken, true), (.keyUnavailable, false)] {
            var outage = outage(after: 5)
            #expect(outage.admitRefresh(at: Self.start + 6) == nil)
            let error = AuthError(code, "The refresh failed.")
            outage.failed([9], error, since: Self.start + 6, at: Self.start + 7, random: 127)
            // One caller retries after an unsent request.
            #expect(outage.admitRefresh(at: Self.start + 8) == nil)
            #expect((outage.admitRefresh(at: Self.start + 8) == nil) == isResponse)
        }
    }

    /// The store had no space for the response, for example.
    @Test func anotherCallerRetriesIfTheAdmittedRefreshIsNotSent() {
        var outage = outage(after: 5)
        #expect(outage.admitRefresh(at: Self.start + 6) == nil)
        outage.notSent(at: Self.start + 7)
        #expect(outage.admitRefresh(at: Self.start + 8) == nil)
        #expect(outage.admitRefresh(at: Self.start + 8) != nil)
        // Before a retry is due, nothing changes.
        var waiting = self.outage(after: 5)
        waiting.notSent(at: Self.start + 1)
        #expect(waiting.admitRefresh(at: Self.start + 2) != nil)
    }

    @Test func theFailureOfAnEarlierRequestIsNotCountedAsTheRetry() {
        var outage = outage(after: 5)
        #expect(outage.admitRefresh(at: Self.start + 6) == nil)
        outage.failed([9], Self.away, since: Self.start - 1, at: Self.start + 7, random: 127)
        #expect(outage.admitRefresh(at: Self.start + 6 + ProviderOutage.probeTimeout) == nil)
    }

    @Test func infrequentFailuresDoNotThrottleRefreshes() {
        var outage = ProviderOutage()
        for user in 0..<9 {
            let time = Self.start + 100 * Double(user)
            outage.failed([UInt8(user)], Self.away, since: time, at: time, random: 127)
            #expect(outage.admitRefresh(at: time) == nil)
        }
    }

    @Test func theOutageErrorDoesNotDiscloseAnotherUsersErrorDetails() throws {
        let ofProvider = ProviderError(error: "server_error", errorDescription: "alice")
        let words = AuthError(.temporarilyUnavailable, "alice", providerError: ofProvider)
        var outage = outage(after: 5, words)
        let later = outage.admitRefresh(at: Self.start + 1)
        let error = try #require(later)
        #expect(error.code == .temporarilyUnavailable)
        #expect(!error.message.contains("alice"))
        #expect(error.providerError == nil)
        #expect(error.underlyingError == nil)
    }

    @Test func anotherCallerRetriesIfTheFirstRetryNeverCompletes() {
        var outage = outage(after: 5)
        #expect(outage.admitRefresh(at: Self.start + 6) == nil)
        #expect(outage.admitRefresh(at: Self.start + 6 + ProviderOutage.probeTimeout) == nil)
    }

    @Test func anotherCallerRetriesImmediatelyIfTheFirstSendsNoRequest() {
        var outage = outage(after: 5)
        #expect(outage.admitRefresh(at: Self.start + 6) == nil)
        outage.failed(
            [9],
            AuthError(.leaseLost, "The lease is lost."),
            since: Self.start + 7,
            at: Self.start + 7,
            random: 127
        )
        #expect(outage.admitRefresh(at: Self.start + 7) == nil)
    }

    @Test func failuresOfEarlierRequestsDoNotExtendTheDelay() {
        var outage = outage(after: 20)
        #expect(outage.admitRefresh(at: Self.start + 6) == nil)
    }

    @Test func theRetryDelayIsAtMostAMinutePlusJitter() {
        var outage = outage(after: 5)
        var now = Self.start
        for _ in 0..<20 {
            now += 100
            _ = outage.admitRefresh(at: now)
            outage.failed([0], Self.away, since: now, at: now, random: 255)
        }
        #expect(outage.admitRefresh(at: now + 74) != nil)
        #expect(outage.admitRefresh(at: now + 76) == nil)
    }

    @Test(arguments: [403, 429]) func rateLimitsDoNotThrottleOtherUsers(_ status: Int) {
        let outage = outage(after: 9, AuthError(.temporarilyUnavailable, "Too many requests.", status: status))
        var asked = outage
        #expect(asked.admitRefresh(at: Self.start + 1) == nil)
    }

    @Test(arguments: [400, 401, 429]) func aRejectionByTheProviderEndsTheOutage(_ status: Int) {
        var outage = outage(after: 5)
        outage.failed(
            [9],
            AuthError(.providerRejected, "Refused.", status: status),
            since: Self.start,
            at: Self.start,
            random: 127
        )
        #expect(outage.admitRefresh(at: Self.start + 1) == nil)
    }

    @Test func aResponseEndsTheOutage() {
        var outage = outage(after: 5)
        outage.answered()
        #expect(outage.admitRefresh(at: Self.start + 1) == nil)
        outage.failed([1], Self.away, since: Self.start + 1, at: Self.start + 1, random: 127)
        #expect(outage.admitRefresh(at: Self.start + 1) == nil)
    }

    @Test func aClockThatIsSetBackDoesNotThrottleRefreshes() {
        var outage = outage(after: 5)
        #expect(outage.admitRefresh(at: Self.start - 3600) == nil)
    }
}
