import AuthFlowEssentials
public import AuthFlowHTTP
import AuthFlowJSON
import AuthFlowSignIn

/// A kind of value in a configuration file: its shape in the file, and its conversion to a Swift value.
public struct ConfigurationValue<Value: Sendable>: Sendable {
    let shape: ConfigurationShape
    let read: @Sendable (ConfigurationNode) throws(ConfigurationError) -> Value
    /// Encodes a value as it appears in the file, for the JSON Schema; nil when the value cannot be encoded.
    let write: @Sendable (Value) -> JSON?

    init(
        _ shape: ConfigurationShape,
        write: @escaping @Sendable (Value) -> JSON? = { _ in nil },
        read: @escaping @Sendable (ConfigurationNode) throws(ConfigurationError) -> Value
    ) {
        self.shape = shape
        self.write = write
        self.read = read
    }

    /// Transforms the value when it is read. An error from `transform` is reported with the location of the value.
    public func map<New>(
        _ transform: @escaping @Sendable (Value) throws(AuthError) -> New
    ) -> ConfigurationValue<New> {
        ConfigurationValue<New>(shape) { node throws(ConfigurationError) in
            let value = try read(node)
            return try node.located { () throws(AuthError) in try transform(value) }
        }
    }

    /// Either of two forms of a value; only the second is an array or an object.
    public static func either(_ plain: Self, _ structured: Self) -> Self {
        Self(.either(plain.shape, structured.shape), write: { plain.write($0) ?? structured.write($0) }) {
            node throws(ConfigurationError) in
            structured.shape.isStructured(node.json) ? try structured.read(node) : try plain.read(node)
        }
    }

    /// A non-empty string that `parse` accepts. `parse` runs when the file is validated, so that the errors
    /// of all values are reported together.
    /// - Parameters:
    ///   - format: A JSON Schema format, such as `uri`; default: none.
    ///   - parse: Creates the value from the string.
    public static func parsed(
        _ format: String? = nil,
        _ parse: @escaping @Sendable (String) throws(AuthError) -> Value
    ) -> Self {
        let problem: @Sendable (String) -> String? = { text in
            do throws(AuthError) { _ = try parse(text) } catch { return error.message }
            return nil
        }
        return Self(.formatted(format, problem: problem)) { node throws(ConfigurationError) in
            let text = try node.required(node.json.string)
            return try node.located { () throws(AuthError) in try parse(text) }
        }
    }
}

extension ConfigurationValue<String> {
    /// A string with at least one character.
    public static var text: Self {
        Self(.text, write: JSON.string) { node throws(ConfigurationError) in try node.required(node.json.string) }
    }

    /// One of these strings.
    public static func choice(_ names: [String]) -> Self {
        Self(.choice(names), write: JSON.string) { node throws(ConfigurationError) in
            try node.required(node.json.string)
        }
    }

    /// An issuer: a URL that is stored exactly as written, because issuers are compared as strings (RFC 9207 section 2.4).
    public static var issuer: Self {
        .parsed("uri") { text throws(AuthError) in try Endpoint(issuer: text).url }
    }

    /// The path of a file or directory, converted to an absolute path: in the file it may be relative to the directory of the
    /// configuration file, or begin with `~/`.
    public static var path: Self {
        Self(.path) { node throws(ConfigurationError) in node.absolute(try node.required(node.json.string)) }
    }
}

extension ConfigurationValue<JSON> {
    /// An array of objects, each with a `type`; `check` validates it when it is read.
    static func typedObjects(_ check: @escaping @Sendable (JSON) throws(AuthError) -> Void) -> Self {
        Self(.list(.typedObject, canBeEmpty: false)) { node throws(ConfigurationError) in
            try node.located { () throws(AuthError) in try check(node.json) }
            return node.json
        }
    }
}

extension ConfigurationValue<Endpoint> {
    /// An absolute URL: `https`, or `http` for loopback.
    public static var url: Self { .parsed("uri") { text throws(AuthError) in try Endpoint(text) } }

