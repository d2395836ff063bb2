import AuthFlow
import AuthFlowTesting
import Crypto
import Expectations
import Foundation
import Synchronization
import Testing

@Suite struct EncryptedTokenStoreTests {
    private let key = RecordKey(name: "work", issuer: "https://id.example.com", clientID: "client")
    private let secret = Array("the refresh token".utf8)

    private func withDirectory<Return>(_ body: (String) async throws -> Return) async throws -> Return {
        let directory = NSTemporaryDirectory() + "authflow-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        return try await body(directory)
    }

    private func failure(_ store: EncryptedTokenStore) async -> String {
        let error = await #expect(throws: AuthError.self) { try await store.bytes(for: key) }
        #expect(error?.code == .credentialUnusable)
        return error?.message ?? ""
    }

    @Test func conformsWithAKeyFile() async throws {
        try await withDirectory { directory in
            let store = EncryptedTokenStore(
                FileTokenStore(directory: directory),
                key: .file(path: "\(directory)/keys/key")
            )
            try await TokenStoreConformance(store: store).run()
            let mode = try FileManager.default.attributesOfItem(atPath: "\(directory)/keys/key")[.posixPermissions]
            #expect(mode as? Int == 0o600)
        }
    }

    /// A sign-in reserves space first, so that no tokens are requested that cannot be stored.
    @Test(arguments: [("too short", "abc", 0o600), ("readable by others", String(repeating: "A", count: 43), 0o644)])
    func noSpaceIsReservedIfTheKeyFileCannotBeUsed(_ name: String, _ content: String, _ mode: Int) async throws {
        try await withDirectory { directory in
            let path = "\(directory)/key"
            try FileManager.default.createDirectory(
                atPath: directory,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            let isCreated = FileManager.default.createFile(
                atPath: path,
                contents: Data(content.utf8),
                attributes: [.posixPermissions: mode]
            )
            #expect(isCreated)
            let store = EncryptedTokenStore(FileTokenStore(directory: "\(directory)/tokens"), key: .file(path: path))
            let error = await #expect(throws: AuthError.self) {
                try await store.withLease(on: key) { try await store.reserve(100, under: $0) }
            }
            #expect(error?.code == .storageFailed && error?.message.contains("Sign out") == false)
        }
    }

