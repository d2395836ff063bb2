import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON
import Expectations
import Foundation
import Testing

@testable import AuthFlowResourceClient

/// The sign-ins in the record of a protected resource.
@Suite struct ResourceRecordTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)
    private static let known = KnownResource(
        resource: "https://api.example/mcp",
        issuer: "https://id.example",
        clientID: "client",
        identification: .dynamic,
        scopes: ["read"],
        usesDPoP: false
    )

    private static func unfinished(_ known: KnownResource, id: String = "1") -> ResourceRecord.Unfinished {
        ResourceRecord.Unfinished(id: id, signIn: known, start: now, end: now + 600)
    }

    private static func known(_ clientID: String) -> KnownResource {
        var other = known
        other.clientID = clientID
        return other
    }

    /// The record that another process reads.
    private func stored(_ record: ResourceRecord) throws -> ResourceRecord {
        let read = try ResourceRecord(try record.bytes)
        #expect(read == record)
        return read
    }

    struct Removal: CustomTestStringConvertible {
        let testDescription: String
        /// The time of the removal, in seconds after the start of the sign-in, which takes at most 600 seconds.
        let time: Double
        let isNamed: Bool
    }

    @Test(arguments: [
        Removal(testDescription: "while the sign-in is in progress", time: 100, isNamed: true),
        Removal(testDescription: "after the sign-in has timed out", time: 601, isNamed: false),
        Removal(testDescription: "on a machine whose clock is five minutes behind", time: -300, isNamed: true),
        Removal(testDescription: "after the clock was set back by an hour", time: -3600, isNamed: false),
        Removal(testDescription: "after the clock was set back by two days", time: -172_800, isNamed: false),
    ]) func aSignInThatMayStillStoreTokensRemainsInTheRecord(_ removal: Removal) throws {
        var record = ResourceRecord()
        record.begin(Self.unfinished(Self.known), at: Self.now)
        record = try stored(record)
        #expect(record.unfinished.map { $0.isOver(at: Self.now + removal.time) } == [!removal.isNamed])
        record.remove(Self.known, at: Self.now + removal.time)
        #expect(record.all == (removal.isNamed ? [Self.known] : []))
        let bytes = try record.bytes
        #expect((bytes == nil) == !removal.isNamed)
    }

    @Test func aSuccessfulSignInIsRecordedOnce() throws {
        var record = ResourceRecord()
        record.begin(Self.unfinished(Self.known), at: Self.now)
        record.use(Self.known, finishing: "1")
        record = try stored(record)
        #expect(record.current == Self.known && record.all == [Self.known] && record.unfinished.isEmpty)
    }

    /// Otherwise, the tokens would be stored after a sign-out by another process, and no later sign-out would find them.
    @Test func aSignInWhoseTokensAreNotStoredYetRemainsRecordedAfterASignOut() {
        var record = ResourceRecord()
        let unfinished = Self.unfinished(Self.known)
        record.begin(unfinished, at: Self.now)
        record.use(Self.known, finishing: unfinished.id, isStored: false)
        #expect(record.current == Self.known && record.currentID == unfinished.id)
        record.remove(Self.known, at: Self.now)
        #expect(record.current == nil && record.all == [Self.known])
        record.finish(unfinished, hasTokens: true, replacing: ResourceRecord())
        #expect(record.current == Self.known && record.unfinished.isEmpty)
    }

    @Test func aFailedSignInRemainsInTheRecordUntilItsTokensAreRemoved() throws {
        var record = ResourceRecord()
        record.begin(Self.unfinished(Self.known), at: Self.now)
        record.fail("1")
        record = try stored(record)
        #expect(record.all == [Self.known] && record.current == nil)
        record.remove(Self.known, at: Self.now)
        #expect(record.all.isEmpty)
    }

    /// After a lost lease, two processes may sign in at the same time.
    @Test(arguments: [true, false]) func completingOneSignInKeepsAConcurrentSignInInTheRecord(_ succeeds: Bool) throws {
        var record = ResourceRecord()
        record.begin(Self.unfinished(Self.known), at: Self.now)
        record.begin(Self.unfinished(Self.known("other"), id: "2"), at: Self.now)
        if succeeds { record.use(Self.known, finishing: "1") } else { record.fail("1") }
        record.remove(Self.known("other"), at: Self.now)
        #expect(try stored(record).all.contains(Self.known("other")))
    }

    /// The tokens of the last sign-in must be removed after a sign-in with another client, however many sign-ins have failed.
    @Test func theLastSuccessfulSignInRemainsRecordedAfterManyFailures() throws {
        var record = ResourceRecord()
        record.use(Self.known)
        for number in 0..<40 {
            record.begin(Self.unfinished(Self.known("\(number)")), at: Self.now)
            record.fail("1")
        }
        record.use(Self.known("new"))
        #expect(try stored(record).others.contains(Self.known))
    }

    @Test(arguments: ["resource", "issuer", "client_id", "scopes", "identification"])
    func aSignInWithoutARequiredMemberMakesTheRecordUnusable(_ member: String) throws {
        var record = ResourceRecord()
        record.use(Self.known)
        record.begin(Self.unfinished(Self.known), at: Self.now)
        let json = try JSON(parsing: try #require(try record.bytes))
        let damaged = try JSON.object((json.object ?? [:]).filter { $0.key != member }).serialized()
        expectError(.credentialUnusable) { _ = try ResourceRecord(damaged) }
        let unfinished = try #require(json["unfinished"]?.array?.first?.object).filter { $0.key != member }
        let bytes = try JSON.object(["unfinished": [.object(unfinished)]]).serialized()
        expectError(.credentialUnusable) { _ = try ResourceRecord(bytes) }
    }

    @Test func anUnfinishedSignInWithoutAnExpiryMakesTheRecordUnusable() throws {
        let bytes = try JSON.object(["unfinished": [Self.known.json]]).serialized()
        expectError(.credentialUnusable) { _ = try ResourceRecord(bytes) }
        #expect(ResourceRecord(salvaging: bytes).all == [Self.known])
        #expect(try ResourceRecord().bytes == nil)
    }

    /// Older tokens may remain after a sign-out.
    @Test func onlyTokensOfTheUnfinishedSignInAreItsOwn() throws {
        var record = ResourceRecord()
        record.begin(Self.unfinished(Self.known), at: Self.now)
        record = try stored(record)
        #expect(record.names(Self.known, signedInAt: Self.now - 1)?.signIn == nil)
        #expect(record.names(Self.known, signedInAt: Self.now)?.signIn == Self.known)
        #expect(record.names(Self.known, signedInAt: Self.now)?.id == "1")
        record.fail("1")
        #expect(record.names(Self.known, signedInAt: Self.now)?.signIn == nil)
        record.use(Self.known)
        #expect(record.names(Self.known, signedInAt: Self.now - 1)?.signIn == Self.known)
    }

    @Test func aLocalSignOutRemovesUnfinishedSignIns() throws {
        var record = ResourceRecord()
        record.begin(Self.unfinished(Self.known), at: Self.now)
        record.remove(Self.known, at: nil)
        #expect(record.all.isEmpty)
    }

    @Test func aFailedStepUpKeepsTheEarlierSignIn() throws {
        var record = ResourceRecord()
        record.use(Self.known)
        var wider = Self.known
        wider.scopes = ["read", "write"]
        record.begin(Self.unfinished(wider), at: Self.now)
        record.fail("1")
        record = try stored(record)
        #expect(record.current == Self.known && record.all == [Self.known])
    }

    /// Tokens of an unknown sign-in must not satisfy a requirement that only one of the possible sign-ins met.
    @Test func tokensOfOneOfSeveralSignInsDoNotProveTheStrongerAuthentication() throws {
        var strong = Self.known
        strong.authentication = RequiredAuthentication(acrValues: ["mfa"])
        var record = ResourceRecord()
        record.begin(Self.unfinished(strong, id: "1"), at: Self.now)
        #expect(record.names(Self.known, signedInAt: Self.now + 1)?.signIn.authentication == strong.authentication)
        record.begin(Self.unfinished(Self.known, id: "2"), at: Self.now)
        #expect(record.names(Self.known, signedInAt: Self.now + 1)?.signIn.authentication == RequiredAuthentication())
    }

    /// RFC 9470 section 3: one of the required classes is sufficient, and the user may have used any of the requested ones.
    @Test(
        arguments: [
            (["mfa"], ["mfa", "key"], true), (["mfa", "key"], ["mfa"], false), (["mfa"], ["mfa"], true),
            (["mfa"], [], true), ([], ["mfa"], false), (["mfa"], ["key"], false), ([], [], true),
        ] as [([String], [String], Bool)]
    )
    func aSignInSatisfiesARequirementIfEveryClassThatItRequestedIsAccepted(
        _ requested: [String],
        _ required: [String],
        _ isCovered: Bool
    ) {
        let signIn = RequiredAuthentication(acrValues: requested)
        #expect(signIn.covers(RequiredAuthentication(acrValues: required)) == isCovered)
    }

    struct Outcome: CustomTestStringConvertible {
        let testDescription: String
        let hasTokens: Bool
        /// Whether the record contains an earlier sign-in, whose tokens this sign-in may have replaced.
        var isStepUp = false
        /// Whether a later sign-in has replaced the tokens.
        var isReplaced = false
        let isCurrent: Bool
    }

    @Test(arguments: [
        Outcome(testDescription: "tokens were stored", hasTokens: true, isCurrent: true),
        Outcome(testDescription: "no tokens were stored", hasTokens: false, isCurrent: false),
        Outcome(
            testDescription: "tokens replaced those of an earlier sign-in",
            hasTokens: true,
            isStepUp: true,
            isCurrent: true
        ),
        Outcome(
            testDescription: "those of an earlier sign-in remain",
            hasTokens: false,
            isStepUp: true,
            isCurrent: false
        ),
        Outcome(
            testDescription: "the tokens are those of a later sign-in",
            hasTokens: true,
            isReplaced: true,
            isCurrent: false
        ),
        Outcome(
            testDescription: "the tokens are those of a later sign-in that is equal to the earlier one",
            hasTokens: true,
            isStepUp: true,
            isReplaced: true,
            isCurrent: false
        ),
    ]) func anInterruptedSignInIsFinishedLater(_ outcome: Outcome) throws {
        var interrupted = Self.known
        interrupted.scopes = ["read", "write"]
        var record = ResourceRecord()
        let unfinished = Self.unfinished(interrupted)
        if outcome.isStepUp { record.use(Self.known) }
        let previous = record
        record.begin(unfinished, at: Self.now)
        if outcome.isReplaced { record.use(Self.known, finishing: "other") }
        record.finish(unfinished, hasTokens: outcome.hasTokens, replacing: previous)
        #expect((record.current == interrupted) == outcome.isCurrent)
        #expect(record.unfinished.isEmpty)
        #expect(record.all.contains { $0.sharesTokens(with: interrupted) })
        // If the sign-in is no longer unfinished, finishing it again has no effect.
        record.remove(interrupted, at: nil)
        record.finish(unfinished, hasTokens: true, replacing: previous)
        #expect(record.all.isEmpty)
    }
}
