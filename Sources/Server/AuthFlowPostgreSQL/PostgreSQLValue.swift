/// A parameter of a statement, in PostgreSQL's binary format.
enum PostgreSQLValue: Sendable {
    case bytes([UInt8]?)
    case integer(Int64?)
    case list([[UInt8]])

    /// The bytes to send; nil for NULL.
    var bytes: [UInt8]? {
        switch self {
        case .bytes(let bytes): bytes
        case .integer(let number): number.map(Self.bigEndian)
        case .list(let elements):
            // The format of an array: the number of dimensions, whether it contains NULLs, the element type (17 is
            // bytea), the size, the first index, and the elements.
            Self.bigEndian(Int32(1)) + Self.bigEndian(Int32(0)) + Self.bigEndian(Int32(17))
                + Self.bigEndian(Int32(elements.count)) + Self.bigEndian(Int32(1))
                + elements.flatMap { Self.bigEndian(Int32($0.count)) + $0 }
        }
    }

    private static func bigEndian(_ number: some FixedWidthInteger) -> [UInt8] {
        stride(from: number.bitWidth - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> $0) }
    }

    /// Decodes a `bigint`; nil when it is NULL.
    static func integer(_ field: [UInt8]?) -> Int64? {
        guard let field, field.count == 8 else { return nil }
        return field.reduce(0) { $0 << 8 | Int64($1) }
    }

    /// Decodes a `boolean`.
    static func flag(_ field: [UInt8]?) -> Bool { field == [1] }
}
