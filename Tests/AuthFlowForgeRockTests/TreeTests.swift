import AuthFlow
import AuthFlowForgeRock
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Sign-in through the callbacks of `/json/authenticate`.
@Suite struct TreeTests {
    @Test(arguments: EmulatorEnvironment.Setting.allCases) func signsInThroughATree(
        _ setting: EmulatorEnvironment.Setting
    )
        async throws
    {
        try await ForgeRockEnvironment.with(setting) { environment in
            let client = try environment.client()
            let credential = try await client.signIn().credential
            #expect(credential.identity?.displayName == "Alice Example")
            #expect(credential.identity?.issuer == "\(environment.emulator.baseURL)/oauth2/realms/root/realms/alpha")
            #expect(try await client.userInfo()["name"] == "Alice Example")
        }
    }

    @Test func conformsToTheAdapterSuite() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let realm = try ForgeRockRealm(baseURL: environment.emulator.baseURL, path: "/alpha")
            let scopes = ["openid", "profile", "offline_access"]
            let bob = ConfiguredCallbackHandler(username: "bob", password: Secret("builder"))
            try await ProviderConformance(
                adapter: ForgeRockProvider(realm: realm),
                client: environment.client(scopes: scopes),
                other: environment.client(handlers: [bob], scopes: scopes)
            ).run()
        }
    }

    @Test func reportsAWrongPassword() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let wrong = ConfiguredCallbackHandler(username: "alice", password: Secret("looking-glass"))
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(handlers: [wrong]).signIn()
            }
            #expect(error?.code == .accessDenied)
            #expect(error?.providerError?.errorDescription == "Authentication Failed")
            #expect(error.map { "\($0)" }?.contains("looking-glass") == false)
        }
    }

    @Test(arguments: [
        ("The account has been locked", true), ("Authenticator clock skew too large", false),
        ("Blocked address", false), ("Warning: You will be locked out after 1 more failure(s).", false),
        ("Authentication Failed Warning: You will be locked out after 2 more failure(s).", false),
    ]) func recognizesALockedAccountByItsMessage(_ message: String, _ isLocked: Bool) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(stage: "Login", [EmulatorTree.Callback("NameCallback", [("prompt", "User Name")])]) { _ in
                    .fail(message)
                }
            ])
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.code == (isLocked ? .accountLocked : .accessDenied))
        }
    }

    @Test func reportsALockedAccount() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.lockedUsers = ["alice"]
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.code == .accountLocked)
        }
    }

    @Test func restartsATreeOnceWhenItsAuthIDHasExpired() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.staleAuthIDs = 1
            _ = try await environment.client().signIn()
            environment.emulator.settings.staleAuthIDs = 2
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.code == .timedOut)
        }
    }

    /// A tree can run without creating a session, as it does for requests with the parameter `noSession`.
    @Test func failsIfTheTreeEndsWithoutASession() async throws {
        struct Sessionless: HTTPTransport {
            let base: any HTTPTransport
            func send(_ call: TransportRequest) async throws -> TransportResponse {
                guard call.url.contains("/authenticate") else { return try await base.send(call) }
                return TransportResponse(
                    head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                    body: Array(#"{"tokenId": "", "successUrl": "/am/console", "realm": "/alpha"}"#.utf8)
                )
            }
        }
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let client = try environment.client(transport: Sessionless(base: environment.transport))
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .userAgentFailed)
            #expect(error?.message.contains("ended without creating a session") == true)
        }
    }

    /// Each further attempt may count towards an account lockout.
    @Test func doesNotSignInAgainIfTheProviderDoesNotAcceptTheNewSession() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let count = Mutex(0)
            let address = "https://id.example.com/am/XUI/?goto=https%3A%2F%2Fid.example.com%2Fauthorize%3Fx%3Dy"
            let transport = DetouringTransport(environment.transport, to: address) { path in
                if path.contains("/authenticate") { count.withLock { $0 += 1 } }
            }
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(transport: transport).signIn()
            }
            #expect(error?.code == .userAgentFailed)
            #expect(error?.message.contains("asks for a second sign-in") == true)
            // One request begins the tree, and the other contains the answers.
            #expect(count.withLock { $0 } == 2)
        }
    }

    /// A user who already has a session would otherwise not be prompted, although the provider requires another sign-in.
    @Test(arguments: [
        ("ForceAuth=true&arg=newsession", "?ForceAuth=true&arg=newsession", ""),
        (
            "service=Login&ForceAuth=true", "?authIndexType=service&authIndexValue=Login&ForceAuth=true",
            "?authIndexType=service&authIndexValue=Login"
        ),
        ("ForceAuth=false&arg=other", "", ""),
    ]) func passesTheRequirementForANewSignInToTheStartOfTheTree(
        _ query: String,
        _ first: String,
        _ second: String
    ) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let paths = Mutex<[String]>([])
            let goto = "https%3A%2F%2Fid.example.com%2Fauthorize%3Fx%3Dy"
            let transport = DetouringTransport(
                environment.transport,
                to: "https://id.example.com/am/XUI/?\(query)&goto=\(goto)"
            ) { path in paths.withLock { $0.append(path) } }
            await #expect(throws: AuthError.self) { try await environment.client(transport: transport).signIn() }
            let sent = paths.withLock { $0 }.filter { $0.contains("/authenticate") }
            #expect(sent.map { path in String(path.drop { $0 != "?" }) } == [first, second])
        }
    }

    @Test func failsIfTheServerRejectsTheAuthID() async throws {
        struct ForgingTransport: HTTPTransport {
            let base: any HTTPTransport
            func send(_ call: TransportRequest) async throws -> TransportResponse {
                var call = call
                if var body = (try? JSON(parsing: call.body))?.object, body["authId"] != nil {
                    body["authId"] = "e30.e30.forged"
                    call.body = try JSON.object(body).serialized()
                }
                return try await base.send(call)
            }
        }
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let client = try environment.client(transport: ForgingTransport(base: environment.transport))
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.code == .timedOut)
            #expect(try await client.credential() == nil)
        }
    }

    @Test func theEmulatorRejectsTheAnswerToAPageThatItsTreeNoLongerContains() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let emulator = environment.emulator
            emulator.settings.trees["Login"] = EmulatorTree([
                .page(stage: "Extra", [EmulatorTree.Callback("NameCallback", [])]) { _ in .proceed },
                .userNameAndPassword,
            ])
            let address = try Endpoint("\(emulator.baseURL)/json/realms/root/realms/alpha/authenticate")
            func submit(_ page: [UInt8]) async throws -> TransportResponse {
                let fields: HTTPFields = [.contentType: "application/json"]
                return try await environment.transport.send(
                    TransportRequest(.post, address, headerFields: fields, body: page)
                )
            }
            let first = try await submit([])
            let second = try await submit(first.body)
            #expect(second.status == 200)
            emulator.settings.trees["Login"] = .login
            #expect(try await submit(second.body).status == 500)
        }
    }

    /// A tree with a page before the login.
    private func tree(
        _ callbacks: [EmulatorTree.Callback],
        _ verdict: @escaping @Sendable ([JSON]) -> EmulatorTree.Verdict
    ) -> EmulatorTree {
        EmulatorTree([.page(stage: "Extra", callbacks, verdict), .userNameAndPassword])
    }

    /// Each failed attempt may count towards an account lockout.
    @Test(arguments: ["", "Attempt %d failed.", "Wrong user name or password."])
    func aRejectedPasswordIsSubmittedOnce(_ message: String) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let attempts = Mutex(0)
            let transport = LoopingTree(
                message: message,
                attempts: {
                    attempts.withLock {
                        $0 += 1; return $0
                    }
                },
                base: environment.transport
            )
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(transport: transport).signIn()
            }
            #expect(error?.code == .accessDenied, "\(error?.message ?? "")")
            #expect(attempts.withLock { $0 } == 1)
        }
    }

    /// Two pages may ask similar questions.
    @Test(arguments: [
        [
            ("ConfirmationCallback", "", "", "Do you accept the policy?"),
            ("ConfirmationCallback", "", "", "Remember this device?"),
        ],
        [
            ("PasswordCallback", "Character 2 of your passphrase", "", ""),
            ("PasswordCallback", "Character 5 of your passphrase", "", ""),
        ],
        [("TermsAndConditionsCallback", "", "", ""), ("TermsAndConditionsCallback", "", "", "")],
        [("StringAttributeInputCallback", "", "city", ""), ("StringAttributeInputCallback", "", "street", "")],
    ])
    func similarQuestionsOnSeveralPagesAreAnswered(
        _ pages: [(type: String, prompt: String, name: String, message: String)]
    ) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.trees["Login"] = EmulatorTree(
                pages.map { page in
                    let outputs: [(String, JSON)] =
                        page.type == "ConfirmationCallback"
                        ? [("prompt", ""), ("options", ["No", "Yes"])]
                        : [("prompt", .string(page.prompt)), ("name", .string(page.name))]
                    let message = EmulatorTree.Callback(
                        "TextOutputCallback",
                        [("message", .string(page.message)), ("messageType", "0")],
                        inputs: []
                    )
                    let question = EmulatorTree.Callback(page.type, outputs)
                    return .page(stage: "Extra", page.message.isEmpty ? [question] : [message, question]) { _ in
                        .proceed
                    }
                } + [.userNameAndPassword]
            )
            let answers = ConfiguredCallbackHandler(
                username: "alice",
                password: Secret("wonderland"),
                answers: [
                    "ConfirmationCallback": Secret("Yes"), "Character 2 of your passphrase": Secret("e"),
                    "Character 5 of your passphrase": Secret("e"), "city": Secret("Bern"),
                    "street": Secret("High Street"), "terms": Secret("true"),
                ]
            )
            _ = try await environment.client(handlers: [answers]).signIn()
        }
    }

    /// A tree that asks for the user name and the password again after each attempt, with a message.
    private struct LoopingTree: HTTPTransport {
        let message: String
        let attempts: @Sendable () -> Int
        let base: any HTTPTransport

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            guard request.url.contains("/authenticate") else { return try await base.send(request) }
            let isAnswer = (try? JSON(parsing: request.body))?["authId"] != nil
            let count = isAnswer ? attempts() : 0
            // The server numbers the inputs by position.
            let first = isAnswer && !message.isEmpty ? 2 : 1
            var callbacks: [JSON] = [
                Self.callback("NameCallback", "User Name", first),
                Self.callback("PasswordCallback", "Password", first + 1),
            ]
            if isAnswer, !message.isEmpty {
                let text = message.replacing("%d", with: "\(count)")
                callbacks.insert(
                    ["type": "TextOutputCallback", "output": [["name": "message", "value": .string(text)]]],
                    at: 0
                )
            }
            let body: JSON = ["authId": "a", "callbacks": .array(callbacks)]
            return TransportResponse(
                head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                body: try body.serialized()
            )
        }

        private static func callback(_ type: String, _ prompt: String, _ number: Int) -> JSON {
            [
                "type": .string(type), "output": [["name": "prompt", "value": .string(prompt)]],
                "input": [["name": .string("IDToken\(number)"), "value": ""]],
            ]
        }
    }

    struct Question: CustomTestStringConvertible {
        let callback: EmulatorTree.Callback
        let answer: String
        let expected: JSON
        var testDescription: String { "\(callback)" }
    }

    static let questions: [Question] = [
        Question(
            callback: .init("TextInputCallback", [("prompt", "Pet"), ("defaultText", "cat")]),
            answer: "dog",
            expected: "dog"
        ),
        Question(
            callback: .init("ChoiceCallback", [("prompt", "Pet"), ("choices", ["cat", "dog"])], inputs: [0]),
            answer: "Dog",
            expected: 1
        ),
        Question(
            callback: .init("ChoiceCallback", [("prompt", "Pet"), ("choices", ["cat", "Big  dog "])], inputs: [0]),
            answer: "big dog",
            expected: 1
        ),
        Question(
            callback: .init("ConfirmationCallback", [("prompt", "Pet"), ("options", ["Keep", "Drop"])], inputs: [0]),
            answer: "drop",
            expected: 1
        ),
        Question(
            callback: .init(
                "ConfirmationCallback",
                [("prompt", "Pet"), ("options", []), ("optionType", 0)],
                inputs: [0]
            ),
            answer: "no",
            expected: 1
        ),
        Question(
            callback: .init(
                "ConfirmationCallback",
                [("prompt", "Pet"), ("options", []), ("optionType", 2)],
                inputs: [0]
            ),
            answer: "ok",
            expected: 3
        ),
        Question(
            callback: .init(
                "StringAttributeInputCallback",
                [("name", "Pet"), ("prompt", "Which?")],
                inputs: ["", false]
            ),
            answer: "dog",
            expected: "dog"
        ),
        Question(
            callback: .init(
                "NumberAttributeInputCallback",
                [("name", "Pet"), ("prompt", "How old?")],
                inputs: [0, false]
            ),
            answer: "7",
            expected: 7
        ),
        Question(
            callback: .init(
                "NumberAttributeInputCallback",
                [("name", "Pet"), ("prompt", "How old?")],
                inputs: [0, false]
            ),
            answer: "7.5",
            expected: 7.5
        ),
        Question(
            callback: .init(
                "BooleanAttributeInputCallback",
                [("name", "Pet"), ("prompt", "Any?")],
                inputs: [false, false]
            ),
            answer: "true",
            expected: true
        ),
        Question(
            callback: .init("TermsAndConditionsCallback", [("terms", "Be kind."), ("version", "1")], inputs: [false]),
            answer: "accept",
            expected: true
        ),
        Question(
            callback: .init(
                "ConsentMappingCallback",
                [("name", "Pet"), ("displayName", "CRM"), ("message", "Share?"), ("fields", ["mail"])],
                inputs: [false]
            ),
            answer: "yes",
            expected: true
        ),
    ]

    @Test(arguments: questions) func answersEveryKindOfCallback(
        _ test: Question
    ) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let seen = Mutex<JSON?>(nil)
            let given = test.answer
            environment.emulator.settings.trees["Login"] = tree([test.callback]) { answers in
                seen.withLock { $0 = answers.first }
                return .proceed
            }
            let answers = ConfiguredCallbackHandler(
                username: "alice",
                password: Secret("wonderland"),
                answers: ["pet": Secret(given), "terms": Secret(given)]
            )
            _ = try await environment.client(handlers: [answers]).signIn()
            #expect(seen.withLock { $0 } == test.expected)
            // The result is the same when the user is prompted.
            let questions = Mutex<[String]>([])
            let interactive = InteractiveCallbackHandler { question, isSecret in
                questions.withLock { $0.append(question) }
                #expect(isSecret == (question == "Password"))
                return question == "User Name" ? "alice" : question == "Password" ? "wonderland" : given
            }
            _ = try await environment.client(handlers: [interactive]).signIn()
            #expect(seen.withLock { $0 } == test.expected)
            #expect(questions.withLock { $0.count } == 3)
        }
    }

    struct InvalidAnswer: CustomTestStringConvertible {
        let callback: EmulatorTree.Callback
        let answer: String
        let problem: String
        var testDescription: String { "\(callback)" }
    }

    static let invalidAnswers: [InvalidAnswer] = [
        InvalidAnswer(
            callback: .init(
                "BooleanAttributeInputCallback",
                [("name", "Pet"), ("prompt", "Any?")],
                inputs: [false, false]
            ),
            answer: "maybe",
            problem: "is neither yes nor no"
        ),
        InvalidAnswer(
            callback: .init("TermsAndConditionsCallback", [("terms", "Be kind."), ("version", "1")], inputs: [false]),
            answer: "maybe",
            problem: "is neither yes nor no"
        ),
        InvalidAnswer(
            callback: .init("NumberAttributeInputCallback", [("name", "Pet"), ("prompt", "How old?")], inputs: [0]),
            answer: "nan",
            problem: "is not a number"
        ),
        // Unlike a confirmation, a choice has no predefined options.
        InvalidAnswer(
            callback: .init("ChoiceCallback", [("prompt", "Pet"), ("choices", [])], inputs: [0]),
            answer: "yes",
            problem: "is not one of: "
        ),
    ]

    @Test(arguments: invalidAnswers) func doesNotSendAConfiguredAnswerThatDoesNotFitTheQuestion(
        _ test: InvalidAnswer
    ) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let seen = Mutex<[JSON]>([])
            environment.emulator.settings.trees["Login"] = tree([test.callback]) { answers in
                seen.withLock { $0 += answers }
                return .proceed
            }
            let answers = ConfiguredCallbackHandler(
                username: "alice",
                password: Secret("wonderland"),
                answers: ["pet": Secret(test.answer), "terms": Secret(test.answer)]
            )
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(handlers: [answers]).signIn()
            }
            #expect(error?.code == .userAgentFailed)
            #expect(error?.message.contains(test.problem) == true)
            #expect(seen.withLock { $0 }.isEmpty)
        }
    }

    static let passive: [EmulatorTree.Callback] = [
        .init("TextOutputCallback", [("message", "Hello"), ("messageType", "0")], inputs: []),
        .init("TextOutputCallback", [("message", "alert(1)"), ("messageType", "4")], inputs: []),
        .init("HiddenValueCallback", [("value", "v"), ("id", "token")], inputs: ["token"]),
        .init("MetadataCallback", [("data", ["stage": "x"])], inputs: []),
    ]

    @Test(arguments: passive)
    func returnsCallbacksThatNeedNoInputUnchanged(_ callback: EmulatorTree.Callback) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.trees["Login"] = tree([callback]) { answers in
                answers.allSatisfy { $0 == "token" } ? .proceed : .fail("changed")
            }
            _ = try await environment.client().signIn()
        }
    }

    @Test(arguments: [
        ("DeviceProfileCallback", AuthError.Code.unknownCallback), ("ReCaptchaCallback", .unknownCallback),
        ("SomethingNewCallback", .unknownCallback), ("TextInputCallback", .unknownCallback),
        ("SuspendedTextOutputCallback", .treeSuspended),
    ]) func reportsTheTypeOfAnUnhandledCallback(_ type: String, _ code: AuthError.Code) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.trees["Login"] = tree([
                .init(type, [("prompt", "What?"), ("message", "Mail")])
            ]) {
                _ in .proceed
            }
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.code == code)
            #expect(code != .unknownCallback || error?.message.contains(type) == true)
        }
    }

    @Test func callsTheAppsCallbackHandlerBeforeTheConfiguredAnswers() async throws {
        struct Device: CallbackHandler {
            let canChangeAnswer = false
            func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> Bool {
                switch callback.type {
                case "DeviceProfileCallback": callback.answer(.string("{\"identifier\":\"x\"}"))
                // The other handler could also answer this callback.
                case "NameCallback" where step.stage == "Extra": callback.answer("the app's")
                default: return false
                }
                return true
            }
        }
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let callbacks: [EmulatorTree.Callback] = [
                .init("DeviceProfileCallback", [("message", "")]), .init("NameCallback", [("prompt", "User Name")]),
            ]
            environment.emulator.settings.trees["Login"] = tree(callbacks) { answers in
                let isProfile = answers.first?.string?.contains("identifier") == true
                return isProfile && answers.last == "the app's" ? .proceed : .fail("the other handler was called first")
            }
            _ = try await environment.client(handlers: [Device(), ForgeRockEnvironment.alice]).signIn()
        }
    }

    @Test func honorsThePollingWaitTimeOfATreeWithinALimit() async throws {
        let time = VirtualTime()
        try await ForgeRockEnvironment.with(.inProcess, now: { time.now }) { environment in
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .polling(times: 3, milliseconds: 2000), .userNameAndPassword,
            ])
            let began = time.now
            _ = try await environment.client(host: time.host).signIn()
            #expect(time.now.timeIntervalSince(began) == 6)
            // A response before the end of the wait could be counted as spam.
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .polling(times: 1, milliseconds: 150_000), .userNameAndPassword,
            ])
            _ = try await environment.client(host: time.host).signIn()
            #expect(time.now.timeIntervalSince(began) == 156)
            environment.emulator.settings.trees["Login"] = EmulatorTree([.polling(times: 1000, milliseconds: 9_000_000)]
            )
            let error = await #expect(throws: AuthError.self) { try await environment.client(host: time.host).signIn() }
            #expect(error?.code == .timedOut)
            #expect(error?.message.contains("longer than the maximum wait") == true)
            environment.emulator.settings.trees["Login"] = EmulatorTree([.polling(times: 1000, milliseconds: 0)])
            await expectError(.accessDenied) { try await environment.client(host: time.host).signIn() }
        }
    }

    @Test func stopsWhenATreeKeepsAskingTheSameQuestion() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.trees["Login"] = tree([.init("TextInputCallback", [("prompt", "Code")])]) {
                _ in
                .repeatNode
            }
            let configured = ConfiguredCallbackHandler(answers: ["code": Secret("1")])
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(handlers: [configured]).signIn()
            }
            #expect(error?.code == .accessDenied)
            let count = Mutex(0)
            let interactive = InteractiveCallbackHandler { _, _ in
                count.withLock { $0 += 1 }
                return "1"
            }
            await expectError(.userAgentFailed) { try await environment.client(handlers: [interactive]).signIn() }
            #expect(count.withLock { $0 } == 40)
        }
    }

    struct LargeStep: CustomTestStringConvertible {
        let testDescription: String
        let callbacks: [EmulatorTree.Callback]
    }

    private static func password(_ inputs: [JSON]) -> EmulatorTree.Callback {
        .init("PasswordCallback", [("prompt", "Password")], inputs: inputs)
    }

    static let largeSteps: [LargeStep] = [
        LargeStep(testDescription: "inputs", callbacks: [password((0..<200).map { .string("secret \($0)") })]),
        LargeStep(
            testDescription: "callbacks",
            callbacks: Array(repeating: .init("TextOutputCallback", [("message", "Hello")], inputs: []), count: 201)
        ),
    ]

    /// Each response is searched for all secrets that were sent before, and the server could send tens of thousands of them.
    @Test("A step with too many inputs or callbacks ends the sign-in", arguments: largeSteps)
    func aLargeStepEndsTheSignIn(_ step: LargeStep) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.trees["Login"] = tree(step.callbacks) { _ in .repeatNode }
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.code == .userAgentFailed)
            #expect(error?.message.contains("201 callbacks and inputs") == true)
        }
    }

    @Test func reportsAnUnknownTree() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(tree: "nonsense").signIn()
            }
            #expect(error?.code == .providerRejected)
            #expect(error?.providerError?.errorDescription == "No Configuration found")
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases, [true, false])
    func allowsOrDeniesConsentAsConfigured(
        _ setting: EmulatorEnvironment.Setting,
        _ allows: Bool
    )
        async throws
    {
        try await ForgeRockEnvironment.with(setting) { environment in
            environment.emulator.settings.asksForConsent = true
            let client = try environment.client(allowsConsent: allows)
            if allows {
                _ = try await client.signIn()
            } else {
                let error = await #expect(throws: AuthError.self) { try await client.signIn() }
                #expect(error?.code == .accessDenied)
            }
        }
    }

    @Test(arguments: [
        "https://elsewhere.example.com/am/XUI/?goto=https%3A%2F%2Fid.example.com%2Fauthorize",
        "https://id.example.com/am/XUI/?goto=https%3A%2F%2Felsewhere.example.com%2Fauthorize",
        "https://id.example.com/am/XUI/?goto=https%3A%2F%2Fid.example.com%2Fsomewhere",
        "https://id.example.com/am/XUI/",
    ]) func sendsNoCredentialsAfterARedirectToAnUnexpectedSignInPage(_ address: String) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let calls = Mutex<[String]>([])
            let transport = DetouringTransport(environment.transport, to: address) { path in
                calls.withLock { $0.append(path) }
            }
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(transport: transport).signIn()
            }
            #expect(error?.code == .userAgentFailed)
            #expect(!calls.withLock { $0 }.contains { $0.contains("authenticate") })
        }
    }
}

