import AuthFlow
import Foundation
import Testing

@testable import AuthFlowCredentials

/// Every event in every state: see the table of ``CredentialMachine``.
@Suite struct CredentialMachineTests {
    private static let issuer = "https://id.example.com"
    private static let start = Date(timeIntervalSince1970: 1_800_000_000)
    private static let begin = start.timeIntervalSinceReferenceDate

    private static func credential(_ token: String, _ subject: String = "alice") -> Credential {
        Credential(
            tokens: TokenSet(
                accessToken: Secret(token),
                expiresAt: start + 600,
                refreshToken: Secret("refresh-\(token)")
            ),
            identity: Identity(issuer: issuer, subject: subject),
            signedInAt: start
        )
    }

    private static func stored(_ credential: Credential?) -> StoredAccounts {
        var accounts = StoredAccounts()
        if let credential { accounts.set(.signedIn(credential), isCurrent: true) }
        return accounts
    }

    enum State: CaseIterable {
        case empty, checked, unchecked, unsaved
    }

    /// A machine in a given state. "old" is stored in every state except the first, and "new" could not be written in
    /// the last.
    private func machine(_ state: State) -> CredentialMachine {
        var machine = CredentialMachine(account: nil)
        guard state != .empty else { return machine }
        let old = Self.credential("old")
        read(&machine, old, at: 0)
        machine.adopt(old, nil, margin: .seconds(60), random: 0)
        switch state {
        case .unchecked: machine.invalidate()
        case .unsaved:
            let new = Self.credential("new")
            machine.writeFailed(
                new,
                replacing: .entry(.signedIn(old)),
                isSignIn: false,
                lostLease: nil,
                machine.epoch
            )
            machine.adopt(new, nil, margin: .seconds(60), random: 0)
        default: break
        }
        return machine
    }

    @discardableResult
    private func read(
        _ machine: inout CredentialMachine,
        _ credential: Credential?,
        at time: Double
    ) -> CredentialMachine.ReadResult? {
        finish(&machine, machine.beginReading(at: Self.begin + time), credential)
    }

    private func finish(
        _ machine: inout CredentialMachine,
        _ reading: CredentialMachine.Reading,
        _ credential: Credential?
    ) -> CredentialMachine.ReadResult? {
        machine.finishReading(reading, Self.stored(credential), margin: .seconds(60), random: 0)
    }

    /// Another process has changed only the application's data, and its record still contains the used refresh token.
    @Test func unsavedTokensSurviveAnApplicationDataChange() throws {
        var machine = machine(.unsaved)
        var changed = Self.credential("old")
        changed.applicationData = Secret("new data")
        let found = try #require(read(&machine, changed, at: 1))
        let known = found.known.entry(nil)?.credential
        #expect(known?.tokens.accessToken == Secret("new"))
        #expect(known?.applicationData == Secret("new data"))
        #expect(found.dropped.isEmpty && machine.hasUnsaved)
    }

    @Test func changedApplicationDataReplacesTheCachedData() {
        var machine = machine(.checked)
        var changed = Self.credential("old")
        changed.applicationData = Secret("new data")
        read(&machine, changed, at: 2)
        #expect(machine.cached?.credential.applicationData == Secret("new data"))
    }

    /// The token that a caller receives now, marked if the store must be read first.
    private func answer(_ machine: CredentialMachine, at time: Double = 1) -> String {
        switch machine.lookUp(at: Self.begin + time, margin: .zero) {
        case .notCached: "read"
        case .stale: "lease"
        case .cached(let credential): credential.tokens.accessToken.exposed
        case .unchecked(let cached): "\(cached.credential.tokens.accessToken.exposed)?"
        }
    }

    @Test(arguments: zip(State.allCases, ["read", "old", "old?", "new"]))
    func theStateDeterminesWhatACallerReceives(_ state: State, _ expected: String) {
        let machine = machine(state)
        #expect(answer(machine) == expected)
        #expect(machine.hasUnsaved == (state == .unsaved))
    }

