/// Where each value of a JSON text stands, so that an error about a value can name its line and column.
///
/// A member is placed at its key, an element at its first byte.
public struct JSONSourceMap: Sendable {
    private let text: [UInt8]
    private let offsets: [JSONPath: Int]

    /// Reads the places of all values in a text that parses.
    /// - Throws: ``JSONError`` when the text does not parse.
    public init(of text: [UInt8], limits: JSONLimits = JSONLimits()) throws(JSONError) {
        var offsets: [JSONPath: Int] = [:]
        var scanner = JSONScanner(text, limits: limits)
        try scanner.scan { path, offset in offsets[path] = offset }
        self.text = text
        self.offsets = offsets
    }

    /// The place of the value at `path`, or of its nearest ancestor that exists.
    public func position(of path: JSONPath) -> JSONPosition {
        var steps = path.steps
        while true {
            if let offset = offsets[JSONPath(steps)] { return JSONPosition(of: offset, in: text) }
            if steps.isEmpty { return JSONPosition(of: 0, in: text) }
            steps.removeLast()
        }
    }
}