    /// An origin: a URL without a path or query, because a restriction to a path could not be enforced.
    package static var origin: Self {
        .parsed("uri") { text throws(AuthError) in
            let endpoint = try Endpoint(text)
            guard endpoint.path == "" || endpoint.path == "/", endpoint.query == nil else {
                throw AuthError(
                    .invalidConfiguration,
                    "an origin must not have a path or a query: use \(endpoint.origin)"
                )
            }
            return endpoint
        }
    }
}

extension ConfigurationValue<Int> {
    /// An integer within bounds.
    public static func number(_ range: ClosedRange<Int>) -> Self {
        Self(.number(range), write: { .integer(Int64($0)) }) { node throws(ConfigurationError) in
            Int(try node.required(node.json.wholeNumber))
        }
    }
}

extension ConfigurationValue<Duration> {
    /// A whole number of seconds within bounds.
    public static func seconds(_ range: ClosedRange<Int>) -> Self {
        Self(.number(range), write: { .integer($0.components.seconds) }) { node throws(ConfigurationError) in
            .seconds(try node.required(node.json.wholeNumber))
        }
    }
}

extension ConfigurationValue<Bool> {
    /// `true` or `false`.
    public static var flag: Self {
        Self(.flag, write: JSON.bool) { node throws(ConfigurationError) in try node.required(node.json.bool) }
    }
}

extension ConfigurationValue where Value: RawRepresentable<String> {
    /// One of the given values, identified by its raw value.
    public static func choice(of values: [Value]) -> Self {
        Self(.choice(values.map(\.rawValue)), write: { .string($0.rawValue) }) { node throws(ConfigurationError) in
            try node.required(values.first { $0.rawValue == node.json.string })
        }
    }
}

extension ConfigurationValue where Value: RawRepresentable<String> & CaseIterable {
    /// One of the cases of a type, by its raw value.
    public static var choice: Self { .choice(of: Array(Value.allCases)) }
}

extension ConfigurationValue where Value: Equatable {
    /// One of these values, by name.
    public static func named(_ values: KeyValuePairs<String, Value>) -> Self {
        let pairs = Array(values)
        return Self(
            .choice(pairs.map(\.key)),
            write: { value in pairs.first { $0.value == value }.map { .string($0.key) } }
        ) { node throws(ConfigurationError) in
            try node.required(pairs.first { $0.key == node.json.string }?.value)
        }
    }
}

extension ConfigurationValue {
    /// An array with elements of one kind.
    /// - Parameters:
    ///   - element: The kind of its elements.
    ///   - canBeEmpty: Whether the array may be empty; default: false.
    public static func list<Element>(_ element: ConfigurationValue<Element>, canBeEmpty: Bool = false) -> Self
    where Value == [Element] {
        Self(
            .list(element.shape, canBeEmpty: canBeEmpty),
            write: { $0.isEmpty && !canBeEmpty ? nil : .array($0.compactMap(element.write)) }
        ) { node throws(ConfigurationError) in
            // `map` would not preserve the type of the error.
            var values: [Element] = []
            for node in node.elements { values.append(try element.read(node)) }
            return values
        }
    }

    /// A single value, or an array of at least one value.
    package static func oneOrMore<Element>(_ element: ConfigurationValue<Element>) -> Self where Value == [Element] {
        let one = ConfigurationValue<[Element]>(element.shape, write: { $0.count == 1 ? element.write($0[0]) : nil }) {
            node throws(ConfigurationError) in [try element.read(node)]
        }
        return .either(one, .list(element))
    }

    /// An object with user-defined names, and values of one kind.
    /// - Parameters:
    ///   - element: The kind of its values.
    ///   - name: Rejects a name by throwing; default: every name is accepted.
    public static func map<Element>(
        _ element: ConfigurationValue<Element>,
        name: @escaping @Sendable (String) throws(AuthError) -> Void = { _ throws(AuthError) in }
    ) -> Self where Value == [String: Element] {
        let problem: @Sendable (String) -> String? = { text in
            do throws(AuthError) { try name(text) } catch { return error.message }
            return nil
        }
        return Self(.map(element.shape, problem: problem)) { node throws(ConfigurationError) in
            var values: [String: Element] = [:]
            for (name, member) in node.members { values[name] = try element.read(member) }
            return values
        }
    }

