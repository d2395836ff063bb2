import AuthFlowHTTP
import AuthFlowJSON

/// The source of a configuration: its name for messages, the base directory for its relative paths, and its text.
struct ConfigurationSource: Sendable {
    let file: String
    let directory: String
    /// The text, which is parsed again only to find the position of an issue.
    let text: [UInt8]
    /// Secrets that were looked up by key instead of read from a file, by the placeholder for each: `{"value": "0"}`.
    var secrets: [String: Secret] = [:]

    func issue(_ problem: String, at path: JSONPath) -> ConfigurationIssue {
        let position = (try? JSONSourceMap(of: text))?.position(of: path)
        return ConfigurationIssue(
            file: file,
            line: position?.line ?? (text.isEmpty ? 0 : 1),
            column: position?.column ?? (text.isEmpty ? 0 : 1),
            keyPath: path.description,
            problem: problem
        )
    }

    func error(_ problem: String, at path: JSONPath) -> ConfigurationError {
        ConfigurationError(issues: [issue(problem, at: path)])
    }
}
