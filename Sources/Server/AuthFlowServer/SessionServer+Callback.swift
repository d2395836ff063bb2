import AuthFlow
import AuthFlowEssentials
import Synchronization

// The authorization response: the server validates it, the application accepts or rejects the sign-in, and a session starts.

extension SessionServer {
    /// Handles the callback: exchanges the code, creates a session with a new identifier, and sends the browser to the
    /// requested page.
    ///
    /// If the browser closes its connection and the web framework cancels the request's task, the code may already have been sent. The
    /// exchange then completes, but no session starts: the browser could not receive its cookie, and its previous session continues.
    /// - Parameter parameters: The encoded parameters of the authorization response.
    func finishSignIn(
        _ parameters: String,
        at provider: ProviderSessions,
        _ request: HTTPRequest
    ) async -> TransportResponse {
        // The stored request remains, so the browser can send the response again.
        guard provider.callbacks.enter() else { return ServerResponse.tooMany() }
        let reporter = FlowReporter(host: host, observer: observer)
        let taken: TakenRequest
        do {
            taken = try await reporter.step(.authorizationResponse) {
                try await takeRequest(for: parameters, at: provider, request)
            }
        } catch {
            provider.callbacks.release()
            return failure(error, request)
        }
        let isCancelled = Atomic(false)
        let work = provider.credentials.unfinished.begin { [self] in
            defer { provider.callbacks.release() }
            return await finishSignIn(taken, at: provider, request, reporter) {
                if isCancelled.load(ordering: .relaxed) { throw CancellationError() }
            }
        }
        do {
            return try await withTaskCancellationHandler {
                try await work.value()
            } onCancel: {
                isCancelled.store(true, ordering: .relaxed)
            }
        } catch {
            return failure(error, request)
        }
    }

    /// - Parameter checkCancellation: Throws a `CancellationError` if the browser's request has been cancelled.
    private func finishSignIn(
        _ taken: TakenRequest,
        at provider: ProviderSessions,
        _ request: HTTPRequest,
        _ reporter: FlowReporter,
        _ checkCancellation: @Sendable () throws -> Void
    ) async -> TransportResponse {
        // The stored request was removed, so the sign-in cannot be retried, and its cookie is not needed.
        let removal = signInCookies(provider).removal(of: taken.cookie.name)
        do {
            let pending = try PendingSignIn(note: taken.request.note)
            do {
                let credential = try await provider.client.exchange(
                    .response(taken.response),
                    for: taken.request,
                    reporter: reporter
                )
                .credential
                return try await begin(
                    pending,
                    taken.cookie,
                    credential,
                    at: provider,
                    request,
                    reporter,
                    checkCancellation
                )
                .setting(removal)
            } catch  where pending.isSilent {
                return silentFailure(pending.returnPath, request).setting(removal)
            } catch {
                return failure(error, request, returningTo: pending.returnPath).setting(removal)
            }
        } catch {
            return failure(error, request).setting(removal)
        }
    }

    /// Sends the browser back after a failed silent sign-in.
    func silentFailure(_ path: String, _ request: HTTPRequest) -> TransportResponse {
        let fragment = path.firstIndex(of: "#") ?? path.endIndex
        let page = path[..<fragment]
        let target = "\(page)\(page.contains("?") ? "&" : "?")silent_sign_in=failed\(path[fragment...])"
        return navigationResponse(to: target, .continuing, request)
    }

