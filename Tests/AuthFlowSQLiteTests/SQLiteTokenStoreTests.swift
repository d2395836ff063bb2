import AuthFlow
import AuthFlowDatabase
import AuthFlowSQLite
import AuthFlowTesting
import CSQLite
import ConformanceRows
import Synchronization
import Testing

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif
#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite struct SQLiteTokenStoreTests {
    /// A directory that is removed at the end of the test.
    final class Folder: Sendable {
        let path: String
        init() throws {
            path = "\(Self.parent)/\(UUID().uuidString)"
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: path)
        }
        deinit { try? FileManager.default.removeItem(atPath: path) }
        var file: String { "\(path)/sessions.sqlite" }

        /// The parent directory, which is removed at exit. The server of a conformance row may use its store after the test
        /// has ended, and thereby create the test's directory again.
        private static let parent: String = {
            atexit { try? FileManager.default.removeItem(atPath: Folder.parent) }
            return FileManager.default.temporaryDirectory.appendingPathComponent("sqlite-\(UUID().uuidString)").path
        }()
    }

    /// A wall clock that a test can set.
    final class WallClock: Sendable {
        private let time = Mutex(Date(timeIntervalSince1970: 1_800_000_000))
        var host: HostServices { HostServices(now: { self.time.withLock { $0 } }) }
        /// The lease clock of the machine, with the given boot ID.
        func leases(boot: UInt8 = 1) -> LeaseClock {
            LeaseClock(boot: [boot]) {
                Int64(self.time.withLock { $0.timeIntervalSince1970 } * 1000) - 1_799_999_000_000
            }
        }
        func advance(by duration: Duration) {
            time.withLock { $0 += Double(duration.components.seconds) + Double(duration.components.attoseconds) / 1e18 }
        }
    }

    private let folder: Folder
    private let clock = WallClock()

    init() throws { folder = try Folder() }

    private func store(boot: UInt8 = 1, path: String? = nil) throws -> SQLiteTokenStore {
        try SQLiteTokenStore(path: path ?? folder.file, host: clock.host, leases: clock.leases(boot: boot))
    }

    private func key(_ name: String) -> RecordKey {
        RecordKey(name: name, issuer: "https://id.example.com", clientID: "client")
    }

    private func mode(_ path: String) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
    }

    @Test func theStoreConforms() async throws {
        try await SessionStoreConformance(store: store()) { clock.advance(by: $0) }.run()
    }

    @Test func theEncryptedStoreConforms() async throws {
        let keys = try EncryptionKeys([("a", Secret(Base64URL.encode([UInt8](repeating: 1, count: 32))))])
        try await SessionStoreConformance(store: EncryptedSessionStore(store(), keys: keys)) { clock.advance(by: $0) }
            .run()
    }

    private static let rows = ConformanceTable.rows.filter { $0.number.hasPrefix("W") || $0.number.hasPrefix("L") }

    @Test(arguments: rows) func conformanceRowPassesWithSessionsInAFile(_ row: ConformanceRow) async throws {
        guard case .trial(let trial) = row.check else { return }
        try await WebEnvironment.$store.withValue(SQLiteTokenStore(path: folder.file)) { try await trial(.inProcess) }
        if row.number == "W3" {
            #expect(try await !SQLiteTokenStore(path: folder.file).keys(after: nil, limit: 1).isEmpty)
        }
    }

    @Test func aHolderWhoseLeaseWasTakenOverCannotWrite() async throws {
        let (paused, other) = (try store(), try store())
        let key = key("paused")
        let lost = await #expect(throws: AuthError.self) {
            try await paused.withLease(on: key) { lease in
                clock.advance(by: .seconds(16))
                let next = try await other.withLease(on: key) { next in
                    try await other.write([2], under: next)
                    return next
                }
                #expect(next.fence > lease.fence)
                #expect(next.isAfterAbandonedLease)
                try await paused.write([1], under: lease)
            }
        }
        #expect(lost?.code == .leaseLost)
        #expect(try await other.bytes(for: key) == [2])
        try await other.withLease(on: key) { #expect(!$0.isAfterAbandonedLease) }
    }

    @Test func theSystemLeaseClockHasABootIDAndIsMonotonic() {
        #expect(!LeaseClock.system.boot.isEmpty)
        let first = LeaseClock.system.now()
        #expect(first > 0 && LeaseClock.system.now() >= first)
    }

    /// The lease holder no longer exists after a reboot, regardless of the clock.
    @Test func aLeaseDoesNotSurviveAReboot() async throws {
        let (before, after) = (try store(boot: 1), try store(boot: 2))
        let key = key("killed")
        let lost = await #expect(throws: AuthError.self) {
            try await before.withLease(on: key) { lease in
                try await after.withLease(on: key) { next in
                    #expect(next.isAfterAbandonedLease && next.fence > lease.fence)
                    try await after.write([2], under: next)
                }
                try await before.write([1], under: lease)
            }
        }
        #expect(lost?.code == .leaseLost)
        #expect(try await after.bytes(for: key) == [2])
    }

    /// Hardened services cannot read the boot ID (`ProcSubset=pid` of systemd), and a container can have its own time since boot.
    @Test func aLeaseOfAnUnrecognizedBootExpiresAfterItsDuration() async throws {
        let month: Int64 = 30 * 86_400_000
        let time = Mutex<Int64>(1000)
        let holder = try SQLiteTokenStore(
            path: folder.file,
            host: clock.host,
            leases: LeaseClock(boot: []) { month }
        )
        let restarted = try SQLiteTokenStore(
            path: folder.file,
            waitTimeout: .zero,
            host: clock.host,
            leases: LeaseClock(boot: []) { time.withLock { $0 } }
        )
        try await holder.withLease(on: key("killed")) { _ in
            let busy = await #expect(throws: AuthError.self) {
                try await restarted.withLease(on: key("killed")) { _ in }
            }
            #expect(busy?.code == .leaseBusy)
            #expect(busy?.retryAfter == .seconds(15))
            time.withLock { $0 += 15_000 }
            try await restarted.withLease(on: key("killed")) { #expect($0.isAfterAbandonedLease) }
        }
    }

    /// While a process waits for the database's write lock, the holder can renew its lease.
    @Test func aProcessThatWaitedForTheWriteLockDoesNotShortenALease() async throws {
        let times = Mutex<[Int64]>([1000, 6000])
        let holder = try SQLiteTokenStore(path: folder.file, host: clock.host, leases: LeaseClock(boot: [1]) { 6000 })
        let waiting = try SQLiteTokenStore(
            path: folder.file,
            waitTimeout: .zero,
            host: clock.host,
            leases: LeaseClock(boot: [1]) { times.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] } }
        )
        try await holder.withLease(on: key("renewed")) { _ in
            for now: Int64 in [6000, 20_999] {
                let busy = await #expect(throws: AuthError.self) {
                    try await waiting.withLease(on: key("renewed")) { _ in }
                }
                #expect(busy?.code == .leaseBusy)
                #expect(busy?.retryAfter == .milliseconds(21_000 - now))
                times.withLock { $0 = [20_999] }
            }
        }
    }

    @Test func aLeaseOfAnUnrecognizedBootDoesNotKeepAnExpiredRecord() async throws {
        let month: Int64 = 30 * 86_400_000
        let holder = try SQLiteTokenStore(path: folder.file, host: clock.host, leases: LeaseClock(boot: []) { month })
        let restarted = try SQLiteTokenStore(path: folder.file, host: clock.host, leases: LeaseClock(boot: []) { 1000 })
        try await holder.withLease(on: key("killed")) { lease in
            try await holder.write([1], RecordAttributes(lifetime: .seconds(60)), under: lease)
            #expect(try await restarted.removeEnded() == 0)
            clock.advance(by: .seconds(61))
            #expect(try await holder.removeEnded() == 0)
            #expect(try await restarted.removeEnded() == 1)
        }
    }

    /// Setting the machine's clock affects all processes, but does not change how long a lease is valid.
    @Test func settingTheWallClockDoesNotExpireALease() async throws {
        let leases = LeaseClock(boot: [1]) { 1000 }
        let holder = try SQLiteTokenStore(path: folder.file, host: clock.host, leases: leases)
        let other = try SQLiteTokenStore(path: folder.file, waitTimeout: .zero, host: clock.host, leases: leases)
        try await holder.withLease(on: key("held")) { _ in
            for step in [Duration.seconds(86_400), .seconds(-900_000)] {
                clock.advance(by: step)
                let busy = await #expect(throws: AuthError.self) { try await other.withLease(on: key("held")) { _ in } }
                #expect(busy?.code == .leaseBusy)
            }
        }
        try await other.withLease(on: key("held")) { _ in }
    }

    @Test func aHolderCannotWriteAfterItsRecordWasRemovedAndLeasedAgain() async throws {
        let (store, key) = (try store(), key("removed"))
        let lost = await #expect(throws: AuthError.self) {
            try await store.withLease(on: key) { first in
                _ = try await store.remove([key])
                try await store.withLease(on: key) { second in
                    #expect(second.fence > first.fence)
                    try await store.write([2], under: second)
                }
                try await store.write([1], under: first)
            }
        }
        #expect(lost?.code == .leaseLost)
        #expect(try await store.bytes(for: key) == [2])
    }

    @Test(.timeLimit(.minutes(1))) func deallocatingAStoreClosesItsDatabase() async throws {
        var store: SQLiteTokenStore? = try store()
        _ = try await store?.claim(key("claim"), for: .seconds(60))
        // All observers share one task that polls for messages, which ends with the store.
        for _ in 0..<2 { store?.observeRemovals { _ in } }
        #expect(FileManager.default.fileExists(atPath: "\(folder.file)-wal"))
        store = nil
        // The last connection to close removes the write-ahead log, on a separate thread.
        while FileManager.default.fileExists(atPath: "\(folder.file)-wal"), !Task.isCancelled { await Task.yield() }
        #expect(!FileManager.default.fileExists(atPath: "\(folder.file)-wal"))
    }

    @Test(.timeLimit(.minutes(1))) func otherProcessesAreNotifiedOfARemoval() async throws {
        let (store, other) = (try store(), try store())
        let key = key("removed")
        let (heard, report) = AsyncStream<[UInt8]?>.makeStream()
        other.observeRemovals { report.yield($0) }
        var messages = heard.makeAsyncIterator()
        #expect(await messages.next() == .some(nil))
        try await store.withLease(on: key) { try await store.write([1], under: $0) }
        #expect(try await store.remove([key]).map(\.bytes) == [[1]])
        #expect(await messages.next() == key.digest)
    }

    @Test func theRemovalOfAMissingRecordIsNotAnnounced() async throws {
        let store = try store()
        #expect(try await store.remove([key("missing")]).isEmpty)
        #expect(try SQLiteFiles(folder.file).number("SELECT count(*) FROM messages") == 0)
    }

    @Test(.timeLimit(.minutes(1)), arguments: ["clock set forward", "clock set back", "database removed"])
    func observersLearnThatTheyMayHaveMissedARemoval(_ cause: String) async throws {
        let store = try store()
        let (heard, report) = AsyncStream<[UInt8]?>.makeStream()
        store.observeRemovals { report.yield($0) }
        var messages = heard.makeAsyncIterator()
        #expect(await messages.next() == .some(nil))
        switch cause {
        case "clock set forward": clock.advance(by: .seconds(31))
        case "clock set back": clock.advance(by: .seconds(-31))
        default:
            // The messages are in another file from now on.
            let old = "\(folder.path).old"
            #expect(unsafe rename(folder.path, old) == 0)
        }
        #expect(await messages.next() == .some(nil))
    }

    /// Another program may lock the database. All cached sessions would otherwise be read again after each attempt, from a store that cannot be read.
    @Test(.timeLimit(.minutes(1))) func messagesDuringFailedPollsAreReceivedAfterwards() async throws {
        let polls = Atomic(0)
        let host = HostServices(now: { [clock] in
            _ = polls.add(1, ordering: .relaxed)
            return clock.host.now()
        })
        let store = try SQLiteTokenStore(path: folder.file, host: host, leases: clock.leases())
        let (heard, report) = AsyncStream<[UInt8]?>.makeStream()
        store.observeRemovals { report.yield($0) }
        var messages = heard.makeAsyncIterator()
        #expect(await messages.next() == .some(nil))
        let other = try SQLiteFiles(folder.file)
        try other.run("ALTER TABLE messages RENAME TO hidden")
        let first = polls.load(ordering: .relaxed)
        while polls.load(ordering: .relaxed) < first + 3 { await Task.yield() }
        let key = key("removed")
        let text = RecordMessage.hex(RecordMessage.removed(key.digest).text)
        try other.run("INSERT INTO hidden (at, text) VALUES (0, x'\(text)')")
        try other.run("ALTER TABLE hidden RENAME TO messages")
        #expect(await messages.next() == key.digest)
    }

    @Test func onlyTheOwnerCanReadTheFiles() async throws {
        let store = try store()
        try await store.withLease(on: key("user")) { try await store.write(Array("secret".utf8), under: $0) }
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        #expect(names.contains("sessions.sqlite-wal"))
        for name in names { #expect(try mode("\(folder.path)/\(name)") == 0o600, "\(name)") }
    }

    @Test func recordsPersistAcrossStoreInstances() async throws {
        let key = key("user")
        for number in UInt8(0)..<3 {
            let store = try store()
            #expect(try await store.bytes(for: key) == (number == 0 ? nil : [number - 1]))
            try await store.withLease(on: key) { try await store.write([number], under: $0) }
        }
    }

    @Test func removedRecordsAreErasedFromTheFile() async throws {
        let (key, secret) = (key("user"), "a-refresh-token-of-a-user-who-has-signed-out")
        for _ in 0..<2 {
            let store = try store()
            try await store.withLease(on: key) { try await store.write(Array(secret.utf8), under: $0) }
            _ = try await store.remove([key])
        }
        try SQLiteFiles(folder.file).checkpoint()
        let bytes = try #require(FileManager.default.contents(atPath: folder.file))
        #expect(!String(decoding: bytes, as: UTF8.self).contains(secret))
    }

    // MARK: Untrusted files

    enum Fault: String, CaseIterable, CustomTestStringConvertible {
        case othersCanRead, link, folder, text, otherProgram, newerVersion, logWithoutFile, folderOfOthers

        var testDescription: String { rawValue }

        /// A part of the error message.
        var reason: String {
            switch self {
            case .othersCanRead: "Other users can access"
            case .link, .folder: "not a regular file"
            case .text: "not a database"
            case .otherProgram: "another program"
            case .newerVersion: "Upgrade the program"
            case .logWithoutFile: "does not exist, but"
            case .folderOfOthers: "Other users can write"
            }
        }
    }

    @Test(arguments: Fault.allCases) func rejectsAnUntrustedFileAndLeavesItUnchanged(_ fault: Fault) async throws {
        let file = folder.file
        func make(_ path: String, _ text: String = "", mode: Int = 0o600) {
            _ = FileManager.default.createFile(
                atPath: path,
                contents: Data(text.utf8),
                attributes: [.posixPermissions: mode]
            )
        }
        switch fault {
        case .othersCanRead: make(file, mode: 0o644)
        case .link:
            make("\(folder.path)/other")
            try FileManager.default.createSymbolicLink(atPath: file, withDestinationPath: "\(folder.path)/other")
        case .folder: try FileManager.default.createDirectory(atPath: file, withIntermediateDirectories: false)
        case .text: make(file, String(repeating: "This is my diary. ", count: 100))
        case .otherProgram: try SQLiteFiles.make(file, "CREATE TABLE diary (text TEXT)")
        case .newerVersion: try SQLiteFiles.make(file, "PRAGMA application_id = 1095134323", "PRAGMA user_version = 99")
        case .logWithoutFile: make("\(file)-wal", "left")
        case .folderOfOthers:
            try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder.path)
        }
        let before = FileManager.default.contents(atPath: file)
        let store = try store()
        let error = await #expect(throws: AuthError.self) { try await store.bytes(for: key("user")) }
        #expect(error?.code == (fault == .text ? .storeDamaged : .storageFailed))
        #expect(error?.message.contains(fault.reason) == true, "\(error as Any)")
        #expect(FileManager.default.contents(atPath: file) == before)
    }

    @Test(arguments: [(1 << 16 | 7, true), (2 << 16 | 7, false), (1, true), (-1, false)])
    func usesAnotherSchemaVersionOnlyIfItIsCompatible(_ userVersion: Int, _ isUsable: Bool) async throws {
        let key = key("user")
        let first = try store()
        try await first.withLease(on: key) { try await first.write([1], under: $0) }
        try SQLiteFiles.make(folder.file, "PRAGMA user_version = \(userVersion)")
        if isUsable {
            #expect(try await store().bytes(for: key) == [1])
            // The version in the file remains unchanged.
            #expect(try SQLiteFiles(folder.file).number("PRAGMA user_version") == userVersion)
        } else {
            let error = await #expect(throws: AuthError.self) { try await store().bytes(for: key) }
            #expect(error?.message.contains("Upgrade the program") == true)
        }
    }

    /// A database whose pages were overwritten is renamed together with its other files; a readable database is not.
    @Test func aDamagedDatabaseIsSetAside() async throws {
        let key = key("user")
        let first = try store()
        try await first.withLease(on: key) { try await first.write([1], under: $0) }
        try SQLiteFiles(folder.file).checkpoint()
        let refusal = await #expect(throws: AuthError.self) { try await store().setDamagedDatabaseAside() }
        #expect(refusal?.message.contains("is not damaged") == true)
        #expect(try await store().bytes(for: key) == [1])

        let bytes = try #require(FileManager.default.contents(atPath: folder.file))
        let file = unsafe open(folder.file, O_WRONLY)
        let damage = [UInt8](repeating: 0x5A, count: bytes.count)
        #expect(unsafe write(file, damage, damage.count) == damage.count)
        close(file)
        let damaged = try store()
        let error = await #expect(throws: AuthError.self) { try await damaged.bytes(for: key) }
        #expect(error?.code == .storeDamaged)
        let path = try await damaged.setDamagedDatabaseAside()
        #expect(FileManager.default.contents(atPath: path)?.first == 0x5A)
        #expect(try await store().bytes(for: key) == nil)
    }

    /// The names of both contain the same time.
    @Test func twoDatabasesThatAreSetAsideInTheSameSecondAreBothKept() async throws {
        let mode = [FileAttributeKey.posixPermissions: 0o600]
        var paths: Set<String> = []
        for _ in 0..<2 {
            let damage = Data(repeating: 0x5A, count: 1000)
            try #require(FileManager.default.createFile(atPath: folder.file, contents: damage, attributes: mode))
            paths.insert(try await store().setDamagedDatabaseAside())
        }
        #expect(paths.count == 2)
        for path in paths { #expect(FileManager.default.fileExists(atPath: path)) }
    }

    @Test func aMissingDatabaseIsNotSetAside() async throws {
        let error = await #expect(throws: AuthError.self) { try await store().setDamagedDatabaseAside() }
        #expect(error?.code == .storageFailed)
        #expect(error?.message.contains("is missing: there is nothing to reset") == true, "\(error as Any)")
        #expect(!FileManager.default.fileExists(atPath: folder.file))
    }

    @Test(arguments: ["sessions.sqlite", "", "/", "/tmp/", "/tmp/a\u{0}b"]) func rejectsAnInvalidDatabasePath(
        _ path: String
    ) {
        let error = #expect(throws: AuthError.self) { try SQLiteTokenStore(path: path) }
        #expect(error?.code == .invalidConfiguration)
    }

    @Test func recreatesADatabaseThatWasRemovedWhileInUse() async throws {
        let (store, key) = (try store(), key("user"))
        try await store.withLease(on: key) { try await store.write([1], under: $0) }
        for name in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: folder.file + name) }
        // The store creates a new file, as a process that starts now would.
        #expect(try await store.bytes(for: key) == nil)
        try await store.withLease(on: key) { try await store.write([2], under: $0) }
        #expect(try await self.store().bytes(for: key) == [2])
    }

    /// SQLite would apply the write-ahead log of the old file to the new file.
    @Test func rejectsADatabaseThatWasReplacedUnderItsWriteAheadLog() async throws {
        let (store, key, backup) = (try store(), key("user"), "\(folder.path)/backup.sqlite")
        try await store.withLease(on: key) { try await store.write([1], under: $0) }
        let other = try self.store(path: backup)
        try await other.withLease(on: key) { try await other.write([9], under: $0) }
        try SQLiteFiles(backup).checkpoint()
        #expect(unsafe rename(backup, folder.file) == 0)
        for _ in 0..<2 {
            let error = await #expect(throws: AuthError.self) { try await store.bytes(for: key) }
            #expect(error?.message.contains("was replaced while it was in use") == true, "\(error as Any)")
        }
        for name in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: folder.file + name) }
        #expect(try await store.bytes(for: key) == [9])
    }

    @Test func opensADatabaseInASymbolicallyLinkedDirectory() async throws {
        let link = "\(folder.path)/link"
        try FileManager.default.createDirectory(
            atPath: "\(folder.path)/real/sessions",
            withIntermediateDirectories: true
        )
        for name in ["real", "real/sessions"] {
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: "\(folder.path)/\(name)")
        }
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "\(folder.path)/real")
        let store = try store(path: "\(link)/sessions/a.sqlite")
        #expect(try await store.claim(key("claim"), for: .seconds(60)))
        #expect(FileManager.default.fileExists(atPath: "\(folder.path)/real/sessions/a.sqlite"))
    }

    @Test func oldMessagesAreDeletedEvenIfUnread() async throws {
        let (store, key) = (try store(), key("user"))
        _ = try await store.bytes(for: key)
        let other = try SQLiteFiles(folder.file)
        try other.run("INSERT INTO messages (id, at, text) VALUES (1, 0, x''), (2, 0, x''), (50000, 0, x'')")
        try await store.withLease(on: key) { try await store.write([1], under: $0) }
        _ = try await store.remove([key])
        #expect(try other.number("SELECT count(*) FROM messages") == 2)
    }

    /// The clock was a day ahead at the last use. Otherwise, an idle session would not end until the clock has caught up.
    @Test func aUseAfterTheClockWasSetBackRestartsTheIdleTimeout() async throws {
        let (store, key) = (try store(), key("user"))
        try await store.withLease(on: key) { lease in
            try await store.write([1], RecordAttributes(idleTime: .seconds(3600)), under: lease)
        }
        clock.advance(by: .seconds(-86_400))
        #expect(try await store.touch(key))
        clock.advance(by: .seconds(3599))
        #expect(try await store.bytes(for: key) == [1])
        clock.advance(by: .seconds(1))
        #expect(try await store.bytes(for: key) == nil)
    }

    /// The file may have been damaged, or changed by another program.
    @Test(arguments: [Int64.min, Int64.max])
    func aSessionWhoseLastUseIsAnExtremeNumberCanBeTouched(_ time: Int64) async throws {
        let (store, key) = (try store(), key("user"))
        try await store.withLease(on: key) { lease in
            try await store.write([1], RecordAttributes(idleTime: .seconds(3600)), under: lease)
        }
        try SQLiteFiles(folder.file).run("UPDATE records SET used_at = \(time)")
        #expect(try await store.touch(key))
        #expect(try await store.bytes(for: key) == [1])
    }

    @Test func triggersInTheFileAreNotRun() async throws {
        let (store, key) = (try store(), key("user"))
        _ = try await store.bytes(for: key)
        try SQLiteFiles(folder.file).run(
            "CREATE TRIGGER copy AFTER UPDATE ON records BEGIN INSERT INTO messages (at, text) VALUES (0, new.sealed); END"
        )
        try await store.withLease(on: key) { try await store.write([1], under: $0) }
        #expect(try SQLiteFiles(folder.file).number("SELECT count(*) FROM messages") == 0)
    }

    @Test func aWriterWaitsForAnotherTransactionButAReaderDoesNot() async throws {
        let store = try store()
        try await store.withLease(on: key("user")) { try await store.write([1], under: $0) }
        let other = try SQLiteFiles(folder.file)
        try other.run("BEGIN IMMEDIATE")
        // A reader does not wait for the other connection's transaction.
        #expect(try await store.bytes(for: key("user")) == [1])
        let waiting = Task { try await store.claim(key("claim"), for: .seconds(60)) }
        try other.run("COMMIT")
        #expect(try await waiting.value)
    }

    /// The last connection to close removes the write-ahead log, and locks the file while doing so.
    @Test func aStoreOpensWhileAnotherCloses() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                group.addTask {
                    for turn in 0..<25 { _ = try await store().claim(key("\(number) \(turn)"), for: .seconds(60)) }
                }
            }
            try await group.waitForAll()
        }
        #expect(try SQLiteFiles(folder.file).number("SELECT count(*) FROM records") == 100)
    }

    @Test func concurrentStoresOnANewDatabaseGrantOneClaim() async throws {
        // The claim is the first operation of every store on the new file.
        let claim = key("claim")
        let claims = try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 {
                let store = try store()
                group.addTask { try await store.claim(claim, for: .seconds(60)) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(claims.filter(\.self).count == 1)
    }
}

/// A direct connection to the file, like another program's.
@safe final class SQLiteFiles {
    private var database: OpaquePointer?

    init(_ path: String) throws {
        _ = authflow_sqlite_version()
        if !FileManager.default.fileExists(atPath: path) {
            let mode = [FileAttributeKey.posixPermissions: 0o600]
            try #require(FileManager.default.createFile(atPath: path, contents: nil, attributes: mode))
        }
        let result = unsafe authflow_sqlite_open(path, &database)
        try #require(result == 0)
        // The last connection to close briefly locks the file, on a separate thread.
        if let database = unsafe database { unsafe authflow_sqlite_set_busy_timeout(database, 20_000) }
    }

    deinit { if let database = unsafe database { unsafe authflow_sqlite_close(database) } }

    /// Runs a statement up to its first row.
    /// - Returns: The number in that row, or zero if there is no row.
    @discardableResult func number(_ text: String) throws -> Int64 {
        guard let database = unsafe database else { throw CancellationError() }
        var statement: OpaquePointer?
        let prepared = unsafe authflow_sqlite_prepare(database, text, &statement)
        try #require(prepared == 0)
        guard let made = unsafe statement else { throw CancellationError() }
        defer { unsafe authflow_sqlite_finalize(made) }
        let result = unsafe authflow_sqlite_step(made)
        try #require(result == 100 || result == 101)
        return result == 100 ? unsafe authflow_sqlite_column_integer(made, 0) : 0
    }

    func run(_ text: String) throws { try number(text) }

    /// Checkpoints the write-ahead log into the database file, as SQLite does automatically.
    func checkpoint() throws { try #require(number("PRAGMA wal_checkpoint(TRUNCATE)") == 0, "The file is busy.") }

    static func make(_ path: String, _ statements: String...) throws {
        let other = try SQLiteFiles(path)
        for statement in statements { try other.run(statement) }
    }
}
