import AuthFlow
import Dispatch
import Foundation
import Synchronization
import Testing

@testable import AuthFlowDatabase
@testable import AuthFlowSQLite

/// The file of a database, its connections, and the queue of calls to it.
@Suite struct SQLiteFileTests {
    private let folder: SQLiteTokenStoreTests.Folder

    init() throws { folder = try SQLiteTokenStoreTests.Folder() }

    /// Another process may replace the file with a link after it was examined.
    @Test(arguments: ["missing", "link"]) func aConnectionNeitherCreatesAFileNorFollowsALink(_ name: String) throws {
        let target = "\(folder.path)/target"
        try #require(FileManager.default.createFile(atPath: target, contents: nil))
        try FileManager.default.createSymbolicLink(atPath: "\(folder.path)/link", withDestinationPath: target)
        let failure = #expect(throws: DatabaseFailure.self) { try SQLiteConnection(path: "\(folder.path)/\(name)") }
        #expect(failure?.kind == .unusable)
        #expect(failure?.message.contains("cannot be used: ") == true, "\(failure as Any)")
    }

    /// The statement would otherwise run with a null value.
    @Test func aStatementWithAParameterThatCannotBeBoundIsNotRun() throws {
        let connection = try SQLiteFile(path: folder.file).open()
        let failure = #expect(throws: DatabaseFailure.self) { try connection.run("SELECT ?1", .null, .null) }
        #expect(failure?.kind == .refused)
        #expect(failure?.message.contains("out of range") == true, "\(failure as Any)")
    }

    @Test func aDamagedDatabaseThatCannotBeRenamedIsLeftUnchanged() throws {
        let damage = Data(repeating: 0x5A, count: 1000)
        let mode = [FileAttributeKey.posixPermissions: 0o600]
        try #require(FileManager.default.createFile(atPath: folder.file, contents: damage, attributes: mode))
        // A file cannot replace a directory.
        try FileManager.default.createDirectory(atPath: "\(folder.file).old", withIntermediateDirectories: false)
        let error = #expect(throws: AuthError.self) { try SQLiteFile(path: folder.file).setAside(".old") }
        #expect(error?.code == .storageFailed)
        #expect(error?.message.contains("could not be renamed") == true, "\(error as Any)")
        #expect(FileManager.default.contents(atPath: folder.file) == damage)
    }

    @Test(.timeLimit(.minutes(1))) func rejectsACallWhileTenThousandCallsAreQueued() async throws {
        let executor = SQLiteExecutor(file: SQLiteFile(path: folder.file))
        let gate = DispatchSemaphore(value: 0)
        let isBlocked = Atomic(false)
        let refused = Refusals()
        let first = Task {
            try await executor.run(isEssential: true) { _ in
                isBlocked.store(true, ordering: .sequentiallyConsistent)
                gate.wait()
            }
        }
        while !isBlocked.load(ordering: .sequentiallyConsistent) { await Task.yield() }
        let failures = await withTaskGroup(of: DatabaseFailure?.self) { group in
            for _ in 0..<10_001 {
                group.addTask {
                    do {
                        try await executor.run(isEssential: true) { _ in }
                        return nil
                    } catch {
                        _ = refused.count.add(1, ordering: .sequentiallyConsistent)
                        return error as? DatabaseFailure
                    }
                }
            }
            while executor.pending + refused.count.load(ordering: .sequentiallyConsistent) < 10_002 {
                await Task.yield()
            }
            gate.signal()
            return await group.reduce(into: [DatabaseFailure]()) { failures, failure in
                if let failure { failures.append(failure) }
            }
        }
        try await first.value
        #expect(failures.map(\.kind) == [.unreachable])
        #expect(failures.first?.message == "10000 database calls are already queued.")
    }

    private final class Refusals: Sendable {
        let count = Atomic(0)
    }
}
