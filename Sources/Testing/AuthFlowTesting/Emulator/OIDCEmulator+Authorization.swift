import AuthFlow
import AuthFlowEssentials
import Synchronization

// The front channel: the pages and redirects for the user's browser.

extension OIDCEmulator {
    func authorize(_ query: FormParameters, _ request: HTTPRequest) -> TransportResponse {
        // RFC 6749 section 4.1.2.1: for an invalid client or redirect URI, the user is informed and the browser is not redirected.
        guard let client = clients.first(where: { $0.id == query["client_id"] }) else {
            return .page("Unknown client", "<p>No such client is registered here.</p>", status: .badRequest)
        }
        guard let redirectURI = query["redirect_uri"], client.accepts(redirectURI) else {
            return .page("Wrong redirect URI", "<p>The redirect URI is not registered.</p>", status: .badRequest)
        }
        let authorization = Authorization(parameters: query, client: client, redirectURI: redirectURI)
        // RFC 8707 section 2: "Multiple resource parameters MAY be used".
        if let repeated = query.names.first(where: { $0 != "resource" && query.values(for: $0).count > 1 }) {
            return respond(authorization, ["error": "invalid_request", "error_description": "\(repeated) is repeated"])
        }
        guard query["response_type"] == "code" else {
            return respond(authorization, ["error": "unsupported_response_type"])
        }
        guard query["code_challenge_method"] == "S256", query["code_challenge"]?.utf8.count == 43 else {
            return respond(
                authorization,
                ["error": "invalid_request", "error_description": "PKCE with S256 is required"]
            )
        }
        guard (query["state"] ?? "").utf8.count >= 16 else {
            return respond(authorization, ["error": "invalid_request", "error_description": "state is too short"])
        }
        if state.withLock({ $0.settings.fault?.keySet.rotation == .atAuthorization }) { try? rotateKeys() }
        guard Self.responseMode(of: authorization) != nil else {
            return respond(authorization, ["error": "invalid_request", "error_description": "unknown response_mode"])
        }
        let id = Self.randomID()
        var session = request.sessionCookie.flatMap { session in state.withLock { $0.sessions[session] } }
        if let began = session?.began, let maximum = query["max_age"].flatMap(Double.init) {
            // OIDC Core section 3.1.2.1: with max_age=0, every user must sign in again.
            if now().timeIntervalSince(began) >= maximum { session = nil }
        }
        // OIDC Core section 3.1.2.1: with prompt=none the server "MUST NOT display any authentication or consent user interface pages".
        if query["prompt"] == "none" {
            guard let session else { return respond(authorization, ["error": "login_required"]) }
            let isAllowed = state.withLock { $0.consents[session.userIndex]?.contains(authorization.client.id) == true }
            guard isAllowed else { return respond(authorization, ["error": "consent_required"]) }
            return respond(
                authorization,
                ["code": newCode(for: Grant(authorization: authorization, session: session))]
            )
        }
        var pending = authorization
        pending.session = query["prompt"] == "login" ? nil : session
        state.withLock { [pending] in $0.pending[id] = pending }
        return pending.session == nil ? .signInPage(id) : consentPage(id, pending)
    }

    /// Completes an authorization request as a user who signs in and consents would, without showing any page.
    /// - Parameters:
    ///   - url: The URL of the request.
    ///   - username: The name of one of the emulator's users.
    /// - Returns: The redirect with the authorization response; empty for the response mode `form_post`.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration` when there is no such client or user.
    public func redirect(for url: String, as username: String) throws -> String {
        let query = parameters(ofRequestAt: url)
        guard let client = clients.first(where: { $0.id == query["client_id"] }),
            let user = userIndexes[username]
        else { throw AuthError(.invalidConfiguration, "The emulator has no such client or user.") }
        let response = grantedCode(query, client, userIndex: user, began: now(), acr: nil)
        return response.head.headerFields[.location] ?? ""
    }

    func signIn(_ form: FormParameters) -> TransportResponse {
        guard let id = form["request"], var authorization = state.withLock({ $0.pending[id] }) else {
            return .page("Too late", "<p>This sign-in has ended. Start again.</p>", status: .badRequest)
        }
        let user = users.firstIndex { $0.username == form["username"] && $0.password == form["password"] }
        guard let user else { return TransportResponse.signInPage(id, message: "The user name or password is wrong.") }
        authorization.session = Session(userIndex: user, began: now())
        let session = Self.randomID()
        state.withLock { [authorization] in
            $0.pending[id] = authorization
            $0.sessions[session] = authorization.session
        }
        var page = consentPage(id, authorization)
        page.head.headerFields[.setCookie] = "authflow_emulator=\(session); Path=/; HttpOnly; SameSite=Lax"
        return page
    }

