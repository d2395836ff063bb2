import AuthFlow
import AuthFlowEssentials
import Synchronization

// The part of the REST API that sign-in, sign-out and the sample need.

extension GitHubEmulator {
    private static let versions = ["2022-11-28", "2026-03-10"]

    func api(_ request: HTTPRequest, _ path: String, _ body: [UInt8]) -> TransportResponse {
        guard request.headerFields[.userAgent]?.isEmpty == false else {
            return message(
                "Request forbidden by administrative rules. Please make sure your request has a User-Agent header",
                403
            )
        }
        if let field = HTTPField.Name("X-GitHub-Api-Version"), let version = request.headerFields[field],
            !Self.versions.contains(version)
        {
            return message("The API version is not supported", 410)
        }
        if let limited = rateLimited() { return limited }
        if path.hasPrefix("/applications/") { return application(request, path, body) }
        let authorization = request.headerFields[.authorization] ?? ""
        let text = authorization.split(separator: " ", maxSplits: 1).last.map(String.init) ?? ""
        let scheme = authorization.prefix { $0 != " " }.lowercased()
        guard scheme == "bearer" || scheme == "token", let token = state.withLock({ $0.tokens[text] }),
            token.expiresAt.map({ now() < $0 }) ?? true
        else { return message("Bad credentials", 401) }
        var response = resource(path, token)
        response.head.headerFields[HTTPField.Name(known: "X-OAuth-Scopes")] = token.scopes.joined(separator: ", ")
        return response
    }

    private func message(_ text: String, _ status: Int) -> TransportResponse {
        .json(["message": .string(text)], status: HTTPResponse.Status(code: status))
    }

    /// "Exceeding the rate limit": status 403 with `x-ratelimit-remaining: 0` and the reset time.
    private func rateLimited() -> TransportResponse? {
        let isExhausted = state.withLock { state in
            guard let remaining = state.settings.remainingCalls else { return false }
            state.settings.remainingCalls = max(0, remaining - 1)
            return remaining == 0
        }
        guard isExhausted else { return nil }
        var response = message("API rate limit exceeded", 403)
        let reset = Int64(now().timeIntervalSince1970) + 1800
        response.head.headerFields[HTTPField.Name(known: "x-ratelimit-remaining")] = "0"
        response.head.headerFields[HTTPField.Name(known: "x-ratelimit-reset")] = "\(reset)"
        return response
    }

    private func resource(_ path: String, _ token: Token) -> TransportResponse {
        let user = users[token.grant.user]
        func needs(_ scopes: [String], _ json: JSON) -> TransportResponse {
            let has = app(token.grant.appID)?.kind == .gitHubApp || !Set(scopes).isDisjoint(with: token.scopes)
            return has ? .json(json) : message("Not Found", 404)
        }
        switch path {
        case "/user": return (settings.fault?.userInfo ?? UserInfoFault()).applied(to: describe(user))
        case "/user/emails":
            return needs(
                ["user", "user:email"],
                [["email": .string(user.email), "verified": .bool(user.hasVerifiedEmail), "primary": true]]
            )
        case "/user/orgs": return needs(["admin:org", "write:org", "read:org"], [["login": "example", "id": 9919]])
        case "/gists": return needs(["gist"], [["id": "aa5a315d61ae9438b18d", "description": "Hello"]])
        default: return message("Not Found", 404)
        }
    }

    private func describe(_ user: User) -> [String: JSON] {
        [
            "id": .integer(user.id), "login": .string(user.login), "name": .null, "type": "User",
            "email": .string(user.email), "html_url": .string("\(origin)/\(user.login)"),
        ]
    }

    /// "REST API endpoints for OAuth authorizations".
    private func application(_ request: HTTPRequest, _ path: String, _ body: [UInt8]) -> TransportResponse {
        let parts = path.split(separator: "/").map(String.init)
        guard parts.count == 3, let app = app(parts[1]), let credentials = Self.basic(request),
            credentials.id == app.id, credentials.secret == app.secret
        else { return message("Not Found", 404) }
        let text = (try? JSON(parsing: body))?["access_token"]?.string ?? ""
        guard let token = state.withLock({ $0.tokens[text] }), token.grant.appID == app.id,
            token.expiresAt.map({ now() < $0 }) ?? true
        else { return message("Not Found", 404) }
        switch (request.method, parts[2]) {
        case (.post, "token"): return .json(describe(token, text))
        case (.patch, "token"):
            var token = token
            token.accessToken = String(text.prefix(4)) + Self.randomText(36)
            state.withLock { [token] state in
                state.tokens[text] = nil
                state.tokens[token.accessToken] = token
                // A refresh revokes the access token that was issued with the refresh token, or its replacement.
                for (refreshToken, issued) in state.refreshTokens where issued.accessToken == text {
                    state.refreshTokens[refreshToken]?.accessToken = token.accessToken
                }
            }
            return .json(describe(token, token.accessToken))
        case (.delete, "token"):
            state.withLock { $0.tokens[text] = nil }
            return TransportResponse(head: HTTPResponse(status: .noContent))
        case (.delete, "grant"):
            state.withLock { state in
                state.tokens = state.tokens.filter { $0.value.grant != token.grant }
                state.refreshTokens = state.refreshTokens.filter { $0.value.grant != token.grant }
                state.grants[token.grant] = nil
            }
            return TransportResponse(head: HTTPResponse(status: .noContent))
        default: return message("Not Found", 404)
        }
    }

    private func describe(_ token: Token, _ text: String) -> JSON {
        [
            "token": .string(text), "scopes": .array(token.scopes.map(JSON.string)),
            "app": ["client_id": .string(token.grant.appID)], "user": .object(describe(users[token.grant.user])),
        ]
    }
}
