import AuthFlow
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite(.timeLimit(.minutes(1))) struct BoundedFileTests {
    /// A directory can be opened but not read, and `/dev/zero` returns unlimited data.
    @Test(arguments: ["/", "/dev/zero", "/dev/null/file"])
    func aPathThatCannotBeReadUpToItsEndHasNoContents(_ path: String) {
        #expect(BoundedFile.contents(atPath: path, maximumSize: 100) == nil)
        #expect(BoundedFile.contents(ofPlainFile: path, maximumSize: 100) == nil)
    }

    /// `/dev/null` reads like an empty file, as does a FIFO without a writer.
    @Test func aDeviceIsNotAPlainFile() {
        #expect(BoundedFile.contents(atPath: "/dev/null", maximumSize: 100) == [])
        #expect(BoundedFile.contents(ofPlainFile: "/dev/null", maximumSize: 100) == nil)
    }

    /// Standard input may be a terminal or a pipe that another program has made non-blocking.
    @Test func aNonBlockingPipeIsReadUpToItsEnd() throws {
        var ends: [Int32] = [-1, -1]
        try #require(unsafe pipe(&ends) == 0)
        let (input, output) = (ends[0], ends[1])
        defer { close(input) }
        try #require(fcntl(input, F_SETFL, O_NONBLOCK) == 0)
        DetachedThread.run {
            for byte in UInt8(0)..<200 {
                _ = SystemCall.write([byte], to: output)
                // Each byte is written once the reader has read the previous byte, and therefore usually finds an empty pipe.
                var entry = pollfd(fd: input, events: Int16(POLLIN), revents: 0)
                while unsafe poll(&entry, 1, 0) > 0 { sched_yield() }
            }
            close(output)
        }
        #expect(BoundedFile.contents(of: input, maximumSize: 1000) == Array(0..<200))
    }
}
