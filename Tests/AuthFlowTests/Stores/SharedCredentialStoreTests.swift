import AuthFlow
import AuthFlowJSON
import Testing

/// The shared store of one vendor's apps.
@Suite struct SharedCredentialStoreTests {
    private let issuer = "https://id.example.com"

    @Test func anUnchangedSharedDocumentIsNotWritten() async throws {
        let store = MemoryTokenStore()
        let shared = SharedCredentialStore(group: "apps", store: store)
        let place = RecordKey(name: "apps", issuer: issuer, clientID: "", kind: .shared)
        try await shared.change(for: issuer) { _ in RedactedJSON(["secret": "s"]) }
        try await shared.change(for: issuer) { old in
            // A write under the lost lease would fail.
            #expect(await store.remove([place]).count == 1)
            return old
        }
    }

    @Test func aSharedDocumentThatIsTooLargeIsNotWritten() async throws {
        let shared = SharedCredentialStore(group: "apps", store: MemoryTokenStore())
        let large = String(repeating: "x", count: RecordKey.maximumRecordSize)
        let error = await #expect(throws: AuthError.self) {
            try await shared.change(for: issuer) { _ in RedactedJSON(["secret": .string(large)]) }
        }
        #expect(error?.code == .storageFailed && error?.message.contains("exceeds the maximum record size") == true)
        #expect(try await shared.value(for: issuer) == nil)
    }
}
