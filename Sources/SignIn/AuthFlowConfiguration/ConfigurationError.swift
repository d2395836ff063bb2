/// The faults of a configuration file, each with its place.
public struct ConfigurationError: Error, Sendable, Hashable {
    /// The faults, in the order of their places; at least one.
    public let issues: [ConfigurationIssue]

    /// Creates an error from at least one fault.
    public init(issues: [ConfigurationIssue]) {
        self.issues = issues.sorted { ($0.line, $0.column) < ($1.line, $1.column) }
    }
}

extension ConfigurationError: CustomStringConvertible {
    /// One line for each fault.
    public var description: String { issues.map(\.description).joined(separator: "\n") }
}

/// One fault in a configuration file.
public struct ConfigurationIssue: Sendable, Hashable {
    /// The file.
    public let file: String
    /// The line number, starting at 1; 0 where the values are in no file.
    public let line: Int
    /// The column, from 1; 0 where the values are in no file.
    public let column: Int
    /// The path to the value, such as `profiles.work.scopes[1]`; empty for the whole file.
    public let keyPath: String
    /// What is wrong and what to write instead. Values of the file are quoted only where they are names.
    public let problem: String
}

extension ConfigurationIssue: CustomStringConvertible {
    /// `file:line:column: key path: problem`, which editors turn into a link.
    public var description: String {
        (line == 0 ? "\(file): " : "\(file):\(line):\(column): ") + (keyPath.isEmpty ? "" : "\(keyPath): ") + problem
    }
}
