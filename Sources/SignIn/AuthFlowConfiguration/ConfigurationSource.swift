import AuthFlowJSON

/// The source of a configuration: its name for messages, the folder its paths are relative to, and its text.
struct ConfigurationSource: Sendable {
    let file: String
    let directory: String
    /// The text in which the place of a fault is looked up when there is one, which is rare.
    let text: [UInt8]

    func issue(_ problem: String, at path: JSONPath) -> ConfigurationIssue {
        let position = (try? JSONSourceMap(of: text))?.position(of: path)
        return ConfigurationIssue(
            file: file,
            line: position?.line ?? 1,
            column: position?.column ?? 1,
            keyPath: path.description,
            problem: problem
        )
    }

    func error(_ problem: String, at path: JSONPath) -> ConfigurationError {
        ConfigurationError(issues: [issue(problem, at: path)])
    }
}
