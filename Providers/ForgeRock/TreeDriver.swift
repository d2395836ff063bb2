public import AuthFlow
import AuthFlowEssentials
public import AuthFlowHeadless

/// Signs in through an authentication tree without a browser: instead of showing the provider's page, the driver walks
/// the tree at `/json/authenticate`, and uses the resulting session at the authorization endpoint.
public struct TreeDriver: Sendable {
    /// The maximum number of steps of one sign-in, not counting polling steps.
    private static let maximumSteps = 40
    /// The maximum number of callbacks and inputs of one step, and of secret answers in all steps. Their processing takes quadratic time, and
    /// all responses are searched for each secret.
    private static let (maximumStepSize, maximumSecrets) = (200, 200)
    /// The minimum wait per step, and the maximum total wait.
    private static let minimumWait = Duration.milliseconds(250)
    private static let maximumTotalWait = Duration.seconds(300)

    private let realm: ForgeRockRealm
    private let tree: String?
    private let handlers: [any CallbackHandler]
    private let allowsConsent: Bool
    private let host: HostServices

    /// Creates a driver.
    /// - Parameters:
    ///   - realm: The realm of the trees. Answers are sent only to its server.
    ///   - tree: The tree to walk; default: the tree that the sign-in page specifies, or the realm's default.
    ///   - handlers: The handlers that answer the tree's callbacks, tried in order. A callback that needs no answer needs
    ///     no handler.
    ///   - allowsConsent: Whether to allow access when the provider asks for consent.
    ///   - host: The host services, whose clock measures waits.
    public init(
        realm: ForgeRockRealm,
        tree: String? = nil,
        handlers: [any CallbackHandler],
        allowsConsent: Bool = true,
        host: HostServices = .system
    ) {
        self.realm = realm
        self.tree = tree
        self.handlers = [PollingWaitCallbackHandler()] + handlers + [PassiveCallbackHandler()]
        self.allowsConsent = allowsConsent
        self.host = host
    }
}

/// The answers that a handler can only repeat. They are not submitted again, because an account may be locked after several attempts.
private struct SubmittedAnswers {
    private var userNames: Set<[String]> = []
    private var others: Set<[String]> = []

    /// Adds the fixed answers of a step. A configured user name may be submitted again after the user has typed another answer, because the user may
    /// have mistyped the password. Any other answer may be a secret, such as the answer to a security question.
    /// - Parameter isAnsweredByUser: Whether a handler that can change its answers has answered a question of the step.
    /// - Returns: Whether the answers may be submitted.
    mutating func insert(_ fixed: [TreeCallback], isAnsweredByUser: Bool) -> Bool {
        let submission = fixed.map(\.submission)
        let isNew =
            fixed.allSatisfy(\.asksForUserName)
            ? userNames.insert(submission).inserted : others.insert(submission).inserted
        if isAnsweredByUser { userNames = [] }
        return fixed.isEmpty || isNew
    }
}

