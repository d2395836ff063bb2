import AuthFlow
import AuthFlowTesting
import Expectations
import Testing

/// Session stores with one fault each. The conformance suite detects the fault and reports the violated rule.
@Suite struct WrongSessionStoreTests {
    enum Fault: CaseIterable {
        case repeatsTheFirstPage, keepsExpiredRecords, doesNotFindClaims, keepsTheLifetimeOfClaims

        var rule: String {
            switch self {
            case .repeatsTheFirstPage: "only those after the given digest"
            case .keepsExpiredRecords: "Expired records must be removed"
            case .doesNotFindClaims: "Touching a claimed record must succeed"
            case .keepsTheLifetimeOfClaims: "A write must replace the lifetime of a claimed record"
            }
        }
    }

    private struct WrongStore: ForwardingSessionStore {
        let base: MemoryTokenStore
        let fault: Fault

        func bytes(under lease: Lease) async throws -> [UInt8]? { try await base.bytes(under: lease) }
        func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey] {
            await base.keys(after: fault == .repeatsTheFirstPage ? nil : digest, limit: limit)
        }
        func touch(_ key: RecordKey) async throws -> Bool {
            if fault == .doesNotFindClaims, await base.bytes(for: key) == [] { return false }
            return await base.touch(key)
        }
        func write(_ bytes: [UInt8], _ attributes: RecordAttributes, under lease: Lease) async throws {
            if fault == .keepsTheLifetimeOfClaims, await base.bytes(for: lease.key) == [] {
                return try await base.write(bytes, under: lease)
            }
            try await base.write(bytes, attributes, under: lease)
        }
        func removeEnded() async throws -> Int { await fault == .keepsExpiredRecords ? 0 : base.removeEnded() }
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
