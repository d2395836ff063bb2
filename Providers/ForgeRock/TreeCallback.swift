import AuthFlow
public import AuthFlowJSON

/// One question of a tree's step, and the answer to it, as `/json/authenticate` writes both.
public struct TreeCallback: Sendable {
    /// What kind of question it is, such as `NameCallback`.
    public let type: String

    /// The callback as it is sent back: with its answers, and with everything it came with.
    public private(set) var json: JSON

    init?(_ json: JSON) {
        guard let type = json["type"]?.string else { return nil }
        self.type = type
        self.json = json
    }

    /// A value of the question, such as `prompt` or `choices`.
    public func output(_ name: String) -> JSON? {
        json["output"]?.array?.first { $0["name"]?.string == name }?["value"]
    }

    /// What the question is, in words; empty when it has none.
    public var prompt: String { output("prompt")?.string ?? output("message")?.string ?? "" }

    /// What the question is about, for those that have a name of their own.
    public var name: String { output("name")?.string ?? "" }

    /// What an answer to it can be configured under: its prompt, or what it is about, or its type when it has neither.
    public var key: String { [prompt, name, type].first { !$0.isEmpty } ?? type }

    /// How many answers it takes.
    public var inputCount: Int { json["input"]?.array?.count ?? 0 }

    /// Answers.
    /// - Parameters:
    ///   - value: The answer.
    ///   - index: Which of the answers, when there are several.
    public mutating func answer(_ value: JSON, at index: Int = 0) {
        guard var members = json.object, var inputs = members["input"]?.array, inputs.indices.contains(index),
            var input = inputs[index].object
        else { return }
        input["value"] = value
        inputs[index] = .object(input)
        members["input"] = .array(inputs)
        json = .object(members)
    }
}

/// A step of a tree: a page of questions.
public struct TreeStep: Sendable {
    /// What the step is called; empty when it has no name.
    public let stage: String

    /// Its heading.
    public let header: String

    /// Its questions.
    public internal(set) var callbacks: [TreeCallback]

    /// Whether it is the first step of its tree; false when that is not known.
    public internal(set) var isFirst = false

    /// Whether it has come before, with the same questions.
    public internal(set) var isRepeated = false

    /// Whether it is the first step and asks for a name: what is asked beside it is then its password.
    var asksForNameFirst: Bool {
        isFirst && callbacks.contains { ["NameCallback", "ValidatedCreateUsernameCallback"].contains($0.type) }
            && callbacks.count { ["PasswordCallback", "ValidatedCreatePasswordCallback"].contains($0.type) } == 1
    }

    /// Everything that came, `authId` among it, to be sent back.
    private let json: JSON

    init?(_ json: JSON) {
        guard json["authId"]?.string != nil, let callbacks = json["callbacks"]?.array else { return nil }
        self.json = json
        self.stage = json["stage"]?.string ?? ""
        self.header = json["header"]?.string ?? ""
        self.callbacks = callbacks.compactMap(TreeCallback.init)
        // One that is left out is an error at the other side, and one that cannot be read cannot be sent back.
        guard self.callbacks.count == callbacks.count else { return nil }
    }

    /// The step with its answers: the same callbacks in the same order, and all that came with them.
    var answered: JSON {
        var members = json.object ?? [:]
        members["callbacks"] = .array(callbacks.map(\.json))
        return .object(members)
    }

    /// What tells steps apart: a step that comes again has not taken its answers.
    var questions: [String] { callbacks.map { "\($0.type) \($0.prompt) \($0.name)" } }
}

extension TreeCallback: CustomStringConvertible, CustomReflectable {
    /// Its type: what was answered is secret.
    public var description: String { DisplayText.sanitized(type, limit: 60) }
    /// A mirror without children, for the same reason.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

extension TreeStep: CustomStringConvertible, CustomReflectable {
    /// The types of its questions: what was answered is secret.
    public var description: String { callbacks.map(\.description).joined(separator: " ") }
    /// A mirror without children, for the same reason.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