@Suite struct PageCallbackResponderTests {
    private static let page = PageCallbackResponder(handlers: [ForgeRockEnvironment.alice])

    @Test func answersTheCallbacksOfAPage() async throws {
        let message = """
            {"authId": "x.y.z", "stage": "s", "callbacks": [
              {"type": "NameCallback", "output": [{"name": "prompt", "value": "User Name"}], "input": [{"name": "IDToken1", "value": ""}], "_id": 0},
              {"type": "TextOutputCallback", "output": [{"name": "message", "value": "Hi"}]}
            ]}
            """
        let answer = try JSON(parsing: Array(try await Self.page.answer(message).utf8))
        #expect(answer["authId"] == "x.y.z")
        #expect(answer["stage"] == "s")
        #expect(answer["callbacks"]?.array?.first?["input"]?.array?.first?["value"] == "alice")
        #expect(answer["callbacks"]?.array?.first?["_id"] == 0)
        #expect(answer["callbacks"]?.array?.count == 2)
    }

    @Test(arguments: [
        "", "[]", #"{"callbacks": []}"#, #"{"authId": "x", "callbacks": [{}]}"#, #"{"authId": "x", "callbacks": 5}"#,
        #"{"authId": "x", "callbacks": [{"type": "ReCaptchaCallback", "output": []}]}"#,
    ]) func rejectsMessagesWithoutAnswerableCallbacks(_ message: String) async {
        let isStep = message.contains("ReCaptchaCallback")
        await expectError(isStep ? .unknownCallback : .invalidResponse) { try await Self.page.answer(message) }
    }

