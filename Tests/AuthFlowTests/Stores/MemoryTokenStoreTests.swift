import AuthFlow
import AuthFlowTesting
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

    @Test func aRecordThatReplacesAnExpiredRecordInTheMemoryStoreDoesNotInheritItsExpiry() async throws {
        let key = RecordKey(name: "work", issuer: "https://id.example.com", clientID: "client")
        let time = VirtualTime()
        let store = MemoryTokenStore(host: time.host)
        try await store.withLease(on: key) { lease in
            try await store.write([1], RecordAttributes(lifetime: .seconds(1)), under: lease)
        }
        time.advance(by: .seconds(2))
        try await store.set([2], for: key)
        #expect(await store.bytes(for: key) == [2])
    }
}
