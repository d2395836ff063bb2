import AuthFlow
import AuthFlowEssentials
import Synchronization
import Testing

@testable import AuthFlowCommand

@Suite struct TokenFileTests {
    /// A clock whose sleeps return immediately.
    private struct ImmediateClock: Clock {
        var now: ContinuousClock.Instant { .now }
        var minimumResolution: Duration { .zero }
        func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    /// A clock that records the durations of its sleeps, which return immediately.
    private final class RecordingClock: Clock {
        typealias Instant = ContinuousClock.Instant
        let start = ContinuousClock.Instant.now
        let pauses = Mutex<[Duration]>([])
        var now: Instant { start }
        var minimumResolution: Duration { .zero }
        func sleep(until deadline: Instant, tolerance: Duration?) async throws {
            try Task.checkCancellation()
            pauses.withLock { $0.append(start.duration(to: deadline)) }
            await Task.yield()
        }
    }

    @Test(.timeLimit(.minutes(1)), arguments: [(5, 5), (0, 1), (600, 30), (nil, 30)] as [(Int?, Int)])
    func theRetryDelayFollowsRetryAfterBetween1And30Seconds(_ asked: Int?, _ expected: Int) async throws {
        let file = PrivateFile("\(FileManager.default.temporaryDirectory.path)/token-file-\(UUID().uuidString)")
        let clock = RecordingClock()
        let (attempts, hasTried) = AsyncStream.makeStream(of: Void.self)
        let tokenFile = TokenFile(file: file, clock: clock) {
            hasTried.yield()
            throw AuthError(.temporarilyUnavailable, "No token.", retryAfter: asked.map { .seconds($0) })
        } report: { _ in
        }
        let task = Task { await tokenFile.keepUpToDate(TokenSet(accessToken: Secret("old"))) }
        var count = 0
        for await _ in attempts {
            count += 1
            if count == 3 { break }
        }
        task.cancel()
        await task.value
        #expect(clock.pauses.withLock { $0[1] } == .seconds(expected))
    }

    /// A run removes the directories of killed runs, which are not locked.
    @Test func concurrentRunsDoNotRemoveOneAnothersNewDirectories() async throws {
        let parent = "\(FileManager.default.temporaryDirectory.path)/token-directories-\(UUID().uuidString)"
        try PrivateFile.createDirectory(parent)
        defer { try? FileManager.default.removeItem(atPath: parent) }
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<2000 {
                group.addTask {
                    let directory = try TokenDirectory.create(in: parent)
                    defer { directory.remove() }
                    return FileManager.default.fileExists(atPath: directory.path)
                }
            }
            for try await isPresent in group { #expect(isPresent) }
        }
        let left = try FileManager.default.contentsOfDirectory(atPath: parent)
        #expect(left.isEmpty)
    }

    /// A run that was killed before it had locked its directory leaves it with a hidden name, which a new directory also has for a moment.
    @Test func onlyAnOldDirectoryWithAHiddenNameIsRemoved() throws {
        let parent = "\(FileManager.default.temporaryDirectory.path)/token-directories-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: parent) }
        let (old, new) = ("\(parent)/.authflow-exec-old", "\(parent)/.authflow-exec-new")
        for path in [old, new] { try PrivateFile.createDirectory(path) }
        let hoursAgo = Date(timeIntervalSinceNow: -7200)
        try FileManager.default.setAttributes([.modificationDate: hoursAgo], ofItemAtPath: old)
        try TokenDirectory.create(in: parent).remove()
        #expect(try FileManager.default.contentsOfDirectory(atPath: parent) == [".authflow-exec-new"])
    }

    @Test(.timeLimit(.minutes(1))) func aRefreshThatIsCancelledIsNotReported() async {
        let file = PrivateFile("\(FileManager.default.temporaryDirectory.path)/token-file-\(UUID().uuidString)")
        let reports = Mutex(0)
        let (attempts, hasTried) = AsyncStream.makeStream(of: Void.self)
        let (endless, end) = AsyncStream.makeStream(of: Void.self)
        defer { end.finish() }
        let tokenFile = TokenFile(file: file, clock: ImmediateClock()) {
            hasTried.yield()
            // Ends when the task is cancelled.
            for await _ in endless {}
            throw CancellationError()
        } report: { _ in
            reports.withLock { $0 += 1 }
        }
        let task = Task { await tokenFile.keepUpToDate(TokenSet(accessToken: Secret("old"))) }
        for await _ in attempts { break }
        task.cancel()
        await task.value
        #expect(reports.withLock { $0 } == 0)
    }

    @Test(.timeLimit(.minutes(1)), arguments: [AuthError.Code.loginRequired, .networkFailed])
    func repeatedFailuresAreReportedOnceAndTheFileIsUpdatedAfterwards(_ code: AuthError.Code) async throws {
        let file = PrivateFile("\(FileManager.default.temporaryDirectory.path)/token-file-\(UUID().uuidString)")
        defer { try? file.remove() }
        let old = TokenSet(accessToken: Secret("old"))
        _ = try file.create(with: Array("old".utf8))
        let attempts = Mutex(0)
        let reports = Mutex<[AuthError.Code?]>([])
        let (written, hasWritten) = AsyncStream.makeStream(of: Void.self)
        let tokenFile = TokenFile(file: file, clock: ImmediateClock()) {
            let attempt = attempts.withLock { count in
                count += 1
                return count
            }
            if attempt <= 5 { throw AuthError(code, "No token.") }
            // The previous attempt has written its token.
            if attempt == 7 { hasWritten.yield() }
            return TokenSet(accessToken: Secret("new"))
        } report: { error in
            reports.withLock { $0.append((error as? AuthError)?.code) }
        }
        let task = Task { await tokenFile.keepUpToDate(old) }
        for await _ in written { break }
        task.cancel()
        await task.value
        #expect(try file.contents(maximumSize: 100) == Array("new".utf8))
        #expect(reports.withLock { $0 } == [code])
    }
}
