import AuthFlow
import AuthFlowTesting
import ConformanceRows
import Testing

/// The conformance rows about web applications and logout tokens, with sessions in a database.
@Suite(.enabled(if: Database.areRunning)) struct DatabaseConformanceTests {
    private static let rows = ConformanceTable.rows.filter { $0.number.hasPrefix("W") || $0.number.hasPrefix("L") }

    @Test(arguments: rows, Database.allCases)
    func conformanceRowPassesWithADatabase(_ row: ConformanceRow, _ database: Database) async throws {
        guard case .trial(let trial) = row.check else { return }
        try await WebScene.$store.withValue(database.store()) { try await trial(.inProcess) }
    }
}
