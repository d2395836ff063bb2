import AuthFlowJSON

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// An object of a configuration file that has been checked against its keys, for factories to read.
///
/// Reading a key that is absent gives nil. Reading one as something else than its ``ConfigurationShape`` gives nil too:
/// the shape has been checked, so that is a mistake in the factory.
public struct ConfigurationObject: Sendable {
    private let json: JSON
    private let path: JSONPath
    private let source: ConfigurationSource
    private let environment: [String: String]

    init(_ json: JSON, path: JSONPath, source: ConfigurationSource, environment: [String: String]) {
        self.json = json
        self.path = path
        self.source = source
        self.environment = environment
    }

    /// Creates an object without keys, at the place of another.
    init(empty other: ConfigurationObject) {
        self.init([:], path: other.path, source: other.source, environment: other.environment)
    }

    /// Whether the key is present.
    public func has(_ key: String) -> Bool { json[key] != nil }

    /// The string at a key.
    public func text(_ key: String) -> String? { json[key]?.string }

    /// The strings at a key.
    public func texts(_ key: String) -> [String]? { json[key]?.strings }

    /// The number at a key.
    public func number(_ key: String) -> Int? { json[key]?.integer.map(Int.init) }

    /// The Boolean at a key.
    public func flag(_ key: String) -> Bool? { json[key]?.bool }

    /// The endpoint at a key.
    public func endpoint(_ key: String) throws -> Endpoint? {
        try text(key).map { url in try located(key) { () throws(AuthError) in try Endpoint(url, name: key) } }
    }

    /// The strings of a map at a key, in the order of their names.
    public func parameters(_ key: String) -> FormParameters {
        var parameters = FormParameters()
        for (name, value) in (json[key]?.object ?? [:]).sorted(by: { $0.key < $1.key }) {
            parameters.append(name, value.string ?? "")
        }
        return parameters
    }

    /// The object at a key; an empty one when the key is absent.
    public func object(_ key: String) -> ConfigurationObject {
        ConfigurationObject(json[key] ?? [:], path: path.member(key), source: source, environment: environment)
    }

    /// The path at a key, made absolute: relative to the folder of the configuration file, `~/` to the home directory.
    public func filePath(_ key: String) -> String? { text(key).map(absolute) }

    /// The secret that a key refers to.
    /// - Throws: ``ConfigurationError`` when the variable is not set, or the file cannot be read.
    public func secret(_ key: String) throws -> Secret? {
        if let variable = json[key]?["env"]?.string {
            guard let value = environment[variable], !value.isEmpty else {
                throw error("the environment variable \(DisplayText.sanitized(variable)) is not set", at: key)
            }
            return Secret(value)
        }
        if let file = json[key]?["file"]?.string.map(absolute) {
            guard let bytes = BoundedFile.contents(atPath: file, maximumSize: 64 * 1024) else {
                throw error("the file \(file) cannot be read, or has more than 64 KiB", at: key)
            }
            // Editors and `echo` end a file with a line break that is not part of the secret.
            let text = String(decoding: bytes, as: UTF8.self)
            let value = text.hasSuffix("\r\n") || text.hasSuffix("\n") ? String(text.dropLast()) : text
            guard !value.isEmpty else { throw error("the file \(file) is empty", at: key) }
            return Secret(value)
        }
        return nil
    }

    /// An error about a key, with its place.
    public func error(_ problem: String, at key: String? = nil) -> ConfigurationError {
        source.error(problem, at: key.map(path.member) ?? path)
    }

    /// Runs `body`, which may refuse the value of a key, and adds the place to its error.
    public func located<Return>(_ key: String, _ body: () throws(AuthError) -> Return) throws -> Return {
        do throws(AuthError) {
            return try body()
        } catch {
            throw self.error(error.message, at: key)
        }
    }

    /// The named things at a key, in order: one, or a list.
    func choices(_ key: String) -> [(name: String, options: ConfigurationObject)] {
        guard let value = json[key] else { return [] }
        let elements =
            value.array.map { $0.enumerated().map { ($1, path.member(key).element($0)) } } ?? [
                (value, path.member(key))
            ]
        return elements.compactMap { element, place in
            guard let name = element.string ?? element["name"]?.string else { return nil }
            let options = element.object == nil ? JSON.object([:]) : element
            return (name, ConfigurationObject(options, path: place, source: source, environment: environment))
        }
    }

    private func absolute(_ path: String) -> String {
        if path.hasPrefix("~/") { return HomeDirectory.path(environment: environment) + path.dropFirst() }
        return path.hasPrefix("/") ? path : "\(source.directory)/\(path)"
    }
}

extension ConfigurationObject: CustomStringConvertible, CustomReflectable {
    /// The object's place: its file and path.
    public var description: String { "\(source.file): \(path)" }
    /// A mirror without children: the object holds the environment that secrets are read from.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
