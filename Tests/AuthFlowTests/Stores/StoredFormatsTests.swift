import AuthFlow
import Foundation
import Testing

@testable import AuthFlowCredentials

/// Files that earlier builds have written, in every format that this version promises to read (docs/guide.md, "Stored formats").
@Suite struct StoredFormatsTests {
    private static let folder = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "StoredFormats")

    private static func file(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: folder.appending(path: name)))
    }

    private func expectAlice(in bytes: [UInt8]) throws {
        let credential = try #require(try StoredAccounts(serialized: bytes).entry(nil)?.credential)
        #expect(credential.identity?.displayName == "Alice Example")
        #expect(credential.tokens.refreshToken?.exposed.isEmpty == false)
        #expect(credential.authentication != nil && credential.tokens.verifiedIDToken != nil)
    }

    @Test(arguments: ["accounts-4.json"]) func accountsAreRead(_ name: String) throws {
        try expectAlice(in: try Self.file(name))
    }

    @Test(arguments: ["encrypted-2"]) func encryptedAccountsAreRead(_ name: String) async throws {
        let base = MemoryTokenStore()
        let key = RecordKey(name: "a", issuer: "http://127.0.0.1:8455", clientID: "authflow-demo")
        try await base.withLease(on: key) { lease in try await base.write(try Self.file("\(name).json"), under: lease) }
        // A key file that others can read is refused, and a clone of the repository makes files that they can.
        let path = FileManager.default.temporaryDirectory.appending(path: "authflow-\(UUID())").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        _ = FileManager.default.createFile(
            atPath: path,
            contents: Data(try Self.file("\(name).key")),
            attributes: [.posixPermissions: 0o600]
        )
        let store = EncryptedTokenStore(base, key: .file(path: path))
        try expectAlice(in: try #require(try await store.bytes(for: key)))
    }

    @Test func aNewerFormatIsRefusedAndLeftAsItIs() throws {
        let text = String(decoding: try Self.file("accounts-4.json"), as: UTF8.self)
        let newer = text.replacing("\"version\": 4", with: "\"version\": 5")
        #expect(newer != text)
        let error = #expect(throws: AuthError.self) { try StoredAccounts(serialized: Array(newer.utf8)) }
        #expect(error?.code == .credentialUnusable)
    }
}
