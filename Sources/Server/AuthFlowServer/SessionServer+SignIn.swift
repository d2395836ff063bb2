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
        let isVisit = isVisitFromOtherSite(request) || parameters[Self.resumption] != nil
        if let response = continuation(of: request) { return response }
        var signIn = SessionSignInOptions(
            provider: providers.count == 1 ? nil : single("provider"),
            returnPath: single("return_to").flatMap { ReturnAddress($0, prefixes: options.returnPrefixes)?.path }
        )
        for parameter in options.signInParameters { single(parameter.rawValue).map { parameter.set($0, in: &signIn) } }
        // A user who is signed in is not signed in anew because a page of another site wants it.
        if isVisit, let session = try? await session(of: request, isUse: false) {
            let isPlain = !options.signInParameters.contains { parameters[$0.rawValue] != nil }
            guard !isPlain || signIn.provider.map({ $0 != session.provider }) ?? false else {
                return ServerResponse.redirect(to: signIn.returnPath ?? options.startPath)
            }
            var own = parameters
            own[Self.resumption] = nil
            let path = "\(options.loginPath)?\(FormURLEncoding.encodeQuery(own))"
            return options.pages.page(
                .confirmSignIn,
                .ok,
                to: request,
                links: { [($0.retryLink, path), ($0.startLink, options.startPath)] }
            )
        }
        if signIn.provider == nil, providers.count > 1 { return choice(request, signIn) }
        return await self.signIn(request, signIn)
    }

    /// The parameter that says that the browser was here a moment ago, without its cookie.
    private static let resumption = "resume"

    /// The page for a visit by a link of another site, which comes without a Strict cookie. The next request, of this site, has it. Nil for any
    /// other request.
    private func continuation(of request: HTTPRequest) -> TransportResponse? {
        guard options.sameSite == .strict, request.method == .get, isVisitFromOtherSite(request),
            sessionIdentifier(of: request) == nil, let path = ReturnAddress(request.path ?? "", prefixes: nil)?.path
        else { return nil }
        let query = FormURLEncoding.decode(String(path.drop { $0 != "?" }.dropFirst()))
        let isRepeated = query?[Self.resumption] != nil
        let next = isRepeated ? path : path + (path.contains("?") ? "&" : "?") + "\(Self.resumption)=1"
        return options.pages.page(
            .continuing,
            .ok,
            to: request,
            links: { [($0.continueLink, next)] },
            next: isRepeated ? nil : next
        )
    }

    /// Returns the response that sends a browser to the provider. When the user comes back, a new session replaces the one that the browser had.
    ///
    /// Call it for pages of your own; ``SessionServerOptions/loginPath`` does the same without code.
    /// - Parameters:
    ///   - request: The request of the browser, a navigation.
    ///   - signIn: The options.
    public func signIn(_ request: HTTPRequest, _ signIn: SessionSignInOptions = SessionSignInOptions()) async
        -> TransportResponse
    {
        if let response = continuation(of: request) { return response }
        let known = sessionIdentifier(of: request)
        let returnPath = signIn.returnPath.flatMap { ReturnAddress($0, prefixes: nil)?.path } ?? options.startPath
        let isSilent = signIn.authorization.prompt == AuthorizationOptions.Prompt.none
        let named = signIn.provider.flatMap { provider($0) } ?? known?.provider
        guard let provider = named ?? (providers.count == 1 ? providers[0] : nil) else {
            return isSilent ? silentFailure(returnPath, request) : choice(request, signIn)
        }
        guard provider.signIns.enter() else { return ServerResponse.tooMany() }
        defer { provider.signIns.leave() }
        let reporter = FlowReporter(host: host, observer: observer)
        do {
            var authorization = signIn.authorization
            authorization.lifetime = Self.signInPatience
            authorization.redirectURI = nil
            authorization.resources = nil
            if let requirement = signIn.requirement {
                // RFC 9470 section 4.
                if !requirement.acrValues.isEmpty { authorization.acrValues = requirement.acrValues }
                authorization.maxAge = requirement.maximumAge ?? authorization.maxAge
            }
            var pendingRequest = try await reporter.step(.authorizationRequest) { [authorization] in
                try await provider.client.authorizationRequest(authorization)
            }
            // The cookie of the session does not come with the provider's redirect: what will have ended then is remembered now.
            pendingRequest.note = try PendingSignIn(
                previous: known.map {
                    .init(provider: $0.provider.name, name: $0.provider.recordKey($0.identifier).name)
                },
                returnPath: returnPath,
                isSilent: isSilent,
                linksAccounts: signIn.linksAccounts,
                acrValues: signIn.requirement?.acrValues ?? [],
                maximumAge: signIn.requirement?.maximumAge?.components.seconds
            ).note
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
        (
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
            do {
                let pending = try PendingSignIn(note: taken.request.note)
                do {
                    let credential = try await provider.client.exchange(
                        .response(taken.response),
                        for: taken.request,
                        reporter: reporter
                    )
                    .credential
                    return try await begin(pending, credential, at: provider, request, reporter).setting(removal)
                } catch  where pending.isSilent {
                    return silentFailure(pending.returnPath, request).setting(removal)
                }
            } catch {
                // It was taken out, so that it cannot be tried again.
                return failure(error, request).setting(removal)
            }
        } catch {
            return failure(error, request)
        }
    }

    /// Leads the browser on after a silent sign-in that would have needed a page.
    private func silentFailure(_ path: String, _ request: HTTPRequest) -> TransportResponse {
        let fragment = path.firstIndex(of: "#") ?? path.endIndex
        let page = path[..<fragment]
        let marked = "\(page)\(page.contains("?") ? "&" : "?")silent_sign_in=failed\(path[fragment...])"
        return leading(to: marked, .continuing, request)
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
        let known = try await known(old)
        // Two users who are unknown cannot be told apart.
        let same = known.first { $0.credential.identity != nil && $0.credential.account == credential.account }
        func refuse() {
            // The grant may be that of the session that goes on.
            if same == nil { revoke([credential], at: provider) }
        }
        if let requirement = pending.requirement, !requirement.isMet(by: credential.authentication, at: host.now()) {
            refuse()
            throw AuthError(.insufficientUserAuthentication, "The provider did not authenticate the user as required.")
        }
        let new = NewSignIn(
            provider: provider.name,
            credential: credential,
            returnPath: pending.returnPath,
            // Not another that the browser has by now: its user has not asked.
            previous: pending.linksAccounts ? known.first { $0.key.name == pending.previous?.name }?.session : nil
        )
        let decision: SignInDecision
        do {
            decision = try await options.hooks.onSignIn(new)
        } catch {
            refuse()
            reporter.report(.storing, details: ["refused": "by the application's onSignIn"])
            throw HookFailure()
        }
        switch decision.outcome {
        case .refused(let message):
            refuse()
            guard !pending.isSilent else { return silentFailure(pending.returnPath, request) }
            return options.pages.page(.refused, .forbidden, to: request, message: message, links: waysOn)
        case .redirected(let url):
            refuse()
            return ServerResponse.redirect(to: url)
        case .accepted(let data, let path):
            var credential = credential
            // What the session of a user has stays; the data of one user is not for another.
            let carried = data == nil ? same?.credential.applicationData : nil
            credential.applicationData = data ?? carried
            guard credential.hasStorableSize else {
                refuse()
                throw AuthError(
                    .sessionDataUnusable,
                    "The session cannot be kept with this data: it would be too large."
                )
            }
            let identifier = try await reporter.step(.storing) { [credential] in
                try await beginSession(credential, at: provider, after: old, carrying: same.map { ($0.key, carried) })
            }
            return leading(to: path ?? pending.returnPath, .signedIn, request)
                .setting(sessionCookie(identifier, provider))
        }
    }

    /// The links of a page about a sign-in that did not succeed.
    func waysOn(_ texts: PageTexts) -> [(text: String, url: String)] {
        [(texts.retryLink, options.loginPath), (texts.startLink, options.startPath)]
    }

    /// An error of the application's hook: it is the application's to log, and nothing of it is shown.
    private struct HookFailure: Error {}

    /// Leads the browser on to a page of the application.
    ///
    /// A redirect would not do after a sign-in with a `Strict` cookie: RFC 6265bis keeps it from every request of a chain that began at
    /// another site, so the next page would not see the session.
    private func leading(to path: String, _ reason: SessionPage.Reason, _ request: HTTPRequest) -> TransportResponse {
        guard options.sameSite == .strict else { return ServerResponse.redirect(to: path) }
        return options.pages.page(reason, .ok, to: request, links: { [($0.continueLink, path)] }, next: path)
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

    /// Those of the sessions that have not ended.
    private func known(
        _ old: [(provider: ProviderSessions, key: RecordKey)]
    ) async throws -> [(session: KnownSession, credential: Credential, key: RecordKey)] {
        var known: [(session: KnownSession, credential: Credential, key: RecordKey)] = []
        for (provider, key) in old {
            guard let credential = try await provider.credentials.stored(key)?.credential else { continue }
            known.append((KnownSession(name: key.name, provider: provider.name, credential), credential, key))
        }
        return known
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
    /// - Parameters:
    ///   - old: The sessions that the browser had.
    ///   - carried: That of the same user, and the application's data that was carried over from it.
    private func beginSession(
        _ credential: Credential,
        at provider: ProviderSessions,
        after old: [(provider: ProviderSessions, key: RecordKey)],
        carrying carried: (key: RecordKey, data: Secret?)?
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
            for (other, old) in old {
                let removed = try await other.credentials.remove([old])
                // Tokens of the same user may belong to the same grant, which is still in use. The user's claims may have changed meanwhile.
                revoke(
                    removed.compactMap(\.credential).filter { $0.account != credential.account || other !== provider },
                    at: other
                )
                reportEnds(removed, at: other, .replaced)
                // A request of the old session may have changed the data during the sign-in.
                if let carried, carried.key == old, let last = removed.first?.credential,
                    last.applicationData != carried.data,
                    credential.applicationData == carried.data
                {
                    // The sign-in is good although this change of the data cannot be kept.
                    _ = try? await provider.credentials.changeApplicationData(of: key) { _ in last.applicationData }
                }
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
            case .insufficientUserAuthentication: (.insufficientAuthentication, .forbidden)
            case .providerRejected, .issuerMismatch: (.failed, .badRequest)
            case .storageFailed, .storeDamaged, .leaseBusy, .leaseLost, .outcomeUnknown:
                (.unavailable, .serviceUnavailable)
            case .networkFailed, .temporarilyUnavailable: (.unavailable, .badGateway)
            case nil: (.failed, .internalServerError)
            default: (.failed, .badGateway)
            }
        return options.pages.page(reason, status, to: request, links: waysOn)
    }
}
