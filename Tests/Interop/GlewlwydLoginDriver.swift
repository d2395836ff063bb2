import AuthFlow
import AuthFlowHeadless
import AuthFlowJSON
import HTTPTypes

/// Signs in at Glewlwyd through the API that its sign-in page, a JavaScript application, uses.
struct GlewlwydLoginDriver: LoginDriver {
    let username: String
    let password: Secret
    /// The only origin to which the password is sent.
    let origin: String

    func next(after page: HeadlessPage, in browser: HeadlessBrowser) async throws -> HeadlessNavigation {
        let query = FormURLEncoding.decode(page.endpoint.query ?? "")
        guard page.endpoint.origin == origin, page.endpoint.path.hasSuffix("/login.html"),
            let callback = query?["callback_url"], let clientID = query?["client_id"]
        else {
            throw AuthError(.userAgentFailed, "\(page.endpoint) is not Glewlwyd's sign-in page.")
        }
        guard let scope = query?["scope"] else {
            throw AuthError(.userAgentFailed, "\(page.endpoint) is not Glewlwyd's sign-in page.")
        }
        guard !page.hasTypedCredentials else {
            throw AuthError(.accessDenied, "Glewlwyd did not accept the user name and password.")
        }
        try await send(
            .post,
            "/api/auth/",
            ["username": .string(username), "password": .string(password.exposed)],
            browser
        )
        try await send(.put, "/api/auth/grant/\(clientID)", ["scope": .string(scope)], browser)
        return .visit(try Endpoint("\(callback)&g_continue", name: "callback_url"))
    }

    func confirmSignOut(
        on page: HeadlessPage,
        at origin: String,
        in browser: HeadlessBrowser
    ) async throws -> HeadlessNavigation {
        let query = FormURLEncoding.decode(page.endpoint.query ?? "")
        guard page.endpoint.origin == self.origin, query?["prompt"] == "end_session", let session = query?["sid"],
            let plugin = query?["plugin"], let callback = query?["callback_url"]
        else { throw AuthError(.userAgentFailed, "\(page.endpoint) is not Glewlwyd's sign-out page.") }
        // The requests that the page sends when a signed-in user confirms the sign-out. Glewlwyd ends a session only for
        // a browser that has a session cookie, and this browser has none, so the driver signs in first.
        try await send(
            .post,
            "/api/auth/",
            ["username": .string(username), "password": .string(password.exposed)],
            browser
        )
        try await send(.delete, "/api/\(plugin)/session/\(session)", nil, browser)
        try await send(.delete, "/api/auth/", nil, browser)
        return .visit(try Endpoint(callback, name: "callback_url"))
    }

    private func send(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ json: JSON?,
        _ browser: HeadlessBrowser
    ) async throws {
        let response = try await browser.send(
            TransportRequest(
                method,
                try Endpoint(origin + path),
                headerFields: [.contentType: "application/json"],
                body: try json?.serialized() ?? []
            )
        )
        guard response.status == 200 else {
            throw AuthError(.accessDenied, "Glewlwyd responded to \(method) \(path) with status \(response.status).")
        }
    }
}

extension UserAgentFactory {
    /// The `glewlwyd` user agent, which is selected by configuration and uses the driver above.
    static var glewlwyd: UserAgentFactory {
        let username = ConfigurationKey("username", required: .text, "The user name.")
        let password = ConfigurationKey("password", required: .secret, "The password, by reference.")
        let origin = ConfigurationKey("origin", required: .url, "The only origin that receives the credentials.")
        return UserAgentFactory("glewlwyd", keys: [username, password, origin]) { options, context in
            HeadlessUserAgent(
                driver: GlewlwydLoginDriver(
                    username: try options[username],
                    password: try options[password],
                    origin: try options[origin].origin
                ),
                transport: context.transport
            )
        }
    }
}
