import AuthFlow
import Foundation
import Testing

@testable import AuthFlowCredentials

/// Files written by earlier builds, whose formats this version must be able to read (docs/guide.md, "Stored formats").
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

    @Test(arguments: ["accounts-4.json"]) func decodesAccountsWrittenByEarlierBuilds(_ name: String) throws {
        try expectAlice(in: try Self.file(name))
    }

    @Test(arguments: ["encrypted-2"]) func decryptsAccountsWrittenByEarlierBuilds(_ name: String) async throws {
        let base = MemoryTokenStore()
        let key = RecordKey(name: "a", issuer: "http://127.0.0.1:8455", clientID: "authflow-demo")
        try await base.withLease(on: key) { lease in try await base.write(try Self.file("\(name).json"), under: lease) }
        // A key file that other users can read is rejected, but files in a clone of the repository are readable by
        // other users.
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

    @Test func rejectsARecordInANewerFormatAndLeavesItUnchanged() async throws {
        let text = String(decoding: try Self.file("accounts-4.json"), as: UTF8.self)
        let newer = Array(text.replacing("\"version\": 4", with: "\"version\": 5").utf8)
        #expect(newer != Array(text.utf8))
        let store = MemoryTokenStore()
        let client = OAuthClient(
            server: AuthorizationServer(issuer: "https://id.example.com"),
            registration: try ClientRegistration(clientID: "my-client")
        )
        let credentials = CredentialManager(client: client, store: store)
        let key = credentials.recordKey(for: CredentialKey("session"))
        try await store.withLease(on: key) { lease in try await store.write(newer, under: lease) }
        let read = await #expect(throws: AuthError.self) { try await credentials.freshTokens(for: "session") }
        #expect(read?.code == .credentialUnusable)
        let refreshed = await #expect(throws: AuthError.self) {
            try await credentials.refresh(CredentialKey("session"))
        }
        #expect(refreshed?.code == .credentialUnusable)
        #expect(await store.bytes(for: key) == newer)
    }
}
