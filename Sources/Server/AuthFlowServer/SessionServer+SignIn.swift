import AuthFlow
import AuthFlowEssentials
import Crypto
import HTTPTypes

extension SessionServer {
    /// The most sign-ins that one browser can have under way: one for each of a few tabs.
    private static let slots = 5

    /// How long a sign-in may take.
    static let signInPatience = Duration.seconds(600)

    private var slotPrefix: String { "\(options.cookieName)-login-" }

    /// The cookie of a sign-in under way. It comes with the provider's redirect, which begins at another site: a `Strict` one would not,
    /// and a form that another site posts needs `None`.
    private func slotCookie(_ name: String, _ value: String) -> ResponseCookie {
        let isPosted = client.registration.responseMode.delivery == .formPost
        return ResponseCookie(
            name: name,
            value: value,
            sameSite: isPosted ? .none : .lax,
            isSecure: isSecure,
            maximumAge: Self.signInPatience
        )
    }

    /// GET /login: sends the browser to the provider. The parameter `return_to` names the page to come back to.
    func beginSignIn(_ query: String, _ request: HTTPRequest) async -> TransportResponse {
        let parameters = FormURLEncoding.decode(query) ?? FormParameters()
        guard isNavigation(request) else { return ServerResponse.plain(.forbidden) }
        guard signIns.enter() else { return ServerResponse.tooMany() }
        defer { signIns.leave() }
        let wanted = parameters.values(for: "return_to")
        let address = wanted.count == 1 ? ReturnAddress(wanted[0], prefixes: options.returnPrefixes) : nil
        let reporter = FlowReporter(host: client.server.host, observer: observer)
        do {
            var authorization = AuthorizationOptions()
            authorization.lifetime = Self.signInPatience
            var pendingRequest = try await reporter.step(.authorizationRequest) { [authorization] in
                try await client.authorizationRequest(authorization)
            }
            // The cookie of the session does not come with the provider's redirect: what will have ended then is remembered now.
            let session = sessionIdentifier(of: request).map { credentials.recordKey(for: key($0)).name } ?? ""
            pendingRequest.note = "\(session) \(address?.path ?? options.startPath)"
            let slot = newSlot(for: pendingRequest.state)
            try await reporter.step(.storing) { [pendingRequest] in
                try await pending.keep(pendingRequest, for: Secret(slot.value))
            }
            return surplusSlots(RequestCookies(request))
                .reduce(ServerResponse.redirect(to: pendingRequest.url).setting(slotCookie(slot.name, slot.value))) {
                    $0.setting(slotCookie($1, "").removal)
                }
        } catch {
            return failure(error)
        }
    }

