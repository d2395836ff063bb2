import AuthFlow
import AuthFlowDatabase
import CSQLite
import Synchronization

/// A parameter or a column value of a statement.
enum SQLiteValue: Sendable, Hashable {
    case integer(Int64)
    case bytes([UInt8])
    case null

    static func integer(_ number: Int64?) -> SQLiteValue { number.map { .integer($0) } ?? .null }
    static func bytes(_ bytes: [UInt8]?) -> SQLiteValue { bytes.map { .bytes($0) } ?? .null }

    var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
    var bytes: [UInt8]? { if case .bytes(let bytes) = self { bytes } else { nil } }
    var flag: Bool { integer == 1 }
}

/// An open database file.
@safe final class SQLiteConnection: @unchecked Sendable {  // only the executor's thread uses it
    /// The busy timeout, in milliseconds: the maximum time to wait for another process to complete a write.
    static let busyTimeout: Int32 = 5000
    static let shortBusyTimeout: Int32 = 200

    /// `RETURNING` was introduced in 3.35.
    private static let oldestVersion: Int32 = 3_035_000

    private static let lastNumber = Atomic<UInt64>(0)

    /// A number that is unique to the connection within this process: unlike its memory address, it is not reused after the connection is closed.
    let number = lastNumber.add(1, ordering: .relaxed).newValue

    /// Whether the connection is in a transaction that could not be rolled back. Further writes might never be
    /// committed.
    private(set) var isBroken = false

    private var lastFence: Int64 = 0
    private let database: OpaquePointer
    private var statements: [String: SQLiteStatement] = [:]
    private var isDurable: Bool?

    /// The path of the database, for messages.
    private let path: String

    /// Opens an existing file.
    init(path: String) throws(DatabaseFailure) {
        let version = authflow_sqlite_version()
        guard version >= Self.oldestVersion else {
            throw DatabaseFailure(
                .unusable,
                version == 0
                    ? "The SQLite library is not installed. On Debian, install the package libsqlite3-0."
                    : "SQLite 3.35 or newer is required; the installed library has version number \(version)."
            )
        }
        var opened: OpaquePointer?
        let result = unsafe authflow_sqlite_open(path, &opened)
        guard let opened = unsafe opened else {
            throw DatabaseFailure(.unusable, "Out of memory while opening the SQLite database.")
        }
        unsafe self.database = opened
        self.path = path
        guard result == AUTHFLOW_SQLITE_OK.rawValue else {
            throw failure(result)
        }
        unsafe authflow_sqlite_set_busy_timeout(opened, Self.busyTimeout)
    }

    deinit {
        statements = [:]
        unsafe authflow_sqlite_close(database)
    }

    /// Sets the busy timeout, in milliseconds: the maximum time to wait for a lock that another connection holds.
    func setBusyTimeout(_ milliseconds: Int32) { unsafe authflow_sqlite_set_busy_timeout(database, milliseconds) }

    /// Runs one statement.
    /// - Returns: Its rows.
    @discardableResult
    func run(_ text: String, _ values: SQLiteValue...) throws(DatabaseFailure) -> [[SQLiteValue]] {
        try run(text, values)
    }

    @discardableResult
    func run(_ text: String, _ values: [SQLiteValue]) throws(DatabaseFailure) -> [[SQLiteValue]] {
        let statement = try prepared(text)
        defer { statement.reset() }
        for (index, value) in values.enumerated() {
            let result = statement.bind(value, at: Int32(index + 1))
            guard result == AUTHFLOW_SQLITE_OK.rawValue else { throw failure(result) }
        }
        var rows: [[SQLiteValue]] = []
        // Step until the statement is done: the changes of a statement with RETURNING are not committed before that.
        while true {
            let result = statement.step()
            switch UInt32(bitPattern: result) {
            case AUTHFLOW_SQLITE_DONE.rawValue: return rows
            case AUTHFLOW_SQLITE_ROW.rawValue: rows.append(statement.row)
            default: throw failure(result)
            }
        }
    }

    /// Runs statements in one transaction.
    func transaction<Value>(
        _ body: () throws(DatabaseFailure) -> Value
    ) throws(DatabaseFailure) -> Value {
        // The transaction is not deferred, because a deferred transaction fails if another process writes between the
        // first read and the first write of the transaction.
        try run("BEGIN IMMEDIATE")
        do throws(DatabaseFailure) {
            let value = try body()
            try run("COMMIT")
            return value
        } catch {
            _ = try? run("ROLLBACK")
            isBroken = unsafe authflow_sqlite_is_in_transaction(database)
            throw error
        }
    }

