extension JSON {
    /// An upper bound on the size of the serialized value without indentation, in bytes. It is computed without
    /// serializing the value.
    package var maximumSerializedSize: Int {
        switch self {
        case .null, .bool: 5
        // Nineteen digits and a sign; a finite double has 17 digits, a decimal point and an exponent.
        case .integer: 20
        case .double(let value): value.isFinite ? 32 : .max / 2
        // A control character is written as six bytes, and the text is enclosed in quotation marks.
        case .string(let text): 6 * text.utf8.count + 2
        case .array(let elements): elements.reduce(2) { Self.sum($0, $1.maximumSerializedSize + 1) }
        case .object(let members):
            members.reduce(2) { Self.sum($0, 6 * $1.key.utf8.count + 4 + $1.value.maximumSerializedSize) }
        }
    }

    private static func sum(_ first: Int, _ second: Int) -> Int {
        let (sum, overflow) = first.addingReportingOverflow(second)
        return overflow ? .max / 2 : sum
    }
}
