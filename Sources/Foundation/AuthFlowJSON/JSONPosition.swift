/// A position in JSON text.
package struct JSONPosition: Sendable, Hashable {
    /// The one-based line.
    package let line: Int
    /// The one-based column in bytes.
    package let column: Int

    /// The position of the byte at `offset`.
    init(of offset: Int, in text: [UInt8]) {
        let before = text.prefix(offset)
        self.line = 1 + before.count { $0 == UInt8(ascii: "\n") }
        self.column = 1 + before.count - (before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0)
    }
}

extension JSONPosition: CustomStringConvertible {
    package var description: String { "\(line):\(column)" }
}