    /// Starts the session of a user who has signed in, if the application accepts the sign-in.
    /// - Parameters:
    ///   - cookie: The sign-in's cookie.
    ///   - checkCancellation: Throws a `CancellationError` if the browser's request has been cancelled.
    private func begin(
        _ pending: PendingSignIn,
        _ cookie: (name: String, value: String),
        _ credential: Credential,
        at provider: ProviderSessions,
        _ request: HTTPRequest,
        _ reporter: FlowReporter,
        _ checkCancellation: () throws -> Void
    ) async throws -> TransportResponse {
        let note = try? await provider.pending.note(for: Secret(cookie.value), of: provider.client)
        let old = oldSessions(pending, note.flatMap(PendingSignIn.Previous.init), request)
        let previous: [SessionSuccession.Predecessor]
        do {
            previous = try await predecessors(old)
        } catch {
            reporter.report(.storing, failedWith: error)
            throw error
        }
        let succession = SessionSuccession(pending, at: provider.name, credential, after: previous)
        func reject() {
            if succession.revokesRejectedTokens { revoke([credential], at: provider) }
        }
        func rejecting<Value>(_ body: () throws -> Value) rethrows -> Value {
            do {
                return try body()
            } catch {
                reporter.report(.storing, failedWith: error)
                reject()
                throw error
            }
        }
        let leeway = provider.client.registration.clockLeeway
        try rejecting {
            try checkCancellation()
            try succession.checkAuthentication(at: host.now(), clockLeeway: leeway)
        }
        switch try await decision(on: succession.proposal, reporter, onFailure: reject).outcome {
        case .refused(let message):
            reject()
            guard !pending.isSilent else { return silentFailure(pending.returnPath, request) }
            return options.pages.page(
                .refused,
                .forbidden,
                to: request,
                message: message,
                links: failureLinks(returningTo: pending.returnPath)
            )
        case .redirected(let url):
            reject()
            return ServerResponse.redirect(to: url)
        case .accepted(let data, let path):
            let start = try rejecting {
                try checkCancellation()
                return try succession.start(with: data)
            }
            let identifier = try await reporter.step(.storing) {
                try await begin(start, succession, at: provider, after: old, cookie: Secret(cookie.value))
            }
            await record(identifier, of: provider, for: request, except: cookie.name)
            return navigationResponse(to: path ?? pending.returnPath, .signedIn, request)
                .setting(sessionCookie(identifier, provider))
        }
    }

    /// The application's decision.
    private func decision(
        on new: NewSignIn,
        _ reporter: FlowReporter,
        onFailure reject: () -> Void
    ) async throws -> SignInDecision {
        do {
            return try await options.hooks.run(clock: host.clock) { [hooks = options.hooks] in
                try await hooks.onSignIn(new)
            }
        } catch {
            reject()
            reporter.report(.storing, details: ["refused": "by the application's onSignIn"])
            throw HookFailure()
        }
    }

    /// The links on a page about a failed sign-in.
    /// - Parameter path: The page to which the user returns after another sign-in; default: the start page.
    func failureLinks(returningTo path: String? = nil) -> (PageTexts) -> [(text: String, url: String)] {
        let start = options.startPath
        let retry = loginPath(returningTo: path == start ? nil : path)
        return { [($0.retryLink, retry), ($0.startLink, start)] }
    }

    /// An error thrown by the application's hook, or the hook's timeout. The application must log its errors itself; no part of an error is displayed.
    private struct HookFailure: Error {}

    /// Sends the browser to a page of the application.
    ///
    /// A redirect does not work with a `Strict` cookie: RFC 6265bis omits the cookie from every request in a redirect
    /// chain that started at another site, so the next page would not receive the session.
    private func navigationResponse(to path: String, _ reason: SessionPage.Reason, _ request: HTTPRequest)
        -> TransportResponse
    {
        guard options.sameSite == .strict else { return ServerResponse.redirect(to: path) }
        return options.pages.page(reason, .ok, to: request, links: { [($0.continueLink, path)] }, next: path)
    }

    /// The browser's sessions before a sign-in.
    /// - Parameter later: The session that another sign-in has started since this one began.
    private func oldSessions(_ pending: PendingSignIn, _ later: PendingSignIn.Previous?, _ request: HTTPRequest) -> [(
        provider: ProviderSessions, key: RecordKey
    )] {
        let recorded = [pending.previous, later].compactMap(\.self).compactMap(session)
        let present = sessionIdentifier(of: request).map { ($0.provider, $0.provider.recordKey($0.identifier)) }
        return (recorded + [present].compactMap(\.self)).reduce(into: []) { old, session in
            if !old.contains(where: { $0.1 == session.1 }) { old.append(session) }
        }
    }