extension TreeDriver: LoginDriver {
    public func next(after page: HeadlessPage, in browser: HeadlessBrowser) async throws -> HeadlessNavigation {
        let query = FormURLEncoding.decode(page.endpoint.query ?? "") ?? [:]
        guard page.endpoint.origin == realm.origin else {
            throw rejection(page, "is not at \(realm.origin), so no answers were sent to it")
        }
        // The sign-in page has no fixed URL. It is recognized by its `goto` parameter, which contains the authorization
        // endpoint.
        if let goto = query["goto"].flatMap({ try? Endpoint($0, name: "goto") }), goto.path.hasSuffix("/authorize") {
            guard goto.origin == realm.origin else { throw rejection(page, "continues to another site") }
            guard !page.hasTypedCredentials else { throw rejection(page, "asks for a second sign-in") }
            // The page accepts both forms; a customized sign-in URL may use the longer one.
            let isNamed = query["authIndexType"] == "service"
            let named = query["service"] ?? (isNamed ? query["authIndexValue"] : nil)
            let choice: FormParameters =
                (tree ?? named).map { ["authIndexType": "service", "authIndexValue": $0] } ?? [:]
            // Otherwise, a user who has a session would not be prompted again.
            var start = choice
            for (name, value) in [("ForceAuth", "true"), ("arg", "newsession")] where query[name] == value {
                start.append(name, value)
            }
            try await walk(choice, startingWith: start, in: browser)
            return .visit(goto, typesCredentials: true)
        }
        let text = String(decoding: page.response.body, as: UTF8.self)
        if page.endpoint.path.hasSuffix("/authorize"), page.response.status == 200,
            let csrf = text.firstMatch(of: /"?csrf"?\s*:\s*"([^"\\]+)"/)
        {
            var form = query
            form["csrf"] = String(csrf.1)
            form["decision"] = allowsConsent ? "allow" : "deny"
            let action = String(page.endpoint.url.prefix { $0 != "?" })
            return .post(form, to: try Endpoint(action, name: "consent"), typesCredentials: false)
        }
        // AM's error page contains the error in a script.
        let words =
            text.firstMatch(of: /"?description"?\s*:\s*"((?:[^"\\]|\\.){1,500})"/)
            ?? text.firstMatch(of: /"?message"?\s*:\s*"((?:[^"\\]|\\.){1,500})"/)
        if let words, text.contains("pageData") {
            throw AuthError(
                .providerRejected,
                "The page at \(page.endpoint) is an error page.",
                providerError: ProviderError(
                    error: "status \(page.response.status)",
                    errorDescription: page.redacted(String(words.1).replacing("\\\"", with: "\"")),
                    status: page.response.status
                )
            )
        }
        throw rejection(page, "is neither a sign-in nor a consent page (status \(page.response.status))")
    }

    public func beginSignOut(in browser: HeadlessBrowser) async throws {
        // Ending the OpenID session does not end the tree's session.
        let endpoint = try Endpoint("\(realm.restURL)/sessions?_action=logout")
        guard await browser.hasCookies(for: endpoint) else { return }
        guard let name = await sessionCookieName(in: browser) else {
            throw AuthError(
                .userAgentFailed,
                "The session at \(realm.origin) may remain active, because the name of its cookie could not be read from serverinfo."
            )
        }
        guard await browser.hasCookie(named: name, for: endpoint) else { return }
        var fields: HTTPFields = [.contentType: "application/json", .accept: "application/json"]
        fields[Self.apiVersion] = "resource=3.1, protocol=1.0"
        let response = try await browser.send(
            TransportRequest(.post, endpoint, headerFields: fields, body: Array("{}".utf8))
        )
        await browser.report(["tree_session_logout": "\(response.status)"])
        // 401: the session has already ended.
        guard response.isSuccessful || response.status == 401 else {
            throw AuthError(
                .providerRejected,
                "The session at \(realm.origin) may remain active: the server responded to the logout request with status \(response.status).",
                providerError: response.providerError,
                status: response.status
            )
        }
    }

    private static var apiVersion: HTTPField.Name { HTTPField.Name("Accept-API-Version") ?? .accept }

    /// The name of the session cookie, which differs between tenants.
    private func sessionCookieName(in browser: HeadlessBrowser) async -> String? {
        guard let endpoint = try? Endpoint("\(realm.restURL)/serverinfo/*") else { return nil }
        let fields: HTTPFields = [.accept: "application/json", Self.apiVersion: "resource=1.1"]
        let response = try? await browser.send(TransportRequest(.get, endpoint, headerFields: fields))
        guard let response, response.status == 200, let json = try? response.json(from: realm.origin) else {
            return nil
        }
        return json["cookieName"]?.string
    }

    /// Stores the session cookie in the browser when the server returns the session only in the response body.
    private func storeSessionCookie(_ json: JSON, _ response: TransportResponse, in browser: HeadlessBrowser)
        async throws
    {
        guard let token = json["tokenId"]?.string else { return }
        let isSet = response.head.headerFields[values: .setCookie].contains { $0.contains("=\(token)") }
        guard !isSet else { return }
        guard let name = await sessionCookieName(in: browser) else {
            throw AuthError(
                .userAgentFailed,
                "\(realm.origin) signed the user in without setting a cookie, and its serverinfo does not contain the name of the session cookie."
            )
        }
        let isSecure = realm.origin.hasPrefix("https:") ? "; Secure" : ""
        try await browser.setCookie("\(name)=\(token); Path=/; HttpOnly\(isSecure)", from: Endpoint(realm.restURL))
    }

    private func rejection(_ page: HeadlessPage, _ reason: String) -> AuthError {
        AuthError(.userAgentFailed, "The page at \(page.endpoint) \(reason).")
    }

    /// Walks a tree until the server creates a session, and stores the session cookie in the browser.
    /// - Parameters:
    ///   - choice: The parameters of each request to the authenticate endpoint, which select the tree.
    ///   - start: The parameters of the request that starts the tree.
    private func walk(
        _ choice: FormParameters,
        startingWith start: FormParameters,
        in browser: HeadlessBrowser
    ) async throws {
        var body: JSON = [:]
        var isRestarted = false
        var waited = Duration.zero
        // Hash values: the contents of hundreds of polling steps may be large.
        var shown: Set<Int> = []
        var submitted = SubmittedAnswers()
        var secrets: [Secret] = []
        var steps = 0
        while steps < Self.maximumSteps {
            let response = try await post(
                body,
                body["authId"] == nil ? start : choice,
                redacting: secrets,
                in: browser
            )
            let json = try response.json(from: "the authenticate endpoint of \(realm.origin)")
            if json["tokenId"]?.string != nil || json["successUrl"]?.string != nil, json["authId"] == nil {
                let hasSession =
                    json["tokenId"]?.string?.isEmpty != true || response.head.headerFields[.setCookie] != nil
                guard hasSession else {
                    throw AuthError(.userAgentFailed, "The tree ended without creating a session.")
                }
                return try await storeSessionCookie(json, response, in: browser)
            }
            guard var step = TreeStep(json) else {
                // The tree timed out waiting for an answer: its steps expire after five minutes.
                if json["detail"]?["errorCode"]?.string == "110", !isRestarted {
                    isRestarted = true
                    body = [:]
                    (shown, submitted) = ([], SubmittedAnswers())
                    continue
                }
                throw Self.failure(json, status: response.status)
            }
            guard step.size <= Self.maximumStepSize else {
                throw AuthError(
                    .userAgentFailed,
                    "The tree sent a step with \(step.size) callbacks and inputs; at most \(Self.maximumStepSize) are supported."
                )
            }
            let types = step.callbacks.map { DisplayText.sanitized($0.type, limit: 60) }.joined(separator: " ")
            await browser.report(["tree_step": types, "stage": DisplayText.sanitized(step.stage, limit: 60)])
            step.isFirst = shown.isEmpty
            step.isRepeated = !shown.insert(step.content.hashValue).inserted
            let wait = try await answer(&step, submitted: &submitted, mayWait: Self.maximumTotalWait - waited)
            waited += wait
            // Polling steps are limited by time instead.
            if wait == .zero { steps += 1 }
            // A polling step, of which there may be hundreds, is sent back with the same answers each time.
            for secret in step.secrets where !secrets.contains(secret) { secrets.append(secret) }
            guard secrets.count <= Self.maximumSecrets else {
                throw AuthError(
                    .userAgentFailed,
                    "The tree sent more than \(Self.maximumSecrets) inputs for secret answers."
                )
            }
            body = step.answeredJSON
        }
        throw AuthError(.userAgentFailed, "The tree did not complete within \(Self.maximumSteps) steps.")
    }

    /// Answers every callback of a step, and waits if the step requests it.
    /// - Parameter submitted: The fixed answers that were submitted in earlier steps.
    /// - Returns: The time that it has waited.
    private func answer(
        _ step: inout TreeStep,
        submitted: inout SubmittedAnswers,
        mayWait: Duration
    ) async throws -> Duration {
        var wait = Duration.zero
        var fixed: [TreeCallback] = []
        var isAnsweredByUser = false
        for index in step.callbacks.indices {
            var callback = step.callbacks[index]
            let handler = try await handlers.answer(&callback, in: step)
            if callback.asksForText {
                if handler.canChangeAnswer { isAnsweredByUser = true } else { fixed.append(callback) }
            }
            if callback.type == "PollingWaitCallback" {
                // "waitTime" is a string, in milliseconds.
                let waitTime = callback.output("waitTime")
                let milliseconds = waitTime?.string.flatMap { Int($0) } ?? waitTime?.integer.map(Int.init) ?? 1000
                // AM rejects a response before the end of the wait time and, with spam detection, ends with "Spam" after several of them.
                wait = max(wait, .milliseconds(min(milliseconds, 3_600_000)), Self.minimumWait)
            }
            step.callbacks[index] = callback
        }
        guard submitted.insert(fixed, isAnsweredByUser: isAnsweredByUser) else {
            throw AuthError(
                .accessDenied,
                "\(realm.origin) did not accept the configured answers, and asked for them again."
            )
        }
        guard wait <= mayWait else {
            throw AuthError(.timedOut, "The tree took longer than the maximum wait. Start again.")
        }
        if wait > .zero { try await host.clock.sleep(for: wait) }
        return wait
    }

    private func post(
        _ body: JSON,
        _ parameters: FormParameters,
        redacting secrets: [Secret],
        in browser: HeadlessBrowser
    ) async throws -> TransportResponse {
        let address = try Endpoint("\(realm.restURL)/authenticate", name: "authenticate")
        var fields: HTTPFields = [.contentType: "application/json", .accept: "application/json"]
        fields[Self.apiVersion] = "resource=2.1, protocol=1.0"
        let endpoint = try Endpoint(address.url(adding: parameters))
        let response = try await browser.send(
            TransportRequest(.post, endpoint, headerFields: fields, body: try body.serialized()),
            redacting: secrets
        )
        try response.requireAvailable(from: realm.origin, now: host.now())
        return response
    }

    /// The error for a failed tree.
    private static func failure(_ json: JSON, status: Int) -> AuthError {
        let message = json["message"]?.string ?? ""
        let code = json["code"]?.integer.map(Int.init) ?? status
        let error = ProviderError(error: "\(code)", errorDescription: message.isEmpty ? nil : message, status: status)
        let words = message.lowercased()
        let (reason, text): (AuthError.Code, String) =
            switch code {
            case _ where words.contains("suspendedauthsession"):
                (.treeSuspended, "The link that continues the sign-in has expired.")
            // AM's "Warn User After N Failures" announces a lockout: "Warning: You will be locked out after 1 more failure(s)."
            case 401 where words.contains(/\block(ed|out)\b/) && !words.contains("will be locked out after"):
                (.accountLocked, "The account is locked.")
            case 401 where json["detail"]?["errorCode"]?.string == "110" || words.contains("timed out"), 408:
                (.timedOut, "The tree timed out waiting for an answer. Start again.")
            case 401, 403: (.accessDenied, "The tree did not sign the user in.")
            default: (.providerRejected, "The tree failed (\(code)).")
            }
        return AuthError(reason, text, providerError: error)
    }
}
