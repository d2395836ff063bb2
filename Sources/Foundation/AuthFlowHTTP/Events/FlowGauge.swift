/// A figure of the present state of a process, for monitoring. Its name and labels have no value that a user or a provider chooses.
public struct FlowGauge: Sendable, Hashable, CustomStringConvertible {
    /// The name as Prometheus writes names: lower-case words with underscores, the unit last where there is one.
    public let name: String

    /// The labels, such as the provider's name in the application.
    public var labels: [String: String]

    /// The figure.
    public let value: Double

    /// Creates a gauge.
    public init(_ name: String, _ value: Double, labels: [String: String] = [:]) {
        self.name = name
        self.labels = labels
        self.value = value
    }

    /// Creates a gauge that counts something.
    public init(_ name: String, _ count: Int, labels: [String: String] = [:]) {
        self.init(name, Double(count), labels: labels)
    }

    /// A line of Prometheus' text format.
    public var description: String {
        let pairs = labels.sorted { $0.key < $1.key }.map { "\($0.key)=\"\(Self.escaped($0.value))\"" }
        return "\(name)\(pairs.isEmpty ? "" : "{\(pairs.joined(separator: ","))}") \(value)"
    }
}

extension FlowGauge {
    private static func escaped(_ value: String) -> String {
        value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
}

/// A transport or a store that knows how much it has to do.
public protocol GaugeSource: Sendable {
    /// The present figures. No waiting, no input or output.
    var gauges: [FlowGauge] { get }
}
