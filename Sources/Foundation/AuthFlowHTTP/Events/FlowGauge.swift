/// A metric of the current state of a process, for monitoring. Its name and labels never contain values chosen by a user or a provider.
public struct FlowGauge: Sendable, Hashable, CustomStringConvertible {
    /// The name, following Prometheus naming conventions: lower-case words with underscores, and the unit, if any, last.
    public let name: String

    /// The labels, such as the provider's name in the application.
    public var labels: [String: String]

    /// The value.
    public let value: Double

    /// Creates a gauge.
    public init(_ name: String, _ value: Double, labels: [String: String] = [:]) {
        self.name = name
        self.labels = labels
        self.value = value
    }

    /// Creates a gauge whose value is a count.
    public init(_ name: String, _ count: Int, labels: [String: String] = [:]) {
        self.init(name, Double(count), labels: labels)
    }

    /// A line in the Prometheus text format.
    public var description: String {
        let pairs = labels.sorted { $0.key < $1.key }.map { "\($0.key)=\"\(Self.escaped($0.value))\"" }
        return "\(name)\(pairs.isEmpty ? "" : "{\(pairs.joined(separator: ","))}") \(value)"
    }

    private static func escaped(_ value: String) -> String {
        value.replacing(scalar: "\\", with: "\\\\").replacing(scalar: "\"", with: "\\\"")
            .replacing(scalar: "\n", with: "\\n")
    }
}

/// A transport or a store that reports its current load.
public protocol GaugeSource: Sendable {
    /// The current values. Reading the gauges must neither block nor perform I/O.
    var gauges: [FlowGauge] { get }
}