    private func session(_ previous: PendingSignIn.Previous) -> (provider: ProviderSessions, key: RecordKey)? {
        provider(previous.provider).map { ($0, $0.recordKey(named: previous.name)) }
    }

    /// Records a new session for the browser's other sign-ins in progress, so that they can end it: the browser does not send a `Strict` cookie with
    /// the provider's redirect. The sign-in is valid even if this fails.
    /// - Parameter own: The cookie of the sign-in that has started the session.
    private func record(
        _ identifier: Secret,
        of provider: ProviderSessions,
        for request: HTTPRequest,
        except own: String
    ) async {
        let session = PendingSignIn.Previous(provider: provider.name, name: provider.recordKey(identifier).name)
        // The response to the browser does not wait for a slow store.
        try? await withDeadline(.seconds(2), clock: host.clock) {
            AuthError(.timedOut, "The store did not respond in time.")
        } _: { [self] in
            let note = try session.note
            for other in providers {
                for cookie in signInCookies(other).newest(in: RequestCookies(request)) where cookie.name != own {
                    let browser = Secret(cookie.value)
                    try await other.pending.saveNote(note, for: browser, of: other.client, lifetime: Self.signInTimeout)
                }
            }
        }
    }

    /// The sessions that have not ended.
    private func predecessors(
        _ old: [(provider: ProviderSessions, key: RecordKey)]
    ) async throws -> [SessionSuccession.Predecessor] {
        var found: [SessionSuccession.Predecessor] = []
        for (provider, key) in old {
            guard let credential = try await provider.credentials.stored(key)?.credential else { continue }
            let session = KnownSession(name: key.name, provider: provider.name, credential)
            found.append(SessionSuccession.Predecessor(session: session, credential: credential, key: key))
        }
        return found
    }

    /// An authorization request that was removed from the store, with the response to it and the cookie of its sign-in.
    private typealias TakenRequest = (
        request: AuthorizationRequest, response: RedirectResponse, cookie: (name: String, value: String)
    )

    /// Removes and returns the request to which a response belongs, together with the parsed response and the request's cookie.
    /// - Parameter parameters: The encoded parameters of the response.
    private func takeRequest(
        for parameters: String,
        at provider: ProviderSessions,
        _ request: HTTPRequest
    ) async throws -> TakenRequest {
        // A browser without a sign-in in progress must not trigger a private-key operation (for an encrypted response)
        // or access the store. The same applies to cookies that another subdomain has set.
        let cookies = signInCookies(provider)
        let found = cookies.all(in: RequestCookies(request)).filter { $0.value.utf8.count >= 43 }
        guard !found.isEmpty,
            let response = try? RedirectResponse(
                encoded: parameters,
                at: provider.redirectURI,
                decrypt: provider.client.responseDecryption
            ),
            let state = response.state, !state.exposed.isEmpty,
            let own = found.first(where: { $0.name == cookies.name(for: state) })
        else { throw Self.unexpectedResponse }
        do {
            return (try await provider.pending.take(state, in: Secret(own.value), of: provider.client), response, own)
        } catch let error as AuthError where [.invalidCallback, .timedOut].contains(error.code) {
            throw Self.unexpectedResponse
        }
    }

    private static var unexpectedResponse: AuthError {
        AuthError(
            .invalidCallback,
            "The sign-in for this response has already completed or timed out, or was started in another browser."
        )
    }