    @Test func rejectsAMessageThatIsTooLarge() async throws {
        func message(_ size: Int) -> String {
            #"{"authId": "\#(String(repeating: "x", count: size))", "callbacks": []}"#
        }
        _ = try await Self.page.answer(message(60_000))
        await expectError(.invalidResponse) { try await Self.page.answer(message(65_536)) }
    }

    @Test(arguments: ["", #", "input": []"#])
    func returnsACallbackWithoutInputsUnchanged(_ inputs: String) async throws {
        let message = """
            {"authId": "x", "callbacks": [
              {"type": "NameCallback", "output": [{"name": "prompt", "value": "User Name"}]\(inputs)}
            ]}
            """
        let answer = try await Self.page.answer(message)
        #expect(try JSON(parsing: Array(answer.utf8)) == JSON(parsing: Array(message.utf8)))
    }
}

/// Redirects the authorization request to another page.
private struct DetouringTransport: HTTPTransport {
    let base: any HTTPTransport
    let address: String
    let onCall: @Sendable (String) -> Void

    init(_ base: any HTTPTransport, to address: String, onCall: @escaping @Sendable (String) -> Void) {
        self.base = base
        self.address = address
        self.onCall = onCall
    }

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        let path = call.head.path ?? ""
        onCall(path)
        if path.contains("/authorize?") {
            return TransportResponse(head: HTTPResponse(status: .found, headerFields: [.location: address]))
        }
        if path.contains("XUI") || call.head.authority == "elsewhere.example.com" {
            return TransportResponse(head: HTTPResponse(status: .ok, headerFields: [.contentType: "text/html"]))
        }
        return try await base.send(call)
    }
}
