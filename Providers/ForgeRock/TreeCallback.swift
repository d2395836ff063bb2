public import AuthFlow

/// A callback in a step of a tree, with its answer, in the format of `/json/authenticate`.
public struct TreeCallback: Sendable {
    /// The type of the callback, such as `NameCallback`.
    public let type: String

    /// The callback to send back, with its answers and otherwise unchanged.
    public private(set) var json: JSON

    init?(_ json: JSON) {
        guard let type = json["type"]?.string else { return nil }
        self.type = type
        self.json = json
    }

    /// An output value of the callback, such as `prompt` or `choices`.
    public func output(_ name: String) -> JSON? {
        json["output"]?.array?.first { $0["name"]?.string == name }?["value"]
    }

    /// The number of answers that can be set.
    var inputCount: Int { json["input"]?.array?.count ?? 0 }

    /// The prompt or the message; empty when the callback has neither.
    public var prompt: String { output("prompt")?.string ?? output("message")?.string ?? "" }

    /// The name of the requested value; empty when the callback has none.
    public var name: String { output("name")?.string ?? "" }

    /// The key of the answer in a configuration: the prompt if there is one, otherwise the name, otherwise the type.
    public var key: String { [prompt, name, type].first { !$0.isEmpty } ?? type }

    /// A question with its answer. If the server asks the same question again, it has not accepted the answer.
    var submission: String {
        // The names of the inputs are left out, because the server numbers them by position.
        let values = (json["input"]?.array ?? []).compactMap { $0["value"] }
        let answers = (try? JSON.array(values).serialized()) ?? []
        // If the callback has a name, numbers in its prompt are also left out, because they can change with each attempt ("2 attempts left"). A
        // callback without a name is matched by its exact prompt.
        let question = name.isEmpty ? prompt : prompt.filter { !$0.isNumber }
        return "\(type) \(question) \(name) \(String(decoding: answers, as: UTF8.self))"
    }

    /// Whether the callback asks for text, such as a password. Messages need no answer, and a choice may be offered on several pages.
    var asksForText: Bool {
        let others: Set = [
            "TextOutputCallback", "SuspendedTextOutputCallback", "PollingWaitCallback", "MetadataCallback",
            "HiddenValueCallback", "ConfirmationCallback", "ChoiceCallback", "BooleanAttributeInputCallback",
            "TermsAndConditionsCallback", "ConsentMappingCallback", "SelectIdPCallback",
        ]
        return !others.contains(type)
    }

    /// Whether the callback asks for a user name.
    var asksForUserName: Bool {
        ["NameCallback", "ValidatedCreateUsernameCallback"].contains(type) && !asksForCode
    }

    /// Whether the prompt mentions a one-time code, or this is a `PasswordCallback` whose input is echoed, as a password's
    /// never is.
    var asksForCode: Bool {
        let words = prompt.lowercased().split { !$0.isLetter && !$0.isNumber }.map(String.init)
        return words.contains(where: Self.codeWords.contains) || words.joined(separator: " ").contains("one time")
            || words.contains { $0.hasPrefix("einmal") }
            || type == "PasswordCallback" && output("echoOn") == .bool(true)
    }

    private static let codeWords: Set<String> = [
        "2fa", "authenticator", "challenge", "code", "digit", "digits", "mfa", "onetimepassword", "otp", "passcode",
        "pin",
        "securid", "tan", "token", "totp", "verification",
    ]

    /// The secret answers: passwords, one-time codes, and answers to security questions.
    var secrets: [Secret] {
        let isSecret = type.contains("Password") || type.hasPrefix("Kba") || asksForCode
        return isSecret ? (json["input"]?.array ?? []).compactMap { $0["value"]?.string.map(Secret.init) } : []
    }

    /// Sets an answer.
    /// - Parameters:
    ///   - value: The answer.
    ///   - index: The index of the answer, when there are several.
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

/// A step of a tree: a page of callbacks.
public struct TreeStep: Sendable {
    /// The name of the step; empty when it has none.
    public let stage: String

    /// The heading of the step.
    public let header: String

    /// The callbacks of the step.
    public internal(set) var callbacks: [TreeCallback]

    /// The number of callbacks and of their inputs.
    var size: Int { callbacks.reduce(callbacks.count) { $0 + $1.inputCount } }

    /// Whether this is the first step of the tree; false if unknown.
    public internal(set) var isFirst = false

    /// Whether the server has already sent a step with the same callbacks.
    public internal(set) var isRepeated = false

    /// Whether this is the first step and it asks for a user name and exactly one password, which then belong together.
    var asksForUsernameAndPassword: Bool {
        let passwords = callbacks.filter { ["PasswordCallback", "ValidatedCreatePasswordCallback"].contains($0.type) }
        return isFirst
            && callbacks.contains { ["NameCallback", "ValidatedCreateUsernameCallback"].contains($0.type) }
            && passwords.count == 1 && !passwords.contains(where: \.asksForCode)
    }

    /// The step as it was received, with its `authId`, to be sent back.
    private let json: JSON

    init?(_ json: JSON) {
        guard json["authId"]?.string != nil, let callbacks = json["callbacks"]?.array else { return nil }
        self.json = json
        self.stage = json["stage"]?.string ?? ""
        self.header = json["header"]?.string ?? ""
        self.callbacks = callbacks.compactMap(TreeCallback.init)
        // The server rejects a step with a missing callback, so every callback must be parsed to be sent back.
        guard self.callbacks.count == callbacks.count else { return nil }
    }

    /// The step with its answers: the same callbacks in the same order, and otherwise unchanged.
    var answeredJSON: JSON {
        var members = json.object ?? [:]
        members["callbacks"] = .array(callbacks.map(\.json))
        return .object(members)
    }

    /// The secret answers.
    var secrets: [Secret] { callbacks.flatMap(\.secrets) }

    /// A value that identifies the step. It is the same for each repetition of a polling step.
    var content: [String] { callbacks.map { "\($0.type) \($0.prompt) \($0.name)" } }
}

extension TreeCallback: CustomStringConvertible, NonReflectable {
    /// The type only, because the answers are secret.
    public var description: String { DisplayText.sanitized(type, limit: 60) }
}

extension TreeStep: CustomStringConvertible, NonReflectable {
    /// The types of the callbacks only, because the answers are secret.
    public var description: String { callbacks.map(\.description).joined(separator: " ") }
}
