import AuthFlow
import Expectations
import Testing

@Suite struct MemoryTokenStoreTests {
    @Test func memoryStoreWritesNoRecordWithAttributesUnderALeaseThatHasEnded() async throws {
        let key = RecordKey(name: "work", issuer: "https://id.example.com", clientID: "client")
        let store = MemoryTokenStore()
        let ended = try await store.withLease(on: key) { $0 }
        await expectError(.leaseLost) { try await store.write([1], RecordAttributes(), under: ended) }
        #expect(await store.bytes(for: key) == nil)
    }
}
