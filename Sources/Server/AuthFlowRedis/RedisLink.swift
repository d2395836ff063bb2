import AuthFlow
import AuthFlowDatabase
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

/// A connection to Redis.
@safe final class RedisLink: DatabaseLink, @unchecked Sendable {  // one thread at a time, as hiredis requires
    private let context: OpaquePointer
    private let socket: DatabaseSocket
    private var isClosed = false

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
        do throws(DatabaseFailure) {
            guard unsafe !authflow_redis_has_failed(context) else {
                throw DatabaseFailure(.unreachable, "Redis cannot be reached: \(unsafe Self.reason(context))")
            }
            self.socket = try DatabaseSocket(unsafe authflow_redis_descriptor(context))
        } catch {
            unsafe authflow_redis_close(context)
            throw error
        }
        try setTimeout(Self.timeout)
        socket.keepAlive()
    }

    deinit { close() }

    var isIdle: Bool { socket.isIdle }

    func interrupt() { socket.shutDown() }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        socket.close()
        unsafe authflow_redis_close(context)
    }

    /// Sends a command and blocks until the reply arrives.
    @discardableResult
    func run(_ command: String...) throws(DatabaseFailure) -> RedisValue {
        try append(command.map { Array($0.utf8) })
        return try nextReply().get()
    }

    func response(to request: RedisCommand) throws(DatabaseFailure) -> Result<RedisValue, DatabaseFailure> {
        try append(request)
        let result = try nextReply()
        // Throwing closes the connection, which is unusable if, for example, the server has become a replica. A user without the permission
        // has it on no other connection either, so the request is not retried.
        if case .failure(let failure) = result, failure.kind == .unknownOutcome { throw failure }
        return result
    }

    /// Sets the timeout of each call.
    /// - Parameter milliseconds: The timeout; 0 for none.
    func setTimeout(_ milliseconds: Int32) throws(DatabaseFailure) {
        guard unsafe authflow_redis_set_timeout(context, milliseconds) else { throw lost() }
    }

    func messages() throws(DatabaseFailure) -> [String] {
        guard let parts = try nextReply().get().list, parts.count == 3, parts[0].text == "message" else { return [] }
        return [parts[2].text].compactMap(\.self)
    }

    /// Blocks until a reply arrives.
    private func nextReply() throws(DatabaseFailure) -> Result<RedisValue, DatabaseFailure> {
        guard let reply = unsafe authflow_redis_wait(context) else { throw lost() }
        defer { unsafe authflow_redis_reply_free(reply) }
        return Result { () throws(DatabaseFailure) in try unsafe value(of: reply) }
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
        // The server closes a connection that exceeds its limit (maxclients), after it has accepted the connection. Nothing was executed.
        guard !text.hasPrefix("ERR max number of clients") else { return DatabaseFailure(.unreachable, message) }
        // Before version 7, Redis wraps the error of a command in a script: "ERR Error running script (...): @user_script:4: -READONLY ...".
        let inner = text.hasPrefix("ERR Error running script") ? text.ranges(of: ": -").last : nil
        switch text[(inner?.upperBound ?? text.startIndex)...].prefix(while: { $0 != " " }) {
        case "NOSCRIPT": return DatabaseFailure(.refused, noScript)
        // The server has become a replica, is starting, or cannot reach enough replicas.
        case "READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "UNBLOCKED", "CLUSTERDOWN", "BUSY", "TRYAGAIN",
            "MISCONF", "OOM":
            return DatabaseFailure(.unknownOutcome, message)
        case "NOAUTH", "WRONGPASS", "NOPERM": return DatabaseFailure(.unusable, message)
        // Without this message, the calls for some sessions would succeed, and the others would fail for no apparent reason.
        case "MOVED", "ASK":
            return DatabaseFailure(
                .unusable,
                "The Redis server is one of several nodes of a cluster, which is not supported: it stores only some of the sessions. Use a single server, or a proxy in front of the cluster. \(message)"
            )
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
