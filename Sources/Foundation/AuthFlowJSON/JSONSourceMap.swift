/// The position of each value in JSON text, so that an error about a value can include its line and column.
///
/// The position of a member is the position of its key; the position of an element is the position of its first byte.
package struct JSONSourceMap: Sendable {
    private let text: [UInt8]
    private let offsets: [JSONPath: Int]

    /// Determines the positions of all values in a valid text.
    /// - Throws: ``JSONError`` when the text cannot be parsed.
    package init(of text: [UInt8], limits: JSONLimits = JSONLimits()) throws(JSONError) {
        var offsets: [JSONPath: Int] = [:]
        var scanner = JSONScanner(text, limits: limits)
        try scanner.scan { path, offset in offsets[path] = offset }
        self.text = text
        self.offsets = offsets
    }

    /// The byte offset of the value at `path`, or of its key; nil when there is no such value.
    package func offset(of path: JSONPath) -> Int? { offsets[path] }

    /// The position of the value at `path`, or of its nearest ancestor that exists.
    package func position(of path: JSONPath) -> JSONPosition {
        var steps = path.steps
        while true {
            if let offset = offsets[JSONPath(steps)] { return JSONPosition(of: offset, in: text) }
            if steps.isEmpty { return JSONPosition(of: 0, in: text) }
            steps.removeLast()
        }
    }
}
