public import AuthFlow
import AuthFlowJSON

/// A type that answers questions of a tree.
///
/// Handlers are asked in order until one answers. Write one for questions that only your app can answer, such as those of a
/// device's own hardware, or to show the questions in your own interface.
public protocol CallbackHandler: Sendable {
    /// Whether it would answer otherwise the next time: a person may, a configuration does not. A step that comes again to
    /// handlers that would not ends the sign-in.
    var mayAnswerOtherwise: Bool { get }

    /// Answers a question.
    /// - Returns: Whether it was a question for this handler.
    /// - Throws: ``AuthFlow/AuthError`` to end the sign-in.
    func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> Bool
}

extension [any CallbackHandler] {
    /// Has the first handler that can answer a question.
    /// - Throws: ``AuthFlow/AuthError`` with `unknown_callback` when none can.
    func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> any CallbackHandler {
        for handler in self where try await handler.answer(&callback, in: step) { return handler }
        let type = DisplayText.sanitized(callback.type, limit: 60)
        throw AuthError(
            .unknownCallback,
            "The tree asks a \(type) (\"\(DisplayText.sanitized(callback.prompt))\"), which nothing here answers. Configure an answer, or write a CallbackHandler for it."
        )
    }
}

/// Answers what needs no answer: texts, values that pass through, and data for pages.
struct PassiveCallbacks: CallbackHandler {
    let mayAnswerOtherwise = false

    func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> Bool {
        switch callback.type {
        // A message of type 4 is a script for a page; it is sent back as it came, and never run.
        case "TextOutputCallback", "HiddenValueCallback", "PollingWaitCallback": return true
        case "MetadataCallback": return callback.output("data")?["_type"] == nil
        case "SuspendedTextOutputCallback":
            throw AuthError(
                .treeSuspended,
                "The sign-in goes on by a link that was sent to you: \(DisplayText.sanitized(callback.prompt)). Open it in a browser, and start again."
            )
        default: return false
        }
    }
}

/// Answers from what a program was given: a user name, a password, and answers by question.
public struct ConfiguredAnswers: CallbackHandler {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public let mayAnswerOtherwise = false

    private let userName: String?
    private let password: Secret?
    private let answers: [String: Secret]

    /// Creates a handler.
    /// - Parameters:
    ///   - userName: For questions of the name.
    ///   - password: For questions of the password.
    ///   - answers: For other questions, by their prompt or by what they are about, without case. A choice is named by its label;
    ///     yes and no are `true` and `false`; terms are `terms`.
    public init(userName: String? = nil, password: Secret? = nil, answers: [String: Secret] = [:]) {
        self.userName = userName
        self.password = password
        self.answers = Dictionary(answers.map { ($0.lowercased(), $1) }) { first, _ in first }
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> Bool {
        let key = callback.type == "TermsAndConditionsCallback" ? "terms" : callback.prompt.lowercased()
        let given = (answers[key] ?? answers[callback.name.lowercased()])?.exposed
        switch callback.type {
        case "NameCallback", "ValidatedCreateUsernameCallback":
            guard let name = given ?? userName else { return false }
            callback.answer(.string(name))
        case "PasswordCallback", "ValidatedCreatePasswordCallback":
            guard let password = given ?? password?.exposed else { return false }
            callback.answer(.string(password))
        default:
            guard let given else { return false }
            try QuestionForms.answer(&callback, with: given)
        }
        return true
    }
}

/// Asks a person, one question after the other.
public struct AskingHandler: CallbackHandler {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public let mayAnswerOtherwise = true

    private let ask: @Sendable (_ question: String, _ isSecret: Bool) async throws -> String

    /// Creates a handler.
    /// - Parameter ask: Asks a question and returns the answer; a secret one is not to be seen while it is typed.
    public init(_ ask: @escaping @Sendable (_ question: String, _ isSecret: Bool) async throws -> String) {
        self.ask = ask
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> Bool {
        guard let question = QuestionForms.question(of: callback) else { return false }
        let isSecret = ["PasswordCallback", "ValidatedCreatePasswordCallback"].contains(callback.type)
        try QuestionForms.answer(&callback, with: try await ask(question, isSecret))
        return true
    }
}

/// How questions of each kind are put into words, and their answers into values.
enum QuestionForms {
    /// The question in words; nil when it is of a kind that words cannot answer.
    static func question(of callback: TreeCallback) -> String? {
        let prompt = DisplayText.sanitized(callback.prompt)
        switch callback.type {
        case "NameCallback", "PasswordCallback", "TextInputCallback", "StringAttributeInputCallback",
            "NumberAttributeInputCallback", "ValidatedCreateUsernameCallback", "ValidatedCreatePasswordCallback":
            return prompt
        case "ChoiceCallback", "ConfirmationCallback":
            let labels = labels(of: callback).map { DisplayText.sanitized($0, limit: 80) }
            return ([prompt] + labels).filter { !$0.isEmpty }.joined(separator: " / ")
        case "BooleanAttributeInputCallback": return "\(prompt) (yes or no)"
        case "TermsAndConditionsCallback":
            return "\(DisplayText.sanitized(callback.output("terms")?.string ?? "", limit: 2000)) Accept? (yes or no)"
        default: return nil
        }
    }

    /// Puts an answer into the callback.
    static func answer(_ callback: inout TreeCallback, with text: String) throws {
        switch callback.type {
        case "ChoiceCallback", "ConfirmationCallback":
            let labels = labels(of: callback)
            let index = labels.firstIndex { $0.lowercased() == text.lowercased() } ?? Int(text)
            guard let index, labels.indices.contains(index) else {
                throw AuthError(
                    .userAgentFailed,
                    "The answer to \"\(DisplayText.sanitized(callback.prompt))\" is none of \(labels.map { DisplayText.sanitized($0, limit: 80) }.joined(separator: ", "))."
                )
            }
            callback.answer(.integer(Int64(index)))
        case "BooleanAttributeInputCallback", "TermsAndConditionsCallback":
            callback.answer(.bool(["true", "yes", "y", "accept"].contains(text.lowercased())))
        case "NumberAttributeInputCallback":
            let number = Int64(text).map(JSON.integer) ?? Double(text).flatMap { $0.isFinite ? JSON.double($0) : nil }
            guard let number else {
                throw AuthError(
                    .userAgentFailed,
                    "The answer to \"\(DisplayText.sanitized(callback.prompt))\" is not a number."
                )
            }
            callback.answer(number)
        default: callback.answer(.string(text))
        }
    }

    /// What can be chosen. Without options of its own, a confirmation has those of its type.
    private static func labels(of callback: TreeCallback) -> [String] {
        let own = (callback.output("choices") ?? callback.output("options"))?.strings ?? []
        guard own.isEmpty, callback.type == "ConfirmationCallback" else { return own }
        switch callback.output("optionType")?.integer {
        case 1: return ["Yes", "No", "Cancel"]
        // The numbers are those of Java's class, where OK is 3.
        case 2: return ["", "", "Cancel", "OK"]
        default: return ["Yes", "No"]
        }
    }
}

extension AuthError.Code {
    /// A tree asks something that no handler answers.
    public static let unknownCallback = Self(rawValue: "unknown_callback")
    /// A tree goes on by a link that was sent to the person.
    public static let treeSuspended = Self(rawValue: "tree_suspended")
    /// The account is locked.
    public static let accountLocked = Self(rawValue: "account_locked")
}
