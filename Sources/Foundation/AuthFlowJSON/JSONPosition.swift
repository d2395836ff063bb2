/// A position in JSON text.
public struct JSONPosition: Sendable, Hashable {
    /// The one-based line.
    public let line: Int
    /// The one-based column in bytes.
    public let column: Int

    /// The position of the byte at `offset`.
    init(of offset: Int, in text: [UInt8]) {
        let before = text.prefix(offset)
        self.line = 1 + before.count { $0 == UInt8(ascii: "\n") }
        self.column = 1 + before.count - (before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0)
    }
}

extension JSONPosition: CustomStringConvertible {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public var description: String { "\(line):\(column)" }
}
