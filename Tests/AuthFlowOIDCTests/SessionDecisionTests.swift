import AuthFlow
import AuthFlowJSON
import AuthFlowStorage
import Expectations
import Foundation
import Testing

@testable import AuthFlowCredentials
@testable import AuthFlowOAuth
@testable import AuthFlowServer

private let start = Date(timeIntervalSince1970: 1_800_000_000)
private let issuer = "https://id.example.com"

private func credential(_ subject: String?, sid: String? = nil, at time: Date = start, data: String? = nil) throws
    -> Credential
{
    var json: [String: JSON] = [
        "access_token": "token", "token_type": "Bearer", "scopes": ["openid"],
        "signed_in_at": .double(time.timeIntervalSince1970),
    ]
    if let subject { json["identity"] = Identity(issuer: issuer, subject: subject).json }
    json["authentication"] = sid.map { ["sid": .string($0)] }
    json["application_data"] = data.map(JSON.string)
    return try #require(Credential(.object(json)))
}

private func key(_ name: String) -> RecordKey { RecordKey(name: name, issuer: issuer, clientID: "web") }

/// The decisions when a session starts, tested without a store or a provider.
@Suite struct SessionSuccessionTests {
    private static func pending(linking: Bool = false, previous: String? = "old", acr: [String] = []) -> PendingSignIn {
        PendingSignIn(
            previous: previous.map { PendingSignIn.Previous(provider: "", name: $0) },
            returnPath: "/page",
            isSilent: false,
            linksAccounts: linking,
            acrValues: acr,
            maximumAge: nil
        )
    }

    private static func succession(
        of subject: String?,
        after previous: [(name: String, credential: Credential)],
        _ pending: PendingSignIn = pending()
    ) throws -> SessionSuccession {
        SessionSuccession(
            pending,
            at: "",
            try credential(subject),
            after: previous.map { name, credential in
                SessionSuccession.Predecessor(
                    session: KnownSession(name: name, provider: "", credential),
                    credential: credential,
                    key: key(name)
                )
            }
        )
    }

    struct Case: CustomTestStringConvertible {
        let testDescription: String
        let user: String?
        let previousUser: String?
        let revokesRejected: Bool
        let revokesReplaced: Bool
        let data: String?
    }

    @Test(arguments: [
        Case(
            testDescription: "the same user",
            user: "alice",
            previousUser: "alice",
            revokesRejected: false,
            revokesReplaced: false,
            data: "old"
        ),
        Case(
            testDescription: "another user",
            user: "bob",
            previousUser: "alice",
            revokesRejected: true,
            revokesReplaced: true,
            data: nil
        ),
        // The tokens may belong to the same grant, but the data may be another user's.
        Case(
            testDescription: "two unknown users",
            user: nil,
            previousUser: nil,
            revokesRejected: true,
            revokesReplaced: false,
            data: nil
        ),
        Case(
            testDescription: "an unknown user after a known user",
            user: nil,
            previousUser: "alice",
            revokesRejected: true,
            revokesReplaced: true,
            data: nil
        ),
    ])
    func onlyASessionOfTheSameUserContinues(_ test: Case) throws {
        let previous = try credential(test.previousUser, data: "old")
        let succession = try Self.succession(of: test.user, after: [("old", previous)])
        #expect(succession.revokesRejectedTokens == test.revokesRejected)
        // Unknown users of one issuer share an account; here, neither user has an issuer.
        #expect(succession.revokes(previous, at: "") == test.revokesReplaced)
        #expect(succession.revokes(previous, at: "other"))
        #expect(try succession.start(with: nil).credential.applicationData?.exposed == test.data)
        #expect(try succession.start(with: Secret("new")).credential.applicationData?.exposed == "new")
    }

    /// Tokens of another client of the same issuer belong to another grant.
    @Test func rejectedTokensAreRevokedUnlessThePreviousSessionIsAtTheSameProvider() throws {
        let previous = SessionSuccession.Predecessor(
            session: KnownSession(name: "old", provider: "b", try credential("alice")),
            credential: try credential("alice"),
            key: key("old")
        )
        let other = SessionSuccession(Self.pending(), at: "a", try credential("alice"), after: [previous])
        #expect(other.revokesRejectedTokens)
        #expect(other.revokesLateTokens(of: key("old"), at: "b"))
        let same = SessionSuccession(Self.pending(), at: "b", try credential("alice"), after: [previous])
        #expect(!same.revokesRejectedTokens)
        #expect(!same.revokesLateTokens(of: key("old"), at: "b"))
        #expect(!same.revokesLateTokens(of: key("another"), at: "a"))
    }