    @Test(arguments: zip(State.allCases, ["read", "old?", "old?", "new?"]))
    func readsTheStoreAgainAfterTenSeconds(_ state: State, _ expected: String) {
        #expect(answer(machine(state), at: 11) == expected)
    }

    @Test(arguments: zip(State.allCases, ["read", "lease", "lease", "lease"]))
    func doesNotReturnAnExpiredToken(_ state: State, _ expected: String) {
        #expect(answer(machine(state), at: 601) == expected)
    }

    @Test(arguments: zip(State.allCases, ["read", "old", "old", "new"]))
    func aReadWithTheSameTokensConfirmsTheCache(_ state: State, _ expected: String) throws {
        var machine = machine(state)
        let found = try #require(read(&machine, state == .empty ? nil : Self.credential("old"), at: 20))
        #expect(answer(machine, at: 21) == expected)
        // Unsaved credentials are written with the next change.
        #expect((found.known != found.stored) == (state == .unsaved))
    }

    @Test(arguments: State.allCases) func aReadThatFindsOtherTokensAdoptsThem(_ state: State) throws {
        var machine = machine(state)
        let found = try #require(read(&machine, Self.credential("others"), at: 20))
        #expect(answer(machine, at: 21) == "others")
        #expect(found.known == found.stored)
        #expect(!machine.hasUnsaved)
        #expect(!found.hasOtherSession)
    }

    @Test(arguments: State.allCases) func aReadThatFindsNoCredentialClearsTheCacheAndReportsTheLoss(_ state: State)
        throws
    {
        var machine = machine(state)
        let found = try #require(read(&machine, nil, at: 20))
        #expect(answer(machine, at: 21) == "read")
        #expect(found.dropped.map(\.tokens.accessToken.exposed) == (state == .unsaved ? ["new"] : []))
        #expect(found.hasOtherSession == (state != .empty))
        #expect(!machine.hasUnsaved)
    }

    @Test func aReadReportsTheSessionsOfOtherProcessesOnly() throws {
        var machine = CredentialMachine(account: nil)
        func isReported(_ credential: Credential?, at time: Double) throws -> Bool {
            try #require(read(&machine, credential, at: time)).hasOtherSession
        }
        #expect(try !isReported(nil, at: 0))
        #expect(try isReported(Self.credential("alices"), at: 10))
        #expect(try !isReported(Self.credential("refreshed"), at: 20))
        #expect(try isReported(Self.credential("bobs", "bob"), at: 30))
        // This process signs Alice in.
        let alices = Self.credential("alices")
        machine.writeSucceeded(Self.stored(alices), machine.basis, requestedAt: Self.begin + 40)
        _ = machine.signedIn(current: alices.account, since: machine.epoch)
        #expect(try !isReported(alices, at: 50))
        var again = alices
        again.signedInAt += 55
        #expect(try isReported(again, at: 60))
        _ = machine.cleared()
        #expect(try !isReported(nil, at: 70))
    }

    /// Nothing was written, because the account was only in memory.
    @Test func theSignOutOfAnUnsavedSignInIsNotReportedAgain() throws {
        var machine = CredentialMachine(account: nil)
        let signIn = Self.credential("new")
        machine.writeFailed(signIn, replacing: .entry(nil), isSignIn: true, lostLease: nil, machine.epoch)
        machine.removed(signIn.account, leaving: StoredAccounts(), machine.basis)
        let found = try #require(read(&machine, nil, at: 1))
        #expect(!found.hasOtherSession && found.dropped.isEmpty)
    }

    /// The notification of a removal arrived during the first read, whose result was passed to an observer.
    @Test func aReadReportsAChangeSinceTheFirstReadEvenIfThatWasOfAnEarlierEpoch() throws {
        var machine = CredentialMachine(account: nil)
        let reading = machine.beginReading(at: Self.begin)
        machine.beginEpoch()
        let first = try #require(finish(&machine, reading, Self.credential("old")))
        let second = try #require(read(&machine, nil, at: 1))
        #expect(!first.hasOtherSession)
        #expect(second.hasOtherSession)
    }

