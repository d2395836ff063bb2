import AuthFlowJSON
import Foundation
import Testing

@testable import AuthFlow

@Suite struct AccountBookTests {
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

    private func ended(_ subject: String) -> AccountBook.Entry {
        .ended(
            EndedSession(
                identity: credential(subject).identity,
                reason: "invalid_grant",
                endedAt: Date(timeIntervalSince1970: 1_800_000_000)
            )
        )
    }

    @Test func isReadBackAsItWasWritten() throws {
        var book = AccountBook()
        #expect(try AccountBook(serialized: book.serialized()) == book)
        book.set(.signedIn(credential("1")), isCurrent: true)
        book.set(.signedIn(credential("2", refreshToken: nil)), isCurrent: false)
        book.set(ended("3"), isCurrent: false)
        #expect(try AccountBook(serialized: book.serialized()) == book)
        #expect(book.entry(nil)?.identity.subject == "1")
        #expect(book.entry("3") == ended("3"))
        #expect(book.entry("4") == nil)
    }

    @Test func keepsOneEntryForEachAccount() {
        var book = AccountBook()
        book.set(.signedIn(credential("1")), isCurrent: true)
        book.set(ended("1"), isCurrent: false)
        #expect(book.entries == [ended("1")])
        #expect(book.refreshToken(nil) == nil)
        book.set(.signedIn(credential("2")), isCurrent: true)
        #expect(book.current == "2")
        #expect(book.refreshToken(nil) == Secret("r"))
        book.remove("2")
        #expect(book.current == "1")
        book.remove("1")
        #expect(book == AccountBook())
    }

    /// The file was written by version 1, before there were accounts.
    @Test func readsWhatAnEarlierVersionWrote() throws {
        let fixture = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Fixtures/credential-v1.json")
        let book = try AccountBook(serialized: Array(try Data(contentsOf: fixture)))
        guard case .signedIn(let credential)? = book.entry(nil) else {
            Issue.record("There is no credential in it.")
            return
        }
        #expect(credential.tokens.accessToken == Secret("access-v1"))
        #expect(credential.tokens.refreshToken == Secret("refresh-v1"))
        #expect(credential.tokens.verifiedIDToken?.subject == "248289761001")
        #expect(credential.identity.displayName == "Alice Example")
        #expect(credential.obtainedAt == credential.signedInAt)
        // What is written next is of the current version, with nothing lost.
        #expect(try AccountBook(serialized: book.serialized()) == book)
    }

    @Test(arguments: [
        "", "{}", #"{"version":3}"#, #"{"version":1}"#, #"{"version":2,"accounts":[{}]}"#, "not json",
        #"{"version":2,"accounts":[{"ended":{}}],"current":"1"}"#,
    ]) func saysThatItIsDamaged(_ text: String) {
        let error = #expect(throws: AuthError.self) { try AccountBook(serialized: Array(text.utf8)) }
        #expect(error?.code == .storageFailed)
        #expect(error?.message.contains("Sign out") == true)
    }

    @Test(
        arguments: [
            (3600.0, 60, 3540.0), (100, 60, 75), (0, 60, 0), (3600, 0, 3600), (nil, 60, nil),
        ] as [(Double?, Int, Double?)]
    )
    func leavesAMarginOfAQuarterOfALifeAtMost(_ life: Double?, _ margin: Int, _ fresh: Double?) {
        let start = Date(timeIntervalSince1970: 1_800_000_000)
        var credential = credential("1")
        credential.obtainedAt = start
        credential.tokens.expiresAt = life.map { start + $0 }
        #expect(credential.freshUntil(margin: .seconds(margin)) == fresh.map { start + $0 } ?? .distantFuture)
    }
}