    /// Stores the new session under a new identifier, and ends the browser's previous sessions: an identifier that was known before a sign-in
    /// must not identify the session after it (session fixation).
    /// - Parameter cookie: The value of the sign-in's cookie.
    private func begin(
        _ start: SessionSuccession.Start,
        _ succession: SessionSuccession,
        at provider: ProviderSessions,
        after old: [(provider: ProviderSessions, key: RecordKey)],
        cookie: Secret
    ) async throws -> Secret {
        let credential = start.credential
        let identifier = Secret(Base64URL.encode(host.randomBytes(32)))
        let key = provider.key(identifier)
        let own = provider.recordKey(identifier)
        do {
            let attributes = RecordAttributes(
                lifetime: options.lifetime,
                idleTime: options.idleTime,
                tags: tags(of: credential, at: provider)
            )
            try await provider.credentials.save(credential, for: key, attributes: attributes)
            guard try await !wasEndedMeanwhile(credential, at: provider) else {
                if credential.endsWithProviderSession { revoke([credential], at: provider) }
                throw AuthError(.loginRequired, "The provider ended the session during the sign-in. Sign in again.")
            }
            // The session that another sign-in in this browser has started in the meantime.
            let note = try? await provider.pending.takeNote(for: cookie, of: provider.client)
            let later =
                note.flatMap(PendingSignIn.Previous.init).flatMap(session)
                .flatMap { later in old.contains { $0.key == later.key } ? nil : [later] } ?? []
            let isOther = try await predecessors(later).contains {
                succession.revokes($0.credential, at: $0.session.provider)
            }
            for (other, old) in old + later {
                let isLate = isOther && later.contains { $0.key == old }
                if isLate || succession.revokesLateTokens(of: old, at: other.name) {
                    try await other.credentials.revokeLateTokens(of: [old])
                }
                let removed = try await remove([old], at: other, .replaced) { succession.revokes($0, at: other.name) }
                if let last = removed.first, start.takesOver(last) {
                    // The sign-in is valid even if this change to the data cannot be stored.
                    _ = try? await provider.credentials.changeApplicationData(of: key) { _ in
                        last.credential?.applicationData
                    }
                }
            }
            // The sign-in is valid even if the user's other sessions cannot be found now.
            try? await endOldestSessions(of: credential, at: provider, own)
        } catch {
            await discard(own, at: provider)
            throw error
        }
        return identifier
    }

    /// Removes the session of a failed sign-in; no browser has received its identifier. The removal is retried while
    /// the store is unreachable, because the tokens would otherwise remain in the store for hours. Nothing is revoked, because
    /// other sessions of the user may have tokens of the same grant.
    private func discard(_ record: RecordKey, at provider: ProviderSessions) async {
        let credentials = provider.credentials
        guard (try? await credentials.remove([record])) == nil else { return }
        credentials.beginCleanup { [clock = host.clock] in
            var pause = Duration.seconds(5)
            while pause < Self.signInTimeout {
                try? await clock.sleep(for: pause)
                if (try? await credentials.remove([record])) != nil { return }
                pause *= 2
            }
        }
    }

    /// Ends the least recently used sessions of a user who has more sessions than the limit, because each session uses
    /// memory whenever the user's sessions are looked up. Their tokens are not revoked, because they may belong to the
    /// same grant as the new session.
    private func endOldestSessions(of credential: Credential, at provider: ProviderSessions, _ own: RecordKey)
        async throws
    {
        guard let identity = credential.identity else { return }
        let oldest = try await sessions(ofUser: identity.subject, identity.issuer, at: provider)
            .beyond(limit: options.sessionsPerUser, after: own)
        guard !oldest.isEmpty else { return }
        try await remove(oldest, at: provider, .limit)
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

    /// The page for an error. It displays no values from the request; the events contain the details for the operator.
    /// - Parameter path: The page to which the user returns after another sign-in; default: the start page.
    func failure(_ error: any Error, _ request: HTTPRequest, returningTo path: String? = nil) -> TransportResponse {
        let (reason, status): (SessionPage.Reason, HTTPResponse.Status) =
            switch (error as? AuthError)?.code {
            case .accessDenied: (.denied, .badRequest)
            case .invalidCallback: (.stale, .badRequest)
            case .loginRequired: (.ended, .badRequest)
            case .insufficientUserAuthentication: (.insufficientAuthentication, .forbidden)
            case .providerRejected, .issuerMismatch: (.failed, .badRequest)
            case let code? where code.isOfStore: (.unavailable, .serviceUnavailable)
            case .networkFailed, .temporarilyUnavailable, .timedOut: (.unavailable, .badGateway)
            case nil: (.failed, .internalServerError)
            default: (.failed, .badGateway)
            }
        return options.pages.page(reason, status, to: request, links: failureLinks(returningTo: path))
    }
}