    /// The record was removed between two reads, and the later read completed first. Nothing was published.
    @Test func theSessionOfAReadThatOverlapsWithARemovalIsNotTheLatest() throws {
        var machine = CredentialMachine(account: nil)
        let reading = machine.beginReading(at: Self.begin)
        machine.beginEpoch()
        let after = try #require(read(&machine, nil, at: 1))
        let before = try #require(finish(&machine, reading, Self.credential("old")))
        #expect(!after.hasOtherSession && !before.hasOtherSession)
        #expect(machine.isLatestSession(in: after.known))
        #expect(!machine.isLatestSession(in: before.known))
    }

    @Test(arguments: State.allCases) func aReadDuringAWriteIsRepeated(_ state: State) {
        var machine = machine(state)
        let reading = machine.beginReading(at: Self.begin)
        machine.writeSucceeded(Self.stored(Self.credential("new")), machine.basis, requestedAt: Self.begin)
        #expect(finish(&machine, reading, nil) == nil)
        let second = machine.beginReading(at: Self.begin)
        machine.writeFailed(
            Self.credential("newer"),
            replacing: .unknown,
            isSignIn: false,
            lostLease: nil,
            machine.epoch
        )
        #expect(finish(&machine, second, nil) == nil)
    }

    /// Otherwise, a visitor's requests could cause the read to be repeated indefinitely.
    @Test(arguments: zip(State.allCases, ["read", "old?", "old?", "new?"]))
    func aReadDuringARemovalIsNeitherRepeatedNorCached(_ state: State, _ expected: String) throws {
        var machine = machine(state)
        let reading = machine.beginReading(at: Self.begin + 20)
        machine.discardPendingReads()
        let found = try #require(finish(&machine, reading, Self.credential("others")))
        #expect(found.stored == Self.stored(Self.credential("others")))
        #expect(answer(machine, at: 21) == (state == .unsaved ? "new?" : expected))
    }

    @Test(arguments: State.allCases) func aReadDuringAnInvalidationIsRepeated(_ state: State) {
        var machine = machine(state)
        let reading = machine.beginReading(at: Self.begin)
        machine.invalidate()
        #expect(finish(&machine, reading, Self.credential("old")) == nil)
    }

    @Test func aWriteRequiresAReadBeforeTheCachedTokenIsReturned() {
        var machine = machine(.checked)
        machine.writeSucceeded(Self.stored(Self.credential("new")), machine.basis, requestedAt: Self.begin)
        #expect(answer(machine) == "old?")
    }

    @Test func refreshedTokensAreCheckedTenSecondsAfterTheirRefreshTokenWasRead() {
        var machine = machine(.empty)
        read(&machine, Self.credential("old"), at: 0)
        read(&machine, nil, at: 5)
        machine.adopt(Self.credential("new"), machine.epoch, margin: .seconds(60), random: 0)
        #expect(answer(machine, at: 9) == "new")
        #expect(answer(machine, at: 11) == "new?")
    }

    @Test(arguments: State.allCases) func aReadFromAnEarlierEpochDoesNotConfirmTheCache(_ state: State) {
        var machine = machine(state)
        let reading = machine.beginReading(at: Self.begin + 20)
        machine.beginEpoch()
        machine.adopt(Self.credential("old"), nil, margin: .seconds(60), random: 0)
        _ = finish(&machine, reading, Self.credential("old"))
        #expect(answer(machine, at: 21) == "old?")
    }

    /// The result of the read may be older than the tokens.
    @Test(arguments: [State.empty, .checked, .unchecked]) func tokensAdoptedDuringAReadAreNotReplacedByItsResult(
        _ state: State
    ) {
        var machine = machine(state)
        let reading = machine.beginReading(at: Self.begin + 20)
        machine.adopt(Self.credential("new"), machine.epoch, margin: .seconds(60), random: 0)
        _ = finish(&machine, reading, Self.credential("others"))
        #expect(answer(machine, at: 21).hasPrefix("new"))
    }

    @Test(arguments: State.allCases) func aWriteLeavesNothingUnsaved(_ state: State) {
        var machine = machine(state)
        machine.writeSucceeded(Self.stored(Self.credential("new")), machine.basis, requestedAt: Self.begin)
        #expect(!machine.hasUnsaved)
    }

