import AuthFlow
import AuthFlowDatabase
import AuthFlowResourceServer
import AuthFlowSQLite
import AuthFlowTesting
import Expectations
import Testing

@testable import AuthFlowPostgreSQL
@testable import AuthFlowRedis

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The databases that the tests use; `Tests/Databases/databases.sh` starts their servers.
enum Database: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case postgreSQL = "postgresql"
    case redis
    /// A file, which needs no server.
    case sqlite

    var testDescription: String { rawValue }

    static var areRunning: Bool { ProcessInfo.processInfo.environment["AUTHFLOW_POSTGRESQL"] != nil }

    static func address(_ name: String) throws -> Secret {
        Secret(try #require(ProcessInfo.processInfo.environment[name]))
    }

    /// A separate store, whose content is not visible to other tests.
    func store(
        named name: String = "test\(UInt64.random(in: 0..<UInt64.max))",
        connections: Int = 4,
        lease: Duration = .seconds(15),
        waitTimeout: Duration = .seconds(30),
        clock: any Clock<Duration> = ContinuousClock()
    ) async throws -> any SessionTokenStore {
        let host = HostServices(clock: clock)
        switch self {
        case .postgreSQL:
            let store = try PostgreSQLTokenStore(
                url: try Self.address("AUTHFLOW_POSTGRESQL"),
                schema: name,
                connections: connections,
                lease: lease,
                waitTimeout: waitTimeout,
                host: host
            )
            try await store.migrate()
            return store
        case .redis:
            return try RedisTokenStore(
                url: try Self.address("AUTHFLOW_REDIS"),
                prefix: name,
                connections: connections,
                lease: lease,
                waitTimeout: waitTimeout,
                host: host
            )
        case .sqlite:
            let folder = try #require(ProcessInfo.processInfo.environment["AUTHFLOW_SQLITE"])
            return try SQLiteTokenStore(
                path: "\(folder)/\(name).sqlite",
                lease: lease,
                waitTimeout: waitTimeout,
                host: host
            )
        }
    }
}