    /// A fence for a new record. It is derived from a timestamp so that it is greater than the fences of removed
    /// records, and it is unique within this connection.
    func nextFence(at microseconds: Int64) -> Int64 {
        lastFence = max(microseconds, lastFence + 1)
        return lastFence
    }

    /// Sets whether subsequent writes are synced to disk when their statements complete, or only with the next durable
    /// write. A lease need not survive a power failure, because its holder does not survive one either.
    func setDurable(_ isDurable: Bool) throws(DatabaseFailure) {
        guard self.isDurable != isDurable else { return }
        try run("PRAGMA synchronous = \(isDurable ? "FULL" : "NORMAL")")
        self.isDurable = isDurable
    }

    private func prepared(_ text: String) throws(DatabaseFailure) -> SQLiteStatement {
        if let known = statements[text] { return known }
        var made: OpaquePointer?
        let result = unsafe authflow_sqlite_prepare(database, text, &made)
        guard let made = unsafe made else { throw failure(result) }
        let statement = unsafe SQLiteStatement(pointer: made)
        statements[text] = statement
        return statement
    }

    private func failure(_ result: Int32) -> DatabaseFailure {
        let reason = DisplayText.sanitized(unsafe String(cString: authflow_sqlite_error(database)))
        switch UInt32(result & 0xFF) {
        case AUTHFLOW_SQLITE_BUSY.rawValue, AUTHFLOW_SQLITE_LOCKED.rawValue, AUTHFLOW_SQLITE_PROTOCOL.rawValue:
            return DatabaseFailure(
                .unreachable,
                "The database \(path) has been locked for too long: \(reason)."
            )
        // The commit may or may not have reached the disk. The call is retried if a retry is safe.
        case AUTHFLOW_SQLITE_IO_ERROR.rawValue, AUTHFLOW_SQLITE_NO_MEMORY.rawValue:
            return DatabaseFailure(.unknownOutcome, "The database \(path) could not be read or written: \(reason).")
        // The statement was rolled back. The call is retried, because space may become available on the disk.
        case AUTHFLOW_SQLITE_FULL.rawValue:
            return DatabaseFailure(.unknownOutcome, "The disk of the database \(path) is full.")
        case AUTHFLOW_SQLITE_CORRUPT.rawValue, AUTHFLOW_SQLITE_NOT_A_DATABASE.rawValue:
            return DatabaseFailure(
                .damaged,
                "The database \(path) is damaged: \(reason). Restore a backup, or start with an empty database."
            )
        case AUTHFLOW_SQLITE_READ_ONLY.rawValue, AUTHFLOW_SQLITE_CANNOT_OPEN.rawValue:
            return DatabaseFailure(.unusable, "The database \(path) cannot be used: \(reason).")
        default: return DatabaseFailure(.refused, "SQLite: \(reason) (\(result)).")
        }
    }
}

/// A prepared statement, which can be used only with the connection that prepared it.
@safe private final class SQLiteStatement {
    private let pointer: OpaquePointer

    init(pointer: OpaquePointer) { unsafe self.pointer = pointer }

    deinit { unsafe authflow_sqlite_finalize(pointer) }

    func bind(_ value: SQLiteValue, at index: Int32) -> Int32 {
        switch value {
        case .integer(let number): unsafe authflow_sqlite_bind_integer(pointer, index, number)
        case .null: unsafe authflow_sqlite_bind_null(pointer, index)
        // An empty array may have a null pointer, which SQLite would bind as NULL.
        case .bytes(let bytes): unsafe authflow_sqlite_bind_bytes(pointer, index, bytes + [0], bytes.count)
        }
    }

    func step() -> Int32 { unsafe authflow_sqlite_step(pointer) }

    func reset() { unsafe authflow_sqlite_reset(pointer) }

    var row: [SQLiteValue] { (0..<(unsafe authflow_sqlite_column_count(pointer))).map { column($0) } }

    private func column(_ index: Int32) -> SQLiteValue {
        switch UInt32(bitPattern: unsafe authflow_sqlite_column_type(pointer, index)) {
        case AUTHFLOW_SQLITE_INTEGER.rawValue: return .integer(unsafe authflow_sqlite_column_integer(pointer, index))
        case AUTHFLOW_SQLITE_NULL.rawValue: return .null
        default:
            var length = 0
            guard let start = unsafe authflow_sqlite_column_bytes(pointer, index, &length) else { return .bytes([]) }
            return unsafe .bytes(Array(UnsafeRawBufferPointer(start: start, count: length)))
        }
    }
}
