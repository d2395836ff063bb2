import AuthFlow
import AuthFlowEssentials
import Synchronization

// The pages for the user's browser.

extension GitHubEmulator {
    func authorize(_ received: ReceivedRequest) -> TransportResponse {
        let query = received.query
        guard let app = app(query["client_id"]) else {
            return .page("Not found", "<p>No such app.</p>", status: .notFound)
        }
        var request = Request(parameters: query, appID: app.id, scopes: [])
        let redirectURI = query["redirect_uri"] ?? app.callback
        guard app.accepts(redirectURI) else {
            // GitHub sends this error to the registered callback URL.
            return respond(
                request,
                [
                    "error": "redirect_uri_mismatch",
                    "error_description":
                        "The redirect_uri MUST match the registered callback URL for this application.",
                ],
                at: app.callback
            )
        }
        if query["code_challenge"] != nil, query["code_challenge_method"] != "S256" {
            return .page("Bad request", "<p>Only the S256 code challenge method is accepted.</p>", status: .badRequest)
        }
        let user = received.request.sessionCookie.flatMap { session in state.withLock { $0.sessions[session] } }
        request.user = query["prompt"] == "select_account" ? nil : user
        let asked = query["scope"].map { Self.normalized(Self.scopes(in: $0)) }
        request.scopes = app.kind == .gitHubApp ? [] : asked
        return show(request)
    }

    /// The scopes that a request asks the user for. An app that requests no scopes receives the scopes that the user has already granted.
    private func scopes(of request: Request) -> [String] {
        if let scopes = request.scopes { return scopes }
        guard let user = request.user else { return [] }
        return state.withLock { $0.grants[Grant(user: user, appID: request.appID)] } ?? []
    }

    /// The scopes in a parameter, separated by spaces or commas.
    static func scopes(in text: String) -> [String] { text.split { $0 == " " || $0 == "," }.map(String.init) }

    private func show(_ request: Request) -> TransportResponse {
        let id = OIDCEmulator.randomID()
        state.withLock { $0.pending[id] = request }
        guard request.user != nil else { return .signInPage(id) }
        return .consentPage(id, client: request.appID, scopes: scopes(of: request))
    }

    func signIn(_ form: FormParameters) -> TransportResponse {
        guard let id = form["request"], var request = state.withLock({ $0.pending[id] }) else {
            return .page("Too late", "<p>Start again.</p>", status: .badRequest)
        }
        let index = users.firstIndex { $0.login == form["username"] && $0.password == form["password"] }
        guard let index else { return .signInPage(id, message: "Incorrect username or password.") }
        request.user = index
        let session = OIDCEmulator.randomID()
        state.withLock { [request] in
            $0.pending[id] = request
            $0.sessions[session] = index
        }
        // The device page requires a signed-in user before it asks for the code.
        var page: TransportResponse =
            request.appID.isEmpty
            ? .userCodePage(action: "/login/device")
            : .consentPage(id, client: request.appID, scopes: scopes(of: request))
        page.head.headerFields[.setCookie] = "authflow_emulator=\(session); Path=/; HttpOnly; SameSite=Lax"
        return page
    }

    func consent(_ form: FormParameters) -> TransportResponse {
        guard let id = form["request"], let request = state.withLock({ $0.pending.removeValue(forKey: id) }),
            let user = request.user
        else { return .page("Too late", "<p>Start again.</p>", status: .badRequest) }
        let isAllowed = form["decision"] == "allow"
        let scopes = scopes(of: request).filter { !settings.refusedScopes.contains($0) }
        let grant = Grant(user: user, appID: request.appID)
        let token = Token(
            grant: grant,
            scopes: scopes,
            isOfDevice: request.deviceCode != nil,
            isRefreshable: Self.scopes(in: request.parameters["scope"] ?? "").contains("offline_access")
        )
        if isAllowed { state.withLock { $0.add(scopes, to: grant) } }
        if let deviceCode = request.deviceCode {
            state.withLock { $0.deviceCodes.decide(deviceCode, isAllowed ? .approved(token) : .denied) }
            return .page(isAllowed ? "Congratulations, you're all set!" : "Denied", "<p>Your device was notified.</p>")
        }
        guard isAllowed else {
            return respond(
                request,
                ["error": "access_denied", "error_description": "The user has denied your application access."]
            )
        }
        let code = OIDCEmulator.randomID()
        // "a temporary code ... The code will expire after 10 minutes."
        state.withLock { $0.codes[code] = Code(request: request, token: token, expiresAt: now() + 600) }
        return respond(request, ["code": code, "browser_session_id": "1"])
    }

