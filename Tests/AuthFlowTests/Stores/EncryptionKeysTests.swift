import AuthFlow
import AuthFlowTesting
import Expectations
import Foundation
import Testing

@Suite struct EncryptionKeysTests {
    private let key = RecordKey(name: "session", issuer: "https://id.example.com", clientID: "client")

    private static func text(_ byte: UInt8, count: Int = 32) -> Secret {
        Secret(Base64URL.encode([UInt8](repeating: byte, count: count)))
    }

    private func keys(_ names: String...) throws -> EncryptionKeys {
        try EncryptionKeys(names.map { ($0, Self.text($0.utf8.first ?? 0)) })
    }

    @Test func anEncryptedSessionStorePassesTheConformanceSuite() async throws {
        let time = VirtualTime()
        let store = EncryptedSessionStore(MemoryTokenStore(host: time.host), keys: try keys("a"))
        try await SessionStoreConformance(store: store) { time.advance(by: $0) }.run()
    }

    @Test func aMemoryStorePassesTheSessionStoreConformanceSuite() async throws {
        let time = VirtualTime()
        try await SessionStoreConformance(store: MemoryTokenStore(host: time.host)) { time.advance(by: $0) }.run()
    }

    @Test func anEncryptionKeyIsRotatedInThreeSteps() async throws {
        let base = MemoryTokenStore()
        let old = EncryptedSessionStore(base, keys: try keys("a"))
        try await old.set([1, 2, 3], for: key)
        let both = EncryptedSessionStore(base, keys: try keys("a", "b"))
        let turned = EncryptedSessionStore(base, keys: try keys("b", "a"))
        #expect(try await both.bytes(for: key) == [1, 2, 3])
        #expect(try await turned.bytes(for: key) == [1, 2, 3])
        #expect(try await turned.rewrap() == (1, 0))
        #expect(try await turned.rewrap() == (0, 0))
        let new = EncryptedSessionStore(base, keys: try keys("b"))
        #expect(try await new.bytes(for: key) == [1, 2, 3])
        let error = await #expect(throws: AuthError.self) { try await old.bytes(for: key) }
        #expect(error?.code == .credentialUnusable)
        #expect(error?.message.contains("\"b\"") == true)
    }

    @Test func storedDataCannotBeReadWithoutTheKey() async throws {
        let base = MemoryTokenStore()
        let secret = Array("the refresh token of a user".utf8)
        try await EncryptedSessionStore(base, keys: try keys("a")).set(secret, for: key)
        let kept = try #require(await base.bytes(for: key))
        #expect(!String(decoding: kept, as: UTF8.self).contains("refresh"))
        // The right key ID with a different key.
        let other = EncryptedSessionStore(base, keys: try EncryptionKeys([("a", Self.text(9))]))
        let error = await #expect(throws: AuthError.self) { try await other.bytes(for: key) }
        #expect(error?.code == .credentialUnusable)
        #expect(error?.message.contains("key with the ID \"a\" is not the key") == true)
        #expect(error?.message.contains("was tampered with") == true)
    }

    @Test func aRecordCannotBeMovedToAnotherSession() async throws {
        let base = MemoryTokenStore()
        let store = EncryptedSessionStore(base, keys: try keys("a"))
        try await store.set([1], for: key)
        let other = RecordKey(name: "another", issuer: key.issuer, clientID: key.clientID)
        try await base.set(await base.bytes(for: key), for: other)
        await expectError(.credentialUnusable) { try await store.bytes(for: other) }
    }

    @Test func encryptingTheSameDataTwiceProducesDifferentBytes() async throws {
        let base = MemoryTokenStore()
        let store = EncryptedSessionStore(base, keys: try keys("a"))
        try await store.set([UInt8](repeating: 0, count: 64), for: key)
        let first = try #require(await base.bytes(for: key))
        try await store.set([UInt8](repeating: 0, count: 64), for: key)
        #expect(try #require(await base.bytes(for: key)) != first)
    }

    @Test func rejectsInvalidEncryptionKeys() throws {
        let (id, size) = ("a unique ID of 1 to 60 bytes", "is not 32 random bytes in base64url")
        let longestID = String(repeating: "a", count: 60)
        let lists: [(words: String, keys: [(id: String, key: Secret)])] = [
            ("is required", []), (id, [("", Self.text(1))]), (id, [(longestID + "a", Self.text(1))]),
            (id, [("a", Self.text(1)), ("a", Self.text(2))]), (size, [("a", Secret("short"))]),
            (size, [("a", Self.text(1, count: 31))]), (size, [("a", Self.text(1, count: 33))]),
        ]
        for list in lists {
            let error = #expect(throws: AuthError.self) { try EncryptionKeys(list.keys) }
            #expect(error?.code == .invalidConfiguration)
            #expect(error?.message.contains(list.words) == true, "\(error?.message ?? "")")
        }
        _ = try EncryptionKeys([(longestID, Self.text(1))])
    }

    @Test func printingEncryptionKeysShowsOnlyTheirIDs() throws {
        let keys = try keys("a", "b")
        #expect("\(keys)" == "encryption keys a, b")
        #expect(Mirror(reflecting: keys).children.isEmpty)
    }

    @Test func aRecordKeyIsParsedFromItsUniqueName() {
        let keys = [
            key, RecordKey(name: "a\u{0}:b", issuer: "", clientID: "c", resource: ""),
            RecordKey(name: "", issuer: "i", clientID: "", resource: "https://api", kind: .shared),
        ]
        for key in keys { #expect(RecordKey(uniqueName: Array(key.uniqueName.utf8)) == key) }
        for text in ["", "3:ab", "1:a1:b1:c1:d1:e", "x", "-1:", "99999999:a", "1:a1:b1:c1:d0:1:f"] {
            #expect(RecordKey(uniqueName: Array(text.utf8)) == nil, "\(text)")
        }
    }
}
