import AuthFlow
import AuthFlowJSON
import Expectations
import Foundation
import Testing

@testable import AuthFlowCredentials

@Suite struct StoredAccountsTests {
    private func credential(_ subject: String, refreshToken: String? = "r") -> Credential {
        Credential(
            tokens: TokenSet(
                accessToken: Secret("a"),
                expiresAt: Date(timeIntervalSince1970: 1_800_000_000.5),
                refreshToken: refreshToken.map(Secret.init),
                idToken: Secret("i"),
                scopes: ["openid"],
                parameters: RedactedJSON(["x": 1])
            ),
            identity: Identity(issuer: "https://id.example.com", subject: subject, claims: ["name": "A"]),
            signedInAt: Date(timeIntervalSince1970: 1_799_999_999),
            obtainedAt: Date(timeIntervalSince1970: 1_799_999_999.5)
        )
    }

    /// A damaged record must not stop a process that also serves other users.
    @Test func numbersInAStoredRecordAreClamped() throws {
        let json = credential("1").json
            .replacing("refused_refreshes", with: .integer(.max)).replacing("signed_in_at", with: 1e300)
            .replacing("expires_at", with: -1e300)
        let read = try #require(Credential(json))
        #expect(read.rejectedRefreshes == 1000 && read.requiresSignIn)
        #expect(HTTPDate.text(read.signedInAt) == "Fri, 31 Dec 9999 23:59:59 GMT")
        #expect(read.isExpired(at: Date()))
    }

    @Test(arguments: ["access_token", "token_type", "signed_in_at", "scopes"])
    func aStoredCredentialWithoutARequiredMemberIsNotRead(_ name: String) {
        let json = credential("1").json
        #expect(Credential(json) == credential("1"))
        #expect(Credential(json.replacing(name, with: nil)) == nil)
    }

    /// Otherwise, the account would become that of an unknown user, or of another issuer's user.
    @Test(arguments: [["subject": "1"], ["issuer": "https://id.example.com"], "1", .null] as [JSON])
    func aStoredCredentialWithADamagedIdentityIsNotRead(_ identity: JSON) {
        #expect(Credential(credential("1").json.replacing("identity", with: identity)) == nil)
    }

    @Test(arguments: ["resource", "access_token", "token_type", "obtained_at", "scopes"])
    func aStoredResourceTokenWithoutARequiredMemberIsNotRead(_ name: String) throws {
        var credential = credential("1")
        let token = ResourceToken(credential, resource: "https://api.example.com", requestedScopes: nil)
        credential.resourceTokens = [token]
        let json = try #require(credential.json["resource_tokens"]?.array?.first)
        #expect(ResourceToken(json) == token)
        #expect(ResourceToken(json.replacing(name, with: nil)) == nil)
    }

    @Test func aStoredAccountWithoutAnIssuerIsNotRead() {
        #expect(AccountID(account("1").json) == account("1"))
        #expect(AccountID(account("1").json.replacing("issuer", with: nil)) == nil)
    }

    private func ended(_ subject: String) -> StoredAccounts.Entry {
        .ended(
            EndedSession(
                identity: credential(subject).identity,
                reason: "invalid_grant",
                endedAt: Date(timeIntervalSince1970: 1_800_000_000),
                isAfterInterruptedRefresh: subject == "3",
                account: account(subject)
            )
        )
    }

    private func account(_ subject: String, at issuer: String = "https://id.example.com") -> AccountID {
        AccountID(issuer: issuer, subject: subject)
    }

