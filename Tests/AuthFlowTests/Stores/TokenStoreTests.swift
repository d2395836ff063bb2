import AuthFlow
import AuthFlowTesting
import Expectations
import Foundation
import Synchronization
import Testing

@testable import AuthFlowStores

@Suite struct TokenStoreTests {
    private let key = RecordKey(name: "work", issuer: "https://id.example.com", clientID: "client")

    private func withDirectory<Return>(_ body: (String) async throws -> Return) async throws -> Return {
        let directory = NSTemporaryDirectory() + "authflow-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        return try await body(directory)
    }

    private func files(_ directory: String, _ suffix: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: directory).filter { $0.hasSuffix(suffix) }
    }

    private func mode(_ path: String) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? NSNumber).intValue
    }

    @Test func memoryStoreConforms() async throws {
        try await TokenStoreConformance(store: MemoryTokenStore()).run()
    }

    @Test func fileStoreConforms() async throws {
        try await withDirectory { try await TokenStoreConformance(store: FileTokenStore(directory: $0)).run() }
    }

    @Test func fileStoreIsReadableOnlyByItsOwner() async throws {
        try await withDirectory { directory in
            let store = FileTokenStore(directory: directory)
            try await store.set([1], for: key)
            let file = try #require(try files(directory, ".json").first)
            #expect(try mode("\(directory)/\(file)") == 0o600)
            #expect(try mode(directory) == 0o700)
            #expect(try files(directory, ".tmp").isEmpty)
        }
    }

    @Test func fileStoreRejectsLoosePermissionsAndSuggestsChmod() async throws {
        try await withDirectory { directory in
            let store = FileTokenStore(directory: directory)
            try await store.set([1], for: key)
            let file = try #require(try files(directory, ".json").first)
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: "\(directory)/\(file)")
            let error = await #expect(throws: AuthError.self) { try await store.bytes(for: key) }
            #expect(error?.code == .storageFailed)
            #expect(error?.description.contains("chmod 600") == true)
            try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: directory)
            let other = await #expect(throws: AuthError.self) { try await store.set([2], for: key) }
            #expect(other?.description.contains("chmod 700") == true)
        }
    }

    /// A process that was killed while it replaced the file leaves the tokens in a temporary file. In a container, its PID is soon reused.
    @Test(arguments: [1, ProcessInfo.processInfo.processIdentifier], [true, false])
    func fileStoreRemovesTheTemporaryFilesOfAKilledProcess(_ process: Int32, _ hasRecord: Bool) async throws {
        try await withDirectory { directory in
            let store = FileTokenStore(directory: directory)
            try await store.set([1], for: key)
            let file = try #require(try files(directory, ".json").first)
            let left = "\(directory)/\(file).\(process).abc.tmp"
            // Temporary files of other records, one of which has a name of the same length, and another kind of file.
            let others = [
                "\(directory)/other-\(file).\(process).abc.tmp",
                "\(directory)/home-\(file.dropFirst(5)).\(process).abc.tmp",
                "\(directory)/\(file).\(process).abc.bak",
            ]
            for path in [left] + others { _ = FileManager.default.createFile(atPath: path, contents: Data([1])) }
            if !hasRecord { try FileManager.default.removeItem(atPath: "\(directory)/\(file)") }
            // Any lease on the record is sufficient.
            try await store.withLease(on: key) { _ in }
            #expect(!FileManager.default.fileExists(atPath: left))
            for other in others { #expect(FileManager.default.fileExists(atPath: other), "\(other)") }
            #expect(try files(directory, ".json").count == (hasRecord ? 1 : 0))
        }
    }

    @Test(arguments: [0, 5, 300]) func fileStoreWritesAnySizeIntoReservedSpace(_ size: Int) async throws {
        try await withDirectory { directory in
            let store = FileTokenStore(directory: directory)
            try await store.set([1], for: key)
            let written = [UInt8](repeating: 2, count: size)
            try await store.withLease(on: key) { lease in
                try await store.reserve(100, under: lease)
                #expect(try files(directory, ".tmp").count == 1)
                #expect(try await store.bytes(for: key) == [1])
                try await store.write(written, under: lease)
                #expect(try await store.bytes(for: key) == written)
                // The reserved space has been used, so this write requires additional space.
                try await store.write([3], under: lease)
                try await store.reserve(100, under: lease)
                // A removal also releases the space.
                try await store.write(nil, under: lease)
                #expect(try files(directory, ".tmp").isEmpty)
                try await store.write([3], under: lease)
                try await store.reserve(100, under: lease)
            }
            #expect(try await store.bytes(for: key) == [3])
            #expect(try files(directory, ".tmp").isEmpty)
            #expect(try mode("\(directory)/\(try #require(try files(directory, ".json").first))") == 0o600)
        }
    }

    @Test func fileStoreReservesNoSpaceUnderALeaseThatHasEnded() async throws {
        try await withDirectory { directory in
            let store = FileTokenStore(directory: directory)
            let ended = try await store.withLease(on: key) { $0 }
            await expectError(.leaseLost) { try await store.reserve(100, under: ended) }
        }
    }

    @Test func fileStoreDoesNotWriteACredentialThatWouldBeTooLargeToRead() async throws {
        try await withDirectory { directory in
            let store = FileTokenStore(directory: directory)
            try await store.set([1], for: key)
            let large = [UInt8](repeating: 2, count: 2 * RecordKey.maximumRecordSize + 1)
            let error = await #expect(throws: AuthError.self) { try await store.set(large, for: key) }
            #expect(error?.code == .storageFailed && error?.message.contains("exceeds the maximum size") == true)
            #expect(try await store.bytes(for: key) == [1])
        }
    }

    @Test func fileStoreFollowsNoSymbolicLinks() async throws {
        try await withDirectory { directory in
            let store = FileTokenStore(directory: directory)
            try await store.set([1], for: key)
            let file = "\(directory)/\(try #require(try files(directory, ".json").first))"
            try FileManager.default.moveItem(atPath: file, toPath: "\(directory)/elsewhere")
            try FileManager.default.createSymbolicLink(atPath: file, withDestinationPath: "\(directory)/elsewhere")
            await expectError(.storageFailed) { try await store.bytes(for: key) }
            // Writing replaces the symbolic link and does not change its target.
            try await store.set([2], for: key)
            #expect(try await store.bytes(for: key) == [2])
            #expect(FileManager.default.contents(atPath: "\(directory)/elsewhere") == Data([1]))
        }
    }

    @Test func fileStoreCleansUpWhenItsFileCannotBeReplaced() async throws {
        try await withDirectory { directory in
            let store = FileTokenStore(directory: directory)
            try await store.set([1], for: key)
            let file = "\(directory)/\(try #require(try files(directory, ".json").first))"
            // A directory in place of the file makes the rename fail after all data has been written, even for root.
            try FileManager.default.removeItem(atPath: file)
            try FileManager.default.createDirectory(atPath: "\(file)/full", withIntermediateDirectories: true)
            let error = await #expect(throws: AuthError.self) { try await store.set([2], for: key) }
            #expect(error?.code == .storageFailed)
            #expect(try files(directory, ".tmp").isEmpty)
        }
    }

    @Test func fileStoreIgnoresThePartialFileOfACrashedProcess() async throws {
        try await withDirectory { directory in
            let store = FileTokenStore(directory: directory)
            try await store.set([1], for: key)
            // A process that was killed between writing and renaming leaves a partial file next to the complete one.
            let file = try #require(try files(directory, ".json").first)
            try Data([9]).write(to: URL(fileURLWithPath: "\(directory)/\(file).1.AAAA.tmp"))
            #expect(try await store.bytes(for: key) == [1])
            try await store.set([2], for: key)
            #expect(try await store.bytes(for: key) == [2])
        }
    }

    /// The file may contain the tokens of a process that was killed, so the removal must not be reported as complete.
    @Test func aRemovalFailsIfATemporaryFileCannotBeRemoved() async throws {
        try await withDirectory { directory in
            let store = FileTokenStore(directory: directory)
            try await store.set([1], for: key)
            let file = try #require(try files(directory, ".json").first)
            // A directory cannot be removed like a file.
            let left = "\(directory)/\(file).1.AAAA.tmp"
            try FileManager.default.createDirectory(atPath: left, withIntermediateDirectories: false)
            let error = await #expect(throws: AuthError.self) {
                try await store.withLease(on: key) { try await store.write(nil, under: $0) }
            }
            #expect(error?.code == .storageFailed && error?.message.contains(".1.AAAA.tmp") == true)
            #expect(try await store.bytes(for: key) == nil)
        }
    }

    @Test func aRemovalFailsIfTheCredentialCannotBeRemoved() async throws {
        try await withDirectory { directory in
            let store = FileTokenStore(directory: directory)
            try await store.set([1], for: key)
            let file = "\(directory)/\(try #require(try files(directory, ".json").first))"
            // A directory cannot be removed like a file.
            try FileManager.default.removeItem(atPath: file)
            try FileManager.default.createDirectory(atPath: file, withIntermediateDirectories: false)
            let error = await #expect(throws: AuthError.self) { try await store.set(nil, for: key) }
            #expect(error?.code == .storageFailed && error?.message.contains("cannot be removed") == true)
        }
    }

    /// A process whose clock was wrong left the file behind.
    @Test func aLockFileFromADistantYearIsReused() async throws {
        try await withDirectory { directory in
            let store = FileTokenStore(directory: directory)
            var lockFile = ""
            try await store.withLease(on: key) { _ in lockFile = try #require(try files(directory, ".lock").first) }
            let path = "\(directory)/\(lockFile)"
            let date = Date(timeIntervalSince1970: 10_000_000_000)
            let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o600, .modificationDate: date]
            #expect(FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600]))
            try FileManager.default.setAttributes(attributes, ofItemAtPath: path)
            try await store.set([1], for: key)
            #expect(try await store.bytes(for: key) == [1])
        }
    }

    @Test func aWriteUnderAnExpiredFileLeaseFails() async throws {
        try await withDirectory { directory in
            let paused = FileTokenStore(
                directory: directory,
                clock: ImmediateClock(),
                waitTimeout: .seconds(90),
                renewal: StoppedClock()
            )
            let other = FileTokenStore(directory: directory, clock: ImmediateClock())
            let error = try await paused.withLease(on: key) { lease in
                try await paused.write([1], under: lease)
                try await other.set([2], for: key)
                // The former holder must not use the tokens of the next holder.
                await expectError(.leaseLost) { try await paused.bytes(under: lease) }
                return await #expect(throws: AuthError.self) { try await paused.write([3], under: lease) }
            }
            #expect(error?.code == .leaseLost)
            #expect(try await other.bytes(for: key) == [2])
            // Only the credential remains.
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory).count == 1)
            try await paused.set([4], for: key)
            #expect(try await other.bytes(for: key) == [4])
        }
    }

    /// A process that was paused must not send a refresh token that another process has used in the meantime.
    @Test func aFileLeaseTakenOverByAnotherProcessPermitsNoRequest() async throws {
        try await withDirectory { directory in
            let paused = FileTokenStore(
                directory: directory,
                clock: ImmediateClock(),
                waitTimeout: .seconds(90),
                renewal: StoppedClock()
            )
            let other = FileTokenStore(directory: directory, clock: ImmediateClock())
            try await paused.withLease(on: key) { lease in
                try lease.requireRemainingTime()
                try await other.withLease(on: key) { _ in
                    let error = #expect(throws: AuthError.self) { try lease.requireRemainingTime() }
                    #expect(error?.code == .leaseLost)
                }
                expectError(.leaseLost) { try lease.requireRemainingTime() }
            }
        }
    }

    @Test func aLeaseInTheLastThirdOfItsDurationPermitsNoRequest() throws {
        let time = VirtualTime()
        let expiry = Lease.Expiry(lasting: .seconds(15), clock: time.host.clock)
        let lease = Lease(key: key, fence: 1, expiry: expiry)
        time.advance(by: .seconds(9))
        try lease.requireRemainingTime()
        time.advance(by: .seconds(1))
        expectError(.leaseLost) { try lease.requireRemainingTime() }
        expiry.extend(until: .seconds(25))
        try lease.requireRemainingTime()
    }

    /// A renewal whose response arrives after the lease has expired must not permit requests after that expiry.
    @Test func aLateLeaseRenewalDoesNotShortenTheSafetyMargin() throws {
        let time = VirtualTime()
        let expiry = Lease.Expiry(lasting: .seconds(15), clock: time.host.clock)
        let lease = Lease(key: key, fence: 1, expiry: expiry)
        let asked = expiry.now
        time.advance(by: .seconds(18))
        expiry.extend(until: asked + .seconds(15))
        expectError(.leaseLost) { try lease.requireRemainingTime() }
        expiry.extend(until: expiry.now + .seconds(15))
        time.advance(by: .seconds(11))
        expectError(.leaseLost) { try lease.requireRemainingTime() }
    }

    /// The response to a lease request may take a long time, even if the lease is short.
    @Test func aLeaseGrantedAfterALongWaitPermitsRequests() throws {
        let time = VirtualTime()
        let expiry = Lease.Expiry(lasting: .seconds(15), clock: time.host.clock)
        time.advance(by: .seconds(90))
        expiry.extend(until: .seconds(105))
        let lease = Lease(key: key, fence: 1, expiry: expiry)
        try lease.requireRemainingTime()
        time.advance(by: .seconds(10))
        expectError(.leaseLost) { try lease.requireRemainingTime() }
    }

    @Test func encryptedStoreCannotWriteUnderALostLease() async throws {
        try await withDirectory { directory in
            let files = FileTokenStore(
                directory: directory,
                clock: ImmediateClock(),
                waitTimeout: .seconds(90),
                renewal: StoppedClock()
            )
            let paused = EncryptedTokenStore(files, key: .passphrase(Secret("p")))
            let other = EncryptedTokenStore(
                FileTokenStore(directory: directory, clock: ImmediateClock()),
                key: .passphrase(Secret("p"))
            )
            let error = try await paused.withLease(on: key) { lease in
                try await other.set([2], for: key)
                // The former holder must not use the tokens of the next holder.
                await expectError(.leaseLost) { try await paused.bytes(under: lease) }
                return await #expect(throws: AuthError.self) { try await paused.write([3], under: lease) }
            }
            #expect(error?.code == .leaseLost)
            #expect(try await other.bytes(for: key) == [2])
        }
    }

    @Test func theFileStoreLockTimeoutErrorNamesTheHoldingProcess() async throws {
        try await withDirectory { directory in
            let store = FileTokenStore(directory: directory, clock: ImmediateClock(), waitTimeout: .milliseconds(500))
            let time = VirtualTime()
            let start = time.now
            let error = try await store.withLease(on: key) { _ in
                await #expect(throws: AuthError.self) {
                    try await FileTokenStore(
                        directory: directory,
                        clock: time.host.clock,
                        waitTimeout: .milliseconds(500)
                    )
                    .withLease(on: key) { _ in }
                }
            }
            #expect(error?.description.contains("Process \(getpid())") == true)
            #expect(time.now.timeIntervalSince(start) < 1)
            try await store.withLease(on: key) { _ in }
        }
    }

    /// A clock that lets other processes act during each sleep.
    private struct ActingClock: Clock {
        let act: @Sendable () throws -> Void
        var now: ImmediateClock.Instant { ImmediateClock.Instant() }
        var minimumResolution: Duration { .zero }

        func sleep(until deadline: ImmediateClock.Instant, tolerance: Duration?) async throws {
            try Task.checkCancellation()
            try act()
        }
    }

    /// Each new holder restarts the timeout, so the total wait has a limit of its own.
    @Test(.timeLimit(.minutes(1))) func aLockHeldByManyProcessesInTurnIsReported() async throws {
        try await withDirectory { directory in
            let error = try await FileTokenStore(directory: directory).withLease(on: key) { _ in
                let path = "\(directory)/\(try #require(try files(directory, ".lock").first))"
                let holder = Atomic(1)
                let clock = ActingClock {
                    let text = "\(holder.add(1, ordering: .relaxed).newValue)\n"
                    try FileHandle(forWritingAtPath: path)?.write(contentsOf: Data(text.utf8))
                }
                let waiting = FileTokenStore(directory: directory, clock: clock, waitTimeout: .milliseconds(500))
                return await #expect(throws: AuthError.self) { try await waiting.withLease(on: key) { _ in } }
            }
            #expect(error?.code == .leaseBusy && error?.message.contains("in turn for 5 seconds") == true)
        }
    }

    @Test(.timeLimit(.minutes(1))) func aLockFileThatIsReplacedBeforeEachAttemptIsReported() async throws {
        try await withDirectory { directory in
            try PrivateFile.createDirectory(directory)
            // Another process holds the directory until the store has opened the lock file, and removes that file.
            let other = Mutex(try PrivateFile.lockDirectory(directory))
            let clock = ActingClock {
                try other.withLock { lock in
                    guard let held = lock else {
                        lock = try PrivateFile.lockDirectory(directory)
                        return
                    }
                    for file in try FileManager.default.contentsOfDirectory(atPath: directory) {
                        try FileManager.default.removeItem(atPath: "\(directory)/\(file)")
                    }
                    held.release()
                    lock = nil
                }
            }
            let store = FileTokenStore(directory: directory, clock: clock, waitTimeout: .milliseconds(500))
            let error = await #expect(throws: AuthError.self) { try await store.withLease(on: key) { _ in } }
            #expect(error?.code == .storageFailed && error?.message.contains("it is replaced each time") == true)
        }
    }

    /// A process that was suspended during a write keeps the directory locked.
    @Test(.timeLimit(.minutes(10))) func aDirectoryThatRemainsLockedIsReported() async throws {
        try await withDirectory { directory in
            try PrivateFile.createDirectory(directory)
            let lock = try #require(try PrivateFile.lockDirectory(directory))
            let time = VirtualTime()
            let start = time.now
            let store = FileTokenStore(directory: directory, clock: time.host.clock, waitTimeout: .seconds(5))
            let error = await #expect(throws: AuthError.self) { try await store.set([1], for: key) }
            #expect(error?.code == .storageFailed)
            #expect(error?.message.contains("has locked \(directory) for 5 seconds") == true)
            #expect(time.now.timeIntervalSince(start) < 6)
            lock.release()
            try await store.set([2], for: key)
        }
    }
}