/// Leases and expiries use the database's clock, which a test cannot advance, so tests wait where time must pass.
@Suite(.enabled(if: Database.areRunning)) struct DatabaseTests {
    private func key(_ name: String) -> RecordKey {
        RecordKey(name: name, issuer: "https://id.example.com", clientID: "client")
    }

    @Test(arguments: Database.allCases) func aStoreConforms(_ database: Database) async throws {
        let store = try await database.store()
        try await SessionStoreConformance(store: store) { try await Task.sleep(for: $0) }.run()
    }

    @Test(arguments: Database.allCases) func anEncryptedStoreConforms(_ database: Database) async throws {
        let keys = try EncryptionKeys([("a", Secret(Base64URL.encode([UInt8](repeating: 1, count: 32))))])
        let store = EncryptedSessionStore(try await database.store(), keys: keys)
        try await SessionStoreConformance(store: store) { try await Task.sleep(for: $0) }.run()
    }

    @Test(arguments: Database.allCases) func aHolderWhoseLeaseWasTakenOverCannotWrite(_ database: Database)
        async throws
    {
        let name = "test\(UInt64.random(in: 0..<UInt64.max))"
        // With a stopped clock, a lease is not renewed, as if the process were paused.
        let paused = try await database.store(named: name, lease: .milliseconds(1), clock: StoppedClock())
        let other = try await database.store(named: name)
        let key = key("paused")
        let lost = await #expect(throws: AuthError.self) {
            try await paused.withLease(on: key) { lease in
                let next = try await other.withLease(on: key) { next in
                    try await other.write([2], under: next)
                    return next
                }
                #expect(next.fence > lease.fence)
                #expect(next.isAfterAbandonedLease)
                #expect(throws: AuthError.self) { try lease.requireRemainingTime() }
                try await paused.write([1], under: lease)
            }
        }
        #expect(lost?.code == .leaseLost)
        #expect(try await other.bytes(for: key) == [2])
        try await other.withLease(on: key) { #expect(!$0.isAfterAbandonedLease) }
    }

    /// The times of the last use are those of a server whose clock was a day ahead, and was then set back.
    @Test(.timeLimit(.minutes(1)), arguments: [Database.postgreSQL, .redis])
    func aUseAfterTheClockWasSetBackRestartsTheIdleTimeout(_ database: Database) async throws {
        let name = "test\(UInt64.random(in: 0..<UInt64.max))"
        let store = try await database.store(named: name)
        let key = key("session")
        try await store.withLease(on: key) { lease in
            try await store.write([1], RecordAttributes(idleTime: .milliseconds(50)), under: lease)
        }
        if database == .postgreSQL {
            let settings = try PostgreSQLSettings(
                url: try Database.address("AUTHFLOW_POSTGRESQL"),
                password: nil,
                schema: name,
                allowsUnverifiedServer: false
            )
            let link = try PostgreSQLLink(settings)
            defer { link.close() }
            let later = "interval '1 day'"
            try link.run("UPDATE \(name).records SET used_at = used_at + \(later), idle_until = idle_until + \(later)")
        } else {
            let url = try Database.address("AUTHFLOW_REDIS")
            let settings = try RedisSettings(url: url, password: nil, prefix: name, allowsPlainText: false)
            let later = "\(Int64(Date().timeIntervalSince1970 + 86_400) * 1000)"
            let record = "\(name):{\(RecordMessage.hex(key.digest))}"
            try RedisLink(settings).run("HSET", record, "used", later, "idle_until", later)
        }
        #expect(try await store.touch(key))
        // The session ends; otherwise, the time limit is exceeded.
        while try await store.bytes(for: key) != nil {}
    }

    @Test(arguments: Database.allCases) func anExpiredLeaseThatWasNotTakenOverCanStillWrite(_ database: Database)
        async throws
    {
        let store = try await database.store(lease: .milliseconds(1), clock: StoppedClock())
        let key = key("late")
        try await store.withLease(on: key) { lease in
            try await Task.sleep(for: .milliseconds(20))
            try await store.write([1], under: lease)
        }
        #expect(try await store.bytes(for: key) == [1])
    }

    @Test(arguments: Database.allCases) func instancesThatShareADatabaseAcceptAProofOnce(_ database: Database)
        async throws
    {
        let name = "test\(UInt64.random(in: 0..<UInt64.max))"
        let stores = [try await database.store(named: name), try await database.store(named: name)]
        let machines = stores.map { SharedReplayCache($0, resource: "https://api.example.com") }
        let proof = ProofIdentifier(thumbprint: "key", identifier: "1")
        let first = try await withThrowingTaskGroup(of: Bool.self) { group in
            for machine in machines + machines {
                group.addTask { try await machine.isFirstUse(of: proof, at: Date(), within: .seconds(120)) }
            }
            return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(first == 1)
        let other = ProofIdentifier(thumbprint: "other key", identifier: "1")
        #expect(try await machines[0].isFirstUse(of: other, at: Date(), within: .seconds(120)))
    }

    @Test(arguments: Database.allCases) func aLeaseIsRenewedWhileItIsHeld(_ database: Database) async throws {
        let name = "test\(UInt64.random(in: 0..<UInt64.max))"
        let holder = try await database.store(named: name, lease: .seconds(15))
        let other = try await database.store(named: name, waitTimeout: .milliseconds(100))
        let key = key("renewed")
        try await holder.withLease(on: key) { lease in
            // The remaining lifetime increases only when the lease is renewed.
            var remaining: [Duration] = []
            while zip(remaining, remaining.dropFirst()).allSatisfy({ $0 >= $1 }) {
                let busy = await #expect(throws: AuthError.self) { try await other.withLease(on: key) { _ in } }
                #expect(busy?.code == .leaseBusy)
                remaining.append(try #require(busy?.retryAfter))
            }
            try lease.requireRemainingTime()
        }
        try await other.withLease(on: key) { _ in }
    }

    /// SQLite is not included, because each process polls the file several times per second.
    @Test(.timeLimit(.minutes(1)), arguments: [Database.postgreSQL, .redis])
    func aWaitingProcessIsWokenByTheHolder(_ database: Database) async throws {
        let name = "test\(UInt64.random(in: 0..<UInt64.max))"
        let holder = try await database.store(named: name)
        // With a stopped clock, this store never polls.
        let other = try await database.store(named: name, clock: StoppedClock())
        let key = key("awaited")
        // Wait until the listening connection exists.
        let (heard, report) = AsyncStream<Void>.makeStream()
        other.observeRemovals { _ in report.yield() }
        for await _ in heard { break }
        try await withThrowingTaskGroup(of: Void.self) { group in
            try await holder.withLease(on: key) { _ in
                group.addTask { try await other.withLease(on: key) { _ in } }
                try await untilATaskWaits(for: other)
            }
            try await group.waitForAll()
        }
    }

    /// Waits until a task waits for a lease.
    private func untilATaskWaits(for store: any SessionTokenStore) async throws {
        while try #require(store as? any GaugeSource).gauges
            .contains(where: { $0.name == "authflow_lease_waiters" && $0.value == 0 })
        {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    @Test(.timeLimit(.minutes(1)), arguments: Database.allCases) func aCancelledTaskStopsWaiting(_ database: Database)
        async throws
    {
        let store = try await database.store()
        let key = key("cancelled")
        try await store.withLease(on: key) { _ in
            let waiting = Task { try await store.withLease(on: key) { _ in } }
            try await untilATaskWaits(for: store)
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
        }
        try await store.withLease(on: key) { _ in }
    }

    @Test(.timeLimit(.minutes(1)), arguments: Database.allCases) func otherProcessesAreNotifiedOfARemoval(
        _ database: Database
    )
        async throws
    {
        let name = "test\(UInt64.random(in: 0..<UInt64.max))"
        let (store, other) = (try await database.store(named: name), try await database.store(named: name))
        let key = key("removed")
        let (heard, report) = AsyncStream<[UInt8]?>.makeStream()
        other.observeRemovals { report.yield($0) }
        var messages = heard.makeAsyncIterator()
        // The connection exists, so notifications are received from now on.
        #expect(await messages.next() == .some(nil))
        while true {
            try await store.withLease(on: key) { try await store.write([1], under: $0) }
            _ = try await store.remove([key])
            // A new connection reports nil, because notifications may have been missed.
            guard let message = await messages.next(), let digest = message else { continue }
            #expect(digest == key.digest)
            return
        }
    }

    /// The next release migrates the tables while replicas of this release are still running.
    @Test(arguments: [(1, true), (2, false)])
    func usesANewerSchemaOnlyIfItIsCompatible(_ needs: Int, _ isUsable: Bool) async throws {
        let name = "newer\(UInt64.random(in: 0..<UInt64.max))"
        let url = try Database.address("AUTHFLOW_POSTGRESQL")
        _ = try await PostgreSQLTokenStore(url: url, schema: name).migrate()
        unsafe setenv("NEWER_URL", url.exposed, 1)
        let change = "INSERT INTO \\\"\(name)\\\".migrations (version, needs) VALUES (2, \(needs))"
        #expect(unsafe system("psql -q \"$NEWER_URL\" -c \"\(change)\" >/dev/null") == 0)
        let store = try PostgreSQLTokenStore(url: url, schema: name)
        if isUsable {
            #expect(try await store.bytes(for: key("any")) == nil)
            #expect(try await store.migrate().before == 2)
        } else {
            let error = await #expect(throws: AuthError.self) { try await store.bytes(for: key("any")) }
            #expect(error?.message.contains("Upgrade the program") == true)
        }
    }

    @Test func aNegativeSchemaVersionIsReported() async throws {
        let name = "negative\(UInt64.random(in: 0..<UInt64.max))"
        let url = try Database.address("AUTHFLOW_POSTGRESQL")
        let store = try PostgreSQLTokenStore(url: url, schema: name)
        _ = try await store.migrate()
        unsafe setenv("NEGATIVE_URL", url.exposed, 1)
        let change = "UPDATE \\\"\(name)\\\".migrations SET version = -1"
        #expect(unsafe system("psql -q \"$NEGATIVE_URL\" -c \"\(change)\" >/dev/null") == 0)
        let error = await #expect(throws: AuthError.self) { try await store.migrate() }
        #expect(error?.message.contains("negative versions") == true)
    }

    /// The migration of a later version may lock the table. A claim is retried only if the statement was not executed.
    @Test(arguments: ["40001", "40P01", "55P03", "57014"])
    func aPostgreSQLStatementThatWasRolledBackCountsAsNotExecuted(_ state: String) throws {
        let settings = try PostgreSQLSettings(
            url: try Database.address("AUTHFLOW_POSTGRESQL"),
            password: nil,
            schema: "authflow",
            allowsUnverifiedServer: false
        )
        let link = try PostgreSQLLink(settings)
        defer { link.close() }
        let statement = "DO $$ BEGIN RAISE EXCEPTION 'rolled back' USING ERRCODE = '\(state)'; END $$"
        let result = try link.response(to: PostgreSQLRequest(statement: statement, parameters: []))
        let failure = #expect(throws: DatabaseFailure.self) { try result.get() }
        #expect(failure?.kind == .unreachable)
    }

    @Test func concurrentMigrationsAreSafe() async throws {
        let name = "migrated\(UInt64.random(in: 0..<UInt64.max))"
        let url = try Database.address("AUTHFLOW_POSTGRESQL")
        let befores = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<8 {
                group.addTask { try await PostgreSQLTokenStore(url: url, schema: name).migrate().before }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(befores.filter { $0 == 0 }.count == 1)
        let store = try PostgreSQLTokenStore(url: url, schema: name)
        #expect(try await store.bytes(for: key("any")) == nil)
    }

    @Test func aDatabaseWithoutTablesIsReported() async throws {
        let store = try PostgreSQLTokenStore(
            url: try Database.address("AUTHFLOW_POSTGRESQL"),
            schema: "no\"such; DROP SCHEMA public"
        )
        let error = await #expect(throws: AuthError.self) { try await store.bytes(for: key("any")) }
        #expect(error?.code == .storageFailed)
        #expect(error?.message.contains("Migrate the store: call migrate()") == true)
    }

    @Test(arguments: [
        "postgresql://db.example.com/app?sslmode=disable", "postgresql://db.example.com/app?sslmode=require",
        "host=/run/postgresql,db.example.com sslmode=prefer", "postgresql:///app?sslmode=disable",
        "host=localhost hostaddr=192.0.2.1 sslmode=allow",
    ]) func rejectsAPostgreSQLConnectionStringWithoutVerifiedTLS(_ url: String) throws {
        let error = #expect(throws: AuthError.self) { try PostgreSQLTokenStore(url: Secret(url)) }
        #expect(error?.code == .invalidConfiguration)
        #expect(throws: Never.self) { try PostgreSQLTokenStore(url: Secret(url), allowsUnverifiedServer: true) }
    }

    /// libpq takes the part before the slash for the port, and quotes it in its message.
    @Test func aPasswordWithASlashInThePostgreSQLURLIsRejectedWithoutQuotingIt() throws {
        let url = Secret("postgresql://user:very-secret/password@127.0.0.1:1/app")
        let error = #expect(throws: AuthError.self) { try PostgreSQLTokenStore(url: url) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains("%2F") == true)
        #expect("\(error as Any)".contains("very-secret") == false)
        let valid = ["postgresql://u:a%2Fb@127.0.0.1:1/app", "postgresql://a:1,b:2/app", "host=/run/db port=5433"]
        for url in valid { #expect(throws: Never.self) { try PostgreSQLTokenStore(url: Secret(url)) } }
    }

    @Test func theSystemsCertificatesDoNotReplaceThePostgreSQLAuthoritiesOfTheUser() throws {
        let folder = try #require(ProcessInfo.processInfo.environment["AUTHFLOW_SQLITE"])
        let home = "\(folder)/home\(UInt64.random(in: 0..<UInt64.max))"
        func authorities(_ environment: [String: String], _ query: String = "") throws -> String? {
            let settings = try PostgreSQLSettings(
                url: Secret("postgresql://db.example.com/app\(query)"),
                password: nil,
                schema: "authflow",
                allowsUnverifiedServer: false,
                environment: environment.merging(["HOME": home]) { given, _ in given }
            )
            return settings.keywords.first { $0.0 == "sslrootcert" }?.1
        }
        let system = try authorities([:])
        #expect(try authorities(["PGSSLROOTCERT": ""]) == system)
        #expect(try authorities(["PGSSLROOTCERT": "/private.pem"]) == nil)
        #expect(try authorities(["PGSSLROOTCERT": "/private.pem"], "?sslrootcert=/other.pem") == "/other.pem")
        try FileManager.default.createDirectory(atPath: "\(home)/.postgresql", withIntermediateDirectories: true)
        try Data().write(to: URL(fileURLWithPath: "\(home)/.postgresql/root.crt"))
        #expect(try authorities([:]) == nil)
    }

    @Test(arguments: [
        "redis://cache.example.com", "redis://10.0.0.1:6379/0", "redis://", "redis://localhost:0",
        "redis://localhost/x",
        "http://localhost", "unix:relative", "rediss://cache.example.com",
    ]) func rejectsAnUnsafeOrInvalidRedisURL(_ url: String) throws {
        #expect(throws: AuthError.self) { try RedisTokenStore(url: Secret(url)) }
    }

    private func redisLink() throws -> RedisLink {
        let url = try Database.address("AUTHFLOW_REDIS")
        return try RedisLink(try RedisSettings(url: url, password: nil, prefix: "test", allowsPlainText: false))
    }

    /// A process that looks up a tag finds that a record was removed. Before it removes the record from the tag's set, another process stores a record
    /// under the same key.
    @Test(arguments: [true, false]) func aRecordThatWasStoredAgainIsFoundByItsTagInRedis(_ expires: Bool) async throws {
        let prefix = "test\(UInt64.random(in: 0..<UInt64.max))"
        let store = try await Database.redis.store(named: prefix)
        let (key, tag) = (self.key("tagged"), RecordTag(["user"]))
        let attributes = RecordAttributes(lifetime: expires ? .seconds(60) : nil, tags: [tag])
        let link = try redisLink()
        defer { link.close() }
        let set = Array("\(prefix):tag:{\(RecordMessage.hex(tag.bytes))}".utf8)
        func stored() async throws -> [UInt8] {
            try await store.withLease(on: key) { lease in try await store.write([1], attributes, under: lease) }
            return try #require(try link.response(to: [Array("ZSCORE".utf8), set, key.digest]).get().bytes)
        }
        let score = try await stored()
        repeat { _ = try await store.remove([key]) } while try await stored() == score
        let script = [Array("EVAL".utf8), Array(RedisScript.untag.text.utf8), Array("1".utf8), set, key.digest, score]
        #expect(try link.response(to: script).get().integer == 0)
        #expect(try await store.records(tagged: tag).map(\.key) == [key])
    }

    @Test func aMissingPermissionInRedisIsNotRetried() throws {
        let user = "test\(UInt64.random(in: 0..<UInt64.max))"
        let administrator = try redisLink()
        try administrator.run("ACL", "SETUSER", user, "on", ">secret", "+auth")
        defer { _ = try? administrator.run("ACL", "DELUSER", user) }
        let limited = try redisLink()
        try limited.run("AUTH", user, "secret")
        guard case .failure(let failure) = try limited.response(to: [Array("PING".utf8)]) else {
            Issue.record("The command was executed without permission.")
            return
        }
        #expect(failure.kind == .unusable)
        #expect(!failure.isTemporary)
    }

    /// Runs a body with a connection to a server whose first reply is an error.
    private func withRedisLink(rejectedBy error: String, _ body: (RedisLink) throws -> Void) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { _ = close(listener) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isOpen = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe bind(listener, $0, size) == 0 && listen(listener, 1) == 0
                    && getsockname(listener, $0, &size) == 0
            }
        }
        try #require(isOpen)
        let url = Secret("redis://127.0.0.1:\(UInt16(bigEndian: address.sin_port))")
        let link = try RedisLink(
            try RedisSettings(url: url, password: nil, prefix: "test", allowsPlainText: false)
        )
        defer { link.close() }
        let connection = accept(listener, nil, nil)
        defer { _ = close(connection) }
        let reply = Array("-\(error)\r\n".utf8)
        try #require(unsafe write(connection, reply, reply.count) == reply.count)
        try body(link)
    }

    /// Redis accepts such a connection, rejects it in its first reply, and closes it.
    @Test func aRedisConnectionThatExceedsTheServersLimitIsUnavailable() throws {
        try withRedisLink(rejectedBy: "ERR max number of clients reached") { link in
            let failure = #expect(throws: DatabaseFailure.self) { try RedisRecords.requireNoEviction(link) }
            #expect(failure?.kind == .unreachable)
            #expect(failure?.message.contains("max number of clients") == true)
        }
    }

    @Test(arguments: ["MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381"])
    func aNodeOfARedisClusterIsReportedAsUnsupported(_ error: String) throws {
        try withRedisLink(rejectedBy: error) { link in
            guard case .failure(let failure) = try link.response(to: [Array("PING".utf8)]) else {
                Issue.record("The reply must be an error.")
                return
            }
            #expect(failure.kind == .unusable)
            #expect(failure.message.contains("cluster") && failure.message.contains(error))
        }
    }

    @Test func reportsAnUnreachableServerWithoutItsPassword() async throws {
        let addresses = ["postgresql://user:very-secret@127.0.0.1:1/app", "redis://user:very-secret@127.0.0.1:1"]
        for address in addresses {
            let store: any SessionTokenStore =
                address.hasPrefix("redis")
                ? try RedisTokenStore(url: Secret(address)) : try PostgreSQLTokenStore(url: Secret(address))
            let error = await #expect(throws: AuthError.self) { try await store.bytes(for: key("any")) }
            #expect(error?.code == .storageFailed)
            #expect("\(error as Any) \(store)".contains("very-secret") == false)
            #expect(error?.message.contains("cannot be reached") == true, "\(error as Any)")
        }
    }

    @Test(arguments: Database.allCases) func keyRotationUnderLoadLosesNoWrites(_ database: Database) async throws {
        let name = "test\(UInt64.random(in: 0..<UInt64.max))"
        func keys(_ names: [String]) throws -> EncryptionKeys {
            try EncryptionKeys(
                names.map { ($0, Secret(Base64URL.encode([UInt8](repeating: $0.utf8.first ?? 0, count: 32)))) }
            )
        }
        let base = try await database.store(named: name)
        let records = (0..<50).map { key("session \($0)") }
        let old = EncryptedSessionStore(base, keys: try keys(["a", "b"]))
        for record in records {
            try await old.withLease(on: record) {
                try await old.write([0], RecordAttributes(lifetime: .seconds(600)), under: $0)
            }
        }
        try await withThrowingTaskGroup(of: Int.self) { group in
            for process in 0..<4 {
                // Two processes have not been updated: they still encrypt with the old key.
                let store = EncryptedSessionStore(
                    try await database.store(named: name),
                    keys: try keys(process < 2 ? ["a", "b"] : ["b", "a"])
                )
                group.addTask {
                    for _ in 0..<100 {
                        let record = records[Int.random(in: 0..<records.count)]
                        try await store.withLease(on: record) { lease in
                            let count = try await store.bytes(for: record)?.first ?? 0
                            try await store.write([count + 1], under: lease)
                        }
                    }
                    return 100
                }
            }
            group.addTask {
                let store = EncryptedSessionStore(base, keys: try keys(["b", "a"]))
                for _ in 0..<5 { _ = try await store.rewrap() }
                return 0
            }
            try await group.waitForAll()
        }
        let new = EncryptedSessionStore(base, keys: try keys(["b", "a"]))
        while try await new.rewrap() != (0, 0) {}
        let last = EncryptedSessionStore(base, keys: try keys(["b"]))
        var total = 0
        for record in records { total += Int(try await last.bytes(for: record)?.first ?? 0) }
        #expect(total == 400)
    }
}
