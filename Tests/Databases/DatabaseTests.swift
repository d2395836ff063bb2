import AuthFlow
import AuthFlowPostgreSQL
import AuthFlowRedis
import AuthFlowTesting
import Testing

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The databases that `Tests/Databases/databases.sh` has started.
enum Database: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case postgreSQL = "postgresql"
    case redis

    var testDescription: String { rawValue }

    static var areRunning: Bool { ProcessInfo.processInfo.environment["AUTHFLOW_POSTGRESQL"] != nil }

    static func address(_ name: String) throws -> Secret {
        Secret(try #require(ProcessInfo.processInfo.environment[name]))
    }

    /// A store of its own: no other test sees what it has.
    func store(
        named name: String = "test\(UInt64.random(in: 0..<UInt64.max))",
        connections: Int = 4,
        lease: Duration = .seconds(15),
        patience: Duration = .seconds(30)
    ) async throws -> any SessionTokenStore {
        switch self {
        case .postgreSQL:
            let store = try PostgreSQLTokenStore(
                url: try Self.address("AUTHFLOW_POSTGRESQL"),
                schema: name,
                connections: connections,
                lease: lease,
                patience: patience
            )
            try await store.migrate()
            return store
        case .redis:
            return try RedisTokenStore(
                url: try Self.address("AUTHFLOW_REDIS"),
                prefix: name,
                connections: connections,
                lease: lease,
                patience: patience
            )
        }
    }
}

@Suite(.enabled(if: Database.areRunning)) struct DatabaseTests {
    @Test(arguments: Database.allCases) func aStoreConforms(_ database: Database) async throws {
        let store = try await database.store()
        try await SessionStoreConformance(store: store) { try await Task.sleep(for: $0) }.run()
    }
}
