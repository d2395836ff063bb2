import AuthFlow
import AuthFlowDatabase
import AuthFlowSystem
import CRedis

/// A value of the Redis protocol (RESP2).
enum RedisValue: Sendable, Hashable {
    case bytes([UInt8])
    case integer(Int64)
    case null
    case list([RedisValue])

    var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
    var bytes: [UInt8]? { if case .bytes(let bytes) = self { bytes } else { nil } }
    var list: [RedisValue]? { if case .list(let values) = self { values } else { nil } }
    var text: String? { bytes.map { String(decoding: $0, as: UTF8.self) } }
}

/// A command: its name and its arguments.
typealias RedisCommand = [[UInt8]]

/// A connection to Redis that uses hiredis's non-blocking functions.
@safe final class RedisLink: DatabaseLink, @unchecked Sendable {  // one thread at a time, as hiredis requires
    private let context: OpaquePointer
    private var isClosed = false
    private(set) var hasPendingOutput = false
    private var isRunning = false
    private var messages: [String] = []

    private static let timeout: Int32 = 5000

    /// Connects, and blocks until the connection is established.
    init(_ settings: RedisSettings) throws(DatabaseFailure) {
        guard authflow_redis_open() else {
            throw DatabaseFailure(
                .unusable,
                "The library hiredis is not installed. On Debian 12, install the package libhiredis0.14."
            )
        }
        let context =
            switch settings.place {
            case .socket(let path): unsafe authflow_redis_connect_unix(path, Self.timeout)
            case .port(let host, let port): unsafe authflow_redis_connect(host, Int32(port), Self.timeout)
            }
        guard let context = unsafe context else {
            throw DatabaseFailure(.unreachable, "Out of memory while connecting to Redis.")
        }
        unsafe self.context = context
        guard unsafe !authflow_redis_has_failed(context), unsafe authflow_redis_set_timeout(context, Self.timeout)
        else {
            let failure = DatabaseFailure(.unreachable, "Redis cannot be reached: \(unsafe Self.reason(context))")
            close()
            throw failure
        }
        let descriptor = unsafe authflow_redis_descriptor(context)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        var isOn: Int32 = 1
        _ = unsafe setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &isOn, socklen_t(MemoryLayout<Int32>.size))
    }

    deinit { close() }

    var descriptor: Int32 { unsafe authflow_redis_descriptor(context) }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        unsafe authflow_redis_close(context)
    }

    /// Sends a command and blocks until the reply arrives. Call it only while the loop is not using the connection.
    @discardableResult
    func run(_ command: String...) throws(DatabaseFailure) -> RedisValue {
        try append(command.map { Array($0.utf8) })
        guard let reply = unsafe authflow_redis_wait(context) else { throw lost() }
        defer { unsafe authflow_redis_reply_free(reply) }
        return try unsafe value(of: reply)
    }

    /// Switches the connection to non-blocking mode for the loop.
    func setNonBlocking() { unsafe authflow_redis_set_nonblocking(context) }

    func begin(_ request: RedisCommand) throws(DatabaseFailure) {
        try append(request)
        isRunning = true
        hasPendingOutput = true
    }

    private func append(_ command: RedisCommand) throws(DatabaseFailure) {
        let all = command.flatMap(\.self) + [0]
        let appended = unsafe all.withUnsafeBytes { buffer in
            var start = 0
            var values = unsafe command.map { argument -> UnsafePointer<CChar>? in
                defer { start += argument.count }
                return unsafe buffer.baseAddress.map { unsafe ($0 + start).assumingMemoryBound(to: CChar.self) }
            }
            return unsafe authflow_redis_append(context, Int32(values.count), &values, command.map(\.count))
        }
        guard appended else { throw lost() }
    }

    func advance() throws(DatabaseFailure) -> Result<RedisValue, DatabaseFailure>? {
        if hasPendingOutput {
            var isDone = false
            guard unsafe authflow_redis_write(context, &isDone) else { throw lost() }
            hasPendingOutput = !isDone
        }
        guard unsafe authflow_redis_read(context) else { throw lost() }
        while true {
            var reply: OpaquePointer?
            guard unsafe authflow_redis_next(context, &reply) else { throw lost() }
            guard let reply = unsafe reply else { return nil }
            defer { unsafe authflow_redis_reply_free(reply) }
            let result = Result { () throws(DatabaseFailure) in try unsafe value(of: reply) }
            if isRunning {
                isRunning = false
                // Close the connection, because it is useless if, for example, the server has become a replica.
                if case .failure(let failure) = result, failure.kind != .refused { throw failure }
                return result
            }
            if case .success(let value) = result, let parts = value.list, parts.count == 3, parts[0].text == "message",
                let message = parts[2].text
            {
                messages.append(message)
            }
        }
    }

    func takeMessages() -> [String] {
        defer { messages = [] }
        return messages
    }

    /// - Throws: The failure, if the reply is an error.
    private func value(of reply: OpaquePointer) throws(DatabaseFailure) -> RedisValue {
        func bytes() -> [UInt8] {
            var length = 0
            guard let start = unsafe authflow_redis_reply_bytes(reply, &length) else { return [] }
            return unsafe Array(UnsafeRawBufferPointer(start: start, count: length))
        }
        switch unsafe authflow_redis_reply_type(reply) {
        case AUTHFLOW_REDIS_INTEGER: return .integer(unsafe authflow_redis_reply_integer(reply))
        case AUTHFLOW_REDIS_NIL: return .null
        case AUTHFLOW_REDIS_ARRAY:
            var values: [RedisValue] = []
            for index in 0..<(unsafe authflow_redis_reply_count(reply)) {
                values.append(try unsafe value(of: authflow_redis_reply_element(reply, index)))
            }
            return .list(values)
        case AUTHFLOW_REDIS_ERROR: throw Self.refusal(String(decoding: bytes(), as: UTF8.self))
        default: return .bytes(bytes())
        }
    }

    private static func refusal(_ text: String) -> DatabaseFailure {
        let message = "Redis: \(DisplayText.sanitized(text))"
        switch text.prefix(while: { $0 != " " }) {
        case "NOSCRIPT": return DatabaseFailure(.refused, noScript)
        // The server has become a replica, is starting, or cannot reach enough replicas.
        case "READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "UNBLOCKED", "CLUSTERDOWN", "BUSY", "TRYAGAIN",
            "MISCONF", "OOM":
            return DatabaseFailure(.unknownOutcome, message)
        case "NOAUTH", "WRONGPASS", "NOPERM": return DatabaseFailure(.unusable, message)
        default: return DatabaseFailure(.refused, message)
        }
    }

    /// The failure message for a script that the server has not loaded.
    static let noScript = "NOSCRIPT"

    private func lost() -> DatabaseFailure {
        DatabaseFailure(.unknownOutcome, "The connection to Redis was lost: \(unsafe Self.reason(context))")
    }

    private static func reason(_ context: OpaquePointer) -> String {
        DisplayText.sanitized(unsafe String(cString: authflow_redis_error(context)))
    }
}
