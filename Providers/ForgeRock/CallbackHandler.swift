public import AuthFlow

/// A type that answers the callbacks of an authentication tree.
///
/// Handlers are tried in order until one answers. Implement a handler for callbacks that only your app can answer, such as those about
/// the device's hardware, or to present the callbacks in your own user interface.
public protocol CallbackHandler: Sendable {
    /// Whether the handler can give a different answer to a repeated callback, as a user can and a configuration
    /// cannot. If the server asks the same questions again and the handler can only repeat its answer, the sign-in ends, unless the answer is a user
    /// name, and the user has answered another question in the meantime.
    var canChangeAnswer: Bool { get }

    /// Answers a callback.
    /// - Returns: Whether this handler answered the callback.
    /// - Throws: ``/AuthFlow/AuthError`` to end the sign-in.
    func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> Bool
}

extension [any CallbackHandler] {
    /// Passes a callback to the first handler that can answer it, and returns that handler.
    /// - Throws: ``AuthError`` with `unknown_callback` when no handler can.
    func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> any CallbackHandler {
        for handler in self where try await handler.answer(&callback, in: step) { return handler }
        let type = DisplayText.sanitized(callback.type, limit: 60)
        let host = callback.output("redirectUrl")?.string.flatMap { try? Endpoint($0) }.map { " (\($0.host))" } ?? ""
        let problem =
            switch callback.type {
            case "RedirectCallback", "SelectIdPCallback":
                "The tree continues at another identity provider\(host), with a \(type). This needs a browser: use a user agent that opens one."
            case "KbaCreateCallback":
                "The tree asks the user to choose and answer a security question (\(type)), which cannot be configured. Sign in interactively, or write a CallbackHandler for it."
            default:
                "The tree sends a \(type) (\"\(DisplayText.sanitized(callback.prompt))\"), which no handler answers. Configure an answer under \"\(DisplayText.sanitized(callback.key))\", or write a CallbackHandler for it."
            }
        throw AuthError(.unknownCallback, problem)
    }
}

/// In a step that waits for a push notification, answers the confirmation without cancelling the wait:
/// the value 100 means that no option was selected.
struct PollingWaitCallbackHandler: CallbackHandler {
    let canChangeAnswer = true

    func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> Bool {
        guard callback.type == "ConfirmationCallback",
            step.callbacks.contains(where: { $0.type == "PollingWaitCallback" })
        else { return false }
        callback.answer(.integer(100))
        return true
    }
}

/// Handles callbacks that need no answer: messages, values that are sent back unchanged, and data for pages. Selects the tree's own sign-in if
/// identity providers are offered as well, because they need a browser.
struct PassiveCallbackHandler: CallbackHandler {
    let canChangeAnswer = true

    func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> Bool {
        switch callback.type {
        // A message of type 4 is a script for a page; it is sent back unchanged, and never executed.
        case "TextOutputCallback", "HiddenValueCallback", "PollingWaitCallback": return true
        case "MetadataCallback": return callback.output("data")?["_type"] == nil
        case "SelectIdPCallback":
            let local: JSON = "localAuthentication"
            guard callback.output("providers")?.array?.contains(where: { $0["provider"] == local }) == true else {
                return false
            }
            callback.answer(local)
            return true
        case "SuspendedTextOutputCallback":
            throw AuthError(
                .treeSuspended,
                "The sign-in continues with a link that was sent to you: \(DisplayText.sanitized(callback.prompt)). Open the link in a browser, then start again."
            )
        default: return false
        }
    }
}

/// Answers callbacks from a configuration: a user name, a password, and answers to specific callbacks.
///
/// The user name and the password are used only for callbacks that request them. A one-time code is requested with the
/// same callback as a password, but the answer must not be the password.
public struct ConfiguredCallbackHandler: CallbackHandler {
    public let canChangeAnswer = false

    private let username: String?
    private let password: Secret?
    private let answers: [String: Secret]

    /// Creates a handler.
    /// - Parameters:
    ///   - username: The user name, for the first step of a tree and for later callbacks whose prompt asks for it.
    ///   - password: The password, for the first step of a tree if that step also asks for a user name, and for callbacks
    ///     whose prompt is "Password".
    ///   - answers: The answers to other callbacks, by prompt, by name, or, for a callback with neither, by type
    ///     (``TreeCallback/key``). These keys are case-insensitive. A choice is answered with its label, a yes-or-no
    ///     question with `true` or `false`; the key for terms and conditions is `terms`.
    public init(username: String? = nil, password: Secret? = nil, answers: [String: Secret] = [:]) {
        self.username = username
        self.password = password
        self.answers = Dictionary(answers.filter { !$0.key.isEmpty }.map { ($0.lowercased(), $1) }) { first, _ in first
        }
    }

