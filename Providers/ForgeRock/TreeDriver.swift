public import AuthFlow
public import AuthFlowHeadless
import AuthFlowJSON
import Foundation
import HTTPTypes

/// Signs in through an authentication tree, without a page: where the provider would show one, the tree is walked at
/// `/json/authenticate`, and the session that comes of it goes on to the authorization endpoint.
public struct TreeDriver: Sendable {
    /// The most steps of one sign-in.
    private static let maximumSteps = 40
    /// The longest that a step may ask to wait, and all of them together.
    private static let longestWait = Duration.seconds(30)
    private static let longestWaits = Duration.seconds(300)

    private let realm: ForgeRockRealm
    private let tree: String?
    private let handlers: [any CallbackHandler]
    private let allowsConsent: Bool
    private let host: HostServices

    /// Creates a driver.
    /// - Parameters:
    ///   - realm: Where the trees are. Answers go nowhere else.
    ///   - tree: The tree to walk; the one that the provider names, or its default, unless given.
    ///   - handlers: Answer the tree's questions, first come, first asked. What needs no answer is answered already.
    ///   - allowsConsent: What to answer when the provider asks for consent.
    ///   - host: The clock that waits run on.
    public init(
        realm: ForgeRockRealm,
        tree: String? = nil,
        handlers: [any CallbackHandler],
        allowsConsent: Bool = true,
        host: HostServices = .system
    ) {
        self.realm = realm
        self.tree = tree
        self.handlers = handlers + [PassiveCallbacks()]
        self.allowsConsent = allowsConsent
        self.host = host
    }
}