    /// An object with these keys and no others, converted to a value when it is read.
    public static func object(
        _ keys: [any AnyConfigurationKey],
        _ make: @escaping @Sendable (ConfigurationObject) throws(ConfigurationError) -> Value
    ) -> Self {
        Self(.object(keys.map(\.declaration))) { node throws(ConfigurationError) in
            try make(ConfigurationObject(node))
        }
    }
}

extension ConfigurationValue<[String]> {
    /// A program and its arguments. A name with a slash is a path, relative to the directory of the configuration file; any other name is
    /// looked up in the absolute directories of `PATH`.
    public static var command: Self {
        Self(.list(.text, canBeEmpty: false)) { node throws(ConfigurationError) in
            node.command(try node.required(node.json.strings))
        }
    }
}

extension ConfigurationValue<Secret> {
    /// A secret by reference: `{"env": "NAME"}`, `{"file": "path"}` or `{"command": ["program", "argument"]}`. Reading it fails when the
    /// variable is not set, the file cannot be read, or the program fails.
    public static var secret: Self {
        Self(.secret) { node throws(ConfigurationError) in
            if let name = node.json["value"]?.string { return try node.required(node.source.secrets[name]) }
            if let variable = node.json["env"]?.string {
                guard let value = node.environment[variable], !value.isEmpty else {
                    let name = DisplayText.sanitized(variable)
                    throw node.error("the environment variable \(name) is not set, or is empty")
                }
                return Secret(value)
            }
            if let command = node.json["command"]?.strings { return try printed(by: node.command(command), node) }
            let file = node.absolute(try node.required(node.json["file"]?.string))
            let bytes: [UInt8]
            do throws(AuthError) {
                bytes = try TrustedFile(file, kind: "secret file", checksOwners: false)
                    .contents(maximumSize: 64 * 1024)
            } catch {
                throw node.error(error.message)
            }
            guard let secret = try secret(in: bytes, "the file \(file)", node) else {
                throw node.error("the file \(file) is empty")
            }
            return secret
        }
    }

    /// Removes the newline that editors and `echo` append, which is not part of the secret.
    /// - Returns: The secret; nil when there is none.
    private static func secret(
        in bytes: [UInt8],
        _ source: String,
        _ node: ConfigurationNode
    ) throws(ConfigurationError) -> Secret? {
        // Replacing the invalid bytes would result in a different secret.
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw node.error("the secret from \(source) is not UTF-8 text")
        }
        let value = text.hasSuffix("\r\n") || text.hasSuffix("\n") ? String(text.dropLast()) : text
        return value.isEmpty ? nil : Secret(value)
    }

    /// Reads a secret from a program's standard output. No shell is involved, the program has no terminal, and its standard error is discarded.
    private static func printed(by command: [String], _ node: ConfigurationNode) throws(ConfigurationError) -> Secret {
        let name = DisplayText.sanitized(command.first ?? "", limit: 200)
        guard let program = command.first, let path = LaunchEnvironment.find(program, node.environment) else {
            throw node.error("the program \(name) is not installed")
        }
        let found: (status: Int32, bytes: [UInt8]?)
        do {
            found = try ProgramOutput.waiting(
                for: [path] + command.dropFirst(),
                environment: node.environment,
                maximumSize: 64 * 1024,
                limit: .seconds(30)
            )
        } catch is CancellationError {
            throw node.error("the program \(name) was terminated, because the task was cancelled")
        } catch {
            throw node.error("the program \(name) could not be run")
        }
        guard let bytes = found.bytes else {
            throw node.error("the program \(name) took longer than 30 seconds, or printed more than 64 KiB")
        }
        guard found.status == 0 else { throw node.error("the program \(name) exited with status \(found.status)") }
        guard let secret = try secret(in: bytes, "the program \(name)", node) else {
            throw node.error("the program \(name) printed nothing")
        }
        return secret
    }
}
