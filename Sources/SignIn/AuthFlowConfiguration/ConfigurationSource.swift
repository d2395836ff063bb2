import AuthFlowHTTP
import AuthFlowJSON

/// The source of a configuration: its name for messages, the folder its paths are relative to, and its text.
struct ConfigurationSource: Sendable {
    let file: String
    let directory: String
    /// The text in which the place of a fault is looked up when there is one, which is rare.
    let text: [UInt8]
    /// Secrets that were looked up and are in no file, by what stands for each: `{"value": "0"}`.
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
