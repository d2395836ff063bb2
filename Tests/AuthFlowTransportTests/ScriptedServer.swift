import Foundation
import Synchronization

/// A server that follows a test's script on each connection, byte for byte, whether or not the result is valid HTTP.
final class ScriptedServer: Sendable {
    /// An action that the server performs on a connection.
    enum Step: Sendable {
        /// Waits for a complete request.
        case receive
        /// Waits for the header fields of a request.
        case receiveHead
        /// Waits for a number of bytes.
        case receiveBytes(Int)
        /// Sends bytes. A flood repeats the bytes until the client disconnects.
        ///
        /// Floods share this case: otherwise, the enum would tag the array with a bit of its address, and the leak
        /// sanitizer would lose track of it.
        case send([UInt8], isFlood: Bool)
        /// Waits until the client disconnects.
        case hold
        /// Lets the client read the bytes sent so far before the next action.
        case pause
        /// Calls a function of the test.
        case perform(@Sendable () -> Void)
        /// Sends nothing more.
        case finish
        /// Waits until the client disconnects, without reading.
        case stall
        /// Resets the connection instead of closing it.
        case reset

        static func send(_ bytes: [UInt8]) -> Step { .send(bytes, isFlood: false) }
        static func send(_ text: String) -> Step { .send(Array(text.utf8)) }
        static func flood(_ text: String) -> Step { .send(Array(text.utf8), isFlood: true) }
    }

    /// The maximum number of bytes in a flood, so that a client that reads everything also terminates.
    private static let floodLimit = 1 << 26

    let port: Int
    private let listener: Int32
    private let seen = Mutex<[[String]]>([])
    private let connections = Mutex(Connections())
    private let (receipts, received) = AsyncStream<Void>.makeStream()

    private struct Connections {
        var open: Set<Int32> = []
        var isStopped = false
        /// Callers waiting for all connections to close.
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    var origin: String { "http://127.0.0.1:\(port)" }

    /// The raw requests, by connection.
    var requests: [[String]] { seen.withLock { $0 } }

    /// - Parameter scripts: The actions for each connection, in order of arrival. All further connections use the
    ///   last script.
    convenience init(_ scripts: [Step]...) throws {
        try self.init(scripts: scripts)
    }

    init(scripts: [[Step]]) throws {
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = listener
        let isOpen = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe bind(listener, $0, size) == 0 && listen(listener, 1024) == 0
                    && getsockname(listener, $0, &size) == 0
            }
        }
        guard listener >= 0, isOpen else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        port = Int(UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { [self] in
            var number = 0
            while true {
                let connection = accept(listener, nil, nil)
                // The listener is closed only here, because another server may reuse its descriptor immediately.
                guard connection >= 0 else {
                    _ = close(listener)
                    return
                }
                let (script, index) = (scripts[min(number, scripts.count - 1)], number)
                number += 1
                seen.withLock { $0.append([]) }
                connections.withLock {
                    $0.open.insert(connection)
                    // The connection was accepted while the server was being stopped.
                    if $0.isStopped { shutdown(connection, Int32(SHUT_RDWR)) }
                }
                Thread.detachNewThread { [self] in serve(connection, script, index) }
            }
        }
    }

    /// Runs a body with a server, which accepts no connections afterwards.
    static func run<Return>(
        _ scripts: [Step]...,
        body: (ScriptedServer) async throws -> Return
    ) async throws -> Return {
        let server = try ScriptedServer(scripts: scripts)
        defer { server.stop() }
        return try await body(server)
    }

    /// Closes the port and the connections. Otherwise, a client would reuse the connections for the next server, which
    /// may listen on the same port.
    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        connections.withLock {
            $0.isStopped = true
            for connection in $0.open { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }

    /// Waits until the server has received a total number of requests.
    func untilReceived(_ count: Int) async {
        while requests.flatMap(\.self).count < count { for await _ in receipts { break } }
    }

    /// Waits until the server has closed every connection.
    func allClosed() async {
        await withCheckedContinuation { continuation in
            let isOver = connections.withLock { connections in
                if !connections.open.isEmpty { connections.waiting.append(continuation) }
                return connections.open.isEmpty
            }
            if isOver { continuation.resume() }
        }
    }

    private func serve(_ connection: Int32, _ script: [Step], _ index: Int) {
        var isReset = false
        defer {
            if isReset {
                var linger = linger(l_onoff: 1, l_linger: 0)
                unsafe setsockopt(connection, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<linger>.size))
            }
            let waiting = connections.withLock { connections in
                connections.open.remove(connection)
                close(connection)
                guard connections.open.isEmpty else { return [CheckedContinuation<Void, Never>]() }
                defer { connections.waiting = [] }
                return connections.waiting
            }
            for continuation in waiting { continuation.resume() }
        }
        for step in script {
            switch step {
            case .receive:
                guard let head = Self.receiveHead(connection),
                    let body = Self.receive(Self.length(head), connection)
                else { return }
                record(head + body, index)
            case .receiveHead:
                guard let head = Self.receiveHead(connection) else { return }
                record(head, index)
            case .receiveBytes(let count):
                guard let bytes = Self.receive(count, connection) else { return }
                record(bytes, index)
            case .send(let bytes, let isFlood):
                guard Self.send(bytes, connection) else { return }
                var total = 0
                while isFlood, total < Self.floodLimit, Self.send(bytes, connection) { total += bytes.count }
            case .hold:
                var buffer = [UInt8](repeating: 0, count: 4096)
                while unsafe recv(connection, &buffer, buffer.count, 0) > 0 {}
            case .pause:
                usleep(20_000)
            case .perform(let action):
                action()
            case .finish:
                shutdown(connection, Int32(SHUT_WR))
            case .stall:
                var descriptor = pollfd(fd: connection, events: 0x2000 /* POLLRDHUP */, revents: 0)
                _ = unsafe poll(&descriptor, 1, -1)
                isReset = true
                return
            case .reset:
                isReset = true
                return
            }
        }
    }

    private func record(_ bytes: String, _ index: Int) {
        seen.withLock { $0[index].append(bytes) }
        received.yield()
    }

    private static func send(_ bytes: [UInt8], _ connection: Int32) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes {
                unsafe Foundation.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    private static func receiveHead(_ connection: Int32) -> String? {
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        while !bytes.suffix(4).elementsEqual("\r\n\r\n".utf8) {
            guard unsafe recv(connection, &byte, 1, 0) == 1 else { return nil }
            bytes.append(byte)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The length of the body according to the header fields.
    private static func length(_ head: String) -> Int {
        let head = head.lowercased()
        let digits = head.firstRange(of: "content-length: ").map { head[$0.upperBound...].prefix { $0.isNumber } }
        return digits.flatMap { Int($0) } ?? 0
    }

    private static func receive(_ count: Int, _ connection: Int32) -> String? {
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        for _ in 0..<count {
            guard unsafe recv(connection, &byte, 1, 0) == 1 else { return nil }
            bytes.append(byte)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