    @Test func reportsAnEncryptedRecordAsBelongingToAnotherKindOfStore() {
        let bytes = Array(#"{"encrypted": 2, "cipher": "AES-256-GCM"}"#.utf8)
        let error = #expect(throws: AuthError.self) { try StoredAccounts(serialized: bytes) }
        #expect(error?.message.contains("another kind of store") == true)
        #expect(error?.message.contains("version") == false)
    }

    @Test func storedAccountsAreReadBackAsWritten() throws {
        var accounts = StoredAccounts()
        #expect(try StoredAccounts(serialized: accounts.serialized()) == accounts)
        accounts.set(.signedIn(credential("1")), isCurrent: true)
        accounts.set(.signedIn(credential("2", refreshToken: nil)), isCurrent: false)
        accounts.set(ended("3"), isCurrent: false)
        #expect(try StoredAccounts(serialized: accounts.serialized()) == accounts)
        #expect(accounts.entry(nil)?.account.subject == "1")
        #expect(accounts.entry("3") == ended("3"))
        #expect(accounts.entry("4") == nil)
    }

    /// OpenID Connect Core section 5.7: only the issuer and the subject together identify a user.
    @Test func aSubjectAtTwoIssuersNamesNoAccount() throws {
        var accounts = StoredAccounts()
        accounts.set(.signedIn(credential("1")), isCurrent: true)
        try accounts.requireUnambiguous("1")
        let other = AccountID(issuer: "https://two.example.com", subject: "1")
        let session = EndedSession(
            identity: nil,
            reason: "",
            endedAt: Date(),
            isAfterInterruptedRefresh: false,
            account: other
        )
        accounts.set(.ended(session), isCurrent: false)
        #expect(accounts.entry("1") == nil)
        #expect(accounts.entry("https://two.example.com 1")?.account == other)
        #expect(accounts.entry("\(account("1").issuer) 1")?.account == account("1"))
        expectError(.invalidConfiguration) { try accounts.requireUnambiguous("1") }
        try accounts.requireUnambiguous("https://two.example.com 1")
    }

    /// The subject of a hostile tenant's user may look like the name of another tenant's user.
    @Test func aSubjectThatContainsAnIssuerDoesNotNameItsAccount() {
        let name = "https://one.example.com alice"
        #expect(AccountID(issuer: "https://one.example.com", subject: "alice").isNamed(name))
        #expect(!AccountID(issuer: "https://two.example.com", subject: name).isNamed(name))
        #expect(AccountID(issuer: "https://two.example.com", subject: name).isNamed("https://two.example.com \(name)"))
    }

    @Test(arguments: ["https://id.example.com/users/1", "alice smith", "alice "])
    func aSubjectThatLooksPartlyLikeANameWithAnIssuerNamesItsAccount(_ subject: String) {
        #expect(account(subject).isNamed(subject))
        #expect(account(subject).isNamed("https://id.example.com \(subject)"))
        #expect(!account(subject).isNamed("https://two.example.com \(subject)"))
        #expect(!AccountID.containsIssuer(subject))
    }

    @Test func storesOneEntryPerAccount() {
        var accounts = StoredAccounts()
        accounts.set(.signedIn(credential("1")), isCurrent: true)
        accounts.set(ended("1"), isCurrent: false)
        #expect(accounts.entries == [ended("1")])
        #expect(accounts.entry(of: account("1"))?.credential == nil)
        accounts.set(.signedIn(credential("2")), isCurrent: true)
        #expect(accounts.current == account("2"))
        #expect(accounts.entry(of: account("2"))?.credential?.tokens.refreshToken == Secret("r"))
        accounts.remove(account("2"))
        #expect(accounts.current == account("1"))
        accounts.remove(account("1"))
        #expect(accounts == StoredAccounts())
    }

    @Test func afterARemovalASignedInAccountBecomesCurrent() {
        var accounts = StoredAccounts()
        accounts.set(ended("1"), isCurrent: true)
        accounts.set(.signedIn(credential("2")), isCurrent: false)
        accounts.set(.signedIn(credential("3")), isCurrent: true)
        accounts.remove(account("3"))
        #expect(accounts.current == account("2"))
    }

    /// A record of a session's end without one of its members.
    private static func endedWithout(_ name: String) -> String {
        let account = AccountID(issuer: "https://id.example.com", subject: "1").json
        var session: [String: JSON] = ["account": account, "reason": "invalid_grant", "ended_at": 1_800_000_000]
        session[name] = nil
        let json: JSON = [
            "version": .integer(StoredAccounts.formatVersion), "accounts": [["ended": .object(session)]],
            "current": account,
        ]
        return "\(json)"
    }

    @Test(arguments: ["account", "reason", "ended_at"])
    func anEndedSessionWithoutARequiredMemberIsNotRead(_ name: String) throws {
        var accounts = StoredAccounts()
        accounts.set(ended("1"), isCurrent: true)
        var json = try #require(try JSON(parsing: accounts.serialized()).object)
        var session = try #require(json["accounts"]?.array?.first?["ended"]?.object)
        #expect(session.removeValue(forKey: name) != nil)
        json["accounts"] = [["ended": .object(session)]]
        let bytes = try JSON.object(json).serialized()
        expectError(.credentialUnusable) { try StoredAccounts(serialized: bytes) }
    }

    @Test func theAccountsOfOneClientAreLimitedInSize() throws {
        var accounts = StoredAccounts()
        try accounts.requireSpace()
        let data = Secret(String(repeating: "x", count: Credential.maximumSize - 4096))
        var count = 0
        while (try? accounts.requireSpace()) != nil {
            count += 1
            try #require(count < 1000)
            var large = credential("\(count)")
            large.applicationData = data
            accounts.set(.signedIn(large), isCurrent: true)
            _ = try accounts.serialized()
        }
        #expect(count > 1)
        expectError(.storageFailed) { try accounts.requireSpace() }
        for number in 0..<4 {
            var large = credential("more \(number)")
            large.applicationData = data
            accounts.set(.signedIn(large), isCurrent: true)
        }
        expectError(.storageFailed) { try accounts.serialized() }
    }

    @Test(arguments: [
        "", "{}", #"{"version":5}"#, #"{"version":3}"#, #"{"version":4,"accounts":[{}]}"#, "not json",
        #"{"version":4,"accounts":[{"ended":{}}],"current":"1"}"#,
        endedWithout("reason"), endedWithout("ended_at"), endedWithout("account"),
    ]) func reportsDamagedAccounts(_ text: String) {
        let error = #expect(throws: AuthError.self) { try StoredAccounts(serialized: Array(text.utf8)) }
        #expect(error?.code == .credentialUnusable)
        #expect(error?.message.contains("Sign out locally") == true)
    }

    @Test(
        arguments: [
            (3600.0, 60, 3540.0), (100, 60, 75), (0, 60, 0), (3600, 0, 3600), (nil, 60, nil),
        ] as [(Double?, Int, Double?)]
    )
    func refreshMarginIsAtMostAQuarterOfTheLifetime(_ life: Double?, _ margin: Int, _ fresh: Double?) {
        let start = Date(timeIntervalSince1970: 1_800_000_000)
        var credential = credential("1")
        credential.obtainedAt = start
        credential.tokens.expiresAt = life.map { start + $0 }
        #expect(credential.freshUntil(margin: .seconds(margin)) == fresh.map { start + $0 } ?? .distantFuture)
    }
}
