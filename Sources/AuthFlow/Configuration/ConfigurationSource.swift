import AuthFlowJSON

/// Where a configuration came from: its name for messages, the folder its paths are relative to, and the place of each
/// value.
struct ConfigurationSource: Sendable {
    let file: String
    let directory: String
    let places: JSONSourceMap

    func issue(_ problem: String, at path: JSONPath) -> ConfigurationIssue {
        let position = places.position(of: path)
        return ConfigurationIssue(
            file: file,
            line: position.line,
            column: position.column,
            keyPath: path.description,
            problem: problem
        )
    }

    func error(_ problem: String, at path: JSONPath) -> ConfigurationError {
        ConfigurationError(issues: [issue(problem, at: path)])
    }
}