    @Test(arguments: State.allCases) func aWriteFromAnEarlierEpochDoesNotReplaceNewerCredentials(_ state: State) {
        var machine = machine(state)
        let earlier = machine.basis
        let epoch = machine.beginEpoch()
        machine.writeFailed(
            Self.credential("newest"),
            replacing: .unknown,
            isSignIn: true,
            lostLease: nil,
            epoch
        )
        machine.writeSucceeded(Self.stored(Self.credential("old")), earlier, requestedAt: Self.begin)
        #expect(machine.hasUnsaved)
        machine.writeFailed(
            Self.credential("older"),
            replacing: .unknown,
            isSignIn: false,
            lostLease: nil,
            earlier.epoch
        )
        let found = read(&machine, Self.credential("old"), at: 1)
        #expect(found?.known.entry(nil)?.credential?.tokens.accessToken == Secret("newest"))
    }

    /// The lease of a refresh was lost, and its tokens became unsaved after another task had read the store under the next lease.
    @Test(arguments: [("old", "new"), ("others", "others")])
    func aWriteDoesNotDropTokensThatBecameUnsavedAfterItsRead(_ written: String, _ expected: String) throws {
        var machine = machine(.checked)
        let basis = try #require(read(&machine, Self.credential("old"), at: 1)).basis
        machine.writeFailed(
            Self.credential("new"),
            replacing: .entry(.signedIn(Self.credential("old"))),
            isSignIn: false,
            lostLease: nil,
            machine.epoch
        )
        machine.writeSucceeded(Self.stored(Self.credential("old")), basis, requestedAt: Self.begin)
        #expect(machine.hasUnsaved)
        // The other task has changed only the application's data, or has also refreshed the tokens.
        var stored = Self.credential(written)
        stored.applicationData = Secret("new data")
        let known = try #require(read(&machine, stored, at: 2)).known.entry(nil)?.credential
        #expect(known?.tokens.accessToken == Secret(expected))
        #expect(known?.applicationData == Secret("new data"))
    }

    /// The tokens that were refreshed were unsaved, too: another task has stored them since, or their write only seemed to fail.
    @Test(arguments: ["old", "new"]) func unsavedTokensReplaceTheTokensThatWereRefreshed(_ stored: String) throws {
        var machine = machine(.unsaved)
        machine.writeFailed(
            Self.credential("newest"),
            replacing: .entry(.signedIn(Self.credential("new"))),
            isSignIn: false,
            lostLease: nil,
            machine.epoch
        )
        let found = try #require(read(&machine, Self.credential(stored), at: 1))
        #expect(found.known.entry(nil)?.credential?.tokens.accessToken == Secret("newest"))
        #expect(machine.hasUnsaved)
    }

    /// A case found by the simulation: the write of a sign-in was executed although it was reported as failed, and another
    /// process then refreshed the tokens.
    @Test(arguments: [
        (stored: 0.0, unsaved: 0.0, isNewer: true), (stored: 100, unsaved: 0, isNewer: true),
        (stored: 0, unsaved: 50, isNewer: false), (stored: 100, unsaved: 50, isNewer: true),
    ])
    func tokensThatFollowThoseOfAFailedWriteAreNotOverwritten(_ stored: Double, _ unsaved: Double, _ isNewer: Bool) {
        func credential(_ token: String, obtainedAfter seconds: Double) -> Credential {
            var credential = Self.credential(token)
            credential.obtainedAt = credential.signedInAt + seconds
            return credential
        }
        var machine = CredentialMachine(account: nil)
        machine.writeFailed(
            credential("unsaved", obtainedAfter: unsaved),
            replacing: .unknown,
            isSignIn: true,
            lostLease: nil,
            machine.epoch
        )
        let found = read(&machine, credential("stored", obtainedAfter: stored), at: 1)
        #expect(found?.known.entry(nil)?.credential?.tokens.accessToken == Secret(isNewer ? "stored" : "unsaved"))
        #expect(machine.hasUnsaved == !isNewer)
        #expect(found?.dropped.isEmpty == true)
    }

