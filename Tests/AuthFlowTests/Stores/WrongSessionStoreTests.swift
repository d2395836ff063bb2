import AuthFlow
import AuthFlowTesting
import Testing

/// Session stores with one fault each. The conformance suite detects the fault and reports the violated rule.
@Suite struct WrongSessionStoreTests {
    enum Fault: CaseIterable {
        case repeatsTheFirstPage, keepsExpiredRecords

        var rule: String {
            switch self {
            case .repeatsTheFirstPage: "only those after the given digest"
            case .keepsExpiredRecords: "Expired records must be removed"
            }
        }
    }

    private struct WrongStore: SessionTokenStore {
        let base: MemoryTokenStore
        let fault: Fault

        func bytes(for key: RecordKey) async throws -> [UInt8]? { await base.bytes(for: key) }
        func bytes(under lease: Lease) async throws -> [UInt8]? { try await base.bytes(under: lease) }
        func write(_ bytes: [UInt8]?, under lease: Lease) async throws { try await base.write(bytes, under: lease) }
        func write(_ bytes: [UInt8], _ attributes: RecordAttributes, under lease: Lease) async throws {
            try await base.write(bytes, attributes, under: lease)
        }
        func withLease<Return: Sendable>(
            on key: RecordKey,
            _ body: (Lease) async throws -> Return
        ) async throws -> Return {
            try await base.withLease(on: key, body)
        }
        func touch(_ key: RecordKey) async throws -> Bool { await base.touch(key) }
        func records(tagged tag: RecordTag) async throws -> [TaggedRecord] { await base.records(tagged: tag) }
        func remove(_ keys: [RecordKey]) async throws -> [TaggedRecord] { await base.remove(keys) }
        func claim(_ key: RecordKey, for lifetime: Duration) async throws -> Bool {
            await base.claim(key, for: lifetime)
        }
        func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey] {
            await base.keys(after: fault == .repeatsTheFirstPage ? nil : digest, limit: limit)
        }
        func removeEnded() async throws -> Int { await fault == .keepsExpiredRecords ? 0 : base.removeEnded() }
        func observeRemovals(_ observer: @escaping @Sendable (_ digest: [UInt8]?) -> Void) {
            base.observeRemovals(observer)
        }
    }

    @Test(arguments: Fault.allCases) func theSessionStoreConformanceSuiteDetectsEveryFault(
        _ fault: Fault
    ) async throws {
        let time = VirtualTime()
        let store = WrongStore(base: MemoryTokenStore(host: time.host), fault: fault)
        let suite = SessionStoreConformance(store: store) { time.advance(by: $0) }
        let error = await #expect(throws: ConformanceFailure.self) { try await suite.run() }
        #expect(error?.description.contains(fault.rule) == true, "\(error?.description ?? "")")
    }
}