    @Test func onlyAccountLinkingIncludesThePreviousSessionInTheProposal() throws {
        let previous = try credential("alice")
        let sessions = [("later", previous), ("old", previous)]
        #expect(try Self.succession(of: "bob", after: sessions).proposal.previous == nil)
        #expect(
            try Self.succession(of: "bob", after: sessions, Self.pending(linking: true)).proposal.previous?.name
                == "old"
        )
        let unrelated = Self.pending(linking: true, previous: nil)
        #expect(try Self.succession(of: "bob", after: sessions, unrelated).proposal.previous == nil)
    }

    @Test func carriesOverDataChangedDuringTheSignInUnlessTheSignInSetsData() throws {
        let succession = try Self.succession(of: "alice", after: [("old", try credential("alice", data: "old"))])
        func replaced(_ name: String, _ data: String?) throws -> TaggedCredential {
            TaggedCredential(key: key(name), credential: try credential("alice", data: data), lastUse: start)
        }
        #expect(try succession.start(with: nil).takesOver(replaced("old", "changed")))
        #expect(try succession.start(with: nil).takesOver(replaced("old", nil)))
        #expect(try !succession.start(with: nil).takesOver(replaced("old", "old")))
        #expect(try !succession.start(with: nil).takesOver(replaced("another", "changed")))
        #expect(try !succession.start(with: Secret("new")).takesOver(replaced("old", "changed")))
    }

    @Test func rejectsAnUnmetACRRequirementAndOversizedSessionData() throws {
        let succession = try Self.succession(of: "alice", after: [], Self.pending(acr: ["mfa"]))
        expectError(.insufficientUserAuthentication) {
            try succession.checkAuthentication(at: start, clockLeeway: .seconds(60))
        }
        let largest = Secret(String(repeating: "x", count: Credential.maximumSize))
        expectError(.sessionDataUnusable) { try succession.start(with: largest) }
    }

    @Test func theSessionLimitEndsOnlySessionsOlderThanTheNewSession() throws {
        func session(_ name: String, _ age: TimeInterval) throws -> TaggedCredential {
            TaggedCredential(key: key(name), credential: try credential("alice"), lastUse: start - age)
        }
        let found = [try session("b", 60), try session("new", 0), try session("a", 120), try session("newer", -60)]
        #expect(found.beyond(limit: 4, after: key("new")).isEmpty)
        #expect(found.beyond(limit: 3, after: key("new")) == [key("a")])
        #expect(found.beyond(limit: 1, after: key("new")) == [key("a"), key("b")])
        #expect(found.beyond(limit: 1, after: key("unknown")).isEmpty)
    }
}

/// The decisions about a logout token, tested without a store or a provider.
@Suite struct ProviderLogoutTests {
    private static func token(_ subject: String? = "alice", sid: String? = nil) -> LogoutToken {
        LogoutToken(
            issuer: issuer,
            subject: subject,
            sessionID: sid,
            identifier: "1",
            issuedAt: start,
            acceptedUntil: start + 120
        )
    }

    private static func logout(_ token: LogoutToken, isFirst: Bool) -> ProviderLogout {
        ProviderLogout(token: token, isFirst: isFirst, clockLeeway: .seconds(60))
    }

    struct Case: CustomTestStringConvertible {
        let testDescription: String
        var age: TimeInterval = 60
        var sid: String?
        var isReadable = true
        let first: Bool
        let again: Bool
    }

    @Test(arguments: [
        Case(testDescription: "an earlier session", first: true, again: true),
        Case(testDescription: "a session from the same second", age: 0, first: true, again: false),
        Case(testDescription: "a later session", age: -60, first: false, again: false),
        Case(
            testDescription: "the session with the token's sid, on a machine whose clock is ahead",
            age: -30,
            sid: "S",
            first: true,
            again: false
        ),
        Case(testDescription: "a later session with the token's sid", age: -90, sid: "S", first: false, again: false),
        Case(
            testDescription: "a later session with a different sid",
            age: -60,
            sid: "T",
            first: false,
            again: false
        ),
        Case(testDescription: "a session that cannot be read", isReadable: false, first: true, again: false),
    ])
    func endsTheSessionsThatExistedWhenTheTokenWasIssued(_ test: Case) throws {
        let session = TaggedCredential(
            key: key("session"),
            credential: test.isReadable ? try credential("alice", sid: test.sid, at: start - test.age) : nil,
            lastUse: start
        )
        let token = Self.token(sid: "S")
        #expect(Self.logout(token, isFirst: true).ends(session) == test.first)
        #expect(Self.logout(token, isFirst: false).ends(session) == test.again)
    }

