public import AuthFlow
import AuthFlowEssentials
import Crypto
public import HTTPTypes

extension SessionServer {
    /// The most sign-ins that one browser can have under way: one for each of a few tabs.
    private static let slots = 5

    /// How long a sign-in may take.
    static let signInPatience = Duration.seconds(600)

    private var slotPrefix: String { "\(options.cookieName)-login-" }

    /// The cookie of a sign-in under way. It comes with the provider's redirect, which begins at another site: a `Strict` one would not,
    /// and a form that another site posts needs `None`.
    private func slotCookie(_ name: String, _ value: String, _ provider: ProviderSessions) -> ResponseCookie {
        ResponseCookie(
            name: name,
            value: value,
            sameSite: provider.postsResponses ? .none : .lax,
            isSecure: isSecure,
            maximumAge: Self.signInPatience
        )
    }

    // MARK: Begin

    /// GET /login: sends the browser to the provider. The parameter `return_to` names the page to come back to, `provider` the provider.
    func beginSignIn(_ query: String, _ request: HTTPRequest) async -> TransportResponse {
        guard isNavigation(request) else { return ServerResponse.plain(.forbidden) }
        let parameters = FormURLEncoding.decode(query) ?? FormParameters()
        func single(_ name: String) -> String? {
            let values = parameters.values(for: name)
            return values.count == 1 ? values[0] : nil
        }
        // A link of another site comes without the cookie of a session: the next request of the same site has it, so that the
        // session is used, or ends with the new one, instead of being left behind.
        if options.sameSite == .strict, isFromAnotherSite(request), sessionIdentifier(of: request) == nil,
            let path = ReturnAddress(request.path ?? "", prefixes: nil)?.path, parameters[Self.resumption] == nil
        {
            let next = path + (path.contains("?") ? "&" : "?") + "\(Self.resumption)=1"
            return options.pages.page(.continuing, .ok, to: request, links: { [($0.continueLink, next)] }, next: next)
        }
        var signIn = SessionSignInOptions(
            provider: single("provider"),
            returnPath: single("return_to").flatMap { ReturnAddress($0, prefixes: options.returnPrefixes)?.path }
        )
        for parameter in options.signInParameters { single(parameter.rawValue).map { parameter.set($0, in: &signIn) } }
        let isPlain = signIn.provider == nil && !options.signInParameters.contains { parameters[$0.rawValue] != nil }
        if parameters[Self.resumption] != nil, isPlain, let session = try? await session(of: request, isUse: false),
            (try? sessions(of: session)) != nil
        {
            return ServerResponse.redirect(to: signIn.returnPath ?? options.startPath)
        }
        return await self.signIn(request, signIn)
    }

    /// The parameter of the sign-in route that says that the browser was here a moment ago, without its cookie.
    private static let resumption = "resume"

    /// Returns the response that sends a browser to the provider. When it comes back, it has a new session, and the one that it had has ended.
    ///
    /// The application calls it for a page of its own; ``SessionServerOptions/loginPath`` is the same without code.
    /// - Parameters:
    ///   - request: The request of the browser, a navigation.
    ///   - signIn: The options.
    public func signIn(_ request: HTTPRequest, _ signIn: SessionSignInOptions = SessionSignInOptions()) async
        -> TransportResponse
    {
        let known = sessionIdentifier(of: request)
        guard let provider = chosenProvider(signIn, known?.provider) else { return choice(request, signIn) }
        guard signIns.enter() else { return ServerResponse.tooMany() }
        defer { signIns.leave() }
        let reporter = FlowReporter(host: host, observer: observer)
        do {
            var authorization = signIn.authorization
            authorization.lifetime = Self.signInPatience
            authorization.redirectURI = nil
            if let requirement = signIn.requirement {
                // RFC 9470 section 5: "the client ... using the acr_values parameter", and max_age, which the client checks.
                if !requirement.acrValues.isEmpty { authorization.acrValues = requirement.acrValues }
                authorization.maxAge = requirement.maximumAge ?? authorization.maxAge
            }
            var pendingRequest = try await reporter.step(.authorizationRequest) { [authorization] in
                try await provider.client.authorizationRequest(authorization)
            }
            // The cookie of the session does not come with the provider's redirect: what will have ended then is remembered now.
            var pendingSignIn = PendingSignIn(returnPath: signIn.returnPath ?? options.startPath)
            pendingSignIn.previous = known.map { ($0.provider.name, $0.provider.recordKey($0.identifier).name) }
            pendingSignIn.isSilent = authorization.prompt == AuthorizationOptions.Prompt.none
            pendingSignIn.requirement = signIn.requirement
            pendingRequest.note = pendingSignIn.note
            let slot = newSlot(for: pendingRequest.state)
            try await reporter.step(.storing) { [pendingRequest] in
                try await provider.pending.keep(pendingRequest, for: Secret(slot.value))
            }
            let response = ServerResponse.redirect(to: pendingRequest.url)
                .setting(slotCookie(slot.name, slot.value, provider))
            return surplusSlots(RequestCookies(request))
                .reduce(response) { $0.setting(slotCookie($1, "", provider).removal) }
        } catch {
            return failure(error, request)
        }
    }

