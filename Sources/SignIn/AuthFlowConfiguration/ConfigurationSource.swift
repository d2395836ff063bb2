import AuthFlowHTTP
import AuthFlowJSON
import Synchronization

/// The source of a configuration: its name for messages, the base directory for its relative paths, and its text.
struct ConfigurationSource: Sendable {
    let file: String
    let directory: String
    /// Secrets that were looked up by key instead of read from a file, keyed by their placeholders: `{"value": "0"}`.
    let secrets: [String: Secret]
    private let positions: Positions

    init(file: String, directory: String, text: [UInt8], secrets: [String: Secret] = [:]) {
        self.file = file
        self.directory = directory
        self.secrets = secrets
        self.positions = Positions(text)
    }

    func issue(_ problem: String, at path: JSONPath) -> ConfigurationIssue {
        let position = positions.position(of: path)
        return ConfigurationIssue(
            file: file,
            line: position.line,
            column: position.column,
            // The path contains names from the file.
            keyPath: DisplayText.sanitized(path.description, limit: 400),
            problem: problem
        )
    }

    func error(_ problem: String, at path: JSONPath) -> ConfigurationError {
        ConfigurationError(issues: [issue(problem, at: path)])
    }
}

/// The positions of the values in a text, which is parsed again only when the first issue is reported.
private final class Positions: Sendable {
    private let text: [UInt8]
    private let map = Mutex<JSONSourceMap?>(nil)

    init(_ text: [UInt8]) { self.text = text }

    func position(of path: JSONPath) -> (line: Int, column: Int) {
        // Values that do not come from a file have no position.
        let unknown = text.isEmpty ? 0 : 1
        return map.withLock { map in
            map = map ?? (try? JSONSourceMap(of: text))
            return map.map { $0.position(of: path) }.map { ($0.line, $0.column) } ?? (unknown, unknown)
        }
    }
}
