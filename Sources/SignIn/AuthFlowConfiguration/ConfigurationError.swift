/// The issues in a configuration file, each with its location.
public struct ConfigurationError: Error, Sendable, Hashable {
    /// The maximum number of issues that are listed.
    package static let limit = 100

    /// The issues, in the order of their locations; at least one. If there are more than 100, the last one states the limit.
    public let issues: [ConfigurationIssue]

    /// Creates an error from at least one issue.
    package init(issues: [ConfigurationIssue]) {
        let sorted = issues.sorted { ($0.line, $0.column) < ($1.line, $1.column) }
        let rest = sorted.dropFirst(Self.limit).first.map { first in
            ConfigurationIssue(
                file: first.file,
                line: first.line,
                column: first.column,
                keyPath: "",
                problem: "only the first \(Self.limit) errors are listed"
            )
        }
        self.issues = sorted.prefix(Self.limit) + (rest.map { [$0] } ?? [])
    }
}

extension ConfigurationError: CustomStringConvertible {
    /// One line for each issue.
    public var description: String { issues.map(\.description).joined(separator: "\n") }
}

/// One issue in a configuration file.
public struct ConfigurationIssue: Sendable, Hashable {
    /// The file.
    public let file: String
    /// The line number, starting at 1; 0 when the values do not come from a file.
    public let line: Int
    /// The column, starting at 1; 0 when the values do not come from a file.
    public let column: Int
    /// The path to the value, such as `profiles.work.scopes[1]`; empty for the whole file.
    public let keyPath: String
    /// The problem and how to fix it. Values from the file are quoted only if they are names, numbers, paths, URLs or addresses.
    public let problem: String
}

extension ConfigurationIssue: CustomStringConvertible {
    /// `file:line:column: key path: problem`, which editors turn into a link.
    public var description: String {
        (line == 0 ? "\(file): " : "\(file):\(line):\(column): ") + (keyPath.isEmpty ? "" : "\(keyPath): ") + problem
    }
}
