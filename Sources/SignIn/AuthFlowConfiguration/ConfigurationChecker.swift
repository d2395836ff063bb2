import AuthFlowHTTP
import AuthFlowJSON

/// Validates a configuration against the expected shapes, and collects the issues.
struct ConfigurationChecker {
    private let source: ConfigurationSource
    private(set) var issues: [ConfigurationIssue] = []

    /// Whether there are more issues than are listed.
    private var isFull: Bool { issues.count > ConfigurationError.limit }

    init(source: ConfigurationSource) { self.source = source }

    mutating func check(_ json: JSON, _ shape: ConfigurationShape, at path: JSONPath) {
        guard !isFull else { return }
        switch shape {
        case .any:
            break
        case .typedObject:
            guard json.object != nil else { return expected("an object with a \"type\"", json, at: path) }
            guard let type = json["type"] else { return report("the key \"type\" is missing", at: path) }
            check(type, .text, at: path.member("type"))
        case .text, .path:
            if json.string?.isEmpty != false { expected("a non-empty string", json, at: path) }
        case .formatted(let format, let problem):
            guard let text = json.string, !text.isEmpty else {
                return expected(format == "uri" ? "a URL" : "a non-empty string", json, at: path)
            }
            if let problem = problem(text) { report(problem, at: path) }
        case .number(let range):
            let needed = "a whole number from \(range.lowerBound) to \(range.upperBound)"
            guard let number = json.number else { return expected(needed, json, at: path) }
            let whole = json.wholeNumber
            guard whole.map({ range.contains(Int($0)) }) != true else { return }
            let found = whole.map { "\($0)" } ?? "\(number)"
            report("expected \(needed), found \(found)", at: path)
        case .flag:
            if json.bool == nil { expected("true or false", json, at: path) }
        case .choice(let names):
            guard let name = json.string else { return expected(Self.list(names), json, at: path) }
            if !names.contains(name) { unknown("value", name, among: names, at: path) }
        case .secret:
            checkSecret(json, at: path)
        case .list(let element, let canBeEmpty):
            guard let elements = json.array, canBeEmpty || !elements.isEmpty else {
                let form = json.string == nil ? "" : ", such as [\"a\", \"b\"]"
                return expected((canBeEmpty ? "an array" : "an array with at least one element") + form, json, at: path)
            }
            for (index, value) in elements.enumerated() { check(value, element, at: path.element(index)) }
        case .map(let value, let problem):
            guard let members = json.object else { return expected("an object", json, at: path) }
            for (name, member) in members.sorted(by: { $0.key < $1.key }) {
                if let problem = problem(name) { report(problem, at: path.member(name)) }
                check(member, value, at: path.member(name))
            }
        case .object(let keys):
            checkObject(json, keys, at: path)
        case .named(let variants):
            checkNamed(json, variants, at: path)
        case .either(let first, let second):
            check(json, second.isStructured(json) ? second : first, at: path)
        }
    }

    private mutating func checkObject(_ json: JSON, _ keys: [ConfigurationKeyDeclaration], at path: JSONPath) {
        guard let members = json.object else { return expected("an object", json, at: path) }
        let names = keys.map(\.name)
        var meant: [String] = []
        for name in members.keys.sorted() where !names.contains(name) && !isFull {
            if let near = unknown("key", name, among: names, at: path.member(name)) { meant.append(near) }
        }
        for key in keys {
            if let member = members[key.name] {
                check(member, key.shape, at: path.member(key.name))
            } else if key.isRequired, !meant.contains(key.name) {
                // A misspelled key is reported only once, as an unknown key.
                report(key.missing, at: path)
            }
        }
    }

    private mutating func checkNamed(_ json: JSON, _ variants: [ConfigurationVariant], at path: JSONPath) {
        let names = variants.map(\.name)
        let isObject = json.object != nil
        guard isObject || json.string != nil else {
            return expected("\(Self.list(names)), or an object with \"name\" and options", json, at: path)
        }
        guard let name = isObject ? json["name"]?.string : json.string else {
            return report("the key \"name\" is missing or not a string: it must be \(Self.list(names))", at: path)
        }
        guard let variant = variants.first(where: { $0.name == name }) else {
            unknown("name", name, among: names, at: isObject ? path.member("name") : path)
            return
        }
        guard !isObject else { return checkObject(json, variant.allKeys, at: path) }
        for key in variant.keys where key.isRequired {
            report(
                "\"\(name)\" needs options: write {\"name\": \"\(name)\", \"\(key.name)\": ...}. \(key.summary)",
                at: path
            )
        }
    }

    private mutating func checkSecret(_ json: JSON, at path: JSONPath) {
        let forms = #"{"env": "NAME"}, {"file": "path"} or {"command": ["program"]}"#
        guard let members = json.object else {
            return report("a secret must not be written in the file: use \(forms)", at: path)
        }
        guard members.count == 1, let (kind, value) = members.first else {
            return report("a secret must be written as one of \(forms)", at: path)
        }
        if kind == "value", let name = value.string, source.secrets[name] != nil { return }
        let kinds = ["env", "file", "command"]
        guard kinds.contains(kind) else {
            unknown("key", kind, among: kinds, at: path.member(kind))
            return
        }
        let isValid =
            kind == "command" ? value.strings?.first?.isEmpty == false : value.string?.isEmpty == false
        if !isValid { report("a secret must be written as one of \(forms)", at: path) }
    }

    // MARK: Wording

    private mutating func report(_ problem: String, at path: JSONPath) {
        if !isFull { issues.append(source.issue(problem, at: path)) }
    }

    private mutating func expected(_ what: String, _ json: JSON, at path: JSONPath) {
        let isEmpty = json.string?.isEmpty == true
        report(isEmpty ? "the string is empty" : "expected \(what), found \(json.kind)", at: path)
    }

    /// - Returns: The most similar known name; nil if none is similar.
    @discardableResult
    private mutating func unknown(
        _ what: String,
        _ name: String,
        among names: [String],
        at path: JSONPath
    ) -> String? {
        let shown = DisplayText.sanitized(name, limit: 60)
        let near = NearestName.of(name, among: names)
        report("unknown \(what) \"\(shown)\". \(NearestName.advice(near: near, among: names))", at: path)
        return near
    }

    private static func list(_ names: [String]) -> String {
        names.map { "\"\($0)\"" }.joined(separator: " or ")
    }
}
