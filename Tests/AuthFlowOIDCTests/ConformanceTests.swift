import AuthFlowTesting
import ConformanceRows
import Testing

/// Every row of the conformance table, by its number.
@Suite struct ConformanceTests {
    private static let trials = ConformanceTable.rows.filter {
        if case .trial = $0.check { true } else { false }
    }

    @Test(arguments: trials, EmulatorEnvironment.Setting.allCases)
    func conformanceRowPasses(
        _ row: ConformanceRow,
        _ setting: EmulatorEnvironment.Setting
    ) async throws {
        guard case .trial(let trial) = row.check else { return }
        try await trial(setting)
    }

    @Test func conformanceRowNumbersAreUnique() {
        let numbers = ConformanceTable.rows.map(\.number)
        #expect(Set(numbers).count == numbers.count)
    }
}