    /// The provider of a sign-in; nil where the user has to choose.
    private func chosenProvider(_ signIn: SessionSignInOptions, _ known: ProviderSessions?) -> ProviderSessions? {
        if let name = signIn.provider, let named = provider(name) { return named }
        guard providers.count > 1 else { return providers[0] }
        // A step-up is at the provider of the session.
        return signIn.requirement == nil ? nil : known
    }

    /// The page where the user chooses the provider.
    private func choice(_ request: HTTPRequest, _ signIn: SessionSignInOptions) -> TransportResponse {
        let links = providers.map { provider in
            var query = FormParameters()
            query.append("provider", provider.name)
            if let path = signIn.returnPath { query.append("return_to", path) }
            return (
                text: provider.provider.displayName, url: "\(options.loginPath)?\(FormURLEncoding.encodeQuery(query))"
            )
        }
        return options.pages.page(.chooseProvider, .ok, to: request, links: { _ in links })
    }

    /// A cookie for another sign-in, with a name of its own, which follows from the state: a browser may begin several at once, and a
    /// response names the one that it belongs to. Its value begins with the time, so that the oldest of too many can be told.
    private func newSlot(for state: Secret) -> (name: String, value: String) {
        return (
            slotName(for: state), "\(Int(host.now().timeIntervalSince1970)).\(Base64URL.encode(host.randomBytes(32)))"
        )
    }

    private static let slotBytes = 6

    private func slotName(for state: Secret) -> String {
        slotPrefix + Base64URL.encode(SHA256.hash(data: Array(state.exposed.utf8)).prefix(Self.slotBytes))
    }

    /// The sign-ins under way in a browser, the newest first.
    private func slots(_ cookies: RequestCookies) -> [(name: String, value: String)] {
        func time(_ value: String) -> Int { Int(value.prefix { $0 != "." }) ?? 0 }
        return cookies.named(slotPrefix)
            .filter { Base64URL.decode($0.name.dropFirst(slotPrefix.count))?.count == Self.slotBytes }
            .sorted { time($0.value) > time($1.value) }
    }

    /// The oldest sign-ins of a browser, which have to make room for another.
    private func surplusSlots(_ cookies: RequestCookies) -> [String] {
        slots(cookies).dropFirst(Self.slots - 1).map(\.name)
    }

    // MARK: Finish

    /// The callback: exchanges the code, begins a session with a new identifier, and leads to the page that was asked for.
    /// - Parameter parameters: Those of the authorization response, encoded.
    func finishSignIn(
        _ parameters: String,
        at provider: ProviderSessions,
        _ request: HTTPRequest
    ) async -> TransportResponse {
        let reporter = FlowReporter(host: host, observer: observer)
        do {
            let taken = try await reporter.step(.authorizationResponse) {
                try await takeRequest(for: parameters, at: provider, request)
            }
            let removal = slotCookie(taken.slot, "", provider).removal
            let pending = PendingSignIn(note: taken.request.note, startPath: options.startPath)
            do {
                let credential = try await provider.client.exchange(
                    .response(taken.response),
                    for: taken.request,
                    reporter: reporter
                )
                .credential
                return try await begin(pending, credential, at: provider, request, reporter).setting(removal)
            } catch let error as AuthError where pending.isSilent && Self.isAboutInteraction(error) {
                let separator = pending.returnPath.contains("?") ? "&" : "?"
                return leading(to: "\(pending.returnPath)\(separator)silent_sign_in=failed", request).setting(removal)
            } catch {
                // It was taken out, so that it cannot be tried again.
                return failure(error, request).setting(removal)
            }
        } catch {
            return failure(error, request)
        }
    }

    /// OIDC Core section 3.1.2.6: the errors of a request with `prompt` `none` that needs a page.
    private static func isAboutInteraction(_ error: AuthError) -> Bool {
        [
            "login_required", "interaction_required", "account_selection_required", "consent_required",
        ].contains(error.providerError?.error)
    }

