import AuthFlow
import AuthFlowForgeRock
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Answers to a tree's callbacks, and the result of a sign-in through a tree.
@Suite struct TreeAnswerTests {
    private typealias Callback = EmulatorTree.Callback

    /// A one-time code is requested with a PasswordCallback or a NameCallback.
    @Test(arguments: [
        ("PasswordCallback", "One Time Password"), ("NameCallback", "Enter your code"), ("PasswordCallback", ""),
    ])
    func doesNotSendThePasswordAsAOneTimeCode(_ type: String, _ prompt: String) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let seen = Mutex<[JSON]>([])
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .userNameAndPassword,
                .page(stage: "OTP", [Callback(type, [("prompt", .string(prompt))])]) { answers in
                    seen.withLock { $0 += answers }
                    return answers == ["123456"] ? .proceed : .fail("wrong code")
                },
            ])
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.code == .unknownCallback)
            #expect(seen.withLock { $0 }.isEmpty)
            // The sign-in succeeds with a configured answer, or when the user is prompted.
            let key = prompt.isEmpty ? type : prompt
            let configured = ConfiguredCallbackHandler(
                username: "alice",
                password: Secret("wonderland"),
                answers: [key: Secret("123456"), "": Secret("never")]
            )
            _ = try await environment.client(handlers: [configured]).signIn()
            let interactive = InteractiveCallbackHandler { _, _ in "123456" }
            _ = try await environment.client(handlers: [ForgeRockEnvironment.alice, interactive]).signIn()
        }
    }

    @Test func doesNotSendThePasswordIfTheTreeStartsWithAOneTimeCode() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(stage: "OTP", [Callback("PasswordCallback", [("prompt", "Code")])]) { _ in .fail("no") },
                .userNameAndPassword,
            ])
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.code == .unknownCallback)
        }
    }

    /// On the first page, one of the two callbacks requests a code or an answer instead of the user name or the password.
    @Test(arguments: [
        ("NameCallback", "User Name", "PasswordCallback", "One-Time Password", false),
        ("NameCallback", "User Name", "PasswordCallback", "Enter OTP", false),
        ("NameCallback", "User Name", "PasswordCallback", "Answer", true),
        ("NameCallback", "Enter the code that we sent you", "PasswordCallback", "Password", false),
    ])
    func doesNotSendCredentialsIfTheFirstPageRequestsACode(
        _ name: String,
        _ namePrompt: String,
        _ password: String,
        _ passwordPrompt: String,
        _ isEchoed: Bool
    ) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let seen = Mutex<[JSON]>([])
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(
                    stage: "OTP",
                    [
                        Callback(name, [("prompt", .string(namePrompt))]),
                        Callback(password, [("prompt", .string(passwordPrompt)), ("echoOn", .bool(isEchoed))]),
                    ]
                ) { answers in
                    seen.withLock { $0 += answers }
                    return .fail("no")
                }
            ])
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.code == .unknownCallback)
            #expect(seen.withLock { $0 }.isEmpty)
        }
    }

    /// Some custom nodes and debug settings include the user's answers in error messages.
    @Test func aTreeErrorDoesNotContainThePassword() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(
                    stage: "Login",
                    [
                        Callback("NameCallback", [("prompt", "User Name")]),
                        Callback("PasswordCallback", [("prompt", "Password")]),
                    ]
                ) { answers in .fail("Login failed for \(answers.compactMap(\.string))") }
            ])
            let error = try await #require(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error.description.contains("<redacted>"), "\(error)")
            #expect(!error.description.contains("wonderland") && error.description.contains("alice"))
        }
    }

    /// AM's built-in nodes send confirmations without a prompt.
    @Test func aConfirmationWithoutAPromptUsesTheAnswerForItsCallbackType() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(
                    stage: "Codes",
                    [Callback("ConfirmationCallback", [("prompt", ""), ("options", ["Done", "Back"])], inputs: [0])]
                ) { $0 == [1] ? .proceed : .fail("pressed another") },
                .userNameAndPassword,
            ])
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.message.contains("\"ConfirmationCallback\"") == true)
            let answers = ConfiguredCallbackHandler(
                username: "alice",
                password: Secret("wonderland"),
                answers: ["ConfirmationCallback": Secret("back")]
            )
            _ = try await environment.client(handlers: [answers]).signIn()
        }
    }

    /// The most common second factor: a push notification with a cancel option, which is not selected while polling.
    @Test(arguments: [false, true]) func signsInThroughATreeWithAPushNotification(_ isInteractive: Bool) async throws {
        let time = VirtualTime()
        try await ForgeRockEnvironment.with(.inProcess, now: { time.now }) { environment in
            let polls = Mutex(0)
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .userNameAndPassword,
                .page(
                    stage: "Push",
                    [
                        Callback(
                            "TextOutputCallback",
                            [("message", "Choose 42 on your phone."), ("messageType", "0")],
                            inputs: []
                        ),
                        Callback(
                            "PollingWaitCallback",
                            [("waitTime", "1000"), ("message", "Waiting ...")],
                            inputs: []
                        ),
                        Callback("ConfirmationCallback", [("prompt", ""), ("options", ["Cancel"])], inputs: [100]),
                    ]
                ) { answers in
                    guard answers == [100] else { return .fail("cancelled") }
                    return polls.withLock { count in
                        count += 1
                        return count < 50 ? .repeatNode : .proceed
                    }
                },
            ])
            let shown = Mutex<[String]>([])
            let interactive = InteractiveCallbackHandler { question, _ in
                question == "User Name" ? "alice" : "wonderland"
            } show: { text, _ in
                shown.withLock { $0.append(text) }
            }
            _ = try await environment.client(
                handlers: isInteractive ? [interactive] : [ForgeRockEnvironment.alice],
                host: time.host
            ).signIn()
            #expect(polls.withLock { $0 } == 50)
            // The text is displayed once, not at every poll.
            #expect(shown.withLock { $0 } == (isInteractive ? ["Choose 42 on your phone.", "Waiting ..."] : []))
        }
    }

    @Test(arguments: ["otpauth://totp/x?secret=Y", "pushauth://push/x?s=Y&r=", "mfauth://totp/x?secret=Y&r="])
    func showsTheURIThatRegistersAnAuthenticatorApp(_ prefix: String) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let uri = prefix + String(repeating: "a", count: 2000)
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(
                    stage: "Registration",
                    [
                        Callback(
                            "HiddenValueCallback",
                            [("value", .string(uri)), ("id", "mfaDeviceRegistration")],
                            inputs: ["mfaDeviceRegistration"]
                        )
                    ]
                ) { _ in .proceed },
                .userNameAndPassword,
            ])
            let shown = Mutex<[String]>([])
            let interactive = InteractiveCallbackHandler { _, _ in
                ""
            } show: { text, isSecret in
                if isSecret { shown.withLock { $0.append(text) } }
            }
            _ = try await environment.client(handlers: [ForgeRockEnvironment.alice, interactive]).signIn()
            #expect(shown.withLock { $0 } == [uri])
        }
    }

    @Test func displaysTextOutputCallbacksWithAQuestion() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(
                    stage: "Delete",
                    [
                        Callback(
                            "TextOutputCallback",
                            [("message", "Delete \u{1B}[31meverything"), ("messageType", "1")],
                            inputs: []
                        ),
                        Callback("TextOutputCallback", [("message", "alert(1)"), ("messageType", "4")], inputs: []),
                        Callback("TextOutputCallback", [("message", "alert(2)"), ("messageType", 4)], inputs: []),
                        Callback(
                            "HiddenValueCallback",
                            [("value", "otpauth://totp/x?secret=Y"), ("id", "mfa")],
                            inputs: ["mfa"]
                        ),
                        Callback("HiddenValueCallback", [("value", "internal"), ("id", "state")], inputs: ["state"]),
                        Callback("ChoiceCallback", [("prompt", "Sure?"), ("choices", ["No", "Yes"])], inputs: [0]),
                    ]
                ) { $0.last == 1 ? .proceed : .fail("no") },
                .userNameAndPassword,
            ])
            let shown = Mutex<[String]>([])
            let asked = Mutex<[String]>([])
            let typed = Mutex(["maybe", "3", "\(Int.min)", "2"])
            let interactive = InteractiveCallbackHandler { question, _ in
                asked.withLock { $0.append(question) }
                return typed.withLock { $0.isEmpty ? "" : $0.removeFirst() }
            } show: { text, _ in
                shown.withLock { $0.append(text) }
            }
            _ = try await environment.client(handlers: [ForgeRockEnvironment.alice, interactive]).signIn()
            // The choices are numbered from 1, and the prompt is repeated after invalid input.
            #expect(asked.withLock { $0 } == Array(repeating: "Sure?  1) No  2) Yes", count: 4))
            let texts = shown.withLock { $0 }
            #expect(texts.first == "Delete  [31meverything")
            #expect(texts.contains("otpauth://totp/x?secret=Y"))
            #expect(texts.allSatisfy { !$0.contains("alert") && $0 != "internal" })
            #expect(texts.count { $0.hasPrefix("The answer to \"Sure?\" is not one of: No, Yes") } == 3)
        }
    }

    @Test func showsThePoliciesThatAnAnswerDoesNotSatisfy() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            func page(_ failedPolicies: JSON) -> EmulatorTree.Node {
                .page(
                    stage: "Password",
                    [
                        Callback(
                            "ValidatedCreatePasswordCallback",
                            [("prompt", "New password"), ("policies", [:]), ("failedPolicies", failedPolicies)],
                            inputs: ["", false]
                        )
                    ]
                ) { _ in .proceed }
            }
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                page([]),
                page([
                    #"{"policyRequirement": "MIN_LENGTH", "params": {"minLength": 8}}"#,
                    ["policyRequirement": "CANNOT_CONTAIN_OTHERS"],
                ]),
                .userNameAndPassword,
            ])
            let shown = Mutex<[String]>([])
            let interactive = InteractiveCallbackHandler { _, _ in
                "short"
            } show: { text, _ in
                shown.withLock { $0.append(text) }
            }
            _ = try await environment.client(handlers: [ForgeRockEnvironment.alice, interactive]).signIn()
            #expect(
                shown.withLock { $0 } == [
                    "The answer to \"New password\" does not satisfy these policies: MIN_LENGTH (minLength 8), CANNOT_CONTAIN_OTHERS"
                ]
            )
        }
    }

    /// AM sends the current value of an attribute, which an empty answer would erase.
    @Test(arguments: [("StringAttributeInputCallback", "value"), ("TextInputCallback", "defaultText")])
    func anEmptyLineSelectsTheDefaultText(_ type: String, _ name: String) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let seen = Mutex<JSON?>(nil)
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(stage: "Profile", [Callback(type, [("prompt", "City"), (name, "Bern")], inputs: ["", false])]) {
                    answers in
                    seen.withLock { $0 = answers.first }
                    return .proceed
                },
                .userNameAndPassword,
            ])
            for (typed, expected) in [("", "Bern"), ("Rome", "Rome")] {
                let asked = Mutex<[String]>([])
                let interactive = InteractiveCallbackHandler { question, _ in
                    asked.withLock { $0.append(question) }
                    return typed
                }
                _ = try await environment.client(handlers: [ForgeRockEnvironment.alice, interactive]).signIn()
                #expect(asked.withLock { $0 } == ["City [Bern]"])
                #expect(seen.withLock { $0 } == JSON.string(expected))
            }
        }
    }

    @Test func doesNotRepeatAQuestionAfterTheTerminalWasClosed() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let count = Mutex(0)
            let interactive = InteractiveCallbackHandler { _, _ in
                count.withLock { $0 += 1 }
                throw AuthError(.userAgentFailed, "The terminal was closed.")
            }
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(handlers: [interactive]).signIn()
            }
            #expect(error?.code == .userAgentFailed)
            #expect(error?.message.contains("The terminal was closed.") == true)
            #expect(count.withLock { $0 } == 1)
        }
    }

    /// The typed texts; the last is the answer.
    @Test(
        arguments: [
            (["2", "Rome"], true, "City?"), (["3", "", "1", "Rex"], true, "Pet?"), (["Car?", "Beetle"], true, "Car?"),
            (["Car?", "City?", "Rome"], false, "City?"),
        ] as [([String], Bool, String)]
    ) func asksTheUserForASecurityQuestionAndItsAnswer(
        _ texts: [String],
        mayWrite: Bool,
        question: String
    ) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let seen = Mutex<[JSON]>([])
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(
                    stage: "KBA",
                    [
                        Callback(
                            "KbaCreateCallback",
                            [
                                ("prompt", "Question"), ("predefinedQuestions", ["Pet?", "City?"]),
                                ("allowUserDefinedQuestions", .bool(mayWrite)),
                            ],
                            inputs: ["", ""]
                        )
                    ]
                ) { answers in
                    seen.withLock { $0 = answers }
                    return .proceed
                },
                .userNameAndPassword,
            ])
            let typed = Mutex(texts)
            let interactive = InteractiveCallbackHandler { _, _ in typed.withLock { $0.removeFirst() } }
            _ = try await environment.client(handlers: [ForgeRockEnvironment.alice, interactive]).signIn()
            #expect(seen.withLock { $0 } == [.string(question), .string(texts.last ?? "")])
            #expect(typed.withLock { $0 }.isEmpty)
        }
    }

    /// AM would store the answer as the question, with an empty answer.
    @Test func aConfiguredAnswerIsNotStoredAsASecurityQuestion() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let seen = Mutex<[JSON]>([])
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(
                    stage: "KBA",
                    [
                        Callback(
                            "KbaCreateCallback",
                            [("prompt", "Question"), ("predefinedQuestions", ["Pet?", "City?"])],
                            inputs: ["", ""]
                        )
                    ]
                ) { answers in
                    seen.withLock { $0 = answers }
                    return .proceed
                },
                .userNameAndPassword,
            ])
            let configured = ConfiguredCallbackHandler(
                username: "alice",
                password: Secret("wonderland"),
                answers: ["Question": Secret("Rex")]
            )
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(handlers: [configured]).signIn()
            }
            #expect(error?.code == .unknownCallback)
            #expect(error?.message.contains("cannot be configured") == true)
            #expect(seen.withLock { $0 }.isEmpty)
            // The user is asked instead.
            let typed = Mutex(["1", "Rex"])
            let interactive = InteractiveCallbackHandler { _, _ in typed.withLock { $0.removeFirst() } }
            _ = try await environment.client(handlers: [configured, interactive]).signIn()
            #expect(seen.withLock { $0 } == ["Pet?", "Rex"])
        }
    }

    @Test func reportsACallbackThatNeedsABrowser() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(
                    stage: "Social",
                    [Callback("RedirectCallback", [("redirectUrl", "https://accounts.example.net/x?y=z")])]
                ) { _ in .proceed }
            ])
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.code == .unknownCallback)
            #expect(error?.message.contains("accounts.example.net") == true)
            #expect(error?.message.contains("needs a browser") == true)
        }
    }

    /// The Select Identity Provider node includes the tree's own sign-in by default.
    @Test(arguments: [true, false])
    func selectsTheSignInOfTheTreeAmongIdentityProviders(_ isOffered: Bool) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let providers: [JSON] = [["provider": "google", "uiConfig": ["buttonDisplayName": "Google"]]]
            let local: [JSON] = isOffered ? [["provider": "localAuthentication"]] : []
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(
                    stage: "Providers",
                    [Callback("SelectIdPCallback", [("providers", .array(providers + local)), ("value", "")])]
                ) { $0 == ["localAuthentication"] ? .proceed : .fail("another provider") },
                .userNameAndPassword,
            ])
            guard !isOffered else {
                _ = try await environment.client().signIn()
                return
            }
            let error = await #expect(throws: AuthError.self) { try await environment.client().signIn() }
            #expect(error?.code == .unknownCallback)
            #expect(error?.message.contains("needs a browser") == true)
        }
    }

    /// A choice of identity providers may be offered again with the user name and the password.
    @Test func aConfiguredIdentityProviderIsSelectedAgainWhenTheUserCorrectsThePassword() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(
                    stage: "Providers",
                    [
                        Callback("SelectIdPCallback", [("providers", [["provider": "acme"]]), ("value", "")]),
                        Callback("PasswordCallback", [("prompt", "Password")]),
                    ]
                ) { $0 == ["acme", "wonderland"] ? .proceed : .repeatNode },
                .userNameAndPassword,
            ])
            let configured = ConfiguredCallbackHandler(answers: ["SelectIdPCallback": Secret("acme")])
            let typed = Mutex(["wonderlnd", "wonderland", "alice", "wonderland"])
            let interactive = InteractiveCallbackHandler { _, _ in typed.withLock { $0.removeFirst() } }
            _ = try await environment.client(handlers: [configured, interactive]).signIn()
            #expect(typed.withLock { $0 }.isEmpty)
        }
    }

    @Test func reportsTheTextOfTheErrorPage() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let realm = try ForgeRockRealm(baseURL: environment.emulator.baseURL, path: "/alpha")
            let client = AuthClient(
                client: OAuthClient(
                    server: AuthorizationServer(ForgeRockProvider(realm: realm), transport: environment.transport),
                    registration: try ClientRegistration(clientID: "unknown") {
                        $0.redirectURIs = [RedirectURI("http://127.0.0.1:8400/callback")]
                    }
                ),
                methods: [
                    .userAgent(
                        HeadlessUserAgent(
                            driver: TreeDriver(realm: realm, handlers: [ForgeRockEnvironment.alice]),
                            transport: environment.transport
                        )
                    )
                ]
            )
            let error = await #expect(throws: AuthError.self) { try await client.signIn() }
            #expect(error?.providerError?.errorDescription?.contains("does not match a pre-registered value") == true)
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases) func usesASessionThatIsOnlyInTheResponseBody(
        _ setting: EmulatorEnvironment.Setting
    ) async throws {
        try await ForgeRockEnvironment.with(setting) { environment in
            environment.emulator.settings.setsNoCookie = true
            _ = try await environment.client().signIn()
        }
    }

    @Test(arguments: [false, true])
    func requestsTheNameOfTheSessionCookieOnlyIfTheServerSetsNoCookie(_ setsNoCookie: Bool) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.setsNoCookie = setsNoCookie
            let urls = Mutex<[String]>([])
            let transport = Listening(base: environment.transport) { call in urls.withLock { $0.append(call.url) } }
            _ = try await environment.client(transport: transport).signIn()
            #expect(urls.withLock { $0 }.contains { $0.contains("/serverinfo/") } == setsNoCookie)
        }
    }

    @Test func sendsTheTreeNameWithEveryRequest() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let lines = Mutex<[String]>([])
            let transport = Listening(base: environment.transport) { call in
                if call.head.path?.contains("/authenticate") == true { lines.withLock { $0.append(call.url) } }
            }
            _ = try await environment.client(tree: "Login", transport: transport).signIn()
            #expect(lines.withLock { $0.count } >= 2)
            #expect(lines.withLock { $0.allSatisfy { $0.contains("authIndexValue=Login") } })
        }
    }

    @Test func requestsTheTreeByNameWhenTheClaimsParameterIsUnsupported() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            environment.emulator.settings.supportsClaimsParameter = false
            _ = try await environment.client(acrValues: ["persistent-cookie"], requiresACR: true).signIn()
            // The acr in the ID Token is validated nevertheless.
            environment.emulator.oauth.fault = .idToken(.claim("acr", "0"))
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(acrValues: ["persistent-cookie"], requiresACR: true).signIn()
            }
            #expect(error?.code == .insufficientUserAuthentication)
        }
    }

    @Test func signOutEndsTheTreeSessionToo() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let store = MemoryTokenStore()
            let cookies = try environment.cookies(store, names: ["iPlanetDirectoryPro"], atRisk: true)
            let lines = Mutex<[String]>([])
            let transport = Listening(base: environment.transport) { call in
                lines.withLock { $0.append("\(call.head.method) \(call.head.path ?? "")") }
            }
            let client = try environment.client(cookies: cookies, transport: transport)
            _ = try await client.signIn()
            guard case .done = try await client.signOut(endingSession: true).endSession else {
                Issue.record("The session was not ended.")
                return
            }
            #expect(lines.withLock { $0.contains { $0.hasPrefix("POST") && $0.contains("/sessions?_action=logout") } })
            // No additional password was sent to end the session.
            #expect(lines.withLock { $0.count { $0.contains("/authenticate") } } == 2)
        }
    }

    @Test func readsConfiguredAnswersFromSecretReferences() async throws {
        try await ForgeRockEnvironment.with(.sockets) { environment in
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(stage: "Pin", [Callback("PasswordCallback", [("prompt", "Pin")])]) {
                    $0 == ["9876"] ? .proceed : .fail("no")
                },
                .userNameAndPassword,
            ])
            func file(_ answers: String) throws -> ConfigurationFile {
                try ConfigurationFile(
                    text: Array(
                        """
                        {"profiles": {"a": {
                          "provider": "forgerock", "base_url": "\(environment.emulator.baseURL)", "realm": "/alpha",
                          "client_id": "authflow-demo", "store": "memory",
                          "user_agent": {
                            "name": "tree", "base_url": "\(environment.emulator.baseURL)", "realm": "/alpha", "username": "alice",
                            "password": {"env": "PASSWORD"}, "answers": \(answers)
                          }
                        }}}
                        """.utf8
                    )
                )
            }
            let host = HostServices(environment: ["PASSWORD": "wonderland", "PIN": "9876"])
            func client(_ answers: String) throws -> AuthClient {
                try AuthClient(
                    profile: try file(answers).profile(),
                    providers: [.forgeRock],
                    userAgents: [.tree()],
                    host: host
                )
            }
            _ = try await client(#"{"Pin": {"env": "PIN"}}"#).signIn()
            #expect(throws: ConfigurationError.self) { try client(#"{"": "x"}"#) }
            #expect(throws: ConfigurationError.self) { try client(#"{"Pin": {"value": "9876"}}"#) }
        }
    }

    /// The user name is configured, and the user types the password, in the same step or in another one.
    @Test(arguments: [false, true])
    func aUserCanCorrectAPasswordAfterAConfiguredUserName(_ isOtherStep: Bool) async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let name = Callback("NameCallback", [("prompt", "User Name")])
            let password = Callback("PasswordCallback", [("prompt", "Password")])
            let separate: [EmulatorTree.Node] = [
                .page(stage: "Name", [name]) { _ in .proceed },
                .page(stage: "Password", [password]) { _ in .proceed },
                .page(stage: "Name", [name]) { _ in .proceed },
                .page(stage: "Password", [password]) { $0.last == "wonderland" ? .proceed : .fail("wrong") },
            ]
            let together: [EmulatorTree.Node] = [
                .page(stage: "Both", [name, password]) { $0.last == "wonderland" ? .proceed : .repeatNode }
            ]
            environment.emulator.settings.trees["Login"] = EmulatorTree(
                (isOtherStep ? separate : together) + [.userNameAndPassword]
            )
            let typed = Mutex(["mistyped", "wonderland", "wonderland"])
            let interactive = InteractiveCallbackHandler { _, _ in typed.withLock { $0.removeFirst() } }
            let configured = ConfiguredCallbackHandler(username: "alice")
            _ = try await environment.client(handlers: [configured, interactive]).signIn()
            #expect(typed.withLock { $0 }.isEmpty)
        }
    }

    /// Each attempt would submit the configured password again, and the account could be locked.
    @Test func aConfiguredPasswordIsNotSubmittedAgainWithATypedCode() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let attempts = Mutex(0)
            let callbacks = [
                Callback("NameCallback", [("prompt", "User Name")]),
                Callback("PasswordCallback", [("prompt", "Password")]),
                Callback("PasswordCallback", [("prompt", "Code")]),
            ]
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(stage: "All", callbacks) { _ in
                    attempts.withLock { $0 += 1 }
                    return .repeatNode
                }
            ])
            let interactive = InteractiveCallbackHandler { _, _ in "123456" }
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(handlers: [ForgeRockEnvironment.alice, interactive]).signIn()
            }
            #expect(error?.code == .accessDenied)
            #expect(attempts.withLock { $0 } == 1)
        }
    }

    /// A callback for text may ask for a secret, too.
    @Test func aConfiguredAnswerToASecurityQuestionIsNotSubmittedAgainWithATypedPassword() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let attempts = Mutex(0)
            let callbacks = [
                Callback("PasswordCallback", [("prompt", "Password")]),
                Callback("TextInputCallback", [("prompt", "Your first pet")]),
            ]
            environment.emulator.settings.trees["Login"] = EmulatorTree([
                .page(stage: "All", callbacks) { _ in
                    attempts.withLock { $0 += 1 }
                    return .repeatNode
                }
            ])
            let configured = ConfiguredCallbackHandler(answers: ["Your first pet": Secret("Rex")])
            let interactive = InteractiveCallbackHandler { _, _ in "wonderland" }
            let error = await #expect(throws: AuthError.self) {
                try await environment.client(handlers: [configured, interactive]).signIn()
            }
            #expect(error?.code == .accessDenied)
            #expect(attempts.withLock { $0 } == 1)
        }
    }

    @Test func printingAStepDoesNotRevealAnswers() async throws {
        struct Looking: CallbackHandler {
            let canChangeAnswer = false
            let seen: @Sendable (String) -> Void
            func answer(_ callback: inout TreeCallback, in step: TreeStep) async throws -> Bool {
                if callback.type == "NameCallback" { callback.answer("alice") }
                if callback.type == "PasswordCallback" { callback.answer("wonderland") }
                var text = "\(callback) \(step) \(String(reflecting: callback)) \(String(reflecting: step))"
                dump(callback, to: &text)
                dump(step, to: &text)
                seen(text)
                return true
            }
        }
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let text = Mutex("")
            _ = try await environment.client(handlers: [Looking { seen in text.withLock { $0 += seen } }]).signIn()
            #expect(text.withLock { $0 }.contains("PasswordCallback"))
            #expect(!text.withLock { $0 }.contains("wonderland"))
        }
    }
}

/// A transport that reports every request.
private struct Listening: HTTPTransport {
    let base: any HTTPTransport
    let listen: @Sendable (TransportRequest) -> Void

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        listen(call)
        return try await base.send(call)
    }
}
