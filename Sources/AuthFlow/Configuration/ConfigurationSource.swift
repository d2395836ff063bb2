import AuthFlowJSON

/// Where a configuration came from: its name for messages, the folder its paths are relative to, and its text.
struct ConfigurationSource: Sendable {
    let file: String
    let directory: String
    /// Where places are looked up when there is something to say about one, which is seldom.
    let text: [UInt8]

    func issue(_ problem: String, at path: JSONPath) -> ConfigurationIssue {
        let places = try? JSONSourceMap(of: text)
        let position = places?.position(of: path) ?? JSONPosition(of: 0, in: text)
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