extension TreeDriver: LoginDriver {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func next(after page: HeadlessPage, in browser: HeadlessBrowser) async throws -> HeadlessNavigation {
        let query = FormURLEncoding.decode(page.endpoint.query ?? "") ?? [:]
        guard page.endpoint.origin == realm.origin else {
            throw refusal(page, "is not of \(realm.origin), and nothing was answered there")
        }
        // The page may be anywhere; what makes it the sign-in is that it goes on to the authorization endpoint.
        if let goto = query["goto"].flatMap({ try? Endpoint($0, name: "goto") }), goto.path.hasSuffix("/authorize") {
            guard goto.origin == realm.origin else { throw refusal(page, "goes on to another site") }
            guard !page.hasTypedCredentials else { throw refusal(page, "asks again although the sign-in was done") }
            try await walk(tree ?? query["service"], in: browser)
            return .visit(goto, typesCredentials: true)
        }
        let text = String(decoding: page.reply.body, as: UTF8.self)
        if page.endpoint.path.hasSuffix("/authorize"), page.reply.status == 200,
            let csrf = text.firstMatch(of: /"?csrf"?\s*:\s*"([^"\\]+)"/)
        {
            var form = query
            form["csrf"] = String(csrf.1)
            form["decision"] = allowsConsent ? "allow" : "deny"
            let action = String(page.endpoint.url.prefix { $0 != "?" })
            return .post(form, to: try Endpoint(action, name: "consent"), typesCredentials: false)
        }
        throw refusal(page, "is neither a sign-in nor a consent (status \(page.reply.status))")
    }

    private func refusal(_ page: HeadlessPage, _ reason: String) -> AuthError {
        AuthError(.userAgentFailed, "The page at \(page.endpoint) \(reason).")
    }

    /// Walks a tree until there is a session, whose cookie the browser keeps.
    private func walk(_ tree: String?, in browser: HeadlessBrowser) async throws {
        var body: JSON = [:]
        var isRestarted = false
        var waited = Duration.zero
        var asked: Set<[String]> = []
        for _ in 0..<Self.maximumSteps {
            let reply = try await post(body, tree: body == [:] ? tree : nil, in: browser)
            let json = try reply.json(from: "\(realm.origin), asked to authenticate,")
            if json["tokenId"]?.string != nil || json["successUrl"]?.string != nil, json["authId"] == nil { return }
            guard var step = TreeStep(json) else {
                // The tree has waited too long for an answer: its steps live for five minutes.
                if json["detail"]?["errorCode"]?.string == "110", !isRestarted {
                    isRestarted = true
                    body = [:]
                    asked = []
                    continue
                }
                throw Self.failure(json, status: reply.status)
            }
            let types = step.callbacks.map { DisplayText.sanitized($0.type, limit: 60) }.joined(separator: " ")
            await browser.report(["tree_step": types, "stage": DisplayText.sanitized(step.stage, limit: 60)])
            let isNew = asked.insert(step.questions).inserted
            waited += try await answer(&step, isNew: isNew, mayWait: Self.longestWaits - waited)
            body = step.answered
        }
        throw AuthError(.userAgentFailed, "After \(Self.maximumSteps) steps the tree had not come to an end.")
    }

    /// Answers every question of a step.
    /// - Returns: How long the step has asked to wait.
    private func answer(_ step: inout TreeStep, isNew: Bool, mayWait: Duration) async throws -> Duration {
        var wait = Duration.zero
        for index in step.callbacks.indices {
            var callback = step.callbacks[index]
            let handler = try await handlers.answer(&callback, in: step)
            if !isNew, !(handler is PassiveCallbacks), !handler.mayAnswerOtherwise {
                throw AuthError(.accessDenied, "\(realm.origin) did not accept the answers and asks them again.")
            }
            if callback.type == "PollingWaitCallback" {
                // "waitTime" is in milliseconds, and a string.
                let asked = callback.output("waitTime")
                let milliseconds = asked?.string.flatMap { Int($0) } ?? asked?.integer.map(Int.init) ?? 1000
                wait = max(wait, min(.milliseconds(max(milliseconds, 100)), Self.longestWait))
            }
            step.callbacks[index] = callback
        }
        guard wait <= mayWait else {
            throw AuthError(.timedOut, "The tree was waited for as long as is allowed. Start again.")
        }
        if wait > .zero { try await host.clock.sleep(for: wait) }
        return wait
    }

    private func post(_ body: JSON, tree: String?, in browser: HeadlessBrowser) async throws -> HTTPReply {
        let address = try Endpoint("\(realm.restURL)/authenticate", name: "authenticate")
        let choice: FormParameters = tree.map { ["authIndexType": "service", "authIndexValue": $0] } ?? [:]
        var fields: HTTPFields = [.contentType: "application/json", .accept: "application/json"]
        if let version = HTTPField.Name("Accept-API-Version") { fields[version] = "resource=2.1, protocol=1.0" }
        let endpoint = try Endpoint(address.url(adding: choice))
        let reply = try await browser.send(
            HTTPCall(.post, endpoint, headerFields: fields, body: try body.serialized())
        )
        try reply.requireAvailable(from: realm.origin, now: host.now())
        return reply
    }

    /// What a tree that has failed says.
    private static func failure(_ json: JSON, status: Int) -> AuthError {
        let message = json["message"]?.string ?? ""
        let code = json["code"]?.integer.map(Int.init) ?? status
        let error = ProviderError(error: "\(code)", errorDescription: message.isEmpty ? nil : message, status: status)
        let words = message.lowercased()
        switch code {
        case _ where words.contains("suspendedauthsession"):
            return AuthError(
                .treeSuspended,
                "The link that was to go on with the sign-in has expired.",
                providerError: error
            )
        case 401 where words.contains("lock"):
            return AuthError(.accountLocked, "The account is locked.", providerError: error)
        case 401 where json["detail"]?["errorCode"]?.string == "110" || words.contains("timed out"), 408:
            return AuthError(
                .timedOut,
                "The tree has waited too long for an answer. Start again.",
                providerError: error
            )
        case 401, 403: return AuthError(.accessDenied, "The tree did not let the person in.", providerError: error)
        default: return AuthError(.providerRejected, "The tree could not be walked (\(code)).", providerError: error)
        }
    }
}