    private func respond(_ request: Request, _ parameters: FormParameters, at address: String? = nil)
        -> TransportResponse
    {
        var parameters = parameters
        if let state = request.parameters["state"] { parameters.append("state", state) }
        settings.fault?.callback.change(&parameters)
        let redirectURI = address ?? request.parameters["redirect_uri"] ?? app(request.appID)?.callback ?? ""
        return .redirect(to: "\(redirectURI)?\(FormURLEncoding.encodeQuery(parameters))")
    }

    /// The verification page, which the user opens on another device. It requires the user to sign in first.
    func devicePage(_ received: ReceivedRequest) -> TransportResponse {
        let user = received.request.sessionCookie.flatMap { session in state.withLock { $0.sessions[session] } }
        guard let user else { return show(Request(parameters: [:], appID: "", scopes: [])) }
        guard let userCode = received.query["user_code"] else { return .userCodePage(action: "/login/device") }
        guard let (deviceCode, code) = state.withLock({ $0.deviceCodes.entered(userCode) }) else {
            return .userCodePage(action: "/login/device", message: "The code is not valid.")
        }
        let isGitHubApp = app(code.clientID)?.kind == .gitHubApp
        return show(
            Request(
                parameters: code.parameters,
                appID: code.clientID,
                scopes: isGitHubApp ? [] : Self.normalized(Self.scopes(in: code.scope)),
                user: user,
                deviceCode: deviceCode
            )
        )
    }

    /// Approves or denies a device code, as a user would on the verification page.
    /// - Parameters:
    ///   - userCode: The user code that the client displays.
    ///   - user: The user who approves it; nil to deny it.
    public func decide(_ userCode: String, as user: User?) {
        state.withLock { state in
            guard let (deviceCode, code) = state.deviceCodes.entered(userCode) else { return }
            guard let index = users.firstIndex(where: { $0.id == user?.id }) else {
                return state.deviceCodes.decide(deviceCode, .denied)
            }
            let asked = Self.scopes(in: code.scope)
            let scopes = app(code.clientID)?.kind == .gitHubApp ? [] : Self.normalized(asked)
            let grant = Grant(user: index, appID: code.clientID)
            state.add(scopes, to: grant)
            let token = Token(
                grant: grant,
                scopes: scopes,
                isOfDevice: true,
                isRefreshable: asked.contains("offline_access")
            )
            state.deviceCodes.decide(deviceCode, .approved(token))
        }
    }

    /// The scopes that each scope implies ("Normalized scopes").
    private static let implied: [String: [String]] = [
        "user": ["read:user", "user:email", "user:follow"],
        "repo": ["repo:status", "repo_deployment", "public_repo", "repo:invite", "security_events"],
        "admin:org": ["write:org", "read:org"], "write:org": ["read:org"],
    ]

    /// Removes scopes that other scopes imply, and `offline_access`, which is an option rather than a scope.
    static func normalized(_ scopes: [String]) -> [String] {
        let redundant = Set(scopes.flatMap { implied[$0] ?? [] })
        return scopes.filter { !redundant.contains($0) && $0 != "offline_access" }
    }
}

extension GitHubEmulator.State {
    /// Adds scopes to the scopes that a user has already granted to an app.
    fileprivate mutating func add(_ scopes: [String], to grant: GitHubEmulator.Grant) {
        let old = grants[grant] ?? []
        grants[grant] = GitHubEmulator.normalized(old + scopes.filter { !old.contains($0) })
    }
}

extension GitHubEmulator.App {
    /// The rules of "Redirect URLs" in "Authorizing OAuth apps".
    func accepts(_ uri: String) -> Bool {
        guard let asked = try? Endpoint(uri), let registered = try? Endpoint(callback) else { return uri == callback }
        let isLoopback = Endpoint.isLoopback(host: registered.host) && registered.host == asked.host
        let portMatches = asked.port == registered.port || isLoopback
        guard matchesBelow else {
            return uri == callback
                || isLoopback && asked.scheme == registered.scheme && asked.path == registered.path
                    && asked.query == nil
        }
        let hostMatches = asked.host == registered.host || asked.host.hasSuffix(".\(registered.host)")
        let folder = registered.path.hasSuffix("/") ? registered.path : "\(registered.path)/"
        let pathMatches = asked.path == registered.path || asked.path.hasPrefix(folder)
        return asked.scheme == registered.scheme && hostMatches && portMatches && pathMatches
    }
}
