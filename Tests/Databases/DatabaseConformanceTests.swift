import AuthFlow
import AuthFlowTesting
import ConformanceRows
import Testing

/// The conformance rows for web applications and logout tokens, with sessions in a database.
@Suite(.enabled(if: Database.areRunning)) struct DatabaseConformanceTests {
    private static let rows = ConformanceTable.rows.filter { $0.number.hasPrefix("W") || $0.number.hasPrefix("L") }

    @Test(arguments: rows, Database.allCases)
    func conformanceRowPassesWithADatabase(_ row: ConformanceRow, _ database: Database) async throws {
        guard case .trial(let trial) = row.check else { return }
        try await WebEnvironment.$store.withValue(database.store()) { try await trial(.inProcess) }
    }

    /// Without this test, the rows could store their sessions in memory unnoticed.
    @Test(arguments: Database.allCases) func aConformanceRowStoresItsSessionsInTheDatabase(_ database: Database)
        async throws
    {
        let row = try #require(Self.rows.first { $0.number == "W3" })
        guard case .trial(let trial) = row.check else { return }
        let store = try await database.store()
        try await WebEnvironment.$store.withValue(store) { try await trial(.inProcess) }
        #expect(try await !store.keys(after: nil, limit: 1).isEmpty)
    }
}