    /// The user would otherwise sign in before the store fails.
    @Test func noSpaceIsReservedIfTheKeyFileCannotBeCreated() async throws {
        try await withDirectory { directory in
            let store = EncryptedTokenStore(FileTokenStore(directory: directory), key: .file(path: "/proc/none/key"))
            let error = await #expect(throws: AuthError.self) {
                try await store.withLease(on: key) { try await store.reserve(100, under: $0) }
            }
            #expect(error?.code == .storageFailed)
        }
    }

    /// Kubernetes mounts secrets as symbolic links.
    @Test func aKeyFileMayBeASymbolicLink() async throws {
        try await withDirectory { directory in
            let base = MemoryTokenStore()
            try await EncryptedTokenStore(base, key: .file(path: "\(directory)/key")).set(secret, for: key)
            try FileManager.default.createSymbolicLink(
                atPath: "\(directory)/link",
                withDestinationPath: "\(directory)/key"
            )
            let store = EncryptedTokenStore(base, key: .file(path: "\(directory)/link"))
            #expect(try await store.bytes(for: key) == secret)
        }
    }

    @Test func conformsWithAKeyOfAnotherStore() async throws {
        let store = EncryptedTokenStore(MemoryTokenStore(), key: .store(MemoryTokenStore()))
        try await TokenStoreConformance(store: store).run()
    }

    /// Counts the leases.
    private actor CountingStore: ForwardingStore {
        let base = MemoryTokenStore()
        private(set) var leases = 0
        private func count() { leases += 1 }
        nonisolated func withLease<Return: Sendable>(
            on key: RecordKey,
            _ body: (Lease) async throws -> Return
        ) async throws -> Return {
            await count()
            return try await base.withLease(on: key, body)
        }
    }

    @Test func readingAnExistingKeyAcquiresNoLease() async throws {
        let keys = CountingStore()
        let store = EncryptedTokenStore(MemoryTokenStore(), key: .store(keys))
        try await store.set(secret, for: key)
        for _ in 0..<3 { #expect(try await store.bytes(for: key) == secret) }
        #expect(await keys.leases == 1)
    }

    /// The key may be restored, so no new key takes its place.
    @Test func aKeyMissingFromItsStoreIsNotReplaced() async throws {
        let (base, empty) = (MemoryTokenStore(), CountingStore())
        try await EncryptedTokenStore(base, key: .store(MemoryTokenStore())).set(secret, for: key)
        let error = await #expect(throws: AuthError.self) {
            try await EncryptedTokenStore(base, key: .store(empty)).bytes(for: key)
        }
        #expect(error?.code == .storageFailed && error?.message.contains("Restore the key") == true)
        #expect(await empty.leases == 0)
    }

    @Test func decryptsOnlyWithTheRightPassphrase() async throws {
        let base = MemoryTokenStore()
        let store = EncryptedTokenStore(base, key: .passphrase(Secret("correct horse")))
        try await store.set(secret, for: key)
        let kept = String(decoding: try #require(await base.bytes(for: key)), as: UTF8.self)
        #expect(!kept.contains("refresh"))
        #expect(
            try await EncryptedTokenStore(base, key: .passphrase(Secret("correct horse"))).bytes(for: key) == secret
        )
        let message = await failure(EncryptedTokenStore(base, key: .passphrase(Secret("wrong"))))
        #expect(message.contains("the passphrase is different"))
        let empty = EncryptedTokenStore(MemoryTokenStore(), key: .passphrase(Secret("")))
        await expectError(.invalidConfiguration) { try await empty.set(secret, for: key) }
    }

    /// Each derivation takes 32 MiB of memory, and would compete with the others for the CPU.
    @Test func concurrentReadersShareOneDerivationOfTheKey() async throws {
        let keys = DerivedKeys()
        let (started, derivations) = (Counter(), Counter())
        let found = try await withThrowingTaskGroup(of: SymmetricKey.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    started.increment()
                    return try await keys.key(for: [1]) {
                        derivations.increment()
                        // No reader finds the key in the cache.
                        while started.count < 8 { await Task.yield() }
                        return SymmetricKey(size: .bits256)
                    }
                }
            }
            var found: [SymmetricKey] = []
            for try await key in group { found.append(key) }
            return found
        }
        #expect(found.count == 8 && found.allSatisfy { $0 == found[0] })
        #expect(derivations.count == 1)
    }

    @Test func aFailedDerivationIsReportedToItsCallersAndRepeated() async throws {
        let keys = DerivedKeys()
        await expectError(.storageFailed) {
            try await keys.key(for: [1]) { throw AuthError(.storageFailed, "No thread.") }
        }
        let key = SymmetricKey(size: .bits256)
        #expect(try await keys.key(for: [1]) { key } == key)
    }

    private final class Counter: Sendable {
        private let value = Mutex(0)
        var count: Int { value.withLock { $0 } }
        func increment() { value.withLock { $0 += 1 } }
    }

    @Test func distinguishesAWrongKeyFromATamperedCredential() async throws {
        try await withDirectory { directory in
            let base = MemoryTokenStore()
            let store = EncryptedTokenStore(base, key: .file(path: "\(directory)/one"))
            try await store.set(secret, for: key)
            let good = try #require(await base.bytes(for: key))

            try await EncryptedTokenStore(MemoryTokenStore(), key: .file(path: "\(directory)/two")).set([1], for: key)
            let wrongKey = await failure(EncryptedTokenStore(base, key: .file(path: "\(directory)/two")))
            #expect(wrongKey.contains("contains a different key"))

            // The key file may be restored, so the error does not suggest any action that would remove the credential.
            let missing = await #expect(throws: AuthError.self) {
                try await EncryptedTokenStore(base, key: .file(path: "\(directory)/three")).bytes(for: key)
            }
            #expect(missing?.code == .storageFailed && missing?.message.contains("Restore the file") == true)
            #expect(!FileManager.default.fileExists(atPath: "\(directory)/three"))

            // A changed character in the middle of the sealed text.
            var changed = good
            let place = try #require(good.firstRange(of: Array(#""sealed":""#.utf8))?.upperBound) + 30
            changed[place] = changed[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            try await base.set(changed, for: key)
            #expect(await failure(store).contains("was tampered with"))

            // One profile's credential is copied to another profile.
            let other = RecordKey(name: "home", issuer: "https://id.example.com", clientID: "client")
            try await base.set(good, for: other)
            let moved = await #expect(throws: AuthError.self) { try await store.bytes(for: other) }
            #expect(moved?.message.contains("was tampered with") == true)
        }
    }

    @Test(arguments: [
        "", "garbage", "{}", #"{"version":2,"accounts":[]}"#, #"{"encrypted":2}"#, #"{"encrypted":1,"salt":"!"}"#,
        #"{"encrypted":2,"key_id":"x","key":"!","sealed":""}"#,
    ])
    func reportsDataThatIsNotAnEncryptedCredential(_ text: String) async throws {
        let base = MemoryTokenStore()
        try await base.set(Array(text.utf8), for: key)
        _ = await failure(EncryptedTokenStore(base, key: .passphrase(Secret("x"))))
    }

    /// Every other value is that of a record that can be decrypted.
    @Test(
        arguments: [
            ("encrypted", .integer(3)), ("key_id", nil), ("salt", .string("!")), ("key", nil), ("key", .string("!")),
            ("sealed", nil), ("sealed", .string("!")),
        ] as [(String, JSON?)]
    )
    func reportsARecordWithOneInvalidValueAsDamaged(_ name: String, _ value: JSON?) async throws {
        let base = MemoryTokenStore()
        let store = EncryptedTokenStore(base, key: .store(MemoryTokenStore()))
        try await store.set(secret, for: key)
        let stored = try #require(await base.bytes(for: key))
        var record = try #require(try JSON(parsing: stored).object)
        record[name] = value
        try await base.set(try JSON.object(record).serialized(), for: key)
        #expect(await failure(store).contains("is damaged, or was written by another version"))
    }

    @Test(arguments: ["", "short", "!!!!"]) func rejectsAKeyFileWithoutAValidKey(_ text: String) async throws {
        try await withDirectory { directory in
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            try PrivateFile("\(directory)/key").replace(with: Array(text.utf8))
            let store = EncryptedTokenStore(MemoryTokenStore(), key: .file(path: "\(directory)/key"))
            let error = await #expect(throws: AuthError.self) { try await store.set(secret, for: key) }
            #expect(error?.message.contains("does not contain a key") == true)
        }
    }

    @Test func concurrentStoresCreateOneKeyFile() async throws {
        try await withDirectory { directory in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<20 {
                    group.addTask {
                        let store = EncryptedTokenStore(
                            FileTokenStore(directory: directory),
                            key: .file(path: "\(directory)/keys/key")
                        )
                        let own = RecordKey(name: "\(number)", issuer: "https://id.example.com", clientID: "client")
                        try await store.set([UInt8(number)], for: own)
                        #expect(try await store.bytes(for: own) == [UInt8(number)])
                    }
                }
                try await group.waitForAll()
            }
            #expect(try FileManager.default.contentsOfDirectory(atPath: "\(directory)/keys") == ["key"])
        }
    }
}