    public func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> Bool {
        if let configuredAnswer = configuredAnswer(for: callback) {
            try CallbackFormatter.answer(&callback, with: configuredAnswer.exposed)
            return true
        }
        switch callback.type {
        case "NameCallback", "ValidatedCreateUsernameCallback":
            guard let username, step.isFirst && !callback.asksForCode || Self.asksForName(callback) else {
                return false
            }
            callback.answer(.string(username))
        case "PasswordCallback", "ValidatedCreatePasswordCallback":
            guard let password, Self.asksForPassword(callback) || step.asksForUsernameAndPassword else { return false }
            callback.answer(.string(password.exposed))
        default: return false
        }
        return true
    }

    private func configuredAnswer(for callback: TreeCallback) -> Secret? {
        // A security question requires two inputs: the selected question and its answer.
        if callback.type == "KbaCreateCallback" { return nil }
        if callback.type == "TermsAndConditionsCallback", let terms = answers["terms"] { return terms }
        return [callback.prompt, callback.name, callback.key].lazy.filter { !$0.isEmpty }
            .compactMap { answers[$0.lowercased()] }.first
    }

    private static func asksForName(_ callback: TreeCallback) -> Bool {
        ["user name", "username", "name"].contains(callback.prompt.lowercased())
    }

    private static func asksForPassword(_ callback: TreeCallback) -> Bool { callback.prompt.lowercased() == "password" }
}

/// Asks the user one question at a time, and shows the tree's messages.
public struct InteractiveCallbackHandler: CallbackHandler {
    public let canChangeAnswer = true

    /// The maximum number of attempts to answer a question.
    private static let maximumAttempts = 5

    private let ask: @Sendable (_ question: String, _ isSecret: Bool) async throws -> String
    private let show: (@Sendable (_ text: String, _ isSecret: Bool) async throws -> Void)?

    /// Creates a handler.
    /// - Parameters:
    ///   - ask: Asks a question and returns the answer. A secret answer must not be echoed while it is typed.
    ///   - show: Shows a message that accompanies the questions, such as a number to compare; nil to omit messages. A secret message, such as
    ///     the key of a new authenticator app, must not be logged.
    public init(
        _ ask: @escaping @Sendable (_ question: String, _ isSecret: Bool) async throws -> String,
        show: (@Sendable (_ text: String, _ isSecret: Bool) async throws -> Void)? = nil
    ) {
        self.ask = ask
        self.show = show
    }

    public func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> Bool {
        if let text = CallbackFormatter.text(of: callback) {
            // A polling step is repeated with the same message.
            if !step.isRepeated { try await show?(text, callback.type == "HiddenValueCallback") }
            return show != nil
        }
        if callback.type == "KbaCreateCallback" { return try await createQuestion(&callback) }
        guard let question = CallbackFormatter.question(of: callback) else { return false }
        let isSecret = ["PasswordCallback", "ValidatedCreatePasswordCallback"].contains(callback.type)
        if let problem = CallbackFormatter.failedPolicies(of: callback) { try await show?(problem, false) }
        try await retry {
            let text = try await ask(question, isSecret)
            let answer = text.isEmpty ? CallbackFormatter.defaultText(of: callback) : text
            try CallbackFormatter.answer(&callback, with: answer, isNumbered: true)
        }
        return true
    }

    /// Asks again after an invalid answer: a typing error must not restart the sign-in.
    private func retry(_ askOnce: () async throws -> Void) async throws {
        for attempt in 1... {
            do {
                return try await askOnce()
            } catch let error as AuthError where error.code == .userAgentFailed && attempt < Self.maximumAttempts {
                // If the terminal was closed, do not ask again.
                guard error.message.hasPrefix(CallbackFormatter.invalidAnswerPrefix) else { throw error }
                try await show?(error.message, false)
            }
        }
    }