    /// After the sign-in could not be stored, another process refreshed the tokens of the previous session, or detected its end.
    @Test(arguments: [false, true]) func anUnsavedSignInReplacesThePreviousSession(isEnded: Bool) throws {
        var machine = machine(.checked)
        var signIn = Self.credential("new")
        signIn.signedInAt += 60
        let epoch = machine.beginEpoch()
        machine.writeFailed(
            signIn,
            replacing: .entry(.signedIn(Self.credential("old"))),
            isSignIn: true,
            lostLease: nil,
            epoch
        )
        let session = EndedSession(
            identity: signIn.identity,
            reason: "invalid_grant",
            endedAt: Self.start + 65,
            isAfterInterruptedRefresh: false,
            account: signIn.account
        )
        var stored = StoredAccounts()
        stored.set(isEnded ? .ended(session) : .signedIn(Self.credential("refreshed")), isCurrent: true)
        let reading = machine.beginReading(at: Self.begin + 70)
        let result = machine.finishReading(reading, stored, margin: .seconds(60), random: 0)
        let found = try #require(result)
        #expect(found.known.entry(nil)?.credential?.tokens.accessToken == Secret("new"))
        #expect(machine.hasUnsaved)
        // A sign-in in another process is newer.
        var later = Self.credential("later")
        later.signedInAt += 80
        let after = try #require(read(&machine, later, at: 90))
        #expect(after.known.entry(nil)?.credential?.tokens.accessToken == Secret("later"))
        #expect(!machine.hasUnsaved)
    }

    /// The write was executed although it was reported as failed, and another process has refreshed the tokens.
    @Test func anUnsavedSignInDoesNotReplaceItsOwnRefreshedTokens() {
        var machine = CredentialMachine(account: nil)
        let signIn = Self.credential("new")
        machine.writeFailed(
            signIn,
            replacing: .entry(.signedIn(signIn)),
            isSignIn: true,
            lostLease: nil,
            machine.epoch
        )
        let found = read(&machine, Self.credential("refreshed"), at: 1)
        #expect(found?.known.entry(nil)?.credential?.tokens.accessToken == Secret("refreshed"))
        #expect(!machine.hasUnsaved)
    }

    /// The sign-in could not be stored, for example because another process held the lease while it refreshed Alice's tokens.
    @Test func anUnsavedSignInReplacesAnAccountWhoseTokensHaveBeenRefreshedSince() throws {
        var machine = machine(.checked)
        let epoch = machine.beginEpoch()
        machine.writeFailed(
            Self.credential("bobs", "bob"),
            replacing: .entry(nil),
            removing: .signedIn(Self.credential("old")),
            isSignIn: true,
            lostLease: nil,
            epoch
        )
        let refreshed = try #require(read(&machine, Self.credential("refreshed"), at: 1)).known
        #expect(refreshed.entries.map(\.account.subject) == ["bob"])
        // Alice has signed in again.
        var again = Self.credential("again")
        again.signedInAt += 1
        let both = try #require(read(&machine, again, at: 2)).known
        #expect(both.entries.map(\.account.subject) == ["alice", "bob"])
        #expect(both.entry(nil)?.account.subject == "bob")
    }