    /// Begins the session of a user who has signed in, if the application accepts that.
    private func begin(
        _ pending: PendingSignIn,
        _ credential: Credential,
        at provider: ProviderSessions,
        _ request: HTTPRequest,
        _ reporter: FlowReporter
    ) async throws -> TransportResponse {
        let old = oldSessions(pending, request)
        let previous = try await known(old)
        let isSameUser = previous?.credential.account == credential.account
        if let requirement = pending.requirement, !requirement.isMet(by: credential.authentication, at: host.now()) {
            // The grant may be that of the session that goes on.
            if !isSameUser { revoke([credential], at: provider) }
            return options.pages.page(
                .insufficientAuthentication,
                .forbidden,
                to: request,
                links: { [($0.startLink, options.startPath)] }
            )
        }
        let new = NewSignIn(
            provider: provider.name,
            credential: credential,
            returnPath: pending.returnPath,
            previous: previous?.session
        )
        let decision: SignInDecision
        do {
            decision = try await options.hooks.onSignIn(new)
        } catch {
            revoke([credential], at: provider)
            reporter.report(.storing, details: ["refused": "by the application's onSignIn"])
            throw HookFailure()
        }
        switch decision.outcome {
        case .refused(let message):
            revoke([credential], at: provider)
            return options.pages.page(
                .refused,
                .forbidden,
                to: request,
                message: message,
                links: { [($0.retryLink, options.loginPath), ($0.startLink, options.startPath)] }
            )
        case .redirected(let url):
            revoke([credential], at: provider)
            return ServerResponse.redirect(to: url)
        case .accepted(let data, let path):
            var credential = credential
            // The user is the same, so what the session has stays; the data of one user is not for another.
            credential.applicationData = data ?? (isSameUser ? previous?.credential.applicationData : nil)
            let identifier = try await reporter.step(.storing) { [credential] in
                try await beginSession(credential, at: provider, after: old)
            }
            return leading(to: path ?? pending.returnPath, request)
                .setting(sessionCookie(identifier, provider))
        }
    }

    /// An error of the application's hook: it is the application's to log, and nothing of it is shown.
    private struct HookFailure: Error {}

    /// Leads the browser on to a page of the application.
    ///
    /// A redirect would not do after a sign-in with a `Strict` cookie: RFC 6265bis keeps it from every request of a chain that began at
    /// another site, so the next page would not see the session.
    private func leading(to path: String, _ request: HTTPRequest) -> TransportResponse {
        guard options.sameSite == .strict else { return ServerResponse.redirect(to: path) }
        return options.pages.page(.signedIn, .ok, to: request, links: { [($0.continueLink, path)] }, next: path)
    }

    /// The sessions that the browser had before a sign-in.
    private func oldSessions(_ pending: PendingSignIn, _ request: HTTPRequest) -> [(
        provider: ProviderSessions, key: RecordKey
    )] {
        let remembered = pending.previous.flatMap { old in
            provider(old.provider).map { ($0, $0.recordKey(named: old.name)) }
        }
        let present = sessionIdentifier(of: request).map { ($0.provider, $0.provider.recordKey($0.identifier)) }
        guard let remembered, let present, remembered.1 != present.1 else {
            return [remembered ?? present].compactMap(\.self)
        }
        return [remembered, present]
    }

    /// The first of the sessions that is still there.
    private func known(
        _ old: [(provider: ProviderSessions, key: RecordKey)]
    ) async throws -> (session: KnownSession, credential: Credential)? {
        for (provider, key) in old {
            guard let credential = try await provider.credentials.stored(key)?.credential else { continue }
            return (KnownSession(name: key.name, provider: provider.name, credential), credential)
        }
        return nil
    }

    /// Takes the request out that a response belongs to, with the name of its cookie.
    /// - Parameter parameters: Those of the response, encoded.
    private func takeRequest(
        for parameters: String,
        at provider: ProviderSessions,
        _ request: HTTPRequest
    ) async throws -> (request: AuthorizationRequest, response: RedirectResponse, slot: String) {
        // A browser without a sign-in costs neither a private-key operation, for an encrypted response, nor an access to the store; nor do
        // cookies that another site of the domain has set.
        let cookies = slots(RequestCookies(request)).filter { $0.value.utf8.count >= 43 }
        guard !cookies.isEmpty,
            let response = try? RedirectResponse(
                encoded: parameters,
                at: provider.redirectURI,
                decrypt: provider.client.responseDecryption
            ),
            let state = response.state, !state.exposed.isEmpty,
            let slot = cookies.first(where: { $0.name == slotName(for: state) })
        else { throw Self.unexpectedResponse }
        do {
            return (
                try await provider.pending.take(state, in: Secret(slot.value), of: provider.client), response, slot.name
            )
        } catch let error as AuthError where error.code == .invalidCallback {
            throw Self.unexpectedResponse
        }
    }

    private static var unexpectedResponse: AuthError {
        AuthError(
            .invalidCallback,
            "No sign-in of this browser waits for this response: it was finished already, took too long, or was begun elsewhere."
        )
    }