    /// Has the user choose or write a security question, and answer it.
    private func createQuestion(_ callback: inout TreeCallback) async throws -> Bool {
        let known = callback.output("predefinedQuestions")?.strings ?? []
        let list = known.enumerated().map { "\($0 + 1)) \(DisplayText.sanitized($1, limit: 120))" }.joined(
            separator: "  "
        )
        let prompt = DisplayText.sanitized(callback.prompt.isEmpty ? "Security question" : callback.prompt)
        let mayWrite = known.isEmpty || callback.output("allowUserDefinedQuestions")?.bool != false
        var question = ""
        try await retry {
            let text = try await ask(
                list.isEmpty ? prompt : "\(prompt): \(list)\(mayWrite ? ", or your own question" : "")",
                false
            )
            let typed = text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
            let number = Int(typed).map { $0 &- 1 }
            question = number.flatMap { known.indices.contains($0) ? known[$0] : nil } ?? typed
            // A mistyped number must not become the user's question.
            let isOwn = mayWrite && !typed.isEmpty && (number == nil || known.isEmpty)
            guard known.contains(question) || isOwn else {
                let problem = known.isEmpty ? "empty" : "not one of the questions"
                throw AuthError(
                    .userAgentFailed,
                    "\(CallbackFormatter.invalidAnswerPrefix)\"\(prompt)\" is \(problem)."
                )
            }
        }
        callback.answer(.string(question), at: 0)
        callback.answer(.string(try await ask(DisplayText.sanitized(question), true)), at: 1)
        return true
    }
}

/// Converts callbacks of each type to text, and the answers to callback values.
enum CallbackFormatter {
    /// The prefix of the error message for an invalid answer.
    static let invalidAnswerPrefix = "The answer to "

    /// The message of a callback that requires no answer; nil for a question, or if the callback has no message.
    static func text(of callback: TreeCallback) -> String? {
        switch callback.type {
        case "TextOutputCallback":
            // Type 4 is a script for a page.
            guard callback.output("messageType")?.string != "4", callback.output("messageType")?.integer != 4 else {
                return nil
            }
            return nonempty(callback.prompt)
        case "PollingWaitCallback": return nonempty(callback.prompt)
        // The key of a new authenticator app, as the URI that its QR code would contain: for one-time codes, push notifications, or both. The URI
        // for push notifications contains several other URLs.
        case "HiddenValueCallback":
            guard let value = callback.output("value")?.string,
                ["otpauth://", "pushauth://", "mfauth://"].contains(where: { value.hasPrefix($0) })
            else { return nil }
            return DisplayText.sanitized(value, limit: 4000)
        default: return nil
        }
    }

    private static func nonempty(_ text: String) -> String? {
        let shown = DisplayText.sanitized(text, limit: 1000)
        return shown.isEmpty ? nil : shown
    }

    /// The question as text; nil if the callback cannot be answered with text.
    static func question(of callback: TreeCallback) -> String? {
        let prompt = DisplayText.sanitized(callback.prompt)
        switch callback.type {
        case "NameCallback", "PasswordCallback", "NumberAttributeInputCallback", "ValidatedCreateUsernameCallback",
            "ValidatedCreatePasswordCallback":
            return prompt
        case "TextInputCallback", "StringAttributeInputCallback":
            let text = DisplayText.sanitized(defaultText(of: callback), limit: 80)
            return text.isEmpty ? prompt : "\(prompt) [\(text)]"
        case "ChoiceCallback", "ConfirmationCallback":
            let choices = choices(of: callback).enumerated().map {
                "\($0 + 1)) \(DisplayText.sanitized($1.label, limit: 80))"
            }
            return ([prompt] + choices).filter { !$0.isEmpty }.joined(separator: "  ")
        case "BooleanAttributeInputCallback": return "\(prompt) (yes or no)"
        case "ConsentMappingCallback":
            let labels = ["displayName", "accessLevel"].compactMap { callback.output($0)?.string }
            let fields = (labels + (callback.output("fields")?.strings ?? [])).filter { !$0.isEmpty }
            let shared = DisplayText.sanitized(fields.joined(separator: ", "), limit: 1000)
            return "\(prompt) (\(shared)) Accept? (yes or no)"
        case "TermsAndConditionsCallback":
            return "\(DisplayText.sanitized(callback.output("terms")?.string ?? "", limit: 2000)) Accept? (yes or no)"
        default: return nil
        }
    }

    /// The text that a page would show in the field, such as the current value of an attribute of the user's profile; may be empty.
    static func defaultText(of callback: TreeCallback) -> String {
        switch callback.type {
        case "TextInputCallback": callback.output("defaultText")?.string ?? ""
        case "StringAttributeInputCallback": callback.output("value")?.string ?? ""
        default: ""
        }
    }