    @Test func aReusedLogoutTokenThatEndsNoMatchingSessionIsAReplay() throws {
        let session = TaggedCredential(key: key("session"), credential: try credential("alice"), lastUse: start)
        let second = Self.logout(Self.token(), isFirst: false)
        #expect(second.isReplay(ending: [], of: [session]))
        #expect(!second.isReplay(ending: [session], of: [session]))
        // The provider resends a token whose sessions have ended.
        #expect(!second.isReplay(ending: [], of: []))
        #expect(!Self.logout(Self.token(), isFirst: true).isReplay(ending: [], of: [session]))
    }

    @Test func aLogoutTokenMatchesItsUsersSessionsAndUnreadableSessions() throws {
        func session(_ credential: Credential?) -> TaggedCredential {
            TaggedCredential(key: key("session"), credential: credential, lastUse: start)
        }
        #expect(Self.token().isForUser(of: session(try credential("alice"))))
        #expect(!Self.token().isForUser(of: session(try credential("bob"))))
        #expect(Self.token().isForUser(of: session(nil)))
        #expect(Self.token(nil, sid: "S").isForUser(of: session(try credential("bob"))))
        // In Swift, these strings are equal; OpenID Connect Core section 14 forbids normalization.
        let (composed, decomposed) = ("Andr\u{E9}", "Andre\u{301}")
        #expect(!Self.token(composed, sid: "S").isForUser(of: session(try credential(decomposed))))
        // This session started shortly after the token was issued, which only the clock leeway for the same sid allows.
        let later = session(try credential("alice", sid: decomposed, at: start + 30))
        #expect(!Self.logout(Self.token(sid: composed), isFirst: true).ends(later))
        #expect(Self.logout(Self.token(sid: decomposed), isFirst: true).ends(later))
    }

    struct Race: CustomTestStringConvertible {
        let signedIn: String?
        let ended: String?
        let subject: String?
        let mayEnd: Bool
        var testDescription: String {
            "a sign-in with sid \(signedIn ?? "none"), a logout with sub \(subject ?? "none"), sid \(ended ?? "none")"
        }
    }

    /// Back-channel logout and a sign-in in progress: one of the two always detects the other.
    @Test(arguments: [
        Race(signedIn: nil, ended: nil, subject: "alice", mayEnd: true),
        Race(signedIn: "S", ended: nil, subject: "alice", mayEnd: true),
        Race(signedIn: "S", ended: "S", subject: "alice", mayEnd: true),
        Race(signedIn: "S", ended: "T", subject: "alice", mayEnd: false),
        Race(signedIn: nil, ended: "T", subject: "alice", mayEnd: true),
        Race(signedIn: "S", ended: "S", subject: nil, mayEnd: true),
        Race(signedIn: "S", ended: "T", subject: nil, mayEnd: false),
        Race(signedIn: nil, ended: "S", subject: nil, mayEnd: false),
    ])
    func aSignInDetectsAConcurrentLogoutThatMayEndIt(_ test: Race) {
        let stored = Set(LogoutRecordSubject.stored(by: Self.token(test.subject, sid: test.ended)))
        #expect(stored.isDisjoint(with: LogoutRecordSubject.concerning("alice", session: test.signedIn)) != test.mayEnd)
        #expect(stored.isDisjoint(with: LogoutRecordSubject.concerning("bob", session: "U")))
    }

    @Test func aLogoutDoesNotEndALaterSignIn() throws {
        let time = start.timeIntervalSince1970
        #expect(LogoutRecordSubject.hasEnded(try credential("alice", at: start), at: time))
        #expect(LogoutRecordSubject.hasEnded(try credential("alice", at: start - 1), at: time))
        #expect(!LogoutRecordSubject.hasEnded(try credential("alice", at: start + 1), at: time))
    }
}
