import AuthFlow
import AuthFlowSQLite
import Foundation
import Testing

@Suite struct StoredFileTests {
    /// A file written by an earlier build (docs/guide.md, "Stored formats").
    @Test(arguments: ["sqlite-1.sqlite"]) func readsAndWritesADatabaseFromAnEarlierBuild(_ name: String) async throws {
        let kept = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "StoredFormats").appending(path: name)
        let folder = FileManager.default.temporaryDirectory.appending(path: "authflow-\(UUID())")
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "credentials.sqlite").path
        _ = FileManager.default.createFile(
            atPath: path,
            contents: try Data(contentsOf: kept),
            attributes: [.posixPermissions: 0o600]
        )
        let store = try SQLiteTokenStore(path: path)
        let keys = try await store.keys(after: nil, limit: 10).filter { $0.kind == .credential }
        let key = try #require(keys.first)
        let text = String(decoding: try #require(try await store.bytes(for: key)), as: UTF8.self)
        #expect(text.contains("Alice Example"))
        // The record can also be overwritten.
        try await store.withLease(on: key) { lease in try await store.write(Array("{}".utf8), under: lease) }
        #expect(try await store.bytes(for: key) == Array("{}".utf8))
    }
}