    /// Another process has selected an account or signed a user in since, which takes precedence.
    @Test(arguments: [true, false]) func anUnsavedSignInDoesNotOverrideALaterSelection(isEmptyAtFirst: Bool) throws {
        func record(_ subjects: [String], current: String?) -> StoredAccounts {
            var accounts = StoredAccounts()
            for subject in subjects {
                accounts.set(.signedIn(Self.credential(subject, subject)), isCurrent: subject == current)
            }
            return accounts
        }
        let before = isEmptyAtFirst ? record([], current: nil) : record(["alice", "carol"], current: "alice")
        var machine = CredentialMachine(account: nil)
        let epoch = machine.beginEpoch()
        machine.writeFailed(
            Self.credential("bob", "bob"),
            replacing: .entry(nil),
            isSignIn: true,
            storedCurrent: .some(before.current),
            lostLease: nil,
            epoch
        )
        func current(_ stored: StoredAccounts) throws -> String? {
            let reading = machine.beginReading(at: Self.begin)
            let found = machine.finishReading(reading, stored, margin: .seconds(60), random: 0)
            let known = try #require(found).known
            #expect(known.entry(of: Self.credential("bob", "bob").account) != nil)
            return known.entry(nil)?.account.subject
        }
        #expect(try current(before) == "bob")
        #expect(try current(record(["alice", "carol"], current: "carol")) == "carol")
        // The removal of the current account selects no other account for the user.
        if !isEmptyAtFirst { #expect(try current(record(["carol"], current: "carol")) == "bob") }
        #expect(machine.hasUnsaved)
    }

    /// They are newer by their time, but were not obtained with the unsaved tokens.
    @Test func tokensOfAnEarlierSignInDoNotReplaceUnsavedTokens() {
        var unsaved = Self.credential("unsaved")
        unsaved.obtainedAt = unsaved.signedInAt + 50
        var machine = CredentialMachine(account: nil)
        machine.writeFailed(unsaved, replacing: .unknown, isSignIn: true, lostLease: nil, machine.epoch)
        var earlier = Self.credential("stored")
        earlier.signedInAt -= 3600
        earlier.obtainedAt = Self.start + 100
        let found = read(&machine, earlier, at: 1)
        #expect(found?.known.entry(nil)?.credential?.tokens.accessToken == Secret("unsaved"))
        #expect(machine.hasUnsaved)
    }

    /// Two processes could not store sign-ins to the same account during an outage.
    @Test(arguments: [false, true]) func theLaterOfTwoUnsavedSignInsToAnAccountIsStored(isRead: Bool) throws {
        var later = Self.credential("later")
        later.signedInAt += 30
        for (own, other) in [(Self.credential("earlier"), later), (later, Self.credential("earlier"))] {
            var machine = CredentialMachine(account: nil)
            machine.writeFailed(
                own,
                replacing: isRead ? .entry(nil) : .unknown,
                isSignIn: true,
                lostLease: nil,
                machine.epoch
            )
            let known = try #require(read(&machine, other, at: 60)).known
            #expect(known.entry(nil)?.credential?.tokens.accessToken == Secret("later"))
        }
    }

    /// The write was executed although it was reported as failed, and was then read.
    @Test func aCredentialThatTheStoreContainsIsNotUnsaved() throws {
        var machine = CredentialMachine(account: nil)
        let signIn = Self.credential("new")
        machine.writeFailed(
            signIn,
            replacing: .entry(.signedIn(signIn)),
            isSignIn: true,
            lostLease: nil,
            machine.epoch
        )
        let found = try #require(read(&machine, signIn, at: 1))
        #expect(found.known == found.stored)
        #expect(!machine.hasUnsaved)
    }

    /// Otherwise, requests to a provider that rejects every refresh would be repeated indefinitely, and the user would never have to sign in.
    @Test(arguments: [Int64(0), 1]) func anUnsavedNumberOfRejectedRefreshesIsWrittenAgain(stored: Int64) throws {
        var machine = CredentialMachine(account: nil)
        var old = Self.credential("old")
        old.rejectedRefreshes = stored
        var counted = old
        counted.rejectedRefreshes = 1
        machine.writeFailed(
            counted,
            replacing: .entry(.signedIn(Self.credential("old"))),
            isSignIn: false,
            lostLease: nil,
            machine.epoch
        )
        let found = try #require(read(&machine, old, at: 1))
        #expect(found.known.entry(nil)?.credential?.rejectedRefreshes == 1)
        #expect(machine.hasUnsaved == (stored == 0))
    }

    /// Bob signed in while this process was writing Alice's sign-in, which it could not store before.
    @Test func anUnsavedSignInTakesPrecedenceOverAnEarlierSignInOfTheSameProcess() throws {
        var machine = CredentialMachine(account: nil)
        let alice = Self.stored(Self.credential("alices"))
        let basis = machine.basis
        machine.writeFailed(
            Self.credential("bobs", "bob"),
            replacing: .entry(nil),
            isSignIn: true,
            storedCurrent: .some(nil),
            lostLease: nil,
            machine.beginEpoch()
        )
        machine.writeSucceeded(alice, basis, requestedAt: Self.begin)
        let reading = machine.beginReading(at: Self.begin)
        let result = machine.finishReading(reading, alice, margin: .seconds(60), random: 0)
        let known = try #require(result).known
        #expect(known.entry(nil)?.account.subject == "bob")
    }

    /// A clock that was set back must not extend a backoff.
    @Test func aFailureInTheFutureCausesNoBackoff() {
        var machine = machine(.checked)
        let alice = Backoffs.Subject(Self.credential("old"))
        machine.failed(alice, AuthError(.networkFailed, "Down."), at: Self.start, random: 0)
        #expect(machine.backoffError(for: alice, at: Self.start)?.code == .networkFailed)
        #expect(machine.backoffError(for: alice, at: Self.start - 1) == nil)
    }

    /// A machine that has been offline for a long time refreshes its tokens soon after it is online again.
    @Test(arguments: [
        (AuthError(.networkFailed, "Offline."), 60.0), (AuthError(.timedOut, "No response."), 60.0),
        (AuthError(.temporarilyUnavailable, "Overloaded.", status: 503), 300.0),
    ]) func theBackoffAfterMissingResponsesIsShort(_ error: AuthError, _ maximum: TimeInterval) {
        var machine = machine(.checked)
        let alice = Backoffs.Subject(Self.credential("old"))
        var now = Self.start
        for _ in 0..<20 {
            machine.failed(alice, error, at: now, random: 255)
            now += TimeInterval(machine.backoffError(for: alice, at: now)?.retryAfter?.components.seconds ?? 0)
        }
        machine.failed(alice, error, at: now, random: 255)
        // The jitter is at most a quarter of the delay.
        #expect(machine.backoffError(for: alice, at: now + maximum * 1.25 - 1) != nil)
        #expect(machine.backoffError(for: alice, at: now + maximum * 1.25) == nil)
    }

    @Test(arguments: State.allCases) func aChangeOfUserClearsTheCacheAndBackoff(_ state: State) {
        var machine = machine(state)
        machine.failed(
            Backoffs.Subject(Self.credential("old")),
            AuthError(.networkFailed, "No."),
            at: Self.start,
            random: 0
        )
        let epoch = machine.epoch
        machine.beginEpoch()
        #expect(answer(machine) == "read")
        #expect(machine.backoffError(for: Backoffs.Subject(Self.credential("old")), at: Self.start) == nil)
        // Operations of an earlier epoch return nothing.
        machine.adopt(Self.credential("late"), epoch, margin: .seconds(60), random: 0)
        #expect(answer(machine) == "read")
        // The unsaved credential is the only copy, so it is retained.
        #expect(machine.hasUnsaved == (state == .unsaved))
    }

    @Test(arguments: State.allCases) func aSignInDetectsAnInterveningSignIn(_ state: State) {
        var machine = machine(state)
        let epoch = machine.epoch
        let account = Self.credential("old").account
        #expect(machine.signedIn(current: account, since: epoch).isSameEpoch)
        #expect(!machine.signedIn(current: account, since: epoch).isSameEpoch)
    }

    @Test(arguments: State.allCases) func aRemovalClearsCachedAndUnsavedCredentials(_ state: State) {
        var removed = machine(state)
        removed.removed(Self.credential("old").account, leaving: StoredAccounts(), removed.basis)
        #expect(answer(removed) == "read" && !removed.hasUnsaved)
        var cleared = machine(state)
        #expect(cleared.cleared() == (state == .unsaved))
        #expect(answer(cleared) == "read" && !cleared.hasUnsaved)
    }

    /// The lease of a refresh was lost, and its tokens became unsaved after a sign-out had read the store under the next lease, so the sign-out has
    /// not returned them.
    @Test func aRemovalReportsTokensThatBecameUnsavedAfterItsRead() throws {
        var machine = machine(.checked)
        let old = Self.credential("old")
        let refresh = machine.epoch
        machine.beginEpoch()
        let basis = try #require(read(&machine, old, at: 1)).basis
        machine.writeFailed(
            Self.credential("new"),
            replacing: .entry(.signedIn(old)),
            isSignIn: false,
            lostLease: nil,
            refresh
        )
        machine.writeSucceeded(Self.stored(nil), basis, requestedAt: Self.begin)
        machine.removed(old.account, leaving: StoredAccounts(), basis)
        #expect(machine.hasUnsaved)
        let found = try #require(read(&machine, nil, at: 2))
        #expect(found.dropped.map(\.tokens.accessToken.exposed) == ["new"])
        #expect(found.known == found.stored)
        #expect(!machine.hasUnsaved)
    }

    /// The read of an operation overlapped with a sign-out of this process, and found the next session, which another process had stored.
    @Test func aWriteReportsTheSessionThatNoReadHasReported() {
        var machine = machine(.checked)
        let reading = machine.beginReading(at: Self.begin)
        _ = machine.cleared()
        let next = Self.stored(Self.credential("new"))
        let found = machine.finishReading(reading, next, margin: .seconds(60), random: 0)
        #expect(found?.hasOtherSession == false)
        let basis = machine.basis
        let reports = (0..<2).map { _ in machine.writeSucceeded(next, basis, requestedAt: Self.begin) }
        #expect(reports == [true, false])
    }

    /// A sign-out of this process completed before the response to the write arrived.
    @Test func aWriteThatIsConfirmedAfterASignOutReportsNoSession() throws {
        var machine = machine(.checked)
        let basis = machine.basis
        _ = machine.cleared()
        let isReported = machine.writeSucceeded(Self.stored(Self.credential("new")), basis, requestedAt: Self.begin)
        #expect(!isReported)
        let found = try #require(read(&machine, nil, at: 1))
        #expect(!found.hasOtherSession)
    }

    @Test(arguments: State.allCases) func theEndOfASessionClearsCachedAndUnsavedCredentials(_ state: State) {
        var machine = machine(state)
        machine.ended(Self.credential("old").account, machine.epoch)
        #expect(answer(machine) == "read" && !machine.hasUnsaved)
    }

    @Test(arguments: State.allCases) func aFailureStartsABackoffForItsUserOnly(_ state: State) {
        var machine = machine(state)
        let (alice, bob) = (Backoffs.Subject(Self.credential("old")), Backoffs.Subject(Self.credential("old", "bob")))
        machine.failed(alice, AuthError(.networkFailed, "No."), at: Self.start, random: 0)
        #expect(machine.backoffError(for: alice, at: Self.start + 1)?.code == .networkFailed)
        #expect(machine.backoffError(for: bob, at: Self.start + 1) == nil)
        #expect(machine.isNeeded(at: Self.start + 1))
        machine.succeeded(alice)
        #expect(machine.backoffError(for: alice, at: Self.start + 1) == nil)
        #expect(machine.isNeeded(at: Self.start + 1) == (state == .unsaved))
    }

    @Test(arguments: State.allCases) func tokensRefreshedUnderALostLeaseAreRecoveredOnce(_ state: State) {
        var machine = machine(state)
        let key = RecordKey(name: "user", issuer: Self.issuer, clientID: "client")
        let (lease, other) = (Lease(key: key, fence: 1), Lease(key: key, fence: 2))
        machine.writeFailed(
            Self.credential("lost"),
            replacing: .unknown,
            isSignIn: false,
            lostLease: lease,
            machine.epoch
        )
        #expect(machine.takeLostCredential(of: other) == nil)
        #expect(machine.takeLostCredential(of: lease)?.tokens.accessToken.exposed == "lost")
        #expect(machine.takeLostCredential(of: lease) == nil)
        #expect(machine.hasUnsaved)
    }

    @Test func tokensOfAnotherAccountAreNotReturned() {
        var machine = machine(.checked)
        machine.adopt(Self.credential("bobs", "bob"), nil, margin: .seconds(60), random: 0)
        #expect(answer(machine) == "old")
        var named = CredentialMachine(account: "bob")
        named.adopt(Self.credential("alices"), nil, margin: .seconds(60), random: 0)
        #expect(answer(named) == "read")
    }
}
