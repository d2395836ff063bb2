#if os(Linux)
import AuthFlow
import Dispatch
import Foundation
import Glibc
import Testing

/// Programs that are run for their output and exit status.
@Suite(.timeLimit(.minutes(1))) struct ProgramOutputTests {
    @Test func reportsWhyAProgramCannotBeStarted() {
        let error = #expect(throws: AuthError.self) {
            try ChildProcess.spawn(["/nonexistent/program"], environment: [:])
        }
        #expect(error?.code == .userAgentFailed)
        #expect(error?.message == "/nonexistent/program could not be started: No such file or directory")
    }

    /// The same happens when the application ignores SIGCHLD.
    @Test func aProcessThatCannotBeAwaitedCountsAsFailed() {
        #expect(ChildProcess.end(of: getpid()) == 1)
    }

    @Test func aProgramThatClosesItsOutputButDoesNotExitInTimeIsKilled() throws {
        let (status, bytes) = try ProgramOutput.waiting(
            for: ["/bin/sh", "-c", "exec sleep 20 >&-"],
            environment: ["PATH": "/usr/bin:/bin"],
            maximumSize: 100,
            limit: .milliseconds(200)
        )
        #expect(status == 128 + SIGKILL)
        #expect(bytes == nil)
    }

    /// Otherwise, a program that prints a secret would continue to run after Ctrl-C, because it does not share the terminal's process group.
    @Test(arguments: ["", ">&-"]) func cancellationKillsAProgramWhoseCallerIsBlocked(_ output: String) async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        try #require(unsafe mkfifo(path, 0o600) == 0)
        defer { unsafe unlink(path) }
        // On a separate thread, because the caller blocks: the shared pool has one thread for each processor.
        let caller = Task(executorPreference: SeparateThread()) {
            try ProgramOutput.waiting(
                for: ["/bin/sh", "-c", "echo $$ > '\(path)'; exec sleep 20 \(output)"],
                environment: ["PATH": "/usr/bin:/bin"],
                maximumSize: 100,
                limit: .seconds(20)
            )
        }
        // Reading the FIFO waits until the program has started.
        let written = try await BlockingCall.run { BoundedFile.contents(atPath: path, maximumSize: 100) }
        let identifier = try #require(written.flatMap { Int32(String(decoding: $0.dropLast(), as: UTF8.self)) })
        caller.cancel()
        await #expect(throws: CancellationError.self) { try await caller.value }
        #expect(kill(identifier, 0) == -1)
    }

    @Test func aCancelledTaskStartsNoProgram() async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        let caller = Task {
            unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
            return try ProgramOutput.waiting(
                for: ["/bin/sh", "-c", "> '\(path)'"],
                environment: ["PATH": "/usr/bin:/bin"],
                maximumSize: 100,
                limit: .seconds(20)
            )
        }
        await #expect(throws: CancellationError.self) { try await caller.value }
        #expect(!FileManager.default.fileExists(atPath: path))
    }
}

/// Runs a task that blocks its thread.
private final class SeparateThread: TaskExecutor {
    private let queue = DispatchQueue(label: "SeparateThread")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
#endif