    /// The policies that the previous answer does not satisfy (`failedPolicies`), as text; nil if the callback contains none.
    static func failedPolicies(of callback: TreeCallback) -> String? {
        let policies = (callback.output("failedPolicies")?.array ?? []).compactMap { value -> String? in
            // AM sends each policy as a string that contains a JSON object.
            let policy = value.string.flatMap { try? JSON(parsing: Array($0.utf8)) } ?? value
            guard let name = policy["policyRequirement"]?.string else { return nil }
            let parameters = (policy["params"]?.object ?? [:]).sorted { $0.key < $1.key }.compactMap { name, value in
                (value.string ?? value.integer.map { "\($0)" }).map { "\(name) \($0)" }
            }
            return parameters.isEmpty ? name : "\(name) (\(parameters.joined(separator: ", ")))"
        }
        guard !policies.isEmpty else { return nil }
        let prompt = DisplayText.sanitized(callback.prompt)
        let names = DisplayText.sanitized(policies.joined(separator: ", "), limit: 1000)
        return "\(invalidAnswerPrefix)\"\(prompt)\" does not satisfy these policies: \(names)"
    }

    /// Sets the callback's answer.
    /// - Parameter isNumbered: Whether a choice may be selected by its number in ``question(of:)``.
    static func answer(_ callback: inout TreeCallback, with text: String, isNumbered: Bool = false) throws {
        func invalidAnswer(_ problem: String) -> AuthError {
            AuthError(
                .userAgentFailed,
                "\(invalidAnswerPrefix)\"\(DisplayText.sanitized(callback.prompt))\" is \(problem)."
            )
        }
        func plain(_ text: String) -> String {
            text.split(whereSeparator: \.isWhitespace).joined(separator: " ").lowercased()
        }
        let typed = plain(text)
        switch callback.type {
        case "ChoiceCallback", "ConfirmationCallback":
            let choices = choices(of: callback)
            // A displayed number takes precedence over a choice whose label is a number.
            let number =
                isNumbered ? Int(typed).map { $0 &- 1 }.flatMap { choices.indices.contains($0) ? $0 : nil } : nil
            let index = number ?? choices.firstIndex { plain($0.label) == typed }
            guard let index else {
                let labels = choices.map { DisplayText.sanitized($0.label, limit: 80) }.joined(separator: ", ")
                throw invalidAnswer("not one of: \(labels)")
            }
            callback.answer(.integer(Int64(choices[index].value)))
        case "BooleanAttributeInputCallback", "TermsAndConditionsCallback", "ConsentMappingCallback":
            let isYes = ["true", "yes", "y", "accept"].contains(typed)
            guard isYes || ["false", "no", "n", "decline"].contains(typed) else {
                throw invalidAnswer("neither yes nor no")
            }
            callback.answer(.bool(isYes))
        case "NumberAttributeInputCallback":
            let number = Int64(typed).map(JSON.integer) ?? Double(typed).flatMap { $0.isFinite ? JSON.double($0) : nil }
            guard let number else { throw invalidAnswer("not a number") }
            callback.answer(number)
        default: callback.answer(.string(text))
        }
    }

    /// The choices, and the value of each. A confirmation without explicit options has the predefined options for its `optionType`.
    private static func choices(of callback: TreeCallback) -> [(label: String, value: Int)] {
        let own = (callback.output("choices") ?? callback.output("options"))?.strings ?? []
        guard own.isEmpty, callback.type == "ConfirmationCallback" else {
            return own.enumerated().map { (label: $1, value: $0) }
        }
        // The values are the constants of Java's `ConfirmationCallback`.
        switch callback.output("optionType")?.integer {
        case 1: return [("Yes", 0), ("No", 1), ("Cancel", 2)]
        case 2: return [("OK", 3), ("Cancel", 2)]
        default: return [("Yes", 0), ("No", 1)]
        }
    }
}

extension AuthError.Code {
    /// A tree sends a callback that no handler answers.
    public static let unknownCallback = Self(rawValue: "unknown_callback")
    /// A tree continues with a link that was sent to the user.
    public static let treeSuspended = Self(rawValue: "tree_suspended")
    /// The account is locked.
    public static let accountLocked = Self(rawValue: "account_locked")
}
