#if os(Linux)
import AuthFlow
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
}
#endif