    /// A cookie for another sign-in, with a name of its own, which follows from the state: a browser may begin several at once, and a
    /// response names the one that it belongs to. Its value begins with the time, so that the oldest of too many can be told.
    private func newSlot(for state: Secret) -> (name: String, value: String) {
        let host = client.server.host
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

    /// The callback: exchanges the code, begins a session with a new identifier, and leads to the page that was asked for.
    /// - Parameter parameters: Those of the authorization response, encoded.
    func finishSignIn(_ parameters: String, _ request: HTTPRequest) async -> TransportResponse {
        let reporter = FlowReporter(host: client.server.host, observer: observer)
        do {
            let taken = try await reporter.step(.authorizationResponse) {
                try await takeRequest(for: parameters, request)
            }
            let removal = slotCookie(taken.slot, "").removal
            do {
                let credential = try await client.exchange(
                    .response(taken.response),
                    for: taken.request,
                    reporter: reporter
                )
                .credential
                let note = (taken.request.note ?? "").split(separator: " ", omittingEmptySubsequences: false)
                let old = [
                    note.first.map { String($0) },
                    sessionIdentifier(of: request).map { credentials.recordKey(for: key($0)).name },
                ]
                let identifier = try await reporter.step(.storing) {
                    try await beginSession(credential, after: old.compactMap { $0 })
                }
                let page = note.count == 2 ? String(note[1]) : options.startPath
                return ServerResponse.leadingOn(to: page).setting(removal)
                    .setting(sessionCookie(identifier.exposed))
            } catch {
                // It was taken out, so that it cannot be tried again.
                return failure(error).setting(removal)
            }
        } catch {
            return failure(error)
        }
    }

    /// Takes the request out that a response belongs to, with the name of its cookie.
    /// - Parameter parameters: Those of the response, encoded.
    private func takeRequest(
        for parameters: String,
        _ request: HTTPRequest
    ) async throws -> (request: AuthorizationRequest, response: RedirectResponse, slot: String) {
        // A browser without a sign-in costs neither a private-key operation, for an encrypted response, nor an access to the store; nor do
        // cookies that another site of the domain has set.
        let cookies = slots(RequestCookies(request)).filter { $0.value.utf8.count >= 43 }
        guard !cookies.isEmpty,
            let response = try? RedirectResponse(
                encoded: parameters,
                at: redirectURI,
                decrypt: client.responseDecryption
            ),
            let state = response.state, !state.exposed.isEmpty,
            let slot = cookies.first(where: { $0.name == slotName(for: state) })
        else { throw Self.unexpectedResponse }
        do {
            return (try await pending.take(state, in: Secret(slot.value), of: client), response, slot.name)
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
    /// - Parameter names: The names of the records of sessions that the browser had.
    private func beginSession(_ credential: Credential, after names: [String]) async throws -> Secret {
        let identifier = Secret(Base64URL.encode(client.server.host.randomBytes(32)))
        let key = key(identifier)
        let own = credentials.recordKey(for: key)
        do {
            let attributes = RecordAttributes(
                lifetime: options.lifetime,
                idleTime: options.idleTime,
                tags: tags(of: credential)
            )
            // In a task of its own: this one may be cancelled, and a session that is written afterwards would not be removed.
            try await Task { [credentials] in try await credentials.save(credential, for: key, attributes: attributes) }
                .value
            guard try await !wasEndedMeanwhile(credential) else {
                if Self.endsWithItsSession(credential) { revoke([credential]) }
                throw AuthError(.loginRequired, "The provider ended the session during the sign-in. Sign in again.")
            }
            try await endSessions(named: names, after: credential, at: own)
            // The sign-in is good although the others cannot be found now.
            try? await endOldestSessions(of: credential, at: own)
        } catch {
            await discard(own)
            throw error
        }
        return identifier
    }

    /// Removes the session of a sign-in that was refused: no browser is told its identifier. While the store cannot be reached, it is tried
    /// again: the tokens would stay there for hours. Nothing is revoked: other sessions of the user may have tokens of the same grant.
    private func discard(_ record: RecordKey) async {
        // In a task of its own: this one may be cancelled.
        let isRemoved = await Task { [credentials] in (try? await credentials.remove([record])) != nil }.value
        guard !isRemoved else { return }
        credentials.beginCleanup { [credentials, clock = client.server.host.clock] in
            var pause = Duration.seconds(5)
            while pause < Self.signInPatience {
                try? await clock.sleep(for: pause)
                if (try? await credentials.remove([record])) != nil { return }
                pause *= 2
            }
        }
    }

    /// Ends the sessions that a browser had before a sign-in.
    private func endSessions(named names: [String], after credential: Credential, at own: RecordKey) async throws {
        let old = Set(names.filter { !$0.isEmpty }).map {
            RecordKey(name: $0, issuer: own.issuer, clientID: own.clientID, resource: own.resource)
        }
        guard !old.isEmpty else { return }
        let removed = try await credentials.remove(old)
        // Tokens of the same user may belong to the same grant, which is still in use. The user's claims may have changed meanwhile.
        revoke(removed.compactMap(\.credential).filter { $0.account != credential.account })
    }

    /// Ends the oldest sessions of a user who has more than the limit: each costs memory whenever all of them are looked for. Their tokens
    /// may belong to the same grant, so they are not revoked.
    private func endOldestSessions(of credential: Credential, at own: RecordKey) async throws {
        guard let identity = credential.identity else { return }
        let found = try await credentials.credentials(tagged: userTag(identity.issuer, identity.subject))
        guard found.count > options.sessionsPerUser, let new = found.first(where: { $0.key == own }) else { return }
        // Of two sign-ins at the same moment, one ends the other, and not each the other.
        let oldest = found.filter { ($0.lastUse, $0.key.name) < (new.lastUse, own.name) }
            .sorted { $0.lastUse < $1.lastUse }
            .prefix(found.count - options.sessionsPerUser)
        try await credentials.remove(oldest.map(\.key))
    }

    func sessionCookie(_ value: String) -> ResponseCookie {
        ResponseCookie(
            name: options.cookieName,
            value: value,
            sameSite: .strict,
            isSecure: isSecure,
            maximumAge: options.isPersistent ? options.lifetime : nil
        )
    }

    /// The page for what went wrong. It shows no value of the request.
    private func failure(_ error: any Error) -> TransportResponse {
        guard let error = error as? AuthError else {
            return ServerResponse.refusal(
                .internalServerError,
                "Signing in has failed. Try again.",
                start: options.startPath
            )
        }
        let status: HTTPResponse.Status =
            switch error.code {
            case .invalidCallback, .accessDenied, .timedOut, .providerRejected, .issuerMismatch, .loginRequired:
                .badRequest
            case .storageFailed, .storeDamaged, .leaseBusy, .leaseLost, .outcomeUnknown: .serviceUnavailable
            default: .badGateway
            }
        // What is for the operator is told in the events, and not to the browser.
        let message =
            switch error.code {
            case .invalidCallback, .accessDenied, .timedOut, .loginRequired: error.message
            default: "Signing in has failed (\(error.code.rawValue)). Try again."
            }
        return ServerResponse.refusal(status, message, start: options.startPath)
    }
}
