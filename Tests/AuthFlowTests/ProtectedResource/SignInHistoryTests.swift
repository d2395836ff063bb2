import AuthFlow
import AuthFlowJSON
import Foundation
import Testing

@testable import AuthFlowResourceClient

/// Every event for every cause: see the table of ``SignInHistory``.
@Suite struct SignInHistoryTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)
    private static let failure = AuthError(.providerRejected, "The user declined.")
    private static let request = SignInHistory.Cause.request(rejected: nil)
    private let address: Endpoint = "https://mcp.example.com/mcp"

    private static func history(pages: Int = 0) throws -> SignInHistory {
        var history = SignInHistory(nil, at: now)
        let limits = SignInHistory.Limits(pagesPerHour: 100, cooldown: .zero)
        for _ in 0..<pages {
            history = try #require(
                try history.recordingPage(for: request, at: now, limits, address: "https://mcp.example.com/mcp")
            )
        }
        return history
    }

    /// The history that another process reads.
    private static func stored(_ history: SignInHistory, at time: Date) throws -> SignInHistory {
        SignInHistory(try history.bytes, at: time)
    }

    private func begin(
        _ history: SignInHistory,
        for cause: SignInHistory.Cause = request,
        since began: Date = now,
        pagesPerHour: Int? = 2,
        cooldown: Duration = .seconds(60)
    ) throws -> SignInHistory? {
        let limits = SignInHistory.Limits(pagesPerHour: pagesPerHour, cooldown: cooldown)
        try history.requireStart(for: cause, since: began, limits, address: address)
        return try history.recordingPage(for: cause, at: Self.now, limits, address: address)
    }

    // MARK: Beginnings

    @Test func aSignInPageIsCountedBeforeItIsShown() throws {
        let counted = try begin(try Self.history(pages: 1))
        #expect(counted?.pages.count == 2)
    }

    @Test func aRequestOpensNoPageBeyondTheHourlyLimit() throws {
        let full = try Self.history(pages: 2)
        let error = #expect(throws: AuthError.self) { try begin(full) }
        #expect(error?.code == .loginRequired)
        #expect(error?.message.contains("opened 2 sign-in pages") == true)
        // An hour later, these pages no longer count.
        let later = try Self.stored(full, at: Self.now + 3601)
        #expect(later.pages == [])
    }

    @Test func aPageOpenedByAMachineWithAFastClockCounts() throws {
        let full = try Self.history(pages: 2)
        #expect(throws: AuthError.self) { try begin(try Self.stored(full, at: Self.now - 5)) }
    }

    @Test(arguments: [(0, true), (1, true), (2, false)])
    func aSignInOpensNoSecondPageBeyondTheHourlyLimit(pages: Int, isAllowed: Bool) throws {
        let limits = SignInHistory.Limits(pagesPerHour: 3, cooldown: .zero)
        let history = try #require(try begin(try Self.history(pages: pages), pagesPerHour: 3))
        #expect(try history.recordingPage(for: .user, at: Self.now, limits, address: address) == nil)
        let second = Result { () throws(AuthError) in
            try history.recordingPage(for: Self.request, at: Self.now, limits, address: address)
        }
        switch second {
        case .success(let counted): #expect(isAllowed && counted?.pages.count == pages + 2)
        case .failure(let error):
            #expect(!isAllowed && error.code == .loginRequired && error.message.contains("3 sign-in pages"))
        }
    }

    @Test func aUserInitiatedSignInIsNeitherLimitedNorCounted() throws {
        let failed = try #require(
            try Self.history(pages: 2).recordingOutcome(for: Self.request, Self.failure, wasShown: true, at: Self.now)
        )
        #expect(try begin(failed, for: .user) == nil)
    }

    @Test func aMethodThatShowsNoPageIsNotLimited() throws {
        #expect(try begin(try Self.history(pages: 9), pagesPerHour: nil) == nil)
    }

    @Test(arguments: [(false, -1.0, true), (false, 0, true), (false, 1, false), (true, 59, true), (true, 61, false)])
    func aFailureIsSharedWithWaitingRequestsAndDuringTheCooldown(
        wasShown: Bool,
        secondsLater: Double,
        isShared: Bool
    ) throws {
        let failed = try #require(
            try Self.history().recordingOutcome(for: Self.request, Self.failure, wasShown: wasShown, at: Self.now)
        )
        let began = Self.now + secondsLater
        let stored = try Self.stored(failed, at: Self.now + 100)
        guard isShared else {
            #expect(try begin(stored, since: began) != nil)
            return
        }
        let error = #expect(throws: AuthError.self) { try begin(stored, since: began) }
        #expect(error?.code == .providerRejected)
        #expect(error?.message.contains("The user declined.") == true)
        #expect(error?.message.contains("no other sign-in page is opened yet") == wasShown)
    }

    @Test func aFailureInTheFutureIsDiscardedAfterTheClockIsSetBack() throws {
        let failed = try #require(
            try Self.history(pages: 1)
                .recordingOutcome(for: Self.request, Self.failure, wasShown: true, at: Self.now)
        )
        let stored = try Self.stored(failed, at: Self.now - 3600)
        #expect(stored.failure == nil && stored.pages == [])
    }

    // MARK: Ends

    @Test(arguments: ["code", "message", "time", "shown"])
    func aFailureWithoutARequiredMemberIsDiscarded(_ member: String) throws {
        let failed = try Self.history(pages: 1).rejected(with: Self.failure, at: Self.now)
        var json = try #require(try JSON(parsing: failed.bytes).object)
        var failure = try #require(json["failure"]?.object)
        #expect(failure.removeValue(forKey: member) != nil)
        json["failure"] = .object(failure)
        let stored = SignInHistory(try JSON.object(json).serialized(), at: Self.now)
        #expect(stored.failure == nil && stored.pages.count == 1)
    }

    @Test func aSuccessfulSignInKeepsTheCountAndClearsTheLastFailure() throws {
        let failed = try #require(
            try Self.history(pages: 2).recordingOutcome(for: Self.request, Self.failure, wasShown: true, at: Self.now)
        )
        let after = try #require(
            failed.recordingOutcome(for: Self.request, (any Error)?.none, wasShown: true, at: Self.now)
        )
        #expect(after.pages.count == 2)
        #expect(after.failure == nil)
    }

    @Test func aUserInitiatedSignInResetsTheCount() throws {
        #expect(try Self.history(pages: 2).recordingOutcome(for: .user, nil, wasShown: true, at: Self.now) == nil)
    }

    @Test func aFailedUserInitiatedSignInCountsNoPage() throws {
        let after = try #require(
            try Self.history(pages: 1).recordingOutcome(for: .user, Self.failure, wasShown: true, at: Self.now)
        )
        #expect(after.pages.count == 1)
        #expect(after.failure?.wasShown == true)
    }

    @Test(arguments: [true, false]) func aCancelledSignInIsNotRecordedAsAFailure(isRequest: Bool) throws {
        let cause = isRequest ? Self.request : .user
        let after = try #require(
            try Self.history(pages: 1).recordingOutcome(for: cause, CancellationError(), wasShown: true, at: Self.now)
        )
        #expect(after.failure == nil && after.pages.count == 1)
    }

    @Test func aTokenRejectedByTheResourceIsRecordedAsAFailure() throws {
        let after = try Self.history(pages: 1).rejected(with: Self.failure, at: Self.now)
        #expect(after.failure?.wasShown == true)
        #expect(after.pages.count == 1)
    }

    @Test(arguments: ["", "{", "[]", #"{"pages": "1"}"#, #"{"failure": {"code": 1}}"#])
    func anUnreadableRecordYieldsAnEmptyHistory(text: String) throws {
        let history = SignInHistory(Array(text.utf8), at: Self.now)
        #expect(history.pages == [] && history.failure == nil)
    }
}
