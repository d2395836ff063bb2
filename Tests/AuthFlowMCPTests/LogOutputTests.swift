import Synchronization
import Testing

@testable import AuthFlowMCP

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite(.timeLimit(.minutes(1))) struct LogOutputTests {
    private func withPipe(_ body: (_ reading: Int32, _ writing: Int32) async throws -> Void) async throws {
        var ends: [Int32] = [0, 0]
        try #require(unsafe pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        try await body(ends[0], ends[1])
    }

    /// Reads until a given text has arrived.
    private func text(_ descriptor: Int32, endingWith end: String) -> String {
        var text: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 64 * 1024)
        while !String(decoding: text, as: UTF8.self).hasSuffix(end) {
            let count = unsafe read(descriptor, &part, part.count)
            guard count > 0 else { break }
            text += part.prefix(count)
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// A server can cause any number of log messages.
    @Test func limitsLogMessagesPerMinuteAndCountsTheOmittedMessages() async throws {
        try await withPipe { reading, writing in
            let now = Mutex(ContinuousClock.now)
            let log = LogOutput(descriptor: writing) { now.withLock { $0 } }
            for number in 0..<1000 { log.write("message \(number)") }
            let last = LogOutput.linesPerMinute - 1
            let lines = text(reading, endingWith: "message \(last)\n").split(separator: "\n")
            #expect(lines.count == LogOutput.linesPerMinute)
            now.withLock { $0 += .seconds(61) }
            log.write("later")
            let left = 1000 - LogOutput.linesPerMinute
            #expect(text(reading, endingWith: "later\n") == "authflow: \(left) more messages were omitted.\nlater\n")
        }
    }

    @Test func loggingDoesNotBlockWhenTheHostStopsReading() async throws {
        try await withPipe { reading, writing in
            let log = LogOutput(descriptor: writing)
            let long = String(repeating: "x", count: 60_000)
            // This is more than the pipe and the buffer can hold, but each of these calls returns immediately.
            for _ in 0..<20 { log.write(long) }
            log.write("last")
            let written = text(reading, endingWith: "last\n")
            #expect(written.hasPrefix("xxx"))
            #expect(written.contains(" more messages were omitted.\n"))
            // The writing thread must have ended before another test reuses the descriptor.
            for _ in 0..<100 { await log.finish() }
        }
    }
}
