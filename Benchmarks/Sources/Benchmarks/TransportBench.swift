#if os(Linux)
import AuthFlow
import Foundation
import FoundationNetworking
import HTTPTypes
import Synchronization

/// Measures the transport alone: sequential requests, 1,000 concurrent requests, and 10,000 cancelled requests.
enum TransportBench {
    static func run(_ isWithinBounds: inout Bool) async throws {
        let server = try PlainServer(delay: 0)
        defer { server.stop() }
        let call = try TransportRequest(.get, Endpoint("http://127.0.0.1:\(server.port)/"))
        let transport = CurlTransport()
        print("\nTransport: one request on a warm connection over loopback, compared with URLSession in the same run\n")
        print("| transport | time | bound |\n|---|---|---|")
        let session = URLSession(configuration: .ephemeral)
        guard let url = URL(string: call.url) else { return }
        var own: [Double] = []
        var others: [Double] = []
        let clock = ContinuousClock()
        for _ in 0..<40 {
            for (isOwn, count) in [(true, 50), (false, 50)] {
                let start = clock.now
                for _ in 0..<count {
                    if isOwn { _ = try await transport.send(call) } else { _ = try await session.data(from: url) }
                }
                let each = (clock.now - start) / .milliseconds(count)
                if isOwn { own.append(each) } else { others.append(each) }
            }
        }
        let (mine, theirs) = (own.sorted()[20], others.sorted()[20])
        print("| CurlTransport | \(three(mine)) ms | faster than URLSession (goal 0.2 ms) |")
        print("| URLSession | \(three(theirs)) ms | |")
        if mine > theirs { isWithinBounds = false }
        try await waiting(&isWithinBounds)
        try await manyAtOnce(&isWithinBounds)
        try await cancelled(&isWithinBounds)
        try await growth(transport, call, &isWithinBounds)
    }

    private static func waiting(_ isWithinBounds: inout Bool) async throws {
        let server = try PlainServer(delay: 1_000_000)
        defer { server.stop() }
        let call = try TransportRequest(.get, Endpoint("http://127.0.0.1:\(server.port)/"))
        let start = clock()
        _ = try await CurlTransport().send(call)
        let busy = Double(clock() - start) / Double(CLOCKS_PER_SEC) * 1000
        print("\nWaiting one second for a response uses \(three(busy)) ms of CPU time (bound 50)")
        if busy > 50 { isWithinBounds = false }
    }

    private static func manyAtOnce(_ isWithinBounds: inout Bool) async throws {
        let server = try PlainServer(delay: 50_000)
        defer { server.stop() }
        let call = try TransportRequest(.get, Endpoint("http://127.0.0.1:\(server.port)/"))
        let before = Process.threads - server.connections
        let most = Peak()
        let received = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<1000 {
                group.addTask {
                    let status = try await CurlTransport().send(call).status
                    most.note(Process.threads - server.open)
                    return status
                }
            }
            return try await group.reduce(0) { $0 + ($1 == 200 ? 1 : 0) }
        }
        let threads = most.value - before
        print(
            "\n1,000 concurrent requests to a server with a delay of 50 ms: \(received) responses, \(server.connections) connections (bound 64), \(threads) additional threads (bound 8)"
        )
        if received != 1000 || server.connections > 64 || threads > 8 { isWithinBounds = false }
    }

    private static func cancelled(_ isWithinBounds: inout Bool) async throws {
        let server = try PlainServer(delay: 1_000_000)
        let call = try TransportRequest(.get, Endpoint("http://127.0.0.1:\(server.port)/"))
        let settle = { () async throws -> (descriptors: Int, threads: Int) in
            server.stop()
            try await Task.sleep(for: .milliseconds(1500))
            return (Process.descriptors, Process.threads)
        }
        let before = (descriptors: Process.descriptors, threads: Process.threads)
        let memory = Process.memory
        for _ in 0..<100 {
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<100 { group.addTask { _ = try? await CurlTransport().send(call) } }
                try? await Task.sleep(for: .milliseconds(1))
                group.cancelAll()
            }
        }
        let after = try await settle()
        let growth = Process.memory - memory
        print(
            "10,000 cancelled requests leave \(after.descriptors - before.descriptors) descriptors (bound 2), \(after.threads - before.threads) threads (bound 2), \(growth / 1024) MiB (bound 16)"
        )
        if after.descriptors - before.descriptors > 2 || after.threads - before.threads > 2 || growth > 16 * 1024 {
            isWithinBounds = false
        }
    }

    private static func growth(_ transport: CurlTransport, _ call: TransportRequest, _ isWithinBounds: inout Bool)
        async throws
    {
        let count = 100_000
        for _ in 0..<count / 10 { _ = try await transport.send(call) }
        let (memory, descriptors, threads) = (Process.memory, Process.descriptors, Process.threads)
        for _ in 0..<count { _ = try await transport.send(call) }
        let growth = Process.memory - memory
        print(
            "100,000 requests add \(growth) KiB (bound 2048), \(Process.descriptors - descriptors) descriptors, \(Process.threads - threads) threads"
        )
        if growth > 2048 || Process.descriptors > descriptors || Process.threads > threads + 1 {
            isWithinBounds = false
        }
    }

    private static func three(_ value: Double) -> String { String(format: "%.3f", value) }
}

/// The highest number recorded so far.
private final class Peak: Sendable {
    private let number = Mutex(0)
    var value: Int { number.withLock(\.self) }
    func note(_ other: Int) { number.withLock { $0 = max($0, other) } }
}

/// Reads the system's resource statistics for this process.
private enum Process {
    static var descriptors: Int { (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0 }
    static var threads: Int { (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").count) ?? 0 }
    /// The resident set size (`VmRSS`), in KiB.
    static var memory: Int {
        let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        return line.flatMap { Int($0.filter(\.isNumber)) } ?? 0
    }
}

/// A server that returns the same response to every request after a delay, with a thread for each connection.
private final class PlainServer: Sendable {
    let port: Int
    private let listener: Int32
    private let counts = Mutex((all: 0, open: 0))

    /// The number of connections accepted so far.
    var connections: Int { counts.withLock(\.all) }
    /// The number of open connections.
    var open: Int { counts.withLock(\.open) }

    /// - Parameter delay: The delay of each response, in microseconds.
    init(delay: UInt32) throws {
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = listener
        let isOpen = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, size) == 0 && listen(listener, 1024) == 0 && getsockname(listener, $0, &size) == 0
            }
        }
        guard isOpen else { throw POSIXError(.EIO) }
        port = Int(UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { [self] in
            while true {
                let connection = accept(listener, nil, nil)
                guard connection >= 0 else { return }
                var on: Int32 = 1
                setsockopt(connection, Int32(IPPROTO_TCP), TCP_NODELAY, &on, 4)
                counts.withLock { $0 = ($0.all + 1, $0.open + 1) }
                Thread.detachNewThread { [self] in
                    serve(connection, delay)
                    counts.withLock { $0.open -= 1 }
                }
            }
        }
    }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    private func serve(_ connection: Int32, _ delay: UInt32) {
        defer { close(connection) }
        let response = Array("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}".utf8)
        var buffer = [UInt8](repeating: 0, count: 16_384)
        while recv(connection, &buffer, buffer.count, 0) > 0 {
            if delay > 0 { usleep(delay) }
            guard send(connection, response, response.count, Int32(MSG_NOSIGNAL)) == response.count else { return }
        }
    }
}
#endif