    /// Keeps a credential under a new identifier. What the browser had before ends: an identifier that was known before a sign-in must
    /// not have the session after it.
    /// - Parameter old: The sessions that the browser had.
    private func beginSession(
        _ credential: Credential,
        at provider: ProviderSessions,
        after old: [(provider: ProviderSessions, key: RecordKey)]
    ) async throws -> Secret {
        let identifier = Secret(Base64URL.encode(host.randomBytes(32)))
        let key = provider.key(identifier)
        let own = provider.recordKey(identifier)
        do {
            let attributes = RecordAttributes(
                lifetime: options.lifetime,
                idleTime: options.idleTime,
                tags: tags(of: credential, at: provider)
            )
            // In a task of its own: this one may be cancelled, and a session that is written afterwards would not be removed.
            try await Task {
                try await provider.credentials.save(credential, for: key, attributes: attributes)
            }.value
            guard try await !wasEndedMeanwhile(credential, at: provider) else {
                if Self.endsWithItsSession(credential) { revoke([credential], at: provider) }
                throw AuthError(.loginRequired, "The provider ended the session during the sign-in. Sign in again.")
            }
            for (provider, key) in old {
                let removed = try await provider.credentials.remove([key])
                // Tokens of the same user may belong to the same grant, which is still in use. The user's claims may have changed meanwhile.
                revoke(removed.compactMap(\.credential).filter { $0.account != credential.account }, at: provider)
                reportEnds(removed, at: provider, .replaced)
            }
            // The sign-in is good although the others cannot be found now.
            try? await endOldestSessions(of: credential, at: provider, own)
        } catch {
            await discard(own, at: provider)
            throw error
        }
        return identifier
    }

    /// Removes the session of a sign-in that was refused: no browser is told its identifier. While the store cannot be reached, it is tried
    /// again: the tokens would stay there for hours. Nothing is revoked: other sessions of the user may have tokens of the same grant.
    private func discard(_ record: RecordKey, at provider: ProviderSessions) async {
        let credentials = provider.credentials
        // In a task of its own: this one may be cancelled.
        let isRemoved = await Task { (try? await credentials.remove([record])) != nil }.value
        guard !isRemoved else { return }
        credentials.beginCleanup { [clock = host.clock] in
            var pause = Duration.seconds(5)
            while pause < Self.signInPatience {
                try? await clock.sleep(for: pause)
                if (try? await credentials.remove([record])) != nil { return }
                pause *= 2
            }
        }
    }

    /// Ends the oldest sessions of a user who has more than the limit: each costs memory whenever all of them are looked for. Their tokens
    /// may belong to the same grant, so they are not revoked.
    private func endOldestSessions(of credential: Credential, at provider: ProviderSessions, _ own: RecordKey)
        async throws
    {
        guard let identity = credential.identity else { return }
        let tag = userTag(identity.issuer, identity.subject, at: provider)
        let found = try await provider.credentials.credentials(tagged: tag)
        guard found.count > options.sessionsPerUser, let new = found.first(where: { $0.key == own }) else { return }
        // Of two sign-ins at the same moment, one ends the other, and not each the other.
        let oldest = found.filter { ($0.lastUse, $0.key.name) < (new.lastUse, own.name) }
            .sorted { $0.lastUse < $1.lastUse }
            .prefix(found.count - options.sessionsPerUser)
        reportEnds(try await provider.credentials.remove(oldest.map(\.key)), at: provider, .limit)
    }

    func sessionCookie(_ identifier: Secret, _ provider: ProviderSessions) -> ResponseCookie {
        sessionCookie(identifier.exposed + (provider.name.isEmpty ? "" : ".\(provider.name)"))
    }

    func sessionCookie(_ value: String) -> ResponseCookie {
        ResponseCookie(
            name: options.cookieName,
            value: value,
            sameSite: options.sameSite == .strict ? .strict : .lax,
            isSecure: isSecure,
            maximumAge: options.isPersistent ? options.lifetime : nil
        )
    }

    /// The page for what went wrong. It shows no value of the request: what is for the operator is told in the events.
    private func failure(_ error: any Error, _ request: HTTPRequest) -> TransportResponse {
        let (reason, status): (SessionPage.Reason, HTTPResponse.Status) =
            switch (error as? AuthError)?.code {
            case .accessDenied: (.denied, .badRequest)
            case .invalidCallback, .timedOut: (.stale, .badRequest)
            case .loginRequired: (.ended, .badRequest)
            case .providerRejected, .issuerMismatch: (.failed, .badRequest)
            case .storageFailed, .storeDamaged, .leaseBusy, .leaseLost, .outcomeUnknown:
                (.unavailable, .serviceUnavailable)
            case .networkFailed, .temporarilyUnavailable: (.unavailable, .badGateway)
            case nil: (.failed, .internalServerError)
            default: (.failed, .badGateway)
            }
        return options.pages.page(
            reason,
            status,
            to: request,
            links: { [($0.retryLink, options.loginPath), ($0.startLink, options.startPath)] }
        )
    }
}