    func consent(_ form: FormParameters) -> TransportResponse {
        guard let id = form["request"], let authorization = state.withLock({ $0.pending.removeValue(forKey: id) }),
            let session = authorization.session
        else { return .page("Too late", "<p>This sign-in has ended. Start again.</p>", status: .badRequest) }
        guard form["decision"] == "allow" else {
            if let deviceCode = authorization.deviceCode {
                state.withLock { $0.deviceCodes.decide(deviceCode, .denied) }
                return .page("Denied", "<p>The program that showed you the code has been notified.</p>")
            }
            return respond(
                authorization,
                ["error": "access_denied", "error_description": "The user denied the request"]
            )
        }
        state.withLock { _ = $0.consents[session.userIndex, default: []].insert(authorization.client.id) }
        if let deviceCode = authorization.deviceCode {
            let grant = Grant(authorization: authorization, session: session)
            state.withLock { $0.deviceCodes.decide(deviceCode, .approved(grant)) }
            return .page("Signed in", "<p>You can return to the program that showed you the code.</p>")
        }
        return respond(
            authorization,
            ["code": newCode(for: Grant(authorization: authorization, session: session))]
        )
    }

    private func newCode(for grant: Grant) -> String {
        let code = Self.randomID()
        // RFC 6749 section 4.1.2: "A maximum authorization code lifetime of 10 minutes is RECOMMENDED."
        let expiresAt = now().addingTimeInterval(600)
        state.withLock { $0.codes[code] = IssuedCode(grant: grant, expiresAt: expiresAt) }
        return code
    }

    /// Sends an authorization response with a code, for an emulator that wraps this one and has signed the user in.
    func grantedCode(_ query: FormParameters, _ client: Client, userIndex: Int, began: Date, acr: String?)
        -> TransportResponse
    {
        let authorization = Authorization(parameters: query, client: client, redirectURI: query["redirect_uri"] ?? "")
        var grant = Grant(authorization: authorization, session: Session(userIndex: userIndex, began: began))
        grant.acr = acr
        return respond(authorization, ["code": newCode(for: grant)])
    }

    /// Sends an authorization response with an error, for an emulator that wraps this one.
    func refusedCode(_ query: FormParameters, _ client: Client, _ error: String) -> TransportResponse {
        respond(
            Authorization(parameters: query, client: client, redirectURI: query["redirect_uri"] ?? ""),
            ["error": error]
        )
    }

    /// Sends an authorization response (RFC 6749 section 4.1.2, RFC 9207).
    private func respond(_ authorization: Authorization, _ parameters: FormParameters) -> TransportResponse {
        var parameters = parameters
        if let state = authorization.parameters["state"] { parameters.append("state", state) }
        parameters.append("iss", issuer)
        settings.fault?.callback.change(&parameters)
        let mode = Self.responseMode(of: authorization) ?? .query
        if mode.isSigned {
            guard let response = signedResponse(parameters, to: authorization.client) else { return .failure }
            parameters = ["response": response]
            settings.fault?.signedResponse.unsignedParameters(&parameters)
        }
        guard mode.delivery != .formPost else { return formPostPage(authorization, parameters) }
        return .redirect(to: RedirectResponse.url(authorization.redirectURI, adding: parameters, mode.delivery))
    }

    private static func responseMode(of authorization: Authorization) -> ResponseMode? {
        ResponseMode(rawValue: authorization.parameters["response_mode"] ?? "query")
    }

    /// OAuth 2.0 Form Post Response Mode section 2: a form that submits itself.
    private func formPostPage(_ authorization: Authorization, _ parameters: FormParameters) -> TransportResponse {
        let fields = parameters.pairs.map { pair in
            """
            <input type="hidden" name="\(DisplayText.escapedForHTML(pair.name))" \
            value="\(DisplayText.escapedForHTML(pair.value))">
            """
        }
        return .page(
            "One moment",
            """
            <form method="post" action="\(DisplayText.escapedForHTML(authorization.redirectURI))">
            \(fields.joined(separator: "\n"))
            <noscript><button type="submit">Continue</button></noscript>
            </form>
            <script>document.forms[0].submit()</script>
            """
        )
    }

    private func consentPage(_ id: String, _ authorization: Authorization) -> TransportResponse {
        .consentPage(id, client: authorization.client.id, scopes: authorization.scopes)
    }

    static func randomID() -> String { Base64URL.encode(HostServices.systemRandomBytes(24)) }
}
