import AuthFlow
import AuthFlowDatabase
import AuthFlowSystem
import CPostgreSQL

/// A statement with its parameters.
struct PostgreSQLRequest: Sendable {
    let statement: String
    let parameters: [PostgreSQLValue]
}

/// The rows that a statement returned. A NULL field is nil.
typealias PostgreSQLRows = [[[UInt8]?]]

/// A connection to PostgreSQL.
@safe final class PostgreSQLLink: DatabaseLink, @unchecked Sendable {  // one thread at a time, as libpq requires
    private let connection: OpaquePointer
    private let socket: DatabaseSocket
    private var isClosed = false

    /// Connects, and blocks until the connection is established.
    init(_ settings: PostgreSQLSettings) throws(DatabaseFailure) {
        guard let connection = unsafe Self.connect(settings.keywords) else {
            throw DatabaseFailure(.unreachable, "Out of memory while connecting to PostgreSQL.")
        }
        unsafe self.connection = connection
        do throws(DatabaseFailure) {
            guard unsafe authflow_pq_is_connected(connection) else {
                let reason = Self.message(unsafe String(cString: authflow_pq_error(connection)))
                throw DatabaseFailure(.unreachable, "PostgreSQL cannot be reached: \(reason)")
            }
            self.socket = try DatabaseSocket(unsafe authflow_pq_descriptor(connection))
        } catch {
            unsafe authflow_pq_close(connection)
            throw error
        }
    }

    deinit { close() }

    private static func connect(_ keywords: [(String, String)]) -> OpaquePointer? {
        var names: [UnsafeMutablePointer<CChar>?] = unsafe keywords.map { unsafe strdup($0.0) }
        var values: [UnsafeMutablePointer<CChar>?] = unsafe keywords.map { unsafe strdup($0.1) }
        defer {
            unsafe names.forEach { unsafe free($0) }
            unsafe values.forEach { unsafe free($0) }
        }
        unsafe names.append(nil)
        unsafe values.append(nil)
        let (constNames, constValues) = unsafe (
            names.map { unsafe UnsafePointer($0) }, values.map { unsafe UnsafePointer($0) }
        )
        return unsafe authflow_pq_connect(constNames, constValues)
    }

    var isIdle: Bool { socket.isIdle }

    func interrupt() { socket.shutDown() }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        socket.close()
        unsafe authflow_pq_close(connection)
    }

    /// Runs statements and blocks until they complete.
    /// - Returns: The first field of the last result; nil when the field is NULL or there are no rows.
    @discardableResult
    func run(_ statements: String) throws(DatabaseFailure) -> String? {
        guard let result = unsafe authflow_pq_run(connection, statements) else { throw lost() }
        defer { unsafe authflow_pq_clear(result) }
        guard unsafe authflow_pq_succeeded(result) else { throw unsafe try refusal(result) }
        var length: Int32 = 0
        guard unsafe authflow_pq_rows(result) > 0, let field = unsafe authflow_pq_field(result, 0, 0, &length)
        else {
            return nil
        }
        let bytes = unsafe Array(UnsafeBufferPointer(start: field, count: Int(length)))
        return String(decoding: bytes, as: UTF8.self)
    }

    func response(to request: PostgreSQLRequest) throws(DatabaseFailure) -> Result<PostgreSQLRows, DatabaseFailure> {
        guard let result = unsafe execute(request) else { throw lost() }
        defer { unsafe authflow_pq_clear(result) }
        guard unsafe authflow_pq_succeeded(result) else { return .failure(unsafe try refusal(result)) }
        return .success(unsafe rows(of: result))
    }

    private func execute(_ request: PostgreSQLRequest) -> OpaquePointer? {
        let bytes = request.parameters.map(\.bytes)
        let lengths = bytes.map { Int32($0?.count ?? 0) }
        // A single allocation, into which all pointers point.
        let all: [UInt8] = bytes.reduce(into: []) { all, value in all += value ?? [] } + [0]
        return unsafe all.withUnsafeBufferPointer { buffer in
            var start = 0
            var values: [UnsafePointer<UInt8>?] = unsafe []
            for value in bytes {
                if value != nil, let first = buffer.baseAddress {
                    unsafe values.append(first + start)
                } else {
                    unsafe values.append(nil)
                }
                start += value?.count ?? 0
            }
            return unsafe authflow_pq_execute(connection, request.statement, Int32(values.count), values, lengths)
        }
    }

    func messages() throws(DatabaseFailure) -> [String] {
        var entry = pollfd(fd: unsafe authflow_pq_descriptor(connection), events: Int16(POLLIN), revents: 0)
        _ = unsafe poll(&entry, 1, -1)
        guard unsafe authflow_pq_read(connection) else { throw lost() }
        var messages: [String] = []
        var whole: UnsafeMutableRawPointer?
        while let payload = unsafe authflow_pq_notification(connection, &whole), let notification = unsafe whole {
            unsafe messages.append(String(cString: payload))
            unsafe authflow_pq_free(notification)
        }
        return messages
    }

    private func rows(of result: OpaquePointer) -> PostgreSQLRows {
        let columns = unsafe authflow_pq_columns(result)
        return (0..<(unsafe authflow_pq_rows(result))).map { row in
            (0..<columns).map { column in
                var length: Int32 = 0
                return unsafe authflow_pq_field(result, row, column, &length)
                    .map { unsafe Array(UnsafeBufferPointer(start: $0, count: Int(length))) }
            }
        }
    }

    /// The failure caused by a lost connection.
    private func lost() -> DatabaseFailure {
        let reason = Self.message(unsafe String(cString: authflow_pq_error(connection)))
        return DatabaseFailure(.unknownOutcome, "The connection to PostgreSQL was lost: \(reason)")
    }

    /// The failure caused by a statement that the server rejected.
    /// - Throws: A failure after which the connection must be closed.
    private func refusal(_ result: OpaquePointer) throws(DatabaseFailure) -> DatabaseFailure {
        let state = unsafe authflow_pq_state(result).map { unsafe String(cString: $0) } ?? ""
        // The error's detail field is omitted, because it may contain a row's values.
        let message = unsafe authflow_pq_message(result).map { Self.message(unsafe String(cString: $0)) } ?? "no reason"
        let text = "PostgreSQL: \(message) (SQLSTATE \(state))."
        switch state {
        // 42P01 undefined_table, 42703 undefined_column, 3F000 invalid_schema_name
        case "42P01", "42703", "3F000":
            return DatabaseFailure(
                .refused,
                "\(text) The tables are missing or outdated. Migrate the store: call migrate()."
            )
        // query_canceled (statement_timeout), lock_not_available, serialization_failure, deadlock_detected: the statement was rolled back.
        case "57014", "55P03", "40001", "40P01": return DatabaseFailure(.unreachable, text)
        // read_only_sql_transaction: the server is now a standby.
        case "25006": throw DatabaseFailure(.unknownOutcome, text)
        // Connection exceptions; operator intervention, such as a shutdown
        case _ where state.isEmpty || state.hasPrefix("08") || state.hasPrefix("57"):
            throw DatabaseFailure(.unknownOutcome, text)
        // Insufficient resources
        case _ where state.hasPrefix("53"): return DatabaseFailure(.unknownOutcome, text)
        default: return DatabaseFailure(.refused, text)
        }
    }

    /// libpq's message on one line.
    private static func message(_ text: String) -> String {
        DisplayText.sanitized(text.split(whereSeparator: \.isNewline).joined(separator: " "))
    }
}
